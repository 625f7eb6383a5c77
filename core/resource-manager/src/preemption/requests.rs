//! Preemption requests under way: capacity that shards were asked to make, and what they have reported.
//! Whatever a shard holds for a request counts as that of the requesting group. The group is admitted into
//! it before any other, and no other is admitted into it. A new leader knows it from full reports,
//! so nothing of it is stored.

use crate::facts::FederationFacts;
use crate::facts::slice::SliceKey;
use crate::preemption::budget::PreemptionBudget;
use crate::preemption::holders::Holders;
use crate::preemption::planner::PlannedRequest;
use crate::preemption::starved::StarvationTimes;
use crate::preemption::unplaced::UnplacedWork;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport};
use echelon_core_model::{ClusterId, GroupName, JobId, RangeSet, Timestamp};
use echelon_core_pools::{Admission, Request};
use std::collections::{BTreeMap, BTreeSet};

/// A preemption request under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The cluster where instances are to be stopped.
    pub cluster: ClusterId,
    /// What its shard is asked for. Of a request of an earlier leader without victims.
    pub claim: Claim,
    /// What was bound for it and is not known yet to the shard, or, where a pool lacks capacity, not stored.
    /// Until it is, the request is not sent: the shard could only answer that it does not know the job.
    pub(crate) awaits: Vec<ClaimPart>,
    /// When it was made, or first reported to this leader.
    pub since: Timestamp,
    /// What its shard has reported.
    pub report: Option<ClaimReport>,
    /// Whether its shard ever held capacity for it, or stopped instances for capacity in a pool.
    pub had_room: bool,
    /// Since when its group could not use the capacity that its shard holds for it, since a pool leaves
    /// nothing for it.
    pub(crate) unusable_since: Option<Timestamp>,
}

/// All preemption requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreemptionRequests {
    /// By id.
    pub all: BTreeMap<ClaimId, OpenRequest>,
    /// Groups for which none could be made: until when no other is made, and how often in a row.
    pub refused: BTreeMap<(JobId, GroupName), (Timestamp, u32)>,
    /// Groups for which no host's capacity could be kept, and until when that is not tried again.
    pub(crate) kept_in_vain: BTreeMap<(JobId, GroupName), Timestamp>,
    /// The pools that use the clusters where a group waits in vain, as of the last time that was looked at.
    pub(crate) holders: BTreeMap<(JobId, GroupName), Holders>,
    /// Since when jobs are starved.
    pub starved: StarvationTimes,
    /// Clusters with a shard that is to get all its requests.
    pub untold: BTreeSet<ClusterId>,
    /// Work that is granted and finds no host, as of the last time that was looked at.
    pub(crate) unplaced: UnplacedWork,
    /// Instances taken in the last minute: when, and how many.
    pub taken: Vec<(Timestamp, u64)>,
    /// How many more may be taken.
    pub(crate) budget: PreemptionBudget,
}

impl PreemptionRequests {
    /// The number of entries that grow with jobs.
    pub(crate) fn footprint(&self) -> usize {
        let Self {
            all,
            refused,
            kept_in_vain,
            holders,
            starved,
            untold: _,
            unplaced: _,
            taken,
            budget: _,
        } = self;
        all.len() + refused.len() + kept_in_vain.len() + holders.len() + starved.len() + taken.len()
    }

    /// The requests at a cluster.
    pub fn at<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a OpenRequest> {
        self.all.values().filter(move |c| c.cluster == *cluster)
    }

    /// The groups for which no other request may be made now.
    /// While a shard has not answered, it is not known what is still lacking.
    /// A gang has no second request while one is under way, nor has a group that lacks capacity in a pool.
    /// A job without a known spec counts as a gang.
    pub(crate) fn busy(&self, facts: &FederationFacts) -> BTreeSet<(JobId, &GroupName)> {
        let is_gang = |job: &JobId| {
            let spec = facts.jobs.get(job).and_then(|job| job.spec.as_ref());
            spec.is_none_or(|spec| spec.gang.is_some())
        };
        let is_busy =
            |c: &&OpenRequest| c.report.is_none() || c.claim.quota.is_some() || is_gang(&c.claim.job);
        let claims = self.all.values().filter(is_busy).map(|c| &c.claim);
        let groups = claims.flat_map(|c| c.parts.iter().map(|p| (c.job, &p.group)));
        groups.collect()
    }

