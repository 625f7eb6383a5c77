//! Capacity holds of waiting units. A unit is one instance, or all of a gang. It gets a hold when it would fit
//! inside the entitlement of its pool, and of every pool above, before all work of its pool that comes after
//! it. Of each pool the first such unit in order of admission gets one at a cluster. Computed once a second.
//!
//! A hold has a date when enough of what is in its way has certainly ended by then. Otherwise it has none, and
//! ends after a while, so that capacity is not kept for ever for what may not come. A gang gets a hold without
//! a date only when it is starved.
//!
//! Capacity ends up in a hold only if work that ends is not replaced. So batch work of the same pool that
//! comes after the unit runs down while the hold lacks something: nothing of it that ends is replaced. So does
//! batch work of pools that have more than they may use. Nothing is stopped, and it goes on once the unit has
//! its capacity.

use crate::admission::router::Router;
use crate::admission::second_round::EnforcedAmounts;
use crate::demand::ask::ask;
use crate::demand::ledger::Ledger;
use crate::demand::request::{PoolRef, pool_of};
use crate::demand::slices::{is_replaced, lines};
use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::{ClusterId, JobId, Kind, Resources, Span, Timestamp};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{ClusterIdx, Hold, Request, Rooms, Side, Turn};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most units that are looked at.
const LOOKS: usize = 64;
/// Most jobs that run down for one hold.
const RUN_DOWN: usize = 4_096;
/// Most jobs of which the end is looked at. A hold that needs others has no date.
const ENDINGS: usize = 10_000;

/// What holds go by.
#[derive(Clone, Copy)]
pub(crate) struct HoldInputs<'a> {
    pub(crate) router: &'a Router<'a>,
    /// What preemption enforces for pools.
    pub(crate) enforced: EnforcedAmounts<'a>,
    /// The capacity that this admission left.
    pub(crate) rooms: &'a Rooms,
    /// Jobs for which preemption makes capacity. That is held by the preemption request.
    pub(crate) requesting: &'a BTreeSet<JobId>,
    /// Pools in which something is starved.
    pub(crate) starved: &'a BTreeSet<PoolIdx>,
    pub(crate) now: Timestamp,
    /// How long a hold without a date lasts, and how long until the next one for the same unit.
    pub(crate) undated_for: Span,
}

/// What is found for waiting units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FoundHolds {
    /// Their capacity holds.
    pub(crate) holds: Vec<Hold>,
    /// Gangs for which no capacity is certain to become free, and none is kept.
    pub(crate) blocked: BTreeSet<JobId>,
    /// Slices of which nothing that ends is replaced.
    pub(crate) run_down: BTreeSet<(JobId, SliceKey)>,
    /// Clusters, in order of id, where pools have more than they are entitled to.
    pub(crate) surplus_at: BTreeSet<ClusterIdx>,
}

/// Since when units have had, or have been refused, holds without a date.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UndatedHolds(BTreeMap<Turn, Timestamp>);

impl UndatedHolds {
    /// Whether a unit may have one now: it has one for `lasts`, then none for as long.
    fn may_have(&mut self, turn: &Turn, now: Timestamp, lasts: Span) -> bool {
        let since = self.0.entry(turn.clone()).or_insert(now);
        if now.since(*since).0 >= lasts.0.saturating_mul(2) {
            *since = now;
        }
        now.since(*since) < lasts
    }
}

