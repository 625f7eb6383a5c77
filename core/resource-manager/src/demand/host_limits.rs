//! What clusters' hosts can hold of a class of instances. Shards report it for the classes that wait. For any
//! other class the largest host decides. What no host can ever hold is no demand: it would withhold capacity
//! from other pools for ever.

use crate::demand::ledger::Ledger;
use crate::facts::FederationFacts;
use crate::facts::capacity::{UsableCapacity, total};
use crate::facts::cluster::ClusterView;
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::cluster_choice::{ClusterIdentity, allows_by_name};
use echelon_core_model::directive::Capacity;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, HostPoolName, Reason, ReasonCode, Resources, class};
use echelon_core_pools::ClusterIdx;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the hosts of all clusters can hold, as far as it is known, by id of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostLimits(Vec<ClusterLimits>);

/// What the hosts of one cluster can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClusterLimits {
    id: ClusterId,
    name: String,
    labels: BTreeMap<String, String>,
    ever: Arc<BTreeMap<ClassDigest, u64>>,
    /// `None`: not known yet, or no host takes new work.
    largest: Option<LargestHosts>,
    /// The largest host that is stored of a cluster that has not reported yet.
    stored: Option<Resources>,
    /// Its hosts have capacity, as far as anything is known of it.
    has_capacity: bool,
    /// Its divided capacity, if the cluster or some of its hosts take no new work. What runs on such hosts is
    /// not part of what empty hosts can hold.
    closed: Option<Resources>,
}

/// The most of each kind that one host has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LargestHosts {
    with_gpus: Resources,
    without_gpus: Resources,
    /// By host pool; empty while all hosts are in `default`. Zero: nothing is known of its hosts at the
    /// moment.
    host_pools: BTreeMap<HostPoolName, Resources>,
}

impl LargestHosts {
    fn of(capacity: &Capacity) -> Option<Self> {
        let parts = capacity.host_pools.iter();
        (capacity.hosts > 0).then(|| Self {
            with_gpus: capacity.largest_host,
            without_gpus: capacity.without_gpus.largest_host,
            host_pools: parts
                .map(|(name, part)| (name.clone(), part.largest_host))
                .collect(),
        })
    }

    /// Whether any host is in a host pool that a class may use.
    fn has_pool(&self, choice: &HostPoolChoice) -> bool {
        match choice {
            HostPoolChoice::Any => true,
            HostPoolChoice::Only(name) if self.host_pools.is_empty() => name.is_default(),
            HostPoolChoice::Only(name) => self.host_pools.contains_key(name),
        }
    }

    /// The largest host that a class may use: zero where there is none, `None` where it is not known.
    fn for_class(&self, class: &InstanceClass) -> Option<Resources> {
        let all = if class.shape.gpus > 0 {
            self.with_gpus
        } else {
            self.without_gpus
        };
        match &class.host_pool {
            choice if !self.has_pool(choice) => Some(Resources::ZERO),
            HostPoolChoice::Any => Some(all),
            HostPoolChoice::Only(name) => match self.host_pools.get(name) {
                None => Some(all),
                Some(largest) if largest.is_zero() => None,
                Some(largest) => Some(all.min_each(*largest)),
            },
        }
    }
}

impl ClusterLimits {
    fn identity(&self) -> ClusterIdentity<'_> {
        ClusterIdentity {
            id: &self.id,
            name: &self.name,
            labels: &self.labels,
        }
    }

    fn of(facts: &FederationFacts, ledger: &Ledger, id: &ClusterId, cluster: &ClusterView) -> Self {
        let is_closed = cluster.desired_state() != DesiredState::Active
            || cluster.capacity.as_ref().is_some_and(|c| !c.closed.is_zero());
        let usable = || {
            let taken = ledger.taken(id);
            UsableCapacity::of(cluster, taken, facts.lent_kinds()).all
        };
        Self {
            id: id.clone(),
            name: cluster
                .row
                .as_ref()
                .map_or_else(|| id.to_string(), |r| r.name.clone()),
            labels: cluster.row.as_ref().map(|r| r.labels.clone()).unwrap_or_default(),
            ever: Arc::clone(&cluster.fits.ever),
            largest: cluster.capacity.as_ref().and_then(LargestHosts::of),
            stored: cluster
                .state
                .as_ref()
                .and_then(|s| s.reported.as_ref())
                .filter(|r| cluster.capacity.is_none() && r.hosts > 0)
                .map(|r| r.largest_host),
            has_capacity: !total(cluster).is_zero(),
            closed: is_closed.then(usable),
        }
    }

    /// Instances that would fit if nothing ran there; `None`: no bound is known.
    fn ever(&self, digest: ClassDigest, class: &InstanceClass) -> Option<u64> {
        let reported = self.ever.get(&digest).copied();
        reported.or_else(|| self.is_too_small(class).then_some(0))
    }

    fn is_too_small(&self, class: &InstanceClass) -> bool {
        let largest = self.largest.as_ref().and_then(|l| l.for_class(class));
        let largest = largest.or(self.stored);
        largest.is_some_and(|largest| class.lacks(largest).is_some())
    }

    /// Why no host can ever hold an instance of a class, where that is known.
    fn refusal(&self, digest: ClassDigest, class: &InstanceClass) -> Option<Reason> {
        if self.ever(digest, class)? > 0 {
            return None;
        }
        // Without a host that takes new work nothing is known of hosts.
        let hosts = self.largest.as_ref()?;
        if !hosts.has_pool(&class.host_pool) {
            let reason = Reason::new(ReasonCode::HostPool);
            return Some(reason.at(format!("{}: no host is in its host pool", self.name)));
        }
        let too_large = hosts
            .for_class(class)
            .and_then(|largest| class.too_large(&self.name, largest));
        if class.revocable && too_large.is_none() {
            // Revocable capacity changes from minute to minute.
            return None;
        }
        let unmet = || {
            let text = format!(
                "{}: no host satisfies all that it asks for, even when empty",
                self.name
            );
            let code = if class.is_plain() {
                ReasonCode::NoClusterCapacity
            } else {
                ReasonCode::HostConstraint
            };
            Reason::new(code).at(text)
        };
        Some(too_large.unwrap_or_else(unmet))
    }
}

