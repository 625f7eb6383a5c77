//! Agents that are known to be gone: one is marked by an operator, another one is replaced at its address by
//! a new agent while its executors may wait for it. Agents are asked what runs. Jobs say `on_gone`, or
//! nothing. No instance has two runs at once, unless its job wants to be replaced sooner than executors end.
//! All comes back within the promised time. Beside that leaders of shards die.

use crate::client::{Asked, User};
use crate::faults::Fault;
use crate::invariants::Broken;
use crate::mesos::ClusterWorld;
use crate::options::Options;
use crate::process::Who;
use crate::world::{BEGIN, Item, Outcome, World};
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::gone::{AgentTimes, GONE_MARGIN, RECOVERY_TIMEOUT};
use echelon_core_model::spec::{JobSpec, OnSilence};
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{InstanceId, JobId, MemberId, Span, Timestamp};
use echelon_core_testkit::build::JobBuilder;
use echelon_proto::convert::mesos::agent_times;
use echelon_sim_mesos::{AgentId, AgentSpec, Tasks};
use std::collections::BTreeSet;

/// When jobs come, and when the first agent is gone.
const FIRST: Span = Span::seconds(30);
const GONE: Span = Span::seconds(90);
/// For how long a job waits that says so.
const PATIENCE: Span = Span::seconds(40);
/// From the registration of the new agent to the moment when it is known: a list each minute, and what it
/// takes.
const LISTED: Span = Span::seconds(75);
/// From the end of a wait to the moment when all runs elsewhere: what new leaders lose, and the launch.
const BACK_WITHIN: Span = Span::minutes(4);
/// What questions take that no agent answers, of up to three leaders.
const UNANSWERED: Span = Span::minutes(18);

/// What came of a world in which agents were gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneAgents {
    /// Instances that ran there and began elsewhere.
    pub replaced: u64,
    /// How long executors waited for their agents; none where no agent has told.
    pub recovery: Option<Span>,
    /// How the world ended.
    pub outcome: Outcome,
}

/// Jobs by what they say.
struct GoneJobs {
    /// Nothing.
    usual: JobId,
    /// To be replaced after `PATIENCE`.
    impatient: JobId,
    /// To wait for an operator.
    waiting: JobId,
}

/// A service of which nothing is given up by silence alone.
fn service(name: &str, instances: u32, on_gone: Option<OnSilence>) -> JobSpec {
    let mut spec = JobBuilder::service(name, instances).build();
    spec.on_unreachable = OnSilence::Wait;
    spec.on_gone = on_gone;
    spec
}

impl ClusterWorld {
    /// What the agent at an address tells of its flags.
    pub(crate) fn flags_at(&self, address: &str) -> Option<AgentTimes> {
        let (ip, port) = address.rsplit_once(':')?;
        let agent = self.mesos.agent_at(ip, port.parse().ok()?)?;
        self.times_of(agent).filter(|_| !self.hides_flags)
    }

    fn times_of(&self, agent: &AgentId) -> Option<AgentTimes> {
        let flags = self.mesos.get_agent_flags(agent)?.get_flags?;
        Some(agent_times(&flags))
    }
}

impl World {
    /// Whether an instance may have a run beside one at this agent: its job lets it be replaced, however long
    /// executors live, and the agent was gone for long enough.
    pub(crate) fn is_gone_to(&self, instance: &InstanceId, agent: &str) -> bool {
        let Some(since) = self.gone.get(agent) else {
            return false;
        };
        let specs = self.users.0.iter().filter(|user| user.job == Some(instance.job));
        let mut waits = specs.filter_map(|user| match user.spec.on_gone? {
            OnSilence::Replace(after) => Some(after),
            OnSilence::Wait => None,
        });
        waits.next().is_some_and(|after| self.now.since(*since) >= after)
    }

