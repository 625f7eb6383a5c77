//! What becomes of operations that have an id: the agent says that they are done until the framework acknowledges it, and
//! the master answers questions about them (rules R48, R50, R110, R124, R125, H2, H4).

use crate::agent::Contact;
use crate::cluster::Cluster;
use crate::event;
use crate::id::{AgentId, FrameworkId};
use crate::store::StoreKey;
use crate::timers::Timer;
use crate::update::{FIRST_GAP, LAST_GAP};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::offer::Operation;
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::{OperationId, OperationState, OperationStatus, Uuid};

/// An operation that an agent has done and of which its framework wants to know. None fails: the master judges them.
#[derive(Debug, Clone)]
pub(crate) struct Confirmation {
    pub framework: FrameworkId,
    pub operation: String,
    /// When it is sent again, and the gap that led there.
    pub retry: Option<(Timestamp, Span)>,
}

impl Cluster {
    /// The master refuses an operation: silently, unless it has an id (rule R124).
    pub(crate) fn refuse_operation(&mut self, framework: &FrameworkId, operation: &Operation, why: &str) {
        let Some(id) = &operation.id else { return };
        let status = OperationStatus {
            message: Some(why.to_owned()),
            ..status(&id.value, OperationState::OperationError)
        };
        self.send(framework, event::operation(status));
    }

    /// The agent has done an operation.
    pub(crate) fn confirm(
        &mut self,
        framework: &FrameworkId,
        operation: &OperationId,
        agent: &AgentId,
        now: Timestamp,
    ) {
        let uuid = self.random.uuid();
        let confirmation = Confirmation {
            framework: framework.clone(),
            operation: operation.value.clone(),
            retry: None,
        };
        if let Some(known) = self.agents.get_mut(agent) {
            known.confirmations.insert(uuid, confirmation);
        }
        self.introduce(framework, agent);
        self.track_operation(framework, operation.value.clone(), (agent, uuid));
        self.dirty.insert(StoreKey::Agent(agent.clone()));
        self.send_confirmation(agent, uuid, FIRST_GAP, now);
    }

    /// Of several operations with one id the master remembers the last (rule R125).
    fn track_operation(&mut self, framework: &FrameworkId, id: String, (agent, uuid): (&AgentId, [u8; 16])) {
        if let Some(known) = self.master.frameworks.get_mut(framework) {
            known.operations.insert(id, (agent.clone(), uuid));
        }
    }

    fn send_confirmation(&mut self, agent: &AgentId, uuid: [u8; 16], gap: Span, now: Timestamp) {
        let talks = self.talks_to(agent);
        let known = self.agents.get_mut(agent).filter(|agent| agent.up);
        let Some(confirmation) = known.and_then(|agent| agent.confirmations.get_mut(&uuid)) else {
            return;
        };
        let timer = Timer::RetryOperation(agent.clone(), uuid);
        let at = now.plus(gap);
        if let Some((earlier, _)) = confirmation.retry.replace((at, gap)) {
            self.timers.cancel(earlier, timer.clone());
        }
        self.timers.set(at, timer);
        if talks {
            let (framework, operation) = (confirmation.framework.clone(), confirmation.operation.clone());
            let finished = status(&operation, OperationState::OperationFinished);
            let finished = OperationStatus {
                uuid: Some(Uuid { value: uuid.to_vec() }),
                agent_id: Some(agent.proto()),
                ..finished
            };
            self.send(&framework, event::operation(finished));
        }
    }

    pub(crate) fn retry_operation(&mut self, agent: &AgentId, uuid: [u8; 16], now: Timestamp) {
        let known = self
            .agents
            .get(agent)
            .and_then(|agent| agent.confirmations.get(&uuid));
        let Some((at, gap)) = known.and_then(|confirmation| confirmation.retry) else {
            return;
        };
        if at <= now {
            self.send_confirmation(agent, uuid, Span(gap.0.saturating_mul(2)).min(LAST_GAP), now);
        }
    }

    /// An agent that registers sends again at once, and starts its gaps anew.
    pub(crate) fn resume_operations(&mut self, agent: &AgentId, now: Timestamp) {
        for uuid in self.unconfirmed(agent) {
            self.send_confirmation(agent, uuid, FIRST_GAP, now);
        }
    }

    fn unconfirmed(&self, agent: &AgentId) -> Vec<[u8; 16]> {
        let known = self.agents.get(agent);
        known
            .map(|agent| agent.confirmations.keys().copied().collect())
            .unwrap_or_default()
    }

    /// A master learns of operations from the agent that registers with it.
    pub(crate) fn report_operations(&mut self, agent: &AgentId) {
        let Some(known) = self.agents.get(agent) else {
            return;
        };
        let reported = known.confirmations.iter();
        let reported: Vec<_> = reported
            .map(|(uuid, one)| (*uuid, one.framework.clone(), one.operation.clone()))
            .collect();
        for (uuid, framework, operation) in reported {
            self.track_operation(&framework, operation, (agent, uuid));
        }
    }

