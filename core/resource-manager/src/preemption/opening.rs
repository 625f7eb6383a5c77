//! Opens preemption requests: what was planned is bound where it is bound nowhere, and sent.

use crate::admission::LastAdmission;
use crate::admission::binding::bind;
use crate::admission::second_round::EnforcedAmounts;
use crate::config::Preemption;
use crate::demand::ledger::Ledger;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use crate::preemption::capacity_left::UNBOUND;
use crate::preemption::claimants::note_unusable;
use crate::preemption::planner::{PlannedRequest, plan};
use crate::preemption::requests::PreemptionRequests;
use crate::preemption::starved::note;
use crate::preemption::{PreemptionInputs, PreemptionReport};
use echelon_core_model::claim::{ClaimId, ClaimPart};
use echelon_core_model::{ClusterId, GroupName, JobId, Span, Timestamp};
use std::collections::BTreeMap;

/// Within this time a shard that is reached answers a preemption request.
const ANSWERED: Span = Span::seconds(2);

/// The slices of the group, or gang, that a preemption request is for.
struct BoundClaimant {
    /// All of them.
    parts: Vec<ClaimPart>,
    /// Those that were bound for this request.
    fresh: Vec<ClaimPart>,
}

/// When and by what rules requests are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestRules<'a> {
    /// What pools are entitled to.
    pub(crate) first: &'a Entitled,
    pub(crate) preemption: Preemption,
    pub(crate) now: Timestamp,
}

/// Decides for what capacity is made now: for what is starved, and for what finds no host.
/// Binds what is bound nowhere.
pub(crate) fn open_requests(
    facts: &mut FederationFacts,
    ledger: &Ledger,
    admission: &LastAdmission,
    requests: &mut PreemptionRequests,
    by: RequestRules<'_>,
    name: impl FnMut() -> ClaimId,
    report: &mut PreemptionReport,
) {
    let RequestRules {
        first,
        preemption: rules,
        now,
    } = by;
    let before = std::mem::take(&mut requests.starved);
    let known = PreemptionInputs {
        facts,
        ledger,
        admission,
        requests,
    };
    let (starved, changed) = note(known, before, now);
    requests.starved = starved;
    report.changed.extend(&changed);
    report.starved = changed;
    let known = PreemptionInputs {
        facts,
        ledger,
        admission,
        requests,
    };
    let enforced = EnforcedAmounts {
        first,
        sustained: &admission.sustained,
    };
    let unusable = note_unusable(known, enforced, now);
    let plan = plan(known, first, &rules, now, name);
    for (id, view) in &mut requests.all {
        view.unusable_since = unusable.get(id).copied();
    }
    report.budget_left = plan.budget_left;
    requests.holders.extend(plan.holders);
    report
        .changed
        .extend(plan.unplaced.changed_since(&requests.unplaced));
    requests.unplaced = plan.unplaced;
    // What shards have not answered yet may be less than they were offered: the rest is there in a moment.
    let mut unanswered = requests.all.values().filter(|c| c.report.is_none());
    let may_be_left = !plan.requests.is_empty() || unanswered.next().is_some();
    let wait = if may_be_left {
        ANSWERED.min(rules.after)
    } else {
        rules.after
    };
    for key in plan.in_vain {
        report.changed.insert(key.0);
        let tries = requests.refused.get(&key).map_or(0, |(_, tries)| *tries);
        requests.refused.insert(key.clone(), (now.plus(wait), tries));
        report.in_vain.push(key);
    }
    // A group that lacks capacity in a pool and takes from several clusters is bound once for all of them.
    let mut bound: BTreeMap<(JobId, ClusterId, Vec<GroupName>), BoundClaimant> = BTreeMap::new();
    for mut made in plan.requests {
        let groups = made.claim.parts.iter().map(|p| p.group.clone()).collect();
        let key = (made.claim.job, made.claim.waits.clone(), groups);
        let of_claimant = bound.entry(key).or_insert_with(|| bind_claimant(facts, &made));
        if made.claim.parts.iter().any(|p| p.generation == UNBOUND) {
            report.changed.insert(made.claim.job);
            made.claim.parts.clone_from(&of_claimant.parts);
        }
        report.requested.push(made.claim.id);
        requests.add(made, of_claimant.fresh.clone(), now);
    }
}

/// Binds a group that is bound nowhere where capacity is made for it, without a grant.
fn bind_claimant(facts: &mut FederationFacts, made: &PlannedRequest) -> BoundClaimant {
    let id = made.claim.job;
    let parts = made.claim.parts.iter();
    let (free, there): (Vec<&ClaimPart>, Vec<&ClaimPart>) = parts.partition(|p| p.generation == UNBOUND);
    let mut parts: Vec<ClaimPart> = there.into_iter().cloned().collect();
    let mut fresh = Vec::new();
    if let Some(mut job) = (!free.is_empty()).then(|| facts.jobs.lend(&id)).flatten() {
        if let Some(spec) = job.running() {
            for part in free {
                let shares = [(made.claim.waits.clone(), part.count)];
                let bound = bind(id, &mut job, &spec, &part.group, &shares).into_iter();
                fresh.extend(bound.map(|(key, count)| ClaimPart {
                    group: key.group,
                    generation: key.generation,
                    count,
                }));
            }
        }
        facts.jobs.give_back(id, job, true);
    }
    parts.extend(fresh.iter().cloned());
    BoundClaimant { parts, fresh }
}
