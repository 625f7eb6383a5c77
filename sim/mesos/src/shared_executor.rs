//! Executors that live on for several tasks: default ones, which run groups, and custom ones, which are programs of the
//! framework's own. Master and agent each know of them; their resources count once (rules R81 to R84, R119, S21).

use crate::accept::Remainder;
use crate::agent::{ExecutorKey, Phase, TaskKey};
use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::event;
use crate::executor::Exit;
use crate::executor_info::{completed, incompatible};
use crate::id::{AgentId, Container, ExecutorId, ExecutorRun, FrameworkId, Run};
use crate::output::Output;
use crate::store::StoreKey;
use crate::timers::Timer;
use crate::update::run_of;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::{ExecutorInfo, executor_info};
use std::sync::Arc;

/// How long a default executor takes to end once it has no tasks.
const ENDING: Span = Span::millis(100);

/// An executor as both master and agent know it.
#[derive(Debug, Clone)]
pub(crate) struct SharedExecutor {
    pub info: Arc<ExecutorInfo>,
    pub role: Arc<str>,
    pub resources: Bundle,
}

/// An executor on its agent.
#[derive(Debug)]
pub(crate) struct AgentExecutor {
    pub shared: SharedExecutor,
    pub container: Container,
    /// Groups that it has got, to tell them apart.
    pub n_groups: u64,
    /// The framework wants it to end.
    pub shutting_down: bool,
}

/// Where a task of a shared executor belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub executor: ExecutorId,
    /// The executor's.
    pub container: Container,
    /// The group that lives and dies together; `None` where the executor is a custom one.
    pub group: Option<u64>,
}

impl Place {
    pub(crate) const fn is_custom(&self) -> bool {
        self.group.is_none()
    }
}

impl SharedExecutor {
    pub(crate) fn id(&self) -> ExecutorId {
        ExecutorId::from(&self.info.executor_id)
    }

    fn is_default(&self) -> bool {
        self.info.r#type() == executor_info::Type::Default
    }
}

impl Cluster {
    /// What an executor needs beside its tasks: nothing where it is known already, and then it must be the same.
    pub(crate) fn executor_needs(
        &self,
        framework: &FrameworkId,
        info: &ExecutorInfo,
        rest: &Remainder,
    ) -> Result<Bundle, String> {
        let info = completed(info, framework, &rest.role);
        let key = (framework.clone(), ExecutorId::from(&info.executor_id));
        let member = self.master.members.get(&rest.agent);
        match member.and_then(|member| member.executors.get(&key)) {
            Some(known) if *known.info == info => Ok(Bundle::default()),
            Some(known) => Err(incompatible(&known.info, &info)),
            None => Bundle::read(&info.resources),
        }
    }

    /// The master counts an executor from its first tasks on, and the agent starts it. `None` where the agent is out of
    /// reach; `in_group` when the tasks to come are a group.
    pub(crate) fn seat(
        &mut self,
        framework: &FrameworkId,
        info: &ExecutorInfo,
        rest: &mut Remainder,
        in_group: bool,
    ) -> Option<Arc<Place>> {
        let info = completed(info, framework, &rest.role);
        let shared = SharedExecutor {
            resources: Bundle::read(&info.resources).unwrap_or_default(),
            role: rest.role.clone(),
            info: Arc::new(info),
        };
        let key = (framework.clone(), shared.id());
        let member = self.master.members.get(&rest.agent)?;
        if !member.executors.contains_key(&key) {
            rest.resources.subtract(&shared.resources);
            self.track_executor(&rest.agent, key.clone(), shared.clone());
        }
        if !self.talks_to(&rest.agent) {
            return None;
        }
        let container = Container(self.random.uuid());
        self.dirty.insert(StoreKey::Agent(rest.agent.clone()));
        let agent = self.agents.get_mut(&rest.agent)?;
        let executor = agent.executors.entry(key.clone()).or_insert(AgentExecutor {
            shared,
            container,
            n_groups: 0,
            shutting_down: false,
        });
        let group = in_group.then_some(executor.n_groups);
        executor.n_groups = executor.n_groups.saturating_add(u64::from(in_group));
        Some(Arc::new(Place {
            executor: key.1,
            container: executor.container,
            group,
        }))
    }

