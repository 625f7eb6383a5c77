//! Preemption as an offer of victims. A group that has waited long enough gets a preemption request if what
//! it wants would fit whole inside its pool's entitlement. The request names the slices that may be stopped
//! for it. A gang gets one request for all of it, or none.
//! Pure: the same facts and decisions give the same requests.

use crate::admission::WithheldCapacity;
use crate::admission::router::Router;
use crate::admission::second_round::EnforcedAmounts;
use crate::config::Preemption;
use crate::demand::ask::ask;
use crate::division::Entitled;
use crate::preemption::PreemptionInputs;
use crate::preemption::claimants::withheld;
use crate::preemption::claims::Claims;
use crate::preemption::holders::{Holders, holders};
use crate::preemption::losers::{Lacking, Losers, Offered, VictimSource};
use crate::preemption::starved::starved;
use crate::preemption::unplaced::{Homeless, unplaced};
use crate::preemption::within::within;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, Quota, Victim};
use echelon_core_model::cluster::Wish;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Resources, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Held, Request, Rooms, Side, SliceRequest, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// Most groups that are looked at at once.
pub(crate) const LOOKS: usize = 64;
/// The generation of what is bound nowhere: it has one when it is bound.
pub(crate) const UNBOUND: Generation = Generation(0);

/// A preemption request that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// The cluster with the shard that is to stop instances.
    pub(crate) cluster: ClusterId,
    /// The cluster where the requesting group waits.
    pub(crate) waits: ClusterId,
    pub(crate) claim: Claim,
}

/// What is to be done for what is starved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remedy {
    pub(crate) claims: Vec<Made>,
    /// Groups without a preemption candidate anywhere: others have their turn.
    pub(crate) in_vain: Vec<(JobId, GroupName)>,
    /// The pools that use the clusters where they wait.
    pub(crate) holders: BTreeMap<(JobId, GroupName), Holders>,
    /// Work that is granted and finds no host.
    pub(crate) homeless: Homeless,
    /// How many more instances may be taken in this minute, where that was looked at.
    pub(crate) budget_left: Option<u64>,
}

/// What is to be done now. `first` is what pools are entitled to; `name` makes ids of preemption requests.
pub(crate) fn remedy(
    known: PreemptionInputs<'_>,
    first: &Entitled,
    rules: &Preemption,
    now: Timestamp,
    mut name: impl FnMut() -> ClaimId,
) -> Remedy {
    let (starved, unplaced) = (starved(known, rules, now), unplaced(known));
    if starved.is_empty() && unplaced.is_empty() || known.facts.control.kills_off {
        return Remedy::default();
    }
    let unanswered = known.requests.all.values().filter(|c| c.report.is_none());
    let under_way: u64 = unanswered.map(|c| c.claim.most).sum();
    let of_minute = known.requests.budget;
    let enforced = EnforcedAmounts {
        first,
        sustained: &known.admission.sustained,
    };
    let mut offer = Offer {
        known,
        enforced,
        rooms: Rooms::clone(&known.admission.rooms),
        router: Router::of(known.facts, known.ledger, &known.admission.candidates),
        losers: Losers::new(known, enforced),
        budget: of_minute.left().saturating_sub(under_way),
        burst: of_minute.burst(),
        rules,
        requests_at: requests_at(known.requests),
        held: held_capacity(known),
        within: within(known),
    };
    let mut out = Remedy::default();
    let mut in_vain = Vec::new();
    for turn in starved {
        let Some(request) = ask(known.facts, known.admission.candidates.limits(), turn) else {
            continue;
        };
        let request = offer.without_held(request);
        if request.room == 0 || request.slices.is_empty() && request.unbound == 0 {
            continue;
        }
        match offer.claim_beside_hold(turn, &request, &mut name) {
            Claimed::Made(claims) => out.claims.extend(claims),
            Claimed::NobodyLoses => in_vain.push(Request {
                slices: offer.places(&request),
                ..request
            }),
            Claimed::NotNow => {}
        }
    }
    out.holders = holders(known, &known.admission.rooms, &in_vain);
    out.in_vain = in_vain.into_iter().map(|r| (r.job, r.group)).collect();
    let (made, in_vain, homeless) = offer.claim_for_unplaced((unplaced, now), &mut name);
    out.claims.extend(made);
    out.in_vain.extend(in_vain);
    out.homeless = homeless;
    out.budget_left = Some(offer.budget);
    out
}

