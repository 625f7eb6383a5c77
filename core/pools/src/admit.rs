//! Which waiting instances are admitted: by priority, then age. Where a pool is fair to its users, the user
//! with the least comes first.
//! As many whole instances are admitted as fit into their pool, every pool above it, and a cluster. An instance that is bound
//! to a cluster begins there; for all others admission asks routing. What cannot fit does not block what can behind it. Why
//! the others are not admitted follows from the capacity that is left.

use crate::fair::Users;
use crate::fill::{Taker, fill};
use crate::hierarchy::PoolIdx;
use crate::hold::{HoldScope, Holds, InForce};
use crate::queue::{Likeness, Line, Lines, Queue, Turn};
use crate::rooms::{Rooms, Side};
use crate::terms::{Terms, Unit};
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Reason, ReasonCode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A part of a group that waits at one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRequest {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// What it has: granted or active.
    pub allocated: u64,
    /// How many more it could use.
    pub more: u64,
}

/// What of a gang's group begins together with the rest of the gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The group.
    pub group: GroupName,
    /// The generation of its slice.
    pub generation: Generation,
    /// How many instances that are bound at the gang's cluster.
    pub more: u64,
    /// How many that are bound nowhere.
    pub unbound: u64,
}

/// A group that waits, or a gang, of which all groups wait together: then it is one unit, as large as all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The job; older jobs have smaller ids.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Its pool.
    pub pool: PoolIdx,
    /// On what terms it runs.
    pub terms: Terms,
    /// What is admitted at once: an instance, or a whole gang.
    pub unit: Unit,
    /// How many more units of it may be active (`max_running`).
    pub room: u64,
    /// Units that are bound to a cluster.
    pub slices: Vec<SliceRequest>,
    /// Units that are bound nowhere.
    pub unbound: u64,
    /// Instances that clusters have of the group, granted or not, for a spread.
    pub have: Vec<(ClusterId, u64)>,
    /// Clusters that get none of what is bound nowhere, for reasons of this job alone.
    pub avoid: Vec<ClusterId>,
    /// Of a gang, what one unit is made of.
    pub gang: Vec<Member>,
}

/// The capacity holds of an admission.
#[derive(Debug, Clone, Copy)]
pub struct ScopedHolds<'a> {
    /// All of them.
    pub holds: &'a Holds,
    /// From what they keep capacity.
    pub scope: HoldScope,
    /// Jobs of which something was admitted before, in an earlier round: their holds are over.
    pub begun: &'a BTreeSet<JobId>,
}

/// What an admission has admitted of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct SideAdmission {
    /// In the order in which it was admitted.
    pub admitted: Vec<Admission>,
    /// As many jobs were admitted as may be at once. Of what comes after them nothing is decided yet.
    pub is_cut: bool,
}

/// Chooses clusters for units that are bound nowhere. It knows no quota.
pub trait Route {
    /// Clusters for at most `n` units of a request, each with at most one of `parts` of the capacity that `rooms` leaves it.
    /// Together they may be fewer than `n`.
    fn route(&self, request: &Request, n: u64, parts: u64, rooms: &Rooms) -> Vec<(ClusterId, u64)>;
}

impl Request {
    /// What an admission of so many units gives each group.
    #[must_use]
    pub fn groups_of(&self, admission: Admission) -> Vec<Admission> {
        if self.gang.is_empty() {
            return vec![admission];
        }
        let bound = admission.more.iter().map(|(cluster, _, n)| (cluster, n));
        let chosen = admission.bind.iter().map(|(cluster, n)| (cluster, n));
        let Some((cluster, _)) = bound.chain(chosen).find(|(_, n)| **n > 0) else {
            return Vec::new();
        };
        let some = |n: u64| (n > 0).then_some(n);
        let of = |m: &Member| Admission {
            job: self.job,
            group: m.group.clone(),
            more: some(m.more)
                .map(|n| (cluster.clone(), m.generation, n))
                .into_iter()
                .collect(),
            bind: some(m.unbound)
                .map(|n| (cluster.clone(), n))
                .into_iter()
                .collect(),
        };
        self.gang.iter().map(of).collect()
    }

    /// What is left of it after an admission; of a gang after one of any of its groups: nothing.
    #[must_use]
    pub fn less(mut self, admission: &Admission) -> Self {
        if !self.gang.is_empty() {
            self.room = 0;
            return self;
        }
        for (cluster, generation, n) in &admission.more {
            let of = |s: &&mut SliceRequest| s.cluster == *cluster && s.generation == *generation;
            if let Some(slice) = self.slices.iter_mut().find(of) {
                slice.allocated = slice.allocated.saturating_add(*n);
                slice.more = slice.more.saturating_sub(*n);
            }
            self.room = self.room.saturating_sub(*n);
        }
        for (cluster, n) in &admission.bind {
            self.room = self.room.saturating_sub(*n);
            self.unbound = self.unbound.saturating_sub(*n);
            match self.have.iter_mut().find(|(c, _)| c == cluster) {
                Some((_, have)) => *have = have.saturating_add(*n),
                None => self.have.push((cluster.clone(), *n)),
            }
        }
        self
    }

