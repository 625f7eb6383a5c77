//! How much may be active: entitlement of what jobs want, admission within it, and a second round that gives out again what pools
//! cannot use. Nothing is admitted while what is allocated and what is raised together exceed pool, entitlement, group or cluster.

mod usable;

use self::usable::{BothLeft, usable};
use crate::bind::Router;
use crate::candidates::Candidates;
use crate::claimants::admit_claims;
use crate::entry::{Line as SliceLine, Sums, lines, request};
use crate::fits::HostLimits;
use crate::gangs;
use crate::holds::holds;
use crate::ledger::{Ledger, OfPool};
use crate::picture::{ClusterView, JobView, Picture};
use crate::room::{capacity, left, lent, usable as usable_capacity};
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::cluster::Wish;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_model::{ClusterId, GroupName, JobId, ReasonCode, Resources, Span, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{
    Admission, ClusterIdx, Entitlements, FirstRound, Hold, Holds, HostPoolIdx, Kept, Likeness, Line, Queue,
    Request, Rooms, Route, SecondRound, Side, SliceRequest, Turn, Usable, admit, entitle, give_out_again,
    keep_all,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often it is noted of each pool who waits for a cluster.
const NOTED: Span = Span::seconds(1);
/// Parts of that, in each of which some of the pools have their turn: looking at everybody who waits takes as long as a cycle.
const TURNS: u64 = 20;

/// How room was divided last, and what the next division goes on from.
#[derive(Debug, Clone, Default)]
pub struct Division {
    /// What the last admission left: why somebody waits follows from it.
    pub rooms: Rooms,
    /// The clusters as the last admission saw them.
    pub(crate) candidates: Arc<Candidates>,
    /// When it was noted last of some pools who waits for a cluster.
    noted: Timestamp,
    /// When room was kept last for gangs.
    held: Timestamp,
    /// Round 0, kept while demands change, with the version of the tree that it is about.
    kept_round: Option<(Version, FirstRound)>,
    /// What pools wanted then.
    wanted: BTreeMap<PoolIdx, Wanted>,
    /// What hosts could hold then.
    limits: HostLimits,
    /// The clusters of which no host can take a class that waits, and when that was looked at last.
    closed: (Timestamp, Arc<BTreeSet<(ClassDigest, ClusterIdx)>>),
    /// What round 0 gave every pool, when room was just kept for gangs.
    pub(crate) first: Option<Entitled>,
    /// What the second round went by and gave; `None` when there was none.
    pub(crate) again: Option<Again>,
    /// Room that is kept together for gangs.
    pub(crate) holds: Holds,
    /// What of `rooms` they keep.
    pub(crate) kept: Vec<(Hold, Kept)>,
    /// Gangs for which nothing is certain to become free.
    pub(crate) blocked: BTreeSet<JobId>,
    /// Pools with somebody who was starved when it was noted last.
    pub(crate) starved: BTreeSet<PoolIdx>,
    /// Pools whose jobs have changed since.
    pub(crate) touched: BTreeSet<PoolIdx>,
}

/// A second round.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// The tree that it went by.
    pub(crate) tree: Version,
    pub(crate) ordinary: SecondRound,
    pub(crate) lent: SecondRound,
}

/// What every pool may use of ordinary room, and of what hosts lend.
#[derive(Debug, Clone)]
pub struct Entitled {
    /// Of ordinary capacity.
    pub ordinary: Arc<Entitlements>,
    /// Of what hosts lend: the same division by shares alone. Nobody has reserved any of it.
    pub lent: Entitlements,
}

/// What a pool wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Of ordinary room.
    pub ordinary: Resources,
    /// Of what hosts lend.
    pub lent: Resources,
}

/// What pools want, by index, as far as the clusters that their work may use have it, and as far as it may have it.
#[must_use]
pub fn demands(picture: &Picture, ledger: &Ledger) -> BTreeMap<PoolIdx, Wanted> {
    demands_within(&HostLimits::of(picture), picture, ledger)
}

fn demands_within(limits: &HostLimits, picture: &Picture, ledger: &Ledger) -> BTreeMap<PoolIdx, Wanted> {
    let known = ledger.known();
    known
        .map(|(pool, of)| (pool, wanted(limits, picture, ledger, pool, of)))
        .collect()
}

