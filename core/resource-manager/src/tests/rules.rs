//! How jobs end by their own rules, and wait for others: over leaders, against wishes that come meanwhile.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::rules::Condition;
use echelon_core_model::{Amount, JobId, ReasonCode, RunState, Span, Version};

/// One cluster of eight cores; jobs are made now.
fn case() -> Case {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    case
}

fn ended(case: &Case, job: JobId) -> (JobState, ReasonCode) {
    let progress = case.progress(job).unwrap();
    (progress.state, progress.reason.unwrap().code)
}

#[test]
fn enough_successes_end_a_job_and_stop_the_rest() {
    let mut case = case();
    let job = case.job(1, batch(6).successes(2));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Running));
    assert_eq!(case.total_active(job), 5);
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(
        ended(&case, job),
        (JobState::Succeeded, ReasonCode::CompletionMet)
    );
    assert_eq!(case.total_active(job), 0);
    let head = case.head(job).unwrap();
    assert_eq!((head.version, head.goal.desired), (Version(2), Desired::Stopped));
}

#[test]
fn more_failures_than_a_job_goes_on_with_end_it() {
    let mut case = case();
    let job = case.job(1, batch(6).max_failed(Amount::Percent(20)));
    case.at("a", |s, now| s.finish(1, RunState::Failed, now));
    case.run_for(Span::seconds(1));
    assert_eq!(case.total_active(job), 5);
    case.at("a", |s, now| s.finish(1, RunState::Failed, now));
    case.run_for(Span::seconds(1));
    assert_eq!(ended(&case, job), (JobState::Failed, ReasonCode::TooManyFailed));
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn what_a_rule_has_said_holds_under_a_new_leader_and_is_told_at_once() {
    let mut case = case();
    let job = case.job(1, batch(3).successes(1));
    case.shard("a").stubborn = true;
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(ended(&case, job), (JobState::Stopping, ReasonCode::CompletionMet));
    case.fail_over();
    assert_eq!(case.state(job), Some(JobState::Stopping));
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(2));
    assert_eq!(
        ended(&case, job),
        (JobState::Succeeded, ReasonCode::CompletionMet)
    );
    assert_eq!(case.head(job).unwrap().version, Version(2), "it was decided once");
}

#[test]
fn a_users_wish_wins_over_what_a_rule_says() {
    let mut case = case();
    let job = case.job(1, batch(3).successes(1));
    case.shard("a").stubborn = true;
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    case.want(job, Desired::Deleted);
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Deleted));
}

#[test]
fn a_wish_that_is_not_known_yet_when_a_rule_speaks_is_not_overwritten() {
    let mut case = case();
    let job = case.job(1, batch(3).successes(1));
    case.change_head(job, |h| h.goal.desired = Desired::Deleted);
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.head(job).unwrap().goal.desired, Desired::Deleted);
    assert_eq!(case.state(job), Some(JobState::Deleted));
}

#[test]
fn a_job_that_takes_too_long_fails_and_is_stopped() {
    let mut case = case();
    let job = case.job(1, batch(2).max_total(Span::minutes(2)));
    case.run_for(Span::seconds(60));
    case.fail_over();
    assert_eq!(case.total_active(job), 2);
    case.run_for(Span::seconds(65));
    assert_eq!(ended(&case, job), (JobState::Failed, ReasonCode::TotalDeadline));
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn a_job_of_which_nothing_begins_in_time_fails_and_one_that_begins_does_not() {
    let mut case = case();
    let first = case.job(1, batch(8).max_wait(Span::minutes(1)));
    let second = case.job(2, batch(1).max_wait(Span::minutes(1)));
    case.run_for(Span::seconds(70));
    assert_eq!(case.state(first), Some(JobState::Running));
    assert_eq!(ended(&case, second), (JobState::Failed, ReasonCode::WaitDeadline));
}

#[test]
fn silence_is_no_proof_that_nothing_has_begun() {
    let mut case = case();
    let job = case.job(1, batch(1).max_wait(Span::minutes(1)));
    assert_eq!(case.total_active(job), 1);
    case.cut("a");
    let cores = std::mem::take(&mut case.shard("a").cores);
    case.fail_over();
    case.run_for(Span::seconds(90));
    assert_eq!(case.head(job).unwrap().goal.desired, Desired::Running);
    case.shard("a").cores = cores;
    case.reopen("a");
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(job), Some(JobState::Running));
}