/// The capacity holds of the units that wait now.
pub(crate) fn holds(inputs: HoldInputs<'_>, undated: &mut UndatedHolds) -> FoundHolds {
    let (facts, ledger) = (inputs.router.facts(), inputs.router.ledger());
    let mut known = BTreeSet::new();
    let waiting = waiting(ledger, inputs.starved, |turn| {
        if undated.0.contains_key(turn) {
            known.insert(turn);
        }
    });
    undated.0.retain(|turn, _| known.contains(turn));
    let surplus = surplus(facts, inputs.enforced, inputs.rooms);
    let mut search = HoldSearch {
        inputs,
        endings: if waiting.is_empty() {
            Vec::new()
        } else {
            endings(facts, ledger)
        },
        surplus_in_all: surplus.values().fold(Resources::ZERO, |all, of| all.plus(*of)),
        surplus,
        rooms: inputs.rooms.clone(),
        owed: BTreeMap::new(),
        owed_in: BTreeMap::new(),
        taken: BTreeSet::new(),
        running_down: RunningDown::default(),
        found: FoundHolds::default(),
    };
    for (turn, is_starved) in waiting {
        let request = ask(facts, inputs.router.candidates().limits(), turn);
        let Some(request) = request.filter(|r| is_starved || !r.gang.is_empty()) else {
            continue;
        };
        if !inputs.requesting.contains(&turn.job) {
            search.look(turn, &request, is_starved, undated);
        }
    }
    search.found.surplus_at = surplus_at(inputs);
    search.found
}

/// Clusters where pools have more than they are entitled to. What the second round gives protects nothing
/// from the first.
fn surplus_at(inputs: HoldInputs<'_>) -> BTreeSet<ClusterIdx> {
    let (facts, ledger) = (inputs.router.facts(), inputs.router.ledger());
    let entitled = |pool: PoolIdx| inputs.enforced.first.ordinary.amount(pool);
    let pools = facts.hierarchy.indexes().filter(|pool| *pool != ROOT);
    let surplus = pools.map(|pool| (pool, inputs.rooms.taken(pool).0.minus(entitled(pool))));
    let beyond: BTreeMap<PoolIdx, Resources> = surplus.filter(|(_, more)| !more.is_zero()).collect();
    if beyond.is_empty() {
        return BTreeSet::new();
    }
    let clusters = facts.clusters.keys().enumerate();
    // A part of an instance cannot be preempted.
    let holds_one = |pool: PoolIdx, job: JobId| {
        let (Some(more), Some(view)) = (beyond.get(&pool), facts.jobs.get(&job)) else {
            return false;
        };
        let groups = view.spec.iter().flat_map(|spec| &spec.groups);
        groups
            .map(GroupSpec::room)
            .any(|unit| has_whole_unit(*more, unit))
    };
    let with_more = clusters.filter(|(_, cluster)| ledger.may_lose(cluster, holds_one));
    with_more.map(|(i, _)| i).collect()
}

/// Whether a surplus holds as much of a kind as an instance takes.
fn has_whole_unit(surplus: Resources, unit: Resources) -> bool {
    let holds = |kind: Kind| unit.get(kind) > 0 && surplus.get(kind) >= unit.get(kind);
    Kind::ALL.into_iter().any(holds)
}

/// The first units that may get a hold, in order of admission, with whether each is starved: gangs, and the
/// first of each equivalence class that is starved. Of all that may get one calls `each`.
fn waiting<'a>(
    ledger: &'a Ledger,
    starved: &BTreeSet<PoolIdx>,
    mut each: impl FnMut(&'a Turn),
) -> BTreeMap<&'a Turn, bool> {
    let queue = ledger.queue();
    let gangs = queue.gangs();
    let gangs = gangs.filter(|(like, _)| like.terms.side == Side::Ordinary);
    let gangs = gangs.flat_map(|(_, line)| line.turns().map(|turn| (turn, line.starved.is_some())));
    let pools = starved.iter().filter_map(|pool| queue.lines_of(*pool));
    let classes = pools.flat_map(|lines| lines.iter().filter(|(_, line)| line.starved.is_some()));
    let heads = classes.filter_map(|(_, line)| Some((line.turns().next()?, true)));
    let mut first = BTreeMap::new();
    for (turn, is_starved) in gangs.chain(heads) {
        each(turn);
        first.insert(turn, is_starved);
        if first.len() > LOOKS {
            first.pop_last();
        }
    }
    first
}