    /// Whether nothing more of it can be admitted, whatever capacity there is.
    pub(crate) fn is_met(&self) -> bool {
        self.room == 0 || (self.unbound == 0 && self.slices.iter().all(|s| s.more == 0))
    }

    /// Whether nothing behind it in its queue can be admitted when nothing of it is: all there ask for the same, and nothing
    /// that concerns this job alone is in the way. Two gangs of one size may be of different groups.
    const fn speaks_for_all(&self) -> bool {
        self.gang.is_empty() && self.unbound > 0 && self.room > 0 && self.avoid.is_empty()
    }
}

/// Why some instances of a slice were not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
}

/// How many more instances of a group may begin, and where. What gets none is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Admission {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Of those that are bound, by cluster and generation.
    pub more: Vec<(ClusterId, Generation, u64)>,
    /// Of those that were bound nowhere, by cluster. They are to be bound there.
    pub bind: Vec<(ClusterId, u64)>,
}

impl Admission {
    /// How many units in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        let bound = self.more.iter().map(|(_, _, n)| *n);
        let chosen = self.bind.iter().map(|(_, n)| *n);
        bound.chain(chosen).fold(0, u64::saturating_add)
    }

    /// Adds another of the same group.
    pub fn add(&mut self, other: Self) {
        for (cluster, generation, n) in other.more {
            let same = |(c, g, _): &&mut (ClusterId, Generation, u64)| *c == cluster && *g == generation;
            match self.more.iter_mut().find(same) {
                Some((_, _, sum)) => *sum = sum.saturating_add(n),
                None => self.more.push((cluster, generation, n)),
            }
        }
        for (cluster, n) in other.bind {
            match self.bind.iter_mut().find(|(c, _)| *c == cluster) {
                Some((_, sum)) => *sum = sum.saturating_add(n),
                None => self.bind.push((cluster, n)),
            }
        }
    }
}

/// A queue of a pool that may get something.
struct OpenQueue<'a, T> {
    pool: PoolIdx,
    like: &'a Likeness,
    /// What comes after the one that is looked at next.
    behind: T,
    /// Nothing of it was looked at.
    is_new: bool,
}