#[test]
fn a_job_waits_for_another_one_without_a_cluster_and_begins_when_that_has_succeeded() {
    let mut case = case();
    let first = case.job(1, batch(1));
    let second = case.job(2, batch(2).after(first, Condition::Succeeded));
    case.run_for(Span::seconds(5));
    assert_eq!(case.waiting(second), [(ReasonCode::AfterJob, 2)]);
    let told = case.progress(second).unwrap().waiting[0].reason.to_string();
    assert!(told.ends_with("is running, must have succeeded)"), "{told}");
    assert_eq!(case.ranges(second), "", "no shard hears of it");
    case.at("a", |s, now| s.finish_of(first, 1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(first), Some(JobState::Succeeded));
    assert_eq!(case.total_active(second), 2);
    assert!(case.progress(second).unwrap().released.is_some());
}

#[test]
fn what_was_met_holds_under_a_new_leader_although_the_other_job_is_gone() {
    let mut case = case();
    let first = case.job(1, batch(1));
    let second = case.job(2, batch(9).after(first, Condition::Started));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(second), 7);
    case.want(first, Desired::Deleted);
    case.run_for(Span::seconds(2));
    case.fail_over();
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(second), 8);
    assert_eq!(case.head(second).unwrap().goal.desired, Desired::Running);
}

#[test]
fn a_job_fails_when_what_it_waits_for_can_no_longer_be() {
    let mut case = case();
    let first = case.job(1, batch(1));
    let second = case.job(2, batch(1).after(first, Condition::Succeeded));
    let third = case.job(3, batch(1).after(second, Condition::Succeeded));
    let last = case.job(4, batch(1).after(second, Condition::Ended));
    case.at("a", |s, now| s.finish_of(first, 1, RunState::Failed, now));
    case.run_for(Span::seconds(4));
    let failed = (JobState::Failed, ReasonCode::DependencyFailed);
    assert_eq!(ended(&case, second), failed);
    assert_eq!(ended(&case, third), failed, "and so on");
    assert_eq!(case.total_active(last), 1, "it has ended");
}

#[test]
fn a_deleted_job_has_not_succeeded_for_those_who_wait() {
    let mut case = case();
    let first = case.job(1, service(1));
    let second = case.job(2, batch(1).after(first, Condition::Succeeded));
    case.want(first, Desired::Deleted);
    case.run_for(Span::seconds(4));
    assert_eq!(
        ended(&case, second),
        (JobState::Failed, ReasonCode::DependencyFailed)
    );
}

#[test]
fn a_job_that_storage_never_knew_is_waited_for_in_vain() {
    let mut case = case();
    let nobody = JobId(77);
    let job = case.job(2, batch(1).after(nobody, Condition::Succeeded));
    assert_eq!(case.waiting(job), [(ReasonCode::AfterJob, 1)]);
    case.run_for(Span::seconds(30));
    assert_eq!(
        ended(&case, job),
        (JobState::Failed, ReasonCode::DependencyFailed)
    );
}

#[test]
fn times_count_from_when_a_job_may_begin() {
    let mut case = case();
    let first = case.job(1, batch(1));
    let times = batch(1).max_wait(Span::seconds(30)).max_total(Span::seconds(60));
    let second = case.job(2, times.after(first, Condition::Ended));
    case.run_for(Span::minutes(5));
    assert_eq!(case.state(second), Some(JobState::Waiting));
    case.at("a", |s, now| s.finish_of(first, 1, RunState::Succeeded, now));
    case.run_for(Span::seconds(50));
    assert_eq!(case.total_active(second), 1);
    case.run_for(Span::seconds(15));
    assert_eq!(
        ended(&case, second),
        (JobState::Failed, ReasonCode::TotalDeadline)
    );
}

#[test]
fn the_record_of_an_ended_job_is_kept_for_as_long_as_it_says() {
    let mut case = case();
    let job = case.job(1, batch(1).keep(Span::minutes(2)));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(60));
    case.fail_over();
    assert_eq!(case.state(job), Some(JobState::Succeeded));
    case.run_for(Span::seconds(62));
    assert_eq!(case.state(job), Some(JobState::Deleted));
}

#[test]
fn a_deadline_goes_on_under_a_new_leader_whatever_its_clock_says() {
    for (moves, most) in [(Span::minutes(60), 8), (Span::ZERO, 8)] {
        let mut case = Case::with(&[("a", 1)]);
        case.born = case.now;
        case.job(1, batch(1));
        let waits = case.job(2, batch(1).max_wait(Span::minutes(10)));
        case.run_for(Span::minutes(3));
        assert_eq!(case.state(waits), Some(JobState::Waiting));
        case.now = case.now.plus(moves);
        case.fail_over();
        case.run_for(Span::minutes(6));
        assert_eq!(case.state(waits), Some(JobState::Waiting), "{moves}");
        case.run_for(Span::minutes(most - 6));
        assert_eq!(case.state(waits), Some(JobState::Failed), "{moves}");
    }
}

#[test]
fn a_deadline_counts_from_when_the_leader_reads_the_job_not_by_a_clock_of_another_machine() {
    // The gateway's clock is an hour behind: the id of the job says that it is an hour old.
    let mut case = Case::with(&[("a", 1)]);
    case.job(1, batch(1));
    case.born = case.now;
    case.now = case.now.plus(Span::minutes(60));
    case.fail_over();
    let waits = case.job(2, batch(1).max_wait(Span::minutes(10)));
    case.run_for(Span::minutes(8));
    assert_eq!(case.state(waits), Some(JobState::Waiting));
    case.run_for(Span::minutes(3));
    assert_eq!(case.state(waits), Some(JobState::Failed));
}
