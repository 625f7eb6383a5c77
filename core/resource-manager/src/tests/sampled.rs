//! What production looks at of a picture, bit by bit.

use crate::broken::Broken;
use crate::checks::check::Sampler;
use crate::division::DivisionReport;
use crate::facts::slice::SliceKey;
use crate::tests::case::{Case, batch};
use echelon_core_model::{ClusterId, Generation, Resources, Span};
use echelon_core_pools::GrantLine;
use echelon_core_testkit::build::main_group;

#[test]
fn a_broken_rule_of_one_of_many_jobs_is_found_within_a_round() {
    let mut case = Case::with(&[("c1", 1_000)]);
    let jobs: Vec<_> = (1..=260).map(|n| case.job(n, batch(1))).collect();
    let mut sampler = Sampler::default();
    let mut round = |case: &Case| {
        let mut found = Vec::new();
        for _ in 0..2 {
            found.extend(sampler.look(case.rm.picture(), case.rm.last_cycle()));
        }
        found
    };
    assert_eq!(round(&case), []);
    let job = jobs[258];
    let slice = SliceKey {
        cluster: ClusterId::new("nowhere"),
        group: main_group(),
        generation: Generation(7),
    };
    let broken = case.rm.picture.facts.jobs.get_mut(&job).unwrap();
    broken.grants.insert(slice.clone(), GrantLine::default());
    assert_eq!(round(&case), [Broken::UnknownGrant { job, slice }]);
    // The next round finds it again.
    assert_eq!(round(&case).len(), 1);
}

#[test]
fn the_division_that_a_cycle_decided_by_is_proven_now_and_then() {
    let mut case = Case::with(&[("c1", 10)]).pool("/x", 100);
    case.job(1, batch(20));
    case.job(2, batch(20).pool("/x"));
    case.run_for(Span::seconds(10));
    let division = case.divided.clone().expect("there were cycles");
    let picture = case.rm.picture();
    let mut sampler = Sampler::default();
    assert_eq!(sampler.prove(picture, &division, case.now), Some(vec![]));
    let soon = case.now.plus(Span::minutes(4));
    assert_eq!(sampler.prove(picture, &division, soon), None);
    let later = case.now.plus(Span::minutes(5));
    assert_eq!(sampler.prove(picture, &division, later), Some(vec![]));
    // One of other capacity than what pools got is found.
    let mut other = DivisionReport {
        capacity: Resources::ZERO,
        ..division
    };
    let found = Sampler::default().prove(picture, &other, case.now);
    assert!(found.is_some_and(|found| !found.is_empty()));
    // Of a division by another tree nothing is claimed.
    other.tree = other.tree.next();
    let found = Sampler::default().prove(picture, &other, case.now);
    assert_eq!(found, Some(vec![]));
}
