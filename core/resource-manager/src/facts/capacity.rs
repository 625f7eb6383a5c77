//! Capacity of a cluster: what its hosts have, what is taken of it, and what is left.

use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::facts::host_pools::{HostPools, left_on};
use crate::facts::loss::CountedCapacity;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::Part;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ResourceSum, Resources};
use echelon_core_pools::{ClusterRoom, HostPoolIdx};

/// What is taken of a cluster: as amounts, or exact over many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken<T = Resources> {
    /// By all work.
    pub all: T,
    /// Of this, by work that asks for no GPUs.
    pub without_gpus: T,
    /// Of revocable capacity, by revocable work.
    pub slack: T,
}

impl Taken<ResourceSum> {
    /// Each sum with what changes it.
    pub(crate) fn pairs(&mut self, by: Taken) -> [(&mut ResourceSum, Resources); 3] {
        [
            (&mut self.all, by.all),
            (&mut self.without_gpus, by.without_gpus),
            (&mut self.slack, by.slack),
        ]
    }

    /// The sums as far as they count.
    pub(crate) fn counted(&self) -> Taken {
        Taken {
            all: self.all.counted(),
            without_gpus: self.without_gpus.counted(),
            slack: self.slack.counted(),
        }
    }
}

/// What kind of work asks for capacity: that decides how much there is for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The kind of work.
    pub work: Work,
    /// The host pool with the hosts that it needs; `None`: every host is good enough.
    pub host_pool: Option<HostPoolIdx>,
}

/// Kinds of work for which there is not the same capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Work that asks for GPUs.
    Gpus,
    /// Work that asks for none.
    Plain,
    /// Work that runs on revocable capacity.
    Revocable,
}

impl Work {
    /// A job's group.
    #[must_use]
    pub const fn of(job: &JobSpec, group: &GroupSpec) -> Self {
        if job.revocable {
            Self::Revocable
        } else if group.resources.gpus > 0 {
            Self::Gpus
        } else {
            Self::Plain
        }
    }
}

impl Taken {
    /// Adds capacity of a job's work, in sum, at a cluster with so much revocable capacity.
    pub fn add_of(&mut self, job: &JobSpec, room: Resources, lends: Resources) {
        if job.revocable {
            let lent = room.lent_part(lends);
            self.add(room.minus(lent));
            self.slack = self.slack.plus(lent);
        } else {
            self.add(room);
        }
    }

    /// Adds ordinary capacity of work, in sum.
    pub fn add(&mut self, room: Resources) {
        self.all = self.all.plus(room);
        if room.gpus == 0 {
            self.without_gpus = self.without_gpus.plus(room);
        }
    }

    /// The same less `excess`: what work of a host pool takes beyond what the pool's hosts have.
    /// What the cluster's own tasks take stays.
    fn without(self, excess: Resources, cluster: &ClusterView) -> Self {
        let used = Self::default().or_used(cluster);
        let less = |of: Resources, used: Resources| of.minus(excess).max_each(of.min_each(used));
        Self {
            all: less(self.all, used.all),
            without_gpus: less(self.without_gpus, used.without_gpus),
            slack: self.slack,
        }
    }

    /// At least what the cluster's own tasks take, as its shard has reported.
    #[must_use]
    pub fn or_used(self, cluster: &ClusterView) -> Self {
        let told = cluster.capacity.as_ref();
        Self {
            all: self.all.max_each(told.map(|c| c.used).unwrap_or_default()),
            without_gpus: self
                .without_gpus
                .max_each(told.map(|c| c.without_gpus.used).unwrap_or_default()),
            slack: self
                .slack
                .max_each(told.map(|c| c.slack.used).unwrap_or_default()),
        }
    }
}

/// All that a cluster's hosts have, as reported, or as stored until this leader has a report of it.
#[must_use]
pub fn total(cluster: &ClusterView) -> Resources {
    let stored = cluster.state.as_ref().and_then(|s| s.reported.as_ref());
    cluster
        .capacity
        .as_ref()
        .map(|c| c.total)
        .or(stored.map(|r| r.total))
        .unwrap_or_default()
}