impl HostLimits {
    pub(crate) fn of(facts: &FederationFacts, ledger: &Ledger) -> Self {
        let clusters = facts
            .clusters
            .iter()
            .filter(|(_, c)| c.desired_state() != DesiredState::Removed);
        Self(
            clusters
                .map(|(id, c)| ClusterLimits::of(facts, ledger, id, c))
                .collect(),
        )
    }

    /// The most that instances of a class can have of the clusters in `only`, or of all clusters where it is
    /// empty. `allocated` is what they have. `None`: no bound is known.
    pub(crate) fn most(
        &self,
        ledger: &Ledger,
        digest: ClassDigest,
        only: &[String],
        allocated: Resources,
    ) -> Option<Resources> {
        let class = ledger.class(digest)?;
        // A cluster of which nothing is known has no capacity that is divided.
        let chosen = self.0.iter().filter(|c| allows_by_name(only, c.identity()));
        let mut chosen = chosen.filter(|c| c.has_capacity).peekable();
        chosen.peek()?;
        let mut sum = Resources::ZERO;
        for cluster in chosen {
            let on_empty_hosts = class.shape.times(cluster.ever(digest, class)?);
            sum = sum.plus(match cluster.closed {
                None => on_empty_hosts,
                // How much of it runs on closed hosts is not known, but it is no more than there is.
                Some(there) => on_empty_hosts.plus(allocated).min_each(there),
            });
        }
        Some(sum.max_each(allocated))
    }

    /// The clusters of which no host can ever take a class that waits. `index` gives the index of a cluster.
    pub(crate) fn closed(
        &self,
        ledger: &Ledger,
        index: impl Fn(&ClusterId) -> Option<ClusterIdx>,
    ) -> BTreeSet<(ClassDigest, ClusterIdx)> {
        let mut out = BTreeSet::new();
        for (digest, class) in ledger.waiting_classes(|_| true) {
            let closed = self.0.iter().filter(|c| c.ever(digest, class) == Some(0));
            out.extend(closed.filter_map(|c| Some((digest, index(&c.id)?))));
        }
        out
    }

    /// How many more instances of a class the hosts of a cluster hold beside `there` of the same group, when
    /// nothing else runs on them. `None`: no bound is known.
    pub(crate) fn more(
        &self,
        cluster: &ClusterId,
        digest: ClassDigest,
        class: &InstanceClass,
        there: u64,
    ) -> Option<u64> {
        let at = self.0.binary_search_by(|c| c.id.cmp(cluster)).ok()?;
        let limits = self.0.get(at)?;
        // What is there may run on hosts that take no new work.
        let beside = if limits.closed.is_some() { 0 } else { there };
        Some(limits.ever(digest, class)?.saturating_sub(beside))
    }

    /// Where no host of any cluster that a job may use can hold an instance of a group: the largest host of
    /// the cluster that lacks least. `None`: one can, or that is not known.
    pub(crate) fn nearest(&self, spec: &JobSpec, group: &GroupSpec) -> Option<Resources> {
        let class = InstanceClass::of(spec, group)?;
        let mut nearest: Option<(u64, Resources)> = None;
        for cluster in self.0.iter().filter(|c| spec.clusters.allows(c.identity())) {
            let largest = cluster.largest.as_ref().and_then(|l| l.for_class(&class));
            let Some(largest) = largest.or(cluster.stored) else {
                continue;
            };
            let kind = class.lacks(largest)?;
            let lack = class.shape.get(kind).saturating_sub(largest.get(kind));
            if nearest.is_none_or(|(least, _)| lack < least) {
                nearest = Some((lack, largest));
            }
        }
        nearest.map(|(_, largest)| largest)
    }

    /// Why no host of any cluster that a job may use can ever hold an instance of a group. It is the first
    /// cluster's reason, with what is true of each. `None`: one can, or that is not known.
    pub(crate) fn fits_nowhere(&self, spec: &JobSpec, group: &GroupSpec) -> Option<Reason> {
        let class = InstanceClass::of(spec, group)?;
        let digest = class.digest();
        let chosen = self.0.iter().filter(|c| spec.clusters.allows(c.identity()));
        let all = chosen.map(|c| c.refusal(digest, &class));
        let all: Option<Vec<Reason>> = all.collect();
        class::fits_nowhere(&all?)
    }
}

/// Why no host of a cluster can ever hold an instance of a group, where that is known.
pub(crate) fn refusal(
    facts: &FederationFacts,
    ledger: &Ledger,
    cluster: &ClusterId,
    spec: &JobSpec,
    group: &GroupSpec,
) -> Option<Reason> {
    let class = InstanceClass::of(spec, group)?;
    let limits = ClusterLimits::of(facts, ledger, cluster, facts.clusters.get(cluster)?);
    limits.refusal(class.digest(), &class)
}

/// How many instances of a group a cluster's hosts hold when they are empty. `None`: no bound is known.
pub(crate) fn ever_at(
    facts: &FederationFacts,
    ledger: &Ledger,
    cluster: &ClusterId,
    spec: &JobSpec,
    group: &GroupSpec,
) -> Option<u64> {
    let class = InstanceClass::of(spec, group)?;
    let limits = ClusterLimits::of(facts, ledger, cluster, facts.clusters.get(cluster)?);
    limits.ever(class.digest(), &class)
}
