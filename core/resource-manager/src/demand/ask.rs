//! The request of a waiting group.

use crate::demand::gangs;
use crate::demand::host_limits::HostLimits;
use crate::demand::request::request;
use crate::demand::slices::Line as SliceLine;
use crate::demand::slices::lines;
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::class::InstanceClass;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, JobId};
use echelon_core_pools::{Request, SliceRequest, Turn};
use std::collections::BTreeMap;

/// What a waiting group requests, as far as the hosts where it is bound can hold it.
pub(crate) fn ask(facts: &FederationFacts, limits: &HostLimits, turn: &Turn) -> Option<Request> {
    let job = facts.jobs.get(&turn.job)?;
    let spec = job.running_spec()?;
    let group = spec.group(&turn.group)?;
    let lines = lines(facts, turn.job, job);
    let request = asked(facts, (turn.job, job), (spec, group), &lines)?;
    Some(within_hosts(limits, (spec, group), &lines, request))
}

/// A request without what the hosts of a cluster could not hold beside what the group has there.
fn within_hosts(
    limits: &HostLimits,
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[SliceLine],
    request: Request,
) -> Request {
    let class = InstanceClass::of(spec, group).filter(|_| request.gang.is_empty());
    let Some(class) = class.filter(|_| !request.slices.is_empty()) else {
        return request;
    };
    let digest = class.digest();
    // Of several generations at a cluster.
    let mut there: BTreeMap<ClusterId, u64> = BTreeMap::new();
    for line in lines.iter().filter(|l| l.key.group == group.name) {
        let sum = there.entry(line.key.cluster.clone()).or_default();
        *sum = sum.saturating_add(line.allocated);
    }
    let held = |slice: SliceRequest| {
        let there = there.entry(slice.cluster.clone()).or_default();
        let most = limits.more(&slice.cluster, digest, &class, *there);
        let more = most.map_or(slice.more, |most| slice.more.min(most));
        *there = there.saturating_add(more);
        SliceRequest { more, ..slice }
    };
    let slices = request.slices.into_iter().map(held);
    Request {
        slices: slices.filter(|slice| slice.more > 0).collect(),
        ..request
    }
}

/// What a group requests, or the gang that it belongs to.
pub(crate) fn asked(
    facts: &FederationFacts,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[SliceLine],
) -> Option<Request> {
    if spec.gang.is_some() {
        gangs::request(facts, (id, job), spec, lines)
    } else {
        request(facts, (id, job), (spec, group), lines)
    }
}
