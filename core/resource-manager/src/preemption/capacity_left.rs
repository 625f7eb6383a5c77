//! The capacity that admission has left, less what the requests of this cycle are to make use of.

use crate::admission::router::Router;
use crate::admission::second_round::EnforcedAmounts;
use crate::admission::{RequestedCapacity, WithheldCapacity};
use crate::facts::cluster::ClusterView;
use crate::preemption::PreemptionInputs;
use crate::preemption::claimants::withheld;
use crate::preemption::victims::VictimCandidates;
use echelon_core_model::claim::Quota;
use echelon_core_model::{ClusterId, Generation, JobId, Kind, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Held, Hold, Request, Rooms, Side, SliceRequest, Turn, Unit};
use std::collections::BTreeMap;

/// The generation of what is bound nowhere: it has one when it is bound.
pub(crate) const UNBOUND: Generation = Generation(0);

/// The capacity that is left in pools and clusters while requests are made.
pub(crate) struct CapacityLeft<'a> {
    pub(crate) known: PreemptionInputs<'a>,
    pub(crate) enforced: EnforcedAmounts<'a>,
    pub(crate) rooms: Rooms,
    router: Router<'a>,
    /// What earlier requests hold for instances that are not granted yet, by job. Gangs are left out.
    withheld: BTreeMap<JobId, Vec<WithheldCapacity>>,
}

/// A pool above a requesting group that leaves too little for one unit of it.
#[derive(Debug, Clone)]
pub(crate) struct PressedPool {
    /// The innermost: only those below it can help.
    pub(crate) pool: PoolIdx,
    /// What it and those above it leave.
    pub(crate) left: PoolsLeft,
    /// For how many units the pools below it have capacity.
    pub(crate) most: u64,
}

/// What pools leave for units of a shape when all is gone that is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolsLeft {
    /// The least that one of them leaves.
    left: Resources,
    /// The most that one of them has beyond what it may have, in whole units. So much more has to go before a
    /// unit may begin. Less than a unit is what a second round gives, since no pool can use it of its own.
    excess: Resources,
}

impl PoolsLeft {
    /// What has to go for so much.
    pub(crate) fn lacking(self, all: Resources) -> Resources {
        all.plus(self.excess).minus(self.left)
    }

    /// The same where a cluster leaves only so much.
    pub(crate) fn within_cluster(self, there: Resources) -> Self {
        Self {
            left: self.left.min_each(there),
            ..self
        }
    }

    /// For how many units capacity may be made at once. Where a pool has too much, it is all or nothing: one.
    pub(crate) fn at_once(self, most: u64) -> u64 {
        if self.excess.is_zero() { most } else { most.min(1) }
    }

    /// The same as a shard is asked for it: so many units, or all of them and the excess as one whole.
    pub(crate) fn quota(self, unit: Resources, count: u64) -> Quota {
        if self.excess.is_zero() {
            return Quota {
                left: self.left,
                unit,
                count,
            };
        }
        Quota {
            left: self.left,
            unit: unit.times(count).plus(self.excess),
            count: 1,
        }
    }
}

impl<'a> CapacityLeft<'a> {
    pub(crate) fn new(known: PreemptionInputs<'a>, enforced: EnforcedAmounts<'a>) -> Self {
        let mut by_job: BTreeMap<JobId, Vec<WithheldCapacity>> = BTreeMap::new();
        let RequestedCapacity { capacity, .. } = withheld(known.facts, known.ledger, known.requests);
        for one in capacity.into_iter().filter(|w| w.request.gang.is_empty()) {
            by_job.entry(one.request.job).or_default().push(one);
        }
        Self {
            known,
            enforced,
            rooms: Rooms::clone(&known.admission.rooms),
            router: Router::of(known.facts, known.ledger, &known.admission.candidates),
            withheld: by_job,
        }
    }