fn wanted(limits: &HostLimits, picture: &Picture, ledger: &Ledger, pool: PoolIdx, of: &OfPool) -> Wanted {
    // Of what is bound by nothing, of what is not preemptible, of controllers, and of what is both.
    let (mut free, mut firm, mut controllers, mut both) = Default::default();
    let mut lent = Resources::ZERO;
    for (choice, sums) in of.by_choice() {
        let possible = |sums: &Sums| {
            let class = choice.class;
            let most = class.and_then(|class| limits.most(ledger, class, &choice.only, sums.allocated));
            most.map_or(sums.demand, |most| sums.demand.min_each(most))
        };
        let wanted = possible(&sums.ordinary);
        let wanted = if choice.only.is_empty() {
            wanted
        } else {
            let there = clusters_of(picture, ledger, &choice.only);
            wanted.min_each(there).max_each(sums.ordinary.allocated)
        };
        let sum: &mut Resources = match (choice.terms.preemptible, choice.terms.controller) {
            (true, false) => &mut free,
            (false, false) => &mut firm,
            (true, true) => &mut controllers,
            (false, true) => &mut both,
        };
        *sum = sum.plus(wanted);
        lent = lent.plus(possible(&sums.lent));
    }
    if [firm, controllers, both].iter().any(|r| !r.is_zero()) {
        // Neither has use for more than it may have. What may be had as one of them alone leaves the rest to what is both.
        let (pool, held) = (picture.hierarchy.pool(pool), of.held());
        let firmly = pool
            .map(|p| p.reservation)
            .unwrap_or_default()
            .max_each(held.firm);
        let by_limit = pool.map(|p| p.controller_limit).unwrap_or_default();
        let by_controllers = by_limit.max_each(held.controllers);
        firm = firm.min_each(firmly);
        controllers = controllers.min_each(by_controllers);
        both = both
            .min_each(firmly.minus(firm))
            .min_each(by_controllers.minus(controllers));
    }
    let most = Resources::of_each(MOST_COUNTED);
    Wanted {
        ordinary: free.plus(firm).plus(controllers).plus(both).min_each(most),
        lent: lent.min_each(most),
    }
}

/// The usable capacity of the clusters of a choice.
fn clusters_of(picture: &Picture, ledger: &Ledger, only: &[String]) -> Resources {
    let chosen = usable_capacity(picture, ledger).filter(|(id, c, _)| {
        let name = c.row.as_ref().map_or("", |r| r.name.as_str());
        only.iter().any(|o| o == name || o == id.as_str())
    });
    chosen.fold(Resources::ZERO, |sum, (_, _, usable)| sum.plus(usable.all))
}

/// Round 0, computed from nothing.
#[must_use]
pub fn entitled(picture: &Picture, ledger: &Ledger) -> Entitled {
    let wanted = demands(picture, ledger);
    let there = capacity(picture, ledger);
    let ordinary = by_index(picture, &wanted, |w| w.ordinary);
    Entitled {
        ordinary: Arc::new(entitle(&picture.hierarchy, &ordinary, there)),
        lent: lent_entitled(picture, ledger, &wanted),
    }
}

/// What is lent is divided by shares alone. Mostly nothing is.
fn lent_entitled(picture: &Picture, ledger: &Ledger, wanted: &BTreeMap<PoolIdx, Wanted>) -> Entitlements {
    let there = lent(picture, ledger);
    let wanted = by_index(picture, wanted, |w| w.lent);
    entitle(&picture.by_shares, &wanted, there)
}

fn by_index(
    picture: &Picture,
    wanted: &BTreeMap<PoolIdx, Wanted>,
    which: impl Fn(&Wanted) -> Resources,
) -> Vec<Resources> {
    let mut out = vec![Resources::ZERO; picture.hierarchy.len()];
    for (pool, wanted) in wanted {
        if let Some(slot) = out.get_mut(*pool) {
            *slot = which(wanted);
        }
    }
    out
}

