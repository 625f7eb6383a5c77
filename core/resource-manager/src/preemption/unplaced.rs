//! Work that is granted and on no host: pool and cluster have capacity in sum, but no host has enough of it.
//! Where the pool is entitled to what it was granted, capacity is made on real hosts, and the grant stays
//! until that has been tried. Where the pool is not, the reason shows that.

use crate::demand::gangs;
use crate::demand::request::{PoolRef, pool_of, terms_in, unit_of};
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::preemption::PreemptionInputs;
use crate::preemption::losers::{Lacking, Offered, VictimSource};
use crate::preemption::preempt::{Claimed, Draft, LOOKS, Made, Offer};
use echelon_core_model::claim::ClaimId;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{GroupName, JobId, ReasonCode, Timestamp};
use echelon_core_pools::{Member, Request, SliceRequest, Turn, Unit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Shown where there is no preemption candidate, or not enough of them for a whole host's capacity.
const NOBODY: &str = "pools that exceed their entitlement leave no host with enough capacity";

/// A group, or gang, that is granted and finds no host.
#[derive(Debug, Clone)]
pub(crate) struct Unplaced {
    /// What of it is granted, as if it asked for that.
    pub(crate) request: Request,
    /// Since when no host has capacity.
    pub(crate) since: Timestamp,
}

/// What is known of groups that are granted and find no host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Homeless {
    /// For these, capacity is made or may be: their grants stay.
    pub hopeful: BTreeSet<(JobId, GroupName)>,
    /// Why nothing is stopped for the others.
    pub words: BTreeMap<(JobId, GroupName), Box<str>>,
}

impl Homeless {
    /// Jobs with another text than before.
    pub(crate) fn told_anew(&self, before: &Self) -> BTreeSet<JobId> {
        let all = self.words.keys().chain(before.words.keys());
        let other = all.filter(|key| self.words.get(*key) != before.words.get(*key));
        other.map(|(job, _)| *job).collect()
    }
}

/// Groups that are granted and find no host, the first in order of admission.
pub(crate) fn unplaced(known: PreemptionInputs<'_>) -> Vec<Unplaced> {
    let mut first: BTreeMap<(Turn, usize), Unplaced> = BTreeMap::new();
    for id in known.ledger.unplaced() {
        let job = known
            .facts
            .jobs
            .get(id)
            .and_then(|j| Some((j, j.running_spec()?)));
        let Some((job, spec)) = job.filter(|(_, spec)| !spec.revocable) else {
            continue;
        };
        for (i, unplaced) in of_job(known.facts, *id, job, spec).into_iter().enumerate() {
            let turn = Turn {
                priority: Reverse(spec.precedence()),
                job: *id,
                group: unplaced.request.group.clone(),
            };
            first.insert((turn, i), unplaced);
            if first.len() > LOOKS {
                first.pop_last();
            }
        }
    }
    first.into_values().collect()
}

/// Of a job, each slice that is granted and finds no host; of a gang all of it, if nothing of it has begun.
fn of_job(facts: &FederationFacts, id: JobId, job: &JobView, spec: &JobSpec) -> Vec<Unplaced> {
    let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
        return Vec::new();
    };
    let lines = lines(facts, id, job);
    let request = |line: &Line, unit: Unit, n: u64, gang: Vec<Member>| Request {
        job: id,
        group: line.key.group.clone(),
        pool,
        terms: terms_in(facts, pool, spec, &lines),
        unit,
        room: n,
        slices: vec![SliceRequest {
            cluster: line.key.cluster.clone(),
            generation: line.key.generation,
            allocated: 0,
            more: n,
        }],
        unbound: 0,
        have: Vec::new(),
        avoid: Vec::new(),
        gang,
    };
    if spec.gang.is_none() {
        let waiting = lines
            .iter()
            .filter_map(|line| Some((line, waits(facts, id, job, line)?)));
        let singles = waiting.filter_map(|(line, (n, since))| {
            let (n, since) = (n, since?);
            let unit = unit_of(facts, spec.group(&line.key.group)?);
            let request = request(line, unit, n, Vec::new());
            Some(Unplaced { request, since })
        });
        return singles.collect();
    }
    let waiting: Option<Vec<_>> = lines.iter().map(|line| waits(facts, id, job, line)).collect();
    let begun = lines
        .iter()
        .any(|l| l.count.active > 0 || l.count.startable() > l.allocated);
    let apart = lines.chunk_by(|a, b| a.key.cluster == b.key.cluster).count() > 1;
    let (Some(waiting), Some(first), false) = (waiting, lines.first(), begun || apart) else {
        return Vec::new();
    };
    let Some(since) = waiting.iter().filter_map(|(_, since)| *since).min() else {
        return Vec::new();
    };
    let member = |(line, (n, _)): (&Line, &(u64, Option<Timestamp>))| Member {
        group: line.key.group.clone(),
        generation: line.key.generation,
        more: *n,
        unbound: 0,
    };
    let members: Vec<Member> = lines
        .iter()
        .zip(&waiting)
        .map(member)
        .filter(|m| m.more > 0)
        .collect();
    let request = request(first, gangs::unit(&facts.host_pools, spec, &members), 1, members);
    vec![Unplaced { request, since }]
}