/// What each pool has beyond what it may use, after both rounds.
fn surplus(
    facts: &FederationFacts,
    enforced: EnforcedAmounts<'_>,
    rooms: &Rooms,
) -> BTreeMap<PoolIdx, Resources> {
    let of = |pool: PoolIdx| {
        let (_, given) = rooms.bounds(pool);
        let may_use = enforced.amount(pool).max_each(given);
        (pool, rooms.taken(pool).0.minus(may_use))
    };
    let pools = facts.hierarchy.indexes().filter(|pool| *pool != ROOT).map(of);
    pools.filter(|(_, beyond)| !beyond.is_zero()).collect()
}

fn chain(facts: &FederationFacts, pool: PoolIdx) -> impl Iterator<Item = PoolIdx> + '_ {
    std::iter::once(pool).chain(facts.hierarchy.above(pool))
}

/// Work that is certain to end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    at: Timestamp,
    cluster: ClusterId,
    /// Its pool and those above.
    pools: Vec<PoolIdx>,
    capacity: Resources,
    /// Its place in the order of admission.
    order: (Reverse<u32>, JobId),
    /// What ends is replaced, unless it runs down.
    is_replaced: bool,
}

/// What runs and is certain to end, in order of time.
fn endings(facts: &FederationFacts, ledger: &Ledger) -> Vec<Ending> {
    let mut out = Vec::new();
    for id in ledger.dated().iter().take(ENDINGS) {
        let job = facts.jobs.get(id).and_then(|j| Some((j, j.spec.as_deref()?)));
        let Some((job, spec)) = job.filter(|(_, spec)| !spec.revocable) else {
            continue;
        };
        let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
            continue;
        };
        for line in lines(facts, *id, job) {
            let group = spec.group(&line.key.group);
            let ends = line.report.as_deref().zip(group).and_then(|(report, group)| {
                let at = report.last_begun?.plus(group.lasts(spec.kind)?);
                (report.active > 0).then(|| (at, group.room().times(report.active)))
            });
            out.extend(ends.map(|(at, capacity)| Ending {
                at,
                cluster: line.key.cluster.clone(),
                pools: chain(facts, pool).collect(),
                capacity,
                order: (Reverse(spec.precedence()), *id),
                is_replaced: is_replaced(spec, &line),
            }));
        }
    }
    out.sort_by_key(|e| e.at);
    out
}

/// What a unit still lacks in a cluster or a pool, and what its hold takes of it.
#[derive(Clone, Copy)]
struct Lack {
    lacks: Resources,
    keep: Resources,
}

impl Lack {
    /// `owed`: what earlier holds lack there. They get it first.
    fn new(need: Resources, owed: Resources, left: Resources) -> Self {
        Self {
            lacks: need.plus(owed).minus(left),
            keep: need,
        }
    }

    fn ends(&mut self, capacity: Resources) {
        self.lacks = self.lacks.minus(capacity);
        self.keep = self.keep.minus(capacity);
    }
}

/// What a unit lacks at a cluster, and in its pool and those above.
#[derive(Clone)]
struct Shortage {
    there: Lack,
    pools: BTreeMap<PoolIdx, Lack>,
}

impl Shortage {
    fn is_met(&self) -> bool {
        self.there.lacks.is_zero() && self.pools.values().all(|l| l.lacks.is_zero())
    }

    fn ends(&mut self, cluster: &ClusterId, ending: &Ending) {
        if ending.cluster == *cluster {
            self.there.ends(ending.capacity);
        }
        for pool in &ending.pools {
            if let Some(of_pool) = self.pools.get_mut(pool) {
                of_pool.ends(ending.capacity);
            }
        }
    }
}

