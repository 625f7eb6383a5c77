//! What is left: in every pool by limit and by entitlement, and in every cluster.

use crate::entitle::Entitlements;
use crate::hierarchy::Hierarchy;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Reason, ReasonCode};
use std::collections::BTreeMap;

/// What is left in one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolRoom {
    limit: Resources,
    entitled: Resources,
}

/// What is left in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterRoom {
    /// On all hosts.
    pub all: Resources,
    /// On hosts that are not kept for work with GPUs.
    pub without_gpus: Resources,
}

impl ClusterRoom {
    /// What is left for work of a shape.
    #[must_use]
    pub fn of(&self, shape: Resources) -> Resources {
        if shape.gpus > 0 {
            self.all
        } else {
            self.all.min_each(self.without_gpus)
        }
    }

    /// Takes room of work, in sum.
    pub fn take(&mut self, taken: Resources) {
        self.all = self.all.minus(taken);
        if taken.gpus == 0 {
            self.without_gpus = self.without_gpus.minus(taken);
        }
    }
}

/// What is left in pools and clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rooms {
    pools: BTreeMap<String, PoolRoom>,
    clusters: BTreeMap<ClusterId, ClusterRoom>,
}

impl Rooms {
    /// What is left when `allocated` (by path of leaf pools) is taken. `clusters` is what is left in each cluster.
    #[must_use]
    pub fn new(
        hierarchy: &Hierarchy,
        entitlements: &Entitlements,
        allocated: &BTreeMap<String, Resources>,
        clusters: BTreeMap<ClusterId, ClusterRoom>,
    ) -> Self {
        let mut out = Self {
            pools: BTreeMap::new(),
            clusters,
        };
        for i in hierarchy.indexes() {
            let Some(pool) = hierarchy.pool(i) else { continue };
            let room = PoolRoom {
                limit: pool.limit,
                entitled: entitlements.amount(i),
            };
            out.pools.insert(pool.path.clone(), room);
        }
        for (path, taken) in allocated {
            out.take_pools(path, *taken);
        }
        out
    }

    /// The same rooms for a second round, in which what nobody could use of his entitlement is lent within limits.
    #[must_use]
    pub fn lent(mut self) -> Self {
        self.pools
            .values_mut()
            .for_each(|room| room.entitled = Resources::MAX);
        self
    }

    /// The rooms of revocable work: what is lent comes out of `slack`, all else out of these. `lent` is what all clusters lend,
    /// `by_cluster` what each does.
    #[must_use]
    pub fn with_slack(
        &self,
        slack: &Self,
        lent: Resources,
        by_cluster: &BTreeMap<ClusterId, Resources>,
    ) -> Self {
        let pool = |(path, room): (&String, &PoolRoom)| {
            let of = slack.pools.get(path)?;
            let both = PoolRoom {
                limit: of.limit.where_lent(lent, room.limit),
                entitled: of.entitled.where_lent(lent, room.entitled),
            };
            Some((path.clone(), both))
        };
        let cluster = |(id, room): (&ClusterId, &ClusterRoom)| {
            let of = slack.clusters.get(id).copied().unwrap_or_default();
            let lends = by_cluster.get(id).copied().unwrap_or_default();
            let both = ClusterRoom {
                all: of.all.where_lent(lends, room.all),
                without_gpus: of.without_gpus.where_lent(lends, room.without_gpus),
            };
            (id.clone(), both)
        };
        Self {
            pools: self.pools.iter().filter_map(pool).collect(),
            clusters: self.clusters.iter().map(cluster).collect(),
        }
    }

    /// What is left in a cluster for work of a shape.
    #[must_use]
    pub fn cluster(&self, cluster: &ClusterId, shape: Resources) -> Resources {
        self.clusters.get(cluster).copied().unwrap_or_default().of(shape)
    }

    /// Takes room of `n` instances in a cluster.
    pub fn take_cluster(&mut self, cluster: &ClusterId, taken: Resources) {
        if let Some(room) = self.clusters.get_mut(cluster) {
            room.take(taken);
        }
    }

    /// A pool and those above it, innermost first.
    fn chain<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a PoolRoom)> {
        std::iter::successors(Some(path), |p| Some(PoolTree::parent(p)).filter(|p| *p != "/"))
            .filter_map(|p| Some((p, self.pools.get(p)?)))
    }

    pub(crate) fn take_pools(&mut self, path: &str, taken: Resources) {
        let mut at = path;
        while at != "/" {
            if let Some(room) = self.pools.get_mut(at) {
                room.limit = room.limit.minus(taken);
                if room.entitled != Resources::MAX {
                    room.entitled = room.entitled.minus(taken);
                }
            }
            at = PoolTree::parent(at);
        }
    }

    /// How many of a shape fit into a pool and those above it.
    pub(crate) fn pool_count(&self, path: &str, shape: Resources) -> u64 {
        let counts = self
            .chain(path)
            .map(|(_, room)| shape.count_in(room.limit.min_each(room.entitled)));
        counts.min().unwrap_or_default()
    }

    /// Why one more of a shape does not fit into a pool, `None` when it does.
    pub(crate) fn pool_refusal(&self, path: &str, shape: Resources) -> Option<Reason> {
        if !self.pools.contains_key(path) {
            return Some(Reason::new(ReasonCode::PoolNotFound).at(path));
        }
        let at = |code, path: &str, room: Resources| {
            let kind = shape.first_lack(room)?;
            Some(Reason::new(code).at(path).short(Shortfall {
                kind,
                have: room.get(kind),
                need: shape.get(kind),
            }))
        };
        self.chain(path)
            .find_map(|(path, room)| at(ReasonCode::PoolLimit, path, room.limit))
            .or_else(|| {
                self.chain(path)
                    .find_map(|(path, room)| at(ReasonCode::PoolEntitlement, path, room.entitled))
            })
    }
}
