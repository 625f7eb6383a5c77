//! Backfill reservations of waiting gangs. At each cluster the first gang in order of admission that fits
//! inside the entitlement of its pool, and of every pool above, gets a capacity hold. It gets one only when
//! there is a time by which enough of what is in its way has certainly ended. Computed once a second.

use crate::admission::router::Router;
use crate::demand::ask::ask;
use crate::demand::ledger::Ledger;
use crate::demand::request::{PoolRef, pool_of};
use crate::division::Entitled;
use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use echelon_core_model::{ClusterId, JobId, Resources, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Hold, Request, Rooms, Side, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// Most gangs that are looked at.
const LOOKS: usize = 64;

/// Capacity that is certain to be free by a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    at: Timestamp,
    cluster: ClusterId,
    /// Its pool and those above.
    pools: Vec<PoolIdx>,
    room: Resources,
}

/// What is found for waiting gangs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GangHolds {
    /// Their capacity holds.
    pub(crate) holds: Vec<Hold>,
    /// Gangs for which no capacity is certain to become free.
    pub(crate) blocked: BTreeSet<JobId>,
}

/// The capacity holds of the gangs that wait now. `first` is what pools are entitled to. `rooms` has the
/// remaining capacity.
pub(crate) fn holds(
    router: &Router<'_>,
    first: &Entitled,
    rooms: &Rooms,
    requesting: &BTreeSet<JobId>,
) -> GangHolds {
    let (facts, ledger) = (router.facts(), router.ledger());
    let gangs = waiting(ledger);
    let mut out = GangHolds::default();
    if gangs.is_empty() {
        return out;
    }
    let endings = endings(facts, ledger);
    let mut taken: BTreeSet<ClusterId> = BTreeSet::new();
    for turn in gangs {
        let Some(request) = ask(facts, router.candidates().limits(), turn).filter(|r| !r.gang.is_empty())
        else {
            continue;
        };
        // Where preemption makes capacity for a gang, the preemption request already has a hold.
        if requesting.contains(&turn.job) {
            continue;
        }
        let bound = request.slices.iter().map(|s| s.cluster.clone());
        let places: BTreeSet<ClusterId> = bound.chain(router.all_places(&request)).collect();
        if !is_entitled(facts, first, &request) || places.iter().all(|c| taken.contains(c)) {
            continue;
        }
        let open = places.iter().filter(|c| !taken.contains(*c));
        let found = open.map(|c| (c, hold((facts, first, rooms), &endings, (turn, &request, c))));
        let found: Vec<(&ClusterId, Found)> = found.collect();
        if found.iter().any(|(_, f)| matches!(f, Found::Room)) {
            continue;
        }
        let dated = found.into_iter().filter_map(|(c, f)| match f {
            Found::Hold(hold) => Some((c, hold)),
            Found::Room | Found::Nothing => None,
        });
        // Of several clusters the one where all of it can begin first.
        match dated.min_by_key(|(_, hold)| hold.until) {
            None => drop(out.blocked.insert(turn.job)),
            Some((cluster, hold)) => {
                taken.insert(cluster.clone());
                out.holds.push(hold);
            }
        }
    }
    out
}

/// Gangs that wait, in order of admission.
fn waiting(ledger: &Ledger) -> Vec<&Turn> {
    let gangs = ledger.queue().gangs();
    let gangs = gangs.filter(|(like, _)| like.terms.side == Side::Ordinary);
    let turns: BTreeSet<&Turn> = gangs.flat_map(|(_, line)| line.turns()).collect();
    turns.into_iter().take(LOOKS).collect()
}

/// Whether all of it fits into what its pool, and every pool above, is entitled to.
fn is_entitled(facts: &FederationFacts, first: &Entitled, request: &Request) -> bool {
    let mut pools = chain(facts, request.pool).filter(|i| *i != echelon_core_pools::hierarchy::ROOT);
    pools.all(|i| request.unit.shape.fits(first.ordinary.amount(i)))
}

