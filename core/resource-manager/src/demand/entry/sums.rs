//! What an entry amounts to: capacity in pools and clusters, by what bounds it. A pure function of the
//! instance counts, of the job's spec, and of the kinds that are revocable.

use crate::demand::basis::Basis;
use crate::demand::entry::{AtCluster, Entry};
use crate::demand::request::{PoolRef, terms_of};
use crate::facts::capacity::Taken;
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, JobId, ResourceSum, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{HostPoolIdx, Terms, Turn};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adds what a group has at a cluster that has these kinds as revocable capacity.
fn add(sum: &mut Taken, spec: &JobSpec, group: &GroupSpec, there: &AtCluster, lends: Resources) {
    sum.add_of(spec, group.room().times(there.allocated), lends);
}

/// Sums of a pool's jobs on one side: as amounts, or exact over many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums<T = Resources> {
    /// What is granted or active.
    pub allocated: T,
    /// Of this, what is free when those that are being preempted are gone.
    pub leaving: T,
    /// What could be active if everything fitted.
    pub demand: T,
}

impl Sums<ResourceSum> {
    /// Each sum with what changes it.
    fn pairs(&mut self, by: Sums) -> [(&mut ResourceSum, Resources); 3] {
        [
            (&mut self.allocated, by.allocated),
            (&mut self.leaving, by.leaving),
            (&mut self.demand, by.demand),
        ]
    }

    fn counted(&self) -> Sums {
        Sums {
            allocated: self.allocated.counted(),
            leaving: self.leaving.counted(),
            demand: self.demand.counted(),
        }
    }
}

/// Sums of ordinary capacity, and of revocable capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BothSums<T = Resources> {
    /// Of ordinary capacity.
    pub ordinary: Sums<T>,
    /// Of revocable capacity.
    pub lent: Sums<T>,
}

impl BothSums<ResourceSum> {
    /// Each sum with what changes it.
    pub(crate) fn pairs(&mut self, by: BothSums) -> impl Iterator<Item = (&mut ResourceSum, Resources)> {
        let ordinary = self.ordinary.pairs(by.ordinary);
        ordinary.into_iter().chain(self.lent.pairs(by.lent))
    }

    /// The sums as far as they count.
    pub(crate) fn counted(&self) -> BothSums {
        BothSums {
            ordinary: self.ordinary.counted(),
            lent: self.lent.counted(),
        }
    }
}

/// What jobs of a pool have in common that bounds their demand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    /// The clusters that they may use, by name; all when empty.
    pub(crate) only: Vec<String>,
    /// Their admission class.
    pub(crate) terms: Terms,
    /// The class of their instances; `None` of daemons.
    pub(crate) class: Option<ClassDigest>,
}

/// What a group adds to the sums of its pool.
#[derive(Debug, Clone)]
pub(crate) struct GroupSums {
    pub(crate) choice: Choice,
    pub(crate) class: Option<InstanceClass>,
    pub(crate) sums: BothSums,
    /// Its demand is more than it has, or its shard found no host for some of it.
    pub(crate) waits: bool,
}

/// The clusters of an entry that are added or subtracted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EntryPlaces<'a> {
    /// All of them.
    All,
    /// These. At the others, the entry before and the entry after are the same.
    At(&'a [ClusterId]),
}

/// What an entry adds to sums, or subtracts from them: all that it comes to in pools, and what it takes of
/// some clusters. It is computed once for all sums that it is a part of.
#[derive(Debug, Clone)]
pub(crate) struct EntrySums {
    /// Its pool, in the tree or not.
    pub(crate) pool: PoolRef,
    pub(crate) groups: Vec<GroupSums>,
    /// What could be active of its groups that ask for GPUs.
    pub(crate) with_gpus: Resources,
    /// What it takes of some clusters.
    pub(crate) uses: Vec<(ClusterId, Taken)>,
    /// Of that, what it takes of hosts of host pools that it needs.
    pub(crate) uses_on: BTreeMap<(ClusterId, HostPoolIdx), Taken>,
}