    fn track_executor(&mut self, agent: &AgentId, key: ExecutorKey, shared: SharedExecutor) {
        if let Some(framework) = self.master.frameworks.get_mut(&key.0) {
            framework.charge(&shared.role, &shared.resources);
        }
        if let Some(member) = self.master.members.get_mut(agent) {
            member.free.subtract(&shared.resources);
            member.executors.insert(key, shared);
        }
    }

    /// The master gives an executor's resources back. False when it did not count any.
    fn untrack_executor(&mut self, agent: &AgentId, key: &ExecutorKey) -> bool {
        let Some(member) = self.master.members.get_mut(agent) else {
            return false;
        };
        let Some(shared) = member.executors.remove(key) else {
            return false;
        };
        member.free.add(&shared.resources);
        if let Some(framework) = self.master.frameworks.get_mut(&key.0) {
            framework.discharge(&shared.role, &shared.resources);
        }
        true
    }

    /// The master forgets executors of an agent: those of one framework, or all.
    pub(crate) fn untrack_executors(&mut self, agent: &AgentId, framework: Option<&FrameworkId>) {
        let Some(member) = self.master.members.get(agent) else {
            return;
        };
        let of = |key: &&ExecutorKey| framework.is_none_or(|framework| key.0 == *framework);
        let doomed: Vec<ExecutorKey> = member.executors.keys().filter(of).cloned().collect();
        for key in doomed {
            self.untrack_executor(agent, &key);
        }
    }

    /// An agent that registers says which executors it has; others that the master counted are no more.
    pub(crate) fn report_executors(&mut self, id: &AgentId) {
        let (Some(agent), Some(member)) = (self.agents.get(id), self.master.members.get(id)) else {
            return;
        };
        let there = agent.executors.iter();
        let new: Vec<(ExecutorKey, SharedExecutor)> = there
            .filter(|(key, _)| !member.executors.contains_key(*key))
            .map(|(key, one)| (key.clone(), one.shared.clone()))
            .collect();
        let counted = member.executors.keys();
        let over: Vec<ExecutorKey> = counted
            .filter(|key| !agent.executors.contains_key(*key))
            .cloned()
            .collect();
        for key in over {
            self.untrack_executor(id, &key);
        }
        for (key, shared) in new {
            self.track_executor(id, key, shared);
        }
    }

    /// SHUTDOWN: a default executor kills its tasks and ends, a custom one is asked to (rule R46).
    pub(crate) fn shut_executor_down(
        &mut self,
        framework: &FrameworkId,
        call: &call::Shutdown,
        now: Timestamp,
    ) {
        let agent = AgentId::from(&call.agent_id);
        let key = (framework.clone(), ExecutorId::from(&call.executor_id));
        let Some(executor) = self.executor_run(&agent, &key).filter(|_| self.talks_to(&agent)) else {
            return;
        };
        let Some(known) = self
            .agents
            .get_mut(&agent)
            .and_then(|a| a.executors.get_mut(&key))
        else {
            return;
        };
        known.shutting_down = true;
        if !known.shared.is_default() && matches!(self.config.executors, Executors::External) {
            self.out.push(Output::Shutdown(executor));
            return;
        }
        for run in self.live_in(&executor) {
            self.kill_at_agent(&agent, &(run.framework, run.task), None, now);
        }
        self.rest_executor(&executor, now);
    }

    /// MESSAGE to a custom executor; to anybody else it is lost (rule R51).
    pub(crate) fn message_executor(&mut self, framework: &FrameworkId, call: &call::Message) {
        let agent = AgentId::from(&call.agent_id);
        let key = (framework.clone(), ExecutorId::from(&call.executor_id));
        let Some(executor) = self.executor_run(&agent, &key).filter(|_| self.talks_to(&agent)) else {
            return;
        };
        if matches!(self.config.executors, Executors::External) {
            let data = call.data.clone();
            self.out.push(Output::Message { executor, data });
        }
    }

