//! Agents that come and go: killed, cut off, back in time, given up, marked gone (section 9 of the rules, S17 to S19).

use crate::agent::{Agent, Contact, Phase};
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::event;
use crate::executor::Exit;
use crate::framework::{Silent, Task};
use crate::id::{AgentId, ExecutorId, FrameworkId, Run, TaskId};
use crate::output::Output;
use crate::reconcile::time_info;
use crate::store::StoreKey;
use crate::timers::Timer;
use crate::update::run_of;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{TaskState, TaskStatus};

/// What becomes of an agent's tasks when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// They live on: executors wait for the agent to come back.
    Live,
    /// They die with it: the machine is down.
    Die,
}

impl Cluster {
    /// An agent's process dies; its connection breaks, which the master sees at once (rule R111). False when there is no
    /// such agent.
    pub fn stop_agent(&mut self, id: &AgentId, tasks: Tasks, now: Timestamp) -> bool {
        let Some(agent) = self.agents.get_mut(id) else {
            return false;
        };
        agent.up = false;
        agent.stopped_at = (tasks == Tasks::Live).then(|| agent.stopped_at.unwrap_or(now));
        if tasks == Tasks::Die {
            for task in agent.tasks.values_mut().filter(|task| task.phase != Phase::Ended) {
                task.phase = Phase::Lost;
            }
        }
        if tasks == Tasks::Die {
            agent.executors.clear();
        }
        self.lose_unchecked(id);
        if self.contact(id) == Some(Contact::Connected)
            && self.agents.get(id).is_some_and(|agent| agent.linked)
        {
            self.disconnect(id, now);
        }
        self.timers.set(
            now.plus(self.config.agent_timeout),
            Timer::AgentTimeout(id.clone()),
        );
        if tasks == Tasks::Live {
            self.await_executors(id, self.config.recovery_timeout, now);
        }
        true
    }

    /// What is not checkpointed dies with the agent's process and is forgotten (rule R36).
    fn lose_unchecked(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let unchecked = agent.frameworks.iter().filter(|(_, info)| !info.checkpoint());
        let frameworks: Vec<FrameworkId> = unchecked.map(|(framework, _)| framework.clone()).collect();
        for framework in frameworks {
            self.drop_framework(id, &framework);
        }
    }

    /// An agent's process starts again with its work folder, finds its tasks, and registers. False when there is no such
    /// agent.
    pub fn start_agent(&mut self, id: &AgentId, now: Timestamp) -> bool {
        let Some(agent) = self.agents.get_mut(id) else {
            return false;
        };
        let lost: Vec<Run> = agent
            .tasks
            .iter()
            .filter(|(_, task)| task.phase == Phase::Lost)
            .map(|((framework, name), task)| run_of(id, framework, name, task))
            .collect();
        for run in lost {
            self.exited(&run, &Exit::Lost, now);
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.up = true;
            agent.stopped_at = None;
        }
        self.repeat_kills(id);
        self.reregister(id, now);
        true
    }

    /// Whether an executor had its KILL before the agent died is not known: it gets another.
    fn repeat_kills(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let killing = agent
            .tasks
            .iter()
            .filter(|(_, task)| task.phase == Phase::Killing);
        let repeated = killing.map(|((framework, name), task)| Output::Kill {
            run: run_of(id, framework, name, task),
            grace: task.grace,
        });
        if matches!(self.config.executors, Executors::External) {
            self.out.extend(repeated);
        }
    }

    /// The network between an agent and the master goes silent: nothing breaks, nothing arrives.
    pub fn cut_agent(&mut self, id: &AgentId, now: Timestamp) -> bool {
        let Some(agent) = self.agents.get_mut(id) else {
            return false;
        };
        agent.linked = false;
        self.timers.set(
            now.plus(self.config.agent_timeout),
            Timer::AgentTimeout(id.clone()),
        );
        true
    }

    /// The network is whole again; the agent registers.
    pub fn heal_agent(&mut self, id: &AgentId, now: Timestamp) -> bool {
        let Some(agent) = self.agents.get_mut(id) else {
            return false;
        };
        agent.linked = true;
        self.reregister(id, now);
        true
    }

    /// An operator says that an agent will never return (S19). False when the master does not know it.
    pub fn mark_agent_gone(&mut self, id: &AgentId, now: Timestamp) -> bool {
        let Some(contact) = self.contact(id) else {
            return false;
        };
        if contact == Contact::Gone {
            return true;
        }
        self.give_up(id, None, "Agent has been marked gone", now);
        let is_told = self.agents.get(id).is_some_and(Agent::is_reachable);
        if is_told && matches!(self.config.executors, Executors::Virtual(_)) {
            self.end_agent(id, now);
        } else {
            self.shut_agent_down(id);
        }
        true
    }

    /// An agent that is marked gone must end, with everything on it.
    pub(crate) fn shut_agent_down(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get_mut(id) else {
            return;
        };
        agent.up = false;
        let frameworks: Vec<FrameworkId> = agent.frameworks.keys().cloned().collect();
        for framework in frameworks {
            self.drop_framework(id, &framework);
        }
        self.dirty.insert(StoreKey::Agent(id.clone()));
    }