impl Division {
    /// Round 0, from the one before by what has changed since.
    pub(crate) fn stand(&mut self, picture: &Picture) -> Entitled {
        let ledger = &picture.ledger;
        let there = capacity(picture, ledger);
        let tree = picture.pools.version;
        let mut touched = std::mem::take(&mut self.touched);
        let limits = HostLimits::of(picture);
        let are_others = limits != self.limits;
        if are_others {
            // Looked at again at once.
            self.closed.0 = Timestamp(0);
        }
        self.limits = limits;
        if self.kept_round.as_ref().is_none_or(|(of, _)| *of != tree) {
            self.wanted = demands_within(&self.limits, picture, ledger);
            let all = by_index(picture, &self.wanted, |w| w.ordinary);
            let first = FirstRound::new(Arc::clone(&picture.hierarchy), all, there);
            self.kept_round = Some((tree, first));
        } else if let Some((_, first)) = &mut self.kept_round {
            touched.extend(ledger.choosy());
            if are_others {
                touched.extend(ledger.known().map(|(pool, _)| pool));
            }
            for pool in touched {
                let now = ledger.of_known(pool);
                let now = now.map(|of| wanted(&self.limits, picture, ledger, pool, of));
                first.set_demand(pool, now.unwrap_or_default().ordinary);
                match now {
                    Some(now) => self.wanted.insert(pool, now),
                    None => self.wanted.remove(&pool),
                };
            }
            first.set_capacity(there);
        }
        let ordinary = self.kept_round.as_mut().map(|(_, first)| first.entitlements());
        let lent = if lent(picture, ledger).is_zero() {
            Entitlements::default()
        } else {
            lent_entitled(picture, ledger, &self.wanted)
        };
        let out = Entitled {
            ordinary: ordinary.unwrap_or_default(),
            lent,
        };
        debug_assert_eq!(out.ordinary, entitled(picture, ledger).ordinary);
        out
    }
}

impl Division {
    /// The clusters of which no host can take a class that waits, as of the last admission.
    pub(crate) const fn closed(&self) -> &Arc<BTreeSet<(ClassDigest, ClusterIdx)>> {
        &self.closed.1
    }

    /// Looked at when hosts change, and once a second for the classes that have come to wait.
    fn closed_clusters(
        &mut self,
        picture: &Picture,
        now: Timestamp,
    ) -> &Arc<BTreeSet<(ClassDigest, ClusterIdx)>> {
        let (at, closed) = &mut self.closed;
        if now.since(*at) >= NOTED {
            let basis = picture.ledger.basis();
            *closed = Arc::new(self.limits.closed(&picture.ledger, |id| basis.index(id)));
            *at = now;
        }
        closed
    }
}

/// What is left in pools and clusters within what pools are entitled to.
#[must_use]
pub fn rooms(picture: &Picture, ledger: &Ledger, entitled: &Entitled) -> Rooms {
    let clusters = picture.clusters.iter().map(|(id, c)| {
        let taken = |on: Option<HostPoolIdx>| {
            let taken = ledger.use_on(id, on);
            if on.is_none() { taken.or_used(c) } else { taken }
        };
        let room = takes_work(c).then(|| left(c, &picture.host_pools, taken));
        (id.clone(), room)
    });
    let hierarchy = Arc::clone(&picture.hierarchy);
    let mut out = Rooms::new(hierarchy, picture.lent_kinds(), clusters.collect());
    for (pool, of) in ledger.known() {
        out.take_pool(pool, of.held());
        for (user, has) in of.users() {
            out.user_takes(pool, user, has);
        }
    }
    out.entitle(&entitled.ordinary, &entitled.lent);
    out
}

fn takes_work(cluster: &ClusterView) -> bool {
    cluster.takes_grants() && cluster.wish() == Wish::Active
}

