//! What the resource manager knows: clusters with what their shards said, pools, jobs with their assignments and grants.
//! All of it can be rebuilt from storage and full reports. No decisions here, only look-ups that several of them need.

mod job;

pub use self::job::{Avoided, JobView, Sent};
use crate::claims::Claims;
use crate::division::Division;
use crate::ended::EndedJob;
use crate::event::LinkId;
use crate::fits::KnownFits;
use crate::found::Word;
use crate::host_pools::HostPools;
use crate::jobs::Jobs;
use crate::known::{KnownHead, Specs};
use crate::ledger::Ledger;
use crate::room::lent_kinds;
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::cluster::{Cluster, ClusterState, Contact, Heartbeat, Wish};
use echelon_core_model::control::Control;
use echelon_core_model::directive::{Capacity, SliceReport};
use echelon_core_model::pause::Pause;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, JobId, PoolId, Reason, Resources, Timestamp, Version,
};
use echelon_core_pools::Hierarchy;
use echelon_core_pools::tree::of_lent_room;
use echelon_core_routing::Homes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A slice within its job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceKey {
    /// The group.
    pub group: GroupName,
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
}

/// Everything known.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// Clusters that were added or heard.
    pub clusters: BTreeMap<ClusterId, ClusterView>,
    /// The switches.
    pub control: Control,
    /// The pool tree.
    pub pools: PoolTree,
    /// The version of the tree that was the last to change what the sums of jobs depend on: which pools there
    /// are, and where, and how each counts its jobs.
    pub structure: Version,
    /// The same in the order of entitlement.
    pub hierarchy: Arc<Hierarchy>,
    /// The same by shares alone, for what hosts lend.
    pub by_shares: Arc<Hierarchy>,
    /// All jobs that have not ended, or whose end is not stored yet; a deleted one until only its tombstone is left.
    pub jobs: Jobs,
    /// What is kept of those that have.
    pub ended: BTreeMap<JobId, EndedJob>,
    /// Their specs.
    pub specs: Specs,
    /// The time between the leader before and this one.
    pub pause: Pause,
    /// The ring of all clusters.
    pub homes: Arc<Homes>,
    /// Host pools beside `default`, as the ledger knows them.
    pub host_pools: HostPools,
    /// What jobs come to.
    pub ledger: Ledger,
    /// How room was divided last.
    pub division: Division,
    /// Room that is being made.
    pub claims: Claims,
    /// Jobs whose grants the last step raised, and whether they counted among those of their pool before.
    pub raised: BTreeMap<JobId, bool>,
    /// Why no cluster is chosen for anything; `None`: clusters are chosen.
    pub awaiting: Option<Reason>,
    /// Counts what a checker would have to look at again.
    pub revision: u64,
}

/// Reports of one cluster, by job, group and generation.
pub type Reports = BTreeMap<(JobId, GroupName, Generation), Box<SliceReport>>;

/// What a shard said last of a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupWord {
    /// Runs from before the last restart asked for.
    pub outdated: u64,
    /// Instances that are still to be restarted, or were and are not good yet.
    pub restarting: u64,
    /// Instances that fail again and again.
    pub crash_looping: u64,
    /// The version that its runs are to be of.
    pub revision: u32,
    /// The lowest number that is not brought to it, or not good yet.
    pub first_behind: Option<u32>,
    /// The part of `max_unavailable` in force.
    pub part: u64,
    /// The number of the part obeyed.
    pub part_number: u64,
    /// Of a daemon: hosts on which one of it is or belongs, as it was told last.
    pub hosts: Option<u32>,
}

/// A cluster as it is known.
#[derive(Debug, Clone, Default)]
pub struct ClusterView {
    /// The row that a command wrote; `None` until it was read.
    pub row: Option<Cluster>,
    /// How it is heard, as it was last stored.
    pub state: Option<ClusterState>,
    /// Its stream, while one is open.
    pub link: Option<LinkId>,
    /// When its shard last said anything to this leader.
    pub heard_at: Option<Timestamp>,
    /// When it was last asked for a full report.
    pub asked_at: Option<Timestamp>,
    /// Full reports completed over the present stream.
    pub fulls: u32,
    /// Something that it told was lost.
    pub missed: bool,
    /// Its shard is known to obey this leader, so its grants are those of this leader alone.
    pub settled: bool,
    /// Epoch and sequence of its last report.
    pub last_report: (Epoch, u64),
    /// The full report under way.
    pub incoming: Option<Reports>,
    /// What its shard said last of each slice.
    pub reports: Reports,
    /// What its shard said last of each group.
    pub words: BTreeMap<(JobId, GroupName), GroupWord>,
    /// Its hosts in sum, once reported.
    pub capacity: Option<Capacity>,
    /// How many instances of each class fit, as it was asked and has reported.
    pub fits: KnownFits,
    /// Its last heartbeat, and when this leader saw it change.
    pub heartbeat: Option<(Heartbeat, Timestamp)>,
    /// Until when its shard is set aside, since it said what cannot be.
    pub quarantine: Option<Timestamp>,
    /// What it found since storage was resumed.
    pub found: Word,
}

