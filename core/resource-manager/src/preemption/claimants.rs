//! What claims are about: who claims, whether he still wants it, what of his room is there, and when a claim is over.

use crate::config::Preemption;
use crate::demand::ask::asked;
use crate::demand::slices::lines;
use crate::facts::slice::SliceKey;
use crate::picture::Picture;
use crate::preemption::claims::ClaimView;
use echelon_core_model::claim::{Claim, ClaimId, ClaimReport};
use echelon_core_model::{Generation, GroupName, JobId, Span, Timestamp};
use echelon_core_pools::{Admission, Request, Rooms, admit_held};
use std::collections::BTreeSet;

/// What a claim is about: its slices, and what is asked for.
fn claimant(picture: &Picture, view: &ClaimView) -> Option<Claimant> {
    let Claim { job: id, parts, .. } = &view.claim;
    let job = picture.jobs.get(id)?;
    let spec = job.running_spec()?;
    let lines = lines(picture, *id, job);
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
        request: asked(picture, (*id, job), (spec, group), &lines),
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

    /// Whether what is held is of no use, since it is not enough for the whole gang.
    fn is_short(&self, told: &ClaimReport) -> bool {
        let asks = self.request.as_ref().filter(|_| self.gang);
        asks.is_some_and(|request| !self.is_whole(request, told))
    }
}

/// Admits claimants into the room that is made for them, as far as it is there, and sets the rest of it aside.
pub(crate) fn admit_claims(picture: &Picture, rooms: &mut Rooms) -> Vec<Admission> {
    let mut out = Vec::new();
    // Claims of one claimant at several clusters are about the same room in a pool.
    let mut in_pools: BTreeSet<(JobId, &GroupName)> = BTreeSet::new();
    for view in picture.claims.all.values() {
        let told = view.report.as_ref().filter(|r| r.holds_room());
        let group = view.claim.parts.first().map(|p| (view.claim.job, &p.group));
        let mut is_first = || group.is_some_and(|group| in_pools.insert(group));
        let held = told.is_some() || view.keeps_quota() && is_first();
        let Some(claimant) = held.then(|| claimant(picture, view)).flatten() else {
            continue;
        };
        let Some(request) = &claimant.request else {
            continue;
        };
        // A gang is one unit, which begins at all its slices.
        let units: Vec<(Generation, u64)> = match told {
            _ if claimant.gang => {
                let whole = told.is_none_or(|told| claimant.is_whole(request, told));
                let first = claimant.slices.first();
                first
                    .map(|s| (s.key.generation, u64::from(whole)))
                    .into_iter()
                    .collect()
            }
            Some(told) => {
                let all = claimant.ungranted(told).into_iter();
                all.map(|(key, n)| (key.generation, n)).collect()
            }
            None => {
                let all = claimant.slices.iter();
                all.map(|s| (s.key.generation, view.asks_for(&s.key).min(s.more)))
                    .collect()
            }
        };
        let wanted = units.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
        let mut left = admit_held(request, &view.waits, wanted, rooms);
        let mut more = Vec::new();
        for (generation, n) in units {
            let n = n.min(left);
            left -= n;
            more.extend((n > 0).then(|| (view.waits.clone(), generation, n)));
        }
        let admission = Admission {
            job: request.job,
            group: request.group.clone(),
            more,
            bind: Vec::new(),
        };
        let admitted = request.groups_of(admission).into_iter();
        out.extend(admitted.filter(|a| a.total() > 0));
    }
    out
}

/// Lets go of claims that are met, not wanted any more, refused or too old.
pub(crate) fn tidy(picture: &mut Picture, now: Timestamp, rules: Preemption) {
    let mut claims = std::mem::take(&mut picture.claims);
    // Whether it has come to nothing, if it ends.
    let ends = |view: &ClaimView| {
        let said = view.report.as_ref();
        let met = view.is_met();
        let claimant = claimant(picture, view);
        let unwanted = claimant
            .as_ref()
            .is_none_or(|c| c.slices.iter().all(|s| s.wanting == 0));
        let on_hosts = said.filter(|_| view.claim.quota.is_none());
        let short = on_hosts.is_some_and(|told| claimant.is_some_and(|c| c.is_short(told)));
        let wanted_there = picture
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
    let lives = |id: &JobId| picture.jobs.get(id).is_some_and(|j| j.running_spec().is_some());
    claims
        .refused
        .retain(|(job, _), (until, _)| lives(job) && now < until.plus(rules.patience));
    let starved: BTreeSet<JobId> = claims.refused.keys().map(|(job, _)| *job).collect();
    claims.holders.retain(|(job, _), _| starved.contains(job));
    // What was more than a minute's counts over as many minutes.
    let counts = |n: u64| Span::minutes(n.div_ceil(rules.a_minute.max(1)).max(1));
    claims.taken.retain(|(at, n)| now.since(*at) < counts(*n));
    picture.claims = claims;
}
