//! Assignments that follow storage and reports of shards: releases are settled, and jobs become larger and
//! smaller.

use crate::assignment::{release, scale};
use crate::demand::daemons::assign_missing;
use crate::demand::found::take_found;
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{ClusterId, JobId};
use std::collections::BTreeSet;

/// What came of following goals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FollowedGoals {
    /// Jobs with a changed assignment.
    pub(crate) settled: BTreeSet<JobId>,
    /// Jobs of which something was given up, and the lost clusters that did so.
    pub(crate) given_up: BTreeSet<(JobId, ClusterId)>,
}

/// Settles releases of jobs, and scales jobs.
pub(crate) fn follow_goals(facts: &mut FederationFacts, jobs: &BTreeSet<JobId>) -> FollowedGoals {
    let mut out = FollowedGoals::default();
    let found = facts.clusters.values().any(|cluster| cluster.found.has_some());
    for id in jobs {
        let has_some = |j: &JobView| !j.is_unbound() || !j.decided.released.is_empty();
        let follows = |j: &JobView| found || has_some(j) || j.is_daemon();
        let live =
            |j: &&JobView| j.is_live() && (j.spec.is_some() || j.desired() != Desired::Running) && follows(j);
        let live = facts.jobs.get(id).filter(live);
        if live.is_none_or(JobView::is_refused) {
            continue;
        }
        let Some(mut job) = facts.jobs.lend(id) else {
            continue;
        };
        let before = job.decided.clone();
        if found && facts.awaiting.is_none() {
            take_found(facts, *id, &mut job);
        }
        if facts.awaiting.is_none() || job.running_spec().is_none() {
            let lost = release::settle_released(facts, *id, &mut job);
            out.given_up
                .extend(lost.into_iter().map(|cluster| (*id, cluster)));
        }
        scale::scale(&mut job, &facts.clusters);
        scale::forget_unneeded(&mut job, *id);
        let spec = job.running().filter(|s| s.kind == JobKind::Daemon);
        let bound = spec.filter(|s| facts.hierarchy.leaf(&s.pool).is_some());
        if let (Some(spec), true) = (bound, facts.awaiting.is_none()) {
            assign_missing(facts, *id, &mut job, &spec);
        }
        let changed = before != job.decided;
        facts.jobs.give_back(*id, job, changed);
        if changed {
            out.settled.insert(*id);
        }
    }
    out
}