/// Divides what there is, keeping in mind what the next division needs, and tells who gets more.
pub fn divide(picture: &mut Picture, now: Timestamp, patience: Span) -> Vec<Admission> {
    let mut division = std::mem::take(&mut picture.division);
    let first = division.stand(picture);
    let mut rooms = rooms(picture, &picture.ledger, &first);
    rooms.close(division.closed_clusters(picture, now));
    let hopeful = |line: &Line| line.since.is_none_or(|since| now.since(since) < patience);
    division.holds.now = now;
    let known = (picture as &Picture, &picture.ledger, &division.holds);
    let candidates = Arc::new(Candidates::new(picture));
    let asked = |turn: &Turn| ask(picture, candidates.limits(), turn);
    let router = Router::of(picture, &candidates);
    let (admitted, again) = admissions(known, &first, &mut rooms, (asked, &router), hopeful);
    division.again = again;
    division.first = None;
    let noted = (division.noted, now);
    note(
        picture.ledger.queue_mut(),
        &rooms,
        &first,
        noted,
        &mut division.starved,
    );
    division.noted = now;
    if now.since(division.held) >= NOTED {
        division.held = now;
        let told = holds(picture, &Router::of(picture, &candidates), &first, &rooms);
        division.holds.all = told.holds;
        division.blocked = told.blocked;
        division.first = Some(first);
    }
    let has_begun = |turn: &Turn| admitted.iter().any(|a| a.job == turn.job);
    division.kept = keep_all(&division.holds, &mut rooms, has_begun);
    division.rooms = rooms;
    division.candidates = candidates;
    picture.division = division;
    admitted
}

/// Notes since when nobody of a line finds room in a cluster, and since when it finds none there or in a pool above its own although
/// one of it would fit whole inside what its pool is entitled to by itself. What pools above are entitled to is enough for that, and
/// what they may have by their limits: others below them have more than their own. Looks at the pools whose turn has come since it was
/// done before.
fn note(
    queue: &mut Queue,
    rooms: &Rooms,
    first: &Entitled,
    (before, now): (Timestamp, Timestamp),
    somebody_starved: &mut BTreeSet<PoolIdx>,
) {
    let turn = |at: Timestamp| at.0 / (NOTED.0 / TURNS);
    let turns = turn(now).saturating_sub(turn(before));
    let since = |pool: PoolIdx| (pool as u64 + TURNS - turn(before) % TURNS - 1) % TURNS;
    for (pool, lines) in queue.pools_mut().filter(|(pool, _)| since(*pool) < turns) {
        let left = BothLeft::of(rooms, pool);
        let own = first.ordinary.amount(pool).minus(rooms.taken(pool).0);
        somebody_starved.remove(&pool);
        for (like, line) in lines {
            let lacks = left.lacking(rooms, like);
            let waits = lacks == Some(ReasonCode::NoClusterCapacity);
            line.since = waits.then(|| line.since.unwrap_or(now));
            // A pool's limit is told first: nothing but that may be in the way.
            let others_have_it = match lacks {
                Some(ReasonCode::NoClusterCapacity | ReasonCode::PoolEntitlement) => true,
                Some(ReasonCode::PoolLimit) => rooms.count_by_bounds(pool, like.terms, like.unit) > 0,
                _ => false,
            };
            let starved = others_have_it && like.terms.side == Side::Ordinary && like.unit.shape.fits(own);
            line.starved = starved.then(|| line.starved.unwrap_or(now));
            if starved {
                somebody_starved.insert(pool);
            }
        }
    }
}

/// What a waiting group asks for, as far as the hosts where it is bound can hold it.
pub(crate) fn ask(picture: &Picture, limits: &HostLimits, turn: &Turn) -> Option<Request> {
    let job = picture.jobs.get(&turn.job)?;
    let spec = job.running_spec()?;
    let group = spec.group(&turn.group)?;
    let lines = lines(picture, turn.job, job);
    let request = asked(picture, (turn.job, job), (spec, group), &lines)?;
    Some(within_hosts(limits, (spec, group), &lines, request))
}

