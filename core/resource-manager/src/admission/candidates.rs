//! Clusters as routing sees them, for each kind of work, and for work that needs hosts of one host pool.

use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::facts::FederationFacts;
use crate::facts::capacity::{Asker, Work, total, without_gpus};
use crate::facts::cluster::ClusterView;
use crate::facts::host_pools::HostPools;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::directive::Part;
use echelon_core_model::health::ClusterHealth;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, Kind, Resources};
use echelon_core_pools::HostPoolIdx;
use echelon_core_routing::{Candidate, Homes, RoutingOrder, score};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clusters as routing sees them, without their remaining capacity, which admission knows.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    all: Lists,
    /// For work that needs hosts of a host pool that some cluster has.
    by_host_pool: BTreeMap<HostPoolIdx, Lists>,
    /// For work that needs hosts of a host pool that no cluster has.
    nowhere: Vec<Candidate>,
    host_pools: HostPools,
    capacity: BTreeMap<ClusterId, Resources>,
    homes: Arc<Homes>,
    limits: HostLimits,
}

/// A cluster as it would be under a change that is only planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterPatch<'a> {
    pub(crate) cluster: &'a ClusterId,
    pub(crate) desired_state: DesiredState,
    pub(crate) labels: &'a BTreeMap<String, String>,
}

/// All clusters, for each kind of work. Revocable capacity changes from minute to minute. No work is ever too
/// large for it, only for a host. So revocable work sees what plain work sees.
#[derive(Debug, Clone, Default)]
struct Lists {
    with_gpus: Vec<Candidate>,
    plain: Vec<Candidate>,
}

impl Lists {
    fn push(&mut self, candidate: Candidate, largest_without_gpus: Resources) {
        self.plain.push(Candidate {
            largest_host: candidate.largest_host.min_each(largest_without_gpus),
            ..candidate.clone()
        });
        self.with_gpus.push(candidate);
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.with_gpus.iter_mut().chain(&mut self.plain)
    }

    fn of(&self, work: Work) -> &[Candidate] {
        match work {
            Work::Gpus => &self.with_gpus,
            Work::Plain | Work::Revocable => &self.plain,
        }
    }
}

impl Candidates {
    /// The clusters of a snapshot.
    #[must_use]
    pub fn new(facts: &FederationFacts, ledger: &Ledger) -> Self {
        let clusters = facts.clusters.iter();
        let known = clusters.filter_map(|(id, c)| Some((id, c, c.row.as_ref()?)));
        let mut out = Self {
            homes: Arc::clone(&facts.homes),
            host_pools: facts.host_pools.clone(),
            limits: HostLimits::of(facts, ledger),
            ..Self::default()
        };
        for (id, c, row) in known {
            let (candidate, plain) = (candidate(row, c), without_gpus(c).largest_host);
            let parts: BTreeMap<HostPoolIdx, Part> = facts.host_pools.parts(c).collect();
            for i in facts.host_pools.indexes() {
                let lists = out.by_host_pool.entry(i).or_default();
                lists.push(on(&candidate, parts.get(&i)), plain);
            }
            out.nowhere.push(on(&candidate, None));
            out.capacity.insert(id.clone(), total(c));
            out.all.push(candidate, plain);
        }
        out
    }

    /// The same with one cluster as it would be. One that is not known stays unknown.
    pub(crate) fn patched(mut self, patch: &ClusterPatch<'_>) -> Self {
        let labels = Arc::new(patch.labels.clone());
        let lists = std::iter::once(&mut self.all).chain(self.by_host_pool.values_mut());
        let all = lists.flat_map(Lists::all_mut).chain(&mut self.nowhere);
        for candidate in all.filter(|c| c.id == *patch.cluster) {
            candidate.desired_state = patch.desired_state;
            candidate.labels = Arc::clone(&labels);
        }
        self
    }

    /// What a job's group requires of clusters.
    #[must_use]
    pub fn asker(&self, job: &JobSpec, group: &GroupSpec) -> Asker {
        Asker {
            work: Work::of(job, group),
            host_pool: self.host_pools.index(&group.siting.host_pool),
        }
    }

    /// The clusters as such work finds them.
    #[must_use]
    pub fn of(&self, asker: Asker) -> &[Candidate] {
        match asker.host_pool {
            None => self.all.of(asker.work),
            Some(i) => {
                let lists = self.by_host_pool.get(&i);
                lists.map_or(self.nowhere.as_slice(), |lists| lists.of(asker.work))
            }
        }
    }

    /// What the hosts of each can hold.
    pub(crate) const fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// In which order clusters are tried.
    #[must_use]
    pub fn order(&self) -> RoutingOrder<'_> {
        RoutingOrder {
            homes: &self.homes,
            score,
        }
    }

    /// How much of a cluster is allocated, in thousandths, in the kind of which a shape takes the largest
    /// part of it. `left` is what it has left for the shape. 0 where nothing is known of it.
    pub(crate) fn load(&self, cluster: &ClusterId, shape: Resources, left: Resources) -> u32 {
        let Some(all) = self.capacity.get(cluster) else {
            return 0;
        };
        let thousandths = |part: u64, of: u64| u128::from(part) * 1_000 / u128::from(of.max(1));
        let kinds = Kind::ALL.iter().filter(|kind| all.get(**kind) > 0);
        let scarcest = kinds.max_by_key(|kind| thousandths(shape.get(**kind), all.get(**kind)));
        let load =
            scarcest.map(|kind| thousandths(all.get(*kind).saturating_sub(left.get(*kind)), all.get(*kind)));
        load.map_or(0, |load| u32::try_from(load).unwrap_or(u32::MAX))
    }

    /// What the hosts of each have together.
    #[must_use]
    pub const fn capacity(&self) -> &BTreeMap<ClusterId, Resources> {
        &self.capacity
    }
}

fn candidate(row: &Cluster, c: &ClusterView) -> Candidate {
    let told = c.capacity.as_ref();
    Candidate {
        id: row.id.clone(),
        name: row.name.clone(),
        labels: Arc::new(row.labels.clone()),
        desired_state: row.desired_state,
        new_work: c.new_work(),
        health: told
            .and(c.state.as_ref())
            .map_or_else(ClusterHealth::joining, |state| state.health.clone()),
        hosts: told.map_or(0, |c| c.hosts),
        largest_host: told.map(|c| c.largest_host).unwrap_or_default(),
        room: Resources::ZERO,
        load: 0,
        has_host_pool: true,
    }
}

/// The same for work that needs hosts of a host pool; `None` when the cluster has none of it.
fn on(candidate: &Candidate, part: Option<&Part>) -> Candidate {
    match part {
        None => Candidate {
            has_host_pool: false,
            ..candidate.clone()
        },
        Some(part) => Candidate {
            // Of hosts that take nothing now it is not known how large they are.
            hosts: if part.largest_host.is_zero() {
                0
            } else {
                candidate.hosts
            },
            largest_host: candidate.largest_host.min_each(part.largest_host),
            ..candidate.clone()
        },
    }
}