/// What a shard gets of a preemption request, beside the group that it is for.
pub(crate) struct Draft {
    pub(crate) cluster: ClusterId,
    /// For how many units.
    pub(crate) count: u64,
    pub(crate) most: u64,
    pub(crate) victims: Vec<Victim>,
    pub(crate) quota: Option<Quota>,
    /// Nothing is stopped: a host's capacity is kept as it ends.
    pub(crate) keeps_host: bool,
}

/// The outcome of trying to make a preemption request.
pub(crate) enum Claimed {
    /// It is to be made: one, or for capacity in a pool one at each of several clusters.
    Made(Vec<Made>),
    /// There is capacity by now, or a limit is reached: later.
    NotNow,
    /// There is no preemption candidate where it could run.
    NobodyLoses,
}

pub(crate) struct Offer<'a> {
    pub(crate) known: PreemptionInputs<'a>,
    pub(crate) enforced: EnforcedAmounts<'a>,
    pub(crate) rooms: Rooms,
    pub(crate) router: Router<'a>,
    pub(crate) losers: Losers<'a>,
    /// How many more instances may be taken.
    pub(crate) budget: u64,
    /// Most that may be taken at once.
    pub(crate) burst: u64,
    pub(crate) rules: &'a Preemption,
    /// Preemption requests at each cluster, those that are made now included.
    pub(crate) requests_at: BTreeMap<ClusterId, RequestCount>,
    /// The capacity that earlier requests of a group hold for instances of it that are not granted yet.
    pub(crate) held: BTreeMap<(JobId, GroupName), Vec<HeldCapacity>>,
    /// Pools within which work is being preempted for other work of them. One request at a time: nothing is
    /// offered twice.
    pub(crate) within: BTreeSet<PoolIdx>,
}

/// How many preemption requests a cluster has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestCount {
    open: usize,
    unanswered: usize,
}

fn requests_at(requests: &Claims) -> BTreeMap<ClusterId, RequestCount> {
    let mut out: BTreeMap<ClusterId, RequestCount> = BTreeMap::new();
    for view in requests.all.values() {
        let count = out.entry(view.cluster.clone()).or_default();
        count.open += 1;
        count.unanswered += usize::from(view.report.is_none());
    }
    out
}

/// A capacity hold for instances of a slice.
pub(crate) struct HeldCapacity {
    cluster: ClusterId,
    generation: Generation,
    count: u64,
}

/// The capacity that answered requests hold for groups. Gangs are left out.
fn held_capacity(known: PreemptionInputs<'_>) -> BTreeMap<(JobId, GroupName), Vec<HeldCapacity>> {
    let mut out: BTreeMap<(JobId, GroupName), Vec<HeldCapacity>> = BTreeMap::new();
    let all = withheld(known.facts, known.requests).capacity.into_iter();
    for WithheldCapacity {
        request,
        cluster,
        units,
    } in all.filter(|w| w.request.gang.is_empty())
    {
        let of_group = out.entry((request.job, request.group)).or_default();
        of_group.extend(units.into_iter().map(|(generation, count)| HeldCapacity {
            cluster: cluster.clone(),
            generation,
            count,
        }));
    }
    out
}

