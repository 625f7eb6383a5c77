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
    contact_since: Timestamp(0),
};

#[test]
fn an_instance_needs_what_its_record_and_goal_say() {
    let to = |to: Option<&str>, count| Releasing {
        to: to.map(ClusterId::new),
        why: ReasonCode::Moved,
        count,
    };
    let (away, nowhere, some) = (to(Some("c2"), None), to(None, None), to(Some("c2"), Some(1)));
    let mark = |mark| Wanted {
        mark: Some(mark),
        ..WANTED
    };
    let stopped = Wanted {
        desired: Desired::Stopped,
        ..WANTED
    };
    let lost = Wanted {
        held: false,
        ..WANTED
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
    let back = {
        let mut r = record(RunState::Running);
        stop_run(&mut r, ReasonCode::PoolEntitlement.into(), Span::ZERO, NOW);
        r.run.as_mut().unwrap().state = RunState::Killed;
        r
    };
    let table = [
        ("never begun", InstanceRecord::default(), WANTED, Next::Rest),
        ("runs", record(RunState::Running), WANTED, Next::Rest),
        (
            "runs, stopped job",
            record(RunState::Running),
            stopped,
            Next::Stop(ReasonCode::StopRequested),
        ),
        (
            "runs, moved",
            record(RunState::Running),
            mark(&away),
            Next::Stop(ReasonCode::Moved),
        ),
        (
            "runs, scaled away",
            record(RunState::Running),
            mark(&nowhere),
            Next::Stop(ReasonCode::ScaledDown),
        ),
        (
            "runs, marked by count",
            record(RunState::Running),
            mark(&some),
            Next::Rest,
        ),
        (
            "runs, not held: kept",
            record(RunState::Running),
            lost,
            Next::Rest,
        ),
        ("stopping", record(RunState::Stopping), stopped, Next::Rest),
        ("failed", failed.clone(), WANTED, Next::Run),
        ("failed, not held", failed.clone(), lost, Next::Rest),
        ("failed, backs off", waits, WANTED, Next::At(NOW.plus(Span(1)))),
        (
            "failed, stopped job",
            failed.clone(),
            stopped,
            Next::End(Ended::Stopped),
        ),
        ("failed, moved", failed.clone(), mark(&away), Next::Rest),
        (
            "failed, scaled away",
            failed.clone(),
            mark(&nowhere),
            Next::End(Ended::Stopped),
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
            "was stopped, still stopped",
            ended(Ended::Stopped),
            stopped,
            Next::Rest,
        ),
        ("given back to the pool", back, WANTED, Next::Rest),
    ];
    for (name, record, wanted, expected) in table {
        assert_eq!(next(&record, &wanted, NOW), expected, "{name}");
    }
}

#[test]
fn silence_is_waited_out_from_the_later_of_its_start_and_our_contact() {
    let silent = record(RunState::Unreachable);
    let five = Span::minutes(5);
    assert_eq!(next(&silent, &WANTED, NOW), Next::At(NOW.plus(five)));
    assert_eq!(next(&silent, &WANTED, NOW.plus(five)), Next::Run);
    let away = Wanted {
        contact_since: NOW.plus(five),
        ..WANTED
    };
    assert_eq!(
        next(&silent, &away, NOW.plus(five)),
        Next::At(NOW.plus(five).plus(five))
    );
    let patient = Wanted {
        on_unreachable: OnSilence::Wait,
        ..WANTED
    };
    assert_eq!(next(&silent, &patient, Timestamp(u64::MAX)), Next::Rest);
}
