//! Instances of one slice by state and standing, kept by adding and taking away single records, so that a report costs
//! nothing for instances that did not change.

use crate::standing::{Standing, standing};
use echelon_core_model::ReasonCode;
use echelon_core_model::instance::{Counts, Ended, InstanceRecord};

/// Numbers of one slice. Only instances with a record are in it; the others are pending and unstarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Held instances by state.
    pub counts: Counts,
    /// Held and active.
    pub active: u64,
    /// Of these, those that others can rely on at this moment.
    pub available: u64,
    /// Of these, those whose run is of the version that is wanted.
    pub updated: u64,
    /// Held, and a run of the version that is wanted has failed.
    pub update_failures: u64,
    /// Of those that are active, being stopped by preemption.
    pub preempting: u64,
    /// Held and succeeded.
    pub succeeded: u64,
    /// Held, retries used up.
    pub failed: u64,
    /// Held and stopped.
    pub stopped: u64,
    /// Runs of any number, held or not, that Mesos may still have.
    pub live: u64,
}

impl Tally {
    /// Counts a record in; `revision` is the version, in the words of a run's, that is wanted.
    pub fn add(&mut self, record: &InstanceRecord, held: bool, revision: u32) {
        let live = u64::try_from(record.live_runs().count()).unwrap_or(u64::MAX);
        self.live = self.live.saturating_add(live);
        if !held {
            return;
        }
        self.counts.add(record.state(), 1);
        self.update_failures += u64::from(revision > 0 && record.failed_version == revision);
        match standing(record) {
            Standing::Unstarted => {}
            Standing::Active => {
                self.active += 1;
                let available = record.run.as_ref().filter(|r| r.is_available());
                self.available += u64::from(available.is_some());
                self.updated += u64::from(available.is_some_and(|r| r.spec_version == revision));
                self.preempting += u64::from(is_being_preempted(record));
            }
            Standing::Ended(Ended::Succeeded) => self.succeeded += 1,
            Standing::Ended(Ended::Failed) => self.failed += 1,
            Standing::Ended(Ended::Stopped) => self.stopped += 1,
        }
    }

    /// Adds another's numbers.
    pub fn merge(&mut self, other: &Self) {
        self.change(other, u64::saturating_add);
    }

    /// Takes away what was added before.
    pub fn subtract(&mut self, other: &Self) {
        self.change(other, u64::saturating_sub);
    }

    fn change(&mut self, other: &Self, by: impl Fn(u64, u64) -> u64) {
        let Self {
            counts,
            active,
            available,
            updated,
            update_failures,
            preempting,
            succeeded,
            failed,
            stopped,
            live,
        } = other;
        for (slot, n) in self.counts.by_state.iter_mut().zip(counts.by_state) {
            *slot = by(*slot, n);
        }
        self.active = by(self.active, *active);
        self.available = by(self.available, *available);
        self.updated = by(self.updated, *updated);
        self.update_failures = by(self.update_failures, *update_failures);
        self.preempting = by(self.preempting, *preempting);
        self.succeeded = by(self.succeeded, *succeeded);
        self.failed = by(self.failed, *failed);
        self.stopped = by(self.stopped, *stopped);
        self.live = by(self.live, *live);
    }
}

/// Whether the latest run is being stopped to make room for others.
#[must_use]
pub fn is_being_preempted(record: &InstanceRecord) -> bool {
    let stopping = record.run.as_ref().and_then(|r| r.stopping.as_ref());
    stopping.is_some_and(|s| s.reason.code == ReasonCode::PoolPreempted)
}
