//! The preemption planner: shortages, then attempts to make capacity for each, then requests. What was
//! offered to one shortage is offered to no other. Pure: the same facts and decisions give the same requests.

use crate::admission::second_round::EnforcedAmounts;
use crate::config::Preemption;
use crate::division::Entitled;
use crate::preemption::PreemptionInputs;
use crate::preemption::attempts::{Attempt, AttemptInputs, StopAttempt};
use crate::preemption::capacity_left::{CapacityLeft, UNBOUND};
use crate::preemption::holders::{Holders, holders};
use crate::preemption::limits::RequestLimits;
use crate::preemption::shortage::{HostsShortage, Shortage};
use crate::preemption::starved::starved;
use crate::preemption::unplaced::{Unplaced, UnplacedWork, unplaced};
use crate::preemption::victims::{Lacking, Offered, VictimCandidates, VictimSource};
use crate::preemption::within::within;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, Quota};
use echelon_core_model::{ClusterId, GroupName, JobId, Resources, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Request, SliceRequest, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// Shown where there is no preemption candidate, or not enough of them for a whole host's capacity.
const NO_VICTIMS: &str = "pools that exceed their entitlement leave no host with enough capacity";

/// A preemption request that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedRequest {
    /// The cluster with the shard that is to stop instances.
    pub(crate) cluster: ClusterId,
    pub(crate) claim: Claim,
}

/// What is to be done for work that lacks capacity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PreemptionPlan {
    pub(crate) requests: Vec<PlannedRequest>,
    /// Groups without a preemption candidate anywhere: others have their turn.
    pub(crate) in_vain: Vec<(JobId, GroupName)>,
    /// The pools that use the clusters where they wait.
    pub(crate) holders: BTreeMap<(JobId, GroupName), Holders>,
    /// Work that is granted and finds no host.
    pub(crate) unplaced: UnplacedWork,
    /// How many more instances may be stopped in this minute, where that was looked at.
    pub(crate) budget_left: Option<u64>,
}

/// What came of a shortage.
enum ShortageOutcome {
    /// These requests make capacity: one, or for capacity in a pool one at each of several clusters.
    Requests(Vec<PlannedRequest>),
    /// There is capacity by now, or a limit is reached.
    Later,
    /// There is no preemption candidate where it could run.
    NoVictims,
}

/// What came of an attempt.
enum AttemptOutcome {
    Requests(Vec<PlannedRequest>),
    /// More would have to be stopped than may be now.
    TooLarge,
    /// There are not enough victims.
    TooFew,
}

/// Plans the requests that are made now. `first` is what pools are entitled to; `name` makes ids of requests.
pub(crate) fn plan(
    known: PreemptionInputs<'_>,
    first: &Entitled,
    rules: &Preemption,
    now: Timestamp,
    name: impl FnMut() -> ClaimId,
) -> PreemptionPlan {
    let (starved, granted) = (starved(known, rules, now), unplaced(known));
    if starved.is_empty() && granted.is_empty() || known.facts.control.kills_off {
        return PreemptionPlan::default();
    }
    let enforced = EnforcedAmounts {
        first,
        sustained: &known.admission.sustained,
    };
    let mut planner = Planner {
        known,
        rules,
        now,
        left: CapacityLeft::new(known, enforced),
        victims: VictimCandidates::new(known, enforced),
        limits: RequestLimits::new(known.requests, *rules),
        within: within(known),
        name,
        out: PreemptionPlan::default(),
    };
    let mut in_vain = Vec::new();
    for turn in starved {
        in_vain.extend(planner.plan_for_waiting(turn));
    }
    planner.out.holders = holders(known, &known.admission.rooms, &in_vain);
    planner.out.in_vain = in_vain.into_iter().map(|r| (r.job, r.group)).collect();
    let requesting = known.requests.groups();
    for granted in granted {
        planner.plan_for_granted(granted, &requesting);
    }
    planner.out.budget_left = Some(planner.limits.left());
    planner.out
}

struct Planner<'a, N> {
    known: PreemptionInputs<'a>,
    rules: &'a Preemption,
    now: Timestamp,
    left: CapacityLeft<'a>,
    victims: VictimCandidates<'a>,
    limits: RequestLimits,
    /// Pools within which work is being stopped for other work of them.
    within: BTreeSet<PoolIdx>,
    /// Makes ids of requests.
    name: N,
    out: PreemptionPlan,
}

/// What is asked of one shard.
struct Draft {
    cluster: ClusterId,
    /// For how many units.
    count: u64,
    most: u64,
    offered: Offered,
    quota: Option<Quota>,
    /// Nothing is stopped: one host's capacity is kept as what is there ends.
    keeps_host: bool,
}

