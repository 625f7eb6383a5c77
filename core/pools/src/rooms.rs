//! What is left: in every pool by limit and by entitlement, and in every cluster; of ordinary room and of what hosts lend.

mod left;
#[cfg(test)]
mod tests;
mod why;

pub use left::{Left, LeftWalk};

use crate::entitle::Entitlements;
use crate::hierarchy::{Hierarchy, PoolBounds, PoolIdx, ROOT};
use crate::hold::Hold;
use crate::pages::Pages;
use crate::pool_sums::PoolSums;
use crate::terms::{Held, HostPoolIdx, Terms, Unit};
use echelon_core_model::class::ClassDigest;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, JobId};
use std::collections::{BTreeMap, BTreeSet};
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

/// What one pool may have and has, with the pools below it.
#[derive(Debug, Clone, Copy)]
struct PoolRoom<'a> {
    bounds: &'a PoolBounds,
    entitled: Resources,
    entitled_lent: Resources,
    taken: &'a Held,
}

/// What pools are entitled to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct RoomEntitlements {
    ordinary: Arc<Entitlements>,
    lent: Arc<Entitlements>,
    /// Pools that may use at least so much of ordinary capacity.
    raised: BTreeMap<PoolIdx, Resources>,
    /// Every pool below the root may use all that there is.
    is_open: bool,
    /// What was taken when these were set.
    taken: Pages<Held>,
}

/// Room that was kept for a gang, to be given back as it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    cluster: Option<ClusterId>,
    all: Resources,
    without_gpus: Resources,
    in_host_pool: Option<(HostPoolIdx, Resources)>,
    pools: Vec<(PoolIdx, Resources)>,
}

/// What is left in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterRoom {
    /// On all hosts.
    pub all: Resources,
    /// On hosts that are not kept for work with GPUs.
    pub without_gpus: Resources,
    /// Of what its hosts lend.
    pub lent: Resources,
    /// What its hosts lend in all, which tells the kinds.
    pub lends: Resources,
    /// On hosts of each host pool that it has. Not asked while everybody may use every host.
    pub host_pools: BTreeMap<HostPoolIdx, Resources>,
}

impl ClusterRoom {
    /// What is left for units.
    #[must_use]
    pub fn of(&self, side: Side, unit: Unit) -> Resources {
        let ordinary = if unit.shape.gpus > 0 {
            self.all
        } else {
            self.all.min_each(self.without_gpus)
        };
        let ordinary = match unit.host_pool {
            Some(i) => ordinary.min_each(self.host_pools.get(&i).copied().unwrap_or_default()),
            None => ordinary,
        };
        match side {
            Side::Ordinary => ordinary,
            Side::Revocable => self.lent.where_lent(self.lends, ordinary),
        }
    }

    /// Takes room of so many units.
    pub fn take(&mut self, side: Side, unit: Unit, n: u64) {
        let taken = unit.shape.times(n);
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
        if let Some(room) = unit.host_pool.and_then(|i| self.host_pools.get_mut(&i)) {
            *room = room.minus(ordinary);
        }
    }
}

/// What a pool leaves of ordinary capacity by its limit and its entitlement.
fn left_of(room: PoolRoom<'_>) -> Resources {
    let taken = room.taken.ordinary;
    room.entitled
        .minus(taken)
        .min_each(room.bounds.limit.minus(taken))
}

/// What is left in pools and clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rooms {
    hierarchy: Arc<Hierarchy>,
    /// 1 of each kind that clusters lend.
    lends: Resources,
    /// What is taken in each pool.
    taken: Pages<Held>,
    entitled: RoomEntitlements,
    /// In order of id; `None` where nothing more may begin.
    clusters: Vec<(ClusterId, Option<ClusterRoom>)>,
    /// Clusters of which no host can ever take a class, by class.
    closed: Arc<BTreeSet<(ClassDigest, ClusterIdx)>>,
    /// Jobs of which something begins here for the first time, where pools bound their number.
    begun: BTreeSet<JobId>,
    /// What users have of pools that are fair to them.
    users: BTreeMap<(PoolIdx, Arc<str>), Resources>,
}

