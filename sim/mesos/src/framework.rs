//! What the master knows of a framework: its wishes, its stream, its tasks, its filters.

use crate::bundle::Bundle;
use crate::containment::Containment;
use crate::id::{AgentId, ExecutorId, FrameworkId, StreamId, TaskId};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::framework_info::capability;
use echelon_proto::mesos::v1::{FrameworkInfo, TaskState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A framework.
#[derive(Debug)]
pub(crate) struct Framework {
    pub id: FrameworkId,
    pub info: Arc<FrameworkInfo>,
    /// The open stream; without one the framework is disconnected.
    pub stream: Option<StreamId>,
    /// When it is removed unless it comes back.
    pub remove_at: Option<Timestamp>,
    pub suppressed: BTreeSet<String>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Tasks on agents that are unreachable: their ids stay taken (rule R74).
    pub unreachable: BTreeMap<TaskId, Silent>,
    pub filters: BTreeMap<(String, AgentId), Vec<Filter>>,
    pub offers: BTreeSet<u64>,
    /// What its offers and tasks hold, by role, for fair shares.
    pub allocated: BTreeMap<String, Bundle>,
    /// Operations of which it wants to hear: where they are done, and the uuid of their end (rule R125).
    pub operations: BTreeMap<String, (AgentId, [u8; 16])>,
}

/// A task as the master tracks it (rule R108).
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub name: Arc<str>,
    pub agent: AgentId,
    pub role: Arc<str>,
    pub resources: Bundle,
    /// What the agent last told.
    pub state: TaskState,
    /// What the framework was last told; reconciliation answers with this one.
    pub forwarded: TaskState,
    /// The update of that state.
    pub uuid: Option<[u8; 16]>,
    /// The executor that it shares with others.
    pub executor: Option<ExecutorId>,
    /// The container behind it, once known.
    pub container: Option<Containment>,
    /// Its resources went back to the agent.
    pub freed: bool,
}

/// A task on an unreachable agent.
#[derive(Debug, Clone)]
pub(crate) struct Silent {
    pub agent: AgentId,
    /// The executor that it shares with others.
    pub executor: Option<ExecutorId>,
}

/// Refused resources of one agent for one role (rule R66).
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub refused: Bundle,
    pub until: Timestamp,
}

impl Framework {
    pub(crate) fn new(id: FrameworkId, info: FrameworkInfo) -> Self {
        Self {
            id,
            info: Arc::new(info),
            stream: None,
            remove_at: None,
            suppressed: BTreeSet::new(),
            tasks: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            filters: BTreeMap::new(),
            offers: BTreeSet::new(),
            allocated: BTreeMap::new(),
            operations: BTreeMap::new(),
        }
    }

    pub(crate) fn can(&self, capability: capability::Type) -> bool {
        has(&self.info, capability)
    }

    pub(crate) fn roles(&self) -> Vec<String> {
        if self.can(capability::Type::MultiRole) {
            self.info.roles.clone()
        } else {
            vec![self.info.role().to_owned()]
        }
    }

    /// The state to tell: frameworks that are not partition aware know TASK_LOST only (section 8 of the rules).
    pub(crate) fn or_lost(&self, state: TaskState) -> TaskState {
        if self.can(capability::Type::PartitionAware) {
            state
        } else {
            TaskState::TaskLost
        }
    }

    /// The moment until which a filter hides `free` on an agent, if one does.
    pub(crate) fn filtered_until(
        &mut self,
        role: &str,
        agent: &AgentId,
        free: &Bundle,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let key = (role.to_owned(), agent.clone());
        let filters = self.filters.get_mut(&key)?;
        filters.retain(|filter| filter.until > now);
        let until = filters
            .iter()
            .filter(|filter| filter.refused.contains(free))
            .map(|filter| filter.until)
            .max();
        if filters.is_empty() {
            self.filters.remove(&key);
        }
        until
    }

    pub(crate) fn clear_filters(&mut self, roles: &[String]) {
        self.filters.retain(|(role, _), _| !roles.contains(role));
    }

    pub(crate) fn charge(&mut self, role: &str, amount: &Bundle) {
        let allocated = self.allocated.entry(role.to_owned()).or_default();
        allocated.add(&amount.exclusive_scalars());
    }

    pub(crate) fn discharge(&mut self, role: &str, amount: &Bundle) {
        if let Some(allocated) = self.allocated.get_mut(role) {
            allocated.subtract(&amount.exclusive_scalars());
            if allocated.is_empty() {
                self.allocated.remove(role);
            }
        }
    }
}

pub(crate) fn has(info: &FrameworkInfo, capability: capability::Type) -> bool {
    info.capabilities
        .iter()
        .any(|one| one.r#type == Some(capability.into()))
}

/// Whether a task in this state is over (rule R92). Unreachable tasks are not.
pub(crate) const fn is_terminal(state: TaskState) -> bool {
    matches!(
        state,
        TaskState::TaskFinished
            | TaskState::TaskFailed
            | TaskState::TaskKilled
            | TaskState::TaskError
            | TaskState::TaskLost
            | TaskState::TaskDropped
            | TaskState::TaskGone
            | TaskState::TaskGoneByOperator
    )
}
