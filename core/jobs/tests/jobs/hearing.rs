//! What news do to a record: state by state, late, repeated and contradicting.

use crate::{ALL_TOLD, FIRST, NOW, begun, news, policy, record};
use echelon_core_jobs::{Heard, News, OlderFate, Told, give_up, hear, next_number, settle_older};
use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::spec::JobKind;
use echelon_core_model::time::Span;
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{Generation, HostId, RunNumber, RunState, Timestamp, VolumeId};
use proptest::prelude::*;

fn heard(from: RunState, told: Told) -> RunState {
    let mut r = record(from);
    hear(&mut r, FIRST, &news(told), Some(&policy(JobKind::Batch)), NOW);
    r.run.unwrap().state
}

#[test]
fn news_move_a_run_along_its_table() {
    use RunState::{
        Failed, Killed, Launching, Lost, Rejected, Running, Starting, Stopping, Succeeded, Unreachable,
    };
    let table = [
        (Launching, Told::Preparing, Starting),
        (Launching, Told::Gone, Rejected),
        (Launching, Told::Dropped, Rejected),
        (Launching, Told::Invalid, Rejected),
        (Launching, Told::Silent, Unreachable),
        (Launching, Told::Ending, Starting),
        (Running, Told::Ending, Running),
        (Starting, Told::Running, Running),
        (Running, Told::Preparing, Running),
        (Running, Told::Gone, Lost),
        (Running, Told::Dropped, Lost),
        (Running, Told::Silent, Unreachable),
        (Unreachable, Told::Running, Running),
        (Unreachable, Told::Gone, Lost),
        (Stopping, Told::Running, Stopping),
        (Stopping, Told::Silent, Stopping),
        (Stopping, Told::Gone, Killed),
        (Stopping, Told::Succeeded, Succeeded),
        (Running, Told::Killed, Killed),
        (Running, Told::Failed, Failed),
        (Lost, Told::Running, Running),
        (Lost, Told::Silent, Lost),
    ];
    for (from, told, to) in table {
        assert_eq!(heard(from, told), to, "{from} hears {told:?}");
    }
}

#[test]
fn a_state_is_dated_when_it_was_entered_and_no_strange_clock_changes_the_order() {
    let launched = Timestamp(NOW.0 - 100_000);
    let table = [
        ("nothing was told", None, NOW),
        (
            "a minute ago",
            Some(Timestamp(NOW.0 - 60_000)),
            Timestamp(NOW.0 - 60_000),
        ),
        ("before it was launched", Some(Timestamp(7)), launched),
        ("in the future", Some(NOW.plus(Span::minutes(60))), NOW),
    ];
    for (name, at, since) in table {
        let mut r = record(RunState::Running);
        r.run.as_mut().unwrap().since = launched;
        let news = News {
            at,
            ..news(Told::Succeeded)
        };
        hear(&mut r, FIRST, &news, Some(&policy(JobKind::Batch)), NOW);
        let run = r.run.unwrap();
        assert_eq!((run.state, run.since), (RunState::Succeeded, since), "{name}");
        assert_eq!(run.ended_at, Some(NOW), "{name}: durations are of one clock");
    }
}

/// An instance is bound to its volume once a run may have written to it.
#[test]
fn a_volume_is_used_once_its_run_may_have_been_there() {
    let unused = || HeldVolume {
        id: VolumeId::new("v"),
        host: HostId::new("h"),
        hostname: "h".into(),
        size: 1,
        used: false,
    };
    for from in [RunState::Launching, RunState::Stopping] {
        for told in ALL_TOLD {
            let mut r = record(from);
            r.volume = Some(Box::new(unused()));
            hear(&mut r, FIRST, &news(told), Some(&policy(JobKind::Stateful)), NOW);
            let never_was = matches!(told, Told::Invalid | Told::Dropped | Told::Gone);
            let silent = from == RunState::Stopping && told == Told::Silent;
            assert_eq!(
                r.volume.unwrap().used,
                !never_was && !silent,
                "{from} hears {told:?}"
            );
        }
    }
}

#[test]
fn what_probes_say_is_kept_until_they_say_otherwise() {
    let mut r = record(RunState::Running);
    r.run.as_mut().unwrap().note_availability(NOW);
    let mut hears = |told, healthy, ready| {
        let news = News {
            healthy,
            ready,
            ..news(told)
        };
        let heard = hear(&mut r, FIRST, &news, Some(&policy(JobKind::Service)), NOW);
        let run = r.run.as_ref().unwrap();
        (heard == Heard::Latest, run.healthy, run.ready)
    };
    assert_eq!(hears(Told::Running, None, None), (false, None, None));
    assert_eq!(hears(Told::Running, Some(true), None), (true, Some(true), None));
    assert_eq!(
        hears(Told::Running, None, Some(true)),
        (true, Some(true), Some(true))
    );
    assert_eq!(
        hears(Told::Running, Some(true), None),
        (false, Some(true), Some(true))
    );
    assert_eq!(
        hears(Told::Failed, Some(false), None),
        (true, Some(false), Some(true))
    );
    assert_eq!(
        hears(Told::Failed, Some(true), None),
        (false, Some(false), Some(true))
    );
}