impl Rooms {
    /// Pools that have nothing and are entitled to nothing, and what is left in each cluster, in order of id; `None` where nothing
    /// more may begin. `lends` is 1 of each kind that clusters lend.
    #[must_use]
    pub fn new(
        hierarchy: Arc<Hierarchy>,
        lends: Resources,
        clusters: Vec<(ClusterId, Option<ClusterRoom>)>,
    ) -> Self {
        Self {
            taken: Pages::new(hierarchy.len()),
            entitled: RoomEntitlements::default(),
            hierarchy,
            lends,
            clusters,
            closed: Arc::default(),
            begun: BTreeSet::new(),
            users: BTreeMap::new(),
        }
    }

    /// Sets the clusters of which no host can ever take a class. For that class they have no capacity.
    pub fn close(&mut self, closed: &Arc<BTreeSet<(ClassDigest, ClusterIdx)>>) {
        self.closed = Arc::clone(closed);
    }

    /// What each pool may use from now on, of ordinary room and of what is lent; what is taken stays taken.
    pub fn entitle(&mut self, ordinary: &Arc<Entitlements>, lent: &Arc<Entitlements>) {
        self.entitled = RoomEntitlements {
            ordinary: Arc::clone(ordinary),
            lent: Arc::clone(lent),
            raised: BTreeMap::new(),
            is_open: false,
            taken: self.taken.clone(),
        };
    }

    /// A pool may use at least so much from now on, of ordinary capacity.
    pub fn entitle_at_least(&mut self, pool: PoolIdx, amount: Resources) {
        let raised = self.entitled.raised.entry(pool).or_default();
        *raised = raised.max_each(amount);
    }

    /// The same rooms, open to everybody within limits but for what somebody is about to use: of each pool so much ordinary room,
    /// and so much of what is lent.
    #[must_use]
    pub fn opened(&self, aside: impl Iterator<Item = (PoolIdx, Resources, Resources)>) -> Self {
        let mut out = self.clone();
        for (pool, ordinary, lent) in aside.filter(|(_, a, b)| !a.is_zero() || !b.is_zero()) {
            out.take_pool(pool, Held::plain(ordinary, lent));
        }
        out.entitled.is_open = true;
        out
    }

    /// What was taken between two states of other rooms is taken here, too.
    pub fn take_between(&mut self, before: &Self, after: Self) {
        for (pool, before, after) in before.taken.differences(&after.taken) {
            let more = after.minus(*before);
            if more != Held::default()
                && let Some(taken) = self.taken.get_mut(pool)
            {
                *taken = taken.plus(more);
            }
        }
        self.clusters = after.clusters;
        self.begun = after.begun;
        self.users = after.users;
    }

    /// Takes what all pools have. Nothing may be taken in any pool before.
    pub fn take_sums(&mut self, sums: &PoolSums) {
        self.taken = sums.all().clone();
    }

    /// Takes room in a pool and those above it.
    pub fn take_pool(&mut self, pool: PoolIdx, held: Held) {
        let chain = std::iter::once(pool).chain(self.hierarchy.above(pool));
        for i in chain {
            if let Some(taken) = self.taken.get_mut(i) {
                *taken = taken.plus(held);
            }
        }
    }

    /// Instances of all pools, granted or active.
    #[must_use]
    pub fn instances(&self) -> u64 {
        self.taken.get(ROOT).map_or(0, |root| root.instances)
    }

    /// Takes room of so many units in a pool and those above it.
    pub(crate) fn take(&mut self, pool: PoolIdx, terms: Terms, unit: Unit, n: u64) {
        self.take_pool(pool, Held::new(terms, unit, n, self.lends));
    }

    /// On what terms a job runs whose other groups may have begun here.
    pub(crate) fn terms_now(&self, job: JobId, terms: Terms) -> Terms {
        Terms {
            counted: terms.counted || self.begun.contains(&job),
            ..terms
        }
    }