    /// The groups for which one is under way.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<(JobId, &GroupName)> {
        let groups = self.all.values().map(|c| &c.claim);
        let groups = groups.flat_map(|c| c.parts.iter().map(|p| (c.job, &p.group)));
        groups.collect()
    }

    /// For how many instances of a slice capacity is held and not in use yet.
    #[must_use]
    pub fn open(&self, job: JobId, key: &SliceKey) -> u64 {
        let of_job = self
            .all
            .values()
            .filter(|c| c.claim.job == job && c.claim.waits == key.cluster);
        let (mut on_hosts, mut in_pools) = (0u64, 0);
        for view in of_job {
            let report = view.report.as_ref();
            if view.keeps_quota() {
                in_pools = view.asks_for(key).max(in_pools);
            } else {
                on_hosts += report.map_or(0, |r| r.open_of(&key.group, key.generation));
            }
        }
        on_hosts + in_pools
    }

    /// Notes admitted instances: requests for capacity in a pool are about so many less.
    pub(crate) fn admitted(&mut self, admitted: &[Admission]) {
        let views = self.all.values_mut().filter(|v| v.claim.quota.is_some());
        for OpenRequest { cluster, claim, .. } in views {
            let of_job = admitted.iter().filter(|a| a.job == claim.job);
            for (admission, (at, generation, n)) in of_job.flat_map(|a| a.more.iter().map(move |m| (a, m))) {
                let of = |p: &&mut ClaimPart| (&p.group, p.generation) == (&admission.group, *generation);
                let part = claim.parts.iter_mut().find(of).filter(|_| *at == claim.waits);
                if let Some(part) = part {
                    part.count = part.count.saturating_sub(*n);
                    self.untold.insert(cluster.clone());
                }
            }
        }
    }

    /// The pools that use a cluster where a group waits in vain, as text.
    #[must_use]
    pub fn holders(&self, job: JobId, group: &GroupName, cluster: &ClusterId) -> Option<&str> {
        let of_group = self.holders.get(&(job, group.clone()))?;
        of_group.get(cluster).map(AsRef::as_ref)
    }

    /// Adds a request that is to be sent.
    pub(crate) fn add(&mut self, made: PlannedRequest, awaits: Vec<ClaimPart>, now: Timestamp) {
        let PlannedRequest { cluster, claim } = made;
        for part in &claim.parts {
            self.holders.remove(&(claim.job, part.group.clone()));
        }
        self.untold.insert(cluster.clone());
        let view = OpenRequest {
            cluster,
            claim,
            awaits,
            since: now,
            report: None,
            had_room: false,
            unusable_since: None,
        };
        self.all.insert(view.claim.id, view);
    }

    /// Marks requests that can be sent by now: their shard knows the group, or, where a pool lacks capacity,
    /// the binding is stored.
    pub(crate) fn look_for_claimants(&mut self, facts: &FederationFacts) {
        let waiting = self.all.values().filter(|c| !c.awaits.is_empty());
        let known = waiting.filter(|c| c.awaits.iter().all(|part| is_known(facts, c, part)));
        let known: Vec<ClaimId> = known.map(|c| c.claim.id).collect();
        for id in known {
            if let Some(view) = self.all.get_mut(&id) {
                view.awaits.clear();
                self.untold.insert(view.cluster.clone());
            }
        }
    }

    /// How often in a row no request could be made for what a group asks for.
    pub(crate) fn tries(&self, request: &Request) -> u32 {
        let key = (request.job, request.group.clone());
        self.refused.get(&key).map_or(0, |(_, tries)| *tries)
    }

    /// How much more is offered than is lacking: the more often capacity was made in vain, the more.
    pub(crate) fn choice_factor(&self, request: &Request) -> u64 {
        8u64.saturating_pow(self.tries(request))
    }

    /// Whether no request is made for a group now, since none could be made a short while ago.
    pub(crate) fn is_refused(&self, key: &(JobId, GroupName), now: Timestamp) -> bool {
        self.refused.get(key).is_some_and(|(until, _)| *until > now)
    }

    /// Whether no host's capacity is kept for a group now, since none could be a short while ago.
    pub(crate) fn is_kept_in_vain(&self, key: &(JobId, GroupName), now: Timestamp) -> bool {
        self.kept_in_vain.get(key).is_some_and(|until| *until > now)
    }

    /// Forgets the requests of a cluster when a stream to its shard has opened:
    /// the shard reports what it holds.
    pub fn forget(&mut self, cluster: &ClusterId) {
        let of_cluster: Vec<ClaimId> = self.at(cluster).map(|c| c.claim.id).collect();
        for id in of_cluster {
            self.remove(id);
        }
    }

    /// Removes a request. One that was sent and not answered may have been obeyed, so it lowers the budget.
    pub(crate) fn remove(&mut self, id: ClaimId) -> Option<OpenRequest> {
        let view = self.all.remove(&id)?;
        if view.report.is_none() && view.awaits.is_empty() {
            self.budget.spend(view.claim.most);
        }
        Some(view)
    }

    /// Takes in what a shard reports of all its requests.
    /// One that is unknown here is adopted when it holds capacity and comes with a full report.
    /// For any other unknown one the shard gets all requests again.
    /// One that was reported before and is not in this report has lapsed at the shard: its capacity is free.
    pub fn heard(&mut self, cluster: &ClusterId, told: Vec<ClaimReport>, full: bool, now: Timestamp) {
        let named: BTreeSet<ClaimId> = told.iter().map(|r| r.claim.id).collect();
        self.all
            .retain(|id, c| c.cluster != *cluster || c.report.is_none() || named.contains(id));
        for report in told {
            if let Some(known) = self.all.get_mut(&report.claim.id) {
                let before = known.report.as_ref().map_or(0, |r| r.taken);
                let more = report.taken.saturating_sub(before);
                if more > 0 {
                    self.taken.push((now, more));
                    self.budget.spend(more);
                }
                known.had_room |= report.holds_room();
                known.had_room |= report.keeps_quota();
                known.report = Some(report);
            } else if full && (report.holds_room() || report.keeps_quota()) {
                let adopted = OpenRequest {
                    cluster: cluster.clone(),
                    claim: report.claim.clone(),
                    awaits: Vec::new(),
                    since: now,
                    report: Some(report),
                    had_room: true,
                    unusable_since: None,
                };
                self.all.insert(adopted.claim.id, adopted);
            } else {
                self.untold.insert(cluster.clone());
            }
        }
    }
}