    /// A request without what capacity is already withheld for.
    pub(crate) fn without_withheld(&self, mut request: Request) -> Request {
        let of_job = self
            .withheld
            .get(&request.job)
            .filter(|_| request.gang.is_empty());
        let of_group = of_job
            .into_iter()
            .flatten()
            .filter(|w| w.request.group == request.group);
        for WithheldCapacity { cluster, units, .. } in of_group {
            for (generation, count) in units {
                let of = |s: &&mut SliceRequest| s.cluster == *cluster && s.generation == *generation;
                if let Some(slice) = request.slices.iter_mut().find(of) {
                    slice.more = slice.more.saturating_sub(*count);
                }
                request.room = request.room.saturating_sub(*count);
            }
        }
        request.slices.retain(|slice| slice.more > 0);
        request
    }

    /// Where capacity may be made for a request: where something of it is bound, then at all clusters that
    /// could take the rest.
    pub(crate) fn places(&self, request: &Request) -> Vec<SliceRequest> {
        let mut out = request.slices.clone();
        if request.unbound > 0 {
            let all = self.router.all_places(request).into_iter();
            let mut others: Vec<ClusterId> = all.filter(|c| out.iter().all(|s| s.cluster != *c)).collect();
            // Where it was in vain others have their turn.
            let tries = self.known.requests.tries(request);
            let turn = usize::try_from(tries).unwrap_or_default();
            let turn = turn.checked_rem(others.len()).unwrap_or_default();
            others.rotate_left(turn);
            let count = |cluster: &ClusterId| {
                let held = self.router.most_there(request, cluster);
                let held = held.filter(|_| request.gang.is_empty()).unwrap_or(u64::MAX);
                request.unbound.min(held)
            };
            let slices = others.into_iter().map(|cluster| SliceRequest {
                more: count(&cluster),
                cluster,
                generation: UNBOUND,
                allocated: 0,
            });
            out.extend(slices.filter(|slice| slice.more > 0));
        }
        out
    }

    /// Whether something may begin at a cluster.
    pub(crate) fn takes(&self, cluster: &ClusterId) -> bool {
        let view = self.known.facts.clusters.get(cluster);
        view.is_some_and(ClusterView::takes_work)
    }

    /// What a cluster has left of what a unit uses.
    pub(crate) fn at(&self, cluster: &ClusterId, unit: Unit) -> Resources {
        self.rooms.cluster(cluster, Side::Ordinary, unit)
    }

    /// Whether a cluster has capacity for one unit.
    pub(crate) fn fits_at(&self, cluster: &ClusterId, unit: Unit) -> bool {
        unit.shape.fits(self.at(cluster, unit))
    }

    /// How many of a group its pool is still entitled to by itself, within the bounds that no preemption
    /// changes.
    pub(crate) fn own_count(&self, request: &Request) -> u64 {
        let own = self.enforced.amount(request.pool);
        self.count_in(request, own.minus(self.rooms.taken(request.pool).0))
    }

    /// How many units fit into what the pool may use, whatever it has.
    pub(crate) fn enforced_count(&self, request: &Request) -> u64 {
        self.count_in(request, self.enforced.amount(request.pool))
    }

    fn count_in(&self, request: &Request, capacity: Resources) -> u64 {
        let bounds = self
            .rooms
            .count_by_bounds(request.pool, request.terms, request.unit);
        request
            .unit
            .shape
            .count_in(capacity)
            .min(bounds)
            .min(request.room)
    }

    /// How many of those that are granted fit inside what their pool is entitled to.
    pub(crate) fn own_of_granted(&self, request: &Request) -> u64 {
        let unit = request.unit.shape;
        let own = self.enforced.amount(request.pool);
        let others = self.rooms.taken(request.pool).0.minus(unit.times(request.room));
        unit.count_in(own.minus(others)).min(request.room)
    }

    /// What a pool leaves when all is gone that is being stopped.
    fn left_in(&self, pool: PoolIdx, victims: &VictimCandidates<'_>) -> Resources {
        let taken = self.rooms.taken(pool).0.minus(victims.going(pool));
        self.most_of(pool).minus(taken)
    }

    /// What a pool has beyond what it may have when all is gone that is being stopped. Capacity that is only
    /// held for something does not count, nor does what the second round gives.
    fn excess_in(&self, pool: PoolIdx, victims: &VictimCandidates<'_>) -> Resources {
        let second = self.known.admission.second_amount(pool);
        let limit = self.rooms.bounds(pool).0;
        let most = self.most_of(pool).max_each(second.min_each(limit));
        victims.stays(pool).minus(most)
    }

