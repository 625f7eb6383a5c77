//! Bounds of pools: some worlds draw them, with jobs that meet them. What runs never breaks one. Judged by the agents' own tasks, against
//! the most that each bound ever was, since a bound that is lowered stops nothing.

use crate::dice::Die;
use crate::invariants::Broken;
use crate::world::World;
use echelon_core_model::job::Head;
use echelon_core_model::pool::{Pool, PoolPaths, PoolTree};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{InstanceId, JobId, MemberId, PoolId, ReasonCode, Resources};
use echelon_core_testkit::build::{JobBuilder, shape};
use std::collections::{BTreeMap, BTreeSet};

/// MiB that are reserved with each core: an instance with sidecars takes less.
const MEMORY: u64 = 128;

/// What runs of a pool, with those below it, in thousandths of cores and in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Runs {
    ordinary: u64,
    firm: u64,
    controllers: u64,
    lent: u64,
    instances: u64,
    jobs: u64,
}

impl Runs {
    /// Whether so many more instances of a job would be more than a bound of a pool.
    pub(crate) fn is_reached(&self, code: ReasonCode, pool: &Pool, n: u64, cpus: u64) -> bool {
        let cpus = n.saturating_mul(cpus);
        let (has, more, most) = match code {
            ReasonCode::PoolLimit => (self.ordinary, cpus, pool.limit.cpus),
            ReasonCode::PoolReservation => (self.firm, cpus, pool.reservation.cpus),
            ReasonCode::PoolControllers => (self.controllers, cpus, pool.controller_limit.cpus),
            ReasonCode::PoolRevocableLimit => (self.lent, cpus, pool.revocable_limit.cpus),
            ReasonCode::PoolInstances => (self.instances, n, pool.max_instances),
            ReasonCode::PoolJobs => (self.jobs, 1, pool.max_jobs),
            _ => return false,
        };
        has.saturating_add(more) > most
    }

    /// The first bound that is broken.
    fn breaks(&self, most: &Pool) -> Option<String> {
        let all = [
            ("cores", self.ordinary, most.limit.cpus),
            ("cores that are not preemptible", self.firm, most.reservation.cpus),
            (
                "cores of controllers",
                self.controllers,
                most.controller_limit.cpus,
            ),
            ("lent cores", self.lent, most.revocable_limit.cpus),
            ("instances", self.instances, most.max_instances),
            ("jobs", self.jobs, most.max_jobs),
        ];
        let broken = all.into_iter().find(|(_, has, most)| has > most)?;
        let (what, has, most) = broken;
        Some(format!("has {has} of at most {most} {what} running"))
    }
}

/// Bounds of a pool by chance.
pub(crate) fn bound(pool: &mut Pool, die: &mut Die) {
    if die.chance(500) {
        let cores = 2 + die.below(5);
        pool.reservation = shape(cores, cores * MEMORY);
    }
    if die.chance(400) {
        pool.limit.cpus = pool.reservation.cpus.max(1000) + 1000 * die.below(4);
    }
    if die.chance(300) {
        pool.controller_limit.cpus = 1000 + 1000 * die.below(4);
    }
    if die.chance(300) {
        pool.revocable_limit.cpus = 1000 + 1000 * die.below(4);
    }
    if die.chance(300) {
        pool.max_jobs = 1 + die.below(2);
    }
    if die.chance(300) {
        pool.max_instances = 2 + die.below(8);
    }
    pool.fair_users = die.chance(300);
}

/// Every pool has reserved what those below it have together, and its limit allows that.
pub(crate) fn raise_reservations(pools: &mut BTreeMap<String, Pool>) {
    let paths: Vec<String> = pools.keys().rev().cloned().collect();
    for path in paths {
        let below = pools.values().filter(|p| PoolTree::parent(&p.path) == path);
        let sum = below.fold(Resources::ZERO, |sum, p| sum.plus(p.reservation));
        if let Some(pool) = pools.get_mut(&path) {
            pool.reservation = pool.reservation.max_each(sum);
            pool.limit = pool.limit.max_each(pool.reservation);
        }
    }
}

