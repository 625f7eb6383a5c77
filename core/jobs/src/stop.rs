//! The wish to end a run, as it is stored before the first KILL.

use echelon_core_model::instance::{InstanceRecord, Run, Stopping};
use echelon_core_model::time::Span;
use echelon_core_model::{Reason, RunState, Timestamp};

fn stop(run: &mut Run, reason: Reason, grace: Span, now: Timestamp) -> bool {
    // A pod that a member brings to its end can be wished to stop, too: what follows it depends on that.
    let ending = run.state == RunState::Stopping && run.ending.is_some();
    if run.stopping.is_some() || !(ending || run.state.may_become(RunState::Stopping)) {
        return false;
    }
    run.state = RunState::Stopping;
    run.since = now;
    run.reason = reason.clone();
    run.stopping = Some(Box::new(Stopping {
        reason,
        grace,
        since: now,
    }));
    true
}

/// Marks the latest run as stopping. False when there is nothing to stop, or it is stopping already: the first reason stays.
pub fn stop_run(record: &mut InstanceRecord, reason: Reason, grace: Span, now: Timestamp) -> bool {
    match &mut record.run {
        Some(run) if run.may_have_task() => stop(run, reason, grace, now),
        _ => false,
    }
}

/// Notes of a latest run that has ended that its place among the active ones is given back. False when it has not ended.
pub fn give_back(record: &mut InstanceRecord, reason: Reason, now: Timestamp) -> bool {
    let ended = record.run.as_mut().filter(|r| r.state.is_ended());
    let Some(run) = ended else { return false };
    run.stopping = Some(Box::new(Stopping {
        reason,
        grace: Span::ZERO,
        since: now,
    }));
    true
}

/// Marks an older run, seen again, as stopping. False when it is stopping already.
pub fn stop_older(run: &mut Run, reason: Reason, grace: Span, now: Timestamp) -> bool {
    stop(run, reason, grace, now)
}