/// A request without what the hosts of a cluster could not hold beside what the group has there.
fn within_hosts(
    limits: &HostLimits,
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[SliceLine],
    request: Request,
) -> Request {
    let class = InstanceClass::of(spec, group).filter(|_| request.gang.is_empty());
    let Some(class) = class.filter(|_| !request.slices.is_empty()) else {
        return request;
    };
    let digest = class.digest();
    // Of several generations at a cluster.
    let mut there: BTreeMap<ClusterId, u64> = BTreeMap::new();
    for line in lines.iter().filter(|l| l.key.group == group.name) {
        let sum = there.entry(line.key.cluster.clone()).or_default();
        *sum = sum.saturating_add(line.allocated);
    }
    let held = |slice: SliceRequest| {
        let there = there.entry(slice.cluster.clone()).or_default();
        let most = limits.more(&slice.cluster, digest, &class, *there);
        let more = most.map_or(slice.more, |most| slice.more.min(most));
        *there = there.saturating_add(more);
        SliceRequest { more, ..slice }
    };
    let slices = request.slices.into_iter().map(held);
    Request {
        slices: slices.filter(|slice| slice.more > 0).collect(),
        ..request
    }
}

/// What a group asks for, or the gang that it belongs to.
pub(crate) fn asked(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[SliceLine],
) -> Option<Request> {
    if spec.gang.is_some() {
        gangs::request(picture, (id, job), spec, lines)
    } else {
        request(picture, (id, job), (spec, group), lines)
    }
}

/// Admits into the room that is made for claims, then within round 0, then within the second round, and then, in whole instances, what is too little for any pool's share.
pub(crate) fn admissions(
    (picture, ledger, holds): (&Picture, &Ledger, &Holds),
    first: &Entitled,
    rooms: &mut Rooms,
    (ask, route): (impl Fn(&Turn) -> Option<Request>, &impl Route),
    hopeful: impl Fn(&Line) -> bool,
) -> (Vec<Admission>, Option<Again>) {
    let queue = ledger.queue();
    let mut admitted = Admitted::new();
    add_to(&mut admitted, admit_claims(picture, rooms));
    round((queue, holds), rooms, (&ask, route), &mut admitted);
    let most = rooms
        .most_left(Side::Ordinary)
        .max_each(rooms.most_left(Side::Revocable));
    let mut open = queue.pools().filter(|(_, lines)| lines.least().fits(most));
    let somebody_waits = open.any(|(pool, lines)| {
        let left = BothLeft::of(rooms, pool);
        let why = |like: &Likeness| left.lacking(rooms, like);
        lines
            .likenesses()
            .any(|like| why(like) == Some(ReasonCode::PoolEntitlement))
    });
    let mut given = None;
    if somebody_waits {
        let usable = usable((picture, ledger, holds), rooms, hopeful);
        let again = |hierarchy, first, usable: &[Usable]| give_out_again(hierarchy, first, usable);
        let second = Entitled {
            ordinary: Arc::new(again(&picture.hierarchy, &first.ordinary, &usable.ordinary)),
            lent: again(&picture.by_shares, &first.lent, &usable.lent),
        };
        rooms.entitle(&second.ordinary, &second.lent);
        round((queue, holds), rooms, (&ask, route), &mut admitted);
        let before = rooms.opened(usable.not_taken(rooms));
        let mut after = before.clone();
        round((queue, holds), &mut after, (&ask, route), &mut admitted);
        rooms.take_between(&before, after);
        given = Some(usable.gave(picture, first, &second));
    }
    (admitted.into_values().collect(), given)
}

type Admitted = BTreeMap<(JobId, GroupName), Admission>;

fn round(
    (queue, holds): (&Queue, &Holds),
    rooms: &mut Rooms,
    (ask, route): (&impl Fn(&Turn) -> Option<Request>, &impl Route),
    admitted: &mut Admitted,
) {
    for side in [Side::Ordinary, Side::Revocable] {
        let again = |turn: &Turn| {
            let request = ask(turn)?;
            // Whichever group of a gang it was: all of it was admitted.
            let group = request.gang.first().map_or(&turn.group, |m| &m.group);
            Some(match admitted.get(&(turn.job, group.clone())) {
                Some(before) => request.less(before),
                None => request,
            })
        };
        let more = admit(queue, side, rooms, holds, again, route);
        add_to(admitted, more);
    }
}

fn add_to(admitted: &mut Admitted, more: Vec<Admission>) {
    for more in more {
        let key = (more.job, more.group.clone());
        match admitted.get_mut(&key) {
            Some(before) => before.add(more),
            None => {
                admitted.insert(key, more);
            }
        }
    }
}
