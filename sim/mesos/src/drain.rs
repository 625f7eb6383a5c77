//! Draining: an operator wants an agent empty. Its tasks are killed, nothing of it is offered until it is activated
//! again (rule R131).

use crate::agent::{Contact, Member, Phase, TaskKey};
use crate::cluster::Cluster;
use crate::id::{AgentId, Run};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{DrainConfig, DrainInfo, DrainState, DurationInfo, TaskState};

/// What an operator asked of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drain {
    /// From SIGTERM to SIGKILL at most.
    pub max_grace: Option<Span>,
    /// The agent is marked gone once it is empty.
    pub mark_gone: bool,
}

impl Member {
    /// How far a drain has come: it is over when the end of every task is acknowledged.
    pub(crate) fn drain_info(&self) -> Option<DrainInfo> {
        let drain = self.drain.as_ref()?;
        let state = if self.tasks.is_empty() {
            DrainState::Drained
        } else {
            DrainState::Draining
        };
        let max_grace_period = drain.max_grace.map(|span| DurationInfo {
            nanoseconds: i64::try_from(span.0)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000),
        });
        Some(DrainInfo {
            state: state.into(),
            config: DrainConfig {
                max_grace_period,
                mark_gone: Some(drain.mark_gone),
            },
        })
    }
}

impl Cluster {
    /// An operator drains an agent. False when the master does not know it.
    pub fn drain_agent(
        &mut self,
        id: &AgentId,
        max_grace: Option<Span>,
        mark_gone: bool,
        now: Timestamp,
    ) -> bool {
        let Some(member) = self.active_member(id) else {
            return false;
        };
        member.drain = Some(Drain { max_grace, mark_gone });
        self.rescind_agent(id);
        self.drain_on(id, now);
        true
    }

    /// The agents that an operator wants empty.
    pub fn draining_agents(&self) -> impl Iterator<Item = &AgentId> {
        let members = self.master.members.iter();
        members
            .filter(|(_, m)| m.drain.is_some() && m.contact != Contact::Gone)
            .map(|(id, _)| id)
    }

    /// An operator wants nothing of an agent offered; its tasks go on. False when the master does not know it.
    pub fn deactivate_agent(&mut self, id: &AgentId) -> bool {
        let Some(member) = self.active_member(id) else {
            return false;
        };
        member.deactivated = true;
        self.rescind_agent(id);
        true
    }

    /// An operator takes back a drain or a deactivation. False when the master does not know the agent.
    pub fn reactivate_agent(&mut self, id: &AgentId, now: Timestamp) -> bool {
        let Some(member) = self.active_member(id) else {
            return false;
        };
        (member.drain, member.deactivated) = (None, false);
        self.want_allocation(now);
        true
    }

    fn active_member(&mut self, id: &AgentId) -> Option<&mut Member> {
        self.master
            .members
            .get_mut(id)
            .filter(|member| member.contact != Contact::Gone)
    }

    /// Kills what still runs on an agent that is to be empty, and marks it gone once nothing is left.
    pub(crate) fn drain_on(&mut self, id: &AgentId, now: Timestamp) {
        let Some(drain) = self.drain_of(id).filter(|_| self.talks_to(id)) else {
            return;
        };
        let Some(agent) = self.agents.get_mut(id) else {
            return;
        };
        let mut doomed: Vec<TaskKey> = Vec::new();
        for (key, task) in &mut agent.tasks {
            if matches!(task.phase, Phase::Launching | Phase::Running) {
                task.grace = drain.max_grace.map_or(task.grace, |most| most.min(task.grace));
                doomed.push(key.clone());
            }
        }
        for key in doomed {
            self.kill_at_agent(id, &key, None, now);
        }
        self.drained(id, now);
    }

    /// A task has left an agent.
    pub(crate) fn drained(&mut self, id: &AgentId, now: Timestamp) {
        let empty = self
            .master
            .members
            .get(id)
            .is_some_and(|member| member.tasks.is_empty());
        if empty && self.drain_of(id).is_some_and(|drain| drain.mark_gone) {
            self.mark_agent_gone(id, now);
        }
    }

    fn drain_of(&self, id: &AgentId) -> Option<Drain> {
        self.master.members.get(id)?.drain.clone()
    }

    /// What an executor says of a task that ends because its agent is drained.
    pub(crate) fn while_draining(&self, run: &Run, state: TaskState) -> (TaskState, Option<Reason>) {
        let drain = self.drain_of(&run.agent);
        match (state, drain) {
            (TaskState::TaskKilled, Some(drain)) if drain.mark_gone => {
                let known = self.master.frameworks.get(&run.framework);
                let gone = TaskState::TaskGoneByOperator;
                let state = known.map_or(gone, |known| known.or_lost(gone));
                (state, Some(Reason::AgentDraining))
            }
            (TaskState::TaskKilling | TaskState::TaskKilled, Some(_)) => (state, Some(Reason::AgentDraining)),
            _ => (state, None),
        }
    }
}
