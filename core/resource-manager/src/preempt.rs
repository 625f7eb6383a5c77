//! Preemption as an offer of victims: who has waited in vain for a cluster although what it wants would fit whole inside its pool's
//! entitlement gets a claim there, with the slices whose instances may be taken for it. A slice may lose only what its pool, and
//! every pool above it that is not above the claimant, has beyond its own entitlement: an instance that would fit whole inside
//! of it is never taken. Pure: the same picture gives the same claims.

use crate::division::{Entitled, ask};
use crate::entry::{PoolRef, pool_of};
use crate::holders::{Holders, holders};
use crate::picture::{Picture, SliceKey};
use crate::place::demand;
use crate::room::{Asker, Candidates, Taken};
use echelon_core_model::claim::{Claim, ClaimId, Victim};
use echelon_core_model::cluster::Wish;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Kind, Resources, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Held, Request, Rooms, Side, Turn};
use echelon_core_routing::{Candidate, place_elsewhere};
use std::collections::{BTreeMap, BTreeSet};

/// Most instances for which one claim asks room.
const COUNT: u64 = 64;
/// Most slices that one claim names.
const VICTIMS: usize = 512;
/// Most jobs that are looked at for all claims that are made at once: who may lose something is looked for once a second.
const LOSERS: usize = 20_000;
/// Most groups that are looked at at once.
const LOOKS: usize = 64;

/// How preemption goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// How long a shape has to be starved before room is made for it.
    pub after: Span,
    /// Most instances that are taken in a minute.
    pub a_minute: u64,
    /// Most claims at one cluster at a time.
    pub claims: usize,
    /// How long a claim is kept.
    pub patience: Span,
}

/// Waiting instances that are to go where room can be made for them: nobody may lose anything for them where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) job: JobId,
    pub(crate) key: SliceKey,
    pub(crate) to: ClusterId,
    pub(crate) count: u64,
}

/// What is to be done for those who are starved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remedy {
    pub(crate) claims: Vec<(ClusterId, Claim)>,
    pub(crate) moves: Vec<Move>,
    /// Groups for which nobody may lose anything anywhere: others have their turn.
    pub(crate) in_vain: Vec<(JobId, GroupName)>,
    /// Who has the clusters where they wait.
    pub(crate) holders: BTreeMap<(JobId, GroupName), Holders>,
}

/// What is to be done now. `first` is what pools are entitled to; `name` names claims.
pub(crate) fn remedy(
    picture: &Picture,
    first: &Entitled,
    rules: &Preemption,
    now: Timestamp,
    mut name: impl FnMut() -> ClaimId,
) -> Remedy {
    let starved = starved(picture, rules, now);
    if starved.is_empty() || picture.control.kills_off {
        return Remedy::default();
    }
    let unanswered = picture.claims.all.values().filter(|c| c.report.is_none());
    let under_way: u64 = unanswered.map(|c| c.claim.most).sum();
    let taken: u64 = picture.claims.taken.iter().map(|(_, n)| *n).sum();
    let mut offer = Offer {
        picture,
        first,
        rooms: picture.division.rooms.clone(),
        staying: staying(picture),
        looks: LOSERS,
        budget: rules.a_minute.saturating_sub(taken.saturating_add(under_way)),
        most_claims: rules.claims,
        made: BTreeMap::new(),
    };
    let mut out = Remedy::default();
    let mut in_vain = Vec::new();
    for turn in starved {
        let Some(request) = ask(picture, turn).filter(|r| r.gang.is_empty()) else {
            continue;
        };
        match offer.claim(&request, &mut name) {
            Claimed::Made(cluster, claim) => out.claims.push((cluster, claim)),
            Claimed::NobodyLoses => {
                let lately = picture.claims.moved_lately(&request, now);
                match (!lately).then(|| offer.elsewhere(&request)).flatten() {
                    Some(going) => out.moves.push(going),
                    None => in_vain.push(request),
                }
            }
            Claimed::NotNow => {}
        }
    }
    out.holders = holders(picture, &picture.division.rooms, &in_vain);
    out.in_vain = in_vain.into_iter().map(|r| (r.job, r.group)).collect();
    out
}

/// What became of a wish for a claim.
enum Claimed {
    /// It is to be made.
    Made(ClusterId, Claim),
    /// There is room by now, or a limit is reached: later.
    NotNow,
    /// Nobody may lose anything where it waits.
    NobodyLoses,
}

