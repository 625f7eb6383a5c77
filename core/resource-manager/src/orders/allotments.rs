//! Job-wide `max_unavailable`, leased to clusters in allotments (design: job-wide limits).
//! Allotments in force never sum above the limit: one is raised only by what is free. What was taken from
//! another cluster is free when that cluster's shard has confirmed it. So where more clusters have a group
//! than the limit has units, a restart goes from cluster to cluster.

use crate::facts::FederationFacts;
use crate::facts::group_reports::listeners;
use crate::facts::job::JobView;
use crate::lifecycle::rollouts::most_down;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::Desired;
use echelon_core_model::{ClusterId, GroupName, JobId};
use echelon_core_pools::fill::{Taker, fill};
use std::collections::BTreeMap;

/// A cluster that has or had a part of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Whether it can get orders.
    pub reach: Reach,
    /// Instances assigned to it.
    pub instances: u64,
    /// Runs there from before the last restart asked for.
    pub outdated: u64,
    /// The allotment that this leader gave it last.
    pub given: u64,
    /// The most that its shard may make of the allotments it was given, or reports that it takes.
    /// It is no less than `given`.
    pub allocated: u64,
}

/// Whether a cluster can get orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its shard obeys this leader.
    Open,
    /// It did, and is not connected now: it keeps what it has, however long that lasts.
    Cut,
    /// Its shard has not reported to this leader what it has: that may be everything.
    Unheard,
}

/// The allotment that each of the holders is to have now, in their order.
/// It is as near to `wanted` as may be, and is raised only by what all of them leave.
/// A holder that is not `Open` is to have none: nothing is sent to it, or what is sent only takes away.
#[must_use]
pub fn divide(limit: u64, holders: &[Holder]) -> Vec<u64> {
    let mut total = holders.iter().map(|h| h.allocated).fold(0, u64::saturating_add);
    let parts = holders.iter().zip(wanted(limit, holders)).map(|(h, n)| {
        // What a shard reports that it takes is no reason to give it that:
        // others may have been given the same units.
        let others = total.saturating_sub(h.allocated);
        let part = n.min(h.given.max(limit.saturating_sub(others)));
        total = others.saturating_add(h.allocated.max(part));
        part
    });
    parts.collect()
}

/// The allotments to come to: units go first to where runs are outdated, the rest evenly.
fn wanted(limit: u64, holders: &[Holder]) -> Vec<u64> {
    let cut = holders.iter().filter(|h| h.reach == Reach::Cut);
    let units = cut.fold(limit, |left, h| left.saturating_sub(h.allocated));
    let give = |units: u64, most: &dyn Fn(usize, &Holder) -> u64| {
        let takers = holders
            .iter()
            .enumerate()
            .map(|(i, h)| Taker::new(u64::from(h.reach == Reach::Open), most(i, h)));
        fill(units, &takers.collect::<Vec<_>>())
    };
    let first = give(units, &|_, h| h.outdated.min(h.instances));
    let given: u64 = first.iter().sum();
    let rest = give(units.saturating_sub(given), &|i, h| {
        h.instances
            .saturating_sub(first.get(i).copied().unwrap_or_default())
    });
    first.iter().zip(rest).map(|(a, b)| a + b).collect()
}

/// The allotments of a group that clusters are to have now; only of those with an open stream.
#[must_use]
pub fn parts(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    group: &GroupName,
) -> BTreeMap<ClusterId, u64> {
    let spec = job.spec.as_ref().and_then(|s| s.group(group));
    let running = job
        .head
        .as_ref()
        .is_some_and(|h| h.goal.desired == Desired::Running);
    // Where nothing is to run nothing is restarted. What was reported of an ended job may be forgotten here
    // before its shards know.
    let limit = if running {
        spec.map_or(1, |g| most_down(facts, id, job, g))
    } else {
        0
    };
    let (clusters, holders): (Vec<ClusterId>, Vec<Holder>) = listeners(job)
        .into_iter()
        .filter(|c| {
            facts
                .clusters
                .get(c)
                .is_none_or(|v| v.desired_state() != DesiredState::Removed)
        })
        .map(|c| {
            let holder = holder(facts, (id, job, group), &c, limit);
            (c, holder)
        })
        .unzip();
    let pairs = clusters.into_iter().zip(divide(limit, &holders));
    pairs
        .filter(|(c, _)| facts.clusters.get(c).is_some_and(|v| v.link.is_some()))
        .collect()
}

fn holder(
    facts: &FederationFacts,
    (id, job, group): (JobId, &JobView, &GroupName),
    cluster: &ClusterId,
    limit: u64,
) -> Holder {
    let ranges = job.durable.ranges(group).iter().filter(|r| r.cluster == *cluster);
    let instances = ranges.map(|r| r.range.count()).sum();
    let view = facts.clusters.get(cluster);
    let reach = match view {
        Some(v) if v.is_settled() && v.link.is_some() => Reach::Open,
        Some(v) if v.is_settled() => Reach::Cut,
        _ => Reach::Unheard,
    };
    let word = view.and_then(|v| v.words.get(&(id, group.clone()))).copied();
    let line = job.bound.parts.get(&(group.clone(), cluster.clone()));
    let said = word.unwrap_or_default();
    let allocated = match reach {
        // It has nothing that could be restarted; when it gets something, its allotment comes with it.
        _ if instances == 0 && (word.is_none() || reach == Reach::Unheard) => 0,
        Reach::Unheard => limit,
        Reach::Open | Reach::Cut => line.map_or(said.part, |l| l.allocated(said.part)),
    };
    Holder {
        reach,
        instances,
        outdated: said.outdated,
        given: line.map_or(0, |l| l.granted()).min(allocated),
        allocated,
    }
}
