//! Queries on the ledger: sums by pool and cluster, what waits, and which jobs are to be looked at.

use crate::demand::basis::Basis;
use crate::demand::entry::sums::{BothSums, EntryPlaces, Worth};
use crate::demand::ledger::Ledger;
use crate::demand::ledger::totals::OfPool;
use crate::demand::request::PoolRef;
use crate::facts::FederationFacts;
use crate::facts::capacity::Taken;
use echelon_core_model::{ClusterId, JobId, Resources, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Held, HostPoolIdx, PoolSums, Queue, Turn};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

/// So many candidates of a pool at a cluster are looked at for one that its surplus holds as a whole.
const CANDIDATES_LOOKED_AT: usize = 64;

impl Ledger {
    /// The pools that are in the tree, with their sums.
    pub(crate) fn known(&self) -> impl Iterator<Item = (PoolIdx, &OfPool)> {
        self.totals.pools.iter().filter_map(|(pool, of)| match pool {
            PoolRef::Known(i) => Some((*i, &**of)),
            PoolRef::Unknown(_) => None,
        })
    }

    /// Instances that a job asks for; 0 while its spec is not known.
    pub(crate) fn asked_of(&self, job: JobId) -> u64 {
        self.entries.get(&job).map_or(0, |entry| entry.asked())
    }

    /// Instances that the jobs of a pool ask for together.
    pub(crate) fn asked_in(&self, pool: &PoolRef) -> u64 {
        self.totals.pools.get(pool).map_or(0, |of| of.asked())
    }

    /// Instances that all jobs ask for together.
    pub(crate) const fn asked(&self) -> u64 {
        self.totals.asked
    }

    /// What the jobs of each pool in the tree have, granted or active. Pools with jobs that have nothing are
    /// left out.
    pub(crate) fn held(&self) -> impl Iterator<Item = (PoolIdx, Held)> {
        self.totals.held.iter().map(|(pool, held)| (*pool, *held))
    }

    /// The same of one pool.
    pub(crate) fn held_of(&self, pool: PoolIdx) -> Held {
        self.totals.held.get(&pool).copied().unwrap_or_default()
    }

    /// What pools have, each with the pools below it. `O(pools)`.
    pub(crate) fn pool_sums(&self, facts: &FederationFacts) -> PoolSums {
        PoolSums::new(Arc::clone(&facts.hierarchy), self.held())
    }

    /// What users have of pools that are fair to them.
    pub(crate) fn users(&self) -> impl Iterator<Item = (PoolIdx, &Arc<str>, Resources)> {
        let pools = self.totals.shared.iter();
        let pools = pools.filter_map(|pool| Some((*pool, self.of_known(*pool)?)));
        pools.flat_map(|(pool, of)| of.users().map(move |(user, has)| (pool, user, has)))
    }

