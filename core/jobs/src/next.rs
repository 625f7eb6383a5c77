//! What an instance needs next, by its record and what is wanted of it. Level-triggered: asked again at any time it gives
//! the same answer until something changes.

use crate::standing::is_given_back;
use echelon_core_model::assignment::Releasing;
use echelon_core_model::instance::{Ended, InstanceRecord, MOST_OLDER, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState, Timestamp};

/// What is wanted of an instance, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The job's goal.
    pub desired: Desired,
    /// The mark on its whole range, when it is to leave.
    pub mark: Option<&'a Releasing>,
    /// Whether this cluster holds its number.
    pub held: bool,
    /// What to do when its host falls silent.
    pub on_unreachable: OnSilence,
    /// Longest that a run of it may be on its way to its host, and be prepared there.
    pub max_start: Option<Span>,
    /// For how long the cluster has been observed in sum; `None`: it is not heard at the moment. Patience
    /// counts observed time only, so that neither our absence nor a clock that was set ends it early.
    pub observed: Option<Span>,
    /// Lost runs are not replaced, here or elsewhere, until an operator says so.
    pub withhold: bool,
}

/// What an instance needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something happens.
    Rest,
    /// Nothing before this moment.
    At(Timestamp),
    /// A further run, on a host to be chosen.
    Run,
    /// Its latest run is to be stopped for this.
    Stop(ReasonCode),
    /// It ends.
    End(Ended),
    /// It ended as stopped, but is wanted again.
    Revive,
    /// Its stopping run's host stayed silent for too long: it is kept as an older one, and no longer waited for.
    GiveUp,
    /// It would be replaced or given back now, but that is withheld.
    Withheld,
    /// It would have another run now, but as many older ones as are kept may still live.
    Crowded,
}

/// What an instance needs next.
#[must_use]
pub fn next(record: &InstanceRecord, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    let next = wanted_next(record, wanted, now);
    let live = record.run.as_ref().is_some_and(Run::may_have_task);
    let crowded = record.older.len().saturating_add(usize::from(live)) > MOST_OLDER;
    if crowded && matches!(next, Next::Run | Next::GiveUp) {
        return Next::Crowded;
    }
    next
}

/// What it needs as far as its older runs leave it.
fn wanted_next(record: &InstanceRecord, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    if let Some(ended) = record.ended {
        return of_ended(record, ended, wanted);
    }
    match &record.run {
        Some(run) if run.state == RunState::Stopping => of_stopping(run, wanted, now),
        Some(run) if run.may_have_task() => of_live(run, wanted, now),
        Some(run) => of_done(record, Some(run), wanted, now),
        None if record.older.is_empty() => Next::Rest,
        None => of_done(record, None, wanted, now),
    }
}

/// Why no run of the instance may go on, if so.
fn leave(wanted: &Wanted<'_>) -> Option<ReasonCode> {
    match wanted.desired {
        Desired::Stopped => return Some(ReasonCode::StopRequested),
        Desired::Deleted => return Some(ReasonCode::DeleteRequested),
        Desired::Running => {}
    }
    // A mark by count takes unstarted numbers only.
    let mark = wanted.mark.filter(|m| m.count.is_none())?;
    Some(if mark.ends_range() {
        ReasonCode::ScaledDown
    } else {
        ReasonCode::Moved
    })
}

/// Whether it leaves since its cluster is lost. Such a run is given up rather than stopped, as long as Mesos is silent.
fn is_lost(wanted: &Wanted<'_>) -> bool {
    let is_lost = |mark: &Releasing| mark.why == ReasonCode::ClusterLost;
    wanted.desired == Desired::Running && wanted.mark.is_some_and(is_lost)
}

fn of_ended(record: &InstanceRecord, ended: Ended, wanted: &Wanted<'_>) -> Next {
    let live = record.run.as_ref().filter(|r| r.may_have_task());
    match live {
        // A run of an instance that is known to have ended, for example elsewhere: evidence enough.
        Some(run) if run.stopping.is_none() => Next::Stop(leave(wanted).unwrap_or(ReasonCode::Moved)),
        Some(_) => Next::Rest,
        None if ended == Ended::Stopped && wanted.held && leave(wanted).is_none() => Next::Revive,
        None => Next::Rest,
    }
}

fn of_stopping(run: &Run, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    if run.reason.code != ReasonCode::HostUnreachable {
        return Next::Rest;
    }
    match patience(run, wanted) {
        Some(Span::ZERO) if wanted.withhold => Next::Withheld,
        Some(Span::ZERO) => Next::GiveUp,
        Some(left) => Next::At(now.plus(left)),
        None => Next::Rest,
    }
}

/// How much longer a run may be on its way to its start. The count begins again when its host has it. `None`:
/// nothing is counted.
fn left_to_start(run: &Run, wanted: &Wanted<'_>) -> Option<Span> {
    let starts = matches!(run.state, RunState::Launching | RunState::Starting);
    left(run, wanted, wanted.max_start.filter(|_| starts)?)
}

/// How much longer a silent run is waited for; `None`: for ever, or until the cluster is heard again.
fn patience(run: &Run, wanted: &Wanted<'_>) -> Option<Span> {
    match wanted.on_unreachable {
        OnSilence::Replace(after) => left(run, wanted, after),
        OnSilence::Wait => None,
    }
}

/// What is left of a time that began when a run came into its state, while the cluster is heard.
fn left(run: &Run, wanted: &Wanted<'_>, of: Span) -> Option<Span> {
    Some(run.left_of(of, wanted.observed?))
}

fn of_live(run: &Run, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    if let Some(reason) = leave(wanted).filter(|_| !is_lost(wanted)) {
        return Next::Stop(reason);
    }
    if !wanted.held {
        return Next::Rest;
    }
    if let Some(left) = left_to_start(run, wanted) {
        return if left == Span::ZERO {
            Next::Stop(ReasonCode::StartDeadline)
        } else {
            Next::At(now.plus(left))
        };
    }
    if run.state != RunState::Unreachable {
        return Next::Rest;
    }
    match patience(run, wanted) {
        Some(Span::ZERO) if wanted.withhold => Next::Withheld,
        Some(Span::ZERO) => Next::Run,
        Some(left) => Next::At(now.plus(left)),
        None => Next::Rest,
    }
}

fn of_done(record: &InstanceRecord, run: Option<&Run>, wanted: &Wanted<'_>, now: Timestamp) -> Next {
    let withheld = wanted.withhold && may_live(record, run);
    match leave(wanted) {
        Some(ReasonCode::Moved) if withheld => return Next::Withheld,
        Some(ReasonCode::Moved) => return Next::Rest,
        Some(_) => return Next::End(Ended::Stopped),
        None => {}
    }
    let older_lives = record.older.iter().any(Run::may_have_task);
    if record.unsettled || !wanted.held || older_lives || run.is_some_and(is_given_back) {
        return Next::Rest;
    }
    if record.not_before > now {
        Next::At(record.not_before)
    } else if withheld {
        Next::Withheld
    } else {
        Next::Run
    }
}

/// Whether a run of it that counts as ended may live after all: it was lost, not heard to end.
fn may_live(record: &InstanceRecord, run: Option<&Run>) -> bool {
    let lost = |r: &Run| r.state == RunState::Lost;
    run.is_some_and(lost) || record.older.iter().any(lost)
}