impl EntrySums {
    /// Of an entry, at some clusters.
    pub(crate) fn of(entry: &Entry, places: EntryPlaces<'_>, basis: &Basis) -> Self {
        Self {
            pool: entry.pool_ref(),
            groups: entry.group_sums(basis.lent),
            with_gpus: entry.with_gpus(),
            uses: entry.uses(basis, places),
            uses_on: entry.uses_on(basis, places),
        }
    }
}

impl EntryPlaces<'_> {
    fn has(self, cluster: &ClusterId) -> bool {
        match self {
            Self::All => true,
            Self::At(some) => some.contains(cluster),
        }
    }
}

/// A job's place among preemption candidates: revocable ones first, then by priority, the youngest first.
pub(crate) type Worth = ((bool, u32), Reverse<JobId>);

impl Entry {
    /// Its pool, in the tree or not.
    fn pool_ref(&self) -> PoolRef {
        let path = || self.spec.as_ref().map(|s| s.pool.clone()).unwrap_or_default();
        self.pool.map_or_else(|| PoolRef::Unknown(path()), PoolRef::Known)
    }

    /// Its owner, where its pool is fair to its users.
    pub(crate) fn user(&self) -> Option<&str> {
        let spec = self.spec.as_ref().filter(|_| self.marks.by_user);
        spec.map(|s| s.owner.as_str())
    }

    /// Instances that it asks for, by its spec, whatever has become of them.
    pub(crate) fn asked(&self) -> u64 {
        self.spec.as_ref().map_or(0, |spec| spec.instances())
    }

    /// Instances that are granted or active.
    pub(crate) fn instances(&self) -> u64 {
        let all = self.at.values().map(|there| there.allocated);
        all.fold(0, u64::saturating_add)
    }

    /// The sums of each of its groups, with what bounds the group. `lent` has 1 of each kind of which any
    /// cluster has revocable capacity.
    fn group_sums(&self, lent: Resources) -> Vec<GroupSums> {
        let Some(spec) = self.spec.as_deref() else {
            return Vec::new();
        };
        let only = spec.clusters.bounding_selectors();
        let groups = spec.groups.iter().enumerate().map(|(i, group)| {
            let class = InstanceClass::of(spec, group);
            let sums = self.sums_of(i, group, lent);
            GroupSums {
                choice: Choice {
                    only: only.clone(),
                    terms: terms_of(spec),
                    class: class.as_ref().map(InstanceClass::digest),
                },
                class,
                waits: self.marks.unplaced || self.wanted_of(i) > self.allocated(i).0,
                sums,
            }
        });
        groups.collect()
    }

    fn wanted_of(&self, i: usize) -> u64 {
        self.wanted.get(i).copied().unwrap_or(0)
    }

    /// Instances of a group that are granted or active, and of these, those that are leaving.
    fn allocated(&self, i: usize) -> (u64, u64) {
        let there = self.at.iter().filter(|((_, g), _)| *g == i);
        there.fold((0u64, 0u64), |(allocated, leaving), (_, there)| {
            (
                allocated.saturating_add(there.allocated),
                leaving.saturating_add(there.leaving),
            )
        })
    }

    fn sums_of(&self, i: usize, group: &GroupSpec, lent: Resources) -> BothSums {
        let revocable = self.spec.as_ref().is_some_and(|s| s.revocable);
        let of_lent = if revocable {
            group.room().lent_part(lent)
        } else {
            Resources::ZERO
        };
        let wanted = self.wanted_of(i);
        let (allocated, leaving) = self.allocated(i);
        let sums = |shape: Resources| Sums {
            allocated: shape.times(allocated),
            leaving: shape.times(leaving),
            demand: shape.times(wanted),
        };
        BothSums {
            ordinary: sums(group.room().minus(of_lent)),
            lent: sums(of_lent),
        }
    }

    /// What could be active of its groups that ask for GPUs.
    fn with_gpus(&self) -> Resources {
        let with = self
            .specs()
            .zip(&self.wanted)
            .filter(|(g, _)| g.resources.gpus > 0);
        with.fold(Resources::ZERO, |sum, (g, wanted)| {
            sum.plus(g.room().times(*wanted))
        })
    }

