//! What the end of a run means for its instance, as a table.

use crate::{FIRST, NOW, begun, news, policy, record};
use echelon_core_jobs::{News, Next, Policy, Told, Wanted, forgive, forgiven_at, hear, next, stop_run};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::instance::{Ended, InstanceRecord, MOST_OLDER};
use echelon_core_model::job::Desired;
use echelon_core_model::pause::Pause;
use echelon_core_model::rules::Restart;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState};

fn exited(code: i32) -> News {
    News {
        exit_code: Some(code),
        ..news(if code == 0 { Told::Succeeded } else { Told::Failed })
    }
}

fn with(restart: Restart) -> Policy {
    let mut policy = Policy {
        restart,
        ..policy(JobKind::Batch)
    };
    if restart == Restart::OnFailure {
        policy.retry.no_retry_exit_codes = [2, 78].into_iter().collect();
    }
    policy
}

fn after(policy: &Policy, news: &News) -> InstanceRecord {
    let mut record = record(RunState::Running);
    hear(&mut record, FIRST, news, Some(policy), NOW);
    record
}

#[test]
fn the_end_of_a_run_is_followed_as_its_restart_policy_says() {
    let table = [
        ("succeeded", Restart::OnFailure, exited(0), Some(Ended::Succeeded)),
        ("failed", Restart::OnFailure, exited(1), None),
        ("without hope", Restart::OnFailure, exited(2), Some(Ended::Failed)),
        (
            "without hope, too",
            Restart::OnFailure,
            exited(78),
            Some(Ended::Failed),
        ),
        (
            "no status is none of them",
            Restart::OnFailure,
            news(Told::Failed),
            None,
        ),
        (
            "only once, succeeded",
            Restart::Never,
            exited(0),
            Some(Ended::Succeeded),
        ),
        (
            "only once, failed",
            Restart::Never,
            exited(1),
            Some(Ended::Failed),
        ),
        ("only once, never arrived", Restart::Never, news(Told::Gone), None),
        ("for ever, succeeded", Restart::Always, exited(0), None),
        ("for ever, failed", Restart::Always, exited(1), None),
    ];
    for (name, restart, news, ended) in table {
        assert_eq!(after(&with(restart), &news).ended, ended, "{name}");
    }
}

#[test]
fn what_is_run_for_ever_never_uses_up_its_retries() {
    let mut policy = with(Restart::Always);
    policy.retry.limit = 1;
    let record = after(&policy, &exited(1));
    assert_eq!((record.ended, record.attempts), (None, 1));
    assert!(record.not_before > NOW, "a crash loop backs off");
}

fn wanted(max_start: Option<Span>) -> Wanted<'static> {
    Wanted {
        desired: Desired::Running,
        mark: None,
        held: true,
        on_unreachable: OnSilence::Wait,
        max_start,
        observed: Some(Span::ZERO),
        withhold: false,
    }
}

#[test]
fn a_run_that_does_not_start_in_time_is_stopped_and_has_failed() {
    let wanted = wanted(Some(Span::seconds(60)));
    let due = NOW.plus(Span::seconds(60));
    for state in [RunState::Launching, RunState::Starting] {
        let mut record = record(state);
        assert_eq!(next(&record, &wanted, NOW), Next::At(due), "{state}");
        let observed = |observed: Option<Span>| Wanted { observed, ..wanted };
        let late = observed(Some(Span::seconds(60)));
        assert_eq!(next(&record, &late, due), Next::Stop(ReasonCode::StartDeadline));
        let later = due.plus(Span::seconds(60));
        assert_eq!(next(&record, &wanted, due), Next::At(later), "silence was ours");
        assert_eq!(next(&record, &observed(None), due), Next::Rest);
        stop_run(&mut record, ReasonCode::StartDeadline.into(), Span::ZERO, due);
        hear(
            &mut record,
            FIRST,
            &news(Told::Killed),
            Some(&with(Restart::OnFailure)),
            due,
        );
        assert_eq!((record.attempts, record.ended), (1, None));
        let run = record.run.as_ref().unwrap();
        assert_eq!(run.reason.code, ReasonCode::StartDeadline);
        assert!(record.avoid.contains(&run.host), "it may start elsewhere");
        let then = record.not_before;
        assert_eq!(next(&record, &wanted, then), Next::Run, "it is active still");
    }
    assert_eq!(next(&record(RunState::Running), &wanted, due), Next::Rest);
}

#[test]
fn what_was_stopped_for_others_has_not_failed() {
    let mut record = record(RunState::Running);
    stop_run(&mut record, ReasonCode::PoolPreempted.into(), Span::ZERO, NOW);
    hear(
        &mut record,
        FIRST,
        &news(Told::Killed),
        Some(&with(Restart::Never)),
        NOW,
    );
    assert_eq!((record.attempts, record.ended), (0, None));
}