/// A search for holds, one unit after another.
struct HoldSearch<'a> {
    inputs: HoldInputs<'a>,
    endings: Vec<Ending>,
    surplus: BTreeMap<PoolIdx, Resources>,
    /// That of all pools together.
    surplus_in_all: Resources,
    /// What is left beside the holds that were found.
    rooms: Rooms,
    /// What these still lack, by cluster and by pool.
    owed: BTreeMap<ClusterId, Resources>,
    owed_in: BTreeMap<PoolIdx, Resources>,
    /// Where pools have one.
    taken: BTreeSet<(PoolIdx, ClusterId)>,
    running_down: RunningDown,
    found: FoundHolds,
}

/// What was found to run down.
#[derive(Default)]
struct RunningDown {
    /// The slices of jobs that were looked at of which what ends is replaced.
    replaced: BTreeMap<JobId, Vec<SliceKey>>,
    /// Clusters at which the work of all pools with a surplus of some kinds runs down already, each with 1 of
    /// each of these kinds.
    of_surplus: BTreeSet<(ClusterId, Resources)>,
}

/// A unit that may get a hold at a cluster.
#[derive(Clone, Copy)]
struct HoldPlace<'a> {
    turn: &'a Turn,
    request: &'a Request,
    cluster: &'a ClusterId,
}

