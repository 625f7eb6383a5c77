//! What a pool and those above it leave, bound by bound, and how much fits into that.

use crate::hierarchy::PoolIdx;
use crate::rooms::{Rooms, Side};
use crate::terms::{Terms, Unit};
use echelon_core_model::ReasonCode;
use echelon_core_model::resources::Resources;
use std::ops::Range;

/// What a pool and those above it leave of ordinary room, of what is lent, or of both, as a side takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// By their limits.
    pub by_limit: Resources,
    /// By their reservations, to work that is not preemptible.
    pub by_reservation: Resources,
    /// By what they allow controllers.
    pub by_controllers: Resources,
    /// By their limits of what is lent.
    pub by_revocable_limit: Resources,
    /// Instances that may begin.
    pub instances: u64,
    /// Jobs of which something may begin.
    pub jobs: u64,
    /// By their entitlements.
    pub by_entitlement: Resources,
    /// The same of the pools below the root alone. The root has all that there is, so it leaves nothing where
    /// clusters are full.
    pub below_root: Resources,
}

impl Left {
    /// Nothing that bounds.
    pub(super) const MOST: Self = Self {
        by_limit: Resources::MAX,
        by_reservation: Resources::MAX,
        by_controllers: Resources::MAX,
        by_revocable_limit: Resources::MAX,
        instances: u64::MAX,
        jobs: u64::MAX,
        by_entitlement: Resources::MAX,
        below_root: Resources::MAX,
    };

    pub(super) fn min_each(self, other: Self) -> Self {
        Self {
            by_limit: self.by_limit.min_each(other.by_limit),
            by_reservation: self.by_reservation.min_each(other.by_reservation),
            by_controllers: self.by_controllers.min_each(other.by_controllers),
            by_revocable_limit: self.by_revocable_limit.min_each(other.by_revocable_limit),
            instances: self.instances.min(other.instances),
            jobs: self.jobs.min(other.jobs),
            by_entitlement: self.by_entitlement.min_each(other.by_entitlement),
            below_root: self.below_root.min_each(other.below_root),
        }
    }

    /// What the bounds leave that change only with the pools, with the code of each. One after the other is told.
    pub(super) fn bounds(&self, terms: Terms) -> impl Iterator<Item = (ReasonCode, Resources)> + use<> {
        let firm = (!terms.preemptible).then_some((ReasonCode::PoolReservation, self.by_reservation));
        let controller = terms
            .controller
            .then_some((ReasonCode::PoolControllers, self.by_controllers));
        let limit = (ReasonCode::PoolLimit, self.by_limit);
        // Of the side that takes nothing of what is lent, all is left.
        let of_lent = (ReasonCode::PoolRevocableLimit, self.by_revocable_limit);
        [limit, of_lent].into_iter().chain(firm).chain(controller)
    }

    /// The bound on numbers that is reached.
    pub(super) const fn reached(&self, terms: Terms, unit: Unit) -> Option<ReasonCode> {
        if !terms.counted && self.jobs == 0 {
            Some(ReasonCode::PoolJobs)
        } else if self.instances < unit.instances {
            Some(ReasonCode::PoolInstances)
        } else {
            None
        }
    }

    /// How many units fit.
    pub(super) fn count(&self, terms: Terms, unit: Unit) -> u64 {
        if self.reached(terms, unit).is_some() {
            return 0;
        }
        let shape = unit.shape;
        let bounds = self.bounds(terms).map(|(_, left)| shape.count_in(left));
        let most = shape
            .count_in(self.by_entitlement)
            .min(self.instances / unit.instances.max(1));
        bounds.fold(most, u64::min)
    }
}

/// What pools leave to a side, one after another. Where they come in order of index, what the pools above them
/// leave is computed once for all children of one pool.
#[derive(Debug)]
pub struct LeftWalk<'a> {
    rooms: &'a Rooms,
    side: Side,
    siblings: Range<PoolIdx>,
    above: Left,
}

impl<'a> LeftWalk<'a> {
    /// One that begins anywhere.
    #[must_use]
    pub const fn new(rooms: &'a Rooms, side: Side) -> Self {
        Self {
            rooms,
            side,
            siblings: 0..0,
            above: Left::MOST,
        }
    }

    /// The rooms.
    #[must_use]
    pub const fn rooms(&self) -> &'a Rooms {
        self.rooms
    }

    /// What a pool and those above it leave: the same as `Rooms::left`.
    pub fn left(&mut self, pool: PoolIdx) -> Left {
        let hierarchy = &self.rooms.hierarchy;
        if !self.siblings.contains(&pool) {
            let parent = hierarchy.above(pool).next();
            self.siblings = parent.map_or(0..0, |parent| hierarchy.children(parent));
            self.above = parent.map_or(Left::MOST, |parent| self.rooms.left(parent, self.side));
        }
        let own = self.rooms.left_at(pool, self.side);
        own.map_or(self.above, |own| self.above.min_each(own))
    }
}
