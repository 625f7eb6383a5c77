//! Sums over all live jobs, kept from cycle to cycle and changed where a job changed: what each pool wants and has, what is taken of
//! each cluster, who waits, and which jobs a cycle has to look at. What is kept is what `entry` gives for every job; the checker
//! holds both against each other.

use crate::entry::{BothSums, Choice, Entry, PoolRef, Sums, Use, Uses, Worth, entry};
use crate::picture::{ClusterView, Picture};
use crate::room::{Taken, lends};
use echelon_core_model::cluster::Wish;
use echelon_core_model::{ClusterId, JobId, Resources, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{ClusterIdx, Held, Hierarchy, Likeness, Queue, Terms, Turn};
use std::collections::btree_map::Entry::Occupied;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What entries depend on beside their own job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Basis {
    tree: Version,
    lent: Resources,
    clusters: BTreeMap<ClusterId, OfCluster>,
}

/// What entries depend on of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OfCluster {
    index: ClusterIdx,
    settled: bool,
    draining: bool,
    /// 1 of each kind that it lends.
    lends: Resources,
}

impl Basis {
    fn of(picture: &Picture) -> Self {
        let clusters = picture.clusters.iter();
        Self {
            tree: picture.pools.version,
            lent: picture.lent_kinds(),
            clusters: clusters
                .enumerate()
                .map(|(i, (id, c))| (id.clone(), OfCluster::of(i, c)))
                .collect(),
        }
    }

    /// A cluster's place among all, in order of id.
    pub(crate) fn index(&self, cluster: &ClusterId) -> Option<ClusterIdx> {
        self.clusters.get(cluster).map(|c| c.index)
    }
}

impl OfCluster {
    fn of(index: ClusterIdx, cluster: &ClusterView) -> Self {
        Self {
            index,
            settled: cluster.settled,
            draining: cluster.wish() == Wish::Draining,
            lends: lends(cluster).kinds(),
        }
    }
}

/// One pool in sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OfPool {
    pub(crate) sums: BothSums,
    /// The same by what bounds it.
    pub(crate) by_choice: BTreeMap<Choice, BothSums>,
    /// What users have of it, where it is fair to them.
    pub(crate) users: BTreeMap<Arc<str>, Resources>,
    /// Instances that are granted or active.
    instances: u64,
    /// Jobs of which something has begun.
    jobs: u64,
}

impl OfPool {
    /// What its jobs have, granted or active.
    pub(crate) fn held(&self) -> Held {
        let of = |which: fn(&Terms) -> bool| {
            let some = self.by_choice.iter().filter(|(of, _)| which(&of.terms));
            some.fold(Resources::ZERO, |sum, (_, s)| sum.plus(s.ordinary.allocated))
        };
        Held {
            firm: of(|terms| !terms.preemptible),
            controllers: of(|terms| terms.controller),
            instances: self.instances,
            jobs: self.jobs,
            ..Held::plain(self.sums.ordinary.allocated, self.sums.lent.allocated)
        }
    }
}

/// Sums over all live jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    basis: Basis,
    entries: BTreeMap<JobId, Box<Entry>>,
    pools: BTreeMap<PoolRef, OfPool>,
    with_gpus: Resources,
    uses: Uses,
    /// What pools that take jobs have where.
    places: BTreeMap<(PoolIdx, ClusterId), Use>,
    queue: Queue,
    unstored: BTreeSet<JobId>,
    unplaced: BTreeSet<JobId>,
    restless: BTreeSet<JobId>,
    missing: BTreeSet<JobId>,
    dated: BTreeSet<JobId>,
    later: BTreeSet<(Timestamp, JobId)>,
    choosy: BTreeSet<PoolIdx>,
    /// Jobs that have room at a cluster and may be stopped for others, by pool; those that lose first come first.
    losers: BTreeMap<(ClusterId, PoolIdx), BTreeSet<Worth>>,
}

/// Brings the ledger up to date with the jobs that were changed, and tells which.
pub(crate) fn refresh(picture: &mut Picture) -> BTreeSet<JobId> {
    let mut ledger = std::mem::take(&mut picture.ledger);
    let mut changed = picture.jobs.take_changed();
    let basis = Basis::of(picture);
    if basis != ledger.basis {
        changed.extend(ledger.concerned(&basis));
        ledger.basis = basis;
    }
    let mut touched = BTreeSet::new();
    for id in &changed {
        let now = picture
            .jobs
            .get(id)
            .map(|job| entry(picture, &ledger.basis, *id, job));
        touched.extend(ledger.change(*id, now));
    }
    picture.division.touched.extend(touched);
    picture.ledger = ledger;
    changed
}

