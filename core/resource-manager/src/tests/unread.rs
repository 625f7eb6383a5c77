//! Rows that cannot be understood: their jobs are set aside, and a new leader leads and drives all others.

use crate::tests::case::{Case, batch, service};
use crate::tests::shard::Versions;
use echelon_core_model::job::JobState;
use echelon_core_model::{JobId, RunState, Span};

fn running(case: &Case, job: JobId) -> usize {
    case.total_active(job)
}

#[test]
fn a_job_of_which_a_row_cannot_be_read_is_set_aside_and_the_rest_goes_on() {
    for table in ["heads", "assignments", "progress", "specs"] {
        let mut case = Case::with(&[("a", 10), ("b", 10)]);
        let bad = case.job(1, service(4));
        let good = case.job(2, service(4));
        case.run_for(Span::seconds(10));
        assert_eq!((running(&case, bad), running(&case, good)), (4, 4));
        let (stored, written) = (case.assignment(bad), case.progress(bad));
        case.store.spoil(table, bad);
        case.alarms.clear();
        case.fail_over();
        case.run_for(Span::seconds(20));
        assert!(case.rm.leading().is_some(), "{table}: it leads");
        assert_eq!(case.stepped_down, None);
        let told = case
            .alarms
            .iter()
            .filter(|a| a.contains("cannot be read"))
            .count();
        assert_eq!(told, 1, "{table}: {:?}", case.alarms);
        // What runs of it stays. Nothing of it is assigned or written again.
        case.scale(bad, 8);
        case.scale(good, 6);
        let new = case.job(3, service(2));
        case.run_for(Span::minutes(3));
        assert_eq!(running(&case, bad), 4, "{table}");
        assert_eq!(case.assignment(bad), stored, "{table}");
        assert_eq!(case.progress(bad), written, "{table}");
        assert_eq!((running(&case, good), running(&case, new)), (6, 2), "{table}");
    }
}

#[test]
fn a_batch_that_ended_is_not_run_again_when_its_end_cannot_be_read() {
    let mut case = Case::with(&[("a", 10)]);
    let done = case.job(1, batch(2));
    case.run_for(Span::seconds(5));
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(20));
    assert_eq!(case.progress(done).unwrap().state, JobState::Succeeded);
    case.store.spoil("progress", done);
    case.fail_over();
    case.run_for(Span::minutes(2));
    assert!(case.rm.leading().is_some());
    assert_eq!(running(&case, done), 0);
}

#[test]
fn a_job_that_is_set_aside_counts_in_its_pool() {
    for (table, counts) in [
        ("heads", true),
        ("assignments", true),
        ("progress", true),
        ("specs", false),
    ] {
        let mut case = Case::with(&[("a", 20)]).pool("/default", 6);
        let bad = case.job(1, service(4));
        case.run_for(Span::seconds(10));
        assert_eq!(running(&case, bad), 4);
        // Without its head, its shard says of which version its runs are.
        let versions = Versions {
            revision: 1,
            ..Versions::default()
        };
        case.shard("a").versions.insert(bad, versions);
        case.store.spoil(table, bad);
        case.limits.clear();
        case.fail_over();
        case.run_for(Span::seconds(20));
        let good = case.job(2, service(6));
        case.run_for(Span::minutes(2));
        let got = if counts { 2 } else { 6 };
        assert_eq!((running(&case, bad), running(&case, good)), (4, got), "{table}");
    }
}
