//! Preemption candidates. A slice may lose only what its pool, and every pool above it that is not above
//! the requesting group, has beyond what preemption enforces for it. An instance that would fit whole inside
//! that is never taken. Within the pool of the requesting group a slice may lose all it has, if its priority
//! is less. A gang is preempted whole, as one instance as large as all of it, and only where single instances
//! do not suffice.

use crate::admission::second_round::EnforcedAmounts;
use crate::demand::entry::sums::Sums;
use crate::demand::ledger::Ledger;
use crate::demand::request::{PoolRef, pool_of};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use crate::preemption::PreemptionInputs;
use echelon_core_model::claim::Victim;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Kind, Resources};
use echelon_core_pools::Request;
use echelon_core_pools::hierarchy::PoolIdx;
use std::collections::{BTreeMap, BTreeSet};

/// Most slices that one preemption request names.
const VICTIMS: usize = 4_096;
/// Most jobs that are looked at for all requests that are made at once, once a second.
const LOOKS: usize = 100_000;

/// The preemption candidates, while requests are made.
pub(crate) struct VictimCandidates<'a> {
    known: PreemptionInputs<'a>,
    enforced: EnforcedAmounts<'a>,
    /// What each pool has, granted or active.
    has: Vec<Resources>,
    /// What each pool will have when all is gone that was offered.
    staying: Vec<Resources>,
    /// What `staying` was before what is offered since the last request, the last change at the end.
    changes: Vec<(PoolIdx, Resources)>,
    /// How many more jobs may be looked at.
    looks: usize,
    /// What of a cluster will be free when all that is being preempted there is gone.
    leaving: BTreeMap<ClusterId, Resources>,
}

/// What is lacking, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lacking<'a> {
    /// The cluster where instances are to be stopped.
    pub(crate) cluster: &'a ClusterId,
    pub(crate) room: Resources,
    /// Up to so much more is offered, so that the shard has a choice.
    pub(crate) choice: Resources,
    /// What may be stopped.
    pub(crate) from: VictimSource,
}

/// What may be stopped for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VictimSource {
    /// Work of pools that have more than their own.
    Surplus,
    /// The same, as far as it is below a pool that lacks capacity.
    SurplusBelow(PoolIdx),
    /// Work of the group's own pool with a priority that is less than this.
    OwnPool(u32),
}

impl VictimSource {
    /// Whether a candidate's rank allows it.
    const fn takes(self, rank: (bool, u32)) -> bool {
        let (_, priority) = rank;
        match self {
            Self::Surplus | Self::SurplusBelow(_) => true,
            Self::OwnPool(below) => priority < below,
        }
    }
}

/// What may be taken for a preemption request.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    pub(crate) victims: Vec<Victim>,
    /// Instances in all.
    pub(crate) most: u64,
    /// How many of them make up for what is lacking, where hosts have the right shape.
    pub(crate) needed: u64,
    /// The fewest that can be stopped: all of a gang where nothing else is offered.
    pub(crate) fewest: u64,
    /// The capacity of these.
    pub(crate) reached: Resources,
    /// How many of these release what is lacking beside what is being released already, when the first are
    /// taken first. `None` when all of them do not.
    pub(crate) enough: Option<u64>,
}

impl Offered {
    /// Adds what is offered at one more cluster for what is still lacking.
    pub(crate) fn add(&mut self, next: &Self) {
        self.most = self.most.saturating_add(next.most);
        self.needed = self.needed.saturating_add(next.needed);
        self.fewest = self.fewest.saturating_add(next.fewest);
        self.reached = self.reached.plus(next.reached);
        self.enough = next.enough.map(|_| self.needed);
    }
}

impl<'a> VictimCandidates<'a> {
    pub(crate) fn new(known: PreemptionInputs<'a>, enforced: EnforcedAmounts<'a>) -> Self {
        let has = sums(known, |sums| sums.allocated);
        Self {
            known,
            enforced,
            has,
            staying: staying(known),
            changes: Vec::new(),
            looks: LOOKS,
            leaving: BTreeMap::new(),
        }
    }

    /// Whether more jobs may be looked at.
    pub(crate) const fn may_look(&self) -> bool {
        self.looks > 0
    }

    /// What was offered is part of a request.
    pub(crate) fn commit(&mut self) {
        self.changes.clear();
    }

    /// What was offered since the last request is offered no more.
    pub(crate) fn roll_back(&mut self) {
        while let Some((pool, had)) = self.changes.pop() {
            if let Some(staying) = self.staying.get_mut(pool) {
                *staying = had;
            }
        }
    }

    /// What of a pool's capacity is about to be free.
    pub(crate) fn going(&self, pool: PoolIdx) -> Resources {
        let of = |all: &[Resources]| all.get(pool).copied().unwrap_or_default();
        of(&self.has).minus(of(&self.staying))
    }