impl ClusterView {
    /// How it is heard.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.state.as_ref().map(|s| s.contact).unwrap_or_default()
    }

    /// What operators want of it; a cluster whose row was not read yet takes nothing.
    #[must_use]
    pub fn wish(&self) -> Wish {
        self.row.as_ref().map_or(Wish::Cordoned, |r| r.wish)
    }

    /// What its shard said last of a job.
    pub fn reports_of(
        &self,
        job: JobId,
    ) -> impl Iterator<Item = (&(JobId, GroupName, Generation), &SliceReport)> {
        let first = (job, GroupName::new(""), Generation(0));
        let from = self.reports.range(first..).map(|(key, report)| (key, &**report));
        from.take_while(move |((of, ..), _)| *of == job)
    }

    /// Whether its shard knows a newer head of a job than this version.
    #[must_use]
    pub fn knows_newer(&self, job: JobId, than: Version) -> bool {
        self.reports_of(job).any(|(_, report)| report.head_version > than)
    }

    /// Forgets what its shard said of a job.
    pub fn forget(&mut self, job: JobId) {
        let slices: Vec<_> = self.reports_of(job).map(|(key, _)| key.clone()).collect();
        for key in slices {
            self.words.remove(&(job, key.1.clone()));
            self.reports.remove(&key);
        }
    }

    /// Whether its shard has told this leader all that it has.
    #[must_use]
    pub const fn is_heard(&self) -> bool {
        self.settled || self.fulls > 0
    }

    /// Whether grants may be raised there.
    #[must_use]
    pub fn takes_grants(&self) -> bool {
        self.settled && self.link.is_some() && self.wish() != Wish::Left
    }
}

/// The slices of an assignment.
#[must_use]
pub fn slices_of(assignment: &Assignment) -> BTreeMap<SliceKey, Vec<&AssignedRange>> {
    let mut out: BTreeMap<SliceKey, Vec<&AssignedRange>> = BTreeMap::new();
    for (group, ranges) in &assignment.groups {
        for r in ranges {
            let key = SliceKey {
                group: group.clone(),
                cluster: r.cluster.clone(),
                generation: r.generation,
            };
            out.entry(key).or_default().push(r);
        }
    }
    out
}

/// A slice in numbers: what the stored assignment gives it and what its shard says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceCount {
    /// Numbers assigned.
    pub assigned: u64,
    /// Numbers in ranges that are to leave whole.
    pub leaving: u64,
    /// Waiting numbers that are to leave, by count.
    pub leaving_waiting: u64,
    /// Reported as succeeded, failed or stopped.
    pub ended: u64,
    /// Whether something of it ever ran, or is about to. Numbers that were stopped while they waited have ended and never began.
    pub begun: bool,
    /// Reported as begun and not ended.
    pub active: u64,
    /// Of these, reported as being stopped by preemption.
    pub preempting: u64,
    /// Whether its shard has said anything of it.
    pub reported: bool,
}

impl SliceCount {
    /// Numbers whose goal is not met.
    #[must_use]
    pub const fn unended(&self) -> u64 {
        self.assigned.saturating_sub(self.ended)
    }

    /// Numbers that may be active: what is to leave starts nothing.
    #[must_use]
    pub fn startable(&self) -> u64 {
        let staying = self.unended().saturating_sub(self.leaving + self.leaving_waiting);
        staying.max(self.active.min(self.unended()))
    }
}

/// Whether sums of jobs are the same under two trees: no pool comes, goes or moves, and each counts its jobs
/// as before.
fn counts_alike(before: &PoolTree, after: &PoolTree) -> bool {
    let counts = |p: &Pool| (p.fair_users, p.max_jobs < u64::MAX);
    let alike = |(a, b): (&Pool, &Pool)| a.id == b.id && a.path == b.path && counts(a) == counts(b);
    before.pools.len() == after.pools.len() && before.pools.values().zip(after.pools.values()).all(alike)
}

/// The pools that are in one of two trees alone, or at another path.
fn moved_pools(before: &PoolTree, after: &PoolTree) -> BTreeSet<PoolId> {
    let other = |than: &PoolTree, pool: &Pool| than.pools.get(&pool.path).is_none_or(|p| p.id != pool.id);
    let gone = before.pools.values().filter(|p| other(after, p));
    let new = after.pools.values().filter(|p| other(before, p));
    gone.chain(new).map(|p| p.id.clone()).collect()
}

impl Picture {
    /// What the shard of a cluster said of a slice.
    #[must_use]
    pub fn report(&self, job: JobId, key: &SliceKey) -> Option<&SliceReport> {
        let reports = &self.clusters.get(&key.cluster)?.reports;
        reports
            .get(&(job, key.group.clone(), key.generation))
            .map(AsRef::as_ref)
    }

