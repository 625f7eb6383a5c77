//! Sums over all live jobs, updated when a job changes: the demand and use of each pool, what is taken of
//! each cluster, what waits, and which jobs a cycle has to look at. The ledger contains what `entry` gives
//! for every job. The checker compares both.

pub(crate) mod audit;
pub(crate) mod classes;
pub(crate) mod told;
pub(crate) mod totals;

pub(crate) use self::totals::OfPool;
use crate::demand::basis::Basis;
#[cfg(test)]
use crate::demand::entry::sums::BothSums;
use crate::demand::entry::sums::{EntryPlaces, EntrySums, Worth};
use crate::demand::entry::{Entry, Wait, entry};
use crate::demand::ledger::audit::Audit;
use crate::demand::ledger::classes::KnownClass;
use crate::demand::ledger::totals::{Step, Totals};
#[cfg(test)]
use crate::demand::request::PoolRef;
use crate::facts::FederationFacts;
use echelon_core_model::class::ClassDigest;
use echelon_core_model::{ClusterId, JobId, Timestamp};
#[cfg(test)]
use echelon_core_model::{ResourceSum, sum::SumError};
#[cfg(test)]
use echelon_core_pools::Held;
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Queue, Turn};
use std::cmp::Reverse;
use std::collections::btree_map::Entry::Occupied;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Sums over all live jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    basis: Basis,
    entries: BTreeMap<JobId, Arc<Entry>>,
    /// Entries that are out of the sums, until their new value is known.
    out: BTreeMap<JobId, Arc<Entry>>,
    totals: Totals,
    audit: Audit,
    /// The classes of all groups.
    classes: BTreeMap<ClassDigest, KnownClass>,
    queue: Queue,
    unstored: BTreeSet<JobId>,
    unplaced: BTreeSet<JobId>,
    restless: BTreeSet<JobId>,
    dated: BTreeSet<JobId>,
    moving: BTreeSet<JobId>,
    later: BTreeSet<(Timestamp, JobId)>,
    choosy: BTreeSet<PoolIdx>,
    /// Preemption candidates: jobs that have capacity at a cluster and may be stopped for others, by pool.
    /// The first victims come first.
    losers: BTreeMap<(ClusterId, PoolIdx), BTreeSet<Worth>>,
    /// Jobs that have ordinary capacity of a pool, in order of admission.
    holders: BTreeSet<(PoolIdx, (Reverse<u32>, JobId))>,
}

/// What a refresh has found.
pub(crate) struct LedgerChanges {
    /// The jobs that have changed.
    pub(crate) jobs: BTreeSet<JobId>,
    /// The pools with changed sums.
    pub(crate) pools: BTreeSet<PoolIdx>,
}

impl Ledger {
    /// Brings the sums up to date with the jobs that have changed.
    pub(crate) fn refresh(&mut self, facts: &FederationFacts, changed: BTreeSet<JobId>) -> LedgerChanges {
        let mut jobs = changed;
        if !self.basis.is_of(facts) {
            jobs.extend(self.rebase(Basis::of(facts)));
        }
        let mut pools = BTreeSet::new();
        for id in &jobs {
            let now = facts.jobs.get(id).map(|job| entry(facts, &self.basis, *id, job));
            pools.extend(self.change(*id, now));
        }
        LedgerChanges { jobs, pools }
    }

    /// The sums of everything, computed from scratch.
    #[must_use]
    pub fn new(facts: &FederationFacts) -> Self {
        let mut out = Self {
            basis: Basis::of(facts),
            ..Self::default()
        };
        for (id, job) in facts.jobs.iter() {
            let entry = entry(facts, &out.basis, *id, job);
            out.put_in(*id, entry, EntryPlaces::All);
        }
        out
    }

    /// How many items it has for jobs. Sums by pools and clusters are left out.
    pub(crate) fn footprint(&self) -> usize {
        let Self {
            basis: _,
            entries,
            out,
            totals: _,
            audit: _,
            classes: _,
            queue: _,
            unstored,
            unplaced,
            restless,
            dated,
            moving,
            later,
            choosy: _,
            losers,
            holders,
        } = self;
        let sets = [unstored, unplaced, restless, dated, moving].map(BTreeSet::len);
        let marked = sets.iter().sum::<usize>() + later.len();
        let holding = holders.len();
        entries.len() + out.len() + marked + holding + losers.values().map(BTreeSet::len).sum::<usize>()
    }

    /// The jobs with entries that depend on what differs between the basis and `now`.
    fn concerned(&self, now: &Basis) -> BTreeSet<JobId> {
        let same_clusters = now.clusters.keys().eq(self.basis.clusters.keys());
        let of_all = |basis: &Basis| {
            let names: Vec<_> = basis
                .clusters
                .values()
                .map(|c| (c.name.clone(), c.labels.clone()))
                .collect();
            (
                basis.structure,
                basis.lent,
                basis.host_pools.clone(),
                basis.awaiting,
                names,
            )
        };
        if !same_clusters || of_all(now) != of_all(&self.basis) {
            return self.entries.keys().copied().collect();
        }
        let same = |c: &ClusterId| now.clusters.get(c) == self.basis.clusters.get(c);
        let touched = |entry: &Entry| entry.at.keys().any(|(c, _)| !same(c));
        let entries = self.entries.iter().filter(|(_, entry)| touched(entry));
        entries.map(|(id, _)| *id).collect()
    }

