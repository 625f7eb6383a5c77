//! Of jobs that ask for the same, one spec is read.

use crate::tests::case::{Case, batch};
use echelon_core_model::{JobId, Span};

/// Jobs of two shapes at a full cluster.
fn two_shapes() -> (Case, Vec<JobId>) {
    let mut case = Case::with(&[("a", 4)]);
    let jobs: Vec<JobId> = (1..=12)
        .map(|n| case.job(n, batch(1 + u32::from(n % 2 == 0))))
        .collect();
    case.run_for(Span::seconds(3));
    (case, jobs)
}

#[test]
fn a_new_leader_reads_a_spec_for_each_shape() {
    let (mut case, jobs) = two_shapes();
    assert_eq!(case.specs_read.len(), 2, "{:?}", case.specs_read);
    case.specs_read.clear();
    let look = |case: &Case| -> Vec<_> {
        let of_job = |job: &JobId| (case.waiting(*job), case.total_active(*job));
        jobs.iter().map(of_job).collect()
    };
    let before = look(&case);
    case.fail_over();
    assert_eq!(case.specs_read.len(), 2, "{:?}", case.specs_read);
    assert_eq!(look(&case), before);
}

/// The digest says of which version it is.
#[test]
fn a_job_with_another_spec_version_is_not_taken_for_what_it_was() {
    let (mut case, jobs) = two_shapes();
    let last = jobs[11];
    assert_eq!(case.waiting(last).iter().map(|(_, n)| n).sum::<u64>(), 2);
    case.respec(last, |spec| spec.groups[0].instances = 5);
    case.run_for(Span::seconds(3));
    let head = case.head(last).unwrap();
    assert_eq!((head.spec_version, head.spec_digest.unwrap().version), (2, 1));
    assert_eq!(case.waiting(last).iter().map(|(_, n)| n).sum::<u64>(), 5);
    case.specs_read.clear();
    case.fail_over();
    assert_eq!(case.specs_read.len(), 3);
    assert_eq!(case.waiting(last).iter().map(|(_, n)| n).sum::<u64>(), 5);
}

/// The first one's spec is read for all. If that row cannot be understood, the next one's is.
#[test]
fn an_unreadable_spec_costs_its_job_alone() {
    let (mut case, jobs) = two_shapes();
    let first = case.specs_read[0];
    let others: Vec<JobId> = jobs.into_iter().filter(|job| *job != first).collect();
    let waiting: Vec<_> = others.iter().map(|job| case.waiting(*job)).collect();
    case.store.spoil("specs", first);
    case.fail_over();
    let now: Vec<_> = others.iter().map(|job| case.waiting(*job)).collect();
    assert_eq!(now, waiting);
    assert!(case.rm.aside.contains(&first));
}
