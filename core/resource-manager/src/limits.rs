//! Claims where a pool above the claimant has no room left, by its limit or its entitlement, while hosts have: others below it have more
//! than their own, at whatever cluster. Nothing is held on hosts: what they leave is kept in the pools, and on the claimant's cluster in sum.

use crate::losers::{Lacking, Offered};
use crate::preempt::{Claimed, Draft, Offer};
use echelon_core_model::claim::{ClaimId, Quota};
use echelon_core_model::{ClusterId, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Held, Request, Side, SliceRequest};

/// What pools above a claimant leave.
pub(crate) struct Pressed {
    /// The innermost that leaves too little for one unit: only those below it can help.
    pool: PoolIdx,
    /// What it and those above it leave when all is gone that is going.
    left: Resources,
    /// For how many units those below it have room.
    most: u64,
}

/// One cluster's part of what is to be left.
struct Part {
    cluster: ClusterId,
    offered: Offered,
    quota: Quota,
}

impl Offer<'_> {
    /// The pools above a claimant that leave too little for one unit of it.
    pub(crate) fn pressed(&self, request: &Request) -> Option<Pressed> {
        let unit = request.unit.shape;
        let left = |i: &PoolIdx| {
            let (limit, entitled) = self.rooms.bounds(*i);
            let bound = limit.min_each(entitled.max_each(self.first.ordinary.amount(*i)));
            bound
                .plus(self.losers.going(*i))
                .minus(self.rooms.taken(*i).0)
        };
        let hierarchy = &self.picture.hierarchy;
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

    /// Claims of what others below a pool have beyond their own.
    pub(crate) fn claim_in_pool(
        &mut self,
        request: &Request,
        pressed: &Pressed,
        name: &mut impl FnMut() -> ClaimId,
    ) -> Claimed {
        if self.budget == 0 || !self.losers.may_look() {
            return Claimed::NotNow;
        }
        let has_room = |s: &&SliceRequest| self.fits_there(request, &s.cluster);
        let takes = || request.slices.iter().filter(|s| self.takes(&s.cluster));
        let Some(slice) = takes().find(has_room).or_else(|| takes().next()) else {
            return Claimed::NotNow;
        };
        let count = slice.more.min(self.own_count(request)).min(pressed.most);
        if count == 0 {
            return Claimed::NotNow;
        }
        let before = self.losers.staying();
        let clusters = self.clusters_of_losers(request, pressed, slice);
        let found = self
            .whole_at_one(request, pressed, &clusters, count)
            .or_else(|| self.over_several(request, pressed, &clusters));
        let Some((count, found)) = found else {
            self.losers.restore(before);
            return Claimed::NobodyElse;
        };
        let promised = request.unit.shape.times(count);
        self.rooms
            .take_pool(request.pool, Held::plain(promised, Resources::ZERO));
        self.rooms.take_cluster(&slice.cluster, Side::Ordinary, promised);
        let made = found.into_iter().map(|part| {
            let draft = Draft {
                cluster: part.cluster,
                count,
                most: part.offered.most,
                victims: part.offered.victims,
                quota: Some(part.quota),
            };
            self.make(request, slice, draft, name)
        });
        Claimed::Made(made.collect())
    }

    /// Clusters where somebody may lose something, who loses first first. Where the claimant's cluster is full, it is the first:
    /// who goes there leaves room for him on hosts, too.
    fn clusters_of_losers(
        &self,
        request: &Request,
        pressed: &Pressed,
        slice: &SliceRequest,
    ) -> Vec<ClusterId> {
        let full = !self.fits_there(request, &slice.cluster);
        let clusters = self.picture.clusters.iter();
        let open = clusters.filter(|(id, view)| view.takes_grants() && self.may_claim_at(id));
        let ranks = open.filter_map(|(id, _)| {
            let first = self.losers.first(request, id, pressed.pool)?;
            Some((!(full && *id == slice.cluster), first, id.clone()))
        });
        let mut out: Vec<_> = ranks.collect();
        out.sort();
        out.into_iter().map(|(.., id)| id).collect()
    }

    /// All that is wanted at one cluster, or else one unit.
    fn whole_at_one(
        &mut self,
        request: &Request,
        pressed: &Pressed,
        clusters: &[ClusterId],
        count: u64,
    ) -> Option<(u64, Vec<Part>)> {
        let counts = [count, 1];
        let tries = clusters.iter().flat_map(|c| counts.iter().map(move |n| (c, *n)));
        for (cluster, count) in tries {
            let before = self.losers.staying();
            let offered = self.losers.offer(
                request,
                Lacking {
                    cluster,
                    room: request.unit.shape.times(count).minus(pressed.left),
                    reach: 1,
                    below: Some(pressed.pool),
                },
            );
            let most = self.most(offered.enough.filter(|_| count == 1), &offered);
            if offered.enough.is_some_and(|n| n <= most) {
                let quota = Quota {
                    left: pressed.left,
                    unit: request.unit.shape,
                    count,
                };
                let offered = Offered { most, ..offered };
                let cluster = cluster.clone();
                return Some((
                    count,
                    vec![Part {
                        cluster,
                        offered,
                        quota,
                    }],
                ));
            }
            self.losers.restore(before);
        }
        None
    }

    /// One unit from several clusters together.
    fn over_several(
        &mut self,
        request: &Request,
        pressed: &Pressed,
        clusters: &[ClusterId],
    ) -> Option<(u64, Vec<Part>)> {
        let mut lacking = request.unit.shape.minus(pressed.left);
        let mut out = Vec::new();
        for cluster in clusters {
            let offered = self.losers.offer(
                request,
                Lacking {
                    cluster,
                    room: lacking,
                    reach: 1,
                    below: Some(pressed.pool),
                },
            );
            let quota = Quota {
                left: Resources::ZERO,
                unit: offered.reached.min_each(lacking),
                count: 1,
            };
            lacking = lacking.minus(offered.reached);
            if !offered.victims.is_empty() {
                out.push(Part {
                    cluster: cluster.clone(),
                    offered,
                    quota,
                });
            }
            if lacking.is_zero() {
                break;
            }
        }
        let all: u64 = out.iter().map(|p| p.offered.most).sum();
        let offered = Offered { most: all, ..Offered::default() };
        (lacking.is_zero() && all <= self.most(Some(all), &offered)).then_some((1, out))
    }
}
