//! Preemption within a pool. A unit that would fit inside what its pool may use, before all work of the pool
//! that comes after it, gets capacity from preemptible work of the pool with lower priority, if the pool
//! allows that. Work of equal priority is never stopped.

use crate::demand::request::{PoolRef, pool_of};
use crate::preemption::PreemptionInputs;
use crate::preemption::claims::ClaimView;
use crate::preemption::losers::{Lacking, Offered, VictimSource};
use crate::preemption::preempt::{Claimed, Draft, Offer};
use echelon_core_model::claim::{ClaimId, Quota};
use echelon_core_model::{JobId, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Held, Request, Side, SliceRequest, Turn};
use std::collections::BTreeSet;

/// The pools for which requests within them are under way. What a request of an earlier leader names is not
/// known: it counts as one.
pub(crate) fn within(known: PreemptionInputs<'_>) -> BTreeSet<PoolIdx> {
    let pool = |job: JobId| {
        let spec = known.facts.jobs.get(&job)?.spec.as_deref()?;
        match pool_of(known.facts, &spec.pool) {
            PoolRef::Known(pool) => Some(pool),
            PoolRef::Unknown(_) => None,
        }
    };
    let of = |view: &ClaimView| {
        let own = pool(view.claim.job)?;
        let first = view.claim.victims.first();
        let is_within = first.map(|victim| pool(victim.job) == Some(own));
        let is_adopted = view.claim.pool.is_empty();
        is_within.unwrap_or(is_adopted).then_some(own)
    };
    known.requests.all.values().filter_map(of).collect()
}

/// What a unit lacks in its pool and those above, and at a cluster.
struct OwnShortage {
    /// What the pools leave when all is gone that is going.
    left: Resources,
    in_pools: Resources,
    in_cluster: Resources,
}

impl OwnShortage {
    /// The pools lack more than the cluster: what is stopped may be on any host.
    fn is_of_pools(&self) -> bool {
        !self.in_pools.fits(self.in_cluster)
    }
}

impl Offer<'_> {
    /// Makes a preemption request for what the group's own pool has given to work of lower priority.
    pub(crate) fn claim_within(
        &mut self,
        turn: &Turn,
        request: &Request,
        name: &mut impl FnMut() -> ClaimId,
    ) -> Claimed {
        let hierarchy = &self.known.facts.hierarchy;
        let is_asked = self.within.contains(&request.pool);
        if is_asked || !hierarchy.preempts_within(request.pool) || self.enforced_count(request) == 0 {
            return Claimed::NotNow;
        }
        let mut too_large = false;
        for slice in &self.places(request) {
            if !self.may_claim_at(&slice.cluster) || !self.takes(&slice.cluster) {
                continue;
            }
            let most = slice.more.min(self.enforced_count(request)).min(self.budget);
            for count in [most, 1].into_iter().filter(|n| *n > 0) {
                match self.draft_within(turn, request, slice, count) {
                    Drafted::Ready(draft) => {
                        self.within.insert(request.pool);
                        let promised = request.unit.shape.times(draft.count);
                        let held = Held::plain(promised, Resources::ZERO);
                        self.rooms.take_pool(request.pool, held);
                        self.rooms
                            .take_cluster(&slice.cluster, Side::Ordinary, request.unit, draft.count);
                        return Claimed::Made(vec![self.make(request, slice, draft, name)]);
                    }
                    Drafted::TooLarge => too_large = true,
                    Drafted::Nothing => {}
                }
            }
        }
        if too_large {
            self.save_up()
        } else {
            Claimed::NotNow
        }
    }

    /// How many units fit into what the pool may use, whatever it has.
    fn enforced_count(&self, request: &Request) -> u64 {
        let most = self.enforced.amount(request.pool);
        let bounds = self
            .rooms
            .count_by_bounds(request.pool, request.terms, request.unit);
        request.unit.shape.count_in(most).min(bounds).min(request.room)
    }

    fn draft_within(&mut self, turn: &Turn, request: &Request, slice: &SliceRequest, count: u64) -> Drafted {
        let shortage = self.shortage(request, slice, count);
        let is_of_pools = shortage.is_of_pools();
        let lacking = Lacking {
            cluster: &slice.cluster,
            room: shortage.in_pools.max_each(shortage.in_cluster),
            choice: if is_of_pools {
                Resources::ZERO
            } else {
                self.choice(request, count)
            },
            from: VictimSource::OwnPool(turn.priority.0),
        };
        let offered: Offered = self.losers.offer(request, lacking);
        let Some(least) = offered.enough.filter(|_| offered.fewest > 0) else {
            return Drafted::Nothing;
        };
        let most = self.most(request, Some(least), &offered);
        if least > most {
            return Drafted::TooLarge;
        }
        let quota = is_of_pools.then_some(Quota {
            left: shortage.left,
            unit: request.unit.shape,
            count,
        });
        Drafted::Ready(Draft {
            cluster: slice.cluster.clone(),
            count,
            most,
            victims: offered.victims,
            quota,
            keeps_host: false,
        })
    }

    fn shortage(&self, request: &Request, slice: &SliceRequest, count: u64) -> OwnShortage {
        let wanted = request.unit.shape.times(count);
        let hierarchy = &self.known.facts.hierarchy;
        let chain = std::iter::once(request.pool).chain(hierarchy.above(request.pool));
        let left = chain.filter(|i| *i != ROOT).fold(Resources::MAX, |left, i| {
            let (limit, given) = self.rooms.bounds(i);
            let bound = limit.min_each(given.max_each(self.enforced.amount(i)));
            left.min_each(bound.plus(self.losers.going(i)).minus(self.rooms.taken(i).0))
        });
        let there = self.rooms.cluster(&slice.cluster, Side::Ordinary, request.unit);
        OwnShortage {
            left,
            in_pools: wanted.minus(left),
            in_cluster: wanted.minus(there),
        }
    }
}

/// What came of looking for victims within a pool.
enum Drafted {
    Ready(Draft),
    /// More would have to be stopped than may be now.
    TooLarge,
    /// Not enough may be stopped.
    Nothing,
}