impl HoldSearch<'_> {
    /// Looks for a hold for one unit.
    fn look(&mut self, turn: &Turn, request: &Request, is_starved: bool, undated: &mut UndatedHolds) {
        let bound = request.slices.iter().map(|s| s.cluster.clone());
        let places: BTreeSet<ClusterId> = bound.chain(self.inputs.router.all_places(request)).collect();
        let free = |c: &&ClusterId| !self.taken.contains(&(request.pool, (*c).clone()));
        let open: Vec<&ClusterId> = places.iter().filter(free).collect();
        if !self.is_entitled(request) || open.is_empty() {
            return;
        }
        let lacking = open.iter().map(|cluster| {
            let place = HoldPlace {
                turn,
                request,
                cluster,
            };
            (place, self.shortage(place))
        });
        let lacking: Vec<(HoldPlace<'_>, Shortage)> = lacking.collect();
        if lacking.iter().any(|(_, shortage)| shortage.is_met()) {
            // It is about to be admitted.
            return;
        }
        let dated = lacking.iter().filter_map(|(place, shortage)| {
            let (until, then) = self.dated(*place, shortage.clone())?;
            Some((*place, Some(until), then))
        });
        // Of several clusters the one where it can begin first.
        let dated = dated.min_by_key(|(_, until, _)| *until);
        let found = dated.or_else(|| {
            let possible = lacking
                .iter()
                .filter(|(place, shortage)| self.may_end(*place, shortage));
            let first = possible
                .map(|(place, shortage)| (*place, None, shortage.clone()))
                .next();
            let lasts = self.inputs.undated_for;
            first.filter(|_| is_starved && undated.may_have(turn, self.inputs.now, lasts))
        });
        let Some((place, until, then)) = found else {
            if !request.gang.is_empty() {
                self.found.blocked.insert(turn.job);
            }
            return;
        };
        let now = lacking.iter().find(|(p, _)| p.cluster == place.cluster);
        if let Some((_, now)) = now {
            let run_down = run_down(self.inputs, &self.surplus, &mut self.running_down, place, now);
            self.found.run_down.extend(run_down);
            let owed = self.owed.entry(place.cluster.clone()).or_default();
            *owed = owed.plus(request.unit.shape.min_each(now.there.lacks));
            for (pool, lack) in &now.pools {
                let owed = self.owed_in.entry(*pool).or_default();
                *owed = owed.plus(request.unit.shape.min_each(lack.lacks));
            }
        }
        // In the cluster and in its own pool, the hold takes all that the unit needs. Pools above also have
        // capacity for other units at other clusters. There the hold takes only what will not have become
        // free by then.
        let need = request.unit.shape;
        let of_pool = |(i, l): (&PoolIdx, &Lack)| (*i, if *i == request.pool { need } else { l.keep });
        let hold = Hold {
            turn: turn.clone(),
            pool: request.pool,
            cluster: place.cluster.clone(),
            in_cluster: need,
            host_pool: request.unit.host_pool,
            in_pools: then.pools.iter().map(of_pool).collect(),
            until,
        };
        drop(self.rooms.keep(&hold));
        self.taken.insert((request.pool, place.cluster.clone()));
        self.found.holds.push(hold);
    }

    /// Whether all of a unit fits into what its pool, and every pool above, is entitled to.
    fn is_entitled(&self, request: &Request) -> bool {
        let mut pools = chain(self.inputs.router.facts(), request.pool).filter(|i| *i != ROOT);
        let amount = |i: PoolIdx| self.inputs.enforced.amount(i);
        pools.all(|i| request.unit.shape.fits(amount(i)))
    }

    fn shortage(&self, place: HoldPlace<'_>) -> Shortage {
        let (request, facts) = (place.request, self.inputs.router.facts());
        let need = request.unit.shape;
        let left = self.rooms.cluster(place.cluster, Side::Ordinary, request.unit);
        let owed = self.owed.get(place.cluster).copied().unwrap_or_default();
        let pools = chain(facts, request.pool).map(|i| {
            let limit = facts.hierarchy.pool(i).map_or(Resources::MAX, |p| p.limit);
            let most = self.inputs.enforced.amount(i).min_each(limit);
            let owed = self.owed_in.get(&i).copied().unwrap_or_default();
            (i, Lack::new(need, owed, most.minus(self.rooms.taken(i).0)))
        });
        Shortage {
            pools: pools.collect(),
            there: Lack::new(need, owed, left),
        }
    }

    /// By when enough has certainly ended, and what the unit lacks beside what has ended then.
    fn dated(&self, place: HoldPlace<'_>, mut shortage: Shortage) -> Option<(Timestamp, Shortage)> {
        for ending in self
            .endings
            .iter()
            .filter(|e| !e.is_replaced || self.runs_down(place, e))
        {
            shortage.ends(place.cluster, ending);
            if shortage.is_met() {
                return Some((ending.at, shortage));
            }
        }
        None
    }

    /// Whether nothing of an ending slice is replaced while a unit has a hold.
    fn runs_down(&self, place: HoldPlace<'_>, ending: &Ending) -> bool {
        let own = ending.pools.first() == Some(&place.request.pool);
        let is_later = ending.order > (place.turn.priority, place.turn.job);
        let beyond = ending
            .pools
            .first()
            .is_some_and(|pool| self.surplus.contains_key(pool));
        own && is_later || !own && beyond
    }

    /// Whether enough of what is in the way may end without being replaced.
    fn may_end(&self, place: HoldPlace<'_>, shortage: &Shortage) -> bool {
        let ledger = self.inputs.router.ledger();
        let (mut there, mut everywhere) = (Resources::ZERO, Resources::ZERO);
        for id in ledger
            .holders_after(place.request.pool, place.turn)
            .take(RUN_DOWN)
        {
            for (cluster, has) in ledger.ordinary_at(id) {
                everywhere = everywhere.plus(has);
                if cluster == *place.cluster {
                    there = there.plus(has);
                }
            }
        }
        // There are very many pools, and usually a few of them have enough.
        for (pool, has) in ledger.held_there(place.cluster) {
            if shortage.there.lacks.fits(there) {
                break;
            }
            let beyond = self.surplus.get(&pool).copied().unwrap_or_default();
            if pool != place.request.pool {
                there = there.plus(has.min_each(beyond));
            }
        }
        let own = shortage.pools.get(&place.request.pool);
        let of_own = self.surplus.get(&place.request.pool).copied().unwrap_or_default();
        let above = everywhere.plus(self.surplus_in_all.minus(of_own));
        shortage.there.lacks.fits(there)
            && own.is_none_or(|own| own.lacks.fits(everywhere))
            && shortage.pools.values().all(|lack| lack.lacks.fits(above))
    }
}