/// What bounds are about, by chance.
pub(crate) fn meets_bounds(mut job: JobBuilder, tree: &PoolTree, die: &mut Die) -> JobBuilder {
    let (controls, is_firm) = (die.chance(250), die.chance(350));
    job = job.owner(if die.chance(500) { "ann" } else { "bob" });
    if controls {
        job = job.controller();
    }
    let spec = job.clone().build();
    let room = spec
        .groups
        .iter()
        .fold(Resources::ZERO, |most, g| most.max_each(g.room()));
    let fits = tree.lineage(&spec.pool).all(|p| room.fits(p.reservation));
    if is_firm && fits && !spec.revocable && spec.groups.iter().all(|g| g.volume.is_none()) {
        job = job.not_preemptible();
    }
    job
}

impl World {
    /// Notes the most that bounds ever were.
    pub(crate) fn note_bounds(&mut self) {
        for pool in self.tree().pools.into_values() {
            let most = self
                .trees
                .most
                .entry(pool.id.clone())
                .or_insert_with(|| pool.clone());
            most.limit = most.limit.max_each(pool.limit);
            most.reservation = most.reservation.max_each(pool.reservation);
        }
    }

    /// Instances that run, by job. What is on agents that are or were just away is nobody's fault.
    fn instances(&self) -> BTreeMap<JobId, BTreeSet<InstanceId>> {
        let mut out: BTreeMap<JobId, BTreeSet<InstanceId>> = BTreeMap::new();
        for c in &self.clusters {
            for (agent, task) in c.mesos.live_tasks() {
                if self.facts.excused(agent.as_str(), self.now) {
                    continue;
                }
                if let Ok(MemberId { run, .. }) = task.as_str().parse() {
                    out.entry(run.instance.job).or_default().insert(run.instance);
                }
            }
        }
        out
    }

    /// What runs of each pool, by path.
    pub(crate) fn runs_of_pools(&self, tree: &PoolTree) -> BTreeMap<String, Runs> {
        let paths = PoolPaths::of(tree);
        let mut out: BTreeMap<String, Runs> = BTreeMap::new();
        for (job, instances) in self.instances() {
            let Some((head, spec)) = self.head_and_spec(job) else {
                continue;
            };
            let rooms = instances.iter().filter_map(|i| spec.group(&i.group));
            let cpus: u64 = rooms.map(|g| g.room().cpus).sum();
            for pool in tree.lineage(paths.of_job(&head)) {
                let runs = out.entry(pool.path.clone()).or_default();
                let of = |is: bool| if is { cpus } else { 0 };
                runs.ordinary += of(!spec.revocable);
                runs.lent += of(spec.revocable);
                runs.firm += of(!spec.preemptible);
                runs.controllers += of(spec.controller && !spec.revocable);
                runs.instances += instances.len() as u64;
                runs.jobs += 1;
            }
        }
        out
    }

    pub(crate) fn head_and_spec(&self, job: JobId) -> Option<(Head, JobSpec)> {
        let head = self.head(job)?;
        match self.store.read(&Query::Spec(job, head.spec_version)) {
            Answer::Spec(spec) => Some((head, spec?)),
            _ => None,
        }
    }

    /// No bound of a pool is broken by what runs.
    pub(crate) fn judge_bounds(&mut self) {
        if !self.trees.bounded {
            return;
        }
        let tree = self.tree();
        let runs = self.runs_of_pools(&tree);
        let wrong = runs.into_iter().filter_map(|(path, runs)| {
            let id: &PoolId = &tree.pools.get(&path)?.id;
            let what = runs.breaks(self.trees.most.get(id)?)?;
            Some(Broken {
                invariant: 4,
                what: format!("pool {path} {what}"),
            })
        });
        let wrong: Vec<Broken> = wrong.collect();
        self.broken.extend(wrong);
    }
}
