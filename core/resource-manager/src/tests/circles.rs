//! With constant demand and capacity, changes of assignment end: nothing goes from one cluster to the next for
//! ever.
//!
//! What is bound ahead for batch work that runs may be bound nowhere for a time and come back to the same
//! cluster, as capacity is held for other work and released.

use crate::tests::case::{Case, batch, service};
use crate::tests::pressure::{SceneRun, cases, scene};
use echelon_core_model::{ClusterId, GroupName, InstanceNumber, JobId, ReasonCode, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Longer than capacity is kept for any work, and than a cluster is avoided.
const SETTLES_WITHIN: Span = Span::minutes(14);
/// Each wait of the resource manager ends in it.
const WATCHED: Span = Span::minutes(20);
const LOOK: Span = Span::seconds(5);

type Place = (JobId, GroupName, InstanceNumber);

/// The cluster to which each index is bound, of all jobs.
fn places(case: &Case, jobs: &[JobId]) -> BTreeMap<Place, ClusterId> {
    let mut out = BTreeMap::new();
    for assignment in jobs.iter().filter_map(|job| case.assignment(*job)) {
        for (group, ranges) in &assignment.groups {
            for of in ranges {
                let numbers = of.range.numbers();
                out.extend(numbers.map(|n| ((assignment.job, group.clone(), n), of.cluster.clone())));
            }
        }
    }
    out
}

/// Fails if anything is bound to another cluster, now that nothing changes any more.
fn assert_settles(case: &mut Case, jobs: &[JobId]) {
    case.run_for(SETTLES_WITHIN);
    let mut known = places(case, jobs);
    case.trace.clear();
    let until = case.now.plus(WATCHED);
    while case.now < until {
        case.run_for(LOOK);
        for (place, cluster) in places(case, jobs) {
            let before = known.insert(place.clone(), cluster.clone());
            assert!(
                before.as_ref().is_none_or(|before| *before == cluster),
                "{place:?} went from {before:?} to {cluster}\n{}",
                case.trace.join("\n")
            );
        }
    }
}

#[test]
fn what_finds_no_host_anywhere_does_not_go_to_and_fro() {
    let mut case = Case::with(&[("a", 10), ("b", 10), ("c", 10)]);
    for name in ["a", "b", "c"] {
        case.shard(name).unplaceable = Some(ReasonCode::HostResources);
    }
    let jobs = [
        case.job(1, service(3)),
        case.job(2, batch(2).gang()),
        case.job(3, batch(12)),
    ];
    assert_settles(&mut case, &jobs);
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn changes_of_assignment_end(scene in scene(60), is_in_pieces in any::<[bool; 3]>()) {
        let mut run: SceneRun = scene.play(|_| {}, |_| {});
        run.calm();
        for (shard, is_in_pieces) in run.case.shards.values_mut().zip(is_in_pieces) {
            // No host has enough capacity for one more instance, whatever is free in sum.
            shard.unplaceable = is_in_pieces.then_some(ReasonCode::HostResources);
        }
        let jobs: Vec<JobId> = run.jobs.iter().map(|(job, _)| *job).collect();
        assert_settles(&mut run.case, &jobs);
    }
}
