//! Gangs. All instances of a job, of all its groups, are at one cluster. They are admitted together, and
//! leave together.

use crate::demand::request::{PoolRef, avoided, pool_of, terms_in, unbound};
use crate::demand::slices::Line;
use crate::facts::FederationFacts;
use crate::facts::host_pools::HostPools;
use crate::facts::job::JobView;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{Generation, JobId, Resources};
use echelon_core_pools::{Member, Request, SliceRequest, Unit};

/// What of a gang is to begin together: all that is not granted yet and has not ended, of each group.
pub(crate) fn members(facts: &FederationFacts, job: &JobView, spec: &JobSpec, lines: &[Line]) -> Vec<Member> {
    let bound = lines.iter().map(|l| Member {
        group: l.key.group.clone(),
        generation: l.key.generation,
        more: l.count.startable().saturating_sub(l.allocated),
        unbound: 0,
    });
    let free = spec.groups.iter().map(|g| Member {
        group: g.name.clone(),
        generation: Generation::default(),
        more: 0,
        unbound: unbound(facts, job, spec, &g.name),
    });
    let lacking = bound.chain(free);
    lacking.filter(|m| m.more > 0 || m.unbound > 0).collect()
}

/// The unit of all these members at once.
pub(crate) fn unit(host_pools: &HostPools, spec: &JobSpec, members: &[Member]) -> Unit {
    let none = Unit {
        shape: Resources::ZERO,
        instances: 0,
        host_pool: None,
    };
    let groups = members
        .iter()
        .filter_map(|m| Some((spec.group(&m.group)?, m.more.saturating_add(m.unbound))));
    // If its groups do not all need hosts of one host pool, the capacity of all hosts is what counts.
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

/// What a gang requests. `None` when it requests nothing, some of it is to leave, it is at several clusters,
/// its assignment is not stored, or its pool is not in the tree.
pub(crate) fn request(
    facts: &FederationFacts,
    (id, job): (JobId, &JobView),
    spec: &JobSpec,
    lines: &[Line],
) -> Option<Request> {
    let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
        return None;
    };
    let leaves = |group| job.decided.ranges(group).iter().any(|r| r.releasing.is_some());
    let leaves = job.groups().iter().any(leaves);
    let cluster = lines.first().map(|l| &l.key.cluster);
    let apart = lines.iter().any(|l| Some(&l.key.cluster) != cluster);
    let members = members(facts, job, spec, lines);
    if leaves || apart || members.is_empty() || job.decided != job.durable {
        return None;
    }
    let bound = cluster.map(|cluster| SliceRequest {
        cluster: cluster.clone(),
        generation: Generation::default(),
        allocated: 0,
        more: 1,
    });
    Some(Request {
        job: id,
        group: members.first()?.group.clone(),
        pool,
        terms: terms_in(facts, pool, spec, lines),
        unit: unit(&facts.host_pools, spec, &members),
        room: 1,
        unbound: u64::from(bound.is_none()),
        slices: bound.into_iter().collect(),
        have: Vec::new(),
        avoid: spec.groups.iter().flat_map(|g| avoided(job, &g.name)).collect(),
        gang: members,
    })
}
