//! Which package may depend on which, and which outside crate may be used where.

use echelon_tests::tree::{Dependency, Kind, Package, Tree};

use crate::{none, tree};

/// What the product code of a folder may depend on inside the workspace. A name that ends in `/` stands for all below it.
/// The longest matching folder counts.
const ARROWS: &[(&str, &[&str])] = &[
    ("core/model", &[]),
    ("core/pools", &["core/model"]),
    ("core/routing", &["core/model"]),
    ("core/jobs", &["core/model"]),
    ("core/placement", &["core/model"]),
    ("core/hosts", &["core/model"]),
    // the rules of the pool tree
    ("core/gateway", &["core/model", "core/pools"]),
    (
        "core/resource-manager",
        &["core/model", "core/pools", "core/routing"],
    ),
    (
        "core/shard",
        &["core/model", "core/jobs", "core/placement", "core/hosts"],
    ),
    ("core/testkit", &["core/"]),
    // wire <-> model, and wire <-> hosts' events and calls, which are all that a kind of cluster must speak
    ("proto", &["core/model", "core/hosts"]),
    // stored rows are protobuf
    ("io/credit", &[]),
    ("io/storage", &["core/model", "proto", "io/credit"]),
    ("io/membership", &["core/model"]),
    ("io/mesos", &["core/model", "core/hosts", "proto", "io/credit"]),
    (
        "io/mesos-sim",
        &["core/model", "sim/mesos", "proto", "io/process"],
    ),
    ("io/process", &["core/model"]),
    ("io/changes", &["core/model", "proto"]),
    (
        "gateway",
        &[
            "core/gateway",
            "core/model",
            "proto",
            "io/storage",
            "io/membership",
            "io/changes",
            "io/process",
        ],
    ),
    (
        "resource-manager",
        &[
            "core/resource-manager",
            "core/model",
            "proto",
            "io/credit",
            "io/storage",
            "io/membership",
            "io/changes",
            "io/process",
        ],
    ),
    (
        "shard",
        &[
            "core/shard",
            "core/hosts",
            "core/placement",
            "core/model",
            "proto",
            "io/credit",
            "io/storage",
            "io/membership",
            "io/changes",
            "io/process",
            "io/mesos",
        ],
    ),
    ("clients", &["proto"]),
    // core/pools: the checker of certificates runs at the client, which need not believe the resource manager
    // sim/replay: `pool simulate` decides at the client, as the resource manager would
    (
        "cli",
        &["clients/rust", "core/model", "core/pools", "proto", "sim/replay"],
    ),
    (
        "echelon",
        &[
            "core/",
            "proto",
            "io/",
            "gateway",
            "resource-manager",
            "shard",
            "clients/rust",
            "cli",
            "sim/",
        ],
    ),
    ("sim/mesos", &["core/", "proto"]),
    // what decides in production decides here
    (
        "sim/replay",
        &["core/model", "core/resource-manager", "core/placement"],
    ),
    ("sim/world", &["core/", "proto", "sim/mesos"]),
    // its suites use everything, as dev-dependencies; its library knows no product crate
    ("tests", &[]),
    // starts the servers and the binary as the suites do, and is judged by what shares no code with them
    ("tests/soak", &["tests", "tests/judge"]),
    ("xtask", &["tests"]),
];

/// Outside crates that decide nothing by themselves: no clock, no randomness, no threads, no I/O.
const PURE: &[&str] = &["thiserror", "indexmap", "smallvec", "itertools", "thin-vec"];

/// What one folder below core/ or sim/ may use beside the pure ones, and why.
const PURE_HERE: &[(&str, &str)] = &[
    ("core/model", "regex"), // patterns of hosts' attributes, bounded in size; matches in linear time
    ("core/placement", "regex"), // the type of a pattern that is ready
    ("core/model", "cronexpr"), // reads cron expressions; asked about a clock without zone or jumps only
    ("core/model", "hmac"),  // seals tokens of drivers
    ("core/model", "sha2"),  // the hash below it
    ("core/model", "jiff"), // rules of time zones, from the database built into the program; no clock is read
    ("core/model", "strsim"), // the nearest name to a wrong one; pure, without dependencies
    ("core/routing", "consistent_hash"), // the ring of a job's home
    ("core/testkit", "proptest"), // strategies; the crate is for tests only
    ("sim/mesos", "prost"), // speaks Mesos' messages
    ("sim/replay", "serde"), // the figures of a run are kept, to compare with
    ("sim/world", "rand"),  // a seeded stream for each kind of fault
];

/// Outside crates that have one home each, so that a change of them touches one room.
const HOMES: &[(&str, &[&str])] = &[
    ("consistent_hash", &["core/routing"]),
    ("maud", &["gateway"]),
    ("redb", &["io/storage"]),
    ("scylla", &["io/storage"]),
    // Echelon's own ZooKeeper, and that of Mesos' masters, which is read only
    ("zookeeper-client", &["io/membership", "io/mesos"]),
];

#[test]
fn every_arrow_is_in_the_table() {
    let tree = tree();
    let faults = normal_arrows(&tree).filter_map(|(from, to)| match rule(&from.folder) {
        None => Some(format!("{} has no rule", from.folder)),
        Some(allowed) => (!allowed.iter().any(|pattern| covers(pattern, to)))
            .then(|| format!("{} must not depend on {to}", from.folder)),
    });
    none("arrows that ARCHITECTURE.md does not have", faults.collect());
}