    /// The connection to an agent broke: its offers go, and tasks of frameworks that do not checkpoint (rules R36, R111).
    fn disconnect(&mut self, id: &AgentId, now: Timestamp) {
        self.set_contact(id, Contact::Disconnected);
        self.rescind_agent(id);
        let host = self
            .agents
            .get(id)
            .map(|agent| agent.spec.hostname.clone())
            .unwrap_or_default();
        for (framework, task) in self.tasks_on(id) {
            let known = self.master.frameworks.get(&framework);
            if known.is_some_and(|known| !known.info.checkpoint()) {
                let words = format!("Agent {host} disconnected");
                let executor = self.untrack(&framework, &task).and_then(|known| known.executor);
                let lost = (Reason::AgentDisconnected, &*words, now);
                let status = lost_status(&task, (id, executor), TaskState::TaskLost, lost);
                self.send(&framework, event::update(status));
            }
        }
        let frameworks = self.master.frameworks.values();
        let unchecked = frameworks.filter(|known| !known.info.checkpoint());
        for framework in unchecked.map(|known| known.id.clone()).collect::<Vec<_>>() {
            self.untrack_executors(id, Some(&framework));
        }
    }

    pub(crate) fn agent_timed_out(&mut self, id: &AgentId, now: Timestamp) {
        let registered = self.contact(id).is_some_and(Contact::is_registered);
        let away = self.agents.get(id).is_some_and(|agent| !agent.is_reachable());
        if registered && away && self.master.leadership == crate::cluster::Leadership::Leads {
            self.give_up(id, Some(now), "health check timed out", now);
        }
    }

    /// Gives an agent up: unreachable since a moment, or gone for good.
    fn give_up(&mut self, id: &AgentId, since: Option<Timestamp>, words: &str, now: Timestamp) {
        let was_registered = self.contact(id).is_some_and(Contact::is_registered);
        self.set_contact(id, since.map_or(Contact::Gone, Contact::Unreachable));
        for (framework, task) in self.tasks_on(id) {
            let executor = self.untrack(&framework, &task).and_then(|known| known.executor);
            let silent = Silent {
                agent: id.clone(),
                executor,
            };
            self.tell_lost(&framework, &task, &silent, (since, words, now));
            if since.is_some()
                && let Some(known) = self.master.frameworks.get_mut(&framework)
            {
                known.unreachable.insert(task, silent);
            }
        }
        self.untrack_executors(id, None);
        if since.is_none() {
            self.tell_unreachable_gone(id, words, now);
        }
        self.forget_operations(id);
        self.rescind_agent(id);
        self.rescind_inverse_of(id);
        if was_registered {
            self.tell_failure(id);
        }
    }

    fn tell_lost(
        &mut self,
        framework: &FrameworkId,
        task: &TaskId,
        silent: &Silent,
        (since, words, now): (Option<Timestamp>, &str, Timestamp),
    ) {
        let Some(known) = self.master.frameworks.get(framework) else {
            return;
        };
        let (state, reason) = match since {
            Some(_) => (TaskState::TaskUnreachable, Reason::AgentRemoved),
            None => (TaskState::TaskGoneByOperator, Reason::AgentRemovedByOperator),
        };
        let told = known.or_lost(state);
        let reason = if told == state {
            reason
        } else {
            Reason::AgentRemoved
        };
        let from = (&silent.agent, silent.executor.clone());
        let mut status = lost_status(task, from, told, (reason, words, now));
        status.unreachable_time = since.map(time_info);
        self.send(framework, event::update(status));
    }

    /// Tasks that were unreachable are gone with their agent.
    fn tell_unreachable_gone(&mut self, id: &AgentId, words: &str, now: Timestamp) {
        let mut gone: Vec<(FrameworkId, TaskId, Silent)> = Vec::new();
        for (framework, known) in &mut self.master.frameworks {
            let theirs = known.unreachable.iter().filter(|(_, silent)| silent.agent == *id);
            gone.extend(theirs.map(|(task, silent)| (framework.clone(), task.clone(), silent.clone())));
            known.unreachable.retain(|_, silent| silent.agent != *id);
        }
        for (framework, task, silent) in gone {
            self.tell_lost(&framework, &task, &silent, (None, words, now));
        }
    }

    pub(crate) fn tell_failure(&mut self, id: &AgentId) {
        let subscribed: Vec<FrameworkId> = self.master.frameworks.keys().cloned().collect();
        for framework in subscribed {
            self.send(&framework, event::agent_failure(id));
        }
    }

    pub(crate) fn set_contact(&mut self, id: &AgentId, contact: Contact) {
        if let Some(member) = self.master.members.get_mut(id) {
            member.contact = contact;
        }
    }

    pub(crate) fn tasks_on(&self, id: &AgentId) -> Vec<(FrameworkId, TaskId)> {
        self.master
            .members
            .get(id)
            .map(|member| member.tasks.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The master forgets a task; its resources are free.
    pub(crate) fn untrack(&mut self, framework: &FrameworkId, id: &TaskId) -> Option<Task> {
        let known = self.master.frameworks.get_mut(framework)?;
        let task = known.tasks.remove(id)?;
        if !task.freed {
            known.discharge(&task.role, &task.resources);
        }
        if let Some(member) = self.master.members.get_mut(&task.agent) {
            let key = (framework.clone(), id.clone());
            member.tasks.remove(&key);
            member.kills.remove(&key);
            if !task.freed {
                member.free.add(&task.resources);
            }
        }
        Some(task)
    }
}

/// An update that the master makes about a task that it can no longer see: without uuid (rule R93). It names the executor
/// that the task shared with others.
pub(crate) fn lost_status(
    task: &TaskId,
    (agent, executor): (&AgentId, Option<ExecutorId>),
    state: TaskState,
    (reason, words, now): (Reason, &str, Timestamp),
) -> TaskStatus {
    TaskStatus {
        task_id: task.proto(),
        state: state.into(),
        agent_id: Some(agent.proto()),
        executor_id: executor.as_ref().map(ExecutorId::proto),
        source: Some(Source::Master.into()),
        reason: Some(reason.into()),
        message: Some(words.to_owned()),
        timestamp: Some(event::seconds(now)),
        ..Default::default()
    }
}
