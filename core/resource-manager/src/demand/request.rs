//! What a group requests from admission.

use crate::assignment::indexes::missing;
use crate::demand::slices::{Line, has_begun};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Request, Side, SliceRequest, Terms, Unit};
use std::collections::BTreeMap;

/// A job's pool: in the tree and taking jobs, or a path that is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolRef {
    /// Its index in the hierarchy.
    Known(PoolIdx),
    /// Its path.
    Unknown(String),
}

pub(crate) fn pool_of(facts: &FederationFacts, path: &str) -> PoolRef {
    let found = facts.hierarchy.find(path);
    let leaf = found.filter(|i| facts.hierarchy.is_leaf(*i));
    leaf.map_or_else(|| PoolRef::Unknown(path.to_owned()), PoolRef::Known)
}

/// What a group requests: more at the clusters where some of it is bound, and clusters for the rest. `None`
/// when it requests nothing, or its pool is not in the tree.
pub(crate) fn request(
    facts: &FederationFacts,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[Line],
) -> Option<Request> {
    let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
        return None;
    };
    let terms = terms_in(facts, pool, spec, lines);
    let lines: Vec<&Line> = lines.iter().filter(|l| l.key.group == group.name).collect();
    let allocated = lines.iter().map(|l| l.allocated).fold(0, u64::saturating_add);
    let avoid = avoided(job, &group.name);
    // Indexes that are bound ahead are not tried at a cluster where the group found no host a short while
    // ago.
    let open = lines
        .into_iter()
        .filter(|line| !avoid.contains(&line.key.cluster));
    let slices = open.filter_map(|line| {
        let more = line.count.startable().saturating_sub(line.allocated);
        (more > 0).then(|| SliceRequest {
            cluster: line.key.cluster.clone(),
            generation: line.key.generation,
            allocated: line.allocated,
            more,
        })
    });
    let slices: Vec<SliceRequest> = slices.collect();
    let unbound = unbound(facts, job, spec, &group.name);
    (!slices.is_empty() || unbound > 0).then(|| Request {
        job: id,
        group: group.name.clone(),
        pool,
        terms,
        unit: unit_of(facts, group),
        room: u64::from(group.most_active()).saturating_sub(allocated),
        slices,
        unbound,
        have: have(job, &group.name),
        avoid,
        gang: Vec::new(),
    })
}

/// Instances of a group that are bound nowhere and need a cluster. Daemons need none: the hosts of each
/// cluster are counted.
pub(crate) fn unbound(facts: &FederationFacts, job: &JobView, spec: &JobSpec, group: &GroupName) -> u64 {
    let asks = facts.awaiting.is_none() && !job.is_refused() && spec.kind != JobKind::Daemon;
    if asks { missing(job, group) } else { 0 }
}

/// Instances of a group by cluster, granted or not.
pub(crate) fn have(job: &JobView, group: &GroupName) -> Vec<(ClusterId, u64)> {
    let mut out: BTreeMap<&ClusterId, u64> = BTreeMap::new();
    for r in job.decided.ranges(group) {
        *out.entry(&r.cluster).or_default() += r.range.count();
    }
    out.into_iter().map(|(c, n)| (c.clone(), n)).collect()
}

/// Clusters where a group found no host a short while ago.
pub(crate) fn avoided(job: &JobView, group: &GroupName) -> Vec<ClusterId> {
    let of_group = job
        .avoid
        .iter()
        .filter(|((g, _), avoided)| g == group && !avoided.is_over);
    of_group.map(|((_, cluster), _)| cluster.clone()).collect()
}

/// One instance of a group.
pub(crate) fn unit_of(facts: &FederationFacts, group: &GroupSpec) -> Unit {
    Unit::one(group.room()).on(facts.host_pools.index(&group.siting.host_pool))
}

/// The admission class of a job.
pub(crate) const fn terms_of(spec: &JobSpec) -> Terms {
    let side = if spec.revocable {
        Side::Revocable
    } else {
        Side::Ordinary
    };
    Terms {
        side,
        preemptible: spec.preemptible,
        controller: spec.controller,
        counted: true,
    }
}

/// The admission class in which a job requests more of a pool.
pub(crate) fn terms_in(facts: &FederationFacts, pool: PoolIdx, spec: &JobSpec, lines: &[Line]) -> Terms {
    Terms {
        counted: !facts.hierarchy.bounds_jobs(pool) || has_begun(lines),
        ..terms_of(spec)
    }
}
