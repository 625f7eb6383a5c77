//! What is ordered of a cluster for a job. It is made from the stored assignment only, so a shard never gets
//! what could still be undecided. The same state gives the same orders.
//! They are sent when they change, and renewed.

use crate::facts::FederationFacts;
use crate::facts::group_reports::reports;
use crate::facts::job::JobView;
use crate::facts::known::KnownHead;
use crate::facts::slice::SliceKey;
use crate::lifecycle::rollouts::reach;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::directive::{Grant, SliceOrder};
use echelon_core_model::job::Desired;
use echelon_core_model::{ClusterId, Epoch, Generation, GroupName, JobId, Span};
use echelon_core_pools::GrantLine;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// What is ordered of a cluster for a job. Groups of which it neither has nor had anything are left out,
/// until the job is to stop: then each of them is to be confirmed.
#[must_use]
pub fn orders(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    cluster: &ClusterId,
    stamp: (Epoch, Span),
) -> Vec<SliceOrder> {
    let Some(head) = &job.head else { return Vec::new() };
    let stopping = head.goal.desired != Desired::Running;
    let groups = job.groups();
    let named = groups.iter().filter(|group| {
        let has = job.durable.ranges(group).iter().any(|r| r.cluster == *cluster);
        has || stopping || reports(facts, id, cluster, group).next().is_some()
    });
    named
        .map(|group| order(facts, (id, job, head), cluster, group, stamp))
        .collect()
}

fn order(
    facts: &FederationFacts,
    (id, job, head): (JobId, &JobView, &KnownHead),
    cluster: &ClusterId,
    group: &GroupName,
    (epoch, lease): (Epoch, Span),
) -> SliceOrder {
    let held = job.durable.ranges(group).iter().filter(|r| r.cluster == *cluster);
    let ranges: Vec<AssignedRange> = held.cloned().collect();
    let generations: BTreeSet<Generation> = ranges.iter().map(|r| r.generation).collect();
    let settled = facts.clusters.get(cluster).is_some_and(|c| c.is_settled_for(id));
    let grants = generations
        .into_iter()
        .filter(|_| settled)
        .filter_map(|generation| {
            let key = SliceKey {
                group: group.clone(),
                cluster: cluster.clone(),
                generation,
            };
            let line = job.grants.get(&key).filter(|line| !line.is_new())?;
            let grant = Grant {
                epoch,
                number: line.number(),
                active: line.granted(),
                lease: if line.is_expired() { Span::ZERO } else { lease },
                known: line.known(),
            };
            Some((generation, grant))
        });
    let part = job.bound.parts.get(&(group.clone(), cluster.clone()));
    SliceOrder {
        job: id,
        group: group.clone(),
        head_version: head.version,
        goal: head.goal,
        spec_version: head.spec_version,
        grants: grants.collect(),
        max_unavailable: part.map_or(0, |p| u32::try_from(p.granted()).unwrap_or(u32::MAX)),
        part_number: part.map_or(0, GrantLine::number),
        rollout: head.rare.rollout.as_deref().copied(),
        update_below: reach(facts, id, job, group),
        restarts: head
            .rare
            .restarts
            .as_ref()
            .map(|r| r.of_group(group))
            .unwrap_or_default(),
        ranges,
    }
}

/// A digest of orders, whatever the numbers of their grants.
#[must_use]
pub fn digest(orders: &[SliceOrder]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for order in orders {
        let SliceOrder {
            job,
            group,
            head_version,
            goal,
            spec_version,
            ranges,
            grants,
            max_unavailable,
            part_number,
            rollout,
            update_below,
            restarts,
        } = order;
        (job, group, head_version, goal, spec_version, ranges).hash(&mut hasher);
        (max_unavailable, part_number, rollout, update_below, restarts).hash(&mut hasher);
        for (generation, grant) in grants {
            (generation, grant.epoch, grant.active, grant.lease, grant.known).hash(&mut hasher);
        }
    }
    hasher.finish()
}