/// Those that are starved for long enough, in order of admission.
fn starved<'a>(picture: &'a Picture, rules: &Preemption, now: Timestamp) -> Vec<&'a Turn> {
    let long = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) >= rules.after);
    let claims = &picture.claims;
    let refused = claims.refused.iter().filter(|(_, (until, _))| *until > now);
    let mut busy = claims.groups();
    busy.extend(refused.map(|((job, group), _)| (*job, group)));
    let lines = picture.ledger.queue().pools();
    let lines = lines.flat_map(|(_, of_pool)| of_pool.values());
    let starved = lines.filter(|line| long(line.starved)).flat_map(|line| {
        let free = |turn: &&Turn| !busy.contains(&(turn.job, &turn.group));
        line.turns().filter(free).take(LOOKS)
    });
    // The first of all: there may be very many.
    let mut first: BTreeSet<&Turn> = BTreeSet::new();
    for turn in starved {
        first.insert(turn);
        if first.len() > LOOKS {
            first.pop_last();
        }
    }
    first.into_iter().collect()
}

/// What each pool will have, with those below it, when all that is being stopped is gone, and all that may be taken by claims that
/// nobody has answered yet.
fn staying(picture: &Picture) -> Vec<Resources> {
    let mut out = vec![Resources::ZERO; picture.hierarchy.len()];
    let mut change = |pool: PoolIdx, by: &dyn Fn(Resources) -> Resources| {
        for i in std::iter::once(pool).chain(picture.hierarchy.above(pool)) {
            if let Some(sum) = out.get_mut(i) {
                *sum = by(*sum);
            }
        }
    };
    for (pool, of) in picture.ledger.known() {
        let sums = of.sums.ordinary;
        let stays = sums.allocated.minus(sums.leaving);
        change(pool, &|sum| sum.plus(stays));
    }
    let unanswered = picture.claims.all.values().filter(|c| c.report.is_none());
    for claim in unanswered {
        for victim in &claim.claim.victims {
            let Some((spec, group)) = picture.group(victim.job, &victim.group) else {
                continue;
            };
            if let PoolRef::Known(pool) = pool_of(picture, &spec.pool) {
                let gone = ordinary(picture, spec, group.room()).times(victim.most);
                change(pool, &|sum| sum.minus(gone));
            }
        }
    }
    out
}

/// Room of one instance beside what hosts lend.
fn ordinary(picture: &Picture, spec: &JobSpec, room: Resources) -> Resources {
    if spec.revocable {
        room.minus(room.lent_part(picture.lent_kinds()))
    } else {
        room
    }
}

struct Offer<'a> {
    picture: &'a Picture,
    first: &'a Entitled,
    rooms: Rooms,
    staying: Vec<Resources>,
    /// How many more jobs may be looked at.
    looks: usize,
    budget: u64,
    most_claims: usize,
    made: BTreeMap<ClusterId, usize>,
}

