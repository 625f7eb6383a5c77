//! Sums over all live jobs, kept from cycle to cycle and changed where a job changed: what each pool wants and has, what is taken of
//! each cluster, who waits, and which jobs a cycle has to look at. What is kept is what `entry` gives for every job; the checker
//! holds both against each other.

mod told;

use crate::entry::{BothSums, Choice, Entry, PoolRef, Use, Uses, Wait, Worth, entry};
use crate::host_pools::HostPools;
use crate::picture::{ClusterView, Picture};
use crate::room::{Taken, lends};
use echelon_core_model::cluster::Wish;
use echelon_core_model::{ClusterId, Few, JobId, Resources, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{ClusterIdx, Held, HostPoolIdx, Likeness, Queue, Terms, Turn};
use std::collections::btree_map::Entry::Occupied;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What entries depend on beside their own job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Basis {
    tree: Version,
    lent: Resources,
    host_pools: HostPools,
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
            host_pools: picture.host_pools.clone(),
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

    /// Host pools beside `default`.
    pub(crate) const fn host_pools(&self) -> &HostPools {
        &self.host_pools
    }

    /// 1 of each kind that a cluster lends.
    pub(crate) fn lends(&self, cluster: &ClusterId) -> Resources {
        self.clusters.get(cluster).map(|c| c.lends).unwrap_or_default()
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
    pub(crate) by_choice: Few<Choice, BothSums>,
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
    /// Entries that are out of the sums, until it is known what they are now.
    out: BTreeMap<JobId, Box<Entry>>,
    pools: BTreeMap<PoolRef, OfPool>,
    with_gpus: Resources,
    uses: Uses,
    /// Of these, what is used by who needs hosts of a host pool.
    uses_on: BTreeMap<(ClusterId, HostPoolIdx), Use>,
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
    picture.host_pools = HostPools::of(picture.clusters.values());
    let basis = Basis::of(picture);
    if basis != ledger.basis {
        changed.extend(ledger.rebase(basis));
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
            out.put_in(*id, entry);
        }
        out
    }

    /// How many things are held of jobs; what is summed by pools and clusters is left out.
    pub(crate) fn footprint(&self) -> usize {
        let Self {
            basis: _,
            entries,
            out,
            pools: _,
            with_gpus: _,
            uses: _,
            uses_on: _,
            places: _,
            queue: _,
            unstored,
            unplaced,
            restless,
            missing,
            dated,
            later,
            choosy: _,
            losers,
        } = self;
        let sets = [unstored, unplaced, restless, missing, dated].map(BTreeSet::len);
        let marked = sets.iter().sum::<usize>() + later.len();
        entries.len() + out.len() + marked + losers.values().map(BTreeSet::len).sum::<usize>()
    }

    /// The jobs whose entries follow from what has changed since.
    fn concerned(&self, now: &Basis) -> BTreeSet<JobId> {
        let same_clusters = now.clusters.keys().eq(self.basis.clusters.keys());
        let of_all = |basis: &Basis| (basis.tree, basis.lent, basis.host_pools.clone());
        if !same_clusters || of_all(now) != of_all(&self.basis) {
            return self.entries.keys().copied().collect();
        }
        let same = |c: &ClusterId| now.clusters.get(c) == self.basis.clusters.get(c);
        let touched = |entry: &Entry| entry.at.keys().any(|(c, _)| !same(c));
        let entries = self.entries.iter().filter(|(_, entry)| touched(entry));
        entries.map(|(id, _)| *id).collect()
    }

    /// What entries depend on is another thing now. Tells whose: they are out of the sums, in which they were by what held before.
    fn rebase(&mut self, basis: Basis) -> BTreeSet<JobId> {
        let concerned = self.concerned(&basis);
        for id in &concerned {
            if let Some(entry) = self.entries.remove(id) {
                self.take_out(*id, &entry);
                self.out.insert(*id, entry);
            }
        }
        self.basis = basis;
        concerned
    }

    /// The same sums with another job's.
    #[must_use]
    pub(crate) fn with(&self, id: JobId, entry: Entry) -> Self {
        let mut out = Self {
            basis: self.basis.clone(),
            pools: self.pools.clone(),
            with_gpus: self.with_gpus,
            uses: self.uses.clone(),
            uses_on: self.uses_on.clone(),
            queue: self.queue.clone(),
            ..Self::default()
        };
        out.put_in(id, entry);
        out
    }

    /// A job's entry is another one now. Tells the pools that this is about.
    fn change(&mut self, id: JobId, now: Option<Entry>) -> Vec<PoolIdx> {
        let out = self.out.remove(&id);
        let before = match out {
            Some(before) => Some(before),
            None if self.entries.get(&id).map(AsRef::as_ref) == now.as_ref() => return Vec::new(),
            None => {
                let before = self.entries.remove(&id);
                before.iter().for_each(|before| self.take_out(id, before));
                before
            }
        };
        let pools = before.as_deref().into_iter().chain(&now).filter_map(|e| e.pool);
        let pools = pools.collect();
        let left = before.map(|before| left_lines(id, &before, now.as_ref()));
        if let Some(now) = now {
            self.put_in(id, now);
        }
        for (pool, like, turn) in left.into_iter().flatten() {
            self.queue.remove(pool, &like, &turn);
        }
        pools
    }

    fn put_in(&mut self, id: JobId, mut entry: Entry) {
        self.change_sums(&entry, BothSums::plus, Taken::plus);
        self.change_numbers(&entry, u64::saturating_add, Resources::plus);
        self.with_gpus = self.with_gpus.plus(entry.with_gpus());
        if let Some(pool) = entry.pool {
            let mut waits = std::mem::take(&mut entry.waits);
            for wait in &mut waits {
                if let Some(turn) = entry.turn(id, wait.group) {
                    wait.like = self.queue.insert(pool, &wait.like, turn, wait.units);
                }
            }
            entry.waits = waits;
        }
        let marks = entry.marks;
        let sets = [
            (marks.unstored, &mut self.unstored),
            (marks.unplaced, &mut self.unplaced),
            (marks.restless, &mut self.restless),
            (marks.missing, &mut self.missing),
            (marks.dated, &mut self.dated),
        ];
        for (_, set) in sets.into_iter().filter(|(is, _)| *is) {
            set.insert(id);
        }
        self.later.extend(entry.later.map(|at| (at, id)));
        for (place, worth) in entry.could_lose(id) {
            self.losers.entry(place).or_default().insert(worth);
        }
        self.entries.insert(id, Box::new(entry));
    }

    /// Takes an entry out of the sums, but not out of the queue.
    fn take_out(&mut self, id: JobId, entry: &Entry) {
        self.change_numbers(entry, u64::saturating_sub, Resources::minus);
        self.change_sums(entry, BothSums::minus, Taken::minus);
        self.with_gpus = self.with_gpus.minus(entry.with_gpus());
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
        for (place, worth) in entry.could_lose(id) {
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
        if !entry.marks.counted {
            return;
        }
        let of_pool = self.pools.entry(entry.pool_ref()).or_default();
        of_pool.instances = sum(of_pool.instances, entry.instances());
        of_pool.jobs = sum(of_pool.jobs, 1);
        if let Some(user) = entry.user() {
            let room = entry.sums(self.basis.lent);
            let all = room.ordinary.allocated.plus(room.lent.allocated);
            let has = of_pool.users.remove(user).unwrap_or_default();
            let has = sums(has, all);
            if !has.is_zero() {
                of_pool.users.insert(Arc::from(user), has);
            }
        }
        if *of_pool == OfPool::default() {
            self.pools.remove(&entry.pool_ref());
        }
    }

    fn change_sums(
        &mut self,
        entry: &Entry,
        sums: fn(BothSums, BothSums) -> BothSums,
        taken: fn(Taken, Taken) -> Taken,
    ) {
        let room = entry.sums(self.basis.lent);
        if let Some(choice) = entry.choice().filter(|_| room != BothSums::default()) {
            let of_pool = self.pools.entry(entry.pool_ref()).or_default();
            of_pool.sums = sums(of_pool.sums, room);
            let of_choice = of_pool.by_choice.get_or_default(choice);
            *of_choice = sums(*of_choice, room);
            of_pool.by_choice.retain(|_, s| *s != BothSums::default());
            if let Some(i) = entry.pool {
                if of_pool.by_choice.keys().any(|of| !of.only.is_empty()) {
                    self.choosy.insert(i);
                } else {
                    self.choosy.remove(&i);
                }
            }
            if *of_pool == OfPool::default() {
                self.pools.remove(&entry.pool_ref());
            }
        }
        for (on, used) in entry.uses_on(&self.basis) {
            let there = self.uses_on.entry(on.clone()).or_default();
            there.taken = taken(there.taken, used.taken);
            there.spoken_for = taken(there.spoken_for, used.spoken_for);
            if *there == Use::default() {
                self.uses_on.remove(&on);
            }
        }
        for (cluster, used) in entry.uses(&self.basis) {
            let of_cluster = self.uses.entry(cluster.clone()).or_default();
            of_cluster.taken = taken(of_cluster.taken, used.taken);
            of_cluster.spoken_for = taken(of_cluster.spoken_for, used.spoken_for);
            if *of_cluster == Use::default() {
                self.uses.remove(&cluster);
            }
            if let Some(i) = entry.pool {
                let key = (i, cluster);
                let there = self.places.entry(key.clone()).or_default();
                there.taken = taken(there.taken, used.taken);
                there.spoken_for = taken(there.spoken_for, used.spoken_for);
                if *there == Use::default() {
                    self.places.remove(&key);
                }
            }
        }
    }
}

/// The lines in which a job waited and does not any more. Who goes on waiting in a line does not leave it: since when its clusters have
/// no room is noted there.
fn left_lines(id: JobId, before: &Entry, now: Option<&Entry>) -> Vec<(PoolIdx, Arc<Likeness>, Turn)> {
    let stays = |wait: &Wait| {
        let now = now.filter(|e| e.pool == before.pool);
        let turn = before.turn(id, wait.group);
        now.is_some_and(|e| {
            let same = |w: &Wait| w.like == wait.like && e.turn(id, w.group) == turn;
            e.waits.iter().any(same)
        })
    };
    let left = before.waits.iter().filter(|wait| !stays(wait));
    left.filter_map(|wait| Some((before.pool?, Arc::clone(&wait.like), before.turn(id, wait.group)?)))
        .collect()
}