/// The slices that run down for a unit beside those that are known to: of its own pool, what comes after it;
/// of pools that have more than they may use, what could be stopped for others.
fn run_down(
    inputs: HoldInputs<'_>,
    surplus: &BTreeMap<PoolIdx, Resources>,
    known: &mut RunningDown,
    place: HoldPlace<'_>,
    shortage: &Shortage,
) -> BTreeSet<(JobId, SliceKey)> {
    let (facts, ledger) = (inputs.router.facts(), inputs.router.ledger());
    let pool = place.request.pool;
    let pool_lacks = shortage.pools.values().any(|lack| !lack.lacks.is_zero());
    let mut out = BTreeSet::new();
    let own = ledger.holders_after(pool, place.turn);
    for id in own.take(RUN_DOWN) {
        let anywhere = |key: &&SliceKey| pool_lacks || key.cluster == *place.cluster;
        let slices = known.replaced(inputs, id).iter().filter(anywhere);
        out.extend(slices.map(|key| (id, key.clone())));
    }
    let lacks = shortage
        .pools
        .values()
        .fold(shortage.there.lacks, |all, l| all.max_each(l.lacks));
    let above: BTreeSet<PoolIdx> = chain(facts, pool).collect();
    let helps = |beyond: &Resources| !beyond.min_each(lacks).is_zero();
    let own_helps = above.iter().any(|i| surplus.get(i).is_some_and(helps));
    let mut helping: Option<Vec<bool>> = None;
    // Pools above the unit lack something: all clusters help.
    let is_lacking = |i: &PoolIdx| shortage.pools.get(i).is_some_and(|l| !l.lacks.is_zero());
    let pools_above = above.iter().any(|i| *i != pool && *i != ROOT && is_lacking(i));
    let clusters = facts
        .clusters
        .keys()
        .filter(|c| pools_above || *c == place.cluster);
    for cluster in clusters {
        // Units that lack the same kinds at a cluster look at the same work, except at that of their own pool.
        if !own_helps && !known.of_surplus.insert((cluster.clone(), lacks.kinds())) {
            continue;
        }
        let helping = helping.get_or_insert_with(|| {
            let mut pools = vec![false; facts.hierarchy.len()];
            let others = surplus.iter().filter(|(of, _)| !above.contains(of));
            for (of, _) in others.filter(|(_, beyond)| helps(beyond)) {
                if let Some(slot) = pools.get_mut(*of) {
                    *slot = true;
                }
            }
            pools
        });
        let others = ledger.losers(cluster, |of| helping.get(of) == Some(&true));
        for (_, _, id) in others.take(RUN_DOWN) {
            let slices = known.replaced(inputs, id).iter();
            let there = slices.filter(|key| key.cluster == *cluster);
            out.extend(there.map(|key| (id, key.clone())));
        }
    }
    out
}

impl RunningDown {
    /// The slices of a job of which what ends is replaced.
    fn replaced(&mut self, inputs: HoldInputs<'_>, id: JobId) -> &[SliceKey] {
        if !inputs.router.ledger().is_replaced(id) {
            return &[];
        }
        let facts = inputs.router.facts();
        self.replaced.entry(id).or_insert_with(|| replaced(facts, id))
    }
}

/// The slices of a job of which what ends is replaced.
fn replaced(facts: &FederationFacts, id: JobId) -> Vec<SliceKey> {
    let job = facts
        .jobs
        .get(&id)
        .and_then(|job| Some((job, job.spec.as_deref()?)));
    let Some((job, spec)) = job else {
        return Vec::new();
    };
    let all = lines(facts, id, job).into_iter();
    let some = all.filter(|line| is_replaced(spec, line));
    some.map(|line| line.key).collect()
}
