//! What a run is told about itself in its environment, and `${NAME}` in the values that a job gives, for which that is put in. The one
//! list of names is here: the gateway judges references by it, and shards give what it says.

use crate::runtime::{Port, Runtime};
use std::collections::{BTreeMap, BTreeSet};

/// What every run is given, with what it says, for the pages that list it.
pub const GIVEN: [(&str, &str); 10] = [
    ("ECHELON_JOB", "name of the job"),
    ("ECHELON_JOB_ID", "id of the job"),
    ("ECHELON_GROUP", "name of the group"),
    (
        "ECHELON_INSTANCE",
        "number of the instance within the group, from 0",
    ),
    ("ECHELON_INSTANCES", "wanted instances of the group at the launch"),
    (
        "ECHELON_GENERATION",
        "counts the moves of the instance between clusters",
    ),
    ("ECHELON_RUN", "counts the runs of the instance, from 1"),
    ("ECHELON_CLUSTER", "name of the cluster"),
    ("ECHELON_HOST", "name of the host"),
    ("ECHELON_TASK_ID", "what Mesos calls the task"),
];

/// What a sidecar is given beside: its name.
pub const SIDECAR: &str = "ECHELON_SIDECAR";

/// All that a task is given, whatever the values: of a group's main task, or of one of its sidecars.
#[must_use]
pub fn names(main: &Runtime, sidecar: bool) -> BTreeSet<String> {
    let ports = main.ports.iter().map(|p| Port {
        name: p.name.clone(),
        number: 0,
    });
    let ports: Vec<Port> = ports.collect();
    let mut out: BTreeSet<String> = main.port_variables(&ports).into_keys().collect();
    out.extend(GIVEN.map(|(name, _)| name.to_owned()));
    out.extend(sidecar.then(|| SIDECAR.to_owned()));
    out
}

/// Puts what a task is given into the values of its environment, and beside them. What is given wins over a variable of the same name.
pub fn complete(env: &mut BTreeMap<String, String>, given: BTreeMap<String, String>) {
    for value in env.values_mut().filter(|v| v.contains("${")) {
        *value = expand(value, &given);
    }
    env.extend(given);
}

/// A part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Itself.
    Text(&'a str),
    /// The name of a variable, which stood in `${` and `}`.
    Reference(&'a str),
    /// A `${` that begins no reference, and all up to the next `}` or the end.
    Malformed(&'a str),
}

/// The pieces of a value, in order. `$${` stands for the characters `${`; a `$` before anything else is just that.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = first_piece(rest);
        rest = after;
        Some(piece)
    })
}

fn first_piece(text: &str) -> (Piece<'_>, &str) {
    if let Some(after) = text.strip_prefix("$${") {
        return (Piece::Text("${"), after);
    }
    let Some(inside) = text.strip_prefix("${") else {
        // Up to the next `$`, which may begin something.
        let next = text.char_indices().skip(1).find(|(_, c)| *c == '$');
        let (plain, after) = text.split_at(next.map_or(text.len(), |(at, _)| at));
        return (Piece::Text(plain), after);
    };
    let end = text.find('}').map_or(text.len(), |at| at + 1);
    let (whole, after) = text.split_at(end);
    match inside.split_once('}') {
        Some((name, after)) if is_name(name) => (Piece::Reference(name), after),
        _ => (Piece::Malformed(whole), after),
    }
}

fn is_name(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// A value with what is given in the place of references to it. What is not given stays as it was written: so a spec that was stored
/// before there were references means what it meant, unless it names just what runs are given.
#[must_use]
pub fn expand(text: &str, given: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) | Piece::Malformed(text) => out.push_str(text),
            Piece::Reference(name) => match given.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["${", name, "}"]),
            },
        }
    }
    out
}

/// The most bytes that a value takes when references in it are replaced, given the most that each takes.
#[must_use]
pub fn most_bytes(text: &str, longest: impl Fn(&str) -> usize) -> usize {
    let bytes = pieces(text).map(|piece| match piece {
        Piece::Text(text) | Piece::Malformed(text) => text.len(),
        Piece::Reference(name) => longest(name),
    });
    bytes.fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{PortSpec, Protocol, Visibility};
    use proptest::prelude::*;

    fn given(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        all.collect()
    }

    #[test]
    fn references_are_replaced_and_everything_else_stays() {
        let given = given(&[("ECHELON_INSTANCE", "7"), ("PORT_HTTP", "31000"), ("EMPTY", "")]);
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("${ECHELON_INSTANCE}", "7"),
            ("i-${ECHELON_INSTANCE}:${PORT_HTTP}/x", "i-7:31000/x"),
            ("a${EMPTY}b", "ab"),
            ("$${ECHELON_INSTANCE}", "${ECHELON_INSTANCE}"),
            ("$$${PORT_HTTP}", "$${PORT_HTTP}"),
            ("$${${PORT_HTTP}}", "${31000}"),
            (
                "$ECHELON_INSTANCE costs 5$ or $$",
                "$ECHELON_INSTANCE costs 5$ or $$",
            ),
            // Of specs that were stored before there were references.
            ("${HOME}/x", "${HOME}/x"),
            ("${HOME:-/root}", "${HOME:-/root}"),
            ("${", "${"),
            ("${}", "${}"),
            ("${1A}", "${1A}"),
            ("ä${PORT_HTTP}ö", "ä31000ö"),
        ] {
            assert_eq!(expand(text, &given), expected, "{text}");
        }
    }

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        let given = given(&[("A", "${B}"), ("B", "b")]);
        assert_eq!(expand("${A}", &given), "${B}");
    }

    #[test]
    fn what_is_given_wins_over_a_variable_of_its_name() {
        let mut env = given(&[("URL", "http://${ECHELON_HOST}"), ("ECHELON_HOST", "mine")]);
        complete(&mut env, given(&[("ECHELON_HOST", "h1")]));
        assert_eq!(env, given(&[("URL", "http://h1"), ("ECHELON_HOST", "h1")]));
    }

    #[test]
    fn what_is_malformed_is_told_whole() {
        let found: Vec<Piece<'_>> = pieces("a${b c}d${e").collect();
        assert_eq!(
            found,
            [
                Piece::Text("a"),
                Piece::Malformed("${b c}"),
                Piece::Text("d"),
                Piece::Malformed("${e")
            ]
        );
    }

    #[test]
    fn names_are_those_of_ports_and_of_sidecars_too() {
        let main = Runtime {
            ports: vec![PortSpec {
                name: "http-admin".to_owned(),
                fixed: None,
                container_port: Some(80),
                protocol: Protocol::Tcp,
                visibility: Visibility::Cluster,
            }],
            ..Runtime::default()
        };
        let of_main = names(&main, false);
        for name in ["PORT", "PORT_HTTP_ADMIN", "HOST_PORT_HTTP_ADMIN", "ECHELON_RUN"] {
            assert!(of_main.contains(name), "{name}");
        }
        assert!(!of_main.contains(SIDECAR) && names(&main, true).contains(SIDECAR));
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_the_text(text in "[$${}A-C ä]{0,20}") {
            let whole: String = pieces(&text)
                .map(|p| match p {
                    Piece::Text("${") => "$${".to_owned(),
                    Piece::Text(t) | Piece::Malformed(t) => t.to_owned(),
                    Piece::Reference(name) => format!("${{{name}}}"),
                })
                .collect();
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn what_is_escaped_stays(text in "[^$]{0,20}") {
            let escaped = format!("$${{{text}");
            prop_assert_eq!(expand(&escaped, &BTreeMap::new()), format!("${{{text}"));
        }
    }
}
