//! What sums and queues depend on beside jobs.

use crate::facts::FederationFacts;
use crate::facts::capacity::lends;
use crate::facts::cluster::ClusterView;
use crate::facts::host_pools::HostPools;
use echelon_core_model::cluster_choice::ClusterIdentity;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{ClusterId, Resources, Version};
use echelon_core_pools::ClusterIdx;
use std::collections::BTreeMap;

/// What entries depend on beside their own job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Basis {
    pub(crate) structure: Version,
    pub(crate) lent: Resources,
    pub(crate) host_pools: HostPools,
    /// Nothing is bound before all clusters have reported what they run.
    pub(crate) awaiting: bool,
    pub(crate) clusters: BTreeMap<ClusterId, OfCluster>,
}

/// What entries depend on of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfCluster {
    pub(crate) index: ClusterIdx,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) draining: bool,
    /// 1 of each kind of which it has revocable capacity.
    pub(crate) lends: Resources,
}

impl Basis {
    pub(crate) fn of(facts: &FederationFacts) -> Self {
        let clusters = facts.clusters.iter();
        Self {
            structure: facts.structure,
            lent: facts.lent_kinds(),
            host_pools: facts.host_pools.clone(),
            awaiting: facts.awaiting.is_some(),
            clusters: clusters
                .enumerate()
                .map(|(i, (id, c))| (id.clone(), OfCluster::of(i, c)))
                .collect(),
        }
    }

    /// Whether it is what `of` gives, without making that.
    pub(crate) fn is_of(&self, facts: &FederationFacts) -> bool {
        let Self {
            structure,
            lent,
            host_pools,
            awaiting,
            clusters,
        } = self;
        let mut pairs = facts.clusters.iter().enumerate().zip(clusters);
        *structure == facts.structure
            && *lent == facts.lent_kinds()
            && *host_pools == facts.host_pools
            && *awaiting == facts.awaiting.is_some()
            && clusters.len() == facts.clusters.len()
            && pairs.all(|pair| {
                let ((i, (id, cluster)), (known, of)) = pair;
                id == known && of.is_of(i, cluster)
            })
    }

    /// A cluster's place among all, in order of id.
    pub(crate) fn index(&self, cluster: &ClusterId) -> Option<ClusterIdx> {
        self.clusters.get(cluster).map(|c| c.index)
    }

    /// The clusters that a job may use, by index.
    pub(crate) fn chosen<'a>(&'a self, spec: &'a JobSpec) -> impl Iterator<Item = ClusterIdx> + 'a {
        let allowed = |(id, of): &(&ClusterId, &OfCluster)| spec.clusters.allows(of.identity(id));
        let clusters = self.clusters.iter().filter(allowed);
        clusters.map(|(_, of)| of.index)
    }

    /// Host pools beside `default`.
    pub(crate) const fn host_pools(&self) -> &HostPools {
        &self.host_pools
    }

    /// 1 of each kind of which a cluster has revocable capacity.
    pub(crate) fn lends(&self, cluster: &ClusterId) -> Resources {
        self.clusters.get(cluster).map(|c| c.lends).unwrap_or_default()
    }
}

impl OfCluster {
    fn identity<'a>(&'a self, id: &'a ClusterId) -> ClusterIdentity<'a> {
        ClusterIdentity {
            id,
            name: &self.name,
            labels: &self.labels,
        }
    }

    pub(crate) fn of(index: ClusterIdx, cluster: &ClusterView) -> Self {
        Self {
            index,
            name: name(cluster).to_owned(),
            labels: labels(cluster).cloned().unwrap_or_default(),
            draining: cluster.desired_state().moves_work_off(),
            lends: lends(cluster).kinds(),
        }
    }

    fn is_of(&self, at: ClusterIdx, cluster: &ClusterView) -> bool {
        let Self {
            index,
            name: known,
            labels: known_labels,
            draining,
            lends: kinds,
        } = self;
        *index == at
            && known == name(cluster)
            && labels(cluster).map_or_else(|| known_labels.is_empty(), |labels| known_labels == labels)
            && *draining == cluster.desired_state().moves_work_off()
            && *kinds == lends(cluster).kinds()
    }
}

fn labels(cluster: &ClusterView) -> Option<&BTreeMap<String, String>> {
    cluster.row.as_ref().map(|row| &row.labels)
}

fn name(cluster: &ClusterView) -> &str {
    cluster.row.as_ref().map_or("", |row| &row.name)
}
