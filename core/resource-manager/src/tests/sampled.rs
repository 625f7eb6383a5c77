//! What production looks at of a picture, bit by bit.

use crate::broken::Broken;
use crate::checks::check::Sampler;
use crate::facts::slice::SliceKey;
use crate::tests::case::{Case, batch};
use echelon_core_model::{ClusterId, Generation, Span};
use echelon_core_pools::GrantLine;
use echelon_core_testkit::build::main_group;

#[test]
fn a_broken_rule_of_one_of_many_jobs_is_found_within_a_round() {
    let mut case = Case::with(&[("c1", 1_000)]);
    let jobs: Vec<_> = (1..=260).map(|n| case.job(n, batch(1))).collect();
    let mut sampler = Sampler::default();
    let mut now = case.now;
    let mut round = |case: &Case| {
        let mut found = Vec::new();
        for _ in 0..2 {
            now = now.plus(Span::seconds(5));
            found.extend(sampler.look(case.rm.picture(), now));
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
    let broken = case.rm.picture.jobs.get_mut(&job).unwrap();
    broken.grants.insert(slice.clone(), GrantLine::default());
    assert_eq!(round(&case), [Broken::UnknownGrant { job, slice }]);
    // The next round finds it again.
    assert_eq!(round(&case).len(), 1);
}
