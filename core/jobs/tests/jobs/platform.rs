//! What ends by the platform: counted in a row of its own, tried again on other hosts, and given up or not.

use crate::{NOW, begun, news, policy};
use echelon_core_jobs::{
    MOST_PLATFORM_BACKOFF, News, Next, Policy, Told, Wanted, forgive, forgiven_at, hear, next, settle,
    stop_run,
};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::job::Desired;
use echelon_core_model::pause::Pause;
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::rules::Restart;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Reason, ReasonCode, RunState, Timestamp};
use proptest::prelude::*;

/// What an agent says of a launch that it cannot take.
fn dropped() -> News {
    News {
        reason: Reason::new(ReasonCode::ExecutorFailed).at("No such user 'nosuchuser'"),
        fault: Some(PlatformCause::Executor),
        ..news(Told::Dropped)
    }
}

/// What an agent says of a run whose executor ended.
fn executor_ended() -> News {
    News {
        told: Told::Failed,
        ..dropped()
    }
}

fn stale_offer() -> News {
    News {
        reason: Reason::new(ReasonCode::LaunchDropped),
        ..news(Told::Dropped)
    }
}

fn exited(code: i32) -> News {
    News {
        exit_code: Some(code),
        ..news(if code == 0 { Told::Succeeded } else { Told::Failed })
    }
}

/// The next run of the record, on this host, and what is told of it.
fn run_on(record: &mut InstanceRecord, host: u32, told: &[News], policy: &Policy, at: Timestamp) {
    begun(record);
    let run = record.run.as_mut().unwrap();
    run.host = HostId::new(format!("host-{host}"));
    run.hostname = format!("h{host}").into();
    run.since = at;
    let of = (run.generation, run.number);
    for news in told {
        hear(record, of, news, Some(policy), at);
    }
}

/// A record whose last so many runs were dropped, each on a host of its own.
fn dropped_times(n: u32, policy: &Policy) -> InstanceRecord {
    let mut record = InstanceRecord::default();
    for host in 1..=n {
        run_on(&mut record, host, &[dropped()], policy, NOW);
    }
    record
}

