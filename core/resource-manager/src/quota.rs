//! How much may be active: demand and allocation by pool, entitlement, admission, and from these the grants of every slice. A
//! grant never goes below what is known to be active, except to follow `max_running`; it is not raised while allocated and
//! raise together exceed pool, entitlement, group or cluster.

use crate::picture::{JobView, Picture, SliceCount, SliceKey};
use crate::place::total;
use echelon_core_model::cluster::Wish;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::{ClusterId, GroupName, JobId, Reason, ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::fill::{Taker, fill};
use echelon_core_pools::{Admission, Entitlements, Request, Rooms, SliceRequest, admit, entitle};
use std::collections::BTreeMap;

/// Sums over all live jobs.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What is granted or active, by pool.
    pub allocated: BTreeMap<String, Resources>,
    /// What could be active if everything fitted, by pool.
    pub demand: BTreeMap<String, Resources>,
    /// What is granted or active, by cluster.
    pub taken: BTreeMap<ClusterId, Resources>,
}

/// A slice with its numbers, as admission needs it.
#[derive(Debug, Clone)]
struct Line {
    key: SliceKey,
    count: SliceCount,
    allocated: u64,
}

fn lines(picture: &Picture, id: JobId, job: &JobView, group: &GroupName) -> Vec<Line> {
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
    for (id, job) in picture.live() {
        let Some(spec) = &job.spec else { continue };
        for group in &spec.groups {
            let lines = lines(picture, id, job, &group.name);
            for line in &lines {
                let sum = out.taken.entry(line.key.cluster.clone()).or_default();
                *sum = sum.plus(group.resources.times(line.allocated));
            }
            let allocated: u64 = lines.iter().map(|l| l.allocated).sum();
            let ended: u64 = lines.iter().map(|l| l.count.ended).sum();
            let open = job
                .wanted(&group.name)
                .saturating_sub(ended)
                .min(u64::from(group.most_active()));
            let pool = |n: u64| group.resources.times(n);
            let sum = out.allocated.entry(spec.pool.clone()).or_default();
            *sum = sum.plus(pool(allocated));
            let sum = out.demand.entry(spec.pool.clone()).or_default();
            *sum = sum.plus(pool(open.max(allocated)));
        }
    }
    out
}

/// What every pool may use now.
pub fn entitlements(picture: &Picture, demand: &BTreeMap<String, Resources>) -> Entitlements {
    let capacity = picture
        .clusters
        .values()
        .filter(|c| c.wish() != Wish::Left)
        .fold(Resources::ZERO, |sum, c| sum.plus(total(c)));
    entitle(&picture.pools, demand, capacity)
}

/// What is left in pools and clusters.
#[must_use]
pub fn rooms(picture: &Picture, totals: &Totals, entitlements: &Entitlements) -> Rooms {
    let clusters = picture
        .clusters
        .iter()
        .filter(|(_, c)| c.takes_grants())
        .map(|(id, c)| {
            let used = c.capacity.as_ref().map(|c| c.used).unwrap_or_default();
            let taken = totals.taken.get(id).copied().unwrap_or_default();
            (id.clone(), total(c).minus(used.max_each(taken)))
        });
    Rooms::new(
        &picture.pools,
        entitlements,
        &totals.allocated,
        clusters.collect(),
    )
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
                shape: group.resources,
                room: u64::from(group.most_active()).saturating_sub(allocated),
                slices,
            });
        }
    }
    (out, refused)
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
    if !may_lend(picture, patience) {
        return out;
    }
    let left: Vec<Request> = requests.iter().filter_map(|r| unentitled(r, &out)).collect();
    if !left.is_empty() {
        let mut lent = rooms.clone().lent();
        let more = admit(&left, &mut lent);
        for a in &more {
            for (cluster, _, n) in &a.more {
                let shape = requests
                    .iter()
                    .find(|r| r.job == a.job && r.group == a.group)
                    .map(|r| r.shape);
                rooms.take_cluster(cluster, shape.unwrap_or_default().times(*n));
            }
        }
        note_refusals(picture, &more);
        out.extend(more);
    }
    out
}

