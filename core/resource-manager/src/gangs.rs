//! Gangs: all instances of a job, of all its groups, are at one cluster, are admitted together, and go elsewhere together.

use crate::candidates::Candidates;
use crate::entry::{Line, PoolRef, is_unplaced, lines, pool_of, terms_in};
use crate::host_pools::HostPools;
use crate::moves::{assign, mark, missing};
use crate::picture::{JobView, Picture, SliceKey};
use crate::place::{Leave, demand};
use crate::room::Asker;
use echelon_core_model::assignment::Releasing;
use echelon_core_model::cluster::Wish;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{
    ClusterId, Generation, GroupName, JobId, RangeSet, Reason, ReasonCode, Resources, Span,
};
use echelon_core_pools::{Member, Request, SliceRequest, Unit};
use echelon_core_routing::{Part, route_whole};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many times longer a gang waits for offers than for a host before it goes elsewhere.
const UNOFFERED: u64 = 4;

/// What of a gang is to begin together: all that is not granted yet and has not ended, of each group.
pub(crate) fn members(lines: &[Line]) -> Vec<Member> {
    let lacking = lines.iter().map(|l| Member {
        group: l.key.group.clone(),
        generation: l.key.generation,
        more: l.count.startable().saturating_sub(l.allocated),
    });
    lacking.filter(|m| m.more > 0).collect()
}

/// All of these at once.
pub(crate) fn unit(host_pools: &HostPools, spec: &JobSpec, members: &[Member]) -> Unit {
    let none = Unit {
        shape: Resources::ZERO,
        instances: 0,
        host_pool: None,
    };
    let groups = members
        .iter()
        .filter_map(|m| Some((spec.group(&m.group)?, m.more)));
    // Where its groups do not all need hosts of one host pool, it is only known what all hosts have.
    let mut needed = groups.clone().map(|(g, _)| host_pools.index(&g.siting.host_pool));
    let first = needed.next().flatten();
    let host_pool = first.filter(|_| needed.all(|other| other == first));
    let all = groups.fold(none, |sum, (group, more)| Unit {
        shape: sum.shape.plus(group.room().times(more)),
        instances: sum.instances.saturating_add(more),
        ..sum
    });
    all.on(host_pool)
}

/// What a gang asks for; `None` when it waits nowhere, is on its way, or its pool is not there.
pub(crate) fn request(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    spec: &JobSpec,
    lines: &[Line],
) -> Option<Request> {
    let PoolRef::Known(pool) = pool_of(picture, &spec.pool) else {
        return None;
    };
    let moving = job.groups().iter().any(|group| {
        let leaves = job.decided.ranges(group).iter().any(|r| r.releasing.is_some());
        leaves || missing(job, group) > 0
    });
    let cluster = &lines.first()?.key.cluster;
    let apart = lines.iter().any(|l| l.key.cluster != *cluster);
    let held_back = lines.iter().any(|l| job.held_back.contains_key(&l.key));
    let members = members(lines);
    if moving || apart || held_back || members.is_empty() || job.decided != job.durable {
        return None;
    }
    Some(Request {
        job: id,
        group: members.first()?.group.clone(),
        pool,
        terms: terms_in(picture, pool, spec, lines),
        unit: unit(&picture.host_pools, spec, &members),
        room: 1,
        slices: vec![SliceRequest {
            cluster: cluster.clone(),
            generation: Generation::default(),
            allocated: 0,
            more: 1,
        }],
        gang: members,
    })
}

/// What of each group is to go somewhere, as routing needs it.
pub(crate) fn parts<'a>(
    id: JobId,
    spec: &'a JobSpec,
    clusters: &'a Candidates,
    count: impl Fn(&echelon_core_model::spec::GroupSpec) -> u64,
) -> Vec<Part<'a>> {
    let groups = spec.groups.iter();
    let parts = groups.map(|g| Part {
        demand: demand(id, spec, g),
        count: count(g),
        clusters: clusters.of(clusters.asker(spec, g)),
    });
    parts.collect()
}

/// Gives all numbers of a gang that have no holder one: where the others are, or all of them the same.
pub(crate) fn route_missing(id: JobId, job: &mut JobView, spec: &JobSpec, clusters: &mut Candidates) {
    let lacking: Vec<u64> = spec.groups.iter().map(|g| missing(job, &g.name)).collect();
    if lacking.iter().all(|n| *n == 0) {
        return;
    }
    let groups = spec.groups.iter();
    let mut held = groups.flat_map(|g| job.decided.ranges(&g.name));
    let cluster = match held.next() {
        Some(range) => range.cluster.clone(),
        None => {
            let parts = parts(id, spec, clusters, |g| u64::from(g.instances));
            match route_whole(&parts, clusters.capacity(), &[], clusters.homes()) {
                Ok(whole) => whole.cluster,
                Err(reason) => {
                    let groups = spec.groups.iter().map(|g| (g.name.clone(), reason.clone()));
                    groups.for_each(|(group, reason)| drop(job.unrouted.insert(group, reason)));
                    return;
                }
            }
        }
    };
    for (group, n) in spec.groups.iter().zip(lacking).filter(|(_, n)| *n > 0) {
        clusters.take(&cluster, clusters.asker(spec, group), group.room().times(n));
        assign(
            Arc::make_mut(&mut job.decided),
            &group.name,
            &spec.rules.withdrawn(&group.name),
            &[(cluster.clone(), n)],
        );
    }
}