    /// Sets what entries depend on. Returns the jobs that this concerns. Their entries are taken out of the
    /// sums, because they were computed from the basis before.
    fn rebase(&mut self, basis: Basis) -> BTreeSet<JobId> {
        let concerned = self.concerned(&basis);
        for id in &concerned {
            if let Some(entry) = self.entries.remove(id) {
                self.take_out(*id, &entry, EntryPlaces::All);
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
            totals: Totals {
                places: BTreeMap::new(),
                ..self.totals.clone()
            },
            classes: self.classes.clone(),
            queue: self.queue.clone(),
            ..Self::default()
        };
        out.put_in(id, entry, EntryPlaces::All);
        out
    }

    /// Sets a job's entry. Returns the pools that this is about. Where the entry before is in the sums, only
    /// clusters change at which the two differ: a job may be at very many.
    fn change(&mut self, id: JobId, now: Option<Entry>) -> Vec<PoolIdx> {
        let out = self.out.remove(&id);
        let mut differ = None;
        let before = match out {
            Some(before) => Some(before),
            None if self.entries.get(&id).map(AsRef::as_ref) == now.as_ref() => return Vec::new(),
            None => {
                let before = self.entries.remove(&id);
                if let Some(before) = &before {
                    differ = now.as_ref().and_then(|now| before.differs_at(now));
                    self.take_out(id, before, places(differ.as_deref()));
                }
                before
            }
        };
        let pools = before.as_deref().into_iter().chain(&now).filter_map(|e| e.pool);
        let pools = pools.collect();
        let left = before.map(|before| left_lines(id, &before, now.as_ref()));
        if let Some(now) = now {
            self.put_in(id, now, places(differ.as_deref()));
        }
        for (pool, like, turn) in left.into_iter().flatten() {
            self.queue.remove(pool, &like, &turn);
        }
        pools
    }

    fn put_in(&mut self, id: JobId, mut entry: Entry, places: EntryPlaces<'_>) {
        self.sum(Step::Add, id, &entry, places);
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
            (marks.dated, &mut self.dated),
            (marks.moving, &mut self.moving),
        ];
        for (_, set) in sets.into_iter().filter(|(is, _)| *is) {
            set.insert(id);
        }
        self.later.extend(entry.later.map(|at| (at, id)));
        for (place, worth) in entry.could_lose(id, places) {
            self.losers.entry(place).or_default().insert(worth);
        }
        self.holders.extend(entry.holds_in(id));
        let entry = self.same_entry(id, &entry).unwrap_or_else(|| Arc::new(entry));
        self.entries.insert(id, entry);
    }

    /// The entry of the last other job of the same class, if it is equal.
    /// The jobs of a class that wait mostly ask for the same, and have nothing.
    fn same_entry(&self, id: JobId, entry: &Entry) -> Option<Arc<Entry>> {
        let class = self.queue.class(entry.pool?, &entry.waits.first()?.like)?;
        let other = class.turns().rev().find(|turn| turn.job != id)?;
        let same = self.entries.get(&other.job).filter(|same| ***same == *entry);
        same.map(Arc::clone)
    }

    /// Takes an entry out of the sums, but not out of the queue.
    fn take_out(&mut self, id: JobId, entry: &Entry, places: EntryPlaces<'_>) {
        self.sum(Step::Subtract, id, entry, places);
        let sets = [
            &mut self.unstored,
            &mut self.unplaced,
            &mut self.restless,
            &mut self.dated,
            &mut self.moving,
        ];
        for set in sets {
            set.remove(&id);
        }
        if let Some(at) = entry.later {
            self.later.remove(&(at, id));
        }
        for (place, worth) in entry.could_lose(id, places) {
            if let Occupied(mut of_place) = self.losers.entry(place) {
                of_place.get_mut().remove(&worth);
                if of_place.get().is_empty() {
                    of_place.remove();
                }
            }
        }
        if let Some(place) = entry.holds_in(id) {
            self.holders.remove(&place);
        }
    }

    /// Makes a pool's sums wrong.
    #[cfg(test)]
    pub(crate) fn plant(
        &mut self,
        pool: &PoolRef,
        change: impl FnOnce(&mut BothSums<ResourceSum>) -> Result<(), SumError>,
    ) {
        let of_pool = self.totals.pools.get_mut(pool);
        of_pool.map(|of| change(&mut of.sums).unwrap()).unwrap();
    }

    /// Makes what is kept of a pool wrong.
    #[cfg(test)]
    pub(crate) fn plant_held(&mut self, pool: PoolIdx, held: Held) {
        self.totals.held.insert(pool, held);
    }

    fn sum(&mut self, step: Step, id: JobId, entry: &Entry, places: EntryPlaces<'_>) {
        let sums = EntrySums::of(entry, places, &self.basis);
        for group in &sums.groups {
            match step {
                Step::Add => self.enter_class(group),
                Step::Subtract => self.leave_class(group),
            }
        }
        self.audit.follow(step, id, entry, &sums);
        self.totals.take(step, entry, &sums);
        if let Some(i) = entry.pool {
            if self.of_known(i).is_some_and(OfPool::is_choosy) {
                self.choosy.insert(i);
            } else {
                self.choosy.remove(&i);
            }
        }
    }
}

fn places(differ: Option<&[ClusterId]>) -> EntryPlaces<'_> {
    differ.map_or(EntryPlaces::All, EntryPlaces::At)
}

/// The equivalence classes in which a job waited and does not wait any more. A job that still waits in its
/// class does not leave it: the class has the time since which its clusters have had no capacity.
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
