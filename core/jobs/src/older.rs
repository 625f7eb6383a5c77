//! Runs that were given up while their host was silent: how one is given up, and what happens when it is seen again
//! (design section 5).

use crate::settle::{Policy, settle};
use crate::stop::stop_older;
use echelon_core_model::instance::{InstanceRecord, MOST_OLDER, Run, Stopping};
use echelon_core_model::time::Span;
use echelon_core_model::{Generation, ReasonCode, RunNumber, RunState, Timestamp};

/// What becomes of an older run that lives after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderFate {
    /// It is the latest run again; the newer intent, if any, is dropped and must not be launched. Nothing is
    /// known of its availability: the update that shows it alive is to be applied to it once more.
    Adopted,
    /// It is to be killed once that is stored.
    Stopped,
    /// There is no such run.
    Unknown,
}

/// Gives the latest run up: it is kept as an older one until it is known dead.
pub fn give_up(record: &mut InstanceRecord, now: Timestamp) {
    let Some(mut run) = record.run.take() else { return };
    run.state = RunState::Lost;
    run.since = now;
    run.reason = ReasonCode::HostUnreachable.into();
    run.ended_at = Some(now);
    record.older.push(run);
}

/// Whether the place of an instance on a host that is gone may be taken back. A run that may live is kept as an
/// older one, and an instance has a bounded number of these.
#[must_use]
pub fn may_leave_host(record: &InstanceRecord) -> bool {
    let live = record.run.as_ref().is_some_and(Run::may_have_task);
    !live || record.older.len() < MOST_OLDER
}

/// The host of an instance that can be on no other one is gone: its place among the active ones is taken back. A run that is only silent is
/// kept as an older one, to be stopped if its host is seen again.
pub fn leave_host(record: &mut InstanceRecord, now: Timestamp) {
    let gone = Stopping {
        reason: ReasonCode::HostGone.into(),
        grace: Span::ZERO,
        since: now,
    };
    if !may_leave_host(record) {
        return;
    }
    if record.run.as_ref().is_some_and(Run::may_have_task) {
        give_up(record, now);
    }
    // Whatever they were to be stopped for when they fell silent.
    let lost = record.older.iter_mut().filter(|run| run.state == RunState::Lost);
    for run in lost.chain(&mut record.run) {
        run.stopping = Some(Box::new(gone.clone()));
    }
}

/// Gives the latest run up that is stopping and stays silent. Where a member of a pod has brought its end, that end counts for
/// the instance as if all of it were told: work that succeeded is not done again.
pub fn give_up_stopping(record: &mut InstanceRecord, policy: &Policy, now: Timestamp) {
    let brought = record
        .run
        .as_mut()
        .and_then(|run| Some((run.ending.clone()?, run)));
    if let Some((end, run)) = brought {
        run.state = end.state;
        run.ended_at = Some(now);
        record.unsettled = true;
        settle(record, policy);
    }
    give_up(record, now);
}

/// Settles older run `of`, which lives. `newest_unsent`: the latest run is an intent whose ACCEPT has certainly not left.
pub fn settle_older(
    record: &mut InstanceRecord,
    of: (Generation, RunNumber),
    newest_unsent: bool,
    grace: Span,
    now: Timestamp,
) -> OlderFate {
    let Some(at) = record.older.iter().position(|r| (r.generation, r.number) == of) else {
        return OlderFate::Unknown;
    };
    let newest_older = record.older.iter().all(|r| (r.generation, r.number) <= of);
    let no_newer = newest_older && (record.run.is_none() || newest_unsent);
    let wished = record
        .older
        .get(at)
        .is_some_and(|r| r.stopping.is_some() || r.ending.is_some());
    if no_newer && record.ended.is_none() && !wished {
        let run = record.older.remove(at);
        record.run = Some(adopted(run, now));
        return OlderFate::Adopted;
    }
    let reason = ReasonCode::HostUnreachable.into();
    if let Some(run) = record.older.get_mut(at) {
        if let Some(wish) = run.stopping.take() {
            // It was being stopped when it fell silent: the first wish stays.
            stop_older(run, wish.reason, wish.grace, now);
        } else {
            stop_older(run, reason, grace, now);
        }
    }
    OlderFate::Stopped
}

/// It has left the lists of endpoints. It returns there when an update shows it well, and not by what was
/// stored before.
fn adopted(mut run: Run, now: Timestamp) -> Run {
    run.state = RunState::Running;
    run.since = now;
    run.reason = ReasonCode::Running.into();
    run.ended_at = None;
    run.forget_availability();
    run
}
