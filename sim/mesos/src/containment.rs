//! The container of a task, as updates tell of it.

use crate::agent::AgentTask;
use crate::cluster::Cluster;
use crate::framework::is_terminal;
use crate::id::{AgentId, Container};
use echelon_proto::mesos::v1::{ContainerId, ContainerStatus, NetworkInfo, TaskState, network_info};

/// Where a task's process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Containment {
    container: Container,
    /// The container of the default executor that the task's own lies in.
    parent: Option<Container>,
    /// 0 where nothing is told about the process.
    pid: u32,
}

impl Containment {
    /// `None` before the task has a process.
    pub(crate) fn of(task: &AgentTask) -> Option<Self> {
        if task.pid == 0 {
            return None;
        }
        let (container, parent) = match &task.place {
            // Tasks of a custom executor have no containers of their own.
            Some(place) if place.is_custom() => (place.container, None),
            Some(place) => (task.container, Some(place.container)),
            None => (task.container, None),
        };
        let pid = task.pid;
        Some(Self {
            container,
            parent,
            pid,
        })
    }

    /// What is seen of it in an update with this state: a container inside another tells of its process while it runs.
    pub(crate) const fn when(self, state: TaskState) -> Self {
        let outside = matches!(state, TaskState::TaskStarting) || is_terminal(state);
        match self.parent {
            Some(_) if outside => Self { pid: 0, ..self },
            _ => self,
        }
    }
}

impl Cluster {
    pub(crate) fn container_status(&self, agent: &AgentId, at: &Containment) -> ContainerStatus {
        let parent = at.parent.map(|parent| {
            Box::new(ContainerId {
                value: parent.to_string(),
                parent: None,
            })
        });
        let container_id = Some(ContainerId {
            value: at.container.to_string(),
            parent,
        });
        if at.pid == 0 {
            return ContainerStatus {
                container_id,
                ..Default::default()
            };
        }
        let ip_address = self.agents.get(agent).map(|agent| agent.spec.ip.clone());
        let address = network_info::IpAddress {
            ip_address,
            protocol: None,
        };
        ContainerStatus {
            container_id,
            network_infos: vec![NetworkInfo {
                ip_addresses: vec![address],
                ..Default::default()
            }],
            executor_pid: Some(at.pid),
            ..Default::default()
        }
    }
}
