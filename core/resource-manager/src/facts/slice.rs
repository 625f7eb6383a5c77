//! A slice: what one job has of one group at one cluster, of one generation.

use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::directive::SliceReport;
use echelon_core_model::{ClusterId, Few, Generation, GroupName};

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
pub fn slices_of(assignment: &Assignment) -> Few<SliceKey, Vec<&AssignedRange>> {
    let mut out = Few::new();
    for (group, ranges) in &assignment.groups {
        let mut ranges: Vec<&AssignedRange> = ranges.iter().collect();
        ranges.sort_by(|a, b| place(a).cmp(&place(b)));
        for of_slice in ranges.chunk_by(|a, b| place(a) == place(b)) {
            let Some(first) = of_slice.first() else { continue };
            let key = SliceKey {
                group: group.clone(),
                cluster: first.cluster.clone(),
                generation: first.generation,
            };
            out.insert(key, of_slice.to_vec());
        }
    }
    out
}

/// The cluster and the generation of a range.
const fn place(range: &AssignedRange) -> (&ClusterId, Generation) {
    (&range.cluster, range.generation)
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
    /// Of these, reported as without a run and ready for the next one.
    pub between_runs: u64,
    /// Reported as allowed to be active by the grant in force, whichever leader gave it.
    pub granted: u64,
    /// Whether its shard has reported anything of it.
    pub reported: bool,
}

impl SliceCount {
    /// Of the ranges of a slice, and of what its shard has reported of it.
    pub(crate) fn of(ranges: &[&AssignedRange], report: Option<&SliceReport>) -> Self {
        let mut out = Self::default();
        for r in ranges {
            out.assigned += r.range.count();
            match r.releasing.as_ref().map(|m| m.count) {
                Some(None) => out.leaving += r.range.count(),
                Some(Some(n)) => out.leaving_waiting += n,
                None => {}
            }
        }
        if let Some(report) = report {
            out.reported = true;
            out.ended = report.succeeded + report.failed + report.stopped;
            out.begun = report.active + report.succeeded + report.failed > 0 || report.last_begun.is_some();
            // A report is older than what has left its cluster without its shard.
            out.active = report.active.min(out.unended());
            out.preempting = report.preempting;
            out.between_runs = report.between_runs;
            out.granted = report.granted;
        }
        out
    }

    /// Active instances that have a run.
    #[must_use]
    pub const fn on_hosts(&self) -> u64 {
        self.active.saturating_sub(self.between_runs)
    }

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
