//! What is known: what is in storage and what shards have reported, with look-ups that several stages need.
//! Nothing here decides. All of it can be read again from storage and full reports.

pub(crate) mod capacity;
pub(crate) mod cluster;
pub(crate) mod ended;
pub(crate) mod fits;
pub(crate) mod found;
pub(crate) mod group_reports;
pub(crate) mod health;
pub(crate) mod host_pools;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod known;
pub(crate) mod known_assignment;
pub(crate) mod loss;
pub(crate) mod reports;
pub(crate) mod same_master;
pub(crate) mod settling;
pub(crate) mod slice;
pub(crate) mod starts;
pub(crate) mod unsent;

use crate::facts::capacity::lent_kinds;
use crate::facts::cluster::ClusterView;
use crate::facts::ended::EndedJobs;
use crate::facts::host_pools::HostPools;
use crate::facts::job::JobView;
use crate::facts::jobs::Jobs;
use crate::facts::known::{KnownHead, Specs};
use crate::facts::slice::{SliceCount, SliceKey};
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::control::Control;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::pause::Pause;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId, PoolId, Reason, Resources, Version};
use echelon_core_pools::Hierarchy;
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::tree::{of_lent_capacity, of_lent_room};
use echelon_core_routing::Homes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known.
#[derive(Debug, Clone, Default)]
pub struct FederationFacts {
    /// Clusters that were added or have connected.
    pub clusters: BTreeMap<ClusterId, ClusterView>,
    /// The switches.
    pub control: Control,
    /// The pool tree.
    pub pools: Arc<PoolTree>,
    /// The version of the tree that was the last to change what the sums of jobs depend on: which pools there
    /// are, and where, and how each counts its jobs.
    pub structure: Version,
    /// The same in the order of entitlement.
    pub hierarchy: Arc<Hierarchy>,
    /// Pool hierarchy for revocable capacity (shares only).
    pub by_shares: Arc<Hierarchy>,
    /// Pools with other values than when this was last taken, since no pool came, went or moved.
    pub(crate) revalued: BTreeSet<PoolIdx>,
    /// All jobs that have not ended, or with an end that is not stored yet.
    /// A deleted job stays until only its tombstone is left.
    pub jobs: Jobs,
    /// What stays in memory of jobs that have ended.
    pub ended: EndedJobs,
    /// Their specs.
    pub specs: Specs,
    /// The time between the leader before and this one.
    pub pause: Pause,
    /// The ring of all clusters.
    pub homes: Arc<Homes>,
    /// Host pools beside `default`, as the sums of demand know them.
    pub host_pools: HostPools,
    /// Why no cluster is chosen for anything; `None`: clusters are chosen.
    pub awaiting: Option<Reason>,
}

/// Whether sums of jobs are the same under two trees: no pool comes, goes or moves, and each counts its jobs
/// as before.
fn counts_alike(before: &PoolTree, after: &PoolTree) -> bool {
    let counts = |p: &Pool| (p.fair_users, p.max_jobs < u64::MAX);
    let mut pairs = before.pools.values().zip(after.pools.values());
    same_places(before, after) && pairs.all(|(a, b)| counts(a) == counts(b))
}

/// Whether two trees have the same pools at the same paths.
fn same_places(before: &PoolTree, after: &PoolTree) -> bool {
    let mut pairs = before.pools.values().zip(after.pools.values());
    before.pools.len() == after.pools.len() && pairs.all(|(a, b)| a.id == b.id && a.path == b.path)
}

/// The pools that are in one of two trees alone, or at another path.
fn moved_pools(before: &PoolTree, after: &PoolTree) -> BTreeSet<PoolId> {
    let other = |than: &PoolTree, pool: &Pool| than.pools.get(&pool.path).is_none_or(|p| p.id != pool.id);
    let gone = before.pools.values().filter(|p| other(after, p));
    let new = after.pools.values().filter(|p| other(before, p));
    gone.chain(new).map(|p| p.id.clone()).collect()
}

