//! Rollouts as one instance sees them: which version its next run is of, whether its present run is to be replaced by one of another
//! version, and when an updated one counts as good or as failed. Which numbers may be updated, and how many at once, is the driver's.

use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::pause::Pause;
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, ReasonCode, Timestamp};

/// Where a group is to go. Versions are those of runs: the spec version that first had what is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// The version that is wanted.
    pub target: u32,
    /// Runs of other versions are to be replaced; otherwise what runs is as good, and what begins is of the version wanted.
    pub rolls: bool,
    /// The version that numbers begin with whose turn has not come.
    pub base: u32,
    /// Numbers below this may be updated now.
    pub below: u32,
}

/// What the next run of an instance is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextVersion {
    /// The version.
    pub version: u32,
    /// Its turn comes with this run: it counts as one of those that are being updated.
    pub updates: bool,
}

impl Course {
    /// Whether a number may be updated.
    #[must_use]
    pub const fn reaches(&self, n: InstanceNumber) -> bool {
        n.0 < self.below
    }

    /// Whether a run is to be replaced by one of the version that is wanted.
    #[must_use]
    pub fn outdates(&self, n: InstanceNumber, run: &Run) -> bool {
        self.rolls && run.spec_version != self.target && self.reaches(n)
    }

    /// The version of the next run of a number. An instance that fails keeps its version until its turn comes, so that no more are
    /// updated at once than may be; `more` says that one more may be.
    #[must_use]
    pub fn next(&self, n: InstanceNumber, record: Option<&InstanceRecord>, more: bool) -> NextVersion {
        let wanted = |updates| NextVersion {
            version: self.target,
            updates,
        };
        if !self.rolls {
            return wanted(false);
        }
        let last = record.and_then(|r| r.run.as_ref().or_else(|| r.older.last()));
        let Some(run) = last else {
            // What never ran can be in nobody's way.
            let of_base = NextVersion {
                version: self.base,
                updates: false,
            };
            return if self.reaches(n) { wanted(false) } else { of_base };
        };
        let stopping = run.stopping.as_ref().map(|s| s.reason.code);
        let began = stopping == Some(ReasonCode::RolloutUpdate) || run.spec_version == self.target;
        if began || (more && self.reaches(n)) {
            return wanted(!began);
        }
        if record.is_some_and(|r| self.is_given_up(r, run)) {
            return wanted(false);
        }
        NextVersion {
            version: run.spec_version,
            updates: false,
        }
    }

    /// Whether an instance fails again and again with a version that nobody wants any more: neither where this rollout goes nor where it came
    /// from. It would be down until its turn comes, which may never be: it is what those before it have to wait for.
    fn is_given_up(&self, record: &InstanceRecord, run: &Run) -> bool {
        let known = self.base != 0 && run.spec_version != self.base;
        let goes_on = self.below > 0;
        known && goes_on && record.is_crash_looping()
    }

    /// Whether a run counts as available only when it has been so for long enough: one that replaces another, and each of the
    /// version that is being rolled out.
    #[must_use]
    pub const fn watches(&self, run: &Run) -> bool {
        run.replaces || (self.rolls && run.spec_version == self.target)
    }
}

/// When a run counts as good that has to be available for so long; `None` while it is not.
#[must_use]
pub fn settles_at(run: &Run, min_healthy: Span, pause: &Pause, now: Timestamp) -> Option<Timestamp> {
    Some(pause.due(run.available_since()?, min_healthy, now))
}

/// Whether a run that is over had been good.
pub(crate) fn had_settled(run: &Run, min_healthy: Span) -> bool {
    let times = run.available_at.zip(run.ended_at);
    times.is_some_and(|(since, ended)| ended >= since.plus(min_healthy))
}

/// When a run of the wanted version that is not available has failed for the rollout.
#[must_use]
pub fn fails_at(
    record: &InstanceRecord,
    target: u32,
    within: Span,
    pause: &Pause,
    now: Timestamp,
) -> Option<Timestamp> {
    let run = record.run.as_ref()?;
    let late = run.may_have_task()
        && run.spec_version == target
        && run.available_at.is_none()
        && record.failed_version != target;
    // One that was given up and is back has the whole time again.
    let since = run.started_at.map_or(run.since, |at| at.max(run.since));
    late.then(|| pause.due(since, within, now))
}
