//! Licences of outside crates, and crates that come in more than one version. `deny.toml` says the same to cargo-deny,
//! which needs a tool; this needs none.

use std::collections::BTreeMap;

use echelon_tests::tree::{Crate, all_crates};

use crate::{none, tree};

/// Licences that an Apache-2.0 program may be built with, as `deny.toml` lists them.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that come in several versions, and who is to blame. The list only shrinks: delete a line that is no longer needed.
const TWICE: &[(&str, &str)] = &[
    (
        "ahash",
        "zookeeper-client through hashbrown 0.12; dashmap's hashbrown is newer",
    ),
    ("base64", "serde-saphyr is ahead of tonic and prost-reflect"),
    ("foldhash", "petgraph through hashbrown 0.15"),
    ("getrandom", "ahash 0.7 and rand 0.9"),
    (
        "hashbrown",
        "zookeeper-client, dashmap of scylla, petgraph of prost-build",
    ),
    ("heck", "zookeeper-client through strum 0.23"),
    ("itertools", "prost is behind scylla"),
    ("rand", "scylla is behind proptest"),
    ("rand_core", "comes with rand"),
    (
        "syn",
        "a third of all derives are not yet at 3, zookeeper-client's are at 1",
    ),
    ("thiserror", "zookeeper-client"),
    ("thiserror-impl", "comes with thiserror"),
    ("toml_datetime", "zookeeper-client through toml_edit 0.19"),
    ("unicode-width", "miette of protox, at build time"),
    ("winnow", "zookeeper-client through toml_edit 0.19"),
];

#[test]
fn every_licence_is_allowed() {
    let tree = tree();
    let crates = all_crates(&tree.root).unwrap();
    assert!(
        crates.len() > 100,
        "cargo metadata told of {} crates only",
        crates.len()
    );
    let faults = crates.iter().filter(|one| !allowed(&one.licence));
    none(
        "licences",
        faults
            .map(|one| format!("{} {}: {:?}", one.name, one.version, one.licence))
            .collect(),
    );
}

#[test]
fn no_crate_comes_twice_without_a_reason() {
    let tree = tree();
    let twice = several(&all_crates(&tree.root).unwrap());
    let is_known = |name: &str| TWICE.iter().any(|(known, _)| *known == name);
    let faults = twice.iter().filter(|(name, _)| !is_known(name));
    none(
        "crates in several versions",
        faults
            .map(|(name, versions)| format!("{name} {versions:?}"))
            .collect(),
    );
    let stale = TWICE.iter().filter(|(name, _)| !twice.contains_key(*name));
    none(
        "no longer needed in the list TWICE",
        stale.map(|(name, _)| (*name).to_owned()).collect(),
    );
}

/// Names with their versions, where there are several.
fn several(crates: &[Crate]) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates {
        versions
            .entry(one.name.clone())
            .or_default()
            .push(one.version.clone());
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

/// An expression of names, AND, OR and brackets: all of an AND, one of an OR. `/` is an old way to write OR.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let expression = expression.trim();
    if let Some(sides) = split(expression, " AND ") {
        return sides.iter().all(|side| allowed(side));
    }
    if let Some(sides) = split(expression, " OR ") {
        return sides.iter().any(|side| allowed(side));
    }
    let inside = expression
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    inside.map_or_else(|| LICENCES.contains(&expression), allowed)
}

/// The sides of `by` outside brackets, none when there is no such `by`.
fn split<'a>(expression: &'a str, by: &str) -> Option<Vec<&'a str>> {
    let at = expression.match_indices(by).map(|(at, _)| at).find(|at| {
        let before = &expression[..*at];
        before.matches('(').count() == before.matches(')').count()
    })?;
    let (left, right) = (&expression[..at], &expression[at + by.len()..]);
    Some([vec![left], split(right, by).unwrap_or(vec![right])].concat())
}

#[test]
fn expressions_of_licences() {
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("MIT OR (Apache-2.0 AND GPL-3.0)", true),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
    ] {
        assert_eq!(allowed(expression), expected, "{expression}");
    }
}
