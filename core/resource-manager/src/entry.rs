//! What one job adds to the sums: a pure function of the picture, so that what is kept over cycles can be held against what
//! follows from everything.

use crate::gangs;
use crate::ledger::Basis;
use crate::picture::{JobView, Picture, SliceCount, SliceKey};
use crate::room::{Taken, lends};
use echelon_core_model::cluster::Wish;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId, ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Request, Side, SliceRequest, Terms, Turn, Unit};
use std::cmp::Reverse;
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

/// Sums of a pool's jobs on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// What is granted or active.
    pub allocated: Resources,
    /// Of this, what is free when those that are being preempted are gone.
    pub leaving: Resources,
    /// What could be active if everything fitted.
    pub demand: Resources,
    /// Of this, what is on its way to a cluster: nobody can tell yet whether it fits.
    pub coming: Resources,
}

impl Sums {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.plus(other.allocated),
            leaving: self.leaving.plus(other.leaving),
            demand: self.demand.plus(other.demand),
            coming: self.coming.plus(other.coming),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.minus(other.allocated),
            leaving: self.leaving.minus(other.leaving),
            demand: self.demand.minus(other.demand),
            coming: self.coming.minus(other.coming),
        }
    }
}

/// Sums of ordinary room, and of what hosts lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BothSums {
    /// Of ordinary room.
    pub ordinary: Sums,
    /// Of what hosts lend.
    pub lent: Sums,
}

/// What a job takes of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// Granted or active.
    pub taken: Taken,
    /// Assigned to it, running or not.
    pub spoken_for: Taken,
}

/// What jobs of a pool have in common that cannot have more of it than others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    /// The clusters that they may use, by name; all when empty.
    pub(crate) only: Vec<String>,
    /// On what terms they run.
    pub(crate) terms: Terms,
}

/// A job's place among those that may lose instances for others: revocable ones first, then by priority, the youngest first.
pub(crate) type Worth = ((bool, u32), Reverse<JobId>);

/// What one job adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) pool: PoolRef,
    pub(crate) choice: Choice,
    pub(crate) sums: BothSums,
    /// What it is worth, where it may be stopped for others.
    pub(crate) worth: Option<Worth>,
    /// Its owner, where its pool is fair to its users.
    pub(crate) user: Option<Arc<str>>,
    /// Instances that are granted or active.
    pub(crate) instances: u64,
    /// Whether something of it has begun: it counts among the jobs of its pool.
    pub(crate) counted: bool,
    /// What could be active of its groups that ask for GPUs.
    pub(crate) with_gpus: Resources,
    pub(crate) clusters: Vec<(ClusterId, Use)>,
    pub(crate) waits: Vec<(Likeness, Turn, u64)>,
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
    /// When a part of it that was held back may ask again.
    pub(crate) later: Option<Timestamp>,
}

impl Entry {
    /// Where it has room that it could lose, with what it is worth there.
    pub(crate) fn could_lose(&self) -> impl Iterator<Item = ((ClusterId, PoolIdx), Worth)> + '_ {
        let known = self.known_pool().zip(self.worth);
        let there = self
            .clusters
            .iter()
            .filter(|(_, used)| used.taken != Taken::default());
        there.filter_map(move |(cluster, _)| {
            let (pool, worth) = known?;
            Some(((cluster.clone(), pool), worth))
        })
    }

    /// Its pool's index, if it is in the tree.
    pub(crate) const fn known_pool(&self) -> Option<PoolIdx> {
        match self.pool {
            PoolRef::Known(i) => Some(i),
            PoolRef::Unknown(_) => None,
        }
    }
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
    let lines = lines(picture, id, job);
    let mut out = Entry {
        pool: PoolRef::Unknown(String::new()),
        choice: Choice {
            only: Vec::new(),
            terms: Terms::of(Side::Ordinary),
        },
        sums: BothSums::default(),
        worth: None,
        user: None,
        instances: 0,
        counted: false,
        with_gpus: Resources::ZERO,
        clusters: Vec::new(),
        waits: Vec::new(),
        unstored: job.tombstone || job.decided != job.durable,
        unplaced: false,
        restless: false,
        missing: false,
        dated: false,
        later: job.held_back.values().map(|(until, _)| *until).min(),
    };
    let Some(spec) = job.spec.as_deref().filter(|_| job.is_live()) else {
        return out;
    };
    out.pool = pool_of(picture, &spec.pool);
    out.choice.terms = terms_of(spec);
    let worth = ((!spec.revocable, spec.priority), Reverse(id));
    out.worth = spec.preemptible.then_some(worth);
    out.counted = has_begun(&lines);
    let of = out.known_pool().and_then(|i| picture.hierarchy.pool(i));
    out.user = of
        .filter(|p| p.fair_users)
        .map(|_| Arc::from(spec.owner.as_str()));
    out.instances = lines.iter().map(|l| l.allocated).fold(0, u64::saturating_add);
    out.dated = out.instances > 0 && spec.groups.iter().any(|g| g.lasts(spec.kind).is_some());
    out.choice.only.clone_from(&spec.clusters.only);
    out.choice.only.sort();
    out.unplaced = is_somewhere_unplaced(picture, id, &lines);
    out.restless = out.unplaced || is_restless(picture, job, &lines);
    for group in &spec.groups {
        let of_group: Vec<&Line> = lines.iter().filter(|l| l.key.group == group.name).collect();
        add_group(&mut out, picture, job, (spec, group), &of_group);
    }
    add_spoken_for(&mut out, picture, id, job, spec);
    if job.running_spec().is_some() {
        let groups = spec.groups.iter();
        out.missing = groups.map(|g| crate::moves::missing(job, &g.name)).any(|n| n > 0);
        out.waits = waits((picture, basis), (id, job), spec, &lines);
        for (like, ..) in &mut out.waits {
            like.user.clone_from(&out.user);
        }
    }
    out
}