    /// Something of a job begins: it counts from now on.
    pub(crate) fn begin(&mut self, pool: PoolIdx, job: JobId, terms: Terms) {
        if !terms.counted && self.begun.insert(job) {
            let one = Held {
                jobs: 1,
                ..Held::default()
            };
            self.take_pool(pool, one);
        }
    }

    /// What users' parts of a pool are measured by: what it was entitled to before it was opened, or had then.
    pub(crate) fn worth(&self, pool: PoolIdx) -> Resources {
        let RoomEntitlements {
            ordinary,
            lent,
            taken,
            ..
        } = &self.entitled;
        let had = taken.get(pool).map(|had| had.ordinary.plus(had.lent));
        let all = ordinary.amount(pool).plus(lent.amount(pool));
        had.map_or(Resources::ZERO, |had| all.max_each(had))
    }

    /// What a user has of a pool that is fair to its users.
    pub(crate) fn user_has(&self, pool: PoolIdx, user: &Arc<str>) -> Resources {
        let key = (pool, Arc::clone(user));
        self.users.get(&key).copied().unwrap_or_default()
    }

    /// A user has more of a pool that is fair to its users.
    pub fn user_takes(&mut self, pool: PoolIdx, user: &Arc<str>, room: Resources) {
        let has = self.users.entry((pool, Arc::clone(user))).or_default();
        *has = has.plus(room);
    }

