//! Daemons. Each cluster has as many instances of a daemon as its shard counts hosts. Indexes never move from
//! one cluster to another.

use crate::assignment::indexes::{assign, give};
use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{AssignedRange, ClusterId, GroupName, InstanceRange, JobId, RangeSet};
use std::collections::BTreeSet;

/// Updates the instance counts of daemons. Everything else treats the counts as part of the spec. Returns the
/// jobs that have changed.
pub(crate) fn count_daemons(facts: &mut FederationFacts, jobs: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    let mut changed = BTreeSet::new();
    for id in jobs {
        let Some(spec) = counted(facts, *id) else {
            continue;
        };
        let spec = facts.specs.share(spec);
        if let Some(job) = facts.jobs.get_mut(id) {
            job.spec = Some(spec);
            changed.insert(*id);
        }
    }
    changed
}

/// The spec of a daemon with as many instances as there are hosts; `None`: it is none, or has as many.
fn counted(facts: &FederationFacts, id: JobId) -> Option<JobSpec> {
    let job = facts.jobs.get(&id)?;
    let spec = job.spec.as_deref().filter(|spec| spec.kind == JobKind::Daemon)?;
    let mut next = spec.clone();
    for group in &mut next.groups {
        let all: u64 = clusters(facts, spec, job, &group.name)
            .iter()
            .map(|c| {
                let here = assigned(job, &group.name, c);
                wanted(facts, (id, job, spec), &group.name, c).max(here)
            })
            .sum();
        group.instances = u32::try_from(all).unwrap_or(u32::MAX);
    }
    (next != *spec).then_some(next)
}

/// Gives each cluster the indexes that it lacks.
pub(crate) fn assign_missing(facts: &FederationFacts, id: JobId, job: &mut JobView, spec: &JobSpec) {
    for group in &spec.groups {
        let shares = clusters(facts, spec, job, &group.name).into_iter().map(|c| {
            let wanted = wanted(facts, (id, job, spec), &group.name, &c);
            let more = wanted.saturating_sub(assigned(job, &group.name, &c));
            (c, more)
        });
        let shares: Vec<(ClusterId, u64)> = shares.filter(|(_, more)| *more > 0).collect();
        // One after the other: each sees the spans that the clusters before it have taken.
        for (cluster, more) in shares {
            let numbers = numbers_of_its_own(job.decided.ranges(&group.name), &cluster, more);
            give(job.decided.make_mut(id), &group.name, &[(cluster, numbers)]);
        }
    }
}

/// The size of the spans of indexes that a cluster has for itself once it has one index in them.
const NUMBERS_A_CLUSTER: u32 = 256;

/// The lowest free indexes in spans of 256 in which no other cluster has an index. So the indexes of a
/// cluster stay together, although hosts join one by one at several clusters. Otherwise its assignment would
/// have a range for each host.
fn numbers_of_its_own(ranges: &[AssignedRange], cluster: &ClusterId, n: u64) -> RangeSet {
    let first_of = |number: u32| number / NUMBERS_A_CLUSTER * NUMBERS_A_CLUSTER;
    let span_of = |r: &AssignedRange| InstanceRange {
        first: first_of(r.range.first),
        last: first_of(r.range.last).saturating_add(NUMBERS_A_CLUSTER - 1),
    };
    let others: RangeSet = ranges
        .iter()
        .filter(|r| r.cluster != *cluster)
        .map(span_of)
        .collect();
    let all: RangeSet = ranges.iter().map(|r| r.range).collect();
    let taken = others.union(&all);
    let end = taken.count().saturating_add(n);
    RangeSet::below(u32::try_from(end).unwrap_or(u32::MAX))
        .minus(&taken)
        .lowest(n)
}

/// A daemon's spec as a plan sees it: with one instance on each host that may be placed on. Host constraints
/// do not count, because only shards can evaluate them. Other kinds keep their spec.
pub(crate) fn planned(facts: &FederationFacts, spec: &JobSpec) -> JobSpec {
    let mut out = spec.clone();
    if spec.kind == JobKind::Daemon {
        let hosts: u64 = hosts(facts, spec).into_iter().map(|(_, n)| n).sum();
        for group in &mut out.groups {
            group.instances = u32::try_from(hosts).unwrap_or(u32::MAX);
        }
    }
    out
}

/// Gives clusters the indexes that a plan sees.
pub(crate) fn assign_planned(facts: &FederationFacts, id: JobId, job: &mut JobView, spec: &JobSpec) {
    for group in &spec.groups {
        let shares = hosts(facts, spec);
        let decided = job.decided.make_mut(id);
        assign(decided, &group.name, &RangeSet::new(), &shares);
    }
}

fn hosts(facts: &FederationFacts, spec: &JobSpec) -> Vec<(ClusterId, u64)> {
    let open = facts.clusters.iter().filter(|(_, view)| takes(spec, view));
    let told = open.filter_map(|(id, view)| Some((id.clone(), view.capacity.as_ref()?.hosts)));
    told.map(|(id, n)| (id, u64::from(n)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// How many indexes of a group its cluster has beyond its hosts.
pub(crate) fn surplus(facts: &FederationFacts, id: JobId, job: &JobView, key: &SliceKey) -> u64 {
    let Some(spec) = job.running_spec() else { return 0 };
    let wanted = wanted(facts, (id, job, spec), &key.group, &key.cluster);
    assigned(job, &key.group, &key.cluster).saturating_sub(wanted)
}

/// The clusters that have, or are to have, something of a group.
fn clusters(
    facts: &FederationFacts,
    spec: &JobSpec,
    job: &JobView,
    group: &GroupName,
) -> BTreeSet<ClusterId> {
    let open = facts.clusters.iter().filter(|(_, view)| takes(spec, view));
    let has = job.decided.ranges(group).iter().map(|r| r.cluster.clone());
    open.map(|(id, _)| id.clone()).chain(has).collect()
}

fn takes(spec: &JobSpec, view: &ClusterView) -> bool {
    let row = view
        .row
        .as_ref()
        .filter(|row| row.desired_state == DesiredState::Active);
    row.is_some_and(|row| spec.clusters.allows(row.identity()))
}

fn assigned(job: &JobView, group: &GroupName, cluster: &ClusterId) -> u64 {
    let ranges = job.decided.ranges(group).iter().filter(|r| r.cluster == *cluster);
    ranges.map(|r| r.range.count()).sum()
}

/// How many instances a cluster is to have: one for each host. Before its shard has counted them, the cluster
/// keeps what it has, and has at least one, through which its shard learns of the daemon. A cluster that
/// takes nothing new gets no more.
fn wanted(
    facts: &FederationFacts,
    (id, job, spec): (JobId, &JobView, &JobSpec),
    group: &GroupName,
    cluster: &ClusterId,
) -> u64 {
    let view = facts.clusters.get(cluster);
    let open = view.is_some_and(|view| takes(spec, view));
    let word = view.and_then(|view| view.words.get(&(id, group.clone())));
    let here = assigned(job, group, cluster);
    match word.and_then(|word| word.hosts) {
        Some(hosts) if open => hosts.into(),
        Some(hosts) => here.min(hosts.into()),
        None if open => here.max(1),
        None => here,
    }
}