pub(crate) fn pool_of(picture: &Picture, path: &str) -> PoolRef {
    let found = picture.hierarchy.find(path);
    let leaf = found.filter(|i| picture.hierarchy.is_leaf(*i));
    leaf.map_or_else(|| PoolRef::Unknown(path.to_owned()), PoolRef::Known)
}

fn add_group(
    out: &mut Entry,
    picture: &Picture,
    job: &JobView,
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[&Line],
) {
    for line in lines {
        let room = group.room().times(line.allocated);
        take(out, picture, spec, (&line.key.cluster, room), |u| &mut u.taken);
    }
    let sum = |of: &dyn Fn(&Line) -> u64| lines.iter().map(|l| of(l)).fold(0, u64::saturating_add);
    let allocated = sum(&|l| l.allocated);
    let leaving = sum(&|l| l.leaving);
    let unended = job.wanted(&group.name).saturating_sub(sum(&|l| l.count.ended));
    let wanted = unended.min(u64::from(group.most_active())).max(allocated);
    let can_ask = sum(&|l| l.count.startable().max(l.allocated));
    let on_its_way = job.decided != job.durable || job.unrouted.is_empty();
    let coming = if on_its_way {
        wanted.saturating_sub(can_ask)
    } else {
        0
    };
    let of_lent = if spec.revocable {
        group.room().lent_part(picture.lent_kinds())
    } else {
        Resources::ZERO
    };
    let sides = [
        (&mut out.sums.ordinary, group.room().minus(of_lent)),
        (&mut out.sums.lent, of_lent),
    ];
    for (sums, shape) in sides {
        *sums = sums.plus(Sums {
            allocated: shape.times(allocated),
            leaving: shape.times(leaving),
            demand: shape.times(wanted),
            coming: shape.times(coming),
        });
    }
    if group.resources.gpus > 0 {
        out.with_gpus = out.with_gpus.plus(group.room().times(wanted));
    }
}

/// What is assigned needs room, running or not: new jobs find it taken.
fn add_spoken_for(out: &mut Entry, picture: &Picture, id: JobId, job: &JobView, spec: &JobSpec) {
    for (key, ranges) in crate::picture::slices_of(&job.decided) {
        let Some(group) = spec.group(&key.group) else {
            continue;
        };
        let count = picture.count(id, &key, &ranges);
        let n = count.startable().min(u64::from(group.most_active()));
        let room = group.room().times(n);
        take(out, picture, spec, (&key.cluster, room), |u| &mut u.spoken_for);
    }
}

fn take(
    out: &mut Entry,
    picture: &Picture,
    spec: &JobSpec,
    (cluster, room): (&ClusterId, Resources),
    which: impl Fn(&mut Use) -> &mut Taken,
) {
    let lends = picture.clusters.get(cluster).map(lends).unwrap_or_default();
    let at = match out.clusters.iter().position(|(c, _)| c == cluster) {
        Some(at) => at,
        None => {
            out.clusters.reserve_exact(1);
            out.clusters.push((cluster.clone(), Use::default()));
            out.clusters.len() - 1
        }
    };
    if let Some((_, used)) = out.clusters.get_mut(at) {
        which(used).add_of(spec, room, lends);
    }
}

fn waits(
    (picture, basis): (&Picture, &Basis),
    (id, job): (JobId, &JobView),
    spec: &JobSpec,
    lines: &[Line],
) -> Vec<(Likeness, Turn, u64)> {
    let groups = spec.groups.iter();
    let requests: Vec<Request> = if spec.gang.is_some() {
        gangs::request(picture, (id, job), spec, lines)
            .into_iter()
            .collect()
    } else {
        groups
            .filter_map(|group| request(picture, (id, job), (spec, group), lines))
            .collect()
    };
    requests
        .into_iter()
        .filter(|r| r.room > 0)
        .map(|r| {
            let indexes = r.slices.iter().filter_map(|s| basis.index(&s.cluster));
            let mut like = Likeness::new(r.terms, r.unit, indexes);
            like.lasts = lasts(spec, &r);
            let turn = Turn {
                priority: Reverse(spec.priority),
                job: id,
                group: r.group,
            };
            let waiting: u64 = r.slices.iter().map(|s| s.more).sum();
            (like, turn, waiting.min(r.room))
        })
        .collect()
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
        unit: Unit::one(group.room()),
        room: u64::from(group.most_active()).saturating_sub(allocated),
        slices,
        gang: Vec::new(),
    })
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
    lines
        .iter()
        .any(|l| l.allocated > 0 || l.count.active > 0 || l.count.ended > 0)
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

/// Entries summed by the clusters that they name.
pub(crate) type Uses = BTreeMap<ClusterId, Use>;
