//! What would become of a job if it were submitted now: the same functions as the cycle, on the same picture, committing
//! nothing.

use crate::picture::{JobView, Picture};
use crate::place::{demand, route_missing, spoken_for};
use crate::quota::{Totals, apart, entitlements, requests, rooms, rooms_with_slack, totals};
use crate::room::{Asker, Candidates};
use echelon_core_model::job::Head;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId, Reason, ReasonCode, Resources, Timestamp, Version};
use echelon_core_pools::{Admission, Entitlements, admit};
use echelon_core_routing::{Candidate, Demand, filter};
use std::collections::BTreeMap;

/// Correlates a question with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanToken(pub u64);

/// What would become of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its pool.
    pub pool: PoolPlan,
    /// Its groups, in the job's order.
    pub groups: Vec<GroupPlan>,
}

/// How a pool stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Its path.
    pub path: String,
    /// `PoolNotFound` when it does not exist or has pools below it.
    pub problem: Option<Reason>,
    /// What it gets first.
    pub reservation: Resources,
    /// What it never exceeds.
    pub limit: Resources,
    /// What it is entitled to, this job's demand included.
    pub entitlement: Resources,
    /// What is granted or active in it.
    pub allocated: Resources,
}

/// What would become of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name.
    pub group: GroupName,
    /// Wanted instances.
    pub instances: u64,
    /// How many could be active now.
    pub could_start: u64,
    /// The clusters that it would go to, the home first.
    pub clusters: Vec<ClusterShare>,
    /// The clusters that it cannot go to.
    pub dropped: Vec<Dropped>,
    /// Why the others would wait: the counts sum to `instances - could_start`.
    pub waiting: Vec<(Reason, u64)>,
}

/// A cluster's part of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShare {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Instances assigned to it.
    pub instances: u64,
}

/// A cluster that a group cannot go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Which filter dropped it, with numbers.
    pub reason: Reason,
}

/// What would become of a job on the present picture.
#[must_use]
pub fn plan(picture: &Picture, spec: &JobSpec) -> Plan {
    let id = newest_id(picture);
    let mut picture = picture.clone();
    let mut job = JobView::new(id);
    job.head = Some(imagined(id, spec));
    job.spec = Some(spec.clone());
    job.spec_version = 1;
    let pool_known = picture.hierarchy.leaf(&spec.pool).is_some();
    let mut clusters = Candidates::new(&picture, &spoken_for(&picture));
    let dropped: Vec<Vec<Dropped>> = spec
        .groups
        .iter()
        .map(|g| drops(&demand(id, spec, g), clusters.of(Asker::of(spec, g))))
        .collect();
    route_missing(id, &mut job, pool_known, &mut clusters);
    job.durable = job.decided.clone();
    picture.jobs.insert(id, job);

    let sums = totals(&picture);
    let entitled = entitlements(&picture, &sums);
    let mut rooms = rooms(&picture, &sums, &entitled);
    let asked = requests(&mut picture, Timestamp(0));
    let (revocable, ordinary) = apart(&picture, asked);
    let mut admitted = admit(&ordinary, &mut rooms);
    let mut rooms = rooms_with_slack(&picture, &sums, &rooms);
    admitted.extend(admit(&revocable, &mut rooms));
    let groups = spec.groups.iter().zip(dropped);
    Plan {
        pool: pool_plan(&picture, spec, &sums, &entitled),
        groups: groups
            .map(|(group, dropped)| group_plan(&picture, id, group, dropped, &admitted))
            .collect(),
    }
}

/// An id younger than every job's, so that the plan waits behind all of its priority.
fn newest_id(picture: &Picture) -> JobId {
    JobId(
        picture
            .jobs
            .keys()
            .next_back()
            .map_or(1, |id| id.0.saturating_add(1)),
    )
}

fn imagined(job: JobId, spec: &JobSpec) -> Head {
    Head {
        job,
        version: Version(1),
        void: false,
        goal: Default::default(),
        spec_version: 1,
        name: spec.name.clone(),
        pool: spec.pool.clone(),
        kind: spec.kind,
        owner: spec.owner.clone(),
        labels: Default::default(),
        instances: spec.instances(),
        updated_at: Timestamp(0),
    }
}

fn drops(demand: &Demand<'_>, clusters: &[Candidate]) -> Vec<Dropped> {
    let (_, dropped) = filter(demand, clusters);
    let dropped = dropped.into_iter().map(|d| Dropped {
        cluster: d.id,
        name: d.name,
        reason: d.reason,
    });
    dropped.collect()
}

fn pool_plan(picture: &Picture, spec: &JobSpec, sums: &Totals, entitled: &Entitlements) -> PoolPlan {
    let pool = picture.hierarchy.leaf(&spec.pool);
    PoolPlan {
        path: spec.pool.clone(),
        problem: pool
            .is_none()
            .then(|| Reason::new(ReasonCode::PoolNotFound).at(&spec.pool)),
        reservation: pool.map(|p| p.reservation).unwrap_or_default(),
        limit: pool.map(|p| p.limit).unwrap_or_default(),
        entitlement: picture
            .hierarchy
            .find(&spec.pool)
            .map(|i| entitled.amount(i))
            .unwrap_or_default(),
        allocated: sums
            .ordinary
            .allocated
            .get(&spec.pool)
            .copied()
            .unwrap_or_default(),
    }
}

fn group_plan(
    picture: &Picture,
    id: JobId,
    group: &GroupSpec,
    dropped: Vec<Dropped>,
    admitted: &[Admission],
) -> GroupPlan {
    let job = picture.jobs.get(&id);
    let mut counts: BTreeMap<ClusterId, u64> = BTreeMap::new();
    let ranges = job.map_or(&[][..], |j| j.durable.ranges(&group.name));
    for r in ranges {
        *counts.entry(r.cluster.clone()).or_default() += r.range.count();
    }
    let clusters = counts.into_iter().map(|(cluster, instances)| {
        let row = picture.clusters.get(&cluster).and_then(|c| c.row.as_ref());
        ClusterShare {
            name: row.map(|r| r.name.clone()).unwrap_or_default(),
            cluster,
            instances,
        }
    });
    let mine = admitted.iter().filter(|a| a.job == id && a.group == group.name);
    let could_start: u64 = mine.clone().flat_map(|a| a.more.iter().map(|(_, _, n)| *n)).sum();
    let mut waiting: Vec<(Reason, u64)> = mine
        .flat_map(|a| a.refused.iter().map(|r| (r.reason.clone(), r.count)))
        .collect();
    let barred = job
        .into_iter()
        .flat_map(|j| &j.refused)
        .filter(|(k, _)| k.group == group.name);
    waiting.extend(barred.map(|(_, (reason, n))| (reason.clone(), *n)));
    let unrouted = job.and_then(|j| j.unrouted.get(&group.name));
    waiting.extend(unrouted.map(|reason| (reason.clone(), u64::from(group.instances))));
    GroupPlan {
        group: group.name.clone(),
        instances: u64::from(group.instances),
        could_start,
        clusters: clusters.collect(),
        dropped,
        waiting,
    }
}