    /// Takes room of so many units in a cluster.
    pub fn take_cluster(&mut self, cluster: &ClusterId, side: Side, unit: Unit, n: u64) {
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(cluster));
        let room = at.ok().and_then(|at| self.clusters.get_mut(at));
        if let Some((_, Some(room))) = room {
            room.take(side, unit, n);
        }
    }

    /// Keeps room of a gang from others.
    pub fn keep(&mut self, hold: &Hold) -> Kept {
        let mut kept = Kept {
            cluster: Some(hold.cluster.clone()),
            ..Kept::default()
        };
        for (pool, amount) in &hold.in_pools {
            if let Some(taken) = self.taken.get_mut(*pool) {
                *taken = taken.plus(Held::plain(*amount, Resources::ZERO));
                kept.pools.push((*pool, *amount));
            }
        }
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(&hold.cluster));
        let room = at.ok().and_then(|at| self.clusters.get_mut(at));
        if let Some((_, Some(room))) = room {
            kept.all = hold.in_cluster.min_each(room.all);
            kept.without_gpus = hold.in_cluster.min_each(room.without_gpus);
            room.all = room.all.minus(kept.all);
            room.without_gpus = room.without_gpus.minus(kept.without_gpus);
            if let Some((i, left)) = hold
                .host_pool
                .and_then(|i| Some((i, room.host_pools.get_mut(&i)?)))
            {
                let part = hold.in_cluster.min_each(*left);
                *left = left.minus(part);
                kept.in_host_pool = Some((i, part));
            }
        }
        kept
    }

    /// Kept room is for everybody again.
    pub fn give_back(&mut self, kept: Kept) {
        for (pool, amount) in kept.pools {
            if let Some(taken) = self.taken.get_mut(pool) {
                *taken = taken.minus(Held::plain(amount, Resources::ZERO));
            }
        }
        let room = self
            .clusters
            .iter_mut()
            .find(|(id, _)| Some(id) == kept.cluster.as_ref());
        if let Some((_, Some(room))) = room {
            room.all = room.all.plus(kept.all);
            room.without_gpus = room.without_gpus.plus(kept.without_gpus);
            if let Some((i, part)) = kept.in_host_pool {
                let left = room.host_pools.entry(i).or_default();
                *left = left.plus(part);
            }
        }
    }

    /// What is taken in a pool, with those below it: of ordinary room, and of what is lent.
    #[must_use]
    pub fn taken(&self, pool: PoolIdx) -> (Resources, Resources) {
        let taken = self.taken.get(pool);
        taken.map_or_else(Default::default, |t| (t.ordinary, t.lent))
    }

    /// What a pool may have of ordinary room by its limit, and what it is entitled to.
    #[must_use]
    pub fn bounds(&self, pool: PoolIdx) -> (Resources, Resources) {
        let room = self.room(pool);
        room.map_or_else(Default::default, |r| (r.bounds.limit, r.entitled))
    }

    /// How many units the bounds of a pool, and of those above it, leave beside limits and entitlements, which others may have used up.
    #[must_use]
    pub fn count_by_bounds(&self, pool: PoolIdx, terms: Terms, unit: Unit) -> u64 {
        let left = Left {
            by_limit: Resources::MAX,
            by_entitlement: Resources::MAX,
            ..self.left(pool, terms.side)
        };
        left.count(terms, unit)
    }

    /// How many units the bounds of a pool, and of those above it, leave, whatever it is entitled to.
    #[must_use]
    pub fn count_by_limits(&self, pool: PoolIdx, terms: Terms, unit: Unit) -> u64 {
        let left = Left {
            by_entitlement: Resources::MAX,
            ..self.left(pool, terms.side)
        };
        left.count(terms, unit)
    }

    /// What is left in a cluster for units.
    #[must_use]
    pub fn cluster(&self, cluster: &ClusterId, side: Side, unit: Unit) -> Resources {
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(cluster));
        at.map_or(Resources::ZERO, |at| self.cluster_at(at, side, unit))
    }

    /// No unit that takes more of a side fits into any cluster.
    #[must_use]
    pub fn most_left(&self, side: Side) -> Resources {
        self.most_left_with(side, std::iter::empty())
    }

    /// The same when some kept capacity is given back.
    pub(crate) fn most_left_with<'k>(&self, side: Side, kept: impl Iterator<Item = &'k Kept>) -> Resources {
        let mut kept_at: BTreeMap<&ClusterId, Resources> = BTreeMap::new();
        for (cluster, all) in kept.filter_map(|kept| Some((kept.cluster.as_ref()?, kept.all))) {
            let there = kept_at.entry(cluster).or_default();
            *there = there.plus(all);
        }
        let rooms = self.clusters.iter();
        let rooms = rooms.filter_map(|(id, room)| Some((id, room.as_ref()?)));
        rooms.fold(Resources::ZERO, |most, (id, room)| {
            let of_lent = match side {
                Side::Ordinary => Resources::ZERO,
                Side::Revocable => room.lent,
            };
            let kept = kept_at.get(id).copied().unwrap_or_default();
            most.max_each(room.all.plus(kept)).max_each(of_lent)
        })
    }

    fn cluster_at(&self, cluster: ClusterIdx, side: Side, unit: Unit) -> Resources {
        let room = self.clusters.get(cluster).and_then(|(_, room)| room.as_ref());
        room.map_or(Resources::ZERO, |room| room.of(side, unit))
    }

    fn room(&self, pool: PoolIdx) -> Option<PoolRoom<'_>> {
        let taken = self.taken.get(pool)?;
        let RoomEntitlements {
            ordinary,
            lent,
            raised,
            is_open,
            ..
        } = &self.entitled;
        let (entitled, entitled_lent) = if *is_open && pool != ROOT {
            (Resources::MAX, Resources::MAX)
        } else {
            let least = raised.get(&pool).copied().unwrap_or_default();
            (ordinary.amount(pool).max_each(least), lent.amount(pool))
        };
        Some(PoolRoom {
            bounds: self.hierarchy.bounds(pool),
            entitled,
            entitled_lent,
            taken,
        })
    }

    /// A pool and those above it, innermost first. The root has no limit and is entitled to all that there is.
    fn chain(&self, pool: PoolIdx) -> impl Iterator<Item = (PoolIdx, PoolRoom<'_>)> {
        let chain = std::iter::once(pool).chain(self.hierarchy.above(pool));
        chain.filter_map(|i| Some((i, self.room(i)?)))
    }

    /// What one pool leaves to a side by itself.
    fn left_by(&self, pool: PoolIdx, room: PoolRoom<'_>, side: Side) -> Left {
        let PoolRoom { bounds, .. } = room;
        let limit = bounds.limit.minus(room.taken.ordinary);
        let entitled = room.entitled.minus(room.taken.ordinary);
        let lent = room.entitled_lent.minus(room.taken.lent);
        let of_side = |lent: Resources, ordinary: Resources| match side {
            Side::Ordinary => ordinary,
            Side::Revocable => lent.where_lent(self.lends, ordinary),
        };
        let by_entitlement = of_side(lent, entitled);
        // The limit is about ordinary room.
        Left {
            by_limit: of_side(Resources::MAX, limit),
            by_reservation: bounds.reservation.minus(room.taken.firm),
            by_controllers: of_side(
                Resources::MAX,
                bounds.controller_limit.minus(room.taken.controllers),
            ),
            by_revocable_limit: of_side(bounds.revocable_limit.minus(room.taken.lent), Resources::MAX),
            instances: bounds.max_instances.saturating_sub(room.taken.instances),
            jobs: bounds.max_jobs.saturating_sub(room.taken.jobs),
            by_entitlement,
            below_root: if pool == ROOT {
                Resources::MAX
            } else {
                by_entitlement
            },
        }
    }

    /// What a pool and those above it leave.
    #[must_use]
    pub fn left(&self, pool: PoolIdx, side: Side) -> Left {
        let chain = self.chain(pool);
        chain.fold(Left::MOST, |left, (i, room)| {
            left.min_each(self.left_by(i, room, side))
        })
    }

    /// Of pools with the least that each asks for, in order of index: those to which limits and entitlements leave
    /// that much. Most pools that get nothing are found by that, in one walk.
    pub(crate) fn open_pools(
        &self,
        side: Side,
        pools: impl Iterator<Item = (PoolIdx, Resources)>,
    ) -> Vec<PoolIdx> {
        // The children of one pool are side by side.
        let (mut siblings, mut above) = (0..0, Resources::MAX);
        let open = pools.filter(|(pool, least)| {
            if side == Side::Revocable {
                return true;
            }
            if !siblings.contains(pool) {
                let parent = self.hierarchy.above(*pool).next().unwrap_or(ROOT);
                siblings = self.hierarchy.children(parent);
                let chain = self.chain(parent);
                above = chain.fold(Resources::MAX, |left, (_, room)| left.min_each(left_of(room)));
            }
            least.fits(above) && self.room(*pool).is_some_and(|room| least.fits(left_of(room)))
        });
        open.map(|(pool, _)| pool).collect()
    }

    /// What one pool leaves to a side by itself, without the pools above it. `None`: there is no such pool.
    #[must_use]
    pub fn left_at(&self, pool: PoolIdx, side: Side) -> Option<Left> {
        self.room(pool).map(|room| self.left_by(pool, room, side))
    }

    /// Gives back what a pool has taken. The pools above it have that much less, too.
    pub fn release_pool(&mut self, pool: PoolIdx, held: Held) {
        let chain = std::iter::once(pool).chain(self.hierarchy.above(pool));
        for i in chain {
            if let Some(taken) = self.taken.get_mut(i) {
                *taken = taken.minus(held);
            }
        }
    }

    /// Gives back ordinary capacity of a cluster, on hosts of no particular host pool. A cluster where nothing
    /// may begin stays as it is.
    pub fn release_cluster(&mut self, cluster: &ClusterId, amount: Resources) {
        let at = self.clusters.binary_search_by(|(id, _)| id.cmp(cluster));
        let room = at.ok().and_then(|at| self.clusters.get_mut(at));
        if let Some((_, Some(room))) = room {
            room.all = room.all.plus(amount);
            if amount.gpus == 0 {
                room.without_gpus = room.without_gpus.plus(amount);
            }
        }
    }

    /// How many units fit into a pool and those above it.
    #[must_use]
    pub fn pool_count(&self, pool: PoolIdx, terms: Terms, unit: Unit) -> u64 {
        self.left(pool, terms.side).count(terms, unit)
    }
}
