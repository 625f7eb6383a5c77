//! What stays in memory of the rows of a job, as compact as possible. There are very many jobs, and only a
//! part of most rows is decided by.

use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Goal, Head, JobState, Progress, Verdict};
use echelon_core_model::restart::{RestartProgress, Restarts};
use echelon_core_model::rollout::{Rollout, RolloutProgress};
use echelon_core_model::schedule::{Origin, ScheduleState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::spec_digest::{decided_part, sum_of};
use echelon_core_model::{ClusterId, Few, GroupName, PoolId, ReasonCode, Timestamp, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// A head without what only look-ups need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHead {
    /// Its version.
    pub version: Version,
    /// It bars a job id.
    pub void: bool,
    /// When it was written.
    pub updated_at: Timestamp,
    /// What is wanted.
    pub goal: Goal,
    /// The spec version in force.
    pub spec_version: u32,
    /// The digest of that version, if the head has it.
    pub digest: Option<[u8; 16]>,
    /// Its pool's path when it was written.
    pub pool: Arc<str>,
    /// Its pool's id.
    pub pool_id: Option<PoolId>,
    /// Its latest rollout.
    pub rollout: Option<Box<Rollout>>,
    /// How it ends by one of its rules.
    pub verdict: Option<Box<Verdict>>,
    /// How far its schedule has come.
    pub schedule: Option<Box<ScheduleState>>,
    /// The template that it was made of.
    pub origin: Option<Box<Origin>>,
    /// Its restarts.
    pub restarts: Option<Box<Restarts>>,
}

impl KnownHead {
    /// Of a head that was read.
    #[must_use]
    pub fn of(head: &Head) -> Self {
        Self {
            version: head.version,
            void: head.void,
            updated_at: head.updated_at,
            goal: head.goal,
            spec_version: head.spec_version,
            digest: head.digest(),
            pool: Arc::from(head.pool.as_str()),
            pool_id: head.pool_id.clone(),
            rollout: head.rollout.map(Box::new),
            verdict: head.verdict.clone(),
            schedule: head.schedule.clone(),
            origin: head.origin.clone(),
            restarts: head.restarts.clone(),
        }
    }
}

/// Why instances wait, without the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWaiting {
    /// The group.
    pub group: GroupName,
    /// The cluster that was asked, when one was.
    pub cluster: Option<ClusterId>,
    /// Why.
    pub code: ReasonCode,
    /// How many instances.
    pub count: u64,
    /// Since when this reason applies.
    pub since: Timestamp,
}

/// A progress row as it was last read or written, or of a job that only waits as it was last computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProgress {
    /// Whether storage has the row, or is being given it.
    pub has_row: bool,
    /// The job's state.
    pub state: JobState,
    /// Since when.
    pub since: Timestamp,
    /// When the job was first seen.
    pub created_at: Timestamp,
    /// When what it was submitted to wait for was met.
    pub released: Option<Timestamp>,
    /// Until when the record of an ended job stays.
    pub keep_until: Option<Timestamp>,
    /// All of the row in one number: another row is worth a write.
    pub digest: u64,
    /// Instances by state of each group, while the spec is not there to count them by.
    pub groups: Few<GroupName, Counts>,
    /// Why instances wait.
    pub waiting: Box<[KnownWaiting]>,
    /// What became of its latest rollout.
    pub rollout: Option<Box<RolloutProgress>>,
    /// What became of its latest restart.
    pub restart: Option<Box<RestartProgress>>,
}

impl KnownProgress {
    /// Of a row that was read or is being written.
    #[must_use]
    pub fn of(row: &Progress) -> Self {
        let waiting = row.waiting.iter().map(|w| KnownWaiting {
            group: w.group.clone(),
            cluster: w.cluster.clone(),
            code: w.reason.code,
            count: w.count,
            since: w.since,
        });
        Self {
            has_row: true,
            state: row.state,
            since: row.since,
            created_at: row.created_at,
            released: row.released,
            keep_until: row.keep_until,
            digest: digest(row),
            groups: row.groups.clone(),
            waiting: waiting.collect(),
            rollout: row.rollout.clone().map(Box::new),
            restart: row.restart.map(Box::new),
        }
    }
}

/// All of a row in one number.
#[must_use]
pub fn digest(row: &Progress) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish()
}

/// Specs without what only shards need, one for all jobs that ask for the same.
/// Jobs that are submitted together mostly do.
#[derive(Debug, Clone, Default)]
pub struct Specs {
    all: BTreeSet<Arc<JobSpec>>,
    /// Those of which heads have the digests.
    by_digest: BTreeMap<[u8; 16], Weak<JobSpec>>,
    /// How many there were when unused ones were last removed.
    kept: usize,
}

impl Specs {
    /// The number of specs.
    pub(crate) fn len(&self) -> usize {
        let Self {
            all,
            by_digest: _,
            kept: _,
        } = self;
        all.len()
    }

    /// The one that asks for the same.
    pub fn share(&mut self, spec: JobSpec) -> Arc<JobSpec> {
        let spec = decided_part(spec);
        if let Some(same) = self.all.get(&spec) {
            return Arc::clone(same);
        }
        // Looking at all of them each time that there are twice as many is a step for each in the end.
        if self.all.len() > self.kept.saturating_mul(2) {
            self.all.retain(|spec| Arc::strong_count(spec) > 1);
            self.by_digest.retain(|_, spec| spec.strong_count() > 0);
            self.kept = self.all.len().max(LEAST_KEPT);
        }
        let spec = Arc::new(spec);
        self.all.insert(Arc::clone(&spec));
        spec
    }

    /// The one that asks for the same as a spec that was read, which is found by its digest from now on.
    pub fn share_read(&mut self, spec: JobSpec) -> Arc<JobSpec> {
        let shared = self.share(spec);
        self.by_digest.insert(sum_of(&shared), Arc::downgrade(&shared));
        shared
    }

    /// The spec of a digest, if it was read and a job still has it.
    #[must_use]
    pub fn of_digest(&self, digest: &[u8; 16]) -> Option<Arc<JobSpec>> {
        self.by_digest.get(digest).and_then(Weak::upgrade)
    }
}

/// So few are not worth a look.
const LEAST_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_testkit::build::JobBuilder;

    #[test]
    fn jobs_that_ask_for_the_same_share_a_spec_and_what_nobody_holds_is_let_go() {
        let mut specs = Specs::default();
        let spec = |name: &str, n: u32| JobBuilder::batch(name, n).build();
        let (a, b) = (specs.share(spec("a", 3)), specs.share(spec("b", 3)));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &specs.share(spec("c", 4))));
        (0..1_000).for_each(|n| drop(specs.share(spec("d", 5 + n))));
        assert!(specs.all.len() <= 2 * LEAST_KEPT + 1, "{}", specs.all.len());
        assert!(Arc::ptr_eq(&a, &specs.share(spec("e", 3))));
    }
}
