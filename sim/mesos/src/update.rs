//! Status updates on their way: the agent keeps them in order and sends the first until it is acknowledged, the master
//! passes it on and draws its conclusions (rules R93 to R98, S13, S14).

use crate::agent::{AgentTask, Update};
use crate::cluster::Cluster;
use crate::containment::Containment;
use crate::event;
use crate::framework::is_terminal;
use crate::id::{FrameworkId, Run, TaskId};
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::task_status::Source;
use echelon_proto::mesos::v1::{self, TaskState, TaskStatus};

use std::collections::VecDeque;

/// The first gap before an update is sent again.
pub(crate) const FIRST_GAP: Span = Span::seconds(10);

/// The longest.
pub(crate) const LAST_GAP: Span = Span::minutes(10);

impl Cluster {
    /// The agent takes an update from an executor, or makes one.
    pub(crate) fn enqueue(&mut self, run: &Run, update: Update, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        task.state = update.state;
        task.updates.push_back(update);
        let first = task.updates.len() == 1;
        self.touch(run);
        if first {
            self.send_first(run, FIRST_GAP, now);
        }
    }

    pub(crate) fn retry(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let Some((at, gap)) = task.retry else { return };
        if at <= now {
            self.send_first(run, Span(gap.0.saturating_mul(2)).min(LAST_GAP), now);
        }
    }

    /// Sends the oldest update of a task again and starts its gaps anew (rule R94).
    pub(crate) fn resume_task(&mut self, run: &Run, now: Timestamp) {
        self.send_first(run, FIRST_GAP, now);
    }

    /// Agents hear of a framework's new subscription and send its oldest updates again (rule R28).
    pub(crate) fn resume_updates(&mut self, framework: &FrameworkId, now: Timestamp) {
        let agents: Vec<_> = self
            .agents
            .keys()
            .filter(|agent| self.talks_to(agent))
            .cloned()
            .collect();
        for id in agents {
            let Some(agent) = self.agents.get(&id) else {
                continue;
            };
            let waiting = agent
                .tasks
                .iter()
                .filter(|((of, _), task)| of == framework && !task.updates.is_empty());
            let runs: Vec<Run> = waiting
                .map(|((of, name), task)| run_of(&id, of, name, task))
                .collect();
            for run in runs {
                self.resume_task(&run, now);
            }
        }
    }

    fn send_first(&mut self, run: &Run, gap: Span, now: Timestamp) {
        self.stop_retrying(run);
        if !self.agents.get(&run.agent).is_some_and(|agent| agent.up) {
            return;
        }
        let Some(task) = self.agent_task(run) else { return };
        let Some(update) = task.updates.front().cloned() else {
            return;
        };
        let at = now.plus(gap);
        task.retry = Some((at, gap));
        let sender = Sender::of(&run.task, task);
        self.timers.set(at, Timer::Retry(run.clone()));
        if self.talks_to(&run.agent) {
            self.receive(run, &update, &sender, now);
        }
    }

    fn stop_retrying(&mut self, run: &Run) {
        let retry = self.agent_task(run).and_then(|task| task.retry.take());
        if let Some((at, _)) = retry {
            self.timers.cancel(at, Timer::Retry(run.clone()));
        }
    }

    /// The master takes an update. The latest state rides on it, and with a terminal one the resources are free, whatever
    /// the framework has acknowledged (rule R97).
    fn receive(&mut self, run: &Run, update: &Update, sender: &Sender, now: Timestamp) {
        let Some(framework) = self.master.frameworks.get_mut(&run.framework) else {
            return;
        };
        if let Some(task) = framework
            .tasks
            .get_mut(&run.task)
            .filter(|task| task.agent == run.agent)
        {
            task.state = sender.latest;
            task.forwarded = update.state;
            task.uuid = Some(update.uuid);
            task.container = sender.containment.or(task.container);
        }
        if is_terminal(sender.latest) {
            self.free(&run.framework, &run.task, now);
        }
        let status = self.status(run, update, sender);
        self.send(&run.framework, event::update(status));
    }

