//! A slice: what one job has of one group at one cluster, of one generation.

use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::{ClusterId, Generation, GroupName};
use std::collections::BTreeMap;

/// A slice within its job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceKey {
    /// The group.
    pub group: GroupName,
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
}

/// The slices of an assignment.
#[must_use]
pub fn slices_of(assignment: &Assignment) -> BTreeMap<SliceKey, Vec<&AssignedRange>> {
    let mut out: BTreeMap<SliceKey, Vec<&AssignedRange>> = BTreeMap::new();
    for (group, ranges) in &assignment.groups {
        for r in ranges {
            let key = SliceKey {
                group: group.clone(),
                cluster: r.cluster.clone(),
                generation: r.generation,
            };
            out.entry(key).or_default().push(r);
        }
    }
    out
}

/// A slice in numbers: what the stored assignment gives it and what its shard reports of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceCount {
    /// Indexes assigned.
    pub assigned: u64,
    /// Indexes in ranges that are to leave whole.
    pub leaving: u64,
    /// Waiting indexes that are to leave, by count.
    pub leaving_waiting: u64,
    /// Reported as succeeded, failed or stopped.
    pub ended: u64,
    /// Whether something of it ever ran, or is about to.
    /// Indexes that were stopped while they waited have ended and never began.
    pub begun: bool,
    /// Reported as begun and not ended.
    pub active: u64,
    /// Of these, reported as being stopped by preemption.
    pub preempting: u64,
    /// Reported as allowed to be active by the grant in force, whichever leader gave it.
    pub granted: u64,
    /// Whether its shard has reported anything of it.
    pub reported: bool,
}

impl SliceCount {
    /// Indexes with a goal that is not met.
    #[must_use]
    pub const fn unended(&self) -> u64 {
        self.assigned.saturating_sub(self.ended)
    }

    /// Indexes that may be active: what is to leave starts nothing.
    #[must_use]
    pub fn startable(&self) -> u64 {
        let staying = self.unended().saturating_sub(self.leaving + self.leaving_waiting);
        staying.max(self.active.min(self.unended()))
    }
}
