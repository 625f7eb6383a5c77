//! Instances of one slice by state and standing, kept by adding and taking away single records, so that a report costs
//! nothing for instances that did not change.

use crate::standing::{Standing, standing};
use echelon_core_model::instance::{Counts, Ended, InstanceRecord};

/// Numbers of one slice. Only instances with a record are in it; the others are pending and unstarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Held instances by state.
    pub counts: Counts,
    /// Held and active.
    pub active: u64,
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
    /// Counts a record in.
    pub fn add(&mut self, record: &InstanceRecord, held: bool) {
        self.shift(record, held, |slot, n| *slot = slot.saturating_add(n));
    }

    /// Takes a record out, as it was when it was counted in.
    pub fn remove(&mut self, record: &InstanceRecord, held: bool) {
        self.shift(record, held, |slot, n| *slot = slot.saturating_sub(n));
    }

    fn shift(&mut self, record: &InstanceRecord, held: bool, change: impl Fn(&mut u64, u64)) {
        let live = u64::try_from(record.live_runs().count()).unwrap_or(u64::MAX);
        change(&mut self.live, live);
        if !held {
            return;
        }
        let state = usize::from(record.state().number());
        if let Some(slot) = self.counts.by_state.get_mut(state) {
            change(slot, 1);
        }
        match standing(record) {
            Standing::Unstarted => {}
            Standing::Active => change(&mut self.active, 1),
            Standing::Ended(Ended::Succeeded) => change(&mut self.succeeded, 1),
            Standing::Ended(Ended::Failed) => change(&mut self.failed, 1),
            Standing::Ended(Ended::Stopped) => change(&mut self.stopped, 1),
        }
    }
}
