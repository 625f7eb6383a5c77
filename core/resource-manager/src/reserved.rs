//! Pool reservations, given to clusters in parts that sum to them (law 7): what a shard may use of each pool while it hears no
//! resource manager. Of each kind a part covers first what is active there, then what stored assignments want there, and the rest
//! goes by what clusters have. In force they never sum above the reservation, as those of `max_unavailable` (`parts.rs`).

use crate::effect::Effect;
use crate::event::LinkId;
use crate::manager::ResourceManager;
use crate::parts::{Reach, lease};
use crate::picture::{ClusterView, Picture};
use crate::room::total;
use echelon_core_model::cluster::{Contact, Wish};
use echelon_core_model::directive::Order;
use echelon_core_model::part::PoolParts;
use echelon_core_model::{ClusterId, Kind, Resources, Timestamp, Version};
use echelon_core_pools::fill::{Taker, fill};
use echelon_core_pools::hierarchy::{Hierarchy, PoolIdx, ROOT};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pools whose reservations are divided at once: some milliseconds with twenty clusters.
const AT_ONCE: usize = 200;

/// A cluster as one kind of a pool's reservation is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// How it can be spoken to.
    pub reach: Reach,
    /// Whether it may be given more than covers what it has.
    pub takes_work: bool,
    /// What is granted or active there.
    pub taken: u64,
    /// What is assigned to it, active or not.
    pub assigned: u64,
    /// What its hosts have.
    pub capacity: u64,
    /// The part that it was told last.
    pub given: u64,
    /// The most that its shard may make of what it was told: no less than `given`.
    pub allocated: u64,
}

/// The part of each place now, in their order: as `wanted`, but raised only by what others have given up.
#[must_use]
pub fn divide(reservation: u64, places: &[Place]) -> Vec<u64> {
    let mut to_be = wanted(reservation, places);
    // Nothing can be raised then: what one gave up would be of use to nobody.
    if places.iter().any(|p| p.reach == Reach::Unheard) {
        let given = places.iter().map(|p| p.given);
        if given.clone().fold(0, u64::saturating_add) <= reservation {
            to_be
                .iter_mut()
                .zip(given)
                .for_each(|(n, given)| *n = given.max(*n));
        }
    }
    lease(reservation, places.iter().map(|p| (p.given, p.allocated)), &to_be)
}

/// The parts to come to. Those of places that can be spoken to sum to what those that cannot leave of the reservation; one unit more
/// takes none away.
#[must_use]
pub fn wanted(reservation: u64, places: &[Place]) -> Vec<u64> {
    let cut = places.iter().filter(|p| p.reach == Reach::Cut);
    let mut left = cut.fold(reservation, |left, p| left.saturating_sub(p.allocated));
    let mut parts = vec![0u64; places.len()];
    let mut give = |weight: &dyn Fn(&Place) -> u64, most: &dyn Fn(&Place) -> u64| {
        let taker = |p: &Place| {
            let open = p.reach == Reach::Open;
            Taker::new(if open { weight(p) } else { 0 }, most(p))
        };
        let more = fill(left, &places.iter().map(taker).collect::<Vec<_>>());
        for (part, more) in parts.iter_mut().zip(more) {
            *part = part.saturating_add(more);
            left = left.saturating_sub(more);
        }
    };
    let waiting = |p: &Place| {
        let more = p.assigned.saturating_sub(p.taken);
        if p.takes_work { more } else { 0 }
    };
    give(&|p| p.taken, &|p| p.taken);
    give(&waiting, &waiting);
    give(&|p| if p.takes_work { p.capacity } else { 0 }, &|_| u64::MAX);
    give(&|p| u64::from(p.takes_work), &|_| u64::MAX);
    give(&|_| 1, &|_| u64::MAX);
    parts
}

