//! How much may be active: demand and allocation by pool, entitlement, and admission: nothing is admitted while what is allocated
//! and what is raised together exceed pool, entitlement, group or cluster.

use crate::picture::{ClusterView, JobView, Picture, SliceCount, SliceKey};
use crate::room::{Taken, capacity, left, lends, lent, slack_left};
use echelon_core_model::cluster::Wish;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::reason::Layer;
use echelon_core_model::{ClusterId, GroupName, JobId, Reason, ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::{Admission, Entitlements, Hierarchy, Request, Rooms, SliceRequest, admit, entitle};
use std::collections::BTreeMap;

/// Sums over all live jobs. What revocable work takes of what hosts lend is summed for itself; what it takes of ordinary room is
/// ordinary.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Of ordinary room.
    pub ordinary: Sums,
    /// Of what hosts lend.
    pub slack: Sums,
    /// What could be active of work that asks for GPUs.
    pub demand_with_gpus: Resources,
    /// What is granted or active, by cluster.
    pub taken: BTreeMap<ClusterId, Taken>,
}

/// Sums by pool.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// What is granted or active.
    pub allocated: BTreeMap<String, Resources>,
    /// What could be active if everything fitted.
    pub demand: BTreeMap<String, Resources>,
}

impl Sums {
    fn add(&mut self, pool: &str, allocated: Resources, demand: Resources) {
        for (sums, more) in [(&mut self.allocated, allocated), (&mut self.demand, demand)] {
            let sum = sums.entry(pool.to_owned()).or_default();
            *sum = sum.plus(more);
        }
    }
}

/// A slice with its numbers, as admission needs it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) key: SliceKey,
    pub(crate) count: SliceCount,
    pub(crate) allocated: u64,
}

pub(crate) fn lines(picture: &Picture, id: JobId, job: &JobView, group: &GroupName) -> Vec<Line> {
    let slices = job.slices().into_iter().filter(|(key, _)| key.group == *group);
    slices
        .map(|(key, ranges)| Line {
            count: picture.count(id, &key, &ranges),
            allocated: picture.allocated(job, id, &key, &ranges),
            key,
        })
        .collect()
}

/// Sums what is allocated and wanted.
#[must_use]
pub fn totals(picture: &Picture) -> Totals {
    let mut out = Totals::default();
    let lent = lent(picture);
    for (id, job) in picture.live() {
        let Some(spec) = &job.spec else { continue };
        for group in &spec.groups {
            let lines = lines(picture, id, job, &group.name);
            for line in &lines {
                let lends = picture.clusters.get(&line.key.cluster).map(lends);
                let taken = out.taken.entry(line.key.cluster.clone()).or_default();
                let room = group.room().times(line.allocated);
                taken.add_of(spec, room, lends.unwrap_or_default());
            }
            let allocated: u64 = lines.iter().map(|l| l.allocated).sum();
            let ended: u64 = lines.iter().map(|l| l.count.ended).sum();
            let open = job
                .wanted(&group.name)
                .saturating_sub(ended)
                .min(u64::from(group.most_active()));
            let of_lent = if spec.revocable {
                group.room().lent_part(lent)
            } else {
                Resources::ZERO
            };
            let wanted = open.max(allocated);
            for (sums, shape) in [
                (&mut out.ordinary, group.room().minus(of_lent)),
                (&mut out.slack, of_lent),
            ] {
                sums.add(&spec.pool, shape.times(allocated), shape.times(wanted));
            }
            if group.resources.gpus > 0 {
                out.demand_with_gpus = out.demand_with_gpus.plus(group.room().times(wanted));
            }
        }
    }
    out
}

/// What every pool may use now of ordinary room.
pub fn entitlements(picture: &Picture, totals: &Totals) -> Entitlements {
    let there = capacity(picture, totals.demand_with_gpus);
    divide(&picture.hierarchy, &totals.ordinary.demand, there)
}

/// What every pool may use now of what hosts lend: the same division by shares alone. Nobody has reserved any of it.
pub fn slack_entitlements(picture: &Picture, totals: &Totals) -> (Hierarchy, Entitlements) {
    let hierarchy = Hierarchy::new(&by_shares(&picture.pools));
    let entitled = divide(&hierarchy, &totals.slack.demand, lent(picture));
    (hierarchy, entitled)
}

/// The pools without reservations and limits, which are about ordinary room.
#[must_use]
pub fn by_shares(pools: &PoolTree) -> PoolTree {
    let mut out = pools.clone();
    for pool in out.pools.values_mut() {
        pool.reservation = Resources::ZERO;
        pool.limit = Resources::MAX;
    }
    out
}

