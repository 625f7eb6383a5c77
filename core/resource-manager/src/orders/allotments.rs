//! Job-wide `max_unavailable`, leased to clusters in allotments (design: job-wide limits).
//! Allotments in force never sum above the limit: one is raised only by what is free. What was taken from
//! another cluster is free when that cluster's shard has confirmed it. So where more clusters have a group
//! than the limit has units, a restart goes from cluster to cluster.
//!
//! What is unavailable for another reason counts as well, wherever it is: allotments are raised only by what
//! the limit leaves beside it. A shard subtracts its own unavailable instances from its allotment. So it may
//! always have an allotment for as many as these: with it the shard replaces what is down, and nothing else.
//! It has none for what is down and leaves its cluster. The shard does not replace that, and once it has gone,
//! the shard would restart another instance with such an allotment.
//!
//! The drain of a cluster needs an allotment, too. It is given to no shard: the resource manager decides what
//! leaves, as soon as the others have confirmed that they have less.

use crate::demand::moving::{moved_and_bound, moved_and_unbound};
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
    /// Instances there that are unavailable, as its shard subtracts them from its allotment.
    pub down: u64,
    /// Instances that leave. Any of them may be among those that are down.
    pub leaving: u64,
    /// Instances there that count as unavailable and that its shard does not subtract: they leave, have come
    /// and have not begun, or nobody knows what became of them.
    pub missing: u64,
}

impl Holder {
    /// The most of its instances that may be unavailable with this allotment.
    fn lost(&self, allotment: u64) -> u64 {
        allotment.max(self.down).saturating_add(self.missing)
    }

    /// Instances that are down and certain to stay, so that its shard replaces them.
    const fn down_and_staying(&self) -> u64 {
        self.down.saturating_sub(self.leaving)
    }
}

/// Whether a cluster can get orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its shard obeys this leader.
    Open,
    /// It did, and is not connected now: it keeps what it has, however long that lasts.
    Cut,
    /// Its shard has not reported to this leader what it has: that may be everything. At a silent cluster it
    /// is no more than there are instances.
    Unheard,
}

/// The allotment that each of the holders is to have now, in their order.
/// It is as near to `wanted` as may be, and is raised only by what all of them leave.
/// A holder that is not `Open` is to have none: nothing is sent to it, or what is sent only takes away.
#[must_use]
pub fn divide(limit: u64, holders: &[Holder]) -> Vec<u64> {
    let sum = |of: fn(&Holder) -> u64| holders.iter().map(of).fold(0, u64::saturating_add);
    let mut allocated = sum(|h| h.allocated);
    let mut lost = sum(|h| h.lost(h.allocated));
    let parts = holders.iter().zip(wanted(limit, holders)).map(|(h, n)| {
        // What a shard reports that it takes is no reason to give it that:
        // others may have been given the same units.
        let others = allocated.saturating_sub(h.allocated);
        let lost_elsewhere = lost.saturating_sub(h.lost(h.allocated));
        // What is down there already makes nothing more unavailable.
        let most = limit.saturating_sub(lost_elsewhere.saturating_add(h.missing));
        let most = most.max(h.down_and_staying()).min(limit.saturating_sub(others));
        let part = n.min(h.given.max(most));
        let next = h.allocated.max(part);
        allocated = others.saturating_add(next);
        lost = lost_elsewhere.saturating_add(h.lost(next));
        part
    });
    parts.collect()
}

/// The allotments to come to. What the limit leaves beside all that is unavailable goes first to where runs
/// are outdated, the rest evenly. Each holder is given what is down there in addition, since its shard subtracts
/// that. So an instance that is stopped and comes up again does not change the allotments.
fn wanted(limit: u64, holders: &[Holder]) -> Vec<u64> {
    let (mut kept, mut free) = (limit, limit);
    for h in holders {
        let keeps = if h.reach == Reach::Open { 0 } else { h.allocated };
        kept = kept.saturating_sub(keeps);
        free = free.saturating_sub(h.lost(keeps));
    }
    let give = |units: u64, most: &dyn Fn(usize, &Holder) -> u64| {
        let takers = holders
            .iter()
            .enumerate()
            .map(|(i, h)| Taker::new(u64::from(h.reach == Reach::Open), most(i, h)));
        fill(units, &takers.collect::<Vec<_>>())
    };
    let at = |units: &[u64], i: usize| units.get(i).copied().unwrap_or_default();
    let first = give(free, &|_, h| h.outdated.min(h.instances));
    let left = free.saturating_sub(first.iter().sum());
    let rest = give(left, &|i, h| h.instances.saturating_sub(at(&first, i)));
    let fresh: Vec<u64> = first.iter().zip(rest).map(|(a, b)| a + b).collect();
    let left = kept.saturating_sub(fresh.iter().sum());
    let down = give(left, &|_, h| h.down_and_staying());
    fresh.iter().zip(down).map(|(a, b)| a + b).collect()
}

/// The allotments of a group that clusters are to have now; only of those with an open stream.
#[must_use]
pub fn parts(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    group: &GroupName,
) -> BTreeMap<ClusterId, u64> {
    let (limit, clusters, holders) = holders(facts, id, job, group);
    let moves = job.rare.moves.get(group);
    let drain = moves
        .filter(|moves| moves.drains)
        .map(|_| drain_holder(facts, id, job, group));
    let all: Vec<Holder> = drain.into_iter().chain(holders).collect();
    let parts = divide(limit, &all).into_iter().skip(usize::from(drain.is_some()));
    let pairs = clusters.into_iter().zip(parts);
    pairs
        .filter(|(c, _)| facts.clusters.get(c).is_some_and(|v| v.link.is_some()))
        .collect()
}