    /// What a pool will have when all is gone that was offered or is being stopped.
    pub(crate) fn stays(&self, pool: PoolIdx) -> Resources {
        self.staying.get(pool).copied().unwrap_or_default()
    }

    /// The rank of the first preemption candidate at a cluster, of those in some pools.
    pub(crate) fn first_at(&self, cluster: &ClusterId, pools: &BTreeSet<PoolIdx>) -> Option<(bool, u32)> {
        let mut losers = self.known.ledger.losers(cluster, |pool| pools.contains(&pool));
        losers.next().map(|(_, rank, _)| rank)
    }

    /// The pools that may lose something.
    fn pools_of(&self, request: &Request, from: VictimSource) -> BTreeSet<PoolIdx> {
        match from {
            VictimSource::Surplus => self.with_surplus(request, None),
            VictimSource::SurplusBelow(pool) => self.with_surplus(request, Some(pool)),
            VictimSource::OwnPool(_) => BTreeSet::from([request.pool]),
        }
    }

    /// The pools that have more than their own.
    pub(crate) fn with_surplus(&self, request: &Request, below: Option<PoolIdx>) -> BTreeSet<PoolIdx> {
        let hierarchy = &self.known.facts.hierarchy;
        let others = hierarchy.indexes().filter(|i| *i != request.pool);
        let is_below = |i: &PoolIdx| below.is_none_or(|below| hierarchy.above(*i).any(|a| a == below));
        let with_more = others.filter(|i| !self.surplus(*i).is_zero());
        with_more.filter(is_below).collect()
    }

    /// The candidates for what is lacking.
    pub(crate) fn offer(&mut self, request: &Request, lacks: Lacking<'_>) -> Offered {
        let known = self.known;
        let Lacking {
            cluster, room, from, ..
        } = lacks;
        let above: BTreeSet<PoolIdx> = chain(known.facts, request.pool).collect();
        let pools = self.pools_of(request, from);
        // What is leaving pools is counted where they lack something.
        let lacking_then = if request.gang.is_empty() || from != VictimSource::Surplus {
            room
        } else {
            room.minus(self.leaving(cluster))
        };
        let mut tally = Tally {
            from,
            above,
            lacking: room,
            lacking_then,
            wanted: room.plus(lacks.choice),
            out: Offered::default(),
            reached: Resources::ZERO,
            needed: 0,
            fewest: None,
            class: 0,
            last: None,
        };
        let mut gangs = Vec::new();
        let candidates = known.ledger.losers(cluster, |pool| pools.contains(&pool));
        for (pool, rank, id) in candidates.filter(|(_, rank, _)| from.takes(*rank)) {
            if self.looks == 0 || tally.is_enough() {
                break;
            }
            self.looks -= 1;
            if known.facts.jobs.get(&id).is_some_and(is_gang) {
                gangs.push((pool, rank, id));
                continue;
            }
            tally.rank((false, rank));
            for (victim, room) in slices(known.facts, id, cluster) {
                let n = victim.most.min(self.may_go(&tally, pool, room));
                // What is offered to one is offered to nothing else.
                let n = n.min(enough(tally.wanted.minus(tally.reached), room));
                let victim = Victim { most: n, ..victim };
                tally.needed += enough(tally.short(), room).min(n);
                tally.fewest = tally.fewest.or((n > 0).then_some(1));
                self.take(&mut tally, pool, vec![victim], room.times(n));
            }
        }
        for (pool, rank, id) in gangs {
            if tally.is_enough() {
                break;
            }
            tally.rank((true, rank));
            if let Some((victims, room)) = whole(known.facts, id, cluster)
                && self.may_go(&tally, pool, room) > 0
            {
                if !tally.short().is_zero() {
                    tally.needed += victims.iter().map(|v| v.most).sum::<u64>();
                }
                let all = victims.iter().map(|v| v.most).sum();
                tally.fewest = Some(tally.fewest.unwrap_or(all).min(all));
                self.take(&mut tally, pool, victims, room);
            }
        }
        tally.out.needed = tally.needed;
        tally.out.fewest = tally.fewest.unwrap_or_default();
        let enough = tally.short().is_zero();
        tally.out.enough = enough.then_some(tally.needed);
        tally.out.reached = tally.reached;
        tally.out
    }

    /// How many instances of this size may be stopped until nothing useful of what
    /// pools have is beyond their own.
    fn may_go(&self, tally: &Tally, pool: PoolIdx, room: Resources) -> u64 {
        if matches!(tally.from, VictimSource::OwnPool(_)) {
            return u64::MAX;
        }
        // Kinds of which the requesting group lacks some here, and of which this would release some.
        let useful = room.min_each(tally.lacking).kinds();
        let between = tally.between(self.known.facts, pool);
        let beyond = between.map(|i| beyond(self.surplus(i), room, useful));
        beyond.min().unwrap_or(0)
    }

