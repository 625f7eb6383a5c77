//! What entries come to in sum, by pools and clusters. Jobs are added and subtracted one by one for as long
//! as a leader leads, so every sum is exact and every step is checked. A step that does not match is counted,
//! and the sum is wrong until another leader computes it again.

use crate::demand::entry;
use crate::demand::entry::sums::{BothSums, Choice, EntrySums};
use crate::demand::request::PoolRef;
use crate::facts::capacity::Taken;
use echelon_core_model::spec::MAX_INSTANCES;
use echelon_core_model::{ClusterId, ResourceSum, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Held, HostPoolIdx};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

// Instances are counted exactly for more jobs than any leader has: a job has at most 10,000,000.
const _: () = assert!((MAX_INSTANCES as u64).checked_mul(1 << 40).is_some());

/// What becomes of an entry in the sums.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Add,
    Subtract,
}

/// One pool in sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OfPool {
    pub(crate) sums: BothSums<ResourceSum>,
    /// The same by what bounds it.
    by_choice: BTreeMap<Box<Choice>, Box<BothSums<ResourceSum>>>,
    /// How many of these name clusters.
    choosy: usize,
    /// What users have of it, where it is fair to them.
    users: BTreeMap<Arc<str>, ResourceSum>,
    /// Of the ordinary capacity that its jobs have, what is not preemptible.
    firm: ResourceSum,
    /// Of that capacity, what controllers have.
    controllers: ResourceSum,
    /// Instances that are granted or active.
    instances: u64,
    /// Jobs of which something has begun.
    jobs: u64,
    /// Instances that its jobs ask for, by their specs.
    asked: u64,
}

impl OfPool {
    /// The sums of its jobs.
    pub(crate) fn sums(&self) -> BothSums {
        self.sums.counted()
    }

    /// The same by what bounds it.
    pub(crate) fn by_choice(&self) -> impl Iterator<Item = (&Choice, BothSums)> {
        self.by_choice
            .iter()
            .map(|(choice, sums)| (&**choice, sums.counted()))
    }

    /// What users have of it, where it is fair to them.
    pub(crate) fn users(&self) -> impl Iterator<Item = (&Arc<str>, Resources)> {
        self.users.iter().map(|(user, has)| (user, has.counted()))
    }

    /// Whether some of its jobs may not use every cluster.
    pub(crate) fn is_choosy(&self) -> bool {
        self.choosy > 0
    }

    /// Instances that its jobs ask for, by their specs.
    pub(crate) const fn asked(&self) -> u64 {
        self.asked
    }

    /// What its jobs have, granted or active.
    pub(crate) fn held(&self) -> Held {
        let BothSums { ordinary, lent } = &self.sums;
        Held {
            firm: self.firm.counted(),
            controllers: self.controllers.counted(),
            instances: self.instances,
            jobs: self.jobs,
            ..Held::plain(ordinary.allocated.counted(), lent.allocated.counted())
        }
    }
}

/// Sums over all live jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) pools: BTreeMap<PoolRef, Box<OfPool>>,
    /// What the jobs of pools in the tree have, granted or active. A cycle reads it of every pool.
    pub(crate) held: BTreeMap<PoolIdx, Held>,
    /// Pools in the tree with users, where they are fair to them.
    pub(crate) shared: BTreeSet<PoolIdx>,
    /// Instances that all jobs ask for, by their specs.
    pub(crate) asked: u64,
    /// What could be active of work that asks for GPUs.
    pub(crate) with_gpus: ResourceSum,
    /// What is taken of each cluster.
    pub(crate) uses: BTreeMap<ClusterId, Taken<ResourceSum>>,
    /// Of these, what is taken by work that needs hosts of a host pool.
    pub(crate) uses_on: BTreeMap<(ClusterId, HostPoolIdx), Taken<ResourceSum>>,
    /// What pools that take jobs have where.
    pub(crate) places: BTreeMap<(ClusterId, PoolIdx), Taken<ResourceSum>>,
    /// Steps that did not match.
    pub(crate) errors: u64,
}

/// Takes steps, and counts those that do not match.
struct Counter<'a> {
    step: Step,
    errors: &'a mut u64,
}

