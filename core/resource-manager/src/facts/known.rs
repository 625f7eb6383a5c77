//! What stays in memory of the rows of a job, as compact as possible. There are very many jobs, and only a
//! part of most rows is decided by.

use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, Goal, Head, JobState, Progress, Verdict};
use echelon_core_model::restart::{RestartProgress, Restarts};
use echelon_core_model::rollout::{Rollout, RolloutProgress};
use echelon_core_model::schedule::{Origin, ScheduleState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::spec_digest::{decided_part, sum_of};
use echelon_core_model::{
    ClusterId, Few, GroupName, Nothing, PoolId, ReasonCode, Seldom, Timestamp, Version,
};
use echelon_core_routing::HomeKey;
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
    /// Where its job is at home. Jobs that differ in their names alone share a spec, so the name in that may
    /// be another's.
    pub home: HomeKey,
    /// What is wanted.
    pub goal: Goal,
    /// The spec version in force.
    pub spec_version: u32,
    /// What it has in common with the heads of other jobs.
    pub common: Arc<CommonHead>,
    /// What most heads have nothing of.
    pub rare: Seldom<RareHead>,
}

/// What the heads of jobs that were submitted together have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommonHead {
    /// The digest of the spec version in force, if the head has it.
    pub digest: Option<[u8; 16]>,
    /// The path of the pool when the head was written.
    pub pool: Box<str>,
    /// The pool's id.
    pub pool_id: Option<PoolId>,
}

/// What most heads have nothing of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RareHead {
    /// When a request to stop or to delete was written.
    pub stopped_at: Option<Timestamp>,
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

impl Nothing for RareHead {
    const NOTHING: &'static Self = &Self {
        stopped_at: None,
        rollout: None,
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
    };
}

impl CommonHead {
    fn of(head: &Head) -> Self {
        Self {
            digest: head.digest(),
            pool: head.pool.as_str().into(),
            pool_id: head.pool_id.clone(),
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

/// What became of a job: by its row, or, of a job without one, as it was last computed. Such a job has only
/// waited since it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProgress {
    /// When the job was first seen.
    pub created_at: Timestamp,
    /// Why instances wait.
    pub waiting: Box<[KnownWaiting]>,
    /// Its row, if storage has it or is being given it.
    pub row: Option<Box<KnownRow>>,
}

/// A progress row as it was last read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRow {
    /// The job's state.
    pub state: JobState,
    /// Since when.
    pub since: Timestamp,
    /// When what it was submitted to wait for was met.
    pub released: Option<Timestamp>,
    /// Until when the record of an ended job stays.
    pub keep_until: Option<Timestamp>,
    /// All of the row in one number: another row is worth a write.
    pub digest: u64,
    /// When this leader last wrote it; `None`: an earlier one did.
    pub written_at: Option<Timestamp>,
    /// Instances by state of each group, while the spec is not there to count them by.
    pub groups: Few<GroupName, Counts>,
    /// What became of its latest rollout.
    pub rollout: Option<Box<RolloutProgress>>,
    /// What became of its latest restart.
    pub restart: Option<Box<RestartProgress>>,
}

impl KnownProgress {
    /// Of a row that was read.
    #[must_use]
    pub fn read(row: &Progress) -> Self {
        Self {
            row: Some(Box::new(KnownRow {
                state: row.state,
                since: row.since,
                released: row.released,
                keep_until: row.keep_until,
                digest: digest(row),
                written_at: None,
                groups: row.groups.clone(),
                rollout: row.rollout.clone().map(Box::new),
                restart: row.restart.map(Box::new),
            })),
            ..Self::computed(row)
        }
    }

    /// Of a row that is being written.
    #[must_use]
    pub fn written(row: &Progress, now: Timestamp) -> Self {
        let mut known = Self::read(row);
        if let Some(row) = &mut known.row {
            row.written_at = Some(now);
        }
        known
    }