/// What is left of a request that its pool's entitlement alone refused.
fn unentitled(request: &Request, admitted: &[Admission]) -> Option<Request> {
    let admission = admitted
        .iter()
        .find(|a| a.job == request.job && a.group == request.group)?;
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

fn may_lend(picture: &Picture, (now, after): (Timestamp, Span)) -> bool {
    let patient = Span(after.0.saturating_mul(2));
    picture.live().all(|(_, job)| {
        let on_its_way = job.decided != job.durable || job.spec.is_none() || job.next_head.is_some();
        let waits_for_cluster = job.refused.iter().any(|(key, (r, _))| {
            let quota = matches!(r.code.layer(), Layer::Pool | Layer::Goal);
            let long = job
                .stuck
                .get(key)
                .is_some_and(|since| now.since(*since) >= patient);
            !quota && !long
        });
        !on_its_way && !waits_for_cluster
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

/// Raises and shrinks grants: the new value of every slice whose grant changes.
#[must_use]
pub fn grants(picture: &Picture, admissions: &[Admission]) -> BTreeMap<(JobId, SliceKey), u64> {
    let mut more: BTreeMap<(JobId, SliceKey), u64> = BTreeMap::new();
    for a in admissions {
        for (cluster, generation, n) in &a.more {
            let key = SliceKey {
                group: a.group.clone(),
                cluster: cluster.clone(),
                generation: *generation,
            };
            *more.entry((a.job, key)).or_default() += n;
        }
    }
    let mut out = BTreeMap::new();
    for (id, job) in picture.live() {
        for group in job.groups() {
            let spec = job.spec.as_ref().and_then(|s| s.group(&group));
            let lines = lines(picture, id, job, &group);
            let targets = targets(job, spec, &lines, |key| {
                more.get(&(id, key.clone())).copied().unwrap_or_default()
            });
            out.extend(targets.into_iter().map(|(key, n)| ((id, key), n)));
        }
    }
    out
}

fn targets(
    job: &JobView,
    spec: Option<&GroupSpec>,
    lines: &[Line],
    more: impl Fn(&SliceKey) -> u64,
) -> Vec<(SliceKey, u64)> {
    let granted = |l: &Line| {
        job.grants
            .get(&l.key)
            .filter(|g| !g.is_new())
            .map(|g| g.granted())
    };
    // The first grant of this leader takes over what is active.
    let now: Vec<u64> = lines
        .iter()
        .map(|l| {
            let base = granted(l).unwrap_or(l.count.active).saturating_add(more(&l.key));
            base.min(l.count.unended().max(l.count.active))
        })
        .collect();
    let most = spec.map_or(u64::MAX, |g| u64::from(g.most_active()));
    let takers: Vec<Taker> = now.iter().map(|n| Taker { weight: 1, most: *n }).collect();
    // A smaller max_running is the user's wish; nothing else takes active instances away.
    let capped = fill(most, &takers);
    let pairs = lines.iter().zip(capped).filter(|(l, n)| granted(l) != Some(*n));
    pairs.map(|(l, n)| (l.key.clone(), n)).collect()
}

/// Slices whose unused grants nothing can be placed by, while their pool refuses others: the grant goes back to what is active.
#[must_use]
pub fn taken_back(picture: &Picture, now: Timestamp, after: Span) -> Vec<(JobId, SliceKey, u64, Reason)> {
    let starved = |pool: &str| {
        picture.live().any(|(_, j)| {
            let refused = j.refused.values().any(|(r, _)| r.code.layer() == Layer::Pool);
            refused && j.spec.as_ref().is_some_and(|s| top(&s.pool) == top(pool))
        })
    };
    let mut out = Vec::new();
    for (id, job) in picture.live() {
        let Some(spec) = job.running_spec() else { continue };
        for (key, line) in &job.grants {
            let Some(report) = picture.report(id, key) else {
                continue;
            };
            let settled = report.grant_number >= line.number() && line.granted() > report.active;
            let unplaced = report.waiting.iter().find(|(r, _, since)| {
                let placement = r.code.layer() == Layer::Placement && r.code != ReasonCode::AwaitingOffer;
                placement && now.since(*since) >= after
            });
            if let (true, Some((reason, _, _))) = (settled, unplaced)
                && starved(&spec.pool)
            {
                out.push((id, key.clone(), report.active, reason.clone()));
            }
        }
    }
    out
}

fn top(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}