    /// Gives a task's resources back to its agent, once.
    pub(crate) fn free(&mut self, framework: &FrameworkId, id: &TaskId, now: Timestamp) {
        let Some(known) = self.master.frameworks.get_mut(framework) else {
            return;
        };
        let Some(task) = known.tasks.get_mut(id).filter(|task| !task.freed) else {
            return;
        };
        task.freed = true;
        let (agent, role, resources) = (task.agent.clone(), task.role.clone(), task.resources.clone());
        known.discharge(&role, &resources);
        if let Some(member) = self.master.members.get_mut(&agent) {
            member.free.add(&resources);
        }
        self.want_allocation(now);
    }

    pub(crate) fn acknowledge(&mut self, framework: &FrameworkId, call: &call::Acknowledge, now: Timestamp) {
        let (agent, task) = (
            crate::id::AgentId::from(&call.agent_id),
            TaskId::from(&call.task_id),
        );
        if !self.talks_to(&agent) {
            return;
        }
        let key = (framework.clone(), task.clone());
        let Some(waiting) = self
            .agents
            .get_mut(&agent)
            .and_then(|agent| agent.tasks.get_mut(&key))
        else {
            return;
        };
        if waiting
            .updates
            .front()
            .is_none_or(|update| update.uuid.as_slice() != call.uuid)
        {
            return;
        }
        let ended = waiting
            .updates
            .pop_front()
            .is_some_and(|update| is_terminal(update.state));
        if waiting.updates.is_empty() {
            // Of a million tasks that run, few have an update to send: keep no room for it.
            waiting.updates = VecDeque::new();
        }
        let run = run_of(&agent, framework, &task, waiting);
        self.touch(&run);
        if ended {
            self.stop_retrying(&run);
            self.forget(&run, now);
        } else {
            self.send_first(&run, FIRST_GAP, now);
        }
    }

    /// A task whose end is acknowledged leaves both memories (rule R98).
    fn forget(&mut self, run: &Run, now: Timestamp) {
        self.free(&run.framework, &run.task, now);
        let key = (run.framework.clone(), run.task.clone());
        if let Some(agent) = self.agents.get_mut(&run.agent) {
            agent.tasks.remove(&key);
        }
        if let Some(member) = self.master.members.get_mut(&run.agent) {
            member.tasks.remove(&key);
            member.kills.remove(&key);
        }
        if let Some(framework) = self.master.frameworks.get_mut(&run.framework) {
            framework.tasks.remove(&run.task);
        }
        self.drained(&run.agent, now);
    }

    fn status(&self, run: &Run, update: &Update, sender: &Sender) -> TaskStatus {
        let at = sender.containment.filter(|_| update.source == Source::Executor);
        let at = at.map(|at| at.when(update.state));
        let extra = update.extra.as_deref().cloned().unwrap_or_default();
        TaskStatus {
            data: extra.data,
            healthy: extra.healthy,
            check_status: extra.check_status,
            labels: extra.labels,
            task_id: run.task.proto(),
            state: update.state.into(),
            message: update.message.clone(),
            source: Some(update.source.into()),
            reason: update.reason.map(Into::into),
            agent_id: Some(run.agent.proto()),
            executor_id: Some(sender.executor.clone()),
            timestamp: Some(event::seconds(update.at)),
            uuid: Some(update.uuid.to_vec()),
            container_status: at.map(|at| self.container_status(&run.agent, &at)),
            ..Default::default()
        }
    }
}

/// What rides on every update of a task.
struct Sender {
    latest: TaskState,
    executor: v1::ExecutorId,
    containment: Option<Containment>,
}

impl Sender {
    fn of(id: &TaskId, task: &AgentTask) -> Self {
        Self {
            latest: task.state,
            executor: executor_of(id, task),
            containment: Containment::of(task),
        }
    }
}

/// The executor of a task: one that it shares, or its own, which has its name (rule R75).
pub(crate) fn executor_of(id: &TaskId, task: &AgentTask) -> v1::ExecutorId {
    let own = || v1::ExecutorId {
        value: id.to_string(),
    };
    task.place
        .as_ref()
        .map_or_else(own, |place| place.executor.proto())
}

pub(crate) fn run_of(
    agent: &crate::id::AgentId,
    framework: &FrameworkId,
    task: &TaskId,
    at: &AgentTask,
) -> Run {
    Run {
        agent: agent.clone(),
        framework: framework.clone(),
        task: task.clone(),
        container: at.container,
    }
}
