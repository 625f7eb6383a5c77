//! What claims are about: who claims, whether he still wants it, what of his room is there, and when a claim is over.

use crate::admission::{Withheld, Withholdings};
use crate::config::Preemption;
use crate::demand::ask::asked;
use crate::demand::slices::lines;
use crate::facts::Facts;
use crate::facts::slice::SliceKey;
use crate::preemption::claims::{ClaimView, Claims};
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport};
use echelon_core_model::{Generation, GroupName, JobId, Span, Timestamp};
use echelon_core_pools::Request;
use std::collections::BTreeSet;

/// What a claim is about: its slices, and what is asked for.
fn claimant(facts: &Facts, view: &ClaimView) -> Option<Claimant> {
    let Claim { job: id, parts, .. } = &view.claim;
    let job = facts.jobs.get(id)?;
    let spec = job.running_spec()?;
    let lines = lines(facts, *id, job);
    let slices = parts.iter().map(|part| {
        let key = SliceKey {
            group: part.group.clone(),
            cluster: view.waits.clone(),
            generation: part.generation,
        };
        let line = lines.iter().find(|l| l.key == key)?;
        let begun = line.count.active;
        Some(Slice {
            wanting: line.count.startable().saturating_sub(begun),
            more: line.count.startable().saturating_sub(line.allocated),
            waiting: line.allocated.saturating_sub(begun),
            key,
        })
    });
    let slices = slices.collect::<Option<Vec<Slice>>>()?;
    let group = spec.group(&slices.first()?.key.group)?;
    Some(Claimant {
        gang: spec.gang.is_some(),
        request: asked(facts, (*id, job), (spec, group), &lines),
        slices,
    })
}

struct Claimant {
    /// All of it begins together.
    gang: bool,
    /// What its group, or gang, asks for, if anything.
    request: Option<Request>,
    slices: Vec<Slice>,
}

struct Slice {
    key: SliceKey,
    /// Instances that are not active and could be.
    wanting: u64,
    /// Of these, how many are not granted.
    more: u64,
    /// Of these, how many are granted.
    waiting: u64,
}

impl Claimant {
    /// For how many instances of each slice that are not granted room is held.
    fn ungranted(&self, told: &ClaimReport) -> Vec<(&SliceKey, u64)> {
        let of = |slice: &Slice| {
            let open = told.open_of(&slice.key.group, slice.key.generation);
            open.saturating_sub(slice.waiting).min(slice.more)
        };
        self.slices.iter().map(|s| (&s.key, of(s))).collect()
    }

    /// Whether there is room for all that a gang asks for.
    fn is_whole(&self, request: &Request, told: &ClaimReport) -> bool {
        let ungranted = self.ungranted(told);
        request.gang.iter().all(|member| {
            let of = |key: &SliceKey| key.group == member.group && key.generation == member.generation;
            ungranted.iter().any(|(key, n)| of(key) && *n >= member.more)
        })
    }

    /// For how many units of each generation capacity is kept.
    fn units(&self, view: &ClaimView, report: Option<&ClaimReport>) -> Vec<(Generation, u64)> {
        // A gang is one unit, which begins at all its slices.
        if self.gang {
            let request = self.request.as_ref();
            let whole = report.is_none_or(|r| request.is_some_and(|request| self.is_whole(request, r)));
            let first = self.slices.first().map(|s| (s.key.generation, u64::from(whole)));
            return first.into_iter().collect();
        }
        match report {
            Some(report) => {
                let all = self.ungranted(report).into_iter();
                all.map(|(key, n)| (key.generation, n)).collect()
            }
            None => {
                let all = self.slices.iter();
                all.map(|s| (s.key.generation, view.asks_for(&s.key).min(s.more)))
                    .collect()
            }
        }
    }

    /// Whether what is held is of no use, since it is not enough for the whole gang.
    fn is_short(&self, told: &ClaimReport) -> bool {
        let asks = self.request.as_ref().filter(|_| self.gang);
        asks.is_some_and(|request| !self.is_whole(request, told))
    }
}