#[test]
fn a_failure_of_a_member_counts_its_gangs_try_and_not_its_own_failures() {
    let of = |gang| Policy {
        gang,
        ..policy(JobKind::Batch)
    };
    // Of three tries the first two are forgiven; it has failed once before, in the first.
    let table = [
        (OnMemberFailure::Member, 0, (2, None)),
        (OnMemberFailure::Gang, 1, (1, None)),
        (OnMemberFailure::Gang, 2, (2, None)),
        (OnMemberFailure::Gang, 3, (3, Some(Ended::Failed))),
        (OnMemberFailure::Job, 1, (1, Some(Ended::Failed))),
    ];
    for (on_failure, gang_try, expected) in table {
        let mut record = record(RunState::Running);
        record.attempts = 1;
        record.run.as_mut().unwrap().gang_try = gang_try;
        hear(&mut record, FIRST, &exited(1), Some(&of(on_failure)), NOW);
        assert_eq!(
            (record.attempts, record.ended),
            expected,
            "{on_failure}, try {gang_try}"
        );
    }
}

#[test]
fn what_serves_a_gang_for_ever_fails_with_it_however_it_ends() {
    let serving = |gang| Policy {
        gang,
        ..with(Restart::Always)
    };
    for code in [0, 1] {
        let ended = |gang| after(&serving(gang), &exited(code)).ended;
        assert_eq!(ended(OnMemberFailure::Member), None);
        assert_eq!(ended(OnMemberFailure::Job), Some(Ended::Failed));
    }
}

#[test]
fn three_failures_in_a_row_are_a_crash_loop_that_running_well_for_long_enough_ends() {
    let policy = policy(JobKind::Service);
    let mut record = InstanceRecord::default();
    for n in 1..=3 {
        begun(&mut record);
        let of = record.run.as_ref().map(|r| (r.generation, r.number)).unwrap();
        hear(&mut record, of, &news(Told::Running), Some(&policy), NOW);
        hear(&mut record, of, &exited(7), Some(&policy), NOW);
        assert_eq!((record.attempts, record.is_crash_looping()), (n, n == 3));
    }
    let told = record.crash_loop(NOW);
    assert_eq!(told.code, ReasonCode::CrashLooping);
    let words = told.to_string();
    assert!(words.contains("3 failures in a row, the last: "), "{words}");
    assert!(words.contains("; next try in 4s"), "{words}");
    begun(&mut record);
    let run = record.run.as_mut().unwrap();
    (run.state, run.available_at) = (RunState::Running, Some(NOW));
    assert_eq!(
        record.failure.as_ref().unwrap().exit_code,
        Some(7),
        "while it runs again"
    );
    assert!(!record.crash_loop(NOW).to_string().contains("next try"));
    let due = forgiven_at(&record, policy.healthy_after, &Pause::default(), NOW);
    assert_eq!(due, Some(NOW.plus(Span::minutes(5))));
    record.run.as_mut().unwrap().healthy = Some(false);
    assert_eq!(
        forgiven_at(&record, policy.healthy_after, &Pause::default(), NOW),
        None,
        "it does not run well"
    );
    forgive(&mut record);
    assert_eq!((record.attempts, record.is_crash_looping()), (0, false));
    assert_eq!(record.failure, None);
}

#[test]
fn no_more_older_runs_are_kept_although_a_host_is_gone() {
    let mut crowded = record(RunState::Unreachable);
    let older = (0..MOST_OLDER).map(|_| record(RunState::Lost).run.unwrap());
    crowded.older.extend(older);
    let before = crowded.clone();
    assert!(!echelon_core_jobs::may_leave_host(&crowded));
    echelon_core_jobs::leave_host(&mut crowded, NOW);
    assert_eq!(crowded, before, "it waits for the end of one");
    crowded.older.pop();
    echelon_core_jobs::leave_host(&mut crowded, NOW);
    assert_eq!((crowded.older.len(), crowded.run), (MOST_OLDER, None));
}

#[test]
fn an_instance_whose_host_is_gone_has_no_place_whatever_its_runs_were_to_be_stopped_for() {
    let silent = record(RunState::Unreachable);
    let mut stopping = record(RunState::Running);
    stop_run(&mut stopping, ReasonCode::RolloutUpdate.into(), Span::ZERO, NOW);
    echelon_core_jobs::give_up(&mut stopping, NOW);
    let ended = record(RunState::Lost);
    for mut record in [silent, stopping, ended] {
        assert_eq!(
            echelon_core_jobs::standing(&record),
            echelon_core_jobs::Standing::Active
        );
        echelon_core_jobs::leave_host(&mut record, NOW);
        assert_eq!(
            echelon_core_jobs::standing(&record),
            echelon_core_jobs::Standing::Unstarted
        );
        assert!(record.live_runs().next().is_none());
    }
}
