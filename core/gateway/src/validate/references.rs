//! Rules of `${NAME}` in environments: it names what a run is given. Of a change only changed values are judged, so that a job which was
//! stored before there were references can be scaled and stopped as ever.

use super::Violations;
use echelon_core_model::environment::{Piece, most_bytes, names, pieces};
use echelon_core_model::gang::Peers;
use echelon_core_model::limits::VARIABLE_BYTES;
use echelon_core_model::nearest;
use echelon_core_model::overrides::Override;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::JobSpec;
use std::collections::{BTreeMap, BTreeSet};

type Environment = BTreeMap<String, String>;

/// Checks a spec that stands at `path` in its request. `before`: what it is to replace.
pub fn references(s: &JobSpec, before: Option<&JobSpec>, path: &str, out: &mut Violations) {
    let members = s
        .groups
        .iter()
        .fold(0usize, |n, g| n.saturating_add(g.instances as usize));
    for (i, group) in s.groups.iter().enumerate() {
        let at = format!("{path}.groups[{i}]");
        let was = before.and_then(|b| b.group(&group.name));
        let given = all_names(s, &group.runtime, false);
        let old = was.map(|w| &w.runtime.env);
        let given = GivenNames {
            names: given,
            members,
        };
        environment((&group.runtime.env, old), &given, &format!("{at}.env"), out);
        for (i, own) in group.overrides.iter().enumerate() {
            let same = |o: &&Override| o.instances == own.instances;
            let old = was.and_then(|w| w.overrides.iter().find(same));
            let field = format!("{at}.overrides[{i}].env");
            environment((&own.env, old.map(|o| &o.env)), &given, &field, out);
        }
        let names = all_names(s, &group.runtime, true);
        let given = GivenNames { names, members };
        for (i, sidecar) in group.sidecars.iter().enumerate() {
            let old = was.and_then(|w| w.sidecars.iter().find(|o| o.name == sidecar.name));
            let old = old.map(|o| &o.runtime.env);
            let field = format!("{at}.sidecars[{i}].env");
            environment((&sidecar.runtime.env, old), &given, &field, out);
        }
    }
}

/// What a task of a group is given, the addresses of its gang among it.
fn all_names(s: &JobSpec, main: &Runtime, sidecar: bool) -> BTreeSet<String> {
    let mut out = names(main, sidecar);
    if s.gang.is_some() {
        out.extend(Peers::names(&s.groups));
    }
    out
}

/// The names of what a task is given, in a job of so many instances.
struct GivenNames {
    names: BTreeSet<String>,
    members: usize,
}

fn environment(
    (env, before): (&Environment, Option<&Environment>),
    given: &GivenNames,
    path: &str,
    out: &mut Violations,
) {
    let is_new = |name: &String, value: &String| before.and_then(|b| b.get(name)) != Some(value);
    for (name, value) in env.iter().filter(|(n, v)| is_new(n, v)) {
        for piece in pieces(value) {
            if let Some(problem) = problem(piece, &given.names) {
                out.check(false, format!("{path}[{name}]"), problem);
            }
        }
        // `NAME=value` and the zero behind it.
        let bytes = name.len() + 2 + most_bytes(value, |name| Peers::longest(name, given.members));
        out.check(
            bytes <= VARIABLE_BYTES,
            format!("{path}[{name}]"),
            format!(
                "takes up to {bytes} bytes with its name and all that references stand for; Linux gives a program at most {VARIABLE_BYTES}: put longer texts into a file and fetch it with `uris`"
            ),
        );
    }
}