/// The part of it that is for work that asks for no GPUs.
/// Until its shard has reported, hosts that are reserved for work with GPUs are not known: all of it counts.
pub(crate) fn without_gpus(cluster: &ClusterView) -> Part {
    let known = cluster.capacity.as_ref().map(|c| c.without_gpus);
    known.unwrap_or(Part {
        total: total(cluster),
        ..Part::default()
    })
}

/// A cluster's revocable capacity.
#[must_use]
pub fn lends(cluster: &ClusterView) -> Resources {
    let told = cluster.capacity.as_ref();
    told.map(|c| c.slack.total).unwrap_or_default()
}

/// 1 of each kind that clusters offer to new work as revocable capacity.
#[must_use]
pub(crate) fn lent_kinds(facts: &FederationFacts) -> Resources {
    let open = facts.clusters.values();
    let open = open.filter(|c| c.takes_grants() && c.desired_state() == DesiredState::Active);
    open.fold(Resources::ZERO, |sum, c| sum.max_each(lends(c)))
        .kinds()
}

/// What of one cluster counts as capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UsableCapacity {
    /// For all work.
    pub(crate) all: Resources,
    /// Of this, for work that asks for no GPUs.
    pub(crate) without_gpus: Resources,
    /// Revocable capacity.
    pub(crate) lent: Resources,
}

impl UsableCapacity {
    /// All of it while the cluster takes new work, and for a while when it is out of reach. A cordoned or draining
    /// cluster takes none: what is allocated there is all that any pool can have of it. The same holds for one that
    /// has been out of reach for longer, until it is healthy again. A removed cluster has nothing.
    pub(crate) fn of(cluster: &ClusterView, taken: Taken, lent_kinds: Resources) -> Self {
        let has = Self {
            all: total(cluster),
            without_gpus: without_gpus(cluster).total,
            lent: lends(cluster),
        };
        match cluster.desired_state() {
            // Its hosts are counted by the cluster whose master it has.
            _ if cluster.has_others_hosts() => Self::default(),
            // What its shard reported last of running tasks is of no use any more.
            DesiredState::Active => match cluster.counted {
                CountedCapacity::Assigned => has.at_most(taken, lent_kinds),
                CountedCapacity::Full => has,
            },
            DesiredState::Removed => Self::default(),
            DesiredState::Cordoned | DesiredState::Draining | DesiredState::Removing => {
                has.at_most(taken.or_used(cluster), lent_kinds)
            }
        }
    }

    /// As much of it as is taken.
    fn at_most(self, taken: Taken, lent_kinds: Resources) -> Self {
        let lent = self.lent.min_each(taken.slack);
        // The sums of pools count kinds of which no open cluster has revocable capacity as ordinary.
        let ordinary = lent.minus(lent.lent_part(lent_kinds));
        Self {
            all: self.all.min_each(taken.all).plus(ordinary),
            without_gpus: self.without_gpus.min_each(taken.without_gpus).plus(ordinary),
            lent: lent.minus(ordinary),
        }
    }
}

/// The remaining capacity of a cluster. `taken`: what all work takes of it, or with a host pool, what work
/// that needs hosts of that pool takes.
#[must_use]
pub fn left(
    cluster: &ClusterView,
    host_pools: &HostPools,
    taken: impl Fn(Option<HostPoolIdx>) -> Taken,
) -> ClusterRoom {
    let (on, excess) = left_on(host_pools.parts(cluster), |i| taken(Some(i)).all);
    let taken = taken(None).without(excess, cluster);
    ClusterRoom {
        host_pools: on,
        all: total(cluster).minus(taken.all),
        without_gpus: without_gpus(cluster).total.minus(taken.without_gpus),
        lent: lends(cluster).minus(taken.slack),
        lends: lends(cluster),
    }
}