/// What a cluster was told of its parts, and what its shard obeys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenParts {
    /// As its shard said last.
    obeyed: PoolParts,
    /// The tree of which pools were last looked up.
    tree: Version,
    /// What it was told since and has not confirmed, over which stream and when.
    sent: Option<(PoolParts, LinkId, Timestamp)>,
}

impl GivenParts {
    /// Takes in what its shard says that it obeys.
    pub fn heard(&mut self, obeyed: PoolParts) {
        if self
            .sent
            .as_ref()
            .is_some_and(|(sent, ..)| sent.number <= obeyed.number)
        {
            self.sent = None;
        }
        self.obeyed = obeyed;
    }

    /// What it was told last.
    #[must_use]
    pub fn given(&self) -> &PoolParts {
        self.sent.as_ref().map_or(&self.obeyed, |(sent, ..)| sent)
    }

    /// The most that its shard may make of a pool.
    #[must_use]
    pub fn in_force(&self, path: &str) -> Resources {
        self.given().of(path).max_each(self.obeyed.of(path))
    }
}

/// The pools whose turn it is, each with the part that every cluster is to have of it.
type Divided = Vec<(String, BTreeMap<ClusterId, Resources>)>;

impl ResourceManager {
    /// Divides the reservations of some pools in their turn, and tells clusters whose parts have changed.
    pub(crate) fn divide_reservations(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if now.since(self.timers.divided) < self.config.divide {
            return;
        }
        self.timers.divided = now;
        self.refresh();
        let hierarchy = Arc::clone(&self.picture.hierarchy);
        let last = hierarchy.len().max(1);
        let first = self.turns.pool.max(ROOT + 1);
        let next = first.saturating_add(AT_ONCE).min(last);
        self.turns.pool = if next < last { next } else { 0 };
        let reserved = (first..next).filter_map(|i| Some((i, hierarchy.pool(i)?.path.clone())));
        let divided: Divided = reserved
            .map(|(i, path)| (path, parts_of(&self.picture, i)))
            .collect();
        let clusters: Vec<ClusterId> = self.picture.clusters.keys().cloned().collect();
        for cluster in clusters {
            if let Some(parts) = self.parts_due(&cluster, &divided, now) {
                self.send(&cluster, Order::Parts(parts), out);
            }
        }
    }

    /// What a cluster is to be told of its parts now: what it has not confirmed for a while, again, or what is new since.
    fn parts_due(&mut self, id: &ClusterId, divided: &Divided, now: Timestamp) -> Option<PoolParts> {
        let (again, after) = (self.config.reread, self.config.grant_lease);
        let (hierarchy, tree) = (Arc::clone(&self.picture.hierarchy), self.picture.pools.version);
        let view = self.picture.clusters.get_mut(id)?;
        let link = view.link.filter(|_| is_known(view) && view.settled)?;
        if let Some((sent, over, at)) = &mut view.parts.sent {
            let lost = *over != link || now.since(*at) >= again;
            (*over, *at) = (link, if lost { now } else { *at });
            return lost.then(|| sent.clone());
        }
        let part = |of: &BTreeMap<ClusterId, Resources>| of.get(id).copied().filter(|p| !p.is_zero());
        let given = view.parts.given();
        let news = divided
            .iter()
            .any(|(path, of)| part(of) != given.room.get(path).copied());
        let same_tree = view.parts.tree == tree;
        view.parts.tree = tree;
        let given = view.parts.given();
        if !news && same_tree && given.after == after {
            return None;
        }
        let mut room = given.room.clone();
        room.retain(|path, _| hierarchy.find(path).is_some());
        for (path, of) in divided {
            match part(of) {
                Some(part) => room.insert(path.clone(), part),
                None => room.remove(path),
            };
        }
        if (&room, after) == (&given.room, given.after) {
            return None;
        }
        let number = self.grant_number();
        let parts = PoolParts { number, after, room };
        let view = self.picture.clusters.get_mut(id)?;
        view.parts.sent = Some((parts.clone(), link, now));
        Some(parts)
    }
}