    /// A custom executor sends its framework a message.
    pub fn executor_message(&mut self, executor: &ExecutorRun, data: Vec<u8>) {
        if self.is_current(executor) && self.talks_to(&executor.agent) {
            self.send(&executor.framework, event::message(executor, data));
        }
    }

    /// Reports that an executor has ended, with what wait(2) gave. Tasks that it had die with it.
    pub fn executor_exited(&mut self, executor: &ExecutorRun, status: i32, now: Timestamp) {
        if !self.is_current(executor) {
            return;
        }
        let orphans = self.live_in(executor);
        let key = (executor.framework.clone(), executor.executor.clone());
        if let Some(agent) = self.agents.get_mut(&executor.agent) {
            agent.executors.remove(&key);
        }
        self.dirty.insert(StoreKey::Agent(executor.agent.clone()));
        // Else the master hears of it when the agent registers.
        if self.talks_to(&executor.agent) {
            self.untrack_executor(&executor.agent, &key);
            self.send(&executor.framework, event::executor_failure(executor, status));
            self.want_allocation(now);
        }
        for run in orphans {
            self.exited(&run, &Exit::Lost, now);
        }
    }

    /// A task of a shared executor is over: its group dies with it unless it ended well, and an executor without tasks
    /// ends (rule R83).
    pub(crate) fn leave_executor(&mut self, run: &Run, place: &Place, good: bool, now: Timestamp) {
        let executor = ExecutorRun {
            agent: run.agent.clone(),
            framework: run.framework.clone(),
            executor: place.executor.clone(),
            container: place.container,
        };
        if !self.is_current(&executor) {
            return;
        }
        if !good && place.group.is_some() {
            for other in self.live_in(&executor) {
                let same_group = self
                    .agent_task(&other)
                    .is_some_and(|task| task.place.as_ref().is_some_and(|of| of.group == place.group));
                if same_group {
                    self.kill_at_agent(&run.agent, &(other.framework, other.task), None, now);
                }
            }
        }
        self.rest_executor(&executor, now);
    }

    /// An executor that has no tasks left ends in a moment; a custom one only when it is asked to.
    fn rest_executor(&mut self, executor: &ExecutorRun, now: Timestamp) {
        let key = (executor.framework.clone(), executor.executor.clone());
        let agent = self.agents.get(&executor.agent);
        let known = agent.and_then(|agent| agent.executors.get(&key));
        let ends = known.is_some_and(|known| known.shared.is_default() || known.shutting_down);
        let told = matches!(self.config.executors, Executors::External)
            && known.is_some_and(|known| !known.shared.is_default());
        if ends && !told && self.live_in(executor).is_empty() {
            self.timers
                .set(now.plus(ENDING), Timer::ExecutorEnd(executor.clone()));
        }
    }

    pub(crate) fn end_idle_executor(&mut self, executor: &ExecutorRun, now: Timestamp) {
        if self.live_in(executor).is_empty() {
            self.executor_exited(executor, 0, now);
        }
    }

    pub(crate) fn executor_run(&self, agent: &AgentId, key: &ExecutorKey) -> Option<ExecutorRun> {
        let known = self.agents.get(agent)?.executors.get(key)?;
        Some(ExecutorRun {
            agent: agent.clone(),
            framework: key.0.clone(),
            executor: key.1.clone(),
            container: known.container,
        })
    }

    fn is_current(&self, executor: &ExecutorRun) -> bool {
        let key = (executor.framework.clone(), executor.executor.clone());
        self.executor_run(&executor.agent, &key).as_ref() == Some(executor)
    }

    /// The runs of an executor that are not over.
    fn live_in(&self, executor: &ExecutorRun) -> Vec<Run> {
        let Some(agent) = self.agents.get(&executor.agent) else {
            return Vec::new();
        };
        let of_executor = agent.tasks.iter().filter(|((framework, _), task)| {
            let place = task.place.as_ref();
            *framework == executor.framework
                && place.is_some_and(|place| place.container == executor.container)
                && !matches!(task.phase, Phase::Ended | Phase::Lost)
        });
        of_executor
            .map(|((framework, name), task): (&TaskKey, _)| run_of(&executor.agent, framework, name, task))
            .collect()
    }
}