    /// A master that has no contact with an agent any more knows nothing of its operations.
    pub(crate) fn forget_operations(&mut self, agent: &AgentId) {
        for framework in self.master.frameworks.values_mut() {
            framework.operations.retain(|_, (of, _)| of != agent);
        }
    }

    /// An agent forgets the operations of a framework that is removed.
    pub(crate) fn drop_operations(&mut self, agent: &AgentId, framework: &FrameworkId) {
        if let Some(known) = self.agents.get_mut(agent) {
            known.confirmations.retain(|_, one| one.framework != *framework);
        }
    }

    /// ACKNOWLEDGE_OPERATION_STATUS. With another registered agent's name on it the master dies (rule H2).
    pub(crate) fn acknowledge_operation(
        &mut self,
        framework: &FrameworkId,
        call: &call::AcknowledgeOperationStatus,
    ) {
        let id = &call.operation_id.value;
        let known = self.master.frameworks.get(framework);
        let Some((agent, uuid)) = known.and_then(|known| known.operations.get(id)).cloned() else {
            return;
        };
        let Some(named) = call.agent_id.as_ref().map(AgentId::from) else {
            return;
        };
        if named != agent {
            if self.contact(&named).is_some_and(Contact::is_registered) {
                self.crash(format!(
                    "ACKNOWLEDGE_OPERATION_STATUS of framework {framework} names agent {named}, but operation '{id}' is \
                     of agent {agent}: take the agent from the status that is acknowledged (rule H2)"
                ));
            }
            return;
        }
        // The agent has never sent any other uuid for this operation, so it ignores one.
        if uuid.as_slice() != call.uuid || !self.talks_to(&agent) {
            return;
        }
        if let Some(known) = self.master.frameworks.get_mut(framework) {
            known.operations.remove(id);
        }
        let known = self.agents.get_mut(&agent);
        let confirmation = known.and_then(|known| known.confirmations.remove(&uuid));
        if let Some((at, _)) = confirmation.and_then(|confirmation| confirmation.retry) {
            self.timers.cancel(at, Timer::RetryOperation(agent.clone(), uuid));
        }
        self.dirty.insert(StoreKey::Agent(agent));
    }

    /// RECONCILE_OPERATIONS: there is always an answer, unlike for tasks (rule R110).
    pub(crate) fn reconcile_operations(&mut self, framework: &FrameworkId, call: &call::ReconcileOperations) {
        let Some(known) = self.master.frameworks.get(framework) else {
            return;
        };
        let finished = |id: &str, agent: &AgentId| OperationStatus {
            agent_id: Some(agent.proto()),
            ..status(id, OperationState::OperationFinished)
        };
        let answers: Vec<OperationStatus> = if call.operations.is_empty() {
            known
                .operations
                .iter()
                .map(|(id, (agent, _))| finished(id, agent))
                .collect()
        } else {
            let answer = |asked: &call::reconcile_operations::Operation| {
                let id = &asked.operation_id.value;
                let known = known.operations.get(id);
                known.map_or_else(|| self.unknown_operation(asked), |(agent, _)| finished(id, agent))
            };
            call.operations.iter().map(answer).collect()
        };
        for answer in answers {
            self.send(framework, event::operation(answer));
        }
    }

    fn unknown_operation(&self, asked: &call::reconcile_operations::Operation) -> OperationStatus {
        let contact = asked
            .agent_id
            .as_ref()
            .map(|agent| self.contact(&AgentId::from(agent)));
        let (state, words) = match contact {
            None => (
                OperationState::OperationUnknown,
                "Operation is unknown and no 'agent_id' was provided",
            ),
            Some(None) => (
                OperationState::OperationUnknown,
                "Both operation and agent are unknown",
            ),
            Some(Some(Contact::Connected | Contact::Disconnected)) => {
                (OperationState::OperationUnknown, "Operation is unknown")
            }
            Some(Some(Contact::Recovered)) => (
                OperationState::OperationRecovering,
                "Agent is recovered but has not re-registered",
            ),
            Some(Some(Contact::Unreachable(_))) => {
                (OperationState::OperationUnreachable, "Agent is unreachable")
            }
            Some(Some(Contact::Gone)) => (OperationState::OperationGoneByOperator, "Agent is marked gone"),
        };
        OperationStatus {
            message: Some(format!("Reconciliation: {words}")),
            agent_id: asked.agent_id.clone(),
            ..status(&asked.operation_id.value, state)
        }
    }
}

fn status(operation: &str, state: OperationState) -> OperationStatus {
    OperationStatus {
        operation_id: Some(OperationId {
            value: operation.to_owned(),
        }),
        state: state.into(),
        ..Default::default()
    }
}