    /// Offers some instances, which release so much capacity in all.
    fn take(&mut self, tally: &mut Tally, pool: PoolIdx, victims: Vec<Victim>, gone: Resources) {
        let between: Vec<PoolIdx> = tally.between(self.known.facts, pool).collect();
        for i in between {
            if let Some(has) = self.staying.get_mut(i) {
                self.changes.push((i, *has));
                *has = has.minus(gone);
            }
        }
        tally.add(victims, gone);
    }

    /// What of a cluster will be free when all that is being preempted there is gone.
    /// Some of it may be held for other requests, which its shard knows.
    fn leaving(&mut self, cluster: &ClusterId) -> Resources {
        if let Some(known) = self.leaving.get(cluster) {
            return *known;
        }
        let known = self.known;
        let view = known.facts.clusters.get(cluster);
        let reports = view.into_iter().flat_map(|v| &v.reports);
        let leaves = reports.filter(|(_, report)| report.preempting > 0);
        let rooms = leaves.filter_map(|((job, group, _), report)| {
            let (spec, group) = known.facts.group(*job, group)?;
            Some(ordinary(known.facts, spec, group.room()).times(report.preempting))
        });
        let sum = rooms.fold(Resources::ZERO, Resources::plus);
        self.leaving.insert(cluster.clone(), sum);
        sum
    }

    /// What a pool has beyond what it is entitled to.
    fn surplus(&self, pool: PoolIdx) -> Resources {
        self.stays(pool).minus(self.enforced.amount(pool))
    }
}

/// What is offered so far.
#[derive(Debug)]
struct Tally {
    from: VictimSource,
    /// The requesting group's pool and those above it.
    above: BTreeSet<PoolIdx>,
    /// What the requesting group lacks now, and what it lacks when all is gone that is being stopped already.
    lacking: Resources,
    lacking_then: Resources,
    /// How much is to be offered.
    wanted: Resources,
    out: Offered,
    reached: Resources,
    needed: u64,
    fewest: Option<u64>,
    class: u32,
    last: Option<(bool, (bool, u32))>,
}

impl Tally {
    fn is_enough(&self) -> bool {
        self.out.victims.len() >= VICTIMS || self.wanted.fits(self.reached)
    }

    /// Those of another rank are another class: gangs are worth more than all others.
    fn rank(&mut self, rank: (bool, (bool, u32))) {
        self.class += u32::from(self.last.replace(rank).is_some_and(|last| last != rank));
    }

    /// The pools from a victim's up to the one that is above the requesting group, too.
    fn between<'a>(
        &'a self,
        facts: &'a FederationFacts,
        pool: PoolIdx,
    ) -> impl Iterator<Item = PoolIdx> + 'a {
        chain(facts, pool).take_while(|i| !self.above.contains(i))
    }

    /// What is still lacking.
    fn short(&self) -> Resources {
        self.lacking_then.minus(self.reached)
    }

    fn add(&mut self, victims: Vec<Victim>, gone: Resources) {
        let count: u64 = victims.iter().map(|v| v.most).sum();
        if count == 0 {
            return;
        }
        self.reached = self.reached.plus(gone);
        self.out.most = self.out.most.saturating_add(count);
        let class = self.class;
        self.out
            .victims
            .extend(victims.into_iter().map(|v| Victim { class, ..v }));
    }
}

fn chain(facts: &FederationFacts, pool: PoolIdx) -> impl Iterator<Item = PoolIdx> + '_ {
    std::iter::once(pool).chain(facts.hierarchy.above(pool))
}

fn is_gang(job: &JobView) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.gang.is_some())
}

/// What each pool will have, with those below it, when all that is being stopped is gone.
/// What unanswered requests may take counts as gone, too.
pub(crate) fn staying(known: PreemptionInputs<'_>) -> Vec<Resources> {
    let mut out = sums(known, |sums| sums.allocated.minus(sums.leaving));
    let unanswered = known.requests.all.values().filter(|c| c.report.is_none());
    for claim in unanswered {
        for victim in &claim.claim.victims {
            let Some((spec, group)) = known.facts.group(victim.job, &victim.group) else {
                continue;
            };
            if let PoolRef::Known(pool) = pool_of(known.facts, &spec.pool) {
                let gone = ordinary(known.facts, spec, group.room()).times(victim.most);
                change(&mut out, known.facts, pool, |sum| sum.minus(gone));
            }
        }
    }
    out
}

/// What each pool has, with those below it.
fn sums(known: PreemptionInputs<'_>, which: impl Fn(Sums) -> Resources) -> Vec<Resources> {
    let mut out = vec![Resources::ZERO; known.facts.hierarchy.len()];
    for (pool, of) in known.ledger.known() {
        let of = which(of.sums().ordinary);
        change(&mut out, known.facts, pool, |sum| sum.plus(of));
    }
    out
}

