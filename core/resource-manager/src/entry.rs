//! What one job adds to the sums: a pure function of the picture, so that what is kept over cycles can be held against what
//! follows from everything.

mod sums;

pub use self::sums::{BothSums, Sums};
pub(crate) use self::sums::{Choice, GroupSums, Worth};
use crate::gangs;
use crate::ledger::Basis;
use crate::moves::missing;
use crate::picture::{JobView, Picture, SliceCount, SliceKey};
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::cluster::Wish;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{ClusterId, Few, GroupName, JobId, ReasonCode, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Request, Side, SliceRequest, Terms, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job's pool: in the tree and taking jobs, or a path that is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolRef {
    /// Its index in the hierarchy.
    Known(PoolIdx),
    /// Its path.
    Unknown(String),
}

/// What of a group is at one cluster, in instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AtCluster {
    /// Granted or active.
    pub(crate) allocated: u64,
    /// Of these, free when those that are being preempted are gone.
    pub(crate) leaving: u64,
}

/// A group that waits, or the gang that it is the first of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Its index in the spec.
    pub(crate) group: usize,
    /// What it has in common with others; one for all of a line.
    pub(crate) like: Arc<Likeness>,
    /// Units that wait.
    pub(crate) units: u64,
}

/// What is true of a job that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// Something of it has begun: it counts among the jobs of its pool.
    pub(crate) counted: bool,
    /// A row of it cannot be understood: nobody else gets what it has.
    pub(crate) aside: bool,
    /// Its pool is fair to its users.
    pub(crate) by_user: bool,
    /// Its assignment is not stored as it is decided.
    pub(crate) unstored: bool,
    /// A shard found no host for something of it.
    pub(crate) unplaced: bool,
    /// Something of it cannot run where it is, or is to leave.
    pub(crate) restless: bool,
    /// Something of it is granted that is certain to end by a time.
    pub(crate) dated: bool,
}

/// What one job adds, in instances: there are very many of them, and the room that these take follows from the spec (`entry/sums.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// What it asks for; `None` of a job that adds nothing.
    pub(crate) spec: Option<Arc<JobSpec>>,
    /// Its pool's index; `None` where that is not in the tree or takes no jobs.
    pub(crate) pool: Option<PoolIdx>,
    /// Instances of its groups that could be active if everything fitted, in order of the spec.
    pub(crate) wanted: Box<[u64]>,
    /// What it has where, by cluster and index of the group.
    pub(crate) at: Few<(ClusterId, usize), AtCluster>,
    pub(crate) waits: Box<[Wait]>,
    pub(crate) marks: Marks,
    /// When it may be bound again to a cluster that it avoids.
    pub(crate) later: Option<Timestamp>,
}

/// A slice with its numbers, as admission needs it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) key: SliceKey,
    pub(crate) count: SliceCount,
    pub(crate) allocated: u64,
    /// Of what is allocated, what is free when those that are being preempted are gone.
    pub(crate) leaving: u64,
}

/// The slices of a job's assignment, as it is decided, by group.
pub(crate) fn lines(picture: &Picture, id: JobId, job: &JobView) -> Vec<Line> {
    let slices = job.decided_slices().into_iter();
    slices
        .map(|(key, ranges)| {
            let count = picture.count(id, &key, &ranges);
            let allocated = picture.allocated(job, id, &key, &ranges);
            let granted = job.grants.get(&key).map_or(0, |g| g.granted());
            let stays = granted.max(count.active.saturating_sub(count.preempting));
            Line {
                leaving: allocated.saturating_sub(stays).min(count.preempting),
                count,
                allocated,
                key,
            }
        })
        .collect()
}

/// What a job adds now.
pub(crate) fn entry(picture: &Picture, basis: &Basis, id: JobId, job: &JobView) -> Entry {
    let mut out = Entry {
        later: avoided_until(job),
        ..Entry::default()
    };
    out.marks.unstored = job.tombstone || job.decided != job.durable;
    let Some(spec) = job.spec.as_ref().filter(|_| job.is_live()) else {
        if let Some(spec) = job.aside.as_ref().and_then(|aside| aside.spec.as_ref()) {
            add_aside(&mut out, picture, id, spec);
        }
        return out;
    };
    let lines = lines(picture, id, job);
    out.spec = Some(Arc::clone(spec));
    out.pool = picture
        .hierarchy
        .find(&spec.pool)
        .filter(|i| picture.hierarchy.is_leaf(*i));
    let of = out.pool.and_then(|i| picture.hierarchy.pool(i));
    out.marks.by_user = of.is_some_and(|p| p.fair_users);
    out.marks.counted = has_begun(&lines);
    out.marks.unplaced = is_somewhere_unplaced(picture, id, &lines);
    out.marks.restless = out.marks.unplaced || is_restless(picture, &lines);
    out.wanted = spec.groups.iter().map(|g| wanted(job, g, &lines)).collect();
    add_places(&mut out, spec, &lines);
    let dated = spec.groups.iter().any(|g| g.lasts(spec.kind).is_some());
    out.marks.dated = dated && out.instances() > 0;
    if job.running_spec().is_some() {
        out.waits = waits((picture, basis), (id, job), &out, &lines);
    }
    out
}

