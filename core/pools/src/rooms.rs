//! What is left: in every pool by limit and by entitlement, and in every cluster; of ordinary room and of what hosts lend.

use crate::entitle::Entitlements;
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use crate::queue::Likeness;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Reason, ReasonCode};
use std::sync::Arc;

/// Which room work runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Ordinary room alone.
    Ordinary,
    /// What hosts lend, and ordinary room of the kinds that none lends.
    Revocable,
}

/// Index of a cluster in order of id.
pub type ClusterIdx = usize;

/// What a pool and those above it leave of ordinary room, of what is lent, or of both, as a side takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// By their limits.
    pub by_limit: Resources,
    /// By their entitlements.
    pub by_entitlement: Resources,
}

/// What one pool may have and has, with the pools below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolRoom {
    limit: Resources,
    entitled: Resources,
    taken: Resources,
    entitled_lent: Resources,
    taken_lent: Resources,
}

/// What is left in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterRoom {
    /// On all hosts.
    pub all: Resources,
    /// On hosts that are not kept for work with GPUs.
    pub without_gpus: Resources,
    /// Of what its hosts lend.
    pub lent: Resources,
    /// What its hosts lend in all, which tells the kinds.
    pub lends: Resources,
}

impl ClusterRoom {
    /// What is left for work of a shape.
    #[must_use]
    pub fn of(&self, side: Side, shape: Resources) -> Resources {
        let ordinary = if shape.gpus > 0 {
            self.all
        } else {
            self.all.min_each(self.without_gpus)
        };
        match side {
            Side::Ordinary => ordinary,
            Side::Revocable => self.lent.where_lent(self.lends, ordinary),
        }
    }

    /// Takes room of work, in sum.
    pub fn take(&mut self, side: Side, taken: Resources) {
        let lent = match side {
            Side::Ordinary => Resources::ZERO,
            Side::Revocable => taken.lent_part(self.lends),
        };
        let ordinary = taken.minus(lent);
        self.lent = self.lent.minus(lent);
        self.all = self.all.minus(ordinary);
        if taken.gpus == 0 {
            self.without_gpus = self.without_gpus.minus(ordinary);
        }
    }
}

/// What is left in pools and clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rooms {
    hierarchy: Arc<Hierarchy>,
    /// What all clusters lend, which tells the kinds.
    lends: Resources,
    pools: Vec<PoolRoom>,
    /// In order of id; `None` where nothing more may begin.
    clusters: Vec<(ClusterId, Option<ClusterRoom>)>,
}

impl Rooms {
    /// Pools that have nothing and are entitled to nothing, and what is left in each cluster, in order of id; `None` where nothing
    /// more may begin. `lends` is what all clusters lend.
    #[must_use]
    pub fn new(
        hierarchy: Arc<Hierarchy>,
        lends: Resources,
        clusters: Vec<(ClusterId, Option<ClusterRoom>)>,
    ) -> Self {
        let room = |i: PoolIdx| PoolRoom {
            limit: hierarchy.pool(i).map_or(Resources::MAX, |p| p.limit),
            entitled: Resources::ZERO,
            taken: Resources::ZERO,
            entitled_lent: Resources::ZERO,
            taken_lent: Resources::ZERO,
        };
        Self {
            pools: hierarchy.indexes().map(room).collect(),
            hierarchy,
            lends,
            clusters,
        }
    }

    /// What each pool may use from now on, of ordinary room and of what is lent; what is taken stays taken.
    pub fn entitle(&mut self, ordinary: &Entitlements, lent: &Entitlements) {
        for (i, room) in self.pools.iter_mut().enumerate() {
            room.entitled = ordinary.amount(i);
            room.entitled_lent = lent.amount(i);
        }
    }

    /// The same rooms, open to everybody within limits but for what somebody is about to use: of each pool so much ordinary room,
    /// and so much of what is lent.
    #[must_use]
    pub fn opened(&self, aside: impl Iterator<Item = (PoolIdx, Resources, Resources)>) -> Self {
        let mut out = self.clone();
        for (pool, ordinary, lent) in aside {
            out.take_pool(pool, ordinary, lent);
        }
        for room in out.pools.iter_mut().skip(ROOT + 1) {
            room.entitled = Resources::MAX;
            room.entitled_lent = Resources::MAX;
        }
        out
    }

    /// What was taken between two states of other rooms is taken here, too.
    pub fn take_between(&mut self, before: &Self, after: Self) {
        let pairs = before.pools.iter().zip(&after.pools);
        for (room, (before, after)) in self.pools.iter_mut().zip(pairs) {
            room.taken = room.taken.plus(after.taken.minus(before.taken));
            room.taken_lent = room.taken_lent.plus(after.taken_lent.minus(before.taken_lent));
        }
        self.clusters = after.clusters;
    }

    /// Takes room in a pool and those above it: so much ordinary room, and so much of what is lent.
    pub fn take_pool(&mut self, pool: PoolIdx, ordinary: Resources, lent: Resources) {
        let chain = std::iter::once(pool).chain(self.hierarchy.above(pool));
        for i in chain {
            if let Some(room) = self.pools.get_mut(i) {
                room.taken = room.taken.plus(ordinary);
                room.taken_lent = room.taken_lent.plus(lent);
            }
        }
    }

    /// Takes room of work, in sum, in a pool and those above it.
    pub(crate) fn take(&mut self, pool: PoolIdx, side: Side, taken: Resources) {
        let lent = match side {
            Side::Ordinary => Resources::ZERO,
            Side::Revocable => taken.lent_part(self.lends),
        };
        self.take_pool(pool, taken.minus(lent), lent);
    }