/// The capacity that shards hold for claimants, or that pools keep for them.
pub(crate) fn withheld(facts: &Facts, claims: &Claims) -> Withholdings {
    let mut out = Withholdings {
        capacity: Vec::new(),
        requesting: claims.all.values().map(|view| view.claim.job).collect(),
    };
    // Claims of one claimant at several clusters are about the same capacity of a pool.
    let mut in_pools: BTreeSet<(JobId, &GroupName)> = BTreeSet::new();
    for view in claims.all.values() {
        let report = view.report.as_ref().filter(|r| r.holds_room());
        let group = view.claim.parts.first().map(|p| (view.claim.job, &p.group));
        let mut is_first = || group.is_some_and(|group| in_pools.insert(group));
        let is_held = report.is_some() || view.keeps_quota() && is_first();
        let Some(claimant) = is_held.then(|| claimant(facts, view)).flatten() else {
            continue;
        };
        let units = claimant.units(view, report);
        if let Some(request) = claimant.request {
            out.capacity.push(Withheld {
                request,
                cluster: view.waits.clone(),
                units,
            });
        }
    }
    out
}

/// A request for capacity that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRequest {
    /// Its id.
    pub id: ClaimId,
    /// The job that it was for.
    pub job: JobId,
    /// Nothing came of it.
    pub in_vain: bool,
}

/// Ends requests that are met, not wanted any more, refused or too old.
pub(crate) fn expire(
    facts: &Facts,
    claims: &mut Claims,
    now: Timestamp,
    rules: Preemption,
) -> Vec<EndedRequest> {
    let mut out = Vec::new();
    // Whether it has come to nothing, if it ends.
    let ends = |view: &ClaimView| {
        let said = view.report.as_ref();
        let met = view.is_met();
        let claimant = claimant(facts, view);
        let unwanted = claimant
            .as_ref()
            .is_none_or(|c| c.slices.iter().all(|s| s.wanting == 0));
        let on_hosts = said.filter(|_| view.claim.quota.is_none());
        let short = on_hosts.is_some_and(|told| claimant.is_some_and(|c| c.is_short(told)));
        let wanted_there = facts
            .clusters
            .get(&view.cluster)
            .is_some_and(|c| c.takes_grants());
        let over = met || unwanted || short || !wanted_there || now >= view.since.plus(rules.patience);
        over.then_some(short || !view.had_room)
    };
    let over: Vec<(ClaimId, bool)> = claims
        .all
        .iter()
        .filter_map(|(id, v)| Some((*id, ends(v)?)))
        .collect();
    for (id, in_vain) in over {
        let Some(view) = claims.all.remove(&id) else {
            continue;
        };
        let job = view.claim.job;
        out.push(EndedRequest { id, job, in_vain });
        let first = view.claim.parts.first();
        let key = first.map(|part| (view.claim.job, part.group.clone()));
        if let Some(key) = key {
            if in_vain {
                let tries = claims.refused.get(&key).map_or(0, |(_, tries)| *tries);
                let wait = rules.after.0.saturating_mul(1 << tries.min(5));
                claims
                    .refused
                    .insert(key, (now.plus(Span(wait)), tries.saturating_add(1)));
            } else {
                claims.refused.remove(&key);
            }
        }
        claims.untold.insert(view.cluster);
    }
    let lives = |id: &JobId| facts.jobs.get(id).is_some_and(|j| j.running_spec().is_some());
    claims
        .refused
        .retain(|(job, _), (until, _)| lives(job) && now < until.plus(rules.patience));
    let starved: BTreeSet<JobId> = claims.refused.keys().map(|(job, _)| *job).collect();
    claims.holders.retain(|(job, _), _| starved.contains(job));
    // What was more than a minute's counts over as many minutes.
    let counts = |n: u64| Span::minutes(n.div_ceil(rules.a_minute.max(1)).max(1));
    claims.taken.retain(|(at, n)| now.since(*at) < counts(*n));
    out
}