    /// The clusters at which it does not take the same as another entry of its job. `None`: that may be any
    /// cluster.
    pub(crate) fn differs_at(&self, other: &Self) -> Option<Vec<ClusterId>> {
        let (spec, of_other) = (self.spec.as_ref()?, other.spec.as_ref()?);
        let is_comparable =
            Arc::ptr_eq(spec, of_other) && self.pool == other.pool && self.marks.aside == other.marks.aside;
        if !is_comparable {
            return None;
        }
        let differs = |(place, there): (&(ClusterId, usize), &AtCluster), from: &Self| {
            (from.at.get(place) != Some(there)).then(|| place.0.clone())
        };
        let of_self = self.at.iter().filter_map(|at| differs(at, other));
        let of_other = other.at.iter().filter_map(|at| differs(at, self));
        Some(of_self.chain(of_other).collect())
    }

    /// What it takes of some clusters.
    pub(crate) fn uses(&self, basis: &Basis, places: EntryPlaces<'_>) -> Vec<(ClusterId, Taken)> {
        let mut out: Vec<(ClusterId, Taken)> = Vec::new();
        let Some(spec) = self.spec.as_deref() else {
            return out;
        };
        for ((cluster, group), there) in self.at.iter().filter(|((c, _), _)| places.has(c)) {
            let Some(group) = spec.groups.get(*group) else {
                continue;
            };
            if out.last().is_none_or(|(last, _)| last != cluster) {
                out.push((cluster.clone(), Taken::default()));
            }
            let Some((_, used)) = out.last_mut() else { continue };
            add(used, spec, group, there, basis.lends(cluster));
        }
        out
    }

    /// Of that, what it takes of hosts of host pools that it needs.
    fn uses_on(&self, basis: &Basis, places: EntryPlaces<'_>) -> BTreeMap<(ClusterId, HostPoolIdx), Taken> {
        let mut out: BTreeMap<(ClusterId, HostPoolIdx), Taken> = BTreeMap::new();
        let host_pools = basis.host_pools();
        let Some(spec) = self.spec.as_deref().filter(|_| !host_pools.is_empty()) else {
            return out;
        };
        for ((cluster, group), there) in self.at.iter().filter(|((c, _), _)| places.has(c)) {
            let needed = spec.groups.get(*group);
            let needed = needed.and_then(|g| Some((g, host_pools.index(&g.siting.host_pool)?)));
            if let Some((group, i)) = needed {
                let used = out.entry((cluster.clone(), i)).or_default();
                add(used, spec, group, there, basis.lends(cluster));
            }
        }
        out
    }

    /// At which of some clusters it has capacity that may be preempted, with its order among the candidates
    /// there.
    pub(crate) fn could_lose<'a>(
        &'a self,
        id: JobId,
        places: EntryPlaces<'a>,
    ) -> impl Iterator<Item = ((ClusterId, PoolIdx), Worth)> + 'a {
        let spec = self.spec.as_ref().filter(|s| s.preemptible && !self.marks.aside);
        let known = self.pool.zip(spec);
        let mut last = None;
        let there = self.at.iter().filter(|(_, there)| there.allocated > 0);
        let there = there.filter(move |((cluster, _), _)| places.has(cluster));
        there.filter_map(move |((cluster, _), _)| {
            let (pool, spec) = known?;
            let new = last.replace(cluster) != Some(cluster);
            new.then(|| {
                (
                    (cluster.clone(), pool),
                    ((!spec.revocable, spec.precedence()), Reverse(id)),
                )
            })
        })
    }

    /// Its pool, with its place in the order of admission, where it has ordinary capacity of it.
    pub(crate) fn holds_in(&self, id: JobId) -> Option<(PoolIdx, (Reverse<u32>, JobId))> {
        let spec = self.spec.as_ref()?;
        let has_some = self.at.values().any(|there| there.allocated > 0);
        Some((self.pool.filter(|_| has_some)?, (Reverse(spec.precedence()), id)))
    }

    /// The place of a waiting group in its queue.
    pub(crate) fn turn(&self, id: JobId, group: usize) -> Option<Turn> {
        let spec = self.spec.as_ref()?;
        Some(Turn {
            priority: Reverse(spec.precedence()),
            job: id,
            group: spec.groups.get(group)?.name.clone(),
        })
    }

    fn specs(&self) -> impl Iterator<Item = &GroupSpec> {
        self.spec.iter().flat_map(|s| &s.groups)
    }
}