    /// Takes room of work, in sum, in a cluster.
    pub fn take_cluster(&mut self, cluster: &ClusterId, side: Side, taken: Resources) {
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(cluster));
        let room = at.ok().and_then(|at| self.clusters.get_mut(at));
        if let Some((_, Some(room))) = room {
            room.take(side, taken);
        }
    }

    /// What is taken in a pool, with those below it: of ordinary room, and of what is lent.
    #[must_use]
    pub fn taken(&self, pool: PoolIdx) -> (Resources, Resources) {
        let room = self.pools.get(pool);
        room.map_or_else(Default::default, |r| (r.taken, r.taken_lent))
    }

    /// What is left in a cluster for work of a shape.
    #[must_use]
    pub fn cluster(&self, cluster: &ClusterId, side: Side, shape: Resources) -> Resources {
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(cluster));
        at.map_or(Resources::ZERO, |at| self.cluster_at(at, side, shape))
    }

    fn cluster_at(&self, cluster: ClusterIdx, side: Side, shape: Resources) -> Resources {
        let room = self.clusters.get(cluster).and_then(|(_, room)| room.as_ref());
        room.map_or(Resources::ZERO, |room| room.of(side, shape))
    }

    /// A pool and those above it, innermost first. The root has no limit and is entitled to all that there is.
    fn chain(&self, pool: PoolIdx) -> impl Iterator<Item = (PoolIdx, &PoolRoom)> {
        let chain = std::iter::once(pool).chain(self.hierarchy.above(pool));
        chain.filter_map(|i| Some((i, self.pools.get(i)?)))
    }

    /// What a pool's limit leaves.
    fn by_limit(&self, room: &PoolRoom, side: Side) -> Resources {
        let ordinary = room.limit.minus(room.taken);
        match side {
            Side::Ordinary => ordinary,
            // Limits are about ordinary room.
            Side::Revocable => Resources::MAX.where_lent(self.lends, ordinary),
        }
    }

    /// What a pool's entitlement leaves.
    fn by_entitlement(&self, room: &PoolRoom, side: Side) -> Resources {
        let ordinary = room.entitled.minus(room.taken);
        match side {
            Side::Ordinary => ordinary,
            Side::Revocable => room
                .entitled_lent
                .minus(room.taken_lent)
                .where_lent(self.lends, ordinary),
        }
    }

    /// What a pool and those above it leave.
    #[must_use]
    pub fn left(&self, pool: PoolIdx, side: Side) -> Left {
        let none = Left {
            by_limit: Resources::MAX,
            by_entitlement: Resources::MAX,
        };
        self.chain(pool).fold(none, |left, (_, room)| Left {
            by_limit: left.by_limit.min_each(self.by_limit(room, side)),
            by_entitlement: left.by_entitlement.min_each(self.by_entitlement(room, side)),
        })
    }

    /// How many of a shape fit into a pool and those above it.
    #[must_use]
    pub fn pool_count(&self, pool: PoolIdx, side: Side, shape: Resources) -> u64 {
        let left = self.left(pool, side);
        shape.count_in(left.by_limit.min_each(left.by_entitlement))
    }

    /// Whether a cluster where they wait has room for one more of those who are alike.
    #[must_use]
    pub fn have_room(&self, like: &Likeness) -> bool {
        let has_room = |c: &ClusterIdx| like.shape.fits(self.cluster_at(*c, like.side, like.shape));
        like.clusters.iter().any(has_room)
    }

    /// What one more of those who are alike waits for, where so much is left in its pool: the pool's limit, a cluster, or the pool's
    /// entitlement. `None` when there is room.
    #[must_use]
    pub fn lacking(&self, left: &Left, like: &Likeness) -> Option<ReasonCode> {
        let shape = like.shape;
        if !shape.fits(left.by_limit) {
            Some(ReasonCode::PoolLimit)
        } else if !self.have_room(like) {
            Some(ReasonCode::NoClusterCapacity)
        } else if !shape.fits(left.by_entitlement) {
            Some(ReasonCode::PoolEntitlement)
        } else {
            None
        }
    }

    /// Why one more of a shape does not fit into a pool and a cluster, `None` when it does. A limit is told before a cluster
    /// without room, since nothing but a change of the pool helps; entitlement after it.
    #[must_use]
    pub fn refusal(
        &self,
        pool: PoolIdx,
        side: Side,
        shape: Resources,
        cluster: &ClusterId,
    ) -> Option<Reason> {
        let limit = self.chain(pool).find_map(|(i, room)| {
            let left = self.by_limit(room, side);
            self.lack(ReasonCode::PoolLimit, i, left, shape)
        });
        let in_cluster = || {
            let left = self.cluster(cluster, side, shape);
            let short = shortfall(left, shape)?;
            let reason = Reason::new(ReasonCode::NoClusterCapacity).at(cluster.as_str());
            Some(reason.short(short))
        };
        let entitlement = || {
            self.chain(pool).find_map(|(i, room)| {
                let left = self.by_entitlement(room, side);
                self.lack(ReasonCode::PoolEntitlement, i, left, shape)
            })
        };
        limit.or_else(in_cluster).or_else(entitlement)
    }

    fn lack(&self, code: ReasonCode, pool: PoolIdx, left: Resources, shape: Resources) -> Option<Reason> {
        let short = shortfall(left, shape)?;
        let path = self.hierarchy.pool(pool).map_or("/", |p| p.path.as_str());
        Some(Reason::new(code).at(path).short(short))
    }
}

fn shortfall(left: Resources, shape: Resources) -> Option<Shortfall> {
    let kind = shape.first_lack(left)?;
    Some(Shortfall {
        kind,
        have: left.get(kind),
        need: shape.get(kind),
    })
}
