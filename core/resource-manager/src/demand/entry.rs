//! What one job adds to the sums. It is a pure function of the facts, so that the ledger can be compared with
//! sums over all jobs.

pub(crate) mod sums;

use crate::demand::basis::Basis;
use crate::demand::gangs;
use crate::demand::moving::keeps_capacity;
use crate::demand::request::{PoolRef, pool_of, request};
use crate::demand::slices::{Line, has_begun, is_replaced, is_restless, is_somewhere_unplaced, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::bucket::fnv1a;
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, Few, GroupName, JobId, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Request};
use std::sync::Arc;

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
    /// What it has in common with other requests. Shared by an equivalence class.
    pub(crate) like: Arc<Likeness>,
    /// Units that wait.
    pub(crate) units: u64,
}

/// Properties by which jobs are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// Something of it has begun: it counts among the jobs of its pool.
    pub(crate) counted: bool,
    /// A row of it cannot be understood: no other job gets what it has.
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
    /// Something of it moves, and has capacity kept for it.
    pub(crate) moving: bool,
    /// What ends of it is followed by another instance under the same grant.
    pub(crate) replaced: bool,
}

/// What one job adds, in instances. There are very many entries, so they have only counts. The amounts follow
/// from the counts and the spec (`entry/sums.rs`).
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

/// What a job adds now.
pub(crate) fn entry(facts: &FederationFacts, basis: &Basis, id: JobId, job: &JobView) -> Entry {
    let mut out = Entry {
        later: avoided_until(job),
        ..Entry::default()
    };
    out.marks.unstored = job.rare.tombstone || job.decided != job.durable;
    let Some(spec) = job.spec.as_ref().filter(|_| job.is_live()) else {
        if let Some(spec) = job.rare.aside.as_ref().and_then(|aside| aside.spec.as_ref()) {
            add_aside(&mut out, facts, id, spec);
        }
        return out;
    };
    let lines = lines(facts, id, job);
    out.spec = Some(Arc::clone(spec));
    out.pool = facts
        .hierarchy
        .find(&spec.pool)
        .filter(|i| facts.hierarchy.is_leaf(*i));
    let of = out.pool.and_then(|i| facts.hierarchy.pool(i));
    out.marks.by_user = of.is_some_and(|p| p.fair_users);
    out.marks.counted = has_begun(&lines);
    out.marks.unplaced = is_somewhere_unplaced(&lines);
    out.marks.restless = out.marks.unplaced || is_restless(facts, &lines) || !job.rare.moves.is_empty();
    let clusters = spec
        .clusters
        .bounds_clusters()
        .then(|| basis.chosen(spec).count());
    let most = |group: &GroupSpec| {
        clusters.map_or(u64::MAX, |n| {
            let n = u64::try_from(n).unwrap_or(u64::MAX);
            spec.clusters.most_on(n, u64::from(group.instances))
        })
    };
    let groups = spec.groups.iter();
    out.wanted = groups.map(|g| wanted(job, g, &lines, most(g))).collect();
    add_places(&mut out, spec, &lines);
    let dated = spec.groups.iter().any(|g| g.lasts(spec.kind).is_some());
    out.marks.dated = dated && out.instances() > 0;
    out.marks.moving = keeps_capacity(job);
    out.marks.replaced = lines.iter().any(|line| is_replaced(spec, line));
    if job.running_spec().is_some() {
        out.waits = waits((facts, basis), (id, job), &out, &lines);
    }
    out
}

/// What a job adds that is set aside: all that its shards report active. It requests no more, and nothing is
/// taken from it.
fn add_aside(out: &mut Entry, facts: &FederationFacts, id: JobId, spec: &Arc<JobSpec>) {
    out.spec = Some(Arc::clone(spec));
    out.pool = match pool_of(facts, &spec.pool) {
        PoolRef::Known(pool) => Some(pool),
        PoolRef::Unknown(_) => None,
    };
    let of = out.pool.and_then(|i| facts.hierarchy.pool(i));
    out.marks.by_user = of.is_some_and(|p| p.fair_users);
    out.marks.aside = true;
    let mut wanted = vec![0u64; spec.groups.len()];
    for (cluster, view) in &facts.clusters {
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

/// How many instances of a group could be active. Its clusters may have at most `most`, with those that have
/// ended.
fn wanted(job: &JobView, group: &GroupSpec, lines: &[Line], most: u64) -> u64 {
    let lines = lines.iter().filter(|l| l.key.group == group.name);
    let sum = |of: &dyn Fn(&Line) -> u64| lines.clone().map(of).fold(0, u64::saturating_add);
    let ended = sum(&|l| l.count.ended);
    let unended = job.wanted(&group.name).min(most).saturating_sub(ended);
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

pub(crate) fn waits(
    (facts, basis): (&FederationFacts, &Basis),
    (id, job): (JobId, &JobView),
    entry: &Entry,
    lines: &[Line],
) -> Box<[Wait]> {
    let Some(spec) = entry.spec.as_deref() else {
        return Box::default();
    };
    let requests: Vec<Request> = if spec.gang.is_some() {
        let gang = gangs::request(facts, (id, job), spec, lines);
        gang.into_iter().collect()
    } else {
        let groups = spec.groups.iter();
        groups
            .filter_map(|group| request(facts, (id, job), (spec, group), lines))
            .collect()
    };
    let waits = requests.into_iter().filter(|r| r.room > 0).filter_map(|r| {
        let bound = r.slices.iter().filter_map(|s| basis.index(&s.cluster));
        let any = basis.chosen(spec).filter(|_| r.unbound > 0);
        let mut like = Likeness::new(r.terms, r.unit, bound.chain(any));
        like.lasts = lasts(spec, &r);
        like.class = class(spec, &r);
        like.division = division(spec, &r);
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

/// What bounds a group at single clusters. With the same bounds, and as many instances at the same clusters,
/// two groups get capacity at the same clusters.
fn division(spec: &JobSpec, request: &Request) -> Option<u64> {
    let choice = &spec.clusters;
    if !choice.bounds_clusters() && choice.fail_over_only.is_empty() {
        return None;
    }
    let instances = spec.group(&request.group).map(|group| group.instances);
    let bounds = (
        &choice.spread,
        choice.min_clusters,
        choice.max_share,
        &choice.fail_over_only,
    );
    let text = format!("{bounds:?} {instances:?} {:?}", request.have);
    Some(fnv1a(text.as_bytes()))
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

/// When the next cluster is not avoided any more.
fn avoided_until(job: &JobView) -> Option<Timestamp> {
    let open = job.avoid.values().filter(|avoided| !avoided.is_over);
    open.map(|avoided| avoided.until).min()
}