impl OpenRequest {
    /// Whether pools hold for it what its victims have released, or are about to.
    pub(crate) fn keeps_quota(&self) -> bool {
        self.claim.quota.is_some() && self.had_room
    }

    /// For how many instances of a slice it is.
    pub(crate) fn asks_for(&self, key: &SliceKey) -> u64 {
        let of = |p: &&ClaimPart| (&p.group, p.generation) == (&key.group, key.generation);
        self.claim.parts.iter().find(of).map_or(0, |p| p.count)
    }

    /// Whether it has what it asked for, or its shard has reported that it cannot get it.
    pub(crate) fn is_met(&self) -> bool {
        match (&self.claim.quota, &self.report) {
            (_, None) => false,
            (None, Some(told)) => !told.holds_room(),
            (Some(quota), Some(told)) => {
                let open: u64 = self.claim.parts.iter().map(|p| p.count).sum();
                // Victims are chosen once. When as many were admitted as were stopped, no more capacity comes
                // of it.
                // Another request is then made for the rest.
                told.taken == 0 || open == 0 || quota.count.saturating_sub(open) >= told.taken
            }
        }
    }
}

/// Whether the shard has reported all that is bound there, and so what was bound for the request.
/// Capacity in a pool is made for any group: there it is enough that the binding is stored.
fn is_known(facts: &FederationFacts, view: &OpenRequest, part: &ClaimPart) -> bool {
    let Some(job) = facts.jobs.get(&view.claim.job) else {
        return false;
    };
    if view.claim.quota.is_some() {
        return job.decided == job.durable;
    }
    let key = SliceKey {
        group: part.group.clone(),
        cluster: view.claim.waits.clone(),
        generation: part.generation,
    };
    let here = |r: &&AssignedRange| r.cluster == key.cluster && r.generation == key.generation;
    let ranges = job.decided.ranges(&key.group).iter();
    let bound: RangeSet = ranges.filter(here).map(|r| r.range).collect();
    let report = facts.report(view.claim.job, &key);
    report.is_some_and(|r| bound.minus(&r.held).minus(&r.released).is_empty())
}