impl FederationFacts {
    /// What the shard of a cluster has reported of a slice.
    #[must_use]
    pub fn report(&self, job: JobId, key: &SliceKey) -> Option<&SliceReport> {
        self.shared_report(job, key).map(AsRef::as_ref)
    }

    /// The same, to be shared.
    pub(crate) fn shared_report(&self, job: JobId, key: &SliceKey) -> Option<&Arc<SliceReport>> {
        let reports = &self.clusters.get(&key.cluster)?.reports;
        reports.get(&(job, key.group.clone(), key.generation))
    }

    /// A slice in numbers.
    #[must_use]
    pub fn count(&self, job: JobId, key: &SliceKey, ranges: &[&AssignedRange]) -> SliceCount {
        SliceCount::of(ranges, self.report(job, key))
    }

    /// What counts against pools and limits for a slice with this count: max(granted, active) once its shard
    /// obeys this leader.
    /// Before, it is all that an older leader's grants may have allowed.
    #[must_use]
    pub fn allocated(&self, id: JobId, job: &JobView, key: &SliceKey, count: &SliceCount) -> u64 {
        let line = job.grants.get(key);
        let view = || self.clusters.get(&key.cluster);
        let settled = || view().is_some_and(|view| view.is_settled_for(id));
        match line {
            Some(line) if !line.is_new() => line.allocated(count.active),
            // An older leader's grant goes on: what ends is followed by others.
            _ if settled() => count.active.max(count.granted.min(count.unended())),
            _ => {
                // Indexes that are to leave may run beside as many as the group may have now.
                let most = job.spec.as_ref().and_then(|s| s.group(&key.group));
                let most = most.map_or(u64::MAX, |g| u64::from(g.most_active()));
                count.unended().min(most.saturating_add(count.leaving))
            }
        }
    }

    /// Notes a grant, by number and amount, before it is sent.
    pub(crate) fn send_grant(&mut self, id: JobId, key: &SliceKey, number: u64, active: u64) {
        let own = self.report(id, key).map(|r| r.own);
        if let Some(job) = self.jobs.get_mut(&id) {
            let line = job.grants.get_or_default(key.clone());
            // The first grant takes into account what the shard has changed before.
            if let Some(own) = own.filter(|_| line.is_new()) {
                line.note(own);
            }
            line.send(number, active);
        }
    }

    /// Notes, before it is sent, that the grant of a slice expires: nothing begins under it any more, and
    /// nothing stops.
    pub(crate) fn expire_grant(&mut self, id: JobId, key: &SliceKey, number: u64) {
        let job = self.jobs.get_mut(&id);
        if let Some(line) = job.and_then(|job| job.grants.get_mut(key)) {
            line.expire(number);
        }
    }