    /// Plays a world in which two agents are gone.
    #[must_use]
    pub fn gone(seed: u64, options: Options) -> GoneAgents {
        let mut world = Self::new(seed, options);
        for spec in [
            service("usual", 6, None),
            service("impatient", 4, Some(OnSilence::Replace(PATIENCE))),
            service("waiting", 4, Some(OnSilence::Wait)),
        ] {
            let user = world.users.0.len();
            world.users.0.push(User::new(spec, [Asked::Create]));
            world.queue.plan(BEGIN.plus(FIRST), Item::User(user));
        }
        let from = BEGIN.plus(GONE);
        world.run_until(from);
        let first = world.clusters.first();
        let agents: Vec<AgentId> = first.iter().flat_map(|c| c.mesos.agent_ids()).cloned().collect();
        let times = first.zip(agents.first()).and_then(|(c, agent)| c.times_of(agent));
        let recovery = times.and_then(|times| times.recovery);
        let jobs: Vec<JobId> = world.users.0.iter().filter_map(|user| user.job).collect();
        let one = world.dice.silences.index(agents.len());
        let step = 1 + world.dice.silences.index(agents.len().saturating_sub(1));
        let other = (one + step) % agents.len().max(1);
        let mut replaced = 0;
        if let ([usual, impatient, waiting], Some(marked), Some(old), Some(recovery)) =
            (&jobs[..], agents.get(one), agents.get(other), recovery)
        {
            let jobs = GoneJobs {
                usual: *usual,
                impatient: *impatient,
                waiting: *waiting,
            };
            world.plan_deaths_of_shards(from, recovery);
            replaced += world.judge_marked(&jobs, marked);
            replaced += world.judge_replaced(&jobs, old, recovery);
        } else {
            world.note_gone("the jobs were not created, or an agent tells no flags".to_owned());
        }
        world.judge_end();
        GoneAgents {
            replaced,
            recovery,
            outcome: world.outcome(),
        }
    }

    /// Leaders of the shard that die while agents are gone.
    fn plan_deaths_of_shards(&mut self, from: Timestamp, span: Span) {
        for index in 0..self.options.shards {
            if self.dice.silences.chance(400) {
                let when = from.plus(self.dice.silences.span(Span::ZERO, Span(span.0 + PATIENCE.0)));
                let away = self.dice.silences.span(Span::millis(100), Span::seconds(5));
                let who = Who::Shard { cluster: 0, index };
                self.queue.plan(when, Item::Fault(Fault::Crash(who, away)));
            }
        }
    }

    fn note_gone(&mut self, what: String) {
        self.broken.push(Broken { invariant: 1, what });
    }

    /// The instances of a job that live on an agent, or on any other one.
    fn instances_at(&self, job: JobId, is_meant: impl Fn(&AgentId) -> bool) -> BTreeSet<InstanceId> {
        let tasks = self.clusters.iter().flat_map(|c| c.mesos.live_tasks());
        let there = tasks.filter(|(agent, _)| is_meant(agent));
        let members = there.filter_map(|(_, task)| task.as_str().parse::<MemberId>().ok());
        let instances = members.map(|member| member.run.instance);
        instances.filter(|instance| instance.job == job).collect()
    }

    /// All of these live on other agents by a moment.
    fn judge_back(&mut self, gone: &AgentId, all: &BTreeSet<InstanceId>, until: Timestamp) {
        self.run_until(until);
        for instance in all {
            let elsewhere = self.instances_at(instance.job, |agent| agent != gone);
            if !elsewhere.contains(instance) {
                self.note_gone(format!("{instance} of {gone} is not back"));
            }
        }
    }

    /// An operator marks an agent as gone that is connected: it ends its executors. How many instances ran
    /// there.
    fn judge_marked(&mut self, jobs: &GoneJobs, agent: &AgentId) -> u64 {
        let there = |world: &Self, job| world.instances_at(job, |of| of == agent);
        let mut soon = there(self, jobs.usual);
        soon.extend(there(self, jobs.waiting));
        let late = there(self, jobs.impatient);
        let now = self.now;
        self.gone.insert(agent.as_str().to_owned(), now);
        if let Some(c) = self.clusters.first_mut() {
            c.mesos.mark_agent_gone(agent, now);
        }
        self.flush_mesos(0);
        self.judge_back(agent, &soon, now.plus(GONE_MARGIN).plus(BACK_WITHIN));
        self.judge_back(agent, &late, now.plus(PATIENCE).plus(BACK_WITHIN));
        (soon.len() + late.len()) as u64
    }