impl Offer<'_> {
    /// A claim for one group, at the first of its clusters where somebody may lose something for it.
    fn claim(&mut self, request: &Request, name: &mut impl FnMut() -> ClaimId) -> Claimed {
        let tries = self
            .picture
            .claims
            .refused
            .get(&(request.job, request.group.clone()));
        let reach = 8u64.saturating_mul(8u64.saturating_pow(tries.map_or(0, |(_, n)| *n)));
        let mut out = Claimed::NobodyLoses;
        for slice in &request.slices {
            let under_way = self.picture.claims.at(&slice.cluster).count();
            let made = self.made.get(&slice.cluster).copied().unwrap_or_default();
            let view = self.picture.clusters.get(&slice.cluster);
            let takes = view.is_some_and(|v| v.takes_grants() && v.wish() == Wish::Active);
            if self.budget == 0 || self.looks == 0 || under_way + made >= self.most_claims {
                return Claimed::NotNow;
            }
            if !takes {
                continue;
            }
            let there = self
                .rooms
                .cluster(&slice.cluster, Side::Ordinary, request.unit.shape);
            let count = slice.more.min(self.own_count(request));
            let lacking = request.unit.shape.times(count).minus(there);
            if count == 0 || request.unit.shape.fits(there) {
                out = Claimed::NotNow;
                continue;
            }
            let (victims, most) = self.victims(request, &slice.cluster, lacking, reach);
            if victims.is_empty() {
                continue;
            }
            self.budget -= most;
            *self.made.entry(slice.cluster.clone()).or_default() += 1;
            let promised = request.unit.shape.times(count);
            self.rooms
                .take_pool(request.pool, Held::plain(promised, Resources::ZERO));
            self.rooms.take_cluster(&slice.cluster, Side::Ordinary, promised);
            let pool = self.picture.hierarchy.pool(request.pool);
            let claim = Claim {
                id: name(),
                job: request.job,
                group: request.group.clone(),
                generation: slice.generation,
                pool: pool.map(|p| p.path.clone()).unwrap_or_default(),
                count,
                most,
                victims,
            };
            return Claimed::Made(slice.cluster.clone(), claim);
        }
        out
    }

    /// How many of a group its pool is still entitled to by itself.
    fn own_count(&self, request: &Request) -> u64 {
        let own = self.first.ordinary.amount(request.pool);
        let left = own.minus(self.rooms.taken(request.pool).0);
        request.unit.shape.count_in(left).min(request.room).min(COUNT)
    }

    /// Another cluster that the group may use, where somebody may lose something for it.
    fn elsewhere(&mut self, request: &Request) -> Option<Move> {
        let (spec, group) = self.picture.group(request.job, &request.group)?;
        let slice = request.slices.first()?;
        let count = slice.more.min(self.own_count(request));
        let lacking = request.unit.shape.times(count);
        let here: Vec<ClusterId> = request.slices.iter().map(|s| s.cluster.clone()).collect();
        let candidates = Candidates::new(self.picture, |_| Taken::default());
        for candidate in candidates.of(Asker::of(spec, group)) {
            if here.contains(&candidate.id) || count == 0 {
                continue;
            }
            let before = self.staying.clone();
            let (_, most) = self.victims(request, &candidate.id, lacking, 1);
            self.staying = before;
            let room = Candidate {
                room: request.unit.shape.times(most.min(count)),
                ..candidate.clone()
            };
            let share = place_elsewhere(&demand(request.job, spec, group), count, &here, &[room]);
            if let Some(share) = share.into_iter().find(|s| s.count > 0) {
                return Some(Move {
                    job: request.job,
                    key: SliceKey {
                        group: request.group.clone(),
                        cluster: slice.cluster.clone(),
                        generation: slice.generation,
                    },
                    to: share.cluster,
                    count: share.count,
                });
            }
        }
        None
    }

    /// Who may lose what is lacking, up to `reach` times as much of it, so that the shard has a choice of hosts; and how many at most.
    fn victims(
        &mut self,
        request: &Request,
        cluster: &ClusterId,
        lacking: Resources,
        reach: u64,
    ) -> (Vec<Victim>, u64) {
        let picture = self.picture;
        let chain = |pool| std::iter::once(pool).chain(picture.hierarchy.above(pool));
        let above: BTreeSet<PoolIdx> = chain(request.pool).collect();
        let more: Vec<bool> = picture
            .hierarchy
            .indexes()
            .map(|i| !self.surplus(i).is_zero())
            .collect();
        let has_more = |pool: PoolIdx| pool != request.pool && more.get(pool) == Some(&true);
        let (mut out, mut reached, mut most) = (Vec::new(), Resources::ZERO, 0u64);
        let (mut class, mut last) = (0, None);
        for (pool, rank, id) in picture.ledger.losers(cluster, has_more) {
            if self.looks == 0 || out.len() >= VICTIMS || lacking.times(reach).fits(reached) {
                break;
            }
            self.looks -= 1;
            class += u32::from(last.replace(rank).is_some_and(|last| last != rank));
            for (mut victim, room) in slices(picture, id, cluster) {
                // Kinds of which the claimant lacks some here, and of which this would leave some.
                let useful = room.min_each(lacking).kinds();
                let between: Vec<PoolIdx> = chain(pool).take_while(|i| !above.contains(i)).collect();
                let beyond = between.iter().map(|i| beyond(self.surplus(*i), room, useful));
                victim.most = victim.most.min(beyond.min().unwrap_or(0));
                victim.class = class;
                if victim.most == 0 {
                    continue;
                }
                let gone = room.times(victim.most);
                for i in between {
                    if let Some(has) = self.staying.get_mut(i) {
                        *has = has.minus(gone);
                    }
                }
                reached = reached.plus(gone);
                most = most.saturating_add(victim.most);
                out.push(victim);
            }
        }
        (out, most.min(self.budget))
    }

    /// What a pool has beyond what it is entitled to.
    fn surplus(&self, pool: PoolIdx) -> Resources {
        let has = self.staying.get(pool).copied().unwrap_or_default();
        has.minus(self.first.ordinary.amount(pool))
    }
}

/// How many instances of so much room may go until the next one would fit whole inside what is the pool's own: until nothing
/// useful is beyond it any more.
fn beyond(surplus: Resources, room: Resources, useful: Resources) -> u64 {
    let of = |kind: Kind| match (room.get(kind), useful.get(kind)) {
        (0, _) | (_, 0) => 0,
        (one, _) => surplus.get(kind).div_ceil(one),
    };
    Kind::ALL.into_iter().map(of).max().unwrap_or(0)
}

/// What a job has at a cluster that it could lose: each slice, with the ordinary room of one instance.
fn slices(picture: &Picture, id: JobId, cluster: &ClusterId) -> Vec<(Victim, Resources)> {
    let view = picture.clusters.get(cluster);
    let job = picture.jobs.get(&id).and_then(|j| Some((j, j.spec.as_deref()?)));
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
        let victim = Victim {
            job: id,
            group: group.clone(),
            generation: *generation,
            most: staying.min(granted),
            class: 0,
        };
        Some((victim, ordinary(picture, spec, spec.group(group)?.room())))
    };
    view.reports_of(id).filter_map(slice).collect()
}
