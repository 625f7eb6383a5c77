//! Clusters whose shards are cut off for longer than jobs wait for them (`on_cluster_loss`), and come back. What ran
//! there begins at other clusters by the jobs' policy, while it goes on at the cluster that is lost. Agents are asked what runs:
//! nothing is replaced before its time or against its policy, all is replaced soon after it, and each instance runs once
//! some time after the return. Beside that leaders of both roles die.

use crate::client::{Asked, User};
use crate::faults::Fault;
use crate::invariants::Broken;
use crate::options::Options;
use crate::process::Who;
use crate::world::{BEGIN, Item, Outcome, World};
use echelon_core_model::job::JobState;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{InstanceId, JobId, MemberId, Span, Timestamp};
use echelon_core_testkit::build::JobBuilder;
use std::collections::{BTreeMap, BTreeSet};

/// When jobs come, and when a cluster is cut off.
const FIRST: Span = Span::seconds(30);
const CUT: Span = Span::seconds(90);
/// How long the jobs that may be replaced wait.
const PATIENCE: Span = Span::minutes(2);
/// From the end of that time to the moment when all of it runs elsewhere: what new leaders lose, and the launch.
const REPLACED_WITHIN: Span = Span::seconds(120);
/// From the return of a cluster to the moment when each instance runs once.
const SETTLED_WITHIN: Span = Span::seconds(120);
/// Instances of the service and of the batch job that may be replaced, and of the service that waits.
const MOVING: u32 = 4;
const WAITING: u32 = 3;
/// For how long a batch instance runs.
const WORKS: Span = Span::minutes(5);

/// What came of a world in which a cluster was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCluster {
    /// Instances that began at another cluster while they lived at the lost one.
    pub replaced: u64,
    /// How the world ended.
    pub outcome: Outcome,
}

/// The jobs of such a world.
struct LossJobs {
    moving: JobId,
    work: JobId,
    waiting: JobId,
}

impl World {
    /// Whether an instance may have a run at an agent's cluster beside another one: its job lets it be replaced, and that
    /// cluster was cut off for long enough, and is not back for long.
    pub(crate) fn is_lost_to(&self, instance: &InstanceId, agent: &str) -> bool {
        let specs = self.users.0.iter().filter(|user| user.job == Some(instance.job));
        let mut waits = specs.filter_map(|user| match user.spec.on_cluster_loss {
            OnSilence::Replace(after) => Some(after),
            OnSilence::Wait => None,
        });
        let Some(after) = waits.next() else {
            return false;
        };
        let is_there = |cluster: usize| {
            let of = self.clusters.get(cluster);
            of.is_some_and(|c| c.mesos.live_tasks().any(|(host, _)| host.as_str() == agent))
        };
        if (0..self.clusters.len()).any(|cluster| self.was_lost_for(cluster, after) && is_there(cluster)) {
            return true;
        }
        self.sites.cuts().any(|cut| {
            let is_there = is_there(cut.cluster);
            let is_lost = self.now.since(cut.from) >= after && self.now < cut.until.plus(SETTLED_WITHIN);
            is_there && is_lost
        })
    }

    /// Plays a world in which one cluster is lost for some minutes.
    #[must_use]
    pub fn lost(seed: u64, options: Options) -> LostCluster {
        let mut world = Self::new(seed, options);
        let at = BEGIN.plus(FIRST);
        let specs = [
            JobBuilder::service("web", MOVING)
                .spread()
                .on_cluster_loss(OnSilence::Replace(PATIENCE))
                .build(),
            JobBuilder::batch("work", MOVING)
                .spread()
                .env("SIM_RUNTIME_MS", &WORKS.0.to_string())
                .on_cluster_loss(OnSilence::Replace(PATIENCE))
                .build(),
            JobBuilder::service("kept", WAITING)
                .spread()
                .on_cluster_loss(OnSilence::Wait)
                .build(),
        ];
        for spec in specs {
            let user = world.users.0.len();
            world.users.0.push(User::new(spec, [Asked::Create]));
            world.queue.plan(at, Item::User(user));
        }
        let cluster = world.dice.silences.index(world.options.clusters);
        let span = world.dice.silences.span(Span::minutes(5), Span::minutes(8));
        let from = BEGIN.plus(CUT);
        world.queue.plan(from, Item::Fault(Fault::CutOff(cluster, span)));
        world.plan_deaths(from, span, cluster);
        world.run_until(from);
        let jobs: Vec<JobId> = world.users.0.iter().filter_map(|user| user.job).collect();
        let [moving, work, waiting] = jobs[..] else {
            world.note("the jobs were not created".to_owned());
            return LostCluster {
                replaced: 0,
                outcome: world.outcome(),
            };
        };
        let jobs = LossJobs {
            moving,
            work,
            waiting,
        };
        let replaced = world.judge_loss(&jobs, cluster, from, span);
        world.judge_return(&jobs, from.plus(span));
        world.judge_end();
        LostCluster {
            replaced,
            outcome: world.outcome(),
        }
    }