    /// An agent's process ends, and its tasks with it or not. A new one takes its address. How many instances
    /// came back.
    fn judge_replaced(&mut self, jobs: &GoneJobs, old: &AgentId, recovery: Span) -> u64 {
        let there = |world: &Self, job| world.instances_at(job, |of| of == old);
        let usual = there(self, jobs.usual);
        let impatient = there(self, jobs.impatient);
        let waiting = there(self, jobs.waiting);
        let dies = self.dice.silences.chance(300);
        let soon = self.dice.silences.chance(500);
        let is_hidden = recovery <= RECOVERY_TIMEOUT && self.dice.silences.chance(250);
        let now = self.now;
        self.gone.insert(old.as_str().to_owned(), now);
        let mut spec = None;
        if let Some(c) = self.clusters.first_mut() {
            c.hides_flags = is_hidden;
            spec = spec_of(c, old);
            let tasks = if dies { Tasks::Die } else { Tasks::Live };
            c.mesos.stop_agent(old, tasks, now);
        }
        self.flush_mesos(0);
        // Before or after the master has given it up.
        let away = if soon {
            self.dice.silences.span(Span::seconds(5), Span::seconds(60))
        } else {
            self.dice.silences.span(Span::seconds(80), Span::seconds(140))
        };
        self.run_until(now.plus(away));
        let registered = self.now;
        if let (Some(c), Some(spec)) = (self.clusters.first_mut(), spec) {
            c.mesos.add_agent(spec, registered);
        }
        self.flush_mesos(0);
        let known = registered.plus(LISTED);
        self.judge_back(old, &impatient, known.plus(PATIENCE).plus(BACK_WITHIN));
        let (waits, questions) = if is_hidden {
            (RECOVERY_TIMEOUT, UNANSWERED)
        } else {
            (recovery, Span::ZERO)
        };
        let ended = known.plus(waits).plus(GONE_MARGIN).plus(questions);
        self.judge_back(old, &usual, ended.plus(BACK_WITHIN));
        let begun = self.instances_at(jobs.waiting, |agent| agent != old);
        let early = waiting.intersection(&begun).count();
        if early > 0 {
            self.note_gone(format!(
                "{early} instances that wait for an operator were replaced"
            ));
        }
        self.forget_host(old);
        let now = self.now;
        self.judge_back(old, &waiting, now.plus(BACK_WITHIN));
        (usual.len() + impatient.len() + waiting.len()) as u64
    }

    /// An operator says that a host never returns, as `echelon host forget` does.
    fn forget_host(&mut self, host: &AgentId) {
        let id = self.cluster_id(0);
        let (Answer::Clusters(clusters), Answer::Shard(row)) = (
            self.store.read(&Query::Clusters),
            self.store.read(&Query::Shard(id.clone())),
        ) else {
            return;
        };
        let Some(mut cluster) = clusters.into_iter().find(|c| c.id == id) else {
            return;
        };
        let expected = Some(cluster.version);
        cluster.version = cluster.version.next();
        let forgotten: &mut ForgottenHosts = &mut cluster.forgotten;
        forgotten.name(host.as_str(), row.observed);
        self.store
            .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
    }
}

/// What an agent was started with.
fn spec_of(cluster: &ClusterWorld, agent: &AgentId) -> Option<AgentSpec> {
    let view = cluster.mesos.get_agents().get_agents?;
    let mut infos = view.agents.into_iter().map(|listed| listed.agent_info);
    let info = infos.find(|info| info.id.as_ref().is_some_and(|id| id.value == agent.as_str()))?;
    cluster.mesos.agent_spec(&info.hostname).cloned()
}