impl Counter<'_> {
    fn count(&mut self, sum: &mut u64, by: u64) {
        let (next, otherwise) = match self.step {
            Step::Add => (sum.checked_add(by), u64::MAX),
            Step::Subtract => (sum.checked_sub(by), 0),
        };
        *self.errors = self.errors.saturating_add(next.is_none().into());
        *sum = next.unwrap_or(otherwise);
    }

    fn sum(&mut self, sum: &mut ResourceSum, by: Resources) {
        let done = match self.step {
            Step::Add => sum.add(by),
            Step::Subtract => sum.subtract(by),
        };
        *self.errors = self.errors.saturating_add(done.is_err().into());
    }

    fn all<'s>(&mut self, pairs: impl IntoIterator<Item = (&'s mut ResourceSum, Resources)>) {
        pairs.into_iter().for_each(|(sum, by)| self.sum(sum, by));
    }

    /// A sum of a map, which holds none that is zero.
    fn in_map<K: Ord>(&mut self, map: &mut BTreeMap<K, Taken<ResourceSum>>, key: K, by: Taken) {
        match map.entry(key) {
            Entry::Occupied(mut sum) => {
                self.all(sum.get_mut().pairs(by));
                if *sum.get() == Taken::default() {
                    sum.remove();
                }
            }
            Entry::Vacant(place) => {
                let mut sum = Taken::default();
                self.all(sum.pairs(by));
                if sum != Taken::default() {
                    place.insert(sum);
                }
            }
        }
    }
}

impl Totals {
    /// Adds an entry with what it comes to, or subtracts one that was added.
    pub(crate) fn take(&mut self, step: Step, entry: &entry::Entry, sums: &EntrySums) {
        let mut counter = Counter {
            step,
            errors: &mut self.errors,
        };
        let of_pool = self.pools.entry(sums.pool.clone()).or_default();
        counter.count(&mut of_pool.asked, entry.asked());
        counter.count(&mut self.asked, entry.asked());
        if entry.marks.counted {
            counter.count(&mut of_pool.instances, entry.instances());
            counter.count(&mut of_pool.jobs, 1);
            if let Some(user) = entry.user() {
                let mut has = of_pool.users.remove(user).unwrap_or_default();
                for BothSums { ordinary, lent } in sums.groups.iter().map(|group| &group.sums) {
                    counter.sum(&mut has, ordinary.allocated.plus(lent.allocated));
                }
                if !has.is_zero() {
                    of_pool.users.insert(Arc::from(user), has);
                }
            }
        }
        for group in sums.groups.iter().filter(|g| g.sums != BothSums::default()) {
            counter.all(of_pool.sums.pairs(group.sums));
            let (terms, allocated) = (group.choice.terms, group.sums.ordinary.allocated);
            if !terms.preemptible {
                counter.sum(&mut of_pool.firm, allocated);
            }
            if terms.controller {
                counter.sum(&mut of_pool.controllers, allocated);
            }
            let names = usize::from(!group.choice.only.is_empty());
            if let Some(of_choice) = of_pool.by_choice.get_mut(&group.choice) {
                counter.all(of_choice.pairs(group.sums));
                if **of_choice == BothSums::default() {
                    of_pool.by_choice.remove(&group.choice);
                    of_pool.choosy = of_pool.choosy.saturating_sub(names);
                }
            } else {
                let mut of_choice = Box::<BothSums<ResourceSum>>::default();
                counter.all(of_choice.pairs(group.sums));
                if *of_choice != BothSums::default() {
                    of_pool
                        .by_choice
                        .insert(Box::new(group.choice.clone()), of_choice);
                    of_pool.choosy += names;
                }
            }
        }
        if let Some(pool) = entry.pool {
            let held = of_pool.held();
            if held == Held::default() {
                self.held.remove(&pool);
            } else {
                self.held.insert(pool, held);
            }
            if of_pool.users.is_empty() {
                self.shared.remove(&pool);
            } else {
                self.shared.insert(pool);
            }
        }
        if **of_pool == OfPool::default() {
            self.pools.remove(&sums.pool);
        }
        counter.sum(&mut self.with_gpus, sums.with_gpus);
        for (on, used) in &sums.uses_on {
            counter.in_map(&mut self.uses_on, on.clone(), *used);
        }
        for (cluster, used) in &sums.uses {
            if let Some(pool) = entry.pool {
                counter.in_map(&mut self.places, (cluster.clone(), pool), *used);
            }
            counter.in_map(&mut self.uses, cluster.clone(), *used);
        }
    }
}
