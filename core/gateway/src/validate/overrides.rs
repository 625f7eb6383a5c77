//! Rules of what some instances of a group run in place of what the group says.

use super::{Violations, runtime};
use echelon_core_model::RangeSet;
use echelon_core_model::overrides::{MAX_OVERRIDES, Override};
use echelon_core_model::spec::{GroupSpec, MAX_INSTANCES};

pub(super) fn check(g: &GroupSpec, path: &str, out: &mut Violations) {
    let field = format!("{path}.overrides");
    out.check(
        g.overrides.len() <= MAX_OVERRIDES,
        field.clone(),
        format!(
            "must be at most {MAX_OVERRIDES}, not {}; let instances ask by `ECHELON_INSTANCE` for what is theirs alone",
            g.overrides.len()
        ),
    );
    let mut seen = RangeSet::new();
    for (i, o) in g.overrides.iter().enumerate() {
        let at = format!("{field}[{i}]");
        instances(o, &seen, &format!("{at}.instances"), out);
        seen = seen.union(&o.instances);
        content(o, g, &at, out);
    }
}

fn instances(o: &Override, seen: &RangeSet, field: &str, out: &mut Violations) {
    out.check(
        !o.instances.is_empty(),
        field,
        "must name at least one instance, for example 0 or 0-3",
    );
    let last = o.instances.ranges().last().map_or(0, |r| r.last);
    out.check(
        last < MAX_INSTANCES,
        field,
        format!("must be numbers of 0 to {}, not {last}", MAX_INSTANCES - 1),
    );
    let both = seen.intersect(&o.instances);
    out.check(
        both.is_empty(),
        field,
        format!("instances {both} have an earlier override; an instance has at most one"),
    );
}

/// What the instances run has to be possible. What is wrong with the group's own is told of the group.
fn content(o: &Override, g: &GroupSpec, path: &str, out: &mut Violations) {
    let given = Override {
        instances: RangeSet::new(),
        ..o.clone()
    };
    out.check(
        given != Override::default(),
        path,
        "must give at least one of command, args, entrypoint, env, working_dir and uris",
    );
    let (mut own, mut groups) = (Violations::default(), Violations::default());
    runtime::check_sidecar(&o.over(&g.runtime), path, &mut own);
    runtime::check_sidecar(&g.runtime, path, &mut groups);
    for wrong in own.kept.into_iter().filter(|v| !groups.kept.contains(v)) {
        out.add(wrong.field, wrong.problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{Purpose, spec};
    use echelon_core_model::InstanceRange;
    use echelon_core_testkit::build::JobBuilder;

    fn over(first: u32, last: u32) -> Override {
        Override {
            instances: InstanceRange::new(first, last).into_iter().collect(),
            command: "other".to_owned(),
            ..Override::default()
        }
    }

    /// What is wrong with these in a job of 8 instances, as `field: problem`.
    fn told(overrides: Vec<Override>) -> Vec<String> {
        let mut s = JobBuilder::batch("hello", 8).build();
        s.groups[0].overrides = overrides;
        let mut out = Violations::default();
        spec(&s, 100, Purpose::Create, "spec", &mut out);
        let short = |field: &str| field.trim_start_matches("spec.groups[0].").to_owned();
        let lines = out
            .kept
            .iter()
            .map(|v| format!("{}: {}", short(&v.field), v.problem));
        lines.collect()
    }

    fn refused(overrides: Vec<Override>, field: &str, words: &str) {
        let told = told(overrides);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{field}: ")), "{told:?}");
        assert!(told[0].contains(words), "{told:?}");
    }

    #[test]
    fn instances_that_are_there_or_may_come_may_differ() {
        assert!(told(vec![over(0, 3), over(4, 4), over(7, 100)]).is_empty());
    }

    #[test]
    fn each_rule_names_its_field() {
        let none = Override {
            instances: RangeSet::new(),
            ..over(0, 0)
        };
        refused(vec![none], "overrides[0].instances", "at least one instance");
        refused(
            vec![over(0, MAX_INSTANCES)],
            "overrides[0].instances",
            "must be numbers of 0 to 9999999",
        );
        refused(
            vec![over(0, 3), over(2, 5)],
            "overrides[1].instances",
            "instances 2-3 have an earlier override",
        );
        let nothing = Override {
            command: String::new(),
            ..over(0, 0)
        };
        refused(vec![nothing], "overrides[0]", "must give at least one of");
        let many = (0..=256).map(|n| over(n, n)).collect();
        refused(many, "overrides", "must be at most 256, not 257");
    }

    #[test]
    fn what_an_instance_would_run_is_judged_as_a_whole_and_once() {
        let mut own = over(1, 1);
        own.env.insert("ECHELON_JOB".to_owned(), String::new());
        refused(vec![own], "overrides[0].env[ECHELON_JOB]", "set by the system");
        let mut folder = over(1, 1);
        (folder.working_dir, folder.args) = ("data".to_owned(), Some(Vec::new()));
        refused(vec![folder], "overrides[0].working_dir", "needs a shell line");
        let image = Override {
            entrypoint: Some(vec!["sh".to_owned()]),
            command: String::new(),
            ..over(1, 1)
        };
        assert_eq!(told(vec![image]).len(), 2, "no image, and a command beside it");
        let mut s = JobBuilder::batch("hello", 8).build();
        s.groups[0].runtime.command = String::new();
        s.groups[0].overrides = vec![Override {
            command: String::new(),
            working_dir: "x".to_owned(),
            ..over(0, 0)
        }];
        let mut out = Violations::default();
        spec(&s, 100, Purpose::Create, "spec", &mut out);
        let fields: Vec<&str> = out.kept.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.groups[0].command",
                "spec.groups[0].overrides[0].working_dir"
            ]
        );
    }
}