/// What a job adds that is set aside: all that its shards say is active of it. It asks for no more, and nothing is taken of it.
fn add_aside(out: &mut Entry, picture: &Picture, id: JobId, spec: &Arc<JobSpec>) {
    out.spec = Some(Arc::clone(spec));
    out.pool = match pool_of(picture, &spec.pool) {
        PoolRef::Known(pool) => Some(pool),
        PoolRef::Unknown(_) => None,
    };
    let of = out.pool.and_then(|i| picture.hierarchy.pool(i));
    out.marks.by_user = of.is_some_and(|p| p.fair_users);
    out.marks.aside = true;
    let mut wanted = vec![0u64; spec.groups.len()];
    for (cluster, view) in &picture.clusters {
        for ((_, name, _), report) in view.reports_of(id) {
            let Some(at) = spec.groups.iter().position(|g| g.name == *name) else {
                continue;
            };
            let there = out.at.get_or_default((cluster.clone(), at));
            there.allocated = there.allocated.saturating_add(report.active);
            if let Some(group) = wanted.get_mut(at) {
                *group = group.saturating_add(report.active);
            }
        }
    }
    out.wanted = wanted.into();
    out.marks.counted = out.instances() > 0;
}

pub(crate) fn pool_of(picture: &Picture, path: &str) -> PoolRef {
    let found = picture.hierarchy.find(path);
    let leaf = found.filter(|i| picture.hierarchy.is_leaf(*i));
    leaf.map_or_else(|| PoolRef::Unknown(path.to_owned()), PoolRef::Known)
}

fn wanted(job: &JobView, group: &GroupSpec, lines: &[Line]) -> u64 {
    let lines = lines.iter().filter(|l| l.key.group == group.name);
    let sum = |of: &dyn Fn(&Line) -> u64| lines.clone().map(of).fold(0, u64::saturating_add);
    let unended = job.wanted(&group.name).saturating_sub(sum(&|l| l.count.ended));
    unended
        .min(u64::from(group.most_active()))
        .max(sum(&|l| l.allocated))
}

/// What a job has where.
fn add_places(out: &mut Entry, spec: &JobSpec, lines: &[Line]) {
    let index = |name: &GroupName| spec.groups.iter().position(|g| g.name == *name);
    for line in lines {
        let Some(group) = index(&line.key.group) else {
            continue;
        };
        let there = out.at.get_or_default((line.key.cluster.clone(), group));
        there.allocated = there.allocated.saturating_add(line.allocated);
        there.leaving = there.leaving.saturating_add(line.leaving);
    }
}

fn waits(
    (picture, basis): (&Picture, &Basis),
    (id, job): (JobId, &JobView),
    entry: &Entry,
    lines: &[Line],
) -> Box<[Wait]> {
    let Some(spec) = entry.spec.as_deref() else {
        return Box::default();
    };
    let requests: Vec<Request> = if spec.gang.is_some() {
        let gang = gangs::request(picture, (id, job), spec, lines);
        gang.into_iter().collect()
    } else {
        let groups = spec.groups.iter();
        groups
            .filter_map(|group| request(picture, (id, job), (spec, group), lines))
            .collect()
    };
    let waits = requests.into_iter().filter(|r| r.room > 0).filter_map(|r| {
        let bound = r.slices.iter().filter_map(|s| basis.index(&s.cluster));
        let any = basis.chosen(spec).filter(|_| r.unbound > 0);
        let mut like = Likeness::new(r.terms, r.unit, bound.chain(any));
        like.lasts = lasts(spec, &r);
        like.class = class(spec, &r);
        like.user = entry.user().map(Arc::from);
        let waiting: u64 = r.slices.iter().map(|s| s.more).sum();
        Some(Wait {
            group: spec.groups.iter().position(|g| g.name == r.group)?,
            like: Arc::new(like),
            units: waiting.saturating_add(r.unbound).min(r.room),
        })
    });
    waits.collect()
}