/// Whether a cluster was ever heard by any leader: one that was not has no part.
fn is_known(view: &ClusterView) -> bool {
    view.contact() != Contact::Joining && view.wish() != Wish::Left
}

/// The parts of a pool that clusters are to have now; only where it has work.
fn parts_of(picture: &Picture, pool: PoolIdx) -> BTreeMap<ClusterId, Resources> {
    let Some(of) = picture.hierarchy.pool(pool) else {
        return BTreeMap::new();
    };
    let reservation = if is_counted(&picture.hierarchy, pool) {
        Resources::ZERO
    } else {
        of.reservation
    };
    if reservation.is_zero() {
        return BTreeMap::new();
    }
    let uses = picture.ledger.uses_below(&picture.hierarchy, pool);
    let known = picture.clusters.iter().filter(|(_, view)| is_known(view));
    let told = |view: &ClusterView| (view.parts.given().of(&of.path), view.parts.in_force(&of.path));
    let known: Vec<_> = known.map(|(id, view)| (id, view, told(view))).collect();
    let mut out: BTreeMap<ClusterId, Resources> = BTreeMap::new();
    for kind in Kind::ALL {
        let places = known.iter().map(|(id, view, (given, in_force))| {
            let used = uses.get(id).copied().unwrap_or_default();
            let (taken, assigned) = (used.taken.all.get(kind), used.spoken_for.all.get(kind));
            let reach = match view.link {
                _ if !view.settled => Reach::Unheard,
                Some(_) => Reach::Open,
                None => Reach::Cut,
            };
            Place {
                reach,
                takes_work: view.wish() == Wish::Active,
                taken,
                assigned,
                capacity: total(view).get(kind),
                given: given.get(kind),
                allocated: match reach {
                    Reach::Unheard => reservation.get(kind),
                    Reach::Open | Reach::Cut => in_force.get(kind),
                },
            }
        });
        let places: Vec<Place> = places.collect();
        // What has no work is told of no part, unless that takes away what nobody could be given.
        let unheard = places.iter().any(|p| p.reach == Reach::Unheard);
        for ((id, ..), part) in known.iter().zip(divide(reservation.get(kind), &places)) {
            if unheard || uses.contains_key(*id) {
                let slot = out.entry((*id).clone()).or_default();
                *slot = slot.with(kind, part);
            }
        }
    }
    out
}

/// Whether numbers of jobs or instances are bounded of a pool or one above it: these are not given out in parts, so that nothing is.
fn is_counted(hierarchy: &Hierarchy, pool: PoolIdx) -> bool {
    let all = std::iter::once(pool).chain(hierarchy.above(pool));
    hierarchy.bounds_jobs(pool)
        || all
            .filter_map(|i| hierarchy.pool(i))
            .any(|p| p.max_instances < u64::MAX)
}

/// Clusters whose shards may begin something inside their parts without a word.
pub(crate) fn unheard(picture: &Picture) -> Vec<(&ClusterId, &ClusterView)> {
    let unheard = picture.clusters.iter().filter(|(_, view)| {
        let hears = view.link.is_some() && view.contact() == Contact::Fresh;
        view.settled && !hears && view.wish() != Wish::Left
    });
    unheard.collect()
}

/// What they may have begun of a pool, beyond what is granted to it there or active.
pub(crate) fn begun_unheard(
    picture: &Picture,
    unheard: &[(&ClusterId, &ClusterView)],
    pool: PoolIdx,
) -> Resources {
    let path = picture.hierarchy.pool(pool).map_or("", |p| p.path.as_str());
    unheard.iter().fold(Resources::ZERO, |sum, (id, view)| {
        let used = picture.ledger.use_of(pool, id);
        let most = view.parts.in_force(path).min_each(used.spoken_for.all);
        sum.plus(most.minus(used.taken.all))
    })
}
