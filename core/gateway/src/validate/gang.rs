//! Rules of gangs.

use super::Violations;
use super::cluster_choice::undivided;
use super::siting::{ATTRIBUTE, is_attribute};
use super::spec::{LONGEST_SPAN, SHORTEST_SILENCE};
use echelon_core_model::gang::{MAX_GANG, MAX_TOPOLOGY, Topology};
use echelon_core_model::spec::{JobKind, JobSpec};
use std::collections::BTreeSet;

/// Checks what a spec that stands at `path` says of its gang.
pub fn gang(s: &JobSpec, path: &str, out: &mut Violations) {
    let Some(gang) = &s.gang else { return };
    let at = |field: &str| format!("{path}.{field}");
    out.check(
        s.kind == JobKind::Batch,
        at("gang"),
        format!("is for jobs of kind batch; this one is of kind {}", s.kind),
    );
    out.check(
        (SHORTEST_SILENCE..=LONGEST_SPAN).contains(&gang.start_within),
        at("gang.start_within"),
        "must be 1 second to 365 days",
    );
    out.check(
        s.instances() <= MAX_GANG,
        at("gang"),
        format!(
            "has {} instances; at most {MAX_GANG} can begin together",
            s.instances()
        ),
    );
    undivided(
        &s.clusters,
        &at("clusters"),
        "must be left out: a gang runs on one cluster",
        out,
    );
    out.check(
        s.rules.max_failed.is_none() || !gang.on_failure.is_of_all(),
        at("max_failed"),
        format!(
            "must be left out: with `gang.on_failure: {}` the job ends with the first member that has failed for good",
            gang.on_failure
        ),
    );
    topology(&gang.topology, &at("gang.topology"), out);
    for (i, g) in s.groups.iter().enumerate() {
        out.check(
            g.max_running.is_none(),
            at(&format!("groups[{i}].max_running")),
            "must be left out: all instances of a gang run at the same time",
        );
    }
}

fn topology(of: &Topology, path: &str, out: &mut Violations) {
    out.check(
        of.levels.len() <= MAX_TOPOLOGY,
        path,
        format!("must be at most {MAX_TOPOLOGY} attributes"),
    );
    let mut seen = BTreeSet::new();
    for (i, attribute) in of.levels.iter().enumerate() {
        let at = format!("{path}[{i}]");
        out.check(is_attribute(attribute), &at, ATTRIBUTE);
        out.check(seen.insert(attribute), &at, "is named twice");
    }
    out.check(
        !of.required || !of.levels.is_empty(),
        format!("{path}_required"),
        "needs `topology`: it is not said by which attribute the members are to be together",
    );
}
