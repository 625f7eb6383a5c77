//! RECONCILE: what the master knows of a task, and what it says of tasks that it does not know, which depends on what it
//! knows of the agent (section 8 of the rules, S16).

use crate::agent::Contact;
use crate::cluster::Cluster;
use crate::event;
use crate::id::{AgentId, ExecutorId, FrameworkId, TaskId};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{TaskState, TaskStatus, TimeInfo};

impl Cluster {
    pub(crate) fn reconcile(&mut self, framework: &FrameworkId, reconcile: &call::Reconcile, now: Timestamp) {
        if reconcile.tasks.is_empty() {
            let tracked = self
                .master
                .frameworks
                .get(framework)
                .map(|f| f.tasks.keys().cloned().collect::<Vec<_>>());
            for task in tracked.unwrap_or_default() {
                self.reconcile_one(framework, &task, None, now);
            }
            return;
        }
        for entry in &reconcile.tasks {
            let agent = entry.agent_id.as_ref().map(AgentId::from);
            self.reconcile_one(framework, &TaskId::from(&entry.task_id), agent.as_ref(), now);
        }
    }

    pub(crate) fn reconcile_one(
        &mut self,
        framework: &FrameworkId,
        task: &TaskId,
        agent: Option<&AgentId>,
        now: Timestamp,
    ) {
        let answer = self
            .tracked(framework, task)
            .or_else(|| self.untracked(framework, task, agent));
        if let Some(status) = answer {
            let status = TaskStatus {
                source: Some(Source::Master.into()),
                reason: Some(Reason::Reconciliation.into()),
                timestamp: Some(event::seconds(now)),
                ..status
            };
            self.send(framework, event::update(status));
        }
    }

    /// The last state that the framework was told, whatever agent it names.
    fn tracked(&self, framework: &FrameworkId, id: &TaskId) -> Option<TaskStatus> {
        let task = self.master.frameworks.get(framework)?.tasks.get(id)?;
        let container_status = task.container.map(|at| self.container_status(&task.agent, &at));
        Some(TaskStatus {
            task_id: id.proto(),
            state: task.forwarded.into(),
            message: Some("Reconciliation: Latest task state".to_owned()),
            agent_id: Some(task.agent.proto()),
            executor_id: task.executor.as_ref().map(ExecutorId::proto),
            container_status,
            ..Default::default()
        })
    }

    /// No answer is an answer as well (rule R105).
    fn untracked(&self, framework: &FrameworkId, id: &TaskId, agent: Option<&AgentId>) -> Option<TaskStatus> {
        let known = self.master.frameworks.get(framework)?;
        let any_recovered = || {
            self.master
                .members
                .values()
                .any(|member| member.contact == Contact::Recovered)
        };
        let contact = agent.and_then(|agent| self.contact(agent));
        let mut unreachable_time = None;
        let (state, words) = match contact {
            Some(Contact::Recovered) => return None,
            None if agent.is_none() && any_recovered() => return None,
            None => (TaskState::TaskUnknown, "Task is unknown"),
            Some(Contact::Connected | Contact::Disconnected) => {
                (TaskState::TaskGone, "Task is unknown to the agent")
            }
            Some(Contact::Unreachable(since)) => {
                unreachable_time = Some(time_info(since));
                (TaskState::TaskUnreachable, "Task is unreachable")
            }
            Some(Contact::Gone) => (TaskState::TaskGoneByOperator, "Task is gone"),
        };
        Some(TaskStatus {
            task_id: id.proto(),
            state: known.or_lost(state).into(),
            message: Some(format!("Reconciliation: {words}")),
            agent_id: agent.map(AgentId::proto),
            unreachable_time,
            ..Default::default()
        })
    }
}

/// A moment in nanoseconds.
pub(crate) fn time_info(at: Timestamp) -> TimeInfo {
    TimeInfo {
        nanoseconds: i64::try_from(at.0).unwrap_or(i64::MAX).saturating_mul(1_000_000),
    }
}