fn change(
    sums: &mut [Resources],
    facts: &FederationFacts,
    pool: PoolIdx,
    by: impl Fn(Resources) -> Resources,
) {
    for i in chain(facts, pool) {
        if let Some(sum) = sums.get_mut(i) {
            *sum = by(*sum);
        }
    }
}

/// Ordinary capacity of one instance: without what it takes of revocable capacity.
fn ordinary(facts: &FederationFacts, spec: &JobSpec, room: Resources) -> Resources {
    if spec.revocable {
        room.minus(room.lent_part(facts.lent_kinds()))
    } else {
        room
    }
}

/// How many instances of this size may be stopped until the next one would fit whole inside the pool's own:
/// until nothing useful is beyond it any more.
fn beyond(surplus: Resources, room: Resources, useful: Resources) -> u64 {
    let of = |kind: Kind| match (room.get(kind), useful.get(kind)) {
        (0, _) | (_, 0) => 0,
        (one, _) => surplus.get(kind).div_ceil(one),
    };
    Kind::ALL.into_iter().map(of).max().unwrap_or(0)
}

/// How many instances of this size release what is lacking, of the kinds that they have.
fn enough(lacking: Resources, room: Resources) -> u64 {
    beyond(lacking, room, room.min_each(lacking).kinds())
}

/// What of a job could be preempted at a cluster: each slice, with the ordinary capacity of one instance.
/// Nothing of a service is, where its `max_unavailable` is all at other clusters: its shard would stop none
/// of it, whatever else could have been offered.
fn slices(facts: &FederationFacts, id: JobId, cluster: &ClusterId) -> Vec<(Victim, Resources)> {
    let view = facts.clusters.get(cluster);
    let job = facts.jobs.get(&id).and_then(|j| Some((j, j.spec.as_deref()?)));
    let (Some(view), Some((job, spec))) = (view, job) else {
        return Vec::new();
    };
    let slice = |((_, group, generation), report): (&(JobId, GroupName, Generation), &SliceReport)| {
        let key = SliceKey {
            group: group.clone(),
            cluster: cluster.clone(),
            generation: *generation,
        };
        let staying = report.active.saturating_sub(report.preempting);
        let granted = job.grants.get(&key).map_or(staying, |g| g.granted());
        let part = view.words.get(&(id, group.clone())).map_or(0, |w| w.part);
        let may_lose = spec.kind == JobKind::Batch || part > 0;
        let victim = Victim {
            job: id,
            group: group.clone(),
            generation: *generation,
            most: if may_lose { staying.min(granted) } else { 0 },
            class: 0,
        };
        Some((victim, ordinary(facts, spec, spec.group(group)?.room())))
    };
    view.reports_of(id).filter_map(slice).collect()
}

/// How many instances of some pools free at least so much of a cluster, those that are stopped first counted first.
pub(crate) fn instances_that_free(
    known: (&FederationFacts, &Ledger),
    cluster: &ClusterId,
    pools: &BTreeSet<PoolIdx>,
    lacking: Resources,
) -> u64 {
    let (facts, ledger) = known;
    let (mut left, mut count) = (lacking, 0u64);
    for (_, _, id) in ledger.losers(cluster, |pool| pools.contains(&pool)) {
        if left.is_zero() {
            break;
        }
        for (victim, room) in slices(facts, id, cluster) {
            let n = enough(left, room).min(victim.most);
            left = left.minus(room.times(n));
            count = count.saturating_add(n);
        }
    }
    count
}

/// All that is active of a gang, with the ordinary capacity of all of it.
/// `None` unless it is all at one cluster and nothing of it is being stopped already.
fn whole(facts: &FederationFacts, id: JobId, cluster: &ClusterId) -> Option<(Vec<Victim>, Resources)> {
    let others = facts.clusters.iter().filter(|(c, _)| *c != cluster);
    let mut elsewhere = others.flat_map(|(_, view)| view.reports_of(id));
    let view = facts.clusters.get(cluster)?;
    let active: u64 = view.reports_of(id).map(|(_, r)| r.active).sum();
    let mut of_gang = slices(facts, id, cluster);
    of_gang.retain(|(victim, _)| victim.most > 0);
    let offered: u64 = of_gang.iter().map(|(victim, _)| victim.most).sum();
    if active == 0 || offered != active || elsewhere.any(|(_, r)| r.active > 0) {
        return None;
    }
    let room = of_gang.iter().fold(Resources::ZERO, |sum, (victim, room)| {
        sum.plus(room.times(victim.most))
    });
    Some((of_gang.into_iter().map(|(victim, _)| victim).collect(), room))
}