fn chain(facts: &FederationFacts, pool: PoolIdx) -> impl Iterator<Item = PoolIdx> + '_ {
    std::iter::once(pool).chain(facts.hierarchy.above(pool))
}

/// What runs and is certain to end, in order of time.
fn endings(facts: &FederationFacts, ledger: &Ledger) -> Vec<Ending> {
    let mut out = Vec::new();
    for id in ledger.dated() {
        let job = facts.jobs.get(id).and_then(|j| Some((j, j.spec.as_deref()?)));
        let Some((job, spec)) = job.filter(|(_, spec)| !spec.revocable) else {
            continue;
        };
        let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
            continue;
        };
        for (key, _) in job.slices() {
            let SliceKey { group, cluster, .. } = &key;
            let report = facts.report(*id, &key);
            let group = spec.group(group);
            let ends = report.zip(group).and_then(|(report, group)| {
                let at = report.last_begun?.plus(group.lasts(spec.kind)?);
                (report.active > 0).then(|| (at, group.room().times(report.active)))
            });
            out.extend(ends.map(|(at, room)| Ending {
                at,
                cluster: cluster.clone(),
                pools: chain(facts, pool).collect(),
                room,
            }));
        }
    }
    out.sort_by_key(|e| e.at);
    out
}

enum Found {
    /// It lacks nothing: it is about to be admitted.
    Room,
    /// What ends is not enough.
    Nothing,
    Hold(Hold),
}

/// What a gang still lacks in a cluster or a pool, and what its hold takes of it.
#[derive(Clone, Copy)]
struct Lack {
    lacks: Resources,
    keep: Resources,
}

impl Lack {
    fn new(need: Resources, left: Resources) -> Self {
        Self {
            lacks: need.minus(left),
            keep: need,
        }
    }

    fn ends(&mut self, room: Resources) {
        self.lacks = self.lacks.minus(room);
        self.keep = self.keep.minus(room);
    }
}

/// The capacity hold of a gang at a cluster, if it needs one and can have one.
fn hold(
    (facts, first, rooms): (&FederationFacts, &Entitled, &Rooms),
    endings: &[Ending],
    (turn, request, cluster): (&Turn, &Request, &ClusterId),
) -> Found {
    let need = request.unit.shape;
    let mut there = Lack::new(need, rooms.cluster(cluster, Side::Ordinary, request.unit));
    let mut pools: BTreeMap<PoolIdx, Lack> = chain(facts, request.pool)
        .map(|i| {
            let limit = facts.hierarchy.pool(i).map_or(Resources::MAX, |p| p.limit);
            let most = first.ordinary.amount(i).min_each(limit);
            (i, Lack::new(need, most.minus(rooms.taken(i).0)))
        })
        .collect();
    let met = |there: &Lack, pools: &BTreeMap<PoolIdx, Lack>| {
        there.lacks.is_zero() && pools.values().all(|l| l.lacks.is_zero())
    };
    if met(&there, &pools) {
        return Found::Room;
    }
    for ending in endings {
        if ending.cluster == *cluster {
            there.ends(ending.room);
        }
        for pool in &ending.pools {
            if let Some(of_pool) = pools.get_mut(pool) {
                of_pool.ends(ending.room);
            }
        }
        if met(&there, &pools) {
            // In the cluster and in its own pool, the hold takes all that the gang needs. Pools above also
            // have capacity for other gangs at other clusters. There the hold takes only what will not have
            // become free by then.
            let of_pool = |(i, l): (PoolIdx, Lack)| (i, if i == request.pool { need } else { l.keep });
            return Found::Hold(Hold {
                turn: turn.clone(),
                cluster: cluster.clone(),
                in_cluster: need,
                host_pool: request.unit.host_pool,
                in_pools: pools.into_iter().map(of_pool).collect(),
                until: ending.at,
            });
        }
    }
    Found::Nothing
}
