//! What is to be written into the head of a job.

use echelon_core_model::Timestamp;
use echelon_core_model::job::Verdict;
use echelon_core_model::rollout::RolloutProgress;
use echelon_core_model::schedule::ScheduleState;

/// A change of a head as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadChange {
    pub(crate) bid: Bid,
    /// What has become of the job's latest rollout.
    pub(crate) rollout: Option<RolloutProgress>,
    /// When it was decided.
    pub(crate) at: Timestamp,
}

/// What is to be written into a job's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bid {
    /// It is to stop, and to end so.
    Stop(Verdict),
    /// The time for which its record stays is over.
    Delete,
    /// Its rollout is to update nothing more.
    Hold,
    /// Its rollout is over and was paused meanwhile:
    /// what begins later is to be of the version that it came to.
    LetGo,
    /// It is to go back to this spec version.
    RollBack(u32),
    /// Its schedule has come so far.
    Schedule(Box<ScheduleState>),
}
