//! Where else those could go for whom nobody may lose anything where they wait: to a cluster where somebody may, a gang as a whole to one
//! where enough may be lost for all of it. For whom it is a pool that has no room, to a cluster that has some.

use crate::candidates::Candidates;
use crate::gangs;
use crate::losers::{Lacking, Offered};
use crate::picture::SliceKey;
use crate::place::demand;
use crate::preempt::Offer;
use crate::room::Taken;
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::{ClusterId, JobId, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Request, Side};
use echelon_core_routing::{Candidate, place_elsewhere, route_whole};

/// Waiting instances that are to go where room can be made for them: nobody may lose anything for them where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) job: JobId,
    pub(crate) key: SliceKey,
    pub(crate) to: ClusterId,
    pub(crate) count: u64,
}

impl Offer<'_> {
    /// Another cluster that a group, or gang, may use, where somebody may lose something for it.
    pub(crate) fn elsewhere(&mut self, request: &Request) -> Option<Move> {
        let below = self.pressed(request).map(|p| p.pool);
        if self.own_count(request) == 0 {
            return None;
        }
        let (to, count) = if request.gang.is_empty() {
            self.for_some(request, below)?
        } else {
            (self.for_all(request, below)?, 1)
        };
        let slice = request.slices.first()?;
        Some(Move {
            job: request.job,
            key: SliceKey {
                group: request.group.clone(),
                cluster: slice.cluster.clone(),
                generation: slice.generation,
            },
            to,
            count,
        })
    }

    fn for_some(&mut self, request: &Request, below: Option<PoolIdx>) -> Option<(ClusterId, u64)> {
        let (spec, group) = self.picture.group(request.job, &request.group)?;
        let count = request.slices.first()?.more.min(self.own_count(request));
        let here: Vec<ClusterId> = request.slices.iter().map(|s| s.cluster.clone()).collect();
        let candidates = Candidates::new(self.picture, |_, _| Taken::default());
        let others = candidates.of(candidates.asker(spec, group)).iter();
        for candidate in others.filter(|c| !here.contains(&c.id)) {
            let most = if below.is_some() && self.fits_there(request, &candidate.id) {
                count
            } else {
                let all = request.unit.shape.times(count);
                let offered = self.offered_there(request, &candidate.id, all, below);
                offered.most.min(self.budget).min(count)
            };
            let room = Candidate {
                room: request.unit.shape.times(most),
                ..candidate.clone()
            };
            let demand = demand(request.job, spec, group);
            let shares = place_elsewhere(&demand, count, &here, &[room], candidates.homes());
            if let Some(share) = shares.into_iter().find(|s| s.count > 0) {
                return Some((share.cluster, share.count));
            }
        }
        None
    }

    fn for_all(&mut self, request: &Request, below: Option<PoolIdx>) -> Option<ClusterId> {
        let (spec, _) = self.picture.group(request.job, &request.group)?;
        let candidates = Candidates::new(self.picture, |_, _| Taken::default());
        let count = |group: &GroupSpec| {
            let of_group = request.gang.iter().filter(|m| m.group == group.name);
            of_group.map(|m| m.more).sum()
        };
        let parts = gangs::parts(request.job, spec, &candidates, count);
        let mut from: Vec<ClusterId> = request.slices.iter().map(|s| s.cluster.clone()).collect();
        while let Ok(whole) = route_whole(&parts, candidates.capacity(), &from, candidates.homes()) {
            let unit = request.unit.shape;
            let there = self.rooms.cluster(&whole.cluster, Side::Ordinary, request.unit);
            let lacking = unit.minus(there);
            let enough = lacking.is_zero() && below.is_some() || {
                let offered = self.offered_there(request, &whole.cluster, lacking, below);
                offered.enough.is_some()
            };
            if enough && self.takes(&whole.cluster) {
                return Some(whole.cluster);
            }
            from.push(whole.cluster);
        }
        None
    }

    /// What could be lost at a cluster, were it asked for.
    fn offered_there(
        &mut self,
        request: &Request,
        cluster: &ClusterId,
        room: Resources,
        below: Option<PoolIdx>,
    ) -> Offered {
        let before = self.losers.staying();
        let lacking = Lacking {
            cluster,
            room,
            reach: 1,
            below,
        };
        let offered = self.losers.offer(request, lacking);
        self.losers.restore(before);
        offered
    }
}