#[test]
fn a_proven_end_is_never_left() {
    for from in [
        RunState::Succeeded,
        RunState::Failed,
        RunState::Killed,
        RunState::Rejected,
    ] {
        for told in ALL_TOLD {
            assert_eq!(heard(from, told), from, "{told:?}");
        }
    }
}

#[test]
fn retries_are_counted_by_kind_and_cause() {
    let table = [
        (JobKind::Batch, Told::Succeeded, 0, Some(Ended::Succeeded)),
        (JobKind::Batch, Told::Failed, 1, None),
        (JobKind::Batch, Told::Killed, 0, None),
        (JobKind::Batch, Told::Gone, 0, None),
        (JobKind::Service, Told::Succeeded, 1, None),
        (JobKind::Service, Told::Failed, 1, None),
    ];
    for (kind, told, attempts, ended) in table {
        let mut r = record(RunState::Running);
        hear(&mut r, FIRST, &news(told), Some(&policy(kind)), NOW);
        assert_eq!((r.attempts, r.ended), (attempts, ended), "{kind} {told:?}");
    }
}

#[test]
fn waits_double_up_to_the_longest() {
    let mut r = InstanceRecord::default();
    let waits = (1..=12u32).map(|n| {
        begun(&mut r);
        hear(
            &mut r,
            (Generation(1), RunNumber(n)),
            &news(Told::Failed),
            Some(&policy(JobKind::Service)),
            NOW,
        );
        r.not_before.since(NOW)
    });
    let waits: Vec<u64> = waits.map(|w| w.0 / 1000).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

#[test]
fn a_long_run_forgives_a_service_its_failures() {
    let mut r = record(RunState::Starting);
    r.attempts = 9;
    let policy = policy(JobKind::Service);
    hear(&mut r, FIRST, &news(Told::Running), Some(&policy), NOW);
    hear(
        &mut r,
        FIRST,
        &news(Told::Failed),
        Some(&policy),
        NOW.plus(Span::minutes(5)),
    );
    assert_eq!(r.attempts, 1);
}

#[test]
fn an_older_run_that_lives_is_adopted_or_stopped() {
    let given_up = |newer: bool| {
        let mut r = record(RunState::Unreachable);
        if newer {
            begun(&mut r);
        } else {
            give_up(&mut r, NOW);
        }
        r
    };
    for (newer, unsent, fate) in [
        (true, true, OlderFate::Adopted),
        (true, false, OlderFate::Stopped),
        (false, false, OlderFate::Adopted),
    ] {
        let mut r = given_up(newer);
        let heard = hear(
            &mut r,
            FIRST,
            &news(Told::Running),
            Some(&policy(JobKind::Service)),
            NOW,
        );
        assert_eq!(heard, Heard::OlderAlive);
        assert_eq!(settle_older(&mut r, FIRST, unsent, Span::seconds(10), NOW), fate);
        let latest = r.run.clone().map(|r| (r.number.0, r.state));
        let expected = if fate == OlderFate::Adopted {
            (1, RunState::Running)
        } else {
            (2, RunState::Launching)
        };
        assert_eq!(latest, Some(expected));
    }
    let mut ended = given_up(true);
    ended.ended = Some(Ended::Stopped);
    assert_eq!(
        settle_older(&mut ended, FIRST, true, Span::ZERO, NOW),
        OlderFate::Stopped
    );
}

proptest! {
    #[test]
    fn hearing_twice_is_hearing_once(tolds in proptest::collection::vec(0usize..ALL_TOLD.len(), 1..12)) {
        let mut once = record(RunState::Launching);
        let mut twice = once.clone();
        let policy = policy(JobKind::Batch);
        for (i, t) in tolds.iter().enumerate() {
            let now = Timestamp(NOW.0 + i as u64);
            let news = news(ALL_TOLD[*t]);
            hear(&mut once, FIRST, &news, Some(&policy), now);
            hear(&mut twice, FIRST, &news, Some(&policy), now);
            prop_assert_eq!(hear(&mut twice, FIRST, &news, Some(&policy), now), Heard::Nothing);
        }
        prop_assert_eq!(once, twice);
    }
}

#[test]
fn a_run_number_is_never_given_out_again() {
    let mut r = record(RunState::Unreachable);
    give_up(&mut r, NOW);
    hear(
        &mut r,
        FIRST,
        &news(Told::Gone),
        Some(&policy(JobKind::Service)),
        NOW,
    );
    assert!(r.older.is_empty());
    assert_eq!(next_number(&r, Generation(1)), RunNumber(2));
}
