//! Preemption requests where a pool above the requesting group has no capacity left, by its limit or its
//! entitlement. Others below that pool have more than their own, at whatever cluster.
//! Nothing is held on hosts. What the victims release is held in the pools, and in sum on the cluster where
//! the group waits.

use crate::preemption::losers::{Lacking, Offered, VictimSource};
use crate::preemption::preempt::{Claimed, Draft, Offer};
use echelon_core_model::claim::{ClaimId, Quota};
use echelon_core_model::{ClusterId, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Held, Request, Side, SliceRequest};

/// What the pools above a requesting group leave.
pub(crate) struct Pressed {
    /// The innermost that leaves too little for one unit: only those below it can help.
    pub(crate) pool: PoolIdx,
    /// What it and those above it leave when all is gone that is going.
    left: Resources,
    /// For how many units the pools below it have capacity.
    most: u64,
}

/// One cluster's part of what is to be left.
struct Part {
    cluster: ClusterId,
    offered: Offered,
    quota: Quota,
}

/// What a group lacks in pools.
struct Sought<'a> {
    request: &'a Request,
    pressed: &'a Pressed,
    /// It would take more than is left of this minute's.
    large: bool,
}

/// The slice that waits, how many units it gets, and what each cluster releases for it.
type Found<'a> = (&'a SliceRequest, u64, Vec<Part>);