    /// A group's spec with its job's.
    #[must_use]
    pub fn group<'a>(&'a self, job: JobId, group: &GroupName) -> Option<(&'a JobSpec, &'a GroupSpec)> {
        let spec = self.jobs.get(&job)?.spec.as_deref()?;
        Some((spec, spec.group(group)?))
    }

    /// Makes the ring of clusters again when there are others.
    pub(crate) fn settle_homes(&mut self) {
        if !self.clusters.keys().eq(self.homes.clusters()) {
            self.homes = Arc::new(Homes::new(self.clusters.keys()));
        }
    }

    /// The jobs that were changed since this was asked last, in view of the host pools that there are now.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<JobId> {
        self.host_pools = HostPools::of(self.clusters.values());
        self.jobs.take_changed()
    }

    /// Takes a tree in. Jobs are looked at only where pools are at other paths than before, and of them only
    /// those of these pools.
    pub fn set_pools(&mut self, tree: PoolTree) {
        if !counts_alike(&self.pools, &tree) {
            self.structure = tree.version;
        }
        if same_places(&self.pools, &tree) {
            self.set_values(tree);
            return;
        }
        let moved = moved_pools(&self.pools, &tree);
        // Indexes of before are those of other pools now.
        self.revalued.clear();
        self.hierarchy = Arc::new(Hierarchy::new(&tree));
        self.by_shares = Arc::new(Hierarchy::new(&of_lent_room(&tree)));
        self.pools = Arc::new(tree);
        let of_moved = |job: &JobView| {
            let id = job.head.as_ref().and_then(|head| head.common.pool_id.as_ref());
            id.is_some_and(|id| moved.contains(id))
        };
        let jobs = self.jobs.iter().filter(|(_, job)| of_moved(job));
        let jobs: Vec<JobId> = jobs.map(|(id, _)| *id).collect();
        jobs.into_iter().for_each(|id| self.settle_pool(id));
    }

    /// Takes a tree in that has the same pools at the same paths. Only what differs is made again.
    fn set_values(&mut self, tree: PoolTree) {
        let pairs = self.pools.pools.values().zip(tree.pools.values());
        let changed: Vec<&Pool> = pairs.filter(|(a, b)| a != b).map(|(_, b)| b).collect();
        let indexes = changed.iter().filter_map(|pool| self.hierarchy.find(&pool.path));
        self.revalued.extend(indexes);
        // A bound of instances caps the demand of all pools below.
        let pairs = self.pools.pools.values().zip(tree.pools.values());
        let bounded = pairs.filter(|(a, b)| a.max_instances != b.max_instances);
        let bounded: BTreeSet<PoolIdx> = bounded
            .filter_map(|(_, b)| self.hierarchy.find(&b.path))
            .collect();
        if !bounded.is_empty() {
            let hierarchy = Arc::clone(&self.hierarchy);
            let is_below = |i: &PoolIdx| hierarchy.above(*i).any(|above| bounded.contains(&above));
            self.revalued.extend(hierarchy.indexes().filter(is_below));
        }
        let lent: Vec<Pool> = changed.iter().map(|pool| of_lent_capacity(pool)).collect();
        self.hierarchy = Arc::new(self.hierarchy.with_values(changed));
        self.by_shares = Arc::new(self.by_shares.with_values(&lent));
        self.pools = Arc::new(tree);
    }

    /// The path of a job's pool: where the pool of that id is now. For a head without an id, or a pool that
    /// is gone, it is the path that the head names.
    #[must_use]
    pub fn path_of<'a>(&'a self, head: &'a KnownHead) -> &'a str {
        let known = head.common.pool_id.as_ref();
        let known = known.and_then(|id| self.hierarchy.path_of(id));
        known.unwrap_or(&head.common.pool)
    }

    fn has_moved(&self, job: &JobView) -> bool {
        let pair = job.head.as_ref().zip(job.spec.as_ref());
        pair.is_some_and(|(head, spec)| !head.void && self.path_of(head) != spec.pool)
    }

    /// Makes a job's spec name the present path of its pool, so that no reader has to look the pool up.
    pub(crate) fn settle_pool(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| self.has_moved(job)) else {
            return;
        };
        let path = job.head.as_ref().map(|head| self.path_of(head).to_owned());
        let spec = job.spec.as_deref().cloned();
        if let (Some(path), Some(spec)) = (path, spec) {
            let spec = self.specs.share(JobSpec { pool: path, ..spec });
            if let Some(job) = self.jobs.get_mut(&id) {
                job.spec = Some(spec);
            }
        }
    }

    /// 1 of each kind that clusters offer to new work as revocable capacity.
    #[must_use]
    pub fn lent_kinds(&self) -> Resources {
        lent_kinds(self)
    }

    /// Jobs for which something is still to be done.
    pub fn live(&self) -> impl Iterator<Item = (JobId, &JobView)> {
        self.jobs
            .iter()
            .filter(|(_, j)| j.is_live())
            .map(|(id, j)| (*id, j))
    }
}
