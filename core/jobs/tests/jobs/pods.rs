//! News of the members of pods, in any order, and what becomes of the run.

use crate::{ALL_TOLD, FIRST, NOW, begun_pod, news, policy};
use echelon_core_jobs::{
    Heard, News, Next, OlderFate, Told, Wanted, Whom, give_up, give_up_stopping, hear, is_given_back, next,
    settle_older, stop_run,
};
use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::time::Span;
use echelon_core_model::{Reason, ReasonCode, RunState, SidecarName, Timestamp};
use proptest::prelude::*;

const MAIN: Option<&str> = None;
const LOG: Option<&str> = Some("log");
const PROXY: Option<&str> = Some("proxy");

const WANTED: Wanted<'_> = Wanted {
    desired: Desired::Running,
    mark: None,
    held: true,
    on_unreachable: OnSilence::Replace(Span::minutes(5)),
    max_start: None,
    observed: Some(Span::minutes(60)),
    withhold: false,
};
const LATE: Timestamp = Timestamp(NOW.0 + 3_600_000);

fn of(member: Option<&str>, told: Told) -> News {
    News {
        of: member.map_or(Whom::Main, |name| Whom::Sidecar(SidecarName::new(name))),
        ..news(told)
    }
}

/// A pod of a main task and the sidecars `log` and `proxy`, after these news.
fn pod_after(all: &[(Option<&str>, Told)]) -> InstanceRecord {
    let mut record = begun_pod(&["log", "proxy"]);
    for (member, told) in all {
        say(&mut record, *member, *told);
    }
    record
}

fn say(record: &mut InstanceRecord, member: Option<&str>, told: Told) -> Heard {
    hear(
        record,
        FIRST,
        &of(member, told),
        Some(&policy(JobKind::Batch)),
        NOW,
    )
}

fn state(record: &InstanceRecord) -> RunState {
    record.run.as_ref().unwrap().state
}

fn running() -> InstanceRecord {
    pod_after(&[
        (MAIN, Told::Running),
        (LOG, Told::Running),
        (PROXY, Told::Running),
    ])
}

#[test]
fn a_pod_runs_when_each_member_runs() {
    let mut record = begun_pod(&["log", "proxy"]);
    let table = [
        (LOG, Told::Preparing, RunState::Starting),
        (MAIN, Told::Running, RunState::Starting),
        (LOG, Told::Running, RunState::Starting),
        (PROXY, Told::Running, RunState::Running),
        (PROXY, Told::Preparing, RunState::Running),
        (LOG, Told::Succeeded, RunState::Running),
    ];
    for (member, told, expected) in table {
        say(&mut record, member, told);
        assert_eq!(state(&record), expected, "{member:?} {told:?}");
    }
    let run = record.run.unwrap();
    assert_eq!((run.started_at, run.ending), (Some(NOW), None));
}