/// Admits what fits of one side, and takes its capacity out of `rooms`. Looks at the first of each queue of requests that are
/// alike, and at those behind it as long as something is admitted. `ask` gives the request of a turn. In a pool that is fair to
/// its users the same group may get something more than once. Holds keep capacity from what `scope` says, and with
/// `HoldScope::All` not for jobs of which something `has_begun`.
/// Once `most_jobs` jobs have begun, in this round and in those before, it stops. What is left goes on in the
/// same order when this is called again with sums that include them.
pub fn admit(
    queue: &Queue,
    side: Side,
    rooms: &mut Rooms,
    holds: ScopedHolds<'_>,
    most_jobs: usize,
    ask: impl Fn(&Turn) -> Option<Request>,
    route: &impl Route,
) -> SideAdmission {
    let ScopedHolds { holds, scope, begun } = holds;
    if !queue.has(side) || !queue.any_fits(rooms.most_left(side)) {
        return SideAdmission::default();
    }
    // Only queues count of which the first would fit before anything is admitted.
    let before = rooms.clone();
    let open_pools = before.open_pools(side, queue.pools().map(|(pool, lines)| (pool, lines.least())));
    let is_open = |pool: PoolIdx, like: &Likeness| {
        like.terms.side == side && before.lacking(&before.left(pool, side), like).is_none()
    };
    let mut fair = Vec::new();
    for (pool, of_pool) in queue.of_users() {
        if open_pools.binary_search(&pool).is_err() {
            continue;
        }
        let of_users = of_pool.iter().filter(|(like, _)| like.user.is_some());
        let open = of_users.filter(|(like, _)| is_open(pool, like));
        let open: Vec<_> = open.map(|(like, line)| (like, line.turns())).collect();
        if !open.is_empty() {
            fair.push(Users::new(pool, open.into_iter(), rooms));
        }
    }
    // All others are looked at one after another, until nothing is left that any of them could get.
    let mut lines = Vec::new();
    let first = fair.iter().enumerate();
    let heads = first.filter_map(|(i, users)| Some(Reverse((users.head()?, i))));
    let mut heads: Vec<Reverse<(&Turn, usize)>> = heads.collect();
    for pool in open_pools {
        let of_pool = queue.lines_of(pool).into_iter().flat_map(Lines::iter);
        for (like, line) in of_pool.filter(|(like, _)| like.user.is_none()) {
            let mut turns = line.turns();
            if let Some(first) = turns.next() {
                heads.push(Reverse((first, fair.len() + lines.len())));
                lines.push(OpenQueue {
                    pool,
                    like,
                    behind: turns,
                    is_new: true,
                });
            }
        }
    }
    let mut heads = BinaryHeap::from(heads);
    let mut out: Vec<Admission> = Vec::new();
    let had_begun = |of: &Turn| begun.contains(&of.job);
    let mut kept = InForce::new(holds, scope, rooms, had_begun);
    let mut new_jobs: BTreeSet<JobId> = BTreeSet::new();
    let most_new = most_jobs.saturating_sub(begun.len());
    let mut is_over = false;
    let mut is_cut = false;
    while !is_over {
        is_cut = new_jobs.len() >= most_new;
        if is_cut {
            break;
        }
        let Some(Reverse((turn, i))) = heads.pop() else {
            break;
        };
        let line = i.checked_sub(fair.len()).and_then(|i| lines.get_mut(i));
        if let Some(line) = line
            && std::mem::take(&mut line.is_new)
            && !is_open(line.pool, line.like)
        {
            continue;
        }
        kept.reach(turn, rooms, |of| had_begun(of) || new_jobs.contains(&of.job));
        if let Some(users) = fair.get_mut(i) {
            kept.face(users.pool(), rooms);
            let got = users.step(rooms, &ask, route).unwrap_or_default();
            kept.leave(turn, rooms, had_begun(turn) || !got.is_empty());
            is_over = !got.is_empty() && !queue.any_fits(kept.most_left(rooms, side));
            new_jobs.extend(got.iter().map(|a| a.job).filter(|job| !begun.contains(job)));
            out.extend(got);
            heads.extend(users.head().map(|next| Reverse((next, i))));
            continue;
        }
        let Some(line) = i.checked_sub(fair.len()).and_then(|i| lines.get_mut(i)) else {
            continue;
        };
        kept.face(line.pool, rooms);
        if rooms.lacking(&rooms.left(line.pool, side), line.like).is_some() {
            kept.leave(turn, rooms, had_begun(turn));
            continue;
        }
        let request = ask(turn);
        let admission = request
            .as_ref()
            .map(|request| admit_one(request, u64::MAX, 1, rooms, route));
        let total = admission.as_ref().map_or(0, Admission::total);
        kept.leave(turn, rooms, had_begun(turn) || total > 0);
        if let Some((request, admission)) = request.zip(admission) {
            if total == 0 && request.speaks_for_all() {
                continue;
            }
            out.extend(request.groups_of(admission));
            is_over = total > 0 && !queue.any_fits(kept.most_left(rooms, side));
            new_jobs.extend((total > 0 && !begun.contains(&turn.job)).then_some(turn.job));
        }
        heads.extend(line.behind.next().map(|next| Reverse((next, i))));
    }
    if !kept.is_empty() && !is_over && !is_cut {
        // Whom the round above has given something asks for the rest.
        let had: BTreeMap<(JobId, &GroupName), &Admission> =
            out.iter().map(|a| ((a.job, &a.group), a)).collect();
        let rest = |turn: &Turn| {
            let request = ask(turn)?;
            let group = request.gang.first().map_or(&turn.group, |m| &m.group);
            let had = had.get(&(turn.job, group)).copied();
            Some(match had {
                Some(had) => request.less(had),
                None => request,
            })
        };
        let more = backfill(queue, side, rooms, &mut kept, rest, route);
        out.extend(more);
    }
    kept.end(rooms);
    out.retain(|a| a.total() > 0);
    SideAdmission {
        admitted: out,
        is_cut,
    }
}

/// Admits who is certain to be gone before a gang needs the room that is kept for it. Users are not told apart here.
fn backfill(
    queue: &Queue,
    side: Side,
    rooms: &mut Rooms,
    kept: &mut InForce<'_>,
    ask: impl Fn(&Turn) -> Option<Request>,
    route: &impl Route,
) -> Vec<Admission> {
    let mut lines: Vec<(PoolIdx, &Likeness, &Line)> = Vec::new();
    for (pool, of_pool) in queue.pools() {
        let ending = of_pool
            .iter()
            .filter(|(like, _)| like.terms.side == side && like.lasts.is_some() && like.user.is_none());
        lines.extend(ending.map(|(like, line)| (pool, like, line)));
    }
    lines.sort_by_key(|(_, _, line)| line.turns().next());
    let mut out = Vec::new();
    for (pool, like, line) in lines {
        kept.face(pool, rooms);
        kept.lend(like, rooms, |rooms| {
            for turn in line.turns() {
                if rooms.lacking(&rooms.left(pool, side), like).is_some() {
                    break;
                }
                if let Some(request) = ask(turn) {
                    out.extend(request.groups_of(admit_one(&request, u64::MAX, 1, rooms, route)));
                }
            }
        });
    }
    out
}

