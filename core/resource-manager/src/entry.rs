//! What one job adds to the sums: a pure function of the picture, so that what is kept over cycles can be held against what
//! follows from everything.

mod sums;

pub use self::sums::{BothSums, Sums};
pub(crate) use self::sums::{Choice, GroupSums, Worth};
use crate::gangs;
use crate::ledger::Basis;
use crate::picture::{JobView, Picture, SliceCount, SliceKey};
use crate::room::Taken;
use echelon_core_model::cluster::Wish;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, Few, GroupName, JobId, ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Request, Side, SliceRequest, Terms, Unit};
use std::sync::Arc;

/// A job's pool: in the tree and taking jobs, or a path that is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolRef {
    /// Its index in the hierarchy.
    Known(PoolIdx),
    /// Its path.
    Unknown(String),
}

/// What a job takes of one cluster, or many jobs in sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use<T = Resources> {
    /// Granted or active.
    pub taken: Taken<T>,
    /// Assigned to it, running or not.
    pub spoken_for: Taken<T>,
}

/// What of a group is at one cluster, in instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AtCluster {
    /// Granted or active.
    pub(crate) allocated: u64,
    /// Of these, free when those that are being preempted are gone.
    pub(crate) leaving: u64,
    /// Assigned to it, running or not.
    pub(crate) spoken_for: u64,
}

/// A group in instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OfGroup {
    /// What could be active if everything fitted.
    pub(crate) wanted: u64,
    /// Of these, on their way to a cluster: nobody can tell yet whether they fit.
    pub(crate) coming: u64,
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
    /// Some of its numbers are at no cluster.
    pub(crate) missing: bool,
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
    /// Its groups, in order of the spec.
    pub(crate) groups: Box<[OfGroup]>,
    /// What it has where, by cluster and index of the group.
    pub(crate) at: Few<(ClusterId, usize), AtCluster>,
    pub(crate) waits: Box<[Wait]>,
    pub(crate) marks: Marks,
    /// When a part of it that was held back may ask again.
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

/// The slices of a job's stored assignment, by group.
pub(crate) fn lines(picture: &Picture, id: JobId, job: &JobView) -> Vec<Line> {
    let slices = job.slices().into_iter();
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
        later: job.held_back.values().map(|(until, _)| *until).min(),
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
    out.marks.restless = out.marks.unplaced || is_restless(picture, job, &lines);
    out.groups = spec.groups.iter().map(|g| of_group(job, g, &lines)).collect();
    add_places(&mut out, picture, (id, job), spec, &lines);
    let dated = spec.groups.iter().any(|g| g.lasts(spec.kind).is_some());
    out.marks.dated = dated && out.instances() > 0;
    if job.running_spec().is_some() {
        let mut groups = spec.groups.iter();
        out.marks.missing = groups.any(|g| crate::moves::missing(job, &g.name) > 0);
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
    let mut groups = vec![OfGroup::default(); spec.groups.len()];
    for (cluster, view) in &picture.clusters {
        for ((_, name, _), report) in view.reports_of(id) {
            let Some(at) = spec.groups.iter().position(|g| g.name == *name) else {
                continue;
            };
            let there = out.at.get_or_default((cluster.clone(), at));
            there.allocated = there.allocated.saturating_add(report.active);
            there.spoken_for = there.allocated;
            if let Some(group) = groups.get_mut(at) {
                group.wanted = group.wanted.saturating_add(report.active);
            }
        }
    }
    out.groups = groups.into();
    out.marks.counted = out.instances() > 0;
}

pub(crate) fn pool_of(picture: &Picture, path: &str) -> PoolRef {
    let found = picture.hierarchy.find(path);
    let leaf = found.filter(|i| picture.hierarchy.is_leaf(*i));
    leaf.map_or_else(|| PoolRef::Unknown(path.to_owned()), PoolRef::Known)
}

fn of_group(job: &JobView, group: &GroupSpec, lines: &[Line]) -> OfGroup {
    let lines = lines.iter().filter(|l| l.key.group == group.name);
    let sum = |of: &dyn Fn(&Line) -> u64| lines.clone().map(of).fold(0, u64::saturating_add);
    let allocated = sum(&|l| l.allocated);
    let unended = job.wanted(&group.name).saturating_sub(sum(&|l| l.count.ended));
    let wanted = unended.min(u64::from(group.most_active())).max(allocated);
    let can_ask = sum(&|l| l.count.startable().max(l.allocated));
    let on_its_way = job.decided != job.durable || job.unrouted.is_empty();
    let coming = if on_its_way {
        wanted.saturating_sub(can_ask)
    } else {
        0
    };
    OfGroup { wanted, coming }
}

/// What a job has where, as it is stored, and what is assigned, as it is decided: that needs room, running or not, and new jobs find it
/// taken.
fn add_places(
    out: &mut Entry,
    picture: &Picture,
    (id, job): (JobId, &JobView),
    spec: &JobSpec,
    lines: &[Line],
) {
    let index = |name: &GroupName| spec.groups.iter().position(|g| g.name == *name);
    for line in lines {
        let Some(group) = index(&line.key.group) else {
            continue;
        };
        let there = out.at.get_or_default((line.key.cluster.clone(), group));
        there.allocated = there.allocated.saturating_add(line.allocated);
        there.leaving = there.leaving.saturating_add(line.leaving);
    }
    for (key, ranges) in crate::picture::slices_of(&job.decided) {
        let Some((at, group)) = index(&key.group).and_then(|at| Some((at, spec.groups.get(at)?))) else {
            continue;
        };
        let n = picture.count(id, &key, &ranges).startable();
        let there = out.at.get_or_default((key.cluster, at));
        let n = n.min(u64::from(group.most_active()));
        there.spoken_for = there.spoken_for.saturating_add(n);
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
        let indexes = r.slices.iter().filter_map(|s| basis.index(&s.cluster));
        let mut like = Likeness::new(r.terms, r.unit, indexes);
        like.lasts = lasts(spec, &r);
        like.user = entry.user().map(Arc::from);
        let waiting: u64 = r.slices.iter().map(|s| s.more).sum();
        Some(Wait {
            group: spec.groups.iter().position(|g| g.name == r.group)?,
            like: Arc::new(like),
            units: waiting.min(r.room),
        })
    });
    waits.collect()
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

/// What a group asks for at the clusters where it waits, those at which it is held back left out; `None` when it waits nowhere, or its
/// pool is not there.
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
    let slices = lines.into_iter().filter_map(|line| {
        let more = line.count.startable().saturating_sub(line.allocated);
        let asks = more > 0 && !job.held_back.contains_key(&line.key);
        asks.then(|| SliceRequest {
            cluster: line.key.cluster.clone(),
            generation: line.key.generation,
            allocated: line.allocated,
            more,
        })
    });
    let slices: Vec<SliceRequest> = slices.collect();
    (!slices.is_empty()).then(|| Request {
        job: id,
        group: group.name.clone(),
        pool,
        terms,
        unit: unit_of(picture, group),
        room: u64::from(group.most_active()).saturating_sub(allocated),
        slices,
        gang: Vec::new(),
    })
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
fn is_restless(picture: &Picture, job: &JobView, lines: &[Line]) -> bool {
    let marked = |l: &Line| l.count.leaving + l.count.leaving_waiting > 0;
    let draining = |l: &Line| {
        let cluster = picture.clusters.get(&l.key.cluster);
        cluster.is_some_and(|c| c.wish() == Wish::Draining)
    };
    !job.stuck.is_empty() || lines.iter().any(|l| marked(l) || draining(l))
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