impl Offer<'_> {
    /// The pools above a requesting group that leave too little for one unit of it.
    pub(crate) fn pressed(&self, request: &Request) -> Option<Pressed> {
        let unit = request.unit.shape;
        let left = |i: &PoolIdx| {
            let (limit, entitled) = self.rooms.bounds(*i);
            let bound = limit.min_each(entitled.max_each(self.enforced.amount(*i)));
            bound.plus(self.losers.going(*i)).minus(self.rooms.taken(*i).0)
        };
        let hierarchy = &self.known.facts.hierarchy;
        let pools = || hierarchy.above(request.pool).filter(|i| *i != ROOT);
        let pool = pools().find(|i| !unit.fits(left(i)))?;
        let (below, above): (Vec<PoolIdx>, Vec<PoolIdx>) =
            pools().partition(|i| hierarchy.above(*i).any(|a| a == pool));
        let least = |sum: Resources, i: &PoolIdx| sum.min_each(left(i));
        let open = below.iter().fold(Resources::MAX, least);
        Some(Pressed {
            pool,
            left: above.iter().fold(Resources::MAX, least),
            most: unit.count_in(open),
        })
    }

    /// Makes preemption requests for what others below a pool have beyond their own.
    pub(crate) fn claim_in_pool(
        &mut self,
        request: &Request,
        pressed: &Pressed,
        name: &mut impl FnMut() -> ClaimId,
    ) -> Claimed {
        if self.budget == 0 || !self.losers.may_look() {
            return Claimed::NotNow;
        }
        let places = self.places(request);
        let wanted = places.iter().map(|s| s.more).max().unwrap_or_default();
        if !self.is_worth_it(wanted.min(self.own_count(request)).min(pressed.most)) {
            return self.save_up();
        }
        let (has_room, full): (Vec<&SliceRequest>, Vec<&SliceRequest>) = places
            .iter()
            .filter(|s| self.takes(&s.cluster))
            .partition(|s| self.fits_there(request, &s.cluster));
        let before = self.losers.staying();
        let mut sought = Sought {
            request,
            pressed,
            large: false,
        };
        let mut found = None;
        if let Some(slice) = has_room.first() {
            let clusters = self.clusters_of_losers(&sought);
            found = self.whole_at_one(&mut sought, slice, &clusters);
            if found.is_none() {
                found = self.over_several(&mut sought, slice, &clusters);
            }
        }
        // At a full cluster victims there release capacity on hosts, too; victims elsewhere are of no use.
        for slice in full.iter().filter(|_| has_room.is_empty()) {
            if found.is_none() && self.may_claim_at(&slice.cluster) {
                let here = [slice.cluster.clone()];
                found = self.whole_at_one(&mut sought, slice, &here);
            }
        }
        let Some((slice, count, found)) = found else {
            self.losers.restore(before);
            return if sought.large {
                self.save_up()
            } else {
                Claimed::NobodyLoses
            };
        };
        let promised = request.unit.shape.times(count);
        self.rooms
            .take_pool(request.pool, Held::plain(promised, Resources::ZERO));
        self.rooms
            .take_cluster(&slice.cluster, Side::Ordinary, request.unit, count);
        let made = found.into_iter().map(|part| {
            let draft = Draft {
                cluster: part.cluster,
                count,
                most: part.offered.most,
                victims: part.offered.victims,
                quota: Some(part.quota),
                keeps_host: false,
            };
            self.make(request, slice, draft, name)
        });
        Claimed::Made(made.collect())
    }

    /// Clusters with preemption candidates, ordered by the rank of the first candidate of each.
    fn clusters_of_losers(&self, sought: &Sought<'_>) -> Vec<ClusterId> {
        let pools = self.losers.with_more(sought.request, Some(sought.pressed.pool));
        let clusters = self.known.facts.clusters.iter();
        let open = clusters.filter(|(id, view)| view.takes_grants() && self.may_claim_at(id));
        let ranks = open.filter_map(|(id, _)| Some((self.losers.first(id, &pools)?, id.clone())));
        let mut out: Vec<_> = ranks.collect();
        out.sort();
        out.into_iter().map(|(_, id)| id).collect()
    }

    /// All that is wanted at one cluster, or else one unit.
    fn whole_at_one<'r>(
        &mut self,
        sought: &mut Sought<'_>,
        slice: &'r SliceRequest,
        clusters: &[ClusterId],
    ) -> Option<Found<'r>> {
        let (unit, left) = (sought.request.unit.shape, sought.pressed.left);
        let own = self.own_count(sought.request).min(self.budget);
        let counts = [slice.more.min(own).min(sought.pressed.most), 1];
        let tries = clusters.iter().flat_map(|c| counts.iter().map(move |n| (c, *n)));
        for (cluster, count) in tries.filter(|(_, n)| *n > 0) {
            let before = self.losers.staying();
            let offered = self.offered(sought, cluster, unit.times(count).minus(left));
            let least = offered.enough.filter(|_| count == 1);
            let most = self.most(sought.request, least, &offered);
            if offered.enough.is_some_and(|n| n <= most) {
                let part = Part {
                    cluster: cluster.clone(),
                    offered: Offered { most, ..offered },
                    quota: Quota { left, unit, count },
                };
                return Some((slice, count, vec![part]));
            }
            sought.large |= least.is_some();
            self.losers.restore(before);
        }
        None
    }

    /// One unit from several clusters together.
    fn over_several<'r>(
        &mut self,
        sought: &mut Sought<'_>,
        slice: &'r SliceRequest,
        clusters: &[ClusterId],
    ) -> Option<Found<'r>> {
        let mut lacking = sought.request.unit.shape.minus(sought.pressed.left);
        let mut parts = Vec::new();
        for cluster in clusters {
            let offered = self.offered(sought, cluster, lacking);
            let quota = Quota {
                left: Resources::ZERO,
                unit: offered.reached.min_each(lacking),
                count: 1,
            };
            lacking = lacking.minus(offered.reached);
            if !offered.victims.is_empty() {
                parts.push(Part {
                    cluster: cluster.clone(),
                    offered,
                    quota,
                });
            }
            if lacking.is_zero() {
                break;
            }
        }
        let most = parts.iter().map(|p| p.offered.most).sum();
        let all = Offered {
            most,
            ..Offered::default()
        };
        let enough = lacking.is_zero() && self.own_count(sought.request) > 0;
        let may = most <= self.most(sought.request, Some(most), &all);
        sought.large |= enough && !may;
        (enough && may).then_some((slice, 1, parts))
    }

    fn offered(&mut self, sought: &Sought<'_>, cluster: &ClusterId, room: Resources) -> Offered {
        let lacking = Lacking {
            cluster,
            room,
            choice: Resources::ZERO,
            from: VictimSource::SurplusBelow(sought.pressed.pool),
        };
        self.losers.offer(sought.request, lacking)
    }
}
