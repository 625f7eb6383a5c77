//! What is ordered of a cluster for a job: made from the stored assignment only, so a shard never hears of what could still be
//! undecided. The same picture gives the same orders; they are sent when they change, and renewed.

use crate::facts::job::JobView;
use crate::facts::known::KnownHead;
use crate::facts::slice::SliceKey;
use crate::lifecycle::rollouts::reach;
use crate::picture::Picture;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::directive::{Grant, SliceOrder, SliceReport};
use echelon_core_model::job::Desired;
use echelon_core_model::{ClusterId, Epoch, Generation, GroupName, JobId, Span};
use echelon_core_pools::GrantLine;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// The clusters that hear of a job.
#[must_use]
pub fn listeners(job: &JobView) -> BTreeSet<ClusterId> {
    job.durable.holders.keys().cloned().collect()
}

/// What is ordered of a cluster for a job. Groups of which it neither has nor had anything are left out, until the job is to
/// stop: then each of them is to be confirmed.
#[must_use]
pub fn orders(
    picture: &Picture,
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
        has || stopping || reports(picture, id, cluster, group).next().is_some()
    });
    named
        .map(|group| order(picture, (id, job, head), cluster, group, stamp))
        .collect()
}

fn order(
    picture: &Picture,
    (id, job, head): (JobId, &JobView, &KnownHead),
    cluster: &ClusterId,
    group: &GroupName,
    (epoch, lease): (Epoch, Span),
) -> SliceOrder {
    let held = job.durable.ranges(group).iter().filter(|r| r.cluster == *cluster);
    let ranges: Vec<AssignedRange> = held.cloned().collect();
    let generations: BTreeSet<Generation> = ranges.iter().map(|r| r.generation).collect();
    let settled = picture.clusters.get(cluster).is_some_and(|c| c.settled);
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
                lease,
                counted: line.counted(),
                included: line.included(),
            };
            Some((generation, grant))
        });
    let part = job.parts.get(&(group.clone(), cluster.clone()));
    SliceOrder {
        job: id,
        group: group.clone(),
        head_version: head.version,
        goal: head.goal,
        spec_version: head.spec_version,
        grants: grants.collect(),
        max_unavailable: part.map_or(0, |p| u32::try_from(p.granted()).unwrap_or(u32::MAX)),
        part_number: part.map_or(0, GrantLine::number),
        rollout: head.rollout.as_deref().copied(),
        update_below: reach(picture, id, job, group),
        restarts: head
            .restarts
            .as_ref()
            .map(|r| r.of_group(group))
            .unwrap_or_default(),
        ranges,
    }
}

/// What a cluster said of a group.
pub fn reports<'a>(
    picture: &'a Picture,
    id: JobId,
    cluster: &ClusterId,
    group: &'a GroupName,
) -> impl Iterator<Item = &'a SliceReport> {
    let view = picture.clusters.get(cluster);
    let keys = (id, group.clone(), Generation(0))..=(id, group.clone(), Generation(u32::MAX));
    view.into_iter()
        .flat_map(move |v| v.reports.range(keys.clone()).map(|(_, r)| r.as_ref()))
}

/// What orders say, whatever the numbers of their grants, in one number.
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
            (generation, grant.epoch, grant.active, grant.lease).hash(&mut hasher);
            (grant.counted, grant.included).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Whether a cluster has confirmed that nothing of a job lives there, having heard its present goal.
#[must_use]
pub fn has_confirmed(picture: &Picture, id: JobId, job: &JobView, cluster: &ClusterId) -> bool {
    let Some(head) = &job.head else { return false };
    let left = picture
        .clusters
        .get(cluster)
        .is_some_and(|c| c.wish() == echelon_core_model::cluster::Wish::Left);
    let groups = job.groups();
    left || groups.iter().all(|group| {
        let said: Vec<&SliceReport> = reports(picture, id, cluster, group).collect();
        // A generation of which nothing is held any more is not reported again: its last word stands.
        let heard = |r: &&SliceReport| r.head_version >= head.version;
        said.iter().any(heard)
            && said
                .iter()
                .all(|r| r.live == 0 && (heard(r) || r.held.is_empty()))
    })
}
