//! What an instance needs next, as a table.

use crate::{NOW, record};
use echelon_core_jobs::{Next, Wanted, next, stop_run};
use echelon_core_model::assignment::Releasing;
use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;
use echelon_core_model::{ClusterId, ReasonCode, RunState, Timestamp};

const WANTED: Wanted<'static> = Wanted {
    desired: Desired::Running,
    mark: None,
    held: true,
    on_unreachable: OnSilence::Replace(Span::minutes(5)),
    max_start: None,
    observed: Some(Span::ZERO),
    withhold: false,
};

const STOPPED: Wanted<'static> = Wanted {
    desired: Desired::Stopped,
    ..WANTED
};
const LOST: Wanted<'static> = Wanted {
    held: false,
    ..WANTED
};

fn mark(to: Option<&str>, count: Option<u64>) -> Releasing {
    Releasing {
        to: to.map(ClusterId::new),
        why: if to.is_none() {
            ReasonCode::ScaledDown
        } else {
            ReasonCode::Moved
        },
        count,
    }
}

const fn with(mark: &Releasing) -> Wanted<'_> {
    Wanted {
        mark: Some(mark),
        ..WANTED
    }
}

fn check(table: &[(&str, InstanceRecord, Wanted<'_>, Next)]) {
    for (name, record, wanted, expected) in table {
        assert_eq!(next(record, wanted, NOW), *expected, "{name}");
    }
}

#[test]
fn what_lives_goes_on_or_is_stopped() {
    let (away, nowhere, some) = (
        mark(Some("c2"), None),
        mark(None, None),
        mark(Some("c2"), Some(1)),
    );
    let returned = Releasing {
        why: ReasonCode::Moved,
        ..mark(None, None)
    };
    let runs = || record(RunState::Running);
    check(&[
        ("never begun", InstanceRecord::default(), WANTED, Next::Rest),
        ("runs", runs(), WANTED, Next::Rest),
        (
            "stopped job",
            runs(),
            STOPPED,
            Next::Stop(ReasonCode::StopRequested),
        ),
        ("moved", runs(), with(&away), Next::Stop(ReasonCode::Moved)),
        (
            "scaled away",
            runs(),
            with(&nowhere),
            Next::Stop(ReasonCode::ScaledDown),
        ),
        (
            "returned to its queue",
            runs(),
            with(&returned),
            Next::Stop(ReasonCode::Moved),
        ),
        ("marked by count", runs(), with(&some), Next::Rest),
        ("not held: kept", runs(), LOST, Next::Rest),
        ("stopping", record(RunState::Stopping), STOPPED, Next::Rest),
    ]);
}

#[test]
fn what_is_over_is_followed_or_ends() {
    let (away, nowhere) = (mark(Some("c2"), None), mark(None, None));
    let returned = Releasing {
        why: ReasonCode::Moved,
        ..mark(None, None)
    };
    let failed = record(RunState::Failed);
    let waits = InstanceRecord {
        not_before: NOW.plus(Span(1)),
        ..failed.clone()
    };
    let ended = |e| InstanceRecord {
        ended: Some(e),
        ..failed.clone()
    };
    let mut back = record(RunState::Running);
    stop_run(&mut back, ReasonCode::PoolEntitlement.into(), Span::ZERO, NOW);
    back.run.as_mut().unwrap().state = RunState::Killed;
    check(&[
        ("failed", failed.clone(), WANTED, Next::Run),
        ("not held", failed.clone(), LOST, Next::Rest),
        ("backs off", waits, WANTED, Next::At(NOW.plus(Span(1)))),
        ("stopped job", failed.clone(), STOPPED, Next::End(Ended::Stopped)),
        ("moved", failed.clone(), with(&away), Next::Rest),
        (
            "scaled away",
            failed.clone(),
            with(&nowhere),
            Next::End(Ended::Stopped),
        ),
        (
            "returned to its queue",
            failed.clone(),
            with(&returned),
            Next::Rest,
        ),
        ("succeeded", ended(Ended::Succeeded), WANTED, Next::Rest),
        ("used up", ended(Ended::Failed), WANTED, Next::Rest),
        (
            "was stopped, is wanted",
            ended(Ended::Stopped),
            WANTED,
            Next::Revive,
        ),
        (
            "was stopped, still is",
            ended(Ended::Stopped),
            STOPPED,
            Next::Rest,
        ),
        ("given back to the pool", back, WANTED, Next::Rest),
    ]);
}

#[test]
fn silence_is_waited_out_by_observed_time_whatever_the_clock_says() {
    let mut silent = record(RunState::Unreachable);
    let five = Span::minutes(5);
    let after = |silent: &InstanceRecord, observed: Option<Span>, now: Timestamp| {
        next(silent, &Wanted { observed, ..WANTED }, now)
    };
    let hour = Span::minutes(60);
    for now in [NOW, NOW.plus(hour), Timestamp(NOW.0.saturating_sub(hour.0))] {
        assert_eq!(after(&silent, Some(Span::ZERO), now), Next::At(now.plus(five)));
        let two = Some(Span::minutes(2));
        assert_eq!(after(&silent, two, now), Next::At(now.plus(Span::minutes(3))));
        assert_eq!(after(&silent, Some(five), now), Next::Run);
        assert_eq!(after(&silent, None, now), Next::Rest, "the cluster is not heard");
    }
    // A leader may begin with less than an earlier one had observed.
    silent.run.as_mut().unwrap().observed_at = five;
    assert_eq!(after(&silent, Some(Span(1)), NOW), Next::At(NOW.plus(five)));
    let patient = Wanted {
        on_unreachable: OnSilence::Wait,
        ..WANTED
    };
    assert_eq!(next(&silent, &patient, Timestamp(u64::MAX)), Next::Rest);
}

#[test]
fn while_replacements_are_withheld_only_what_is_known_to_have_ended_goes_on() {
    let held = Wanted {
        withhold: true,
        ..WANTED
    };
    let away = mark(Some("c2"), None);
    let leaving = Wanted {
        withhold: true,
        ..with(&away)
    };
    let stopped = Wanted {
        withhold: true,
        ..STOPPED
    };
    let silent = record(RunState::Unreachable);
    let long = Wanted {
        observed: Some(Span::minutes(6)),
        ..held
    };
    check(&[
        ("lost", record(RunState::Lost), held, Next::Withheld),
        ("silent for too long", silent, long, Next::Withheld),
        ("lost, to leave", record(RunState::Lost), leaving, Next::Withheld),
        ("failed", record(RunState::Failed), held, Next::Run),
        ("failed, to leave", record(RunState::Failed), leaving, Next::Rest),
        ("runs", record(RunState::Running), held, Next::Rest),
        (
            "lost, and stopped by its user",
            record(RunState::Lost),
            stopped,
            Next::End(Ended::Stopped),
        ),
    ]);
}
