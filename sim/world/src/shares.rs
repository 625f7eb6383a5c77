//! Pools that want more than there is, and what each of them has of it in the end: its fair part. Every instance is of one
//! core here.

use crate::invariants::Broken;
use crate::options::Options;
use crate::world::World;
use echelon_core_model::job::Desired;
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{JobId, MemberId, Resources, TaskId};
use echelon_core_testkit::build::shape;
use std::collections::BTreeSet;

/// MiB of an instance of one core.
const MEMORY: u64 = 64;
/// Cores of a host.
pub(crate) const CORES: u64 = 4;

/// The pool of the nth of anything that belongs to pools in turn.
pub(crate) fn pool_of(options: &Options, n: usize) -> String {
    match n % options.pools.max(1) {
        0 => "/default".to_owned(),
        n => format!("/p{n}"),
    }
}

/// What each pool has reserved: room for instances of one core.
pub(crate) const fn reservation(options: &Options) -> Resources {
    let cores = options.reserved;
    shape(cores, cores.saturating_mul(MEMORY))
}

/// What a pool wants and has, in instances, and its fair part.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    wants: u64,
    has: u64,
    part: u64,
}

impl Pool {
    /// What it has beyond its part.
    const fn surplus(&self) -> u64 {
        self.has.saturating_sub(self.part)
    }
}

/// The same of a job, with what it has at each cluster.
#[derive(Debug)]
struct Job {
    pool: usize,
    wants: u64,
    has: u64,
    is_gang: bool,
    /// Most instances that it may lose at once.
    at_once: u64,
    at: Vec<u64>,
}

/// Everybody's part of what there is.
#[derive(Debug)]
struct Shares {
    of_cluster: u64,
    pools: Vec<Pool>,
    jobs: Vec<Job>,
}

impl Shares {
    fn new(of_cluster: u64, clusters: usize, pools: usize, jobs: Vec<Job>) -> Self {
        let mut sums = vec![Pool::default(); pools];
        for job in &jobs {
            if let Some(pool) = sums.get_mut(job.pool) {
                pool.wants += job.wants;
                pool.has += job.has;
            }
        }
        let there = of_cluster * u64::try_from(clusters).unwrap_or(u64::MAX);
        let parts = fair(there, &sums);
        sums.iter_mut()
            .zip(parts)
            .for_each(|(pool, part)| pool.part = part);
        Self {
            of_cluster,
            pools: sums,
            jobs,
        }
    }

    /// Whether something of a job waits that could begin inside its pool's part, where there is room or others have more than theirs.
    fn is_short(&self, job: &Job, clusters: usize) -> bool {
        let Some(pool) = self.pools.get(job.pool).filter(|_| job.has < job.wants) else {
            return false;
        };
        // What is too little for what waits is nothing to it.
        let unit = if job.is_gang { job.wants } else { 1 };
        if pool.has.saturating_add(unit - 1) >= pool.part {
            return false;
        }
        let free = |c: &usize| {
            let taken: u64 = self.jobs.iter().filter_map(|j| j.at.get(*c)).sum();
            self.of_cluster.saturating_sub(taken)
        };
        let with_victims = |c: &usize| free(c) + self.victims(job, *c);
        // A gang goes where it has room, and else stays where it is until room is made there.
        if job.is_gang {
            (0..clusters).any(|c| free(&c) >= unit) || (0..clusters).all(|c| with_victims(&c) >= unit)
        } else {
            (0..clusters).any(|c| with_victims(&c) >= unit)
        }
    }

    /// Instances of others at a cluster that these have beyond their parts. A gang is lost whole or not at all, and for a gang all
    /// has to be lost at once.
    fn victims(&self, claimant: &Job, cluster: usize) -> u64 {
        let others = self.pools.iter().enumerate().filter(|(i, _)| *i != claimant.pool);
        let of_other = |(i, other): (usize, &Pool)| {
            let may_go = |job: &&Job| job.pool == i && (!job.is_gang || job.has <= other.surplus());
            let most = |job: &Job| if claimant.is_gang { job.at_once } else { u64::MAX };
            let there = self.jobs.iter().filter(may_go);
            let there = there.filter_map(|j| Some(most(j).min(*j.at.get(cluster)?)));
            other.surplus().min(there.sum())
        };
        others.map(of_other).sum()
    }
}