    /// A slice in numbers.
    #[must_use]
    pub fn count(&self, job: JobId, key: &SliceKey, ranges: &[&AssignedRange]) -> SliceCount {
        let mut out = SliceCount::default();
        for r in ranges {
            out.assigned += r.range.count();
            match r.releasing.as_ref().map(|m| m.count) {
                Some(None) => out.leaving += r.range.count(),
                Some(Some(n)) => out.leaving_waiting += n,
                None => {}
            }
        }
        if let Some(report) = self.report(job, key) {
            out.reported = true;
            out.ended = report.succeeded + report.failed + report.stopped;
            out.begun = report.active + report.succeeded + report.failed > 0 || report.last_begun.is_some();
            out.active = report.active;
            out.preempting = report.preempting;
        }
        out
    }

    /// What counts against pools and limits for a slice: max(granted, active) once its shard obeys this leader; before, all
    /// that an older leader's grants may have allowed.
    #[must_use]
    pub fn allocated(&self, job: &JobView, id: JobId, key: &SliceKey, ranges: &[&AssignedRange]) -> u64 {
        let count = self.count(id, key, ranges);
        let line = job.grants.get(key);
        let settled = self.clusters.get(&key.cluster).is_some_and(|c| c.settled);
        match line {
            Some(line) if !line.is_new() => line.allocated(count.active),
            _ if settled => count.active,
            _ => {
                let most = job.spec.as_ref().and_then(|s| s.group(&key.group));
                count
                    .unended()
                    .min(most.map_or(u64::MAX, |g| u64::from(g.most_active())))
            }
        }
    }

    /// Notes a grant, by number and amount, before it is sent.
    pub(crate) fn send_grant(&mut self, id: JobId, key: &SliceKey, (number, active): (u64, u64)) {
        let told = self.report(id, key).map(|r| (r.preempted, r.added));
        let (preempted, added) = told.unwrap_or_default();
        if let Some(job) = self.jobs.get_mut(&id) {
            let line = job.grants.get_or_default(key.clone());
            // What was taken before the first grant is left out of it, and what was added is part of it.
            if line.is_new() {
                line.count(preempted);
                line.include(added);
            }
            line.send(number, active);
        }
    }

    /// A group's spec with its job's.
    #[must_use]
    pub fn group<'a>(&'a self, job: JobId, group: &GroupName) -> Option<(&'a JobSpec, &'a GroupSpec)> {
        let spec = self.jobs.get(&job)?.spec.as_deref()?;
        Some((spec, spec.group(group)?))
    }

    /// Makes the ring of clusters anew when there are others.
    pub(crate) fn settle_homes(&mut self) {
        if !self.clusters.keys().eq(self.homes.clusters()) {
            self.homes = Arc::new(Homes::new(self.clusters.keys()));
        }
    }

    /// Takes a tree in. Jobs are looked at only where pools are at other paths than before, and of them only
    /// those of these pools.
    pub fn set_pools(&mut self, tree: PoolTree) {
        self.revision += 1;
        if !counts_alike(&self.pools, &tree) {
            self.structure = tree.version;
        }
        let moved = moved_pools(&self.pools, &tree);
        self.hierarchy = Arc::new(Hierarchy::new(&tree));
        self.by_shares = Arc::new(Hierarchy::new(&of_lent_room(&tree)));
        self.pools = tree;
        if moved.is_empty() {
            return;
        }
        let of_moved = |job: &JobView| {
            let id = job.head.as_ref().and_then(|head| head.pool_id.as_ref());
            id.is_some_and(|id| moved.contains(id))
        };
        let jobs = self.jobs.iter().filter(|(_, job)| of_moved(job));
        let jobs: Vec<JobId> = jobs.map(|(id, _)| *id).collect();
        jobs.into_iter().for_each(|id| self.settle_pool(id));
    }

    /// Where a job's pool is: where the pool of that id is now, and, for a head without an id or a pool that is gone, at the path that
    /// the head names.
    #[must_use]
    pub fn path_of<'a>(&'a self, head: &'a KnownHead) -> &'a str {
        let known = head.pool_id.as_ref().and_then(|id| self.hierarchy.path_of(id));
        known.unwrap_or(&head.pool)
    }

    fn has_moved(&self, job: &JobView) -> bool {
        let pair = job.head.as_ref().zip(job.spec.as_ref());
        pair.is_some_and(|(head, spec)| !head.void && self.path_of(head) != spec.pool)
    }

    /// A job's spec names its pool's path of now: whoever reads it need not ask where the pool is.
    pub(crate) fn settle_pool(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| self.has_moved(job)) else {
            return;
        };
        let path = job.head.as_ref().map(|head| self.path_of(head).to_owned());
        let spec = job.spec.as_deref().cloned();
        if let (Some(path), Some(spec)) = (path, spec) {
            let spec = self.specs.share(JobSpec { pool: path, ..spec });
            if let Some(job) = self.jobs.get_mut(&id) {
                job.spec = Some(spec);
            }
        }
    }

    /// 1 of each kind that clusters lend to new work.
    #[must_use]
    pub fn lent_kinds(&self) -> Resources {
        lent_kinds(self)
    }

    /// Jobs for which something is still to be done.
    pub fn live(&self) -> impl Iterator<Item = (JobId, &JobView)> {
        self.jobs
            .iter()
            .filter(|(_, j)| j.is_live())
            .map(|(id, j)| (*id, j))
    }
}