    /// What a pool may have.
    fn most_of(&self, pool: PoolIdx) -> Resources {
        let (limit, given) = self.rooms.bounds(pool);
        limit.min_each(given.max_each(self.enforced.amount(pool)))
    }

    /// What pools leave for units of a shape when all is gone that is being stopped.
    fn left_in_all(
        &self,
        pools: impl Iterator<Item = PoolIdx>,
        unit: Resources,
        victims: &VictimCandidates<'_>,
    ) -> PoolsLeft {
        let none = PoolsLeft {
            left: Resources::MAX,
            excess: Resources::ZERO,
        };
        pools.fold(none, |all, i| PoolsLeft {
            left: all.left.min_each(self.left_in(i, victims)),
            excess: all.excess.max_each(whole_units(self.excess_in(i, victims), unit)),
        })
    }

    /// What the pool of a request and all above it leave for it when all is gone that is being stopped.
    pub(crate) fn left_for(&self, request: &Request, victims: &VictimCandidates<'_>) -> PoolsLeft {
        let chain = std::iter::once(request.pool).chain(self.known.facts.hierarchy.above(request.pool));
        self.left_in_all(chain.filter(|i| *i != ROOT), request.unit.shape, victims)
    }

    /// The innermost pool above a requesting group that leaves too little for one unit of it.
    pub(crate) fn pressed_pool(
        &self,
        request: &Request,
        victims: &VictimCandidates<'_>,
    ) -> Option<PressedPool> {
        let unit = request.unit.shape;
        let hierarchy = &self.known.facts.hierarchy;
        let pools = || hierarchy.above(request.pool).filter(|i| *i != ROOT);
        let pool = pools().find(|i| !unit.fits(self.left_in(*i, victims)))?;
        let (below, above): (Vec<PoolIdx>, Vec<PoolIdx>) =
            pools().partition(|i| hierarchy.above(*i).any(|a| a == pool));
        let least = |sum: Resources, i: &PoolIdx| sum.min_each(self.left_in(*i, victims));
        let open = below.iter().fold(Resources::MAX, least);
        Some(PressedPool {
            pool,
            left: self.left_in_all(above.into_iter(), unit, victims),
            most: unit.count_in(open),
        })
    }

    /// Capacity is being made for units: nothing else of this cycle goes by it.
    pub(crate) fn promise(&mut self, request: &Request, cluster: &ClusterId, count: u64) {
        let promised = request.unit.shape.times(count);
        let held = Held::plain(promised, Resources::ZERO);
        self.rooms.take_pool(request.pool, held);
        self.rooms
            .take_cluster(cluster, Side::Ordinary, request.unit, count);
    }

    /// Counts the capacity that is held for a unit as free, while preemption looks for what else it lacks.
    pub(crate) fn release_hold(&mut self, turn: &Turn) -> Option<&'a Hold> {
        let mut kept = self.known.admission.kept.iter();
        let (hold, kept) = kept.find(|(hold, _)| hold.turn == *turn)?;
        self.rooms.give_back(kept.clone());
        Some(hold)
    }

    /// Keeps the capacity again.
    pub(crate) fn keep_hold(&mut self, hold: &Hold) {
        self.rooms.keep(hold);
    }

    /// The path of a pool.
    pub(crate) fn path(&self, pool: PoolIdx) -> String {
        let pool = self.known.facts.hierarchy.pool(pool);
        pool.map(|p| p.path.clone()).unwrap_or_default()
    }
}

/// So much of each kind in whole units. Kinds that a unit does not use are left out.
fn whole_units(amount: Resources, unit: Resources) -> Resources {
    Kind::ALL.into_iter().fold(Resources::ZERO, |out, kind| {
        let part = amount.get(kind).checked_rem(unit.get(kind));
        let whole = part.map_or(0, |part| amount.get(kind).saturating_sub(part));
        out.with(kind, whole)
    })
}
