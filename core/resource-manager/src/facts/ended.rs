//! What stays in memory of jobs that have ended.

use crate::facts::known::{KnownHead, KnownProgress};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::JobState;
use echelon_core_model::{RunState, Timestamp, Version};

/// What stays in memory of a job that has ended, until its record is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedJob {
    /// The version of its head.
    pub version: Version,
    /// How it ended.
    pub state: JobState,
    /// Whether anything of it had begun.
    pub begun: bool,
    /// Until when its record stays.
    pub keep_until: Option<Timestamp>,
}

/// Whether instances of any group have begun.
pub(crate) fn has_begun<'a>(mut groups: impl Iterator<Item = &'a Counts>) -> bool {
    groups.any(|c| c.total() > c.get(RunState::Pending))
}

impl EndedJob {
    pub(crate) fn of(head: &KnownHead, progress: &KnownProgress) -> Self {
        Self {
            version: head.version,
            state: progress.state,
            begun: has_begun(progress.groups.values()),
            keep_until: progress.keep_until,
        }
    }
}