impl Ledger {
    /// The sums of everything, made anew.
    #[must_use]
    pub fn new(picture: &Picture) -> Self {
        let mut out = Self {
            basis: Basis::of(picture),
            ..Self::default()
        };
        for (id, job) in picture.jobs.iter() {
            let entry = entry(picture, &out.basis, *id, job);
            out.put_in(*id, Box::new(entry));
        }
        out
    }

    /// The jobs whose entries follow from what has changed since.
    fn concerned(&self, now: &Basis) -> Vec<JobId> {
        let same_clusters = now.clusters.keys().eq(self.basis.clusters.keys());
        if !same_clusters || (now.tree, now.lent) != (self.basis.tree, self.basis.lent) {
            return self.entries.keys().copied().collect();
        }
        let same = |c: &ClusterId| now.clusters.get(c) == self.basis.clusters.get(c);
        let touched = |entry: &Entry| entry.clusters.iter().any(|(c, _)| !same(c));
        let entries = self.entries.iter().filter(|(_, entry)| touched(entry));
        entries.map(|(id, _)| *id).collect()
    }

    /// The same sums with another job's.
    #[must_use]
    pub(crate) fn with(&self, id: JobId, entry: Entry) -> Self {
        let mut out = Self {
            pools: self.pools.clone(),
            with_gpus: self.with_gpus,
            uses: self.uses.clone(),
            queue: self.queue.clone(),
            ..Self::default()
        };
        out.put_in(id, Box::new(entry));
        out
    }

    /// A job's entry is another one now. Tells the pools that this is about.
    fn change(&mut self, id: JobId, now: Option<Entry>) -> Vec<PoolIdx> {
        let now = now.map(Box::new);
        let before = self.entries.remove(&id);
        if before == now {
            self.entries.extend(now.map(|entry| (id, entry)));
            return Vec::new();
        }
        let pools = before.iter().chain(&now).filter_map(|e| e.known_pool()).collect();
        // Who goes on waiting in a line does not leave it: since when its clusters have no room is noted there.
        let stays = |pool: PoolIdx, like: &Likeness, turn: &Turn| {
            let waits = now.iter().filter(|e| e.known_pool() == Some(pool));
            waits
                .flat_map(|e| &e.waits)
                .any(|(l, t, _)| (l, t) == (like, turn))
        };
        let left: Vec<(PoolIdx, Likeness, Turn)> = before
            .iter()
            .filter_map(|e| Some((e.known_pool()?, &e.waits)))
            .flat_map(|(pool, waits)| waits.iter().map(move |(like, turn, _)| (pool, like, turn)))
            .filter(|(pool, like, turn)| !stays(*pool, like, turn))
            .map(|(pool, like, turn)| (pool, like.clone(), turn.clone()))
            .collect();
        if let Some(before) = before {
            self.take_out(id, &before);
        }
        if let Some(now) = now {
            self.put_in(id, now);
        }
        for (pool, like, turn) in left {
            self.queue.remove(pool, &like, &turn);
        }
        pools
    }

    fn put_in(&mut self, id: JobId, entry: Box<Entry>) {
        self.change_sums(&entry, BothSums::plus, Taken::plus);
        self.change_numbers(&entry, u64::saturating_add, Resources::plus);
        self.with_gpus = self.with_gpus.plus(entry.with_gpus);
        if let PoolRef::Known(pool) = entry.pool {
            for (like, turn, waiting) in &entry.waits {
                self.queue.insert(pool, like.clone(), turn.clone(), *waiting);
            }
        }
        let sets = [
            (entry.unstored, &mut self.unstored),
            (entry.unplaced, &mut self.unplaced),
            (entry.restless, &mut self.restless),
            (entry.missing, &mut self.missing),
            (entry.dated, &mut self.dated),
        ];
        for (_, set) in sets.into_iter().filter(|(is, _)| *is) {
            set.insert(id);
        }
        self.later.extend(entry.later.map(|at| (at, id)));
        for (place, worth) in entry.could_lose() {
            self.losers.entry(place).or_default().insert(worth);
        }
        self.entries.insert(id, entry);
    }

    /// Takes an entry out of the sums, but not out of the queue.
    fn take_out(&mut self, id: JobId, entry: &Entry) {
        self.change_numbers(entry, u64::saturating_sub, Resources::minus);
        self.change_sums(entry, BothSums::minus, Taken::minus);
        self.with_gpus = self.with_gpus.minus(entry.with_gpus);
        let sets = [
            &mut self.unstored,
            &mut self.unplaced,
            &mut self.restless,
            &mut self.missing,
            &mut self.dated,
        ];
        for set in sets {
            set.remove(&id);
        }
        if let Some(at) = entry.later {
            self.later.remove(&(at, id));
        }
        for (place, worth) in entry.could_lose() {
            if let Occupied(mut of_place) = self.losers.entry(place) {
                of_place.get_mut().remove(&worth);
                if of_place.get().is_empty() {
                    of_place.remove();
                }
            }
        }
    }