#[test]
fn ten_in_a_row_fail_a_batch_instance_with_that_reason_after_doubling_waits_on_other_hosts() {
    let mut policy = policy(JobKind::Batch);
    policy.retry.limit = 1;
    let mut record = InstanceRecord::default();
    let mut waits = Vec::new();
    for host in 1..=10 {
        assert_eq!(record.ended, None, "before run {host}");
        run_on(&mut record, host, &[dropped()], &policy, NOW);
        waits.push(record.not_before.since(NOW).0 / 1000);
    }
    assert_eq!(waits[..9], [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(record.ended, Some(Ended::Failed));
    assert_eq!((record.platform_failures, record.attempts), (10, 0));
    let run = record.run.as_ref().unwrap();
    assert!(run.reason.to_string().contains("nosuchuser"), "{}", run.reason);
    assert_eq!(record.avoid.len(), 9, "each try had a host of its own");
    assert_eq!(record.avoid.last(), Some(&HostId::new("host-10")));
}

#[test]
fn what_runs_for_ever_goes_on_crash_looping_with_waits_of_at_most_five_minutes() {
    for kind in [JobKind::Service, JobKind::Stateful, JobKind::Daemon] {
        let policy = Policy {
            jitter: u64::MAX,
            ..policy(kind)
        };
        let record = dropped_times(40, &policy);
        assert_eq!(record.ended, None, "{kind}");
        let wait = record.not_before.since(NOW);
        assert!(
            wait <= Span::minutes(5) && wait >= Span::seconds(270),
            "{kind}: {wait}"
        );
        assert!(record.is_crash_looping(), "{kind}");
        let words = record.crash_loop(NOW).to_string();
        assert!(words.contains("40 failures in a row by the platform"), "{words}");
        assert!(
            words.contains("on host h40: ") && words.contains("nosuchuser"),
            "{words}"
        );
    }
    assert!(!dropped_times(2, &policy(JobKind::Service)).is_crash_looping());
}

#[test]
fn while_it_waits_it_says_for_what_on_which_host_and_until_when() {
    let batch = policy(JobKind::Batch);
    let record = dropped_times(3, &batch);
    let reason = record.platform_retry(NOW).unwrap();
    assert_eq!(reason.code, ReasonCode::PlatformRetry);
    let words = reason.to_string();
    assert!(
        words.contains("3 in a row, the last failed on host h3: "),
        "{words}"
    );
    assert!(
        words.contains("nosuchuser") && words.contains("; next try in 4s"),
        "{words}"
    );
    assert_eq!(
        dropped_times(10, &batch).platform_retry(NOW),
        None,
        "it has failed"
    );
    assert_eq!(InstanceRecord::default().platform_retry(NOW), None);
}

#[test]
fn only_the_platforms_faults_make_the_row_and_other_ends_leave_or_end_it() {
    let running = news(Told::Running);
    let table: [(&str, Vec<News>, u16, u32); 8] = [
        ("dropped by its agent", vec![dropped()], 4, 0),
        ("its executor did not register", vec![executor_ended()], 4, 0),
        ("a stale offer", vec![stale_offer()], 3, 0),
        ("a lost call", vec![news(Told::Gone)], 3, 0),
        ("its own failure", vec![exited(1)], 0, 1),
        (
            "its own failure after it ran",
            vec![running.clone(), exited(1)],
            0,
            1,
        ),
        (
            "gone with its host",
            vec![news(Told::Preparing), news(Told::Gone)],
            3,
            0,
        ),
        (
            "gone with its host after it ran",
            vec![running, news(Told::Gone)],
            0,
            0,
        ),
    ];
    let policy = policy(JobKind::Batch);
    for (name, told, by_platform, attempts) in table {
        let mut record = dropped_times(3, &policy);
        run_on(&mut record, 9, &told, &policy, NOW);
        assert_eq!(
            (record.platform_failures, record.attempts, record.ended),
            (by_platform, attempts, None),
            "{name}"
        );
    }
}

#[test]
fn what_we_stop_for_others_is_none_of_them() {
    let policy = policy(JobKind::Service);
    for code in [ReasonCode::PoolPreempted, ReasonCode::HostMaintenance] {
        let mut record = dropped_times(3, &policy);
        run_on(&mut record, 9, &[], &policy, NOW);
        stop_run(&mut record, code.into(), Span::ZERO, NOW);
        let of = record.run.as_ref().map(|r| (r.generation, r.number)).unwrap();
        hear(&mut record, of, &executor_ended(), Some(&policy), NOW);
        assert_eq!((record.platform_failures, record.attempts), (3, 0), "{code:?}");
    }
}

#[test]
fn a_late_success_ends_the_row() {
    let batch = policy(JobKind::Batch);
    let mut record = dropped_times(9, &batch);
    run_on(&mut record, 9, &[news(Told::Running), exited(0)], &batch, NOW);
    assert_eq!(
        (record.ended, record.platform_failures),
        (Some(Ended::Succeeded), 0)
    );

    let service = policy(JobKind::Service);
    let mut record = dropped_times(9, &service);
    run_on(&mut record, 9, &[news(Told::Running)], &service, NOW);
    assert!(!record.is_crash_looping(), "it runs");
    let pause = Pause::default();
    let due = forgiven_at(&record, service.healthy_after, &pause, NOW);
    assert_eq!(due, Some(NOW.plus(Span::minutes(5))));
    forgive(&mut record);
    assert_eq!(
        (record.platform_failures, record.failure, record.avoid.len()),
        (0, None, 0)
    );
}

/// A run that has begun may end its executor itself. If that began the row again, it would be repeated without
/// end.
#[test]
fn a_run_whose_executor_ends_early_goes_on_with_the_row_and_one_that_ran_well_begins_another() {
    let policy = policy(JobKind::Batch);
    for (ran_for, expected) in [(Span::seconds(10), 4), (Span::minutes(5), 1)] {
        let mut record = dropped_times(3, &policy);
        run_on(&mut record, 9, &[news(Told::Running)], &policy, NOW);
        let of = record.run.as_ref().map(|r| (r.generation, r.number)).unwrap();
        let end = NOW.plus(ran_for);
        hear(&mut record, of, &executor_ended(), Some(&policy), end);
        assert_eq!(
            (record.platform_failures, record.attempts),
            (expected, 0),
            "{ran_for}"
        );
        assert!(record.not_before > end);
    }
}

#[test]
fn where_the_command_may_run_only_once_a_run_that_began_is_its_try() {
    let once = Policy {
        restart: Restart::Never,
        ..policy(JobKind::Batch)
    };
    let mut record = InstanceRecord::default();
    run_on(&mut record, 1, &[dropped()], &once, NOW);
    assert_eq!(
        (record.ended, record.platform_failures),
        (None, 1),
        "it never ran"
    );
    run_on(
        &mut record,
        2,
        &[news(Told::Running), executor_ended()],
        &once,
        NOW,
    );
    assert_eq!((record.ended, record.attempts), (Some(Ended::Failed), 1));
}

#[test]
fn a_member_that_its_gang_cannot_go_on_without_is_given_up_also_where_it_runs_for_ever() {
    for (gang, ended) in [
        (OnMemberFailure::Member, None),
        (OnMemberFailure::Gang, Some(Ended::Failed)),
        (OnMemberFailure::Job, Some(Ended::Failed)),
    ] {
        let policy = Policy {
            gang,
            restart: Restart::Always,
            ..policy(JobKind::Batch)
        };
        assert_eq!(dropped_times(10, &policy).ended, ended, "{gang}");
    }
}

#[test]
fn what_it_means_is_decided_later_where_its_policy_is_not_known_then() {
    let policy = policy(JobKind::Batch);
    let mut record = InstanceRecord::default();
    begun(&mut record);
    let of = record.run.as_ref().map(|r| (r.generation, r.number)).unwrap();
    hear(&mut record, of, &dropped(), None, NOW);
    assert_eq!((record.unsettled, record.platform_failures), (true, 0));
    settle(&mut record, &policy);
    assert_eq!((record.unsettled, record.platform_failures), (false, 1));
}

#[test]
fn a_version_that_fails_again_and_again_has_failed_for_its_rollout() {
    let policy = policy(JobKind::Service);
    assert_eq!(
        dropped_times(2, &policy).failed_version,
        0,
        "a host and the one after it"
    );
    let record = dropped_times(3, &policy);
    assert_eq!(record.failed_version, record.run.as_ref().unwrap().spec_version);
}

fn wanted() -> Wanted<'static> {
    Wanted {
        desired: Desired::Running,
        mark: None,
        held: true,
        on_unreachable: OnSilence::Wait,
        max_start: None,
        observed: Some(Span::ZERO),
        withhold: false,
    }
}

proptest! {
    /// Whatever happens to an instance, it is tried again after a bounded wait or is given up, never without
    /// one of both; and between two ends that are not the platform's there are never more runs than
    /// `platform_retry` that the platform ended.
    #[test]
    fn the_row_is_bounded(
        ends in prop::collection::vec(0_u32..7, 1..80),
        limit in 1_u32..12,
        jitter in any::<u64>(),
        for_ever in any::<bool>(),
    ) {
        let kind = if for_ever { JobKind::Service } else { JobKind::Batch };
        let mut policy = Policy { platform_retry: limit, jitter, ..policy(kind) };
        policy.retry.limit = u32::MAX;
        let mut record = InstanceRecord::default();
        let mut row = 0_u16;
        for (n, end) in ends.into_iter().enumerate() {
            let running = news(Told::Running);
            let told = match end {
                0..=2 => vec![dropped()],
                3 => vec![running, executor_ended()],
                4 => vec![stale_offer()],
                5 => vec![running, exited(1)],
                _ => vec![running, news(Told::Gone)],
            };
            row = match end {
                0..=3 => row + 1,
                4 => row,
                _ => 0,
            };
            run_on(&mut record, u32::try_from(n).unwrap(), &told, &policy, NOW);
            prop_assert_eq!(record.platform_failures, row);
            prop_assert!(record.avoid.len() <= 9);
            let gave_up = !for_ever && u32::from(row) >= limit;
            prop_assert_eq!(record.ended, gave_up.then_some(Ended::Failed));
            if gave_up {
                break;
            }
            let wait = record.not_before.since(NOW);
            prop_assert!(wait <= Span::seconds(330), "an own failure waits for a tenth more");
            if (0..=3).contains(&end) {
                prop_assert!(wait > Span::ZERO && wait <= MOST_PLATFORM_BACKOFF);
            }
            let after = record.not_before;
            prop_assert_eq!(next(&record, &wanted(), after), Next::Run);
            prop_assert!(matches!(record.run.as_ref().unwrap().state, s if s != RunState::Running));
        }
    }
}