/// Admits at most so many units of a request, and of what is left in each cluster at most one of `parts`: what is bound
/// already, then what is bound nowhere.
pub(crate) fn admit_one(
    request: &Request,
    most: u64,
    parts: u64,
    rooms: &mut Rooms,
    route: &impl Route,
) -> Admission {
    let (unit, terms) = (request.unit, rooms.terms_now(request.job, request.terms));
    let count = rooms.pool_count(request.pool, terms, unit);
    let count = count.min(request.room).min(most);
    let more = spread_over(request, count, parts, rooms);
    for (slice, n) in request.slices.iter().zip(&more) {
        rooms.take_cluster(&slice.cluster, terms.side, unit, *n);
    }
    let bound = more.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    let unbound = count.saturating_sub(bound).min(request.unbound);
    let bind = if unbound > 0 {
        route.route(request, unbound, parts, rooms)
    } else {
        Vec::new()
    };
    for (cluster, n) in &bind {
        rooms.take_cluster(cluster, terms.side, unit, *n);
    }
    let more = request.slices.iter().zip(more).filter(|(_, n)| *n > 0);
    let out = Admission {
        job: request.job,
        group: request.group.clone(),
        more: more.map(|(s, n)| (s.cluster.clone(), s.generation, n)).collect(),
        bind,
    };
    let total = out.total();
    rooms.take(request.pool, terms, unit, total);
    if total > 0 {
        rooms.begin(request.pool, request.job, terms);
    }
    out
}

/// Admits a group into room that is held for `n` of it at a cluster: as many as have it by now. The rest of that room is nobody else's.
#[must_use]
pub fn admit_held(request: &Request, cluster: &ClusterId, n: u64, rooms: &mut Rooms) -> u64 {
    let (unit, terms) = (request.unit, rooms.terms_now(request.job, request.terms));
    let n = n.min(request.room);
    let there = unit.shape.count_in(rooms.cluster(cluster, terms.side, unit));
    let now = n.min(there).min(rooms.pool_count(request.pool, terms, unit));
    rooms.take(request.pool, terms, unit, n);
    if n > 0 {
        rooms.begin(request.pool, request.job, terms);
    }
    rooms.take_cluster(cluster, terms.side, unit, n);
    now
}

/// Gives `most` to the slices one at a time, to the one that has the least, within what each can use and one of `parts` of what its
/// cluster has.
fn spread_over(request: &Request, most: u64, parts: u64, rooms: &Rooms) -> Vec<u64> {
    // Two slices of one group at one cluster share its room: each sees what those before it leave.
    let mut left: BTreeMap<&ClusterId, u64> = BTreeMap::new();
    let takers: Vec<Taker> = request
        .slices
        .iter()
        .map(|slice| {
            let room = left.entry(&slice.cluster).or_insert_with(|| {
                let shape = request.unit.shape;
                let room = rooms.cluster(&slice.cluster, request.terms.side, request.unit);
                shape.count_in(room) / parts.max(1)
            });
            let n = slice.more.min(*room);
            *room -= n;
            Taker {
                weight: 1,
                start: slice.allocated,
                most: slice.allocated.saturating_add(n),
            }
        })
        .collect();
    let filled = fill(most, &takers).into_iter();
    filled.zip(&takers).map(|(n, t)| n - t.start).collect()
}

/// Why a request gets nothing of what an admission has left; where there is room all the same nothing is told.
#[must_use]
pub fn refusals(request: &Request, rooms: &Rooms) -> Vec<Refusal> {
    let waiting = request.slices.iter().filter(|s| s.more > 0);
    let refused = waiting.filter_map(|slice| {
        let reason = if request.room == 0 {
            Reason::new(ReasonCode::MaxRunning)
        } else {
            rooms.refusal(request.pool, request.terms, request.unit, &slice.cluster)?
        };
        Some(Refusal {
            cluster: slice.cluster.clone(),
            generation: slice.generation,
            count: slice.more,
            reason,
        })
    });
    refused.collect()
}

#[cfg(test)]
pub(crate) mod tests;