impl Leave<'_> {
    /// Marks all of a gang to go, when it cannot begin where it is and can elsewhere, or its cluster is to be emptied.
    pub(crate) fn mark_gang(&mut self, id: JobId, job: &mut JobView, spec: &JobSpec) {
        let slices: BTreeSet<SliceKey> = job.slices().into_keys().collect();
        job.stuck.retain(|key, _| slices.contains(key));
        let Some(first) = slices.first().cloned() else {
            return;
        };
        let marked = |key: &SliceKey| {
            job.decided
                .ranges(&key.group)
                .iter()
                .any(|r| r.releasing.is_some())
        };
        if job.durable != job.decided || slices.iter().any(marked) {
            return;
        }
        let apart: Vec<&ClusterId> = slices.iter().map(|k| &k.cluster).collect();
        if apart.iter().any(|c| **c != first.cluster) {
            // It came apart, as when its target was taken back for a part of it: all follow the first.
            self.changed |= mark_all(job, &first.cluster);
            return;
        }
        let view = self.picture.clusters.get(&first.cluster);
        let drains = view.is_some_and(|c| c.wish() == Wish::Draining);
        if !drains && !self.is_stuck(id, job, spec, &first) {
            return;
        }
        let lines = lines(self.picture, id, job);
        let ended = |group: &GroupName| {
            let of_group = lines.iter().filter(|l| l.key.group == *group);
            of_group.map(|l| l.count.ended).fold(0, u64::saturating_add)
        };
        let parts = parts(id, spec, &self.clusters, |g| {
            u64::from(g.instances).saturating_sub(ended(&g.name))
        });
        let from = [first.cluster.clone()];
        let whole = route_whole(&parts, self.clusters.capacity(), &from, self.clusters.homes());
        let Ok(whole) = whole.map_err(drop) else { return };
        if !whole.has_room || (drains && self.drain_left == 0) {
            return;
        }
        let needs: Vec<(Asker, Resources)> = spec
            .groups
            .iter()
            .zip(&parts)
            .map(|(g, p)| (self.clusters.asker(spec, g), p.demand.shape.times(p.count)))
            .collect();
        for (asker, need) in needs {
            self.clusters.take(&whole.cluster, asker, need);
        }
        if drains {
            self.drain_left = self.drain_left.saturating_sub(spec.instances());
        }
        self.changed |= mark_all(job, &whole.cluster);
    }

    /// Whether a gang without a live run has found no capacity for long enough. The shard declines offers that do
    /// not suffice for the whole gang, so such a gang waits for offers most of the time. That counts, too, when it
    /// lasts much longer than offers take.
    fn is_stuck(&self, id: JobId, job: &mut JobView, spec: &JobSpec, first: &SliceKey) -> bool {
        let lines = lines(self.picture, id, job);
        let reports = || lines.iter().filter_map(|l| self.picture.report(id, &l.key));
        let lives = reports().any(|r| r.live > 0);
        let waits = |which: fn(ReasonCode) -> bool| {
            let mut waiting = reports().flat_map(|r| &r.waiting);
            waiting.any(|(reason, ..)| which(reason.code))
        };
        let unplaced = waits(is_unplaced);
        let unoffered = waits(|code| code == ReasonCode::AwaitingOffer);
        let refused = refusal(self.picture, (id, job), spec, &lines);
        let no_room = refused.is_some_and(|r| {
            matches!(
                r.code,
                ReasonCode::NoClusterCapacity | ReasonCode::ClusterCordoned
            )
        });
        if lives || !(unplaced || unoffered || no_room) {
            job.stuck.remove(first);
            return false;
        }
        let since = *job.stuck.get_or_insert_with(first.clone(), || self.now);
        let patience = if unplaced || no_room {
            self.spill_after
        } else {
            Span(self.spill_after.0.saturating_mul(UNOFFERED))
        };
        self.now.since(since) >= patience
    }
}

/// Marks all of a gang to go to a cluster; tells whether anything of it was elsewhere.
fn mark_all(job: &mut JobView, to: &ClusterId) -> bool {
    let with = Releasing {
        to: Some(to.clone()),
        why: ReasonCode::Moved,
        count: None,
    };
    let mut changed = false;
    for group in job.groups() {
        let Some(ranges) = Arc::make_mut(&mut job.decided).groups.get_mut(&group) else {
            continue;
        };
        let there = ranges.iter().filter(|r| r.cluster != *to).map(|r| r.range);
        let numbers: RangeSet = there.collect();
        mark(ranges, &numbers, &with);
        changed |= !numbers.is_empty();
    }
    changed
}

/// Sends all of a waiting gang to another cluster, unless its assignment is being changed already. Tells whether it did.
pub(crate) fn send_whole(job: &mut JobView, to: &ClusterId) -> bool {
    let groups = job.groups();
    let mut ranges = groups.iter().flat_map(|g| job.decided.ranges(g));
    let marked = ranges.any(|r| r.releasing.is_some());
    !marked && job.durable == job.decided && mark_all(job, to)
}

/// Why a gang gets nothing of what a division has left, if so.
pub(crate) fn refusal(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    spec: &JobSpec,
    lines: &[Line],
) -> Option<Reason> {
    let request = request(picture, (id, job), spec, lines)?;
    let cluster = &request.slices.first()?.cluster;
    let rooms = &picture.division.rooms;
    rooms.refusal(request.pool, request.terms, request.unit, cluster)
}
