//! The groups that preemption requests are for: what they still need, what capacity is held for them,
//! and when a request is over.

use crate::admission::second_round::EnforcedAmounts;
use crate::admission::{RequestedCapacity, WithheldCapacity};
use crate::config::Preemption;
use crate::demand::ask::asked;
use crate::demand::ledger::Ledger;
use crate::demand::moving::arrived_ungranted;
use crate::demand::request::{PoolRef, pool_of};
use crate::demand::slices::lines;
use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use crate::preemption::PreemptionInputs;
use crate::preemption::requests::{OpenRequest, PreemptionRequests};
use crate::preemption::victims::staying as staying_in_pools;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart};
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Resources, Span, Timestamp};
use echelon_core_pools::Request;
use echelon_core_pools::hierarchy::ROOT;
use std::collections::{BTreeMap, BTreeSet};

/// What a preemption request is for: the slices, and what they ask for.
/// `None` once a slice is gone, or the pool is not in the tree any more.
fn claimant(facts: &FederationFacts, id: JobId, waits: &ClusterId, parts: &[ClaimPart]) -> Option<Claimant> {
    let job = facts.jobs.get(&id)?;
    let spec = job.running_spec()?;
    if let PoolRef::Unknown(_) = pool_of(facts, &spec.pool) {
        return None;
    }
    let lines = lines(facts, id, job);
    let slices = parts.iter().map(|part| {
        let key = SliceKey {
            group: part.group.clone(),
            cluster: waits.clone(),
            generation: part.generation,
        };
        let line = lines.iter().find(|l| l.key == key)?;
        let begun = line.count.on_hosts();
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
        request: asked(facts, (id, job), (spec, group), &lines),
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
    /// Instances that have no run and could have one.
    wanting: u64,
    /// Of these, how many are not granted.
    more: u64,
    /// Of these, how many are granted.
    waiting: u64,
}

impl Claimant {
    /// For how many instances of each slice capacity is held, beyond those that are granted.
    fn ungranted(&self, open: &[ClaimPart]) -> Vec<(&SliceKey, u64)> {
        let of = |slice: &Slice| {
            let open = count_of(open, &slice.key);
            open.saturating_sub(slice.waiting).min(slice.more)
        };
        self.slices.iter().map(|s| (&s.key, of(s))).collect()
    }

    /// Whether there is capacity for all that a gang asks for.
    fn is_whole(&self, request: &Request, open: &[ClaimPart]) -> bool {
        let ungranted = self.ungranted(open);
        request.gang.iter().all(|member| {
            let of = |key: &SliceKey| key.group == member.group && key.generation == member.generation;
            ungranted.iter().any(|(key, n)| of(key) && *n >= member.more)
        })
    }

    /// For how many units of each generation capacity is held.
    /// `open`: what shards hold on hosts. `None`: pools hold it.
    fn units(&self, parts: &[ClaimPart], open: Option<&[ClaimPart]>) -> Vec<(Generation, u64)> {
        // A gang is one unit, which begins at all its slices.
        if self.gang {
            let request = self.request.as_ref();
            let whole = open.is_none_or(|open| request.is_some_and(|request| self.is_whole(request, open)));
            let first = self.slices.first().map(|s| (s.key.generation, u64::from(whole)));
            return first.into_iter().collect();
        }
        match open {
            Some(open) => {
                let all = self.ungranted(open).into_iter();
                all.map(|(key, n)| (key.generation, n)).collect()
            }
            None => {
                let all = self.slices.iter();
                all.map(|s| (s.key.generation, count_of(parts, &s.key).min(s.more)))
                    .collect()
            }
        }
    }

    /// Whether the capacity hold is of no use, since it is not enough for the whole gang.
    fn is_short(&self, open: &[ClaimPart]) -> bool {
        let asks = self.request.as_ref().filter(|_| self.gang);
        asks.is_some_and(|request| !self.is_whole(request, open))
    }
}

/// The capacity hold of one group or gang, by one preemption request or several.
struct KeptCapacity<'a> {
    claim: &'a Claim,
    waits: &'a ClusterId,
    parts: Vec<ClaimPart>,
    /// What shards hold on hosts; `None`: pools hold it.
    open: Option<Vec<ClaimPart>>,
}

/// The capacity that shards or pools hold for preemption requests, and what is kept for instances that move.
pub(crate) fn withheld(
    facts: &FederationFacts,
    ledger: &Ledger,
    claims: &PreemptionRequests,
) -> RequestedCapacity {
    let mut kept: Vec<KeptCapacity<'_>> = Vec::new();
    // Requests of one group at several clusters are about the same capacity of a pool.
    // Those at one cluster are about parts of its capacity.
    let mut in_pools: BTreeSet<(JobId, &GroupName)> = BTreeSet::new();
    let mut on_hosts: BTreeMap<(JobId, &ClusterId, &GroupName), usize> = BTreeMap::new();
    for view in claims.all.values() {
        let report = view.report.as_ref().filter(|r| r.holds_room());
        let Some(first) = view.claim.parts.first() else {
            continue;
        };
        let job = view.claim.job;
        let mut is_first = || in_pools.insert((job, &first.group));
        if !(report.is_some() || view.keeps_quota() && is_first()) {
            continue;
        }
        let open = report.map(|r| r.open.as_slice());
        let before = open.and_then(|_| on_hosts.get(&(job, &view.claim.waits, &first.group)));
        if let (Some(more), Some(before)) = (open, before.and_then(|i| kept.get_mut(*i))) {
            add(&mut before.parts, &view.claim.parts);
            before.open.iter_mut().for_each(|open| add(open, more));
            continue;
        }
        if open.is_some() {
            on_hosts.insert((job, &view.claim.waits, &first.group), kept.len());
        }
        kept.push(KeptCapacity {
            claim: &view.claim,
            waits: &view.claim.waits,
            parts: view.claim.parts.clone(),
            open: open.map(<[ClaimPart]>::to_vec),
        });
    }
    let mut out = RequestedCapacity {
        capacity: Vec::new(),
        requesting: claims.all.values().map(|view| view.claim.job).collect(),
    };
    for KeptCapacity {
        claim,
        waits,
        parts,
        open,
    } in kept
    {
        let Some(claimant) = claimant(facts, claim.job, waits, &parts) else {
            continue;
        };
        let units = claimant.units(&parts, open.as_deref());
        if let Some(request) = claimant.request {
            out.capacity.push(WithheldCapacity {
                request,
                cluster: waits.clone(),
                units,
            });
        }
    }
    out.capacity.extend(withheld_for_the_arrived(facts, ledger));
    out
}

/// The capacity for what a drain has moved here, and that is not granted yet.
fn withheld_for_the_arrived(facts: &FederationFacts, ledger: &Ledger) -> Vec<WithheldCapacity> {
    let arrived = arrived_ungranted(facts, ledger).into_iter();
    let withheld = arrived.filter_map(|(id, key, count)| {
        let parts = [ClaimPart {
            group: key.group,
            generation: key.generation,
            count,
        }];
        let claimant = claimant(facts, id, &key.cluster, &parts)?;
        Some(WithheldCapacity {
            units: claimant.units(&parts, None),
            request: claimant.request?,
            cluster: key.cluster,
        })
    });
    withheld.collect()
}

/// Adds counts, by group and generation.
fn add(sum: &mut Vec<ClaimPart>, parts: &[ClaimPart]) {
    for part in parts {
        let same = |p: &&mut ClaimPart| (&p.group, p.generation) == (&part.group, part.generation);
        match sum.iter_mut().find(same) {
            Some(of) => of.count = of.count.saturating_add(part.count),
            None => sum.push(part.clone()),
        }
    }
}

/// For how many instances of a slice parts are.
fn count_of(parts: &[ClaimPart], key: &SliceKey) -> u64 {
    let of = |p: &&ClaimPart| (&p.group, p.generation) == (&key.group, key.generation);
    parts.iter().find(of).map_or(0, |p| p.count)
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

/// Notes since when groups could not use the capacity that shards or pools hold for them.
/// Their pool, or one above it, leaves nothing for a unit, even when all is gone that is being stopped.
/// Its entitlement has become less since the request was made, or less could be stopped at once than it lacks.
/// If that lasts, the request ends, and what the pool lacks is requested.
pub(crate) fn note_unusable(
    known: PreemptionInputs<'_>,
    enforced: EnforcedAmounts<'_>,
    now: Timestamp,
) -> BTreeMap<ClaimId, Timestamp> {
    let mut staying: Option<Vec<Resources>> = None;
    let mut leaves_nothing = |request: &Request| {
        let staying = staying.get_or_insert_with(|| staying_in_pools(known));
        let facts = known.facts;
        let chain = std::iter::once(request.pool).chain(facts.hierarchy.above(request.pool));
        chain.filter(|i| *i != ROOT).any(|i| {
            let (limit, given) = known.admission.rooms.bounds(i);
            let most = limit.min_each(given.max_each(enforced.amount(i)));
            let has = staying.get(i);
            has.is_some_and(|has| !request.unit.shape.fits(most.minus(*has)))
        })
    };
    let mut out = BTreeMap::new();
    for (id, view) in &known.requests.all {
        let claim = &view.claim;
        let open = match (&claim.quota, &view.report) {
            (Some(_), _) if view.keeps_quota() => &claim.parts,
            (None, Some(report)) if report.holds_room() => &report.open,
            _ => continue,
        };
        let Some(claimant) = claimant(known.facts, claim.job, &claim.waits, &claim.parts) else {
            continue;
        };
        let waits = claimant.ungranted(open).iter().any(|(_, n)| *n > 0);
        if waits && claimant.request.as_ref().is_some_and(&mut leaves_nothing) {
            out.insert(*id, view.unusable_since.unwrap_or(now));
        }
    }
    out
}

/// Ends requests that are met, not wanted or usable any more, refused or too old.
pub(crate) fn expire(
    facts: &FederationFacts,
    claims: &mut PreemptionRequests,
    now: Timestamp,
    rules: Preemption,
) -> Vec<EndedRequest> {
    let mut out = Vec::new();
    // Whether it has come to nothing, if it ends.
    let ends = |view: &OpenRequest| {
        let said = view.report.as_ref();
        let met = view.is_met();
        let claimant = claimant(facts, view.claim.job, &view.claim.waits, &view.claim.parts);
        let unwanted = claimant
            .as_ref()
            .is_none_or(|c| c.slices.iter().all(|s| s.wanting == 0));
        let on_hosts = said.filter(|_| view.claim.quota.is_none());
        let short = on_hosts.is_some_and(|told| claimant.is_some_and(|c| c.is_short(&told.open)));
        let wanted_there = facts
            .clusters
            .get(&view.cluster)
            .is_some_and(|c| c.takes_grants());
        let unusable = view
            .unusable_since
            .is_some_and(|since| now >= since.plus(rules.after));
        let too_old = now >= view.since.plus(rules.patience);
        let over = met || unwanted || short || unusable || too_old || !wanted_there;
        over.then_some(short || !view.had_room)
    };
    let over: Vec<(ClaimId, bool)> = claims
        .all
        .iter()
        .filter_map(|(id, v)| Some((*id, ends(v)?)))
        .collect();
    for (id, in_vain) in over {
        let Some(view) = claims.remove(id) else {
            continue;
        };
        let job = view.claim.job;
        out.push(EndedRequest { id, job, in_vain });
        let first = view.claim.parts.first();
        let key = first.map(|part| (view.claim.job, part.group.clone()));
        if let Some(key) = key {
            if view.claim.keeps_host {
                // What was kept for long without effect is free for other work as long.
                if in_vain || now >= view.since.plus(rules.patience) {
                    claims.kept_in_vain.insert(key, now.plus(rules.patience));
                }
            } else if in_vain {
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
    claims.kept_in_vain.retain(|_, until| *until > now);
    let starved: BTreeSet<JobId> = claims.refused.keys().map(|(job, _)| *job).collect();
    claims.holders.retain(|(job, _), _| starved.contains(job));
    claims.taken.retain(|(at, _)| now.since(*at) < Span::minutes(1));
    out
}
