//! What stays in memory of jobs that have ended.

use crate::facts::known::{KnownHead, KnownProgress};
use crate::facts::unsent::Unsent;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::JobState;
use echelon_core_model::{JobId, RunState, Timestamp, Version};
use std::collections::BTreeMap;

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

/// All jobs that have ended, and how many there are of each state, so that no count looks at all of them.
#[derive(Debug, Clone, Default)]
pub struct EndedJobs {
    all: BTreeMap<JobId, EndedJob>,
    by_state: BTreeMap<JobState, u64>,
    /// Jobs that the snapshot has not got as they are now.
    unsent: Unsent,
}

impl EndedJobs {
    /// What is known of a job.
    #[must_use]
    pub fn get(&self, id: &JobId) -> Option<&EndedJob> {
        self.all.get(id)
    }

    /// Whether a job is among them.
    #[must_use]
    pub fn contains_key(&self, id: &JobId) -> bool {
        self.all.contains_key(id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are of each state. States of which there are none are left out.
    #[must_use]
    pub const fn by_state(&self) -> &BTreeMap<JobState, u64> {
        &self.by_state
    }

    /// A newer head of a job was read.
    pub(crate) fn set_version(&mut self, id: JobId, version: Version) {
        if let Some(known) = self.all.get_mut(&id) {
            known.version = version;
            self.unsent.note(id);
        }
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&JobId, &EndedJob)> {
        self.all.iter()
    }

    /// The next jobs that a snapshot has not got as they are now. `None`: the job is gone.
    pub(crate) fn take_unsent(&mut self, most: usize) -> Vec<(JobId, Option<EndedJob>)> {
        if !self.unsent.is_followed() {
            self.unsent.follow(self.all.keys().copied());
        }
        let ids = self.unsent.take(most).into_iter();
        ids.map(|id| (id, self.all.get(&id).copied())).collect()
    }

    /// Whether a snapshot has all jobs as they are now.
    pub(crate) fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    pub(crate) fn insert(&mut self, id: JobId, job: EndedJob) {
        let before = self.all.insert(id, job);
        self.unsent.note(id);
        self.count_out(before);
        *self.by_state.entry(job.state).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, id: &JobId) {
        let before = self.all.remove(id);
        self.unsent.note(*id);
        self.count_out(before);
    }

    fn count_out(&mut self, job: Option<EndedJob>) {
        let Some(count) = job.and_then(|job| self.by_state.get_mut(&job.state)) else {
            return;
        };
        *count = count.saturating_sub(1);
        self.by_state.retain(|_, n| *n > 0);
    }
}

/// Whether instances of any group have begun.
pub(crate) fn has_begun<'a>(mut groups: impl Iterator<Item = &'a Counts>) -> bool {
    groups.any(|c| c.total() > c.get(RunState::Pending))
}

impl EndedJob {
    pub(crate) fn of(head: &KnownHead, progress: &KnownProgress) -> Self {
        Self {
            version: head.version,
            state: progress.state(),
            begun: has_begun(progress.counts()),
            keep_until: progress.row.as_ref().and_then(|row| row.keep_until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_each_state_follows_the_jobs() {
        let of = |state| EndedJob {
            version: Version(1),
            state,
            begun: true,
            keep_until: None,
        };
        let mut ended = EndedJobs::default();
        for n in 0..5 {
            ended.insert(JobId(n), of(JobState::Succeeded));
        }
        ended.insert(JobId(0), of(JobState::Failed));
        ended.remove(&JobId(1));
        ended.remove(&JobId(7));
        let counts = BTreeMap::from([(JobState::Failed, 1), (JobState::Succeeded, 3)]);
        assert_eq!(*ended.by_state(), counts);
        (0..5).for_each(|n| ended.remove(&JobId(n)));
        assert!(ended.by_state().is_empty() && ended.is_empty());
    }
}