/// The class of what is asked for. Gangs have none: their groups may be of several.
fn class(spec: &JobSpec, request: &Request) -> Option<ClassDigest> {
    let group = spec.group(&request.group).filter(|_| request.gang.is_empty())?;
    InstanceClass::of(spec, group).map(|class| class.digest())
}

/// The longest that what is asked for can take.
fn lasts(spec: &JobSpec, request: &Request) -> Option<Span> {
    let group = |name: &GroupName| spec.group(name)?.lasts(spec.kind);
    if request.gang.is_empty() {
        return group(&request.group);
    }
    let all: Option<Vec<Span>> = request.gang.iter().map(|m| group(&m.group)).collect();
    all?.into_iter().max()
}

/// What a group asks for: more at the clusters where something of it is bound, and clusters for the rest. `None` when it asks
/// for nothing, or its pool is not there.
pub(crate) fn request(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[Line],
) -> Option<Request> {
    let PoolRef::Known(pool) = pool_of(picture, &spec.pool) else {
        return None;
    };
    let terms = terms_in(picture, pool, spec, lines);
    let lines: Vec<&Line> = lines.iter().filter(|l| l.key.group == group.name).collect();
    let allocated = lines.iter().map(|l| l.allocated).fold(0, u64::saturating_add);
    let avoid = avoided(job, &group.name);
    // What is bound ahead where the group found no host a short while ago is not tried there again.
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
    let unbound = unbound(picture, job, spec, &group.name);
    (!slices.is_empty() || unbound > 0).then(|| Request {
        job: id,
        group: group.name.clone(),
        pool,
        terms,
        unit: unit_of(picture, group),
        room: u64::from(group.most_active()).saturating_sub(allocated),
        slices,
        unbound,
        have: have(job, &group.name),
        avoid,
        gang: Vec::new(),
    })
}

/// Instances of a group that are bound nowhere and ask for a cluster. Daemons ask for none: the hosts of each cluster are
/// counted.
pub(crate) fn unbound(picture: &Picture, job: &JobView, spec: &JobSpec, group: &GroupName) -> u64 {
    let asks = picture.awaiting.is_none() && !job.is_refused() && spec.kind != JobKind::Daemon;
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

/// When the next cluster is not avoided any more.
fn avoided_until(job: &JobView) -> Option<Timestamp> {
    let open = job.avoid.values().filter(|avoided| !avoided.is_over);
    open.map(|avoided| avoided.until).min()
}

/// One instance of a group.
pub(crate) fn unit_of(picture: &Picture, group: &GroupSpec) -> Unit {
    Unit::one(group.room()).on(picture.host_pools.index(&group.siting.host_pool))
}

/// On what terms a job runs.
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

/// On what terms a job asks for more of a pool.
pub(crate) fn terms_in(picture: &Picture, pool: PoolIdx, spec: &JobSpec, lines: &[Line]) -> Terms {
    Terms {
        counted: !picture.hierarchy.bounds_jobs(pool) || has_begun(lines),
        ..terms_of(spec)
    }
}

/// Whether something of a job has begun, or may.
fn has_begun(lines: &[Line]) -> bool {
    lines.iter().any(|l| l.allocated > 0 || l.count.begun)
}

/// Whether something of a job was found unable to run where it is, or is to leave.
fn is_restless(picture: &Picture, lines: &[Line]) -> bool {
    let marked = |l: &Line| l.count.leaving + l.count.leaving_waiting > 0;
    let draining = |l: &Line| {
        let cluster = picture.clusters.get(&l.key.cluster);
        cluster.is_some_and(|c| c.wish() == Wish::Draining)
    };
    let waits = |l: &Line| l.count.startable() > l.allocated;
    lines.iter().any(|l| marked(l) || draining(l) || waits(l))
}

fn is_somewhere_unplaced(picture: &Picture, id: JobId, lines: &[Line]) -> bool {
    let reports = lines.iter().filter_map(|l| picture.report(id, &l.key));
    let mut reasons = reports.flat_map(|r| &r.waiting);
    reasons.any(|(reason, _, _)| is_unplaced(reason.code))
}

/// Whether a shard says by this that it found no host.
pub(crate) fn is_unplaced(code: ReasonCode) -> bool {
    code.layer() == Layer::Placement && code != ReasonCode::AwaitingOffer
}