/// How many instances a job may lose at once: a service its `max_unavailable`.
fn most_at_once(spec: &JobSpec) -> u64 {
    let group = spec.groups.first().filter(|_| spec.kind.runs_for_ever());
    group.map_or(u64::MAX, |g| u64::from(g.most_unavailable(g.instances)))
}

impl World {
    /// Pools that have less than their fair part.
    pub(crate) fn judge_shares(&self) -> Option<Broken> {
        let (pools, clusters) = (self.options.pools, self.options.clusters);
        if pools < 2 {
            return None;
        }
        let of_cluster = CORES * u64::try_from(self.options.hosts).unwrap_or(u64::MAX);
        // Where it is now: a pool that moved and then was lost leaves jobs at the path that their heads were last written with.
        let (tree, at) = (self.tree(), |n| pool_of(&self.options, n));
        let paths = PoolPaths::of(&tree);
        let jobs = self.users.0.iter().filter_map(|user| {
            let id = user.job?;
            let (wants, has) = self.wants_and_has(id);
            let head = self.head(id)?;
            let path = paths.of_job(&head);
            Some((0..pools).find(|n| at(*n) == path).map(|pool| Job {
                pool,
                wants,
                has,
                is_gang: user.spec.gang.is_some(),
                at_once: most_at_once(&user.spec),
                at: (0..clusters).map(|c| self.live_at(c, id)).collect(),
            }))
        });
        // Pools of the operator's making have reserved nothing: parts are not equal where somebody is in one.
        let jobs: Vec<Job> = jobs.collect::<Option<_>>()?;
        // No cluster has room for a larger gang.
        let jobs = jobs
            .into_iter()
            .filter(|job| !job.is_gang || job.wants <= of_cluster);
        let shares = Shares::new(of_cluster, clusters, pools, jobs.collect());
        let short = shares.jobs.iter().find(|job| shares.is_short(job, clusters))?;
        let why = self.users.0.iter().filter_map(|u| self.progress(u.job?));
        let why: Vec<_> = why.flat_map(|p| p.waiting).collect();
        Some(Broken {
            invariant: 14,
            what: format!("{short:?} waits inside its pool's part: {shares:?}; {why:?}"),
        })
    }

    /// Instances of a job that live at a cluster.
    fn live_at(&self, cluster: usize, job: JobId) -> u64 {
        let tasks = self
            .clusters
            .get(cluster)
            .into_iter()
            .flat_map(|c| c.mesos.live_tasks());
        let runs = tasks.filter_map(|(_, t)| t.as_str().parse::<MemberId>().ok().map(|m| m.run));
        let ours: BTreeSet<TaskId> = runs.filter(|run| run.instance.job == job).collect();
        ours.len() as u64
    }

    /// Instances of a job that should run, and that do; none of one that has ended.
    fn wants_and_has(&self, job: JobId) -> (u64, u64) {
        let (Some(head), Some(progress)) = (self.head(job), self.progress(job)) else {
            return (0, 0);
        };
        if progress.state.is_ended() || head.goal.desired != Desired::Running {
            return (0, 0);
        }
        let wanted = self.wanted(job, head.spec_version);
        (
            self.unended_of(&progress, &head, wanted),
            self.live_instances(job),
        )
    }
}

/// Equal parts of what is there, of which nobody gets more than he wants; what is too little for one more each goes to nobody.
fn fair(there: u64, pools: &[Pool]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    order.sort_by_key(|i| pools.get(*i).map(|p| p.wants));
    let mut out = vec![0; pools.len()];
    let mut left = there;
    for (done, i) in order.iter().enumerate() {
        let sharers = u64::try_from(pools.len() - done).unwrap_or(u64::MAX);
        let wants = pools.get(*i).map_or(0, |p| p.wants);
        let part = wants.min(left / sharers);
        left -= part;
        if let Some(slot) = out.get_mut(*i) {
            *slot = part;
        }
    }
    out
}
