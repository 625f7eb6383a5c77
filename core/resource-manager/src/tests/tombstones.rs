//! Deleted jobs and void heads: they stay as long as a create that made them may be repeated, cost no cycle anything, and go then.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::REQUEST_IDS_KEPT;
use echelon_core_model::{JobId, RunState, Span};

/// A job that was made just now, ran, and was deleted on every cluster.
fn deleted() -> (Case, JobId) {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    case.born = case.now;
    let job = case.job(1, service(4).spread());
    case.want(job, Desired::Deleted);
    case.run_for(Span::seconds(5));
    (case, job)
}

/// Lets time pass without playing it; another leader takes over.
fn sleep(case: &mut Case, span: Span) {
    case.now = case.now.plus(span);
    case.fail_over();
    case.run_for(Span::seconds(5));
}

#[test]
fn the_head_of_a_deleted_job_stays_until_no_create_can_be_repeated() {
    let (mut case, job) = deleted();
    for wait in [Span::ZERO, Span::seconds(90), Span(REQUEST_IDS_KEPT.0 - 120_000)] {
        sleep(&mut case, wait);
        assert_eq!(case.state(job), Some(JobState::Deleted), "after {wait}");
        assert!(case.head(job).is_some() && case.assignment(job).is_none());
        assert!(case.rm.picture().facts.jobs.is_empty(), "no cycle looks at it");
    }
    sleep(&mut case, Span::minutes(90));
    assert_eq!((case.head(job), case.progress(job)), (None, None));
    assert!(case.rm.tombstones.is_empty());
}

#[test]
fn reading_every_bucket_again_leaves_a_tombstone_alone() {
    let (mut case, job) = deleted();
    case.trace.clear();
    case.hint(job);
    case.run_for(Span::minutes(3));
    assert_eq!(case.trace, Vec::<String>::new());
    assert!(case.rm.picture().facts.jobs.is_empty());
    assert_eq!(case.rm.tombstones.len(), 1);
}

#[test]
fn a_void_head_bars_its_id_as_long_as_its_creator_may_come_back() {
    let mut case = Case::with(&[("a", 8)]);
    let old = case.store_job(1, batch(3));
    case.born = case.now;
    let young = case.store_job(1, batch(3));
    for job in [old, young] {
        case.change_head(job, |h| h.void = true);
        case.hint(job);
    }
    case.run_for(Span::seconds(2));
    assert_eq!((case.head(old), case.head(young).is_some()), (None, true));
    sleep(&mut case, Span::minutes(60));
    assert!(case.head(young).is_some());
    sleep(&mut case, Span::minutes(24 * 60));
    assert_eq!((case.head(young), case.rm.tombstones.len()), (None, 0));
}

#[test]
fn a_shard_that_comes_back_with_a_deleted_job_may_archive_it() {
    let (mut case, job) = deleted();
    let known = case.shard("a").slices.clone();
    assert!(known.is_empty() && case.shard("a").archived.contains(&job));
    // The order was lost, and the shard has another leader.
    case.shard("a").archived.clear();
    case.cut("a");
    let group = echelon_core_testkit::build::main_group();
    case.shard("a").slices.insert(
        (job, group, echelon_core_model::Generation(1)),
        super::shard::Slice::default(),
    );
    case.run_for(Span::seconds(10));
    assert!(case.shard("a").archived.contains(&job));
    assert!(case.head(job).is_some());
}

#[test]
fn an_archived_job_is_quiet_for_ever() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let job = case.job(1, batch(4).spread());
    for name in ["a", "b"] {
        case.at(name, |s, now| s.finish(9, RunState::Succeeded, now));
    }
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
    case.run_for(Span::seconds(30));
    case.trace.clear();
    case.run_for(Span::minutes(10));
    assert_eq!(case.trace, Vec::<String>::new(), "neither orders nor writes");
}