impl Offer<'_> {
    /// A request without what capacity is already held for.
    fn without_held(&self, mut request: Request) -> Request {
        let Some(held) = self.held.get(&(request.job, request.group.clone())) else {
            return request;
        };
        if !request.gang.is_empty() {
            return request;
        }
        for HeldCapacity {
            cluster,
            generation,
            count,
        } in held
        {
            let of = |s: &&mut SliceRequest| s.cluster == *cluster && s.generation == *generation;
            if let Some(slice) = request.slices.iter_mut().find(of) {
                slice.more = slice.more.saturating_sub(*count);
            }
            request.room = request.room.saturating_sub(*count);
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
            let key = (request.job, request.group.clone());
            let tries = self
                .known
                .requests
                .refused
                .get(&key)
                .map_or(0, |(_, tries)| *tries);
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

    /// Makes a preemption request for a gang or group that may have a capacity hold already.
    /// While it looks, the hold counts as free capacity.
    fn claim_beside_hold(
        &mut self,
        turn: &Turn,
        request: &Request,
        name: &mut impl FnMut() -> ClaimId,
    ) -> Claimed {
        let mut kept = self.known.admission.kept.iter();
        let held = kept.find(|(hold, _)| hold.turn == *turn);
        if let Some((_, kept)) = held {
            self.rooms.give_back(kept.clone());
        }
        let out = if self.own_count(request) == 0 {
            self.claim_within(turn, request, name)
        } else {
            match self.pressed(request) {
                Some(pressed) => self.claim_in_pool(request, &pressed, name),
                None => self.claim(request, name),
            }
        };
        let made = matches!(out, Claimed::Made(_));
        if let Some((hold, _)) = held.filter(|_| !made) {
            self.rooms.keep(hold);
        }
        out
    }

    /// Makes a preemption request for one group, at the first of its clusters with candidates for it.
    fn claim(&mut self, request: &Request, name: &mut impl FnMut() -> ClaimId) -> Claimed {
        let mut out = Claimed::NobodyLoses;
        for slice in &self.places(request) {
            if !self.may_claim_at(&slice.cluster) {
                out = Claimed::NotNow;
                continue;
            }
            if !self.takes(&slice.cluster) {
                continue;
            }
            let there = self.rooms.cluster(&slice.cluster, Side::Ordinary, request.unit);
            let wanted = slice.more.min(self.own_count(request));
            let count = wanted.min(self.budget);
            let lacking = request.unit.shape.times(count).minus(there);
            if count == 0 || self.fits_there(request, &slice.cluster) {
                out = Claimed::NotNow;
                continue;
            }
            let before = self.losers.staying();
            let offered = self.losers.offer(
                request,
                Lacking {
                    cluster: &slice.cluster,
                    room: lacking,
                    choice: self.choice(request, count),
                    from: VictimSource::Surplus,
                },
            );
            // Capacity for a part of a gang, or of one unit, is of no use.
            let least = if request.gang.is_empty() {
                let of_one = offered.needed.div_ceil(count).max(offered.fewest);
                Some(of_one).filter(|_| offered.fewest > 0)
            } else {
                offered.enough
            };
            let Some(least) = least else {
                self.losers.restore(before);
                continue;
            };
            let most = self.most(request, Some(least), &offered);
            let is_part = wanted > count || offered.needed > most;
            if least > most || is_part && !self.is_worth_it(offered.needed.max(wanted)) {
                self.losers.restore(before);
                return self.save_up();
            }
            let promised = request.unit.shape.times(count);
            self.rooms
                .take_pool(request.pool, Held::plain(promised, Resources::ZERO));
            self.rooms
                .take_cluster(&slice.cluster, Side::Ordinary, request.unit, count);
            let draft = Draft {
                cluster: slice.cluster.clone(),
                count,
                most,
                victims: offered.victims,
                quota: None,
                keeps_host: false,
            };
            return Claimed::Made(vec![self.make(request, slice, draft, name)]);
        }
        out
    }

    /// Whether something may begin at a cluster.
    pub(crate) fn takes(&self, cluster: &ClusterId) -> bool {
        let view = self.known.facts.clusters.get(cluster);
        view.is_some_and(|v| v.takes_grants() && v.wish() == Wish::Active)
    }

    /// Whether a cluster has capacity for one unit.
    pub(crate) fn fits_there(&self, request: &Request, cluster: &ClusterId) -> bool {
        let there = self.rooms.cluster(cluster, Side::Ordinary, request.unit);
        request.unit.shape.fits(there)
    }

    /// Whether one more preemption request may be made at a cluster now.
    pub(crate) fn may_claim_at(&self, cluster: &ClusterId) -> bool {
        self.budget > 0 && self.losers.may_look() && self.may_request_at(cluster)
    }

    /// Whether all requests are answered, and none was made now.
    pub(crate) fn are_answered(&self) -> bool {
        self.requests_at.values().all(|count| count.unanswered == 0)
    }

    /// Whether a shard may get one more request, whatever it is asked for.
    pub(crate) fn may_request_at(&self, cluster: &ClusterId) -> bool {
        let count = self.requests_at.get(cluster).copied().unwrap_or_default();
        count.open < self.rules.open && count.unanswered < self.rules.unanswered
    }

    /// How often capacity for a group was made in vain, as a factor: the more, the more is offered.
    fn in_vain(&self, request: &Request) -> u64 {
        let key = (request.job, request.group.clone());
        let tries = self.known.requests.refused.get(&key).map_or(0, |(_, n)| *n);
        8u64.saturating_pow(tries)
    }

    /// How much more than is lacking for so many units is offered, so that the shard has a choice.
    pub(crate) fn choice(&self, request: &Request, count: u64) -> Resources {
        let more = count.saturating_mul(7).min((count / 4).max(64));
        let more = more.saturating_mul(self.in_vain(request));
        request.unit.shape.times(more)
    }

    /// Whether a request that needs so many instances is worth it now.
    /// Where the budget is less, and far from full, a larger request is made later: a few large ones are less
    /// work than many small ones.
    pub(crate) const fn is_worth_it(&self, count: u64) -> bool {
        count <= self.budget || self.budget >= self.burst.div_ceil(2)
    }

    /// Most instances that may be taken of an offer of which `least` are needed.
    /// The budget is reserved for them until the shard answers. So it is not all that the shard could use,
    /// but twice what is needed where every host has the right shape, and more after tries in vain.
    /// What needs more than a burst takes it when the budget is full.
    /// Then nothing else is taken until that is made up for.
    pub(crate) fn most(&self, request: &Request, least: Option<u64>, offered: &Offered) -> u64 {
        let large = least.filter(|n| *n > self.budget && self.budget == self.burst);
        let left = large.map_or(self.budget, |n| n.saturating_mul(2));
        let needed = offered.needed.max(least.unwrap_or_default());
        let with_choice = needed.saturating_mul(2).saturating_mul(self.in_vain(request));
        offered.most.min(left).min(with_choice)
    }

    /// What needs more than there is waits until the budget is full.
    /// What is behind it takes nothing meanwhile.
    pub(crate) const fn save_up(&mut self) -> Claimed {
        self.budget = 0;
        Claimed::NotNow
    }

    /// Makes a preemption request of a draft.
    pub(crate) fn make(
        &mut self,
        request: &Request,
        slice: &SliceRequest,
        draft: Draft,
        name: &mut impl FnMut() -> ClaimId,
    ) -> Made {
        self.budget = self.budget.saturating_sub(draft.most);
        let count = self.requests_at.entry(draft.cluster.clone()).or_default();
        count.open += 1;
        count.unanswered += 1;
        Made {
            cluster: draft.cluster,
            waits: slice.cluster.clone(),
            claim: Claim {
                id: name(),
                job: request.job,
                parts: parts(request, slice, draft.count),
                pool: self.path(request.pool),
                most: draft.most,
                victims: draft.victims,
                quota: draft.quota,
                keeps_host: draft.keeps_host,
            },
        }
    }

    /// The path of a pool.
    pub(crate) fn path(&self, pool: PoolIdx) -> String {
        let pool = self.known.facts.hierarchy.pool(pool);
        pool.map(|p| p.path.clone()).unwrap_or_default()
    }

    /// How many of a group its pool is still entitled to by itself,
    /// within the bounds that no preemption changes.
    pub(crate) fn own_count(&self, request: &Request) -> u64 {
        let own = self.enforced.amount(request.pool);
        let left = own.minus(self.rooms.taken(request.pool).0);
        let bounds = self
            .rooms
            .count_by_bounds(request.pool, request.terms, request.unit);
        let own = request.unit.shape.count_in(left).min(bounds);
        own.min(request.room)
    }
}

/// What a preemption request is for: so many of a group's slice, or all of a gang.
fn parts(request: &Request, slice: &SliceRequest, count: u64) -> Vec<ClaimPart> {
    if request.gang.is_empty() {
        return vec![ClaimPart {
            group: request.group.clone(),
            generation: slice.generation,
            count,
        }];
    }
    let members = request.gang.iter().map(|m| ClaimPart {
        group: m.group.clone(),
        generation: if m.unbound > 0 { UNBOUND } else { m.generation },
        count: m.more.saturating_add(m.unbound),
    });
    members.collect()
}