    /// Preemption candidates of some pools at a cluster. The first victims come first.
    pub(crate) fn losers<'a, F: Fn(PoolIdx) -> bool>(
        &'a self,
        cluster: &ClusterId,
        of: F,
    ) -> impl Iterator<Item = (PoolIdx, (bool, u32), JobId)> + use<'a, F> {
        let there = self
            .losers
            .range((cluster.clone(), 0)..=(cluster.clone(), PoolIdx::MAX));
        let pools = there.filter(|((_, pool), _)| of(*pool));
        let mut rest: Vec<_> = pools.map(|((_, pool), jobs)| (*pool, jobs.iter())).collect();
        let first = rest.iter_mut().enumerate();
        let first = first.filter_map(|(i, (_, jobs))| Some(Reverse((*jobs.next()?, i))));
        let mut next: BinaryHeap<Reverse<(Worth, usize)>> = first.collect();
        std::iter::from_fn(move || {
            let Reverse((worth, i)) = next.pop()?;
            let (pool, jobs) = rest.get_mut(i)?;
            next.extend(jobs.next().map(|worth| Reverse((*worth, i))));
            Some((*pool, worth.0, worth.1.0))
        })
    }

    /// Whether any of the first preemption candidates of a pool at a cluster is such a one.
    pub(crate) fn may_lose(&self, cluster: &ClusterId, is_such: impl Fn(PoolIdx, JobId) -> bool) -> bool {
        let mut there = self
            .losers
            .range((cluster.clone(), 0)..=(cluster.clone(), PoolIdx::MAX));
        there.any(|((_, pool), jobs)| {
            let mut first = jobs.iter().take(CANDIDATES_LOOKED_AT);
            first.any(|worth| is_such(*pool, worth.1.0))
        })
    }

    /// Jobs that have capacity of a pool and come after a turn in the order of admission, the last one first.
    pub(crate) fn holders_after(&self, pool: PoolIdx, turn: &Turn) -> impl Iterator<Item = JobId> {
        let after = Bound::Excluded((pool, (turn.priority, turn.job)));
        let last = Bound::Included((pool, (Reverse(0), JobId(u128::MAX))));
        self.holders.range((after, last)).rev().map(|(_, (_, id))| *id)
    }

    /// What a job has of each cluster in ordinary capacity, granted or active.
    pub(crate) fn ordinary_at(&self, id: JobId) -> impl Iterator<Item = (ClusterId, Resources)> {
        let entry = self.entries.get(&id);
        let uses = entry
            .map(|entry| entry.uses(&self.basis, EntryPlaces::All))
            .unwrap_or_default();
        uses.into_iter().map(|(cluster, taken)| (cluster, taken.all))
    }

    /// What pools have of some clusters in ordinary capacity, granted or active. `O(pools of these
    /// clusters)`.
    pub(crate) fn held_at(
        &self,
        clusters: &BTreeSet<&ClusterId>,
    ) -> BTreeMap<(ClusterId, PoolIdx), Resources> {
        let mut out = BTreeMap::new();
        for cluster in clusters {
            let there = self.held_there(cluster);
            out.extend(there.map(|(pool, has)| (((*cluster).clone(), pool), has)));
        }
        out
    }

    /// What pools have of one cluster in ordinary capacity, granted or active.
    pub(crate) fn held_there(&self, cluster: &ClusterId) -> impl Iterator<Item = (PoolIdx, Resources)> {
        let all = (cluster.clone(), 0)..=(cluster.clone(), PoolIdx::MAX);
        let there = self.totals.places.range(all);
        there.map(|((_, pool), taken)| (*pool, taken.all.counted()))
    }

    /// Pools with jobs that may not use every cluster: their demand depends on what clusters have.
    pub(crate) fn choosy(&self) -> impl Iterator<Item = PoolIdx> + '_ {
        self.choosy.iter().copied()
    }

    /// The sums of one that is in the tree.
    pub(crate) fn of_known(&self, pool: PoolIdx) -> Option<&OfPool> {
        self.totals.pools.get(&PoolRef::Known(pool)).map(AsRef::as_ref)
    }

    /// The sums of a pool.
    #[must_use]
    pub fn of(&self, pool: &PoolRef) -> BothSums {
        self.totals
            .pools
            .get(pool)
            .map(|of| of.sums())
            .unwrap_or_default()
    }

    /// Instances of a job's group, by its index in the spec, that are granted or active at a cluster.
    pub(crate) fn allocated(&self, id: JobId, cluster: &ClusterId, group: usize) -> u64 {
        let entry = self.entries.get(&id);
        let there = entry.and_then(|e| e.at.get(&(cluster.clone(), group)));
        there.map_or(0, |there| there.allocated)
    }

    /// What is taken of a cluster, granted or active.
    #[must_use]
    pub fn taken(&self, cluster: &ClusterId) -> Taken {
        let taken = self.totals.uses.get(cluster);
        taken.map(Taken::counted).unwrap_or_default()
    }

    /// What is taken of a cluster, or of that by work that needs hosts of a host pool.
    #[must_use]
    pub fn use_on(&self, cluster: &ClusterId, host_pool: Option<HostPoolIdx>) -> Taken {
        let used = match host_pool {
            None => self.totals.uses.get(cluster),
            Some(i) => self.totals.uses_on.get(&(cluster.clone(), i)),
        };
        used.map(Taken::counted).unwrap_or_default()
    }

    /// What could be active of work that asks for GPUs.
    #[must_use]
    pub fn with_gpus(&self) -> Resources {
        self.totals.with_gpus.counted()
    }

    /// Steps of sums that did not match what they were to change: a fault of this program.
    #[must_use]
    pub const fn sum_errors(&self) -> u64 {
        self.totals.errors.saturating_add(self.queue.errors())
    }

    /// What waits.
    #[must_use]
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// What waits, to note since when.
    pub(crate) const fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// What entries were made with.
    pub(crate) const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The pool of a job, if it is in the tree.
    pub(crate) fn pool_of(&self, id: JobId) -> Option<PoolIdx> {
        self.entries.get(&id).and_then(|entry| entry.pool)
    }

    /// Whether what ends of a job is followed by another instance under the same grant.
    pub(crate) fn is_replaced(&self, id: JobId) -> bool {
        self.entries.get(&id).is_some_and(|e| e.marks.replaced)
    }

    /// Whether a job counts among those of its pool.
    pub(crate) fn counts(&self, id: JobId) -> bool {
        self.entries.get(&id).is_some_and(|e| e.marks.counted)
    }

    /// Jobs with a decided assignment that is not stored.
    #[must_use]
    pub const fn unstored(&self) -> &BTreeSet<JobId> {
        &self.unstored
    }

    /// Jobs for something of which a shard found no host.
    #[must_use]
    pub const fn unplaced(&self) -> &BTreeSet<JobId> {
        &self.unplaced
    }

    /// Jobs of which something cannot run where it is, or is to leave.
    #[must_use]
    pub const fn restless(&self) -> &BTreeSet<JobId> {
        &self.restless
    }

    /// Jobs of which something runs that is certain to end by a time.
    pub(crate) const fn dated(&self) -> &BTreeSet<JobId> {
        &self.dated
    }

    /// Jobs of which something moves and has capacity kept for it.
    pub(crate) const fn moving(&self) -> &BTreeSet<JobId> {
        &self.moving
    }

    /// Jobs that avoided a cluster until now.
    pub(crate) fn avoided_until(&self, now: Timestamp) -> Vec<JobId> {
        let due = self.later.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, id)| *id).collect()
    }

    /// Sums by path, of pools in the tree or not.
    pub(crate) fn by_path(&self, facts: &FederationFacts) -> BTreeMap<String, BothSums> {
        let all = self.paths(facts);
        all.map(|(path, of)| (path, of.sums())).collect()
    }

    /// What jobs have by path, of pools in the tree or not.
    pub(crate) fn held_by_path(&self, facts: &FederationFacts) -> BTreeMap<String, Held> {
        let all = self.paths(facts);
        all.map(|(path, of)| (path, of.held())).collect()
    }

    fn paths<'a>(&'a self, facts: &'a FederationFacts) -> impl Iterator<Item = (String, &'a OfPool)> {
        let path = |pool: &PoolRef| match pool {
            PoolRef::Known(i) => facts.hierarchy.pool(*i).map(|p| p.path.clone()),
            PoolRef::Unknown(path) => Some(path.clone()),
        };
        let all = self.totals.pools.iter();
        all.filter_map(move |(pool, of)| Some((path(pool)?, &**of)))
    }
}