fn problem(piece: Piece<'_>, given: &BTreeSet<String>) -> Option<String> {
    let words = || given.iter().map(String::as_str);
    match piece {
        Piece::Text(_) => None,
        Piece::Reference(name) if given.contains(name) => None,
        Piece::Reference(name) => {
            let meant =
                nearest(name, words()).map_or(String::new(), |n| format!("; did you mean `${{{n}}}`?"));
            let known: Vec<&str> = words().collect();
            Some(format!(
                "`${{{name}}}` is nothing that a run is given{meant}: there are {}. Write `$${{{name}}}` if the program is to see `${{{name}}}` itself",
                known.join(", ")
            ))
        }
        Piece::Malformed(whole) => {
            let shown: String = whole.chars().take(40).collect();
            Some(format!(
                "`{shown}` is not the name of a variable between `${{` and `}}`; write `$${{` if the program is to see `${{` itself"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_testkit::build::JobBuilder;

    fn told(s: &JobSpec, before: Option<&JobSpec>) -> Vec<String> {
        let mut out = Violations::default();
        references(s, before, "spec", &mut out);
        let line = |v: &crate::error::Violation| format!("{}: {}", v.field, v.problem);
        out.kept.iter().map(line).collect()
    }

    fn job(value: &str) -> JobSpec {
        JobBuilder::service("web", 1).env("URL", value).build()
    }

    #[test]
    fn what_a_run_is_given_may_be_named() {
        assert!(told(&job("http://${ECHELON_HOST}/$${x}/${ECHELON_GENERATION}"), None).is_empty());
    }

    #[test]
    fn what_no_run_is_given_is_refused_with_what_there_is() {
        let told = told(&job("${ECHELON_HOTS}"), None);
        let [only] = told.as_slice() else {
            panic!("{told:?}")
        };
        for part in [
            "spec.groups[0].env[URL]: `${ECHELON_HOTS}` is nothing that a run is given; did you mean `${ECHELON_HOST}`?",
            "ECHELON_INSTANCE, ",
            "Write `$${ECHELON_HOTS}`",
        ] {
            assert!(only.contains(part), "{only}");
        }
        assert!(!only.contains("ECHELON_SIDECAR"), "{only}");
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for value in ["${", "${A", "${A-b}", "${}", "x${ECHELON_HOST}${1}"] {
            assert_eq!(told(&job(value), None).len(), 1, "{value}");
        }
    }

    #[test]
    fn other_variables_of_the_job_cannot_be_named() {
        let s = JobBuilder::service("web", 1)
            .env("A", "a")
            .env("B", "${A}")
            .build();
        assert_eq!(told(&s, None).len(), 1);
    }

    #[test]
    fn a_sidecar_has_a_name_to_refer_to() {
        let mut log = Runtime::shell("ship");
        log.env
            .insert("TAG".to_owned(), "${ECHELON_SIDECAR}-${NO}".to_owned());
        let s = JobBuilder::service("web", 1).sidecar("log", log).build();
        let told = told(&s, None);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("spec.groups[0].sidecars[0].env[TAG]: `${NO}`"),
            "{told:?}"
        );
    }

    #[test]
    fn what_was_stored_before_may_stay_and_may_not_be_added_to() {
        let before = job("${HOME}");
        let mut after = before.clone();
        after.groups[0].instances = 3;
        assert!(told(&after, Some(&before)).is_empty());
        after.groups[0]
            .runtime
            .env
            .insert("URL".to_owned(), "${HOME}/x".to_owned());
        assert_eq!(told(&after, Some(&before)).len(), 1);
    }

    #[test]
    fn a_variable_of_128_kib_passes_and_one_byte_more_is_refused() {
        let of = |bytes: usize| {
            told(
                &JobBuilder::service("web", 1).env("A", &"x".repeat(bytes)).build(),
                None,
            )
        };
        assert_eq!(of(128 * 1024 - 3), Vec::<String>::new());
        let refused = of(128 * 1024 - 2);
        assert!(
            refused.len() == 1 && refused[0].starts_with("spec.groups[0].env[A]: takes up to 131073 bytes"),
            "{refused:?}"
        );
    }

    #[test]
    fn what_references_stand_for_counts_at_its_longest() {
        let of = |members, value: &str| {
            let spec = JobBuilder::batch("g", members).gang().env("A", value).build();
            told(&spec, None)
        };
        // A list is 120 KiB at most, and beside one there is room for 8 KiB.
        assert_eq!(of(1_000, "${ECHELON_GANG_HOSTS}"), Vec::<String>::new());
        assert_eq!(
            of(100, "${ECHELON_GANG_HOSTS}${ECHELON_GANG_HOSTS}"),
            Vec::<String>::new()
        );
        let refused = of(1_000, "${ECHELON_GANG_HOSTS}${ECHELON_GANG_HOSTS}");
        assert!(
            refused.len() == 1 && refused[0].starts_with("spec.groups[0].env[A]: takes up to 245763 bytes"),
            "{refused:?}"
        );
    }
}