/// How many instances of a group may leave draining clusters now, beside what all allotments in force allow
/// and all that is unavailable.
#[must_use]
pub(crate) fn drain_allotment(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupName) -> u64 {
    let (limit, _, holders) = holders(facts, id, job, group);
    let drain = drain_holder(facts, id, job, group);
    let all: Vec<Holder> = std::iter::once(drain).chain(holders).collect();
    divide(limit, &all).first().copied().unwrap_or_default()
}

/// The drain of a group, which needs an allotment as a restart does. It comes first, and has none in force:
/// what leaves by it counts as missing.
fn drain_holder(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupName) -> Holder {
    let drains = |cluster: &ClusterId| {
        let view = facts.clusters.get(cluster);
        view.is_some_and(|view| view.desired_state().moves_work_off())
    };
    let slices = job.slices();
    let leaving = slices
        .iter()
        .filter(|(key, _)| key.group == *group && drains(&key.cluster));
    let active = leaving
        .map(|(key, ranges)| facts.count(id, key, ranges).active)
        .sum();
    Holder {
        reach: Reach::Open,
        instances: active,
        outdated: active,
        given: 0,
        allocated: 0,
        down: 0,
        leaving: 0,
        missing: 0,
    }
}

/// The limit of a group, and the clusters that may have an allotment of it.
fn holders(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    group: &GroupName,
) -> (u64, Vec<ClusterId>, Vec<Holder>) {
    let spec = job.spec.as_ref().and_then(|s| s.group(group));
    let running = job
        .head
        .as_ref()
        .is_some_and(|h| h.goal.desired == Desired::Running);
    // Where nothing is to run nothing is restarted. What was reported of an ended job may be forgotten here
    // before its shards know.
    let limit = if running {
        let sent_on = job.rare.moves.get(group).map_or(0, |moves| moves.sent_on);
        spec.map_or(1, |g| most_down(facts, id, job, g))
            .saturating_sub(sent_on)
            .saturating_sub(moved_and_unbound(job, group))
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
    (limit, clusters, holders)
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
    let is_silent = view.is_some_and(|v| v.health().is_silence());
    // A shard that is back may have reported something of the group before, and not what has become of it since.
    let is_unread = view.is_some_and(|v| v.link.is_some() && v.fulls == 0);
    let word = view.and_then(|v| v.words.get(&(id, group.clone()))).copied();
    let line = job.bound.parts.get(&(group.clone(), cluster.clone()));
    let said = word.unwrap_or_default();
    let allocated = match reach {
        // It has nothing that could be restarted; when it gets something, its allotment comes with it.
        // What was given up at a silent cluster is no instance of the job any more, whatever its shard does.
        _ if instances == 0 && (word.is_none() || is_silent || reach == Reach::Unheard) => 0,
        // It cannot make more unavailable than it has. A shard that answers soon says how much it has.
        Reach::Unheard if is_silent => limit.min(instances),
        Reach::Unheard => limit,
        Reach::Open | Reach::Cut => line.map_or(said.part, |l| l.allocated(said.part)),
    };
    let down = said.unavailable.min(instances);
    let moving = moving(facts, (id, job, group), cluster);
    let (down, missing) = if !runs_for_ever(job, group) {
        (0, 0)
    } else if is_silent || is_unread {
        (down, instances.saturating_sub(allocated.max(down)))
    } else {
        (down, moving.leaving.saturating_add(moving.unbegun))
    };
    Holder {
        reach,
        instances,
        outdated: said.outdated,
        given: line.map_or(0, |l| l.granted()).min(allocated),
        allocated,
        down,
        leaving: moving.leaving,
        missing,
    }
}

/// Whether others rely on the instances of a group. Nothing of a batch job can be unavailable.
fn runs_for_ever(job: &JobView, group: &GroupName) -> bool {
    let spec = job.spec.as_deref();
    spec.is_some_and(|spec| spec.group(group).is_some_and(|g| g.runs_for_ever(spec.kind)))
}

/// Instances on their way from a cluster, or to it.
#[derive(Debug, Clone, Copy, Default)]
struct Moving {
    /// They leave.
    leaving: u64,
    /// They have come and have not begun, although they may, or although a drain has stopped them where they ran.
    unbegun: u64,
}

fn moving(facts: &FederationFacts, of: (JobId, &JobView, &GroupName), cluster: &ClusterId) -> Moving {
    let (id, job, group) = of;
    let slices = job.slices();
    let here = slices
        .iter()
        .filter(|(key, _)| key.group == *group && key.cluster == *cluster);
    let mut all = Moving::default();
    for (key, ranges) in here {
        let count = facts.count(id, key, ranges);
        let granted = job.grants.get(key).map_or(0, |g| g.granted());
        let moved = ranges.iter().filter(|r| r.former.is_some());
        let moved: u64 = moved.map(|r| r.range.count()).sum();
        let moved = moved.min(granted).min(count.unended());
        let unbegun = moved.saturating_sub(count.active);
        let inactive = count.unended().saturating_sub(count.active);
        let drained = moved_and_bound(job, group, ranges).min(inactive);
        all.leaving = all.leaving.saturating_add(count.leaving);
        all.unbegun = all.unbegun.saturating_add(unbegun.max(drained));
    }
    all
}