#[test]
fn every_folder_has_a_rule_and_every_rule_a_folder() {
    let tree = tree();
    let without = tree
        .packages
        .iter()
        .filter(|package| rule(&package.folder).is_none());
    none(
        "folders without a rule",
        without.map(|package| package.folder.clone()).collect(),
    );
    let is_there = |folder: &str| tree.packages.iter().any(|package| below(folder, &package.folder));
    let stale = ARROWS
        .iter()
        .map(|(folder, _)| *folder)
        .filter(|folder| !is_there(folder));
    none(
        "rules about folders that are not there",
        stale.map(str::to_owned).collect(),
    );
}

#[test]
fn the_testkit_is_for_tests_and_the_simulated_world() {
    let tree = tree();
    let users = normal_arrows(&tree).filter(|(from, to)| *to == "core/testkit" && from.folder != "sim/world");
    none(
        "users of core/testkit",
        users.map(|(from, _)| from.folder.clone()).collect(),
    );
}

#[test]
fn what_is_pure_uses_pure_crates_only() {
    let tree = tree();
    let faults = outside(&tree, &[Kind::Normal, Kind::Build]).filter(|(package, dependency)| {
        let named = (package.folder.as_str(), dependency.name.as_str());
        is_pure(&package.folder) && !PURE.contains(&named.1) && !PURE_HERE.contains(&named)
    });
    none(
        "outside crates in core/ and sim/ that nobody has argued for",
        described(faults),
    );
}

#[test]
fn what_is_pure_knows_no_tokio_not_even_in_tests() {
    let tree = tree();
    let kinds = [Kind::Normal, Kind::Build, Kind::Dev];
    let faults = outside(&tree, &kinds).filter(|(package, dependency)| {
        is_pure(&package.folder) && (dependency.name.starts_with("tokio") || dependency.name == "tonic")
    });
    none("runtimes in core/ and sim/", described(faults));
}

#[test]
fn the_simulation_uses_messages_without_grpc() {
    let tree = tree();
    let asks = |dependency: &Dependency| dependency.features.iter().any(|feature| feature == "grpc");
    let pure = tree.packages.iter().filter(|package| is_pure(&package.folder));
    let faults = pure.filter(|package| package.dependencies.iter().any(asks));
    none(
        "packages that pull tonic in through proto",
        faults.map(|package| package.folder.clone()).collect(),
    );
}

#[test]
fn crates_with_a_home_are_used_there_only() {
    let tree = tree();
    let faults = outside(&tree, &[Kind::Normal, Kind::Build]).filter(|(package, dependency)| {
        let home = HOMES.iter().find(|(name, _)| *name == dependency.name);
        home.is_some_and(|(_, folders)| !folders.contains(&package.folder.as_str()))
    });
    none("outside crates away from their home", described(faults));
}

#[test]
fn a_package_is_called_after_its_folder() {
    let tree = tree();
    let expected = |folder: &str| match folder {
        "echelon" | "xtask" => folder.to_owned(),
        folder => format!("echelon-{}", folder.replace('/', "-")),
    };
    let faults = tree
        .packages
        .iter()
        .filter(|package| package.name != expected(&package.folder));
    none(
        "package names",
        faults
            .map(|package| format!("{} in {}", package.name, package.folder))
            .collect(),
    );
}

fn normal_arrows(tree: &Tree) -> impl Iterator<Item = (&Package, &str)> {
    tree.packages.iter().flat_map(|from| {
        let normal = from
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != Kind::Dev);
        normal.filter_map(move |dependency| Some((from, dependency.folder.as_deref()?)))
    })
}

fn outside<'a>(tree: &'a Tree, kinds: &'a [Kind]) -> impl Iterator<Item = (&'a Package, &'a Dependency)> {
    tree.packages.iter().flat_map(move |package| {
        let outside = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.folder.is_none());
        outside
            .filter(move |dependency| kinds.contains(&dependency.kind))
            .map(move |dependency| (package, dependency))
    })
}

fn described<'a>(found: impl Iterator<Item = (&'a Package, &'a Dependency)>) -> Vec<String> {
    found
        .map(|(package, dependency)| format!("{} in {}", dependency.name, package.folder))
        .collect()
}

fn rule(folder: &str) -> Option<&'static [&'static str]> {
    let matching = ARROWS.iter().filter(|(pattern, _)| below(pattern, folder));
    matching
        .max_by_key(|(pattern, _)| pattern.len())
        .map(|(_, allowed)| *allowed)
}

fn is_pure(folder: &str) -> bool {
    below("core", folder) || below("sim", folder)
}

/// Whether `folder` is `top` or below it.
fn below(top: &str, folder: &str) -> bool {
    folder
        .strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn covers(pattern: &str, folder: &str) -> bool {
    pattern
        .strip_suffix('/')
        .map_or(pattern == folder, |top| below(top, folder))
}

#[test]
fn the_longest_folder_counts() {
    assert_eq!(rule("core/model"), Some(&[][..]));
    assert_eq!(rule("clients/rust"), Some(&["proto"][..]));
    assert_eq!(rule("core/models"), None);
    assert!(covers("core/", "core/hosts") && covers("proto", "proto"));
    assert!(!covers("proto", "prototype") && !covers("core/", "corex"));
}