/// How many instances of a slice are granted and not active, and since when no host has capacity for some of
/// them. `None` while its shard does not know the grant.
fn waits(facts: &FederationFacts, id: JobId, job: &JobView, line: &Line) -> Option<(u64, Option<Timestamp>)> {
    let report = facts.report(id, &line.key)?;
    let grant = job
        .grants
        .get(&line.key)
        .filter(|g| report.grant_number >= g.number())?;
    let granted = grant.granted().saturating_sub(report.active);
    let mut waiting = report.waiting.iter();
    let homeless = waiting.find(|(r, ..)| r.code == ReasonCode::HostResources);
    let n = homeless.map_or(0, |(_, n, _)| *n).min(granted);
    let is_gang = job.spec.as_ref().is_some_and(|s| s.gang.is_some());
    let n = if is_gang { granted } else { n };
    Some((n, homeless.filter(|_| n > 0).map(|(.., since)| *since)))
}

impl Offer<'_> {
    /// Makes preemption requests for groups that are granted and find no host, in so far as the grant is
    /// within their pool's entitlement. Returns them, the groups without candidates,
    /// and what is known of all.
    pub(crate) fn claim_for_unplaced(
        &mut self,
        (waiting, now): (Vec<Unplaced>, Timestamp),
        name: &mut impl FnMut() -> ClaimId,
    ) -> (Vec<Made>, Vec<(JobId, GroupName)>, Homeless) {
        let (mut made, mut in_vain, mut homeless) = (Vec::new(), Vec::new(), Homeless::default());
        let claimed = self.known.requests.groups();
        for Unplaced { request, since } in waiting {
            let key = (request.job, request.group.clone());
            let own = self.own_of_granted(&request);
            // Where nothing could be stopped for a single instance, a host's capacity is kept for it as it ends.
            let is_over = self.known.requests.is_refused(&key, now);
            let is_kept = request.gang.is_empty() && !self.known.requests.is_kept_in_vain(&key, now);
            let why_not = if own == 0 {
                Some(self.beyond_in_words(&request).into())
            } else {
                (is_over && !is_kept).then(|| NOBODY.into())
            };
            if let Some(words) = why_not {
                // All groups of a gang wait as one.
                let members = request.gang.iter().map(|m| (key.0, m.group.clone()));
                let words = |key| (key, Box::<str>::clone(&words));
                homeless.words.extend(members.chain([key.clone()]).map(words));
                continue;
            }
            homeless.hopeful.insert(key.clone());
            let since = self
                .known
                .requests
                .starved
                .since(request.job)
                .map_or(since, |at| at.min(since));
            if now.since(since) < self.rules.after || claimed.contains(&(key.0, &key.1)) {
                continue;
            }
            let claimed = if is_over {
                Claimed::NobodyLoses
            } else {
                self.claim_on_hosts(&request, own, name)
            };
            // While requests are not answered, it is not known what is left to be stopped.
            let is_known = self.are_answered() || now.since(since).0 >= self.rules.after.0.saturating_mul(2);
            let claimed = match claimed {
                Claimed::NobodyLoses if is_kept && is_known => self.keep_host(&request, name),
                claimed => claimed,
            };
            match claimed {
                Claimed::Made(claims) => made.extend(claims),
                Claimed::NobodyLoses => in_vain.push(key),
                Claimed::NotNow => {}
            }
        }
        (made, in_vain, homeless)
    }

    /// How many of those that are granted fit inside what their pool is entitled to.
    fn own_of_granted(&self, request: &Request) -> u64 {
        let unit = request.unit.shape;
        let own = self.enforced.amount(request.pool);
        let others = self.rooms.taken(request.pool).0.minus(unit.times(request.room));
        unit.count_in(own.minus(others)).min(request.room)
    }

    /// What a pool has beyond what it is entitled to.
    fn beyond_in_words(&self, request: &Request) -> String {
        let has = self.rooms.taken(request.pool).0;
        let own = self.enforced.amount(request.pool);
        let path = self.path(request.pool);
        match has.first_lack(own) {
            Some(kind) => {
                let (has, own) = (kind.show(has.get(kind)), kind.show(own.get(kind)));
                format!("no instance is preempted for it: {path} has {has} {kind} and is entitled to {own}")
            }
            None => format!("no instance is preempted for it: {path} has all that it is entitled to"),
        }
    }

    /// What may be stopped for granted units, in this order.
    fn sources(&self, request: &Request) -> Vec<VictimSource> {
        let facts = self.known.facts;
        let within = facts.hierarchy.preempts_within(request.pool) && !self.within.contains(&request.pool);
        let spec = facts.jobs.get(&request.job).and_then(|job| job.spec.as_ref());
        let own = spec
            .filter(|_| within)
            .map(|spec| VictimSource::OwnPool(spec.precedence()));
        std::iter::once(VictimSource::Surplus).chain(own).collect()
    }

    /// Asks a shard to keep one host's capacity for a granted instance, as what is there ends. Nothing is
    /// stopped.
    fn keep_host(&mut self, request: &Request, name: &mut impl FnMut() -> ClaimId) -> Claimed {
        let slice = request.slices.first().filter(|s| self.takes(&s.cluster));
        let Some(slice) = slice.filter(|s| self.may_request_at(&s.cluster)) else {
            return Claimed::NotNow;
        };
        let draft = Draft {
            cluster: slice.cluster.clone(),
            count: 1,
            most: 0,
            victims: Vec::new(),
            quota: None,
            keeps_host: true,
        };
        Claimed::Made(vec![self.make(request, slice, draft, name)])
    }

    /// Makes a preemption request for units that are granted. In sum nothing is lacking:
    /// hosts for all of it are.
    fn claim_on_hosts(&mut self, request: &Request, own: u64, name: &mut impl FnMut() -> ClaimId) -> Claimed {
        let Some(slice) = request.slices.first() else {
            return Claimed::NotNow;
        };
        if !self.may_claim_at(&slice.cluster) || !self.takes(&slice.cluster) {
            return Claimed::NotNow;
        }
        let count = own.min(self.budget);
        let before = self.losers.staying();
        let mut offered = Offered::default();
        for from in self.sources(request) {
            let lacking = Lacking {
                cluster: &slice.cluster,
                room: request.unit.shape.times(count),
                choice: self.choice(request, count),
                from,
            };
            if offered.victims.is_empty() {
                offered = self.losers.offer(request, lacking);
            }
        }
        if offered.victims.is_empty() {
            self.losers.restore(before);
            return Claimed::NobodyLoses;
        }
        let least = offered.needed.div_ceil(count.max(1)).max(offered.fewest);
        let most = self.most(request, Some(least), &offered);
        if least > most {
            self.losers.restore(before);
            return self.save_up();
        }
        let draft = Draft {
            cluster: slice.cluster.clone(),
            count,
            most,
            victims: offered.victims,
            quota: None,
            keeps_host: false,
        };
        Claimed::Made(vec![self.make(request, slice, draft, name)])
    }
}