/// Divides `there` by what jobs of each pool want.
pub(crate) fn divide(
    hierarchy: &Hierarchy,
    demand: &BTreeMap<String, Resources>,
    there: Resources,
) -> Entitlements {
    let mut wanted = vec![Resources::ZERO; hierarchy.len()];
    for (path, amount) in demand {
        if let Some(slot) = hierarchy.find(path).and_then(|i| wanted.get_mut(i)) {
            *slot = *amount;
        }
    }
    entitle(hierarchy, &wanted, there)
}

/// What is left in pools and clusters.
#[must_use]
pub fn rooms(picture: &Picture, totals: &Totals, entitlements: &Entitlements) -> Rooms {
    let clusters = open_clusters(picture, totals).map(|(id, c, taken)| (id.clone(), left(c, taken)));
    let allocated = &totals.ordinary.allocated;
    Rooms::new(&picture.hierarchy, entitlements, allocated, clusters.collect())
}

/// What `rooms`, after ordinary work has taken its part, leave for revocable work together with what hosts lend.
#[must_use]
pub fn rooms_with_slack(picture: &Picture, totals: &Totals, rooms: &Rooms) -> Rooms {
    let (hierarchy, entitled) = slack_entitlements(picture, totals);
    let clusters = open_clusters(picture, totals).map(|(id, c, taken)| (id.clone(), slack_left(c, taken)));
    let slack = Rooms::new(&hierarchy, &entitled, &totals.slack.allocated, clusters.collect());
    let by_cluster = open_clusters(picture, totals).map(|(id, c, _)| (id.clone(), lends(c)));
    rooms.with_slack(&slack, lent(picture), &by_cluster.collect())
}

/// The clusters that take grants, with what is taken of each.
fn open_clusters<'a>(
    picture: &'a Picture,
    totals: &'a Totals,
) -> impl Iterator<Item = (&'a ClusterId, &'a ClusterView, Taken)> {
    let open = picture.clusters.iter().filter(|(_, c)| c.takes_grants());
    open.map(|(id, c)| {
        let taken = totals.taken.get(id).copied().unwrap_or_default();
        (id, c, taken.or_used(c))
    })
}

/// Why a slice gets no more whatever room there is.
fn barred(picture: &Picture, job: &JobView, key: &SliceKey, now: Timestamp) -> Option<Reason> {
    let cluster = picture.clusters.get(&key.cluster)?;
    if !cluster.takes_grants() {
        return Some(Reason::new(ReasonCode::ClusterSilent).at(key.cluster.as_str()));
    }
    if cluster.wish() != Wish::Active {
        let reason = Reason::new(ReasonCode::ClusterCordoned);
        return Some(reason.at(format!("{}: {}", key.cluster, cluster.wish().word())));
    }
    let held = job.held_back.get(key).filter(|(until, _)| *until > now);
    held.map(|(_, reason)| reason.clone())
}

/// What every waiting group asks for; slices that can get nothing are noted as refused in `job`.
pub fn requests(picture: &mut Picture, now: Timestamp) -> Vec<Request> {
    let ids: Vec<JobId> = picture.live().map(|(id, _)| id).collect();
    let mut out = Vec::new();
    for id in ids {
        let Some(job) = picture.jobs.get(&id) else {
            continue;
        };
        let (requests, refused) = of_job(picture, id, job, now);
        out.extend(requests);
        if let Some(job) = picture.jobs.get_mut(&id) {
            job.refused = refused;
            job.held_back.retain(|_, (until, _)| *until > now);
        }
    }
    out
}

type Refused = BTreeMap<SliceKey, (Reason, u64)>;

fn of_job(picture: &Picture, id: JobId, job: &JobView, now: Timestamp) -> (Vec<Request>, Refused) {
    let mut refused = Refused::new();
    let mut out = Vec::new();
    let Some(spec) = job.running_spec() else {
        return (out, refused);
    };
    for group in &spec.groups {
        let lines = lines(picture, id, job, &group.name);
        let allocated: u64 = lines.iter().map(|l| l.allocated).sum();
        let mut slices = Vec::new();
        for line in lines {
            let more = line.count.startable().saturating_sub(line.allocated);
            if more == 0 {
                continue;
            }
            if let Some(reason) = barred(picture, job, &line.key, now) {
                refused.insert(line.key, (reason, more));
                continue;
            }
            slices.push(SliceRequest {
                cluster: line.key.cluster,
                generation: line.key.generation,
                allocated: line.allocated,
                more,
            });
        }
        if !slices.is_empty() {
            out.push(Request {
                job: id,
                group: group.name.clone(),
                pool: spec.pool.clone(),
                priority: spec.priority,
                shape: group.room(),
                room: u64::from(group.most_active()).saturating_sub(allocated),
                slices,
            });
        }
    }
    (out, refused)
}