/// Ends of a running pod: what is told in order, and what the run is then.
#[test]
fn a_pod_ends_as_the_member_that_ended_it_and_not_before_the_last_is_dead() {
    use RunState::{Failed, Killed, Lost, Stopping, Succeeded};
    type Said = (Option<&'static str>, Told);
    let table: [(&[Said], RunState); 10] = [
        (&[(MAIN, Told::Succeeded)], Stopping),
        (
            &[
                (MAIN, Told::Succeeded),
                (LOG, Told::Killed),
                (PROXY, Told::Killed),
            ],
            Succeeded,
        ),
        (
            &[
                (LOG, Told::Succeeded),
                (PROXY, Told::Succeeded),
                (MAIN, Told::Succeeded),
            ],
            Succeeded,
        ),
        (&[(LOG, Told::Failed), (MAIN, Told::Killed)], Stopping),
        (
            &[(LOG, Told::Failed), (MAIN, Told::Killed), (PROXY, Told::Killed)],
            Failed,
        ),
        // The killed one's update overtakes that of the one that failed.
        (
            &[(MAIN, Told::Killed), (LOG, Told::Failed), (PROXY, Told::Killed)],
            Failed,
        ),
        // What was killed after the main task had succeeded may say that it failed.
        (
            &[
                (MAIN, Told::Succeeded),
                (LOG, Told::Failed),
                (PROXY, Told::Killed),
            ],
            Succeeded,
        ),
        (
            &[(PROXY, Told::Killed), (MAIN, Told::Killed), (LOG, Told::Killed)],
            Killed,
        ),
        (&[(PROXY, Told::Gone)], Stopping),
        (
            &[(PROXY, Told::Gone), (MAIN, Told::Gone), (LOG, Told::Gone)],
            Lost,
        ),
    ];
    for (told, expected) in table {
        let mut record = running();
        for (member, told) in told {
            say(&mut record, *member, *told);
        }
        assert_eq!(state(&record), expected, "{told:?}");
    }
}

#[test]
fn the_reason_names_the_member_and_a_failure_counts_once() {
    let mut record = running();
    let failed = News {
        exit_code: Some(7),
        reason: Reason::new(ReasonCode::Failed).at("Command exited with status 7"),
        ..of(LOG, Told::Failed)
    };
    hear(&mut record, FIRST, &failed, Some(&policy(JobKind::Batch)), NOW);
    assert_eq!(record.attempts, 0, "something of it may live");
    for member in [MAIN, PROXY] {
        say(&mut record, member, Told::Killed);
    }
    assert_eq!(record.attempts, 1);
    let run = record.run.unwrap();
    assert_eq!((run.state, run.exit_code), (RunState::Failed, Some(7)));
    assert_eq!(
        run.reason.detail.as_deref(),
        Some("sidecar log: Command exited with status 7")
    );
    let exits: Vec<_> = run.members.iter().map(|m| (m.name(), m.exit_code)).collect();
    assert_eq!(exits, [("main", None), ("log", Some(7)), ("proxy", None)]);
}

#[test]
fn a_host_is_silent_when_nothing_of_its_pod_is_heard() {
    let mut record = running();
    say(&mut record, LOG, Told::Silent);
    say(&mut record, MAIN, Told::Silent);
    assert_eq!(state(&record), RunState::Running, "proxy is not known to be away");
    say(&mut record, PROXY, Told::Silent);
    assert_eq!(state(&record), RunState::Unreachable);
    say(&mut record, LOG, Told::Running);
    assert_eq!(state(&record), RunState::Running);
    assert!(record.run.as_ref().unwrap().has_silent_member());
}

#[test]
fn a_silent_pod_that_is_to_stop_is_given_up_after_its_patience() {
    let mut record = running();
    for member in [MAIN, LOG, PROXY] {
        say(&mut record, member, Told::Silent);
    }
    stop_run(&mut record, ReasonCode::RestartRequested.into(), Span::ZERO, NOW);
    assert_eq!(next(&record, &WANTED, LATE), Next::Rest, "not heard of since");
    say(&mut record, LOG, Told::Silent);
    assert_eq!(next(&record, &WANTED, LATE), Next::GiveUp);
}

#[test]
fn a_pod_that_ends_by_itself_may_be_wished_to_stop_once() {
    let mut record = running();
    say(&mut record, LOG, Told::Failed);
    let mut stop = |code: ReasonCode| stop_run(&mut record, code.into(), Span::ZERO, NOW);
    assert!(stop(ReasonCode::StopRequested));
    assert!(!stop(ReasonCode::RestartRequested), "the first wish stays");
    for member in [MAIN, PROXY] {
        say(&mut record, member, Told::Killed);
    }
    assert_eq!((state(&record), record.attempts), (RunState::Failed, 0));
    assert!(is_given_back(record.run.as_ref().unwrap()));
}

#[test]
fn what_is_left_of_a_pod_blocks_the_next_run() {
    let mut record = running();
    say(&mut record, MAIN, Told::Failed);
    say(&mut record, LOG, Told::Killed);
    assert_eq!(next(&record, &WANTED, LATE), Next::Rest);
    say(&mut record, PROXY, Told::Killed);
    assert_eq!(next(&record, &WANTED, LATE), Next::Run);
}

#[test]
fn work_that_succeeded_is_not_done_again_when_its_host_falls_silent_then() {
    let mut record = running();
    say(&mut record, MAIN, Told::Succeeded);
    say(&mut record, LOG, Told::Silent);
    say(&mut record, PROXY, Told::Silent);
    assert_eq!(next(&record, &WANTED, LATE), Next::GiveUp);
    give_up_stopping(&mut record, &policy(JobKind::Batch), LATE);
    assert_eq!(record.ended, Some(Ended::Succeeded));
    assert_eq!(next(&record, &WANTED, LATE), Next::Rest);
    // What is back is on its way out, and no run of the instance any more.
    assert_eq!(say(&mut record, LOG, Told::Running), Heard::OlderAlive);
    let fate = settle_older(&mut record, FIRST, false, Span::seconds(1), LATE);
    assert_eq!(fate, OlderFate::Stopped);
    assert_eq!(say(&mut record, LOG, Told::Killed), Heard::Older);
    assert!(matches!(
        say(&mut record, PROXY, Told::Gone),
        Heard::OlderEnded(_)
    ));
}

#[test]
fn a_pod_that_was_given_up_is_adopted_whole() {
    let mut record = running();
    for member in [MAIN, LOG, PROXY] {
        say(&mut record, member, Told::Silent);
    }
    give_up(&mut record, NOW);
    assert_eq!(say(&mut record, LOG, Told::Running), Heard::OlderAlive);
    let fate = settle_older(&mut record, FIRST, false, Span::seconds(1), NOW);
    assert_eq!((fate, state(&record)), (OlderFate::Adopted, RunState::Running));
    say(&mut record, MAIN, Told::Failed);
    assert_eq!(state(&record), RunState::Stopping);
}

#[test]
fn a_lost_pod_that_is_seen_again_goes_on() {
    let mut record = running();
    for member in [MAIN, LOG, PROXY] {
        say(&mut record, member, Told::Gone);
    }
    assert_eq!(state(&record), RunState::Lost);
    say(&mut record, LOG, Told::Running);
    assert_eq!(state(&record), RunState::Running);
    say(&mut record, MAIN, Told::Gone);
    assert_eq!(
        state(&record),
        RunState::Stopping,
        "it was seen without its main task"
    );
}

#[test]
fn a_dropped_launch_is_dropped_whole() {
    let mut record = begun_pod(&["log"]);
    let dropped = News {
        of: Whom::All,
        ..news(Told::Dropped)
    };
    hear(&mut record, FIRST, &dropped, Some(&policy(JobKind::Batch)), NOW);
    assert_eq!(state(&record), RunState::Rejected);
    // A launch of a group is refused as a whole (R71), which each of its tasks tells.
    let mut record = begun_pod(&["log"]);
    say(&mut record, LOG, Told::Invalid);
    assert_eq!(state(&record), RunState::Stopping);
    say(&mut record, MAIN, Told::Invalid);
    assert_eq!(state(&record), RunState::Rejected);
}

proptest! {
    #[test]
    fn hearing_of_members_twice_is_hearing_once(
        tolds in proptest::collection::vec((0usize..3, 0usize..ALL_TOLD.len()), 1..24)
    ) {
        let mut once = begun_pod(&["log", "proxy"]);
        let mut twice = once.clone();
        let policy = policy(JobKind::Batch);
        for (i, (member, told)) in tolds.iter().enumerate() {
            let now = Timestamp(NOW.0 + i as u64);
            let news = of([MAIN, LOG, PROXY][*member], ALL_TOLD[*told]);
            hear(&mut once, FIRST, &news, Some(&policy), now);
            hear(&mut twice, FIRST, &news, Some(&policy), now);
            prop_assert_eq!(hear(&mut twice, FIRST, &news, Some(&policy), now), Heard::Nothing);
        }
        prop_assert_eq!(once, twice);
    }

    /// Whatever is told in whatever order: the run is over when, and only when, no member can live, and it is not said to run or
    /// to be lost out of sight while that is not so of its members.
    #[test]
    fn a_run_is_where_its_members_are(
        tolds in proptest::collection::vec((0usize..3, 0usize..ALL_TOLD.len()), 1..24)
    ) {
        let mut record = begun_pod(&["log", "proxy"]);
        for (member, told) in &tolds {
            say(&mut record, [MAIN, LOG, PROXY][*member], ALL_TOLD[*told]);
            let run = record.run.as_ref().unwrap();
            let over = run.members.iter().all(|m| m.state.is_ended());
            prop_assert_eq!(run.state.is_ended(), over, "{:?}", run);
            let mut live = run.members.iter().filter(|m| !m.state.is_ended());
            if run.state == RunState::Unreachable {
                prop_assert!(live.all(|m| m.state == RunState::Unreachable), "{:?}", run);
            }
            if run.state == RunState::Running {
                let bad = |s: RunState| s.is_ended() && s != RunState::Succeeded;
                prop_assert!(!run.members.iter().any(|m| bad(m.state)), "{:?}", run);
            }
            prop_assert_eq!(run.ended_at.is_some(), run.state.is_ended());
        }
    }
}