    /// Leaders of both roles that die while a cluster is lost, or as it returns.
    fn plan_deaths(&mut self, from: Timestamp, span: Span, cluster: usize) {
        let all = [
            Who::Manager(0),
            Who::Manager(1),
            Who::Shard { cluster, index: 0 },
            Who::Shard { cluster, index: 1 },
        ];
        for who in all {
            if self.dice.silences.chance(300) {
                let when = from.plus(self.dice.silences.span(Span::ZERO, span));
                let away = self.dice.silences.span(Span::millis(100), Span::seconds(5));
                self.queue.plan(when, Item::Fault(Fault::Crash(who, away)));
            }
        }
    }

    fn note(&mut self, what: String) {
        self.broken.push(Broken { invariant: 1, what });
    }

    /// The clusters at which each instance of a job lives.
    fn clusters_of(&self, job: JobId) -> BTreeMap<InstanceId, BTreeSet<usize>> {
        let mut out: BTreeMap<InstanceId, BTreeSet<usize>> = BTreeMap::new();
        for (cluster, of) in self.clusters.iter().enumerate() {
            let tasks = of.mesos.live_tasks();
            let members = tasks.filter_map(|(_, task)| task.as_str().parse::<MemberId>().ok());
            for member in members.filter(|member| member.run.instance.job == job) {
                out.entry(member.run.instance).or_default().insert(cluster);
            }
        }
        out
    }

    /// Looks at agents while a cluster is lost. Returns how many instances were replaced.
    fn judge_loss(&mut self, jobs: &LossJobs, cluster: usize, from: Timestamp, span: Span) -> u64 {
        let before: BTreeMap<JobId, BTreeMap<InstanceId, BTreeSet<usize>>> =
            [jobs.moving, jobs.work, jobs.waiting]
                .map(|job| (job, self.clusters_of(job)))
                .into();
        let there = |job: JobId| {
            let of_job = before.get(&job).into_iter().flatten();
            let there = of_job.filter(|(_, at)| at.contains(&cluster));
            there
                .map(|(instance, _)| instance.clone())
                .collect::<BTreeSet<_>>()
        };
        let elsewhere = |world: &Self, job: JobId| {
            let now = world.clusters_of(job).into_iter();
            let others = now.filter(|(_, at)| at.iter().any(|c| *c != cluster));
            others.map(|(instance, _)| instance).collect::<BTreeSet<_>>()
        };
        self.run_until(from.plus(PATIENCE));
        for job in [jobs.moving, jobs.work, jobs.waiting] {
            let early = there(job).intersection(&elsewhere(self, job)).count();
            if early > 0 {
                self.note(format!("{early} instances of {job} were replaced too early"));
            }
        }
        self.run_until(from.plus(PATIENCE).plus(REPLACED_WITHIN));
        let missing: Vec<InstanceId> = there(jobs.moving)
            .difference(&elsewhere(self, jobs.moving))
            .cloned()
            .collect();
        if !missing.is_empty() {
            self.note(format!("{missing:?} were not replaced"));
        }
        self.run_until(from.plus(span));
        let moved = there(jobs.waiting)
            .intersection(&elsewhere(self, jobs.waiting))
            .count();
        if moved > 0 {
            self.note(format!(
                "{moved} instances that wait for their cluster were replaced"
            ));
        }
        there(jobs.moving).len() as u64
    }

    /// Looks at agents when the cluster is back: each instance runs once, and work is done once.
    fn judge_return(&mut self, jobs: &LossJobs, back: Timestamp) {
        self.run_until(back.plus(SETTLED_WITHIN));
        for (job, count) in [(jobs.moving, MOVING), (jobs.waiting, WAITING)] {
            let (instances, runs) = (self.clusters_of(job).len(), self.live_instances(job));
            if (instances as u64, runs) != (u64::from(count), u64::from(count)) {
                self.note(format!(
                    "{runs} runs of {instances} instances of {job} live, of {count}"
                ));
            }
        }
        // What was replaced began anew.
        self.run_until(back.plus(WORKS).plus(SETTLED_WITHIN));
        let state = self.progress(jobs.work).map(|progress| progress.state);
        let left = self.live_instances(jobs.work);
        if (state, left) != (Some(JobState::Succeeded), 0) {
            self.note(format!("the batch job is {state:?}, and {left} of it run"));
        }
    }
}