/// Requests of revocable work, and all others.
#[must_use]
pub fn apart(picture: &Picture, requests: Vec<Request>) -> (Vec<Request>, Vec<Request>) {
    requests.into_iter().partition(|r| is_revocable(picture, r.job))
}

fn is_revocable(picture: &Picture, job: JobId) -> bool {
    let spec = picture.jobs.get(&job).and_then(|j| j.spec.as_ref());
    spec.is_some_and(|s| s.revocable)
}

/// Admits within entitlements; then lends within limits what nobody could use, unless somebody is still on his way to his own.
#[must_use]
pub fn admissions(
    picture: &mut Picture,
    requests: &[Request],
    rooms: &mut Rooms,
    patience: (Timestamp, Span),
) -> Vec<Admission> {
    let mut out = admit(requests, rooms);
    note_refusals(picture, &out);
    let revocable = requests.iter().any(|r| is_revocable(picture, r.job));
    if !may_lend(picture, revocable, patience) {
        return out;
    }
    let admitted: BTreeMap<(JobId, &GroupName), &Admission> =
        out.iter().map(|a| ((a.job, &a.group), a)).collect();
    let left = requests.iter().filter_map(|r| {
        let admission = admitted.get(&(r.job, &r.group))?;
        unentitled(r, admission)
    });
    let left: Vec<Request> = left.collect();
    if !left.is_empty() {
        let shapes: BTreeMap<(JobId, &GroupName), Resources> =
            left.iter().map(|r| ((r.job, &r.group), r.shape)).collect();
        let mut lent = rooms.clone().lent();
        let more = admit(&left, &mut lent);
        for a in &more {
            let shape = shapes.get(&(a.job, &a.group)).copied().unwrap_or_default();
            for (cluster, _, n) in &a.more {
                rooms.take_cluster(cluster, shape.times(*n));
            }
        }
        note_refusals(picture, &more);
        out.extend(more);
    }
    out
}

/// What is left of a request that its pool's entitlement alone refused.
fn unentitled(request: &Request, admission: &Admission) -> Option<Request> {
    let refused = admission
        .refused
        .iter()
        .filter(|r| r.reason.code == ReasonCode::PoolEntitlement);
    let of = |s: &SliceRequest, c: &ClusterId, g| s.cluster == *c && s.generation == g;
    let got = |s: &SliceRequest| {
        let more = admission.more.iter().filter(|(c, g, _)| of(s, c, *g));
        more.map(|(_, _, n)| *n).sum::<u64>()
    };
    let slices: Vec<SliceRequest> = refused
        .filter_map(|r| {
            let s = request.slices.iter().find(|s| of(s, &r.cluster, r.generation))?;
            Some(SliceRequest {
                allocated: s.allocated + got(s),
                more: r.count,
                ..s.clone()
            })
        })
        .collect();
    let given: u64 = admission.more.iter().map(|(_, _, n)| n).sum();
    (!slices.is_empty()).then(|| Request {
        room: request.room.saturating_sub(given),
        slices,
        ..request.clone()
    })
}

/// Whether no job of the same side, ordinary or revocable, is still on its way to its own.
fn may_lend(picture: &Picture, revocable: bool, (now, after): (Timestamp, Span)) -> bool {
    let patient = Span(after.0.saturating_mul(2));
    picture.live().all(|(_, job)| {
        let on_its_way = job.decided != job.durable || job.spec.is_none() || job.next_head.is_some();
        let same_side = job.spec.as_ref().is_none_or(|s| s.revocable == revocable);
        let waits_for_cluster = job.refused.iter().any(|(key, (r, _))| {
            let quota = matches!(r.code.layer(), Layer::Pool | Layer::Goal);
            let long = job
                .stuck
                .get(key)
                .is_some_and(|since| now.since(*since) >= patient);
            !quota && !long
        });
        !(on_its_way || same_side && waits_for_cluster)
    })
}

fn note_refusals(picture: &mut Picture, admissions: &[Admission]) {
    for a in admissions {
        let Some(job) = picture.jobs.get_mut(&a.job) else {
            continue;
        };
        let key = |cluster: &ClusterId, generation| SliceKey {
            group: a.group.clone(),
            cluster: cluster.clone(),
            generation,
        };
        for (cluster, generation, _) in &a.more {
            job.refused.remove(&key(cluster, *generation));
        }
        for r in &a.refused {
            job.refused
                .insert(key(&r.cluster, r.generation), (r.reason.clone(), r.count));
        }
    }
}