    fn change_numbers(
        &mut self,
        entry: &Entry,
        sum: fn(u64, u64) -> u64,
        sums: fn(Resources, Resources) -> Resources,
    ) {
        if !entry.counted {
            return;
        }
        let of_pool = self.pools.entry(entry.pool.clone()).or_default();
        of_pool.instances = sum(of_pool.instances, entry.instances);
        of_pool.jobs = sum(of_pool.jobs, 1);
        let all = entry.sums.ordinary.allocated.plus(entry.sums.lent.allocated);
        if let Some(user) = entry.user.as_ref().filter(|_| !all.is_zero()) {
            let has = of_pool.users.entry(Arc::clone(user)).or_default();
            *has = sums(*has, all);
            if has.is_zero() {
                of_pool.users.remove(user);
            }
        }
        if *of_pool == OfPool::default() {
            self.pools.remove(&entry.pool);
        }
    }

    fn change_sums(
        &mut self,
        entry: &Entry,
        sums: fn(BothSums, BothSums) -> BothSums,
        taken: fn(Taken, Taken) -> Taken,
    ) {
        if entry.sums != BothSums::default() {
            let of_pool = self.pools.entry(entry.pool.clone()).or_default();
            of_pool.sums = sums(of_pool.sums, entry.sums);
            let of_choice = of_pool.by_choice.entry(entry.choice.clone()).or_default();
            *of_choice = sums(*of_choice, entry.sums);
            of_pool.by_choice.retain(|_, s| *s != BothSums::default());
            if let PoolRef::Known(i) = entry.pool {
                if of_pool.by_choice.keys().any(|of| !of.only.is_empty()) {
                    self.choosy.insert(i);
                } else {
                    self.choosy.remove(&i);
                }
            }
            if *of_pool == OfPool::default() {
                self.pools.remove(&entry.pool);
            }
        }
        for (cluster, used) in &entry.clusters {
            let of_cluster = self.uses.entry(cluster.clone()).or_default();
            of_cluster.taken = taken(of_cluster.taken, used.taken);
            of_cluster.spoken_for = taken(of_cluster.spoken_for, used.spoken_for);
            if *of_cluster == Use::default() {
                self.uses.remove(cluster);
            }
            if let PoolRef::Known(i) = entry.pool {
                let key = (i, cluster.clone());
                let there = self.places.entry(key.clone()).or_default();
                there.taken = taken(there.taken, used.taken);
                there.spoken_for = taken(there.spoken_for, used.spoken_for);
                if *there == Use::default() {
                    self.places.remove(&key);
                }
            }
        }
    }

    /// The pools that are in the tree, with their sums.
    pub(crate) fn known(&self) -> impl Iterator<Item = (PoolIdx, &OfPool)> {
        self.pools.iter().filter_map(|(pool, of)| match pool {
            PoolRef::Known(i) => Some((*i, of)),
            PoolRef::Unknown(_) => None,
        })
    }