impl<N: FnMut() -> ClaimId> Planner<'_, N> {
    /// Makes requests for work that waits to be admitted. Returns what it asks for, and where, if nothing can
    /// be stopped for it. A capacity hold that it has counts as free capacity meanwhile.
    fn plan_for_waiting(&mut self, turn: &Turn) -> Option<Request> {
        let hold = self.left.release_hold(turn);
        let shortage = Shortage::of_waiting(&self.left, &self.victims, turn);
        let outcome = shortage.as_ref().map(|shortage| self.make_capacity(shortage));
        if let Some(ShortageOutcome::Requests(requests)) = outcome {
            self.out.requests.extend(requests);
            return None;
        }
        if let Some(hold) = hold {
            self.left.keep_hold(hold);
        }
        let no_victims = matches!(outcome, Some(ShortageOutcome::NoVictims));
        let Shortage { request, .. } = shortage.filter(|_| no_victims)?;
        Some(Request {
            slices: self.left.places(&request),
            ..request
        })
    }

    /// Makes requests for a group that is granted and finds no host, in so far as the grant is within its
    /// pool's entitlement.
    fn plan_for_granted(&mut self, unplaced: Unplaced, requesting: &BTreeSet<(JobId, &GroupName)>) {
        let known = self.known;
        let request = &unplaced.request;
        let key = (request.job, request.group.clone());
        let own = self.left.own_of_granted(request);
        // Where nothing could be stopped for a single instance, a host's capacity is kept for it as it ends.
        let may_stop = !known.requests.is_refused(&key, self.now);
        let may_keep = request.gang.is_empty() && !known.requests.is_kept_in_vain(&key, self.now);
        let why_not = if own == 0 {
            Some(beyond_in_words(&self.left, request))
        } else {
            (!may_stop && !may_keep).then(|| NO_VICTIMS.to_owned())
        };
        if let Some(why_not) = why_not {
            self.out.unplaced.give_up(request, &why_not);
            return;
        }
        self.out.unplaced.hopeful.insert(key.clone());
        let short_for = self
            .now
            .since(known.requests.starved.since_either(key.0, unplaced.since));
        if short_for < self.rules.after || requesting.contains(&(key.0, &key.1)) {
            return;
        }
        // While requests are not answered, it is not known what is left to be stopped.
        let is_known = self.limits.are_answered() || short_for.0 >= self.rules.after.0.saturating_mul(2);
        let of = HostsShortage {
            may_stop,
            may_keep: may_keep && is_known,
        };
        match self.make_capacity(&Shortage::of_granted(unplaced, own, of)) {
            ShortageOutcome::Requests(requests) => self.out.requests.extend(requests),
            ShortageOutcome::NoVictims => self.out.in_vain.push(key),
            ShortageOutcome::Later => {}
        }
    }

    /// The first attempt that succeeds makes the requests.
    fn make_capacity(&mut self, shortage: &Shortage) -> ShortageOutcome {
        let inputs = AttemptInputs {
            left: &self.left,
            victims: &self.victims,
            limits: &self.limits,
            within: &self.within,
        };
        let attempts = inputs.attempts(shortage);
        let mut is_too_large = false;
        for attempt in &attempts.list {
            let outcome = match &attempt.stop {
                Some(stop) => self.try_stop(shortage, attempt, stop),
                // What needs a larger budget than there is keeps no host meanwhile.
                None if is_too_large => continue,
                None => AttemptOutcome::Requests(vec![self.keep_host(shortage, attempt)]),
            };
            match outcome {
                AttemptOutcome::Requests(requests) => return ShortageOutcome::Requests(requests),
                AttemptOutcome::TooLarge => is_too_large = true,
                AttemptOutcome::TooFew => {}
            }
        }
        if is_too_large {
            self.limits.save_up();
        }
        if is_too_large || attempts.more_later {
            ShortageOutcome::Later
        } else {
            ShortageOutcome::NoVictims
        }
    }

    fn try_stop(&mut self, shortage: &Shortage, attempt: &Attempt, stop: &StopAttempt) -> AttemptOutcome {
        let drafts = match self.draft(shortage, attempt, stop) {
            Ok(drafts) => drafts,
            Err(outcome) => {
                self.victims.roll_back();
                return outcome;
            }
        };
        self.victims.commit();
        if shortage.is_ungranted() {
            self.left
                .promise(&shortage.request, &attempt.slice.cluster, attempt.count);
        }
        if let VictimSource::OwnPool(_) = stop.from {
            self.within.insert(shortage.request.pool);
        }
        let requests = drafts
            .into_iter()
            .map(|draft| self.request(&shortage.request, &attempt.slice, draft));
        AttemptOutcome::Requests(requests.collect())
    }

    /// What shards would be asked for by an attempt.
    fn draft(
        &mut self,
        shortage: &Shortage,
        attempt: &Attempt,
        stop: &StopAttempt,
    ) -> Result<Vec<Draft>, AttemptOutcome> {
        let request = &shortage.request;
        let (mut all, mut parts, mut lacking) = (Offered::default(), Vec::new(), stop.lacking);
        for cluster in &stop.clusters {
            let lacks = Lacking {
                cluster,
                room: lacking,
                choice: stop.choice,
                from: stop.from,
            };
            let offered = self.victims.offer(request, lacks);
            all.add(&offered);
            let releases = offered.reached.min_each(lacking);
            lacking = lacking.minus(offered.reached);
            parts.push((cluster, releases, offered));
            if lacking.is_zero() {
                break;
            }
        }
        let least = if stop.is_whole {
            all.enough
        } else {
            let of_one = all.needed.div_ceil(attempt.count.max(1)).max(all.fewest);
            Some(of_one).filter(|_| all.fewest > 0)
        };
        let least = least.ok_or(AttemptOutcome::TooFew)?;
        // A few of many units must be worth it; the whole of one unit may need more than there is.
        let is_of_one = !stop.is_whole || attempt.count == 1;
        let factor = self.known.requests.choice_factor(request);
        let most = self.limits.most(factor, is_of_one.then_some(least), &all);
        let is_part = stop.wanted > attempt.count || all.needed > most;
        if least > most && !is_of_one {
            return Err(AttemptOutcome::TooFew);
        }
        if least > most || is_part && !self.limits.is_worth_it(all.needed.max(stop.wanted)) {
            return Err(AttemptOutcome::TooLarge);
        }
        let is_at_one = parts.len() == 1;
        let unit = request.unit.shape;
        let quota = |releases: Resources| {
            stop.left_in_pools.map(|left| {
                if is_at_one {
                    left.quota(unit, attempt.count)
                } else {
                    Quota {
                        left: Resources::ZERO,
                        unit: releases,
                        count: 1,
                    }
                }
            })
        };
        let parts = parts.into_iter();
        let with_victims = parts.filter(|(.., offered)| is_at_one || !offered.victims.is_empty());
        let drafts = with_victims.map(|(cluster, releases, offered)| Draft {
            cluster: cluster.clone(),
            count: attempt.count,
            most: offered.most.min(most),
            offered,
            quota: quota(releases),
            keeps_host: false,
        });
        Ok(drafts.collect())
    }

    /// Asks a shard to keep one host's capacity for a granted instance, as what is there ends.
    fn keep_host(&mut self, shortage: &Shortage, attempt: &Attempt) -> PlannedRequest {
        let draft = Draft {
            cluster: attempt.slice.cluster.clone(),
            count: attempt.count,
            most: 0,
            offered: Offered::default(),
            quota: None,
            keeps_host: true,
        };
        self.request(&shortage.request, &attempt.slice, draft)
    }

    fn request(&mut self, request: &Request, slice: &SliceRequest, draft: Draft) -> PlannedRequest {
        self.limits.spend(&draft.cluster, draft.most);
        PlannedRequest {
            cluster: draft.cluster,
            claim: Claim {
                id: (self.name)(),
                job: request.job,
                parts: parts(request, slice, draft.count),
                waits: slice.cluster.clone(),
                pool: self.left.path(request.pool),
                most: draft.most,
                victims: draft.offered.victims,
                quota: draft.quota,
                keeps_host: draft.keeps_host,
            },
        }
    }
}

/// What a pool has beyond what it is entitled to.
fn beyond_in_words(left: &CapacityLeft<'_>, request: &Request) -> String {
    let has = left.rooms.taken(request.pool).0;
    let own = left.enforced.amount(request.pool);
    let path = left.path(request.pool);
    match has.first_lack(own) {
        Some(kind) => {
            let (has, own) = (kind.show(has.get(kind)), kind.show(own.get(kind)));
            format!("no instance is preempted for it: {path} has {has} {kind} and is entitled to {own}")
        }
        None => format!("no instance is preempted for it: {path} has all that it is entitled to"),
    }
}

/// What a preemption request is for: so many of a group's slice, or all of a gang.
fn parts(request: &Request, slice: &SliceRequest, count: u64) -> Vec<ClaimPart> {
    if request.gang.is_empty() {
        return vec![ClaimPart {
            group: request.group.clone(),
            generation: slice.generation,
            count,
        }];
    }
    let members = request.gang.iter().map(|m| ClaimPart {
        group: m.group.clone(),
        generation: if m.unbound > 0 { UNBOUND } else { m.generation },
        count: m.more.saturating_add(m.unbound),
    });
    members.collect()
}
