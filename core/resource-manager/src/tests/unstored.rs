//! Of a job that only waits nothing is stored but what its gateway has stored. What became of it is computed on demand.

use crate::tests::case::{Case, batch};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::rules::Condition;
use echelon_core_model::{JobId, ReasonCode, RunState, Span};

/// A job that has the only core, and jobs behind it.
fn behind_one(n: u128) -> (Case, JobId, Vec<JobId>) {
    let mut case = Case::with(&[("a", 1)]);
    case.born = case.now;
    let first = case.job(1, batch(1));
    case.run_for(Span::seconds(3));
    let waiting: Vec<JobId> = (2..2 + n).map(|n| case.job(n, batch(2))).collect();
    case.run_for(Span::seconds(3));
    (case, first, waiting)
}

fn is_stored(case: &Case, job: JobId) -> bool {
    case.stored_progress(job).is_some() || case.assignment(job).is_some() || !case.events_of(job).is_empty()
}

#[test]
fn nothing_is_stored_of_a_job_before_its_first_binding() {
    let (mut case, first, waiting) = behind_one(3);
    case.trace.clear();
    case.run_for(Span::minutes(20));
    let says: Vec<_> = waiting.iter().map(|job| case.waiting(*job)).collect();
    assert_eq!(says, vec![vec![(ReasonCode::NoClusterCapacity, 2)]; 3]);
    assert!(waiting.iter().all(|job| !is_stored(&case, *job)));
    let of_jobs = case
        .trace
        .iter()
        .filter(|line| line.contains("progress") || line.contains("store"));
    assert_eq!(of_jobs.collect::<Vec<_>>(), Vec::<&String>::new());

    let since = case.progress(waiting[0]).unwrap().waiting[0].since;
    assert!(
        case.now.since(since) > Span::minutes(19),
        "the reason has held all the time"
    );
    case.at("a", |s, now| s.finish_of(first, 1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    let row = case.stored_progress(waiting[0]).unwrap();
    assert_eq!(
        (row.state, row.created_at),
        (JobState::Running, waiting[0].created_at())
    );
    assert_eq!(
        case.events_of(waiting[0]),
        [ReasonCode::Accepted, ReasonCode::Running]
    );
    assert!(!is_stored(&case, waiting[1]));
}

#[test]
fn a_new_leader_says_since_when_a_job_waits_and_stores_nothing() {
    let (mut case, _, waiting) = behind_one(2);
    case.run_for(Span::minutes(3));
    let before = case.progress(waiting[0]).unwrap();
    case.fail_over();
    let after = case.progress(waiting[0]).unwrap();
    assert_eq!((after.state, after.since), (JobState::Waiting, before.since));
    assert_eq!(after.since, waiting[0].created_at());
    assert!(waiting.iter().all(|job| !is_stored(&case, *job)));
}

/// Without its row a leader could not tell that it has run.
#[test]
fn a_job_that_has_run_and_waits_again_keeps_its_row() {
    let mut case = Case::with(&[("a", 4)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    let all: Vec<JobId> = (1..=4).map(|n| case.job(n, batch(1).pool("/x"))).collect();
    case.run_for(Span::seconds(3));
    case.job(9, batch(20).pool("/y"));
    case.run_for(Span::minutes(2));
    let preempted: Vec<JobId> = all
        .into_iter()
        .filter(|job| case.total_active(*job) == 0)
        .collect();
    let [job, _] = preempted[..] else {
        panic!("{preempted:?}")
    };
    let row = case.stored_progress(job).unwrap();
    assert_eq!(row.state, JobState::Waiting);
    assert!(row.since > row.created_at);
    case.fail_over();
    assert_eq!(case.stored_progress(job).unwrap().since, row.since);
}

#[test]
fn an_end_is_stored_of_a_job_that_has_only_waited() {
    let (mut case, _, waiting) = behind_one(2);
    case.want(waiting[0], Desired::Stopped);
    case.want(waiting[1], Desired::Deleted);
    case.run_for(Span::seconds(5));
    let stored = |job| case.stored_progress(job).map(|row| row.state);
    assert_eq!(stored(waiting[0]), Some(JobState::Stopped));
    assert_eq!(
        case.events_of(waiting[0]),
        [
            ReasonCode::Accepted,
            ReasonCode::StopRequested,
            ReasonCode::StopRequested
        ]
    );
    let gone = stored(waiting[1]);
    assert!(gone.is_none_or(|state| state == JobState::Deleted), "{gone:?}");
}

#[test]
fn that_a_job_may_begin_is_stored_while_it_still_waits() {
    let (mut case, first, _) = behind_one(1);
    let held = case.job(9, batch(1).after(first, Condition::Started));
    case.run_for(Span::seconds(5));
    let row = case.stored_progress(held).unwrap();
    assert_eq!(row.state, JobState::Waiting);
    assert!(row.released.is_some());
    let last = case.job(10, batch(1).after(held, Condition::Succeeded));
    case.run_for(Span::seconds(5));
    assert_eq!(case.waiting(last), [(ReasonCode::AfterJob, 1)]);
    assert!(!is_stored(&case, last));
}