    /// Jobs of some pools that have room at a cluster and may be stopped for others, those that lose first in front.
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
        let mut next: BTreeSet<(&Worth, usize)> = BTreeSet::new();
        for (i, (_, jobs)) in rest.iter_mut().enumerate() {
            next.extend(jobs.next().map(|worth| (worth, i)));
        }
        std::iter::from_fn(move || {
            let (worth, i) = next.pop_first()?;
            let (pool, jobs) = rest.get_mut(i)?;
            next.extend(jobs.next().map(|worth| (worth, i)));
            Some((*pool, worth.0, worth.1.0))
        })
    }

    /// What pools have of some clusters, granted or active, of ordinary room. `O(jobs)`.
    pub(crate) fn held_at(
        &self,
        clusters: &BTreeSet<&ClusterId>,
    ) -> BTreeMap<(ClusterId, PoolIdx), Resources> {
        let mut out: BTreeMap<(ClusterId, PoolIdx), Resources> = BTreeMap::new();
        for entry in self.entries.values() {
            let there = entry.clusters.iter().filter(|(c, _)| clusters.contains(c));
            for ((cluster, used), pool) in there.zip(std::iter::repeat(entry.known_pool())) {
                if let Some(pool) = pool {
                    let has = out.entry((cluster.clone(), pool)).or_default();
                    *has = has.plus(used.taken.all);
                }
            }
        }
        out
    }

    /// Pools with jobs that may not use every cluster: what they want follows from what clusters have.
    pub(crate) fn choosy(&self) -> impl Iterator<Item = PoolIdx> + '_ {
        self.choosy.iter().copied()
    }

    /// The sums of one that is in the tree.
    pub(crate) fn of_known(&self, pool: PoolIdx) -> Option<&OfPool> {
        self.pools.get(&PoolRef::Known(pool))
    }

    /// The sums of a pool.
    #[must_use]
    pub fn of(&self, pool: &PoolRef) -> BothSums {
        self.pools.get(pool).map(|of| of.sums).unwrap_or_default()
    }

    /// What is taken of a cluster, granted or active.
    #[must_use]
    pub fn taken(&self, cluster: &ClusterId) -> Taken {
        self.uses.get(cluster).map(|u| u.taken).unwrap_or_default()
    }

    /// What is assigned to a cluster.
    #[must_use]
    pub fn spoken_for(&self, cluster: &ClusterId) -> Taken {
        self.uses.get(cluster).map(|u| u.spoken_for).unwrap_or_default()
    }

    /// What a pool that takes jobs has at a cluster.
    pub(crate) fn use_of(&self, pool: PoolIdx, cluster: &ClusterId) -> Use {
        self.places
            .get(&(pool, cluster.clone()))
            .copied()
            .unwrap_or_default()
    }

    /// What a pool and those below it have where they have any. `O(pools below, clusters of each)`.
    pub(crate) fn uses_below(&self, hierarchy: &Hierarchy, pool: PoolIdx) -> Uses {
        let mut out = Uses::new();
        let mut open = vec![pool];
        while let Some(i) = open.pop() {
            open.extend(hierarchy.children(i));
            let of = self
                .places
                .range((i, ClusterId::new(""))..)
                .take_while(|((of, _), _)| *of == i);
            for ((_, cluster), used) in of {
                let sum = out.entry(cluster.clone()).or_default();
                sum.taken = sum.taken.plus(used.taken);
                sum.spoken_for = sum.spoken_for.plus(used.spoken_for);
            }
        }
        out
    }

    /// What could be active of work that asks for GPUs.
    #[must_use]
    pub const fn with_gpus(&self) -> Resources {
        self.with_gpus
    }

    /// Who waits.
    #[must_use]
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Who waits, to note since when.
    pub(crate) const fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// What entries were made with.
    pub(crate) const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Whether a job counts among those of its pool.
    pub(crate) fn counts(&self, id: JobId) -> bool {
        self.entries.get(&id).is_some_and(|e| e.counted)
    }

    /// Jobs whose assignment is not stored as it is decided.
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

    /// Jobs some of whose numbers are at no cluster.
    #[must_use]
    pub const fn missing(&self) -> &BTreeSet<JobId> {
        &self.missing
    }

    /// Jobs of which something runs that is certain to end by a time.
    pub(crate) const fn dated(&self) -> &BTreeSet<JobId> {
        &self.dated
    }

    /// Jobs of which a part was held back until now.
    pub(crate) fn held_until(&self, now: Timestamp) -> Vec<JobId> {
        let due = self.later.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, id)| *id).collect()
    }

    /// Sums by path, of pools in the tree or not.
    pub(crate) fn by_path(&self, picture: &Picture) -> BTreeMap<String, BothSums> {
        let all = self.paths(picture);
        all.map(|(path, of)| (path, of.sums)).collect()
    }

    /// What jobs have by path, of pools in the tree or not.
    pub(crate) fn held_by_path(&self, picture: &Picture) -> BTreeMap<String, Held> {
        let all = self.paths(picture);
        all.map(|(path, of)| (path, of.held())).collect()
    }

    fn paths<'a>(&'a self, picture: &'a Picture) -> impl Iterator<Item = (String, &'a OfPool)> {
        let path = |pool: &PoolRef| match pool {
            PoolRef::Known(i) => picture.hierarchy.pool(*i).map(|p| p.path.clone()),
            PoolRef::Unknown(path) => Some(path.clone()),
        };
        let all = self.pools.iter();
        all.filter_map(move |(pool, of)| Some((path(pool)?, of)))
    }
}

impl BothSums {
    fn plus(self, other: Self) -> Self {
        Self {
            ordinary: Sums::plus(self.ordinary, other.ordinary),
            lent: Sums::plus(self.lent, other.lent),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            ordinary: Sums::minus(self.ordinary, other.ordinary),
            lent: Sums::minus(self.lent, other.lent),
        }
    }
}
