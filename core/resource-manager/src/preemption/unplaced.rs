//! Work that is granted and on no host: pool and cluster have capacity in sum, but no host has enough of it.
//! Where the pool is entitled to what it was granted, capacity is made on real hosts, and the grant stays
//! until that has been tried. Where the pool is not, the reason shows that.

use crate::demand::gangs;
use crate::demand::request::{PoolRef, pool_of, terms_in, unit_of};
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::preemption::PreemptionInputs;
use crate::preemption::starved::LOOKS;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{GroupName, JobId, ReasonCode, Timestamp};
use echelon_core_pools::{Member, Request, SliceRequest, Turn, Unit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A group, or gang, that is granted and finds no host.
#[derive(Debug, Clone)]
pub(crate) struct Unplaced {
    /// What of it is granted, as if it asked for that.
    pub(crate) request: Request,
    /// How important its job is.
    pub(crate) precedence: u32,
    /// Since when no host has capacity.
    pub(crate) since: Timestamp,
}

/// What is known of groups that are granted and find no host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnplacedWork {
    /// For these, capacity is made or may be: their grants stay.
    pub hopeful: BTreeSet<(JobId, GroupName)>,
    /// Why nothing is stopped for the others.
    pub why_not: BTreeMap<(JobId, GroupName), Box<str>>,
}

impl UnplacedWork {
    /// Nothing is stopped for a group now. All groups of a gang wait as one.
    pub(crate) fn give_up(&mut self, request: &Request, why_not: &str) {
        let members = request.gang.iter().map(|m| &m.group);
        let groups = members.chain([&request.group]);
        let keys = groups.map(|group| ((request.job, group.clone()), why_not.into()));
        self.why_not.extend(keys);
    }

    /// Jobs with another text than before.
    pub(crate) fn changed_since(&self, before: &Self) -> BTreeSet<JobId> {
        let all = self.why_not.keys().chain(before.why_not.keys());
        let other = all.filter(|key| self.why_not.get(*key) != before.why_not.get(*key));
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
            Some(Unplaced {
                request,
                precedence: spec.precedence(),
                since,
            })
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
    vec![Unplaced {
        request,
        precedence: spec.precedence(),
        since,
    }]
}

/// How many instances of a slice are granted and not active, and since when no host has capacity for some of
/// them. `None` while its shard does not know the grant.
fn waits(facts: &FederationFacts, id: JobId, job: &JobView, line: &Line) -> Option<(u64, Option<Timestamp>)> {
    let report = facts.report(id, &line.key)?;
    let grant = job
        .grants
        .get(&line.key)
        .filter(|g| report.grant_number >= g.number())?;
    let open = grant.granted().saturating_sub(report.active);
    let granted = open.saturating_add(report.between_runs);
    let mut waiting = report.waiting.iter();
    let homeless = waiting.find(|(r, ..)| r.code == ReasonCode::HostResources);
    let n = homeless.map_or(0, |(_, n, _)| *n).min(granted);
    let is_gang = job.spec.as_ref().is_some_and(|s| s.gang.is_some());
    let n = if is_gang { granted } else { n };
    Some((n, homeless.filter(|_| n > 0).map(|(.., since)| *since)))
}
