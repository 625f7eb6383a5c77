//! What an instance is to its slice: not begun, active, or ended. A grant counts the active ones, so this is the one place
//! that says what active means.

use echelon_core_model::instance::{Ended, InstanceRecord, Run};
use echelon_core_model::{ReasonCode, RunState};

/// What an instance is to its slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// No run of it counts: it needs room in the grant before it begins.
    Unstarted,
    /// It has begun and not ended. The run that follows an ended one needs no grant.
    Active,
    /// Its goal is met or given up.
    Ended(Ended),
}

/// Whether a run was ended because its place among the active ones was taken back. What follows needs a grant again.
#[must_use]
pub fn is_given_back(run: &Run) -> bool {
    let back = |code| {
        matches!(
            code,
            ReasonCode::GangIncomplete
                | ReasonCode::PoolEntitlement
                | ReasonCode::PoolPreempted
                | ReasonCode::StopRequested
                | ReasonCode::DeleteRequested
                | ReasonCode::ScaledDown
                | ReasonCode::Moved
                | ReasonCode::HostGone
        )
    };
    run.state.is_ended() && run.stopping.as_ref().is_some_and(|s| back(s.reason.code))
}

/// What an instance is to its slice.
#[must_use]
pub fn standing(record: &InstanceRecord) -> Standing {
    if let Some(ended) = record.ended {
        return Standing::Ended(ended);
    }
    match &record.run {
        // What its end means may be that nothing more begins.
        Some(run) if is_given_back(run) && !record.unsettled => Standing::Unstarted,
        Some(_) => Standing::Active,
        None if record.older.iter().any(keeps_its_place) => Standing::Active,
        None => Standing::Unstarted,
    }
}

/// Whether a run that was given up keeps its instance's place; one whose host counts as gone does not.
fn keeps_its_place(run: &Run) -> bool {
    let gone = run
        .stopping
        .as_ref()
        .is_some_and(|s| s.reason.code == ReasonCode::HostGone);
    run.state == RunState::Lost && !gone
}
