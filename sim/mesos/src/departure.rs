//! Agents that are removed rather than lost: their machine goes down for maintenance, they unregister, or a new agent
//! takes their address. The master forgets them, so their tasks are unknown from then on (rules R115, R130, S22b).

use crate::agent::{Agent, Contact, Phase};
use crate::cluster::Cluster;
use crate::config::{AgentSpec, Executors};
use crate::event;
use crate::id::AgentId;
use crate::membership::lost_status;
use crate::output::Output;
use crate::store::StoreKey;
use crate::timers::Timer;
use crate::update::run_of;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::Reason;

impl Cluster {
    /// An agent is told to end (SIGUSR1): it unregisters and takes its tasks with it. False when there is no such agent.
    pub fn unregister_agent(&mut self, id: &AgentId, now: Timestamp) -> bool {
        if !self.talks_to(id) {
            return false;
        }
        self.remove_agent(id, "the agent unregistered", now);
        true
    }

    /// A new agent takes the address of one whose process has died: the older will never be back.
    pub(crate) fn replace_agent_at(&mut self, spec: &AgentSpec, new: &AgentId, now: Timestamp) {
        let address = (spec.ip.clone(), spec.port);
        let Some(old) = self.addresses.insert(address, new.clone()) else {
            return;
        };
        let registered = self.contact(&old).is_some_and(Contact::is_registered);
        if registered && self.agents.get(&old).is_some_and(|agent| !agent.up) {
            self.leave_executors(&old);
            self.remove_agent(&old, "a new agent registered at the same address", now);
        }
    }

    /// The executors of an agent that is never back wait for it nevertheless.
    fn leave_executors(&mut self, id: &AgentId) {
        let agent = self.agents.get_mut(id);
        let Some(agent) = agent.filter(|agent| agent.stopped_at.is_some()) else {
            return;
        };
        if matches!(self.config.executors, Executors::Virtual(_)) {
            let left = Agent {
                tasks: std::mem::take(&mut agent.tasks),
                up: false,
                stopped_at: agent.stopped_at,
                ..Agent::new(id.clone(), agent.spec.clone())
            };
            self.departed.insert(id.clone(), left);
        }
    }

    /// Executors without their agent end by themselves when they have waited for so long, within their grace.
    pub(crate) fn await_executors(&mut self, id: &AgentId, wait: Span, now: Timestamp) {
        let Some(since) = self.agents.get(id).and_then(|agent| agent.stopped_at) else {
            return;
        };
        let grace = self.config.executor_shutdown_grace;
        let at = since.plus(wait).plus(grace).max(now);
        self.timers.set(at, Timer::ExecutorsEnd(id.clone(), since));
    }

    /// An agent ends and has its executors end, within their grace.
    pub(crate) fn end_agent(&mut self, id: &AgentId, now: Timestamp) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.up = false;
            agent.stopped_at = Some(now);
        }
        self.await_executors(id, Span::ZERO, now);
    }

    pub(crate) fn executors_end(&mut self, id: &AgentId, since: Timestamp) {
        let grace = self.config.executor_shutdown_grace;
        let is_meant = |agent: &Agent| agent.stopped_at == Some(since);
        if self.departed.get(id).is_some_and(is_meant) {
            self.departed.remove(id);
        }
        if !self.agents.get(id).is_some_and(is_meant) {
            return;
        }
        if self.contact(id) == Some(Contact::Gone) {
            return self.shut_agent_down(id);
        }
        let Some(agent) = self.agents.get_mut(id) else {
            return;
        };
        let live = agent
            .tasks
            .iter_mut()
            .filter(|(_, task)| task.phase != Phase::Ended);
        match self.config.executors {
            Executors::Virtual(_) => {
                live.for_each(|(_, task)| task.phase = Phase::Lost);
                agent.executors.clear();
            }
            Executors::External => {
                let kills = live.map(|((framework, name), task)| Output::Kill {
                    run: run_of(id, framework, name, task),
                    grace,
                });
                self.out.extend(kills);
            }
        }
    }

    /// TASK_LOST for each task, whatever the framework is capable of, then the offers, then FAILURE.
    pub(crate) fn remove_agent(&mut self, id: &AgentId, why: &str, now: Timestamp) {
        let was_registered = self.contact(id).is_some_and(Contact::is_registered);
        let Some(agent) = self.agents.get(id) else { return };
        let words = format!("Agent {} removed: {why}", agent.spec.hostname);
        for (framework, task) in self.tasks_on(id) {
            let lost = (Reason::AgentRemoved, words.as_str(), now);
            let executor = self.untrack(&framework, &task).and_then(|known| known.executor);
            let status = lost_status(&task, (id, executor), TaskState::TaskLost, lost);
            self.send(&framework, event::update(status));
        }
        self.untrack_executors(id, None);
        self.rescind_agent(id);
        self.rescind_inverse_of(id);
        self.forget_operations(id);
        if was_registered {
            self.tell_failure(id);
        }
        self.shut_agent_down(id);
        self.agents.remove(id);
        self.master.members.remove(id);
        for framework in self.master.frameworks.values_mut() {
            framework.unreachable.retain(|_, silent| silent.agent != *id);
        }
        self.dirty.insert(StoreKey::Agent(id.clone()));
    }
}