    /// Of a job without a row, by what its row would be.
    #[must_use]
    pub fn computed(row: &Progress) -> Self {
        let waiting = row.waiting.iter().map(|w| KnownWaiting {
            group: w.group.clone(),
            cluster: w.cluster.clone(),
            code: w.reason.code,
            count: w.count,
            since: w.since,
        });
        Self {
            created_at: row.created_at,
            waiting: waiting.collect(),
            row: None,
        }
    }

    /// The job's state.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.row.as_ref().map_or(JobState::Waiting, |row| row.state)
    }

    /// Since when it is in that state.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.row.as_ref().map_or(self.created_at, |row| row.since)
    }

    /// Instances by state of each group, as far as they are not counted by the spec.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.row.iter().flat_map(|row| row.groups.values())
    }

    /// Forgets them, since the spec is there.
    pub fn forget_counts(&mut self) {
        if let Some(row) = &mut self.row {
            row.groups.clear();
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

/// Equal values that very many jobs have, each of them once.
#[derive(Debug, Clone)]
struct Shared<T> {
    all: BTreeSet<Arc<T>>,
    /// How many there were when unused ones were last removed.
    kept: usize,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            all: BTreeSet::new(),
            kept: 0,
        }
    }
}

impl<T: Ord> Shared<T> {
    /// Forgets unused values where there are twice as many values as the last time.
    /// So looking at all of them is a step for each in the end. Returns whether it did.
    fn tidy(&mut self) -> bool {
        let is_due = self.all.len() > self.kept.saturating_mul(2);
        if is_due {
            self.all.retain(|value| Arc::strong_count(value) > 1);
            self.kept = self.all.len().max(LEAST_KEPT);
        }
        is_due
    }

    /// The value that is the same as this one.
    fn share(&mut self, value: T) -> Arc<T> {
        if let Some(same) = self.all.get(&value) {
            return Arc::clone(same);
        }
        let value = Arc::new(value);
        self.all.insert(Arc::clone(&value));
        value
    }
}

/// Specs without what only shards need, one for all jobs that ask for the same. Jobs that are submitted
/// together mostly do. What their heads have in common is shared as well.
#[derive(Debug, Clone, Default)]
pub struct Specs {
    all: Shared<JobSpec>,
    /// Those of which heads have the digests.
    by_digest: BTreeMap<[u8; 16], Weak<JobSpec>>,
    heads: Shared<CommonHead>,
}

impl Specs {
    /// The number of specs, and of what heads have in common.
    pub(crate) fn len(&self) -> usize {
        let Self {
            all,
            by_digest: _,
            heads,
        } = self;
        all.all.len() + heads.all.len()
    }

    /// The one that asks for the same.
    pub fn share(&mut self, spec: JobSpec) -> Arc<JobSpec> {
        if self.all.tidy() {
            self.by_digest.retain(|_, spec| spec.strong_count() > 0);
        }
        self.all.share(decided_part(spec))
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

    /// A head that was read.
    pub fn head(&mut self, head: &Head) -> KnownHead {
        self.heads.tidy();
        let stopped_at = (head.goal.desired != Desired::Running).then_some(head.updated_at);
        KnownHead {
            version: head.version,
            void: head.void,
            home: HomeKey::of_name(&head.name),
            goal: head.goal,
            spec_version: head.spec_version,
            common: self.heads.share(CommonHead::of(head)),
            rare: Seldom::from(RareHead {
                stopped_at,
                rollout: head.rollout.map(Box::new),
                verdict: head.verdict.clone(),
                schedule: head.schedule.clone(),
                origin: head.origin.clone(),
                restarts: head.restarts.clone(),
            }),
        }
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
        assert!(specs.len() <= 2 * LEAST_KEPT + 1, "{}", specs.len());
        assert!(Arc::ptr_eq(&a, &specs.share(spec("e", 3))));
    }
}
