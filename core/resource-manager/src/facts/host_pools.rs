//! Host pools as bounds of capacity: which clusters have hosts of which pool, and the remaining capacity of
//! these hosts. While all hosts are in `default`, as they were before there were others,
//! nothing of it is counted.

use crate::facts::capacity::total;
use crate::facts::cluster::ClusterView;
use echelon_core_model::directive::Part;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::{HostPoolName, Resources};
use echelon_core_pools::HostPoolIdx;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stands for one that no cluster has.
const NOWHERE: HostPoolIdx = HostPoolIdx::MAX;

/// The host pools that clusters have hosts of, by name; none while all hosts are in `default`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPools(Arc<[HostPoolName]>);

impl HostPools {
    /// Those that clusters have reported.
    pub(crate) fn of<'a>(clusters: impl Iterator<Item = &'a ClusterView>) -> Self {
        let told = clusters.filter_map(|c| c.capacity.as_ref());
        let mut names: BTreeSet<&HostPoolName> = told.flat_map(|c| c.host_pools.keys()).collect();
        let usual = HostPoolName::default();
        if !names.is_empty() {
            names.insert(&usual);
        }
        Self(names.into_iter().cloned().collect())
    }

    /// The one that work needs; `None`: every host is good enough.
    #[must_use]
    pub fn index(&self, choice: &HostPoolChoice) -> Option<HostPoolIdx> {
        match choice {
            HostPoolChoice::Any => None,
            HostPoolChoice::Only(name) if self.0.is_empty() && name.is_default() => None,
            HostPoolChoice::Only(name) => {
                let at = self.0.binary_search(name).ok();
                Some(at.and_then(|at| at.try_into().ok()).unwrap_or(NOWHERE))
            }
        }
    }

    /// Whether there are others beside `default`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = HostPoolIdx> + use<> {
        (0..NOWHERE).take(self.0.len())
    }

    /// Those of which a cluster has hosts, with these in sum.
    pub(crate) fn parts<'a>(
        &'a self,
        cluster: &'a ClusterView,
    ) -> impl Iterator<Item = (HostPoolIdx, Part)> + 'a {
        let numbered = (0..NOWHERE).zip(self.0.iter());
        numbered.filter_map(|(i, name)| Some((i, part(cluster, name)?)))
    }
}

/// A cluster's hosts of a host pool in sum; `None` when it has none.
/// A cluster that reports no host pool has all its hosts in `default`.
fn part(cluster: &ClusterView, name: &HostPoolName) -> Option<Part> {
    let told = cluster.capacity.as_ref();
    match told.filter(|c| !c.host_pools.is_empty()) {
        Some(told) => told.host_pools.get(name).copied(),
        None => name.is_default().then(|| Part {
            total: total(cluster),
            used: told.map(|c| c.used).unwrap_or_default(),
            largest_host: told.map(|c| c.largest_host).unwrap_or_default(),
        }),
    }
}

/// The remaining capacity of a cluster's hosts of each host pool, and the excess in sum.
/// `taken`: what work that needs a host pool's hosts takes. The excess is what is taken beyond what these
/// hosts have, since some have moved to another host pool: it takes nothing of the other hosts.
pub(crate) fn left_on(
    parts: impl Iterator<Item = (HostPoolIdx, Part)>,
    taken: impl Fn(HostPoolIdx) -> Resources,
) -> (BTreeMap<HostPoolIdx, Resources>, Resources) {
    let mut excess = Resources::ZERO;
    let mut left = BTreeMap::new();
    for (i, part) in parts {
        let taken = taken(i);
        excess = excess.plus(taken.minus(part.total));
        left.insert(i, part.total.minus(taken.max_each(part.used)));
    }
    (left, excess)
}
