//! What operators see of the cluster through `/api/v1` of the master and of an agent. Read only.

use crate::agent::{Agent, Contact, Member};
use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::event;
use crate::framework::{Framework, Silent, Task, is_terminal};
use crate::id::{AgentId, ExecutorId, FrameworkId, TaskId};
use crate::update::executor_of;
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1;
use echelon_proto::mesos::v1::master::response::{self, get_agents, get_frameworks};
use echelon_proto::mesos::v1::{AgentInfo, Resource, agent as agent_api, master};
use std::collections::BTreeMap;

impl Cluster {
    /// The answer of GET_MASTER.
    #[must_use]
    pub fn get_master(&self) -> master::Response {
        let started = Some(event::seconds(self.master.started));
        let get_master = response::GetMaster {
            master_info: Some(event::master_info(&self.master.id, &self.config)),
            start_time: started,
            elected_time: started,
        };
        let kind = Some(response::Type::GetMaster.into());
        master::Response {
            r#type: kind,
            get_master: Some(get_master),
            ..Default::default()
        }
    }

    /// The answer of GET_AGENTS.
    #[must_use]
    pub fn get_agents(&self) -> master::Response {
        let kind = Some(response::Type::GetAgents.into());
        master::Response {
            r#type: kind,
            get_agents: Some(self.agents_view()),
            ..Default::default()
        }
    }

    /// The answer of GET_FRAMEWORKS.
    #[must_use]
    pub fn get_frameworks(&self) -> master::Response {
        let kind = Some(response::Type::GetFrameworks.into());
        master::Response {
            r#type: kind,
            get_frameworks: Some(self.frameworks_view()),
            ..Default::default()
        }
    }

    /// The answer of GET_TASKS.
    #[must_use]
    pub fn get_tasks(&self) -> master::Response {
        let kind = Some(response::Type::GetTasks.into());
        master::Response {
            r#type: kind,
            get_tasks: Some(self.tasks_view()),
            ..Default::default()
        }
    }

    /// The answer of GET_STATE.
    #[must_use]
    pub fn get_state(&self) -> master::Response {
        let get_state = response::GetState {
            get_tasks: Some(self.tasks_view()),
            get_frameworks: Some(self.frameworks_view()),
            get_agents: Some(self.agents_view()),
            get_executors: Some(response::GetExecutors::default()),
        };
        let kind = Some(response::Type::GetState.into());
        master::Response {
            r#type: kind,
            get_state: Some(get_state),
            ..Default::default()
        }
    }

    /// The answer of an agent's GET_STATE; `None` when there is no such agent.
    #[must_use]
    pub fn get_agent_state(&self, id: &AgentId) -> Option<agent_api::Response> {
        let agent = self.agents.get(id)?;
        let mut tasks = agent_api::response::GetTasks::default();
        for ((framework, name), task) in &agent.tasks {
            let view = v1::Task {
                name: task.name.to_string(),
                task_id: name.proto(),
                framework_id: framework.proto(),
                executor_id: Some(executor_of(name, task)),
                agent_id: id.proto(),
                state: task.state.into(),
                resources: task.resources.write(Some(&task.role)),
                ..Default::default()
            };
            let list = if is_terminal(task.state) {
                &mut tasks.terminated_tasks
            } else {
                &mut tasks.launched_tasks
            };
            list.push(view);
        }
        let frameworks =
            agent
                .frameworks
                .values()
                .map(|info| agent_api::response::get_frameworks::Framework {
                    framework_info: (**info).clone(),
                });
        let get_frameworks = agent_api::response::GetFrameworks {
            frameworks: frameworks.collect(),
            ..Default::default()
        };
        let get_state = agent_api::response::GetState {
            get_tasks: Some(tasks),
            get_frameworks: Some(get_frameworks),
            ..Default::default()
        };
        let kind = Some(agent_api::response::Type::GetState.into());
        Some(agent_api::Response {
            r#type: kind,
            get_state: Some(get_state),
            ..Default::default()
        })
    }

    /// The answer of an agent's GET_FLAGS, with the flags that are simulated; `None` when its process is not
    /// there.
    #[must_use]
    pub fn get_agent_flags(&self, id: &AgentId) -> Option<agent_api::Response> {
        let agent = self.agents.get(id).filter(|agent| agent.up)?;
        let flag = |name: &str, value: String| v1::Flag {
            name: name.to_owned(),
            value: Some(value),
        };
        let grace = self.config.executor_shutdown_grace;
        let flags = vec![
            flag("executor_shutdown_grace_period", duration_text(grace)),
            flag("hostname", agent.spec.hostname.clone()),
            flag("ip", agent.spec.ip.clone()),
            flag("port", agent.spec.port.to_string()),
            flag("recovery_timeout", duration_text(self.config.recovery_timeout)),
        ];
        Some(agent_api::Response {
            r#type: Some(agent_api::response::Type::GetFlags.into()),
            get_flags: Some(agent_api::response::GetFlags { flags }),
            ..Default::default()
        })
    }

    /// The agent with a process that listens at an address.
    #[must_use]
    pub fn agent_at(&self, ip: &str, port: u16) -> Option<&AgentId> {
        let mut up = self.agents.values().filter(|agent| agent.is_reachable());
        let found = up.find(|agent| agent.spec.ip == ip && agent.spec.port == port);
        found.map(|agent| &agent.id)
    }

    fn agents_view(&self) -> response::GetAgents {
        let mut view = response::GetAgents::default();
        for (id, member) in &self.master.members {
            let Some(agent) = self.agents.get(id) else {
                continue;
            };
            match member.contact {
                Contact::Recovered => view.recovered_agents.push(agent_info(agent)),
                contact if contact.is_registered() => view.agents.push(self.agent_view(agent, member)),
                _ => {}
            }
        }
        view
    }

    fn agent_view(&self, agent: &Agent, member: &Member) -> get_agents::Agent {
        let mut offered: BTreeMap<&str, Bundle> = BTreeMap::new();
        let offers = member.offers.iter();
        for offer in offers.filter_map(|number| self.master.offers.get(number)) {
            offered.entry(&*offer.role).or_default().add(&offer.resources);
        }
        let offered = offered.iter().map(|(role, all)| all.write(Some(role)));
        get_agents::Agent {
            agent_info: agent_info(agent),
            active: member.is_offerable(),
            deactivated: Some(member.deactivated || member.drain.is_some()),
            drain_info: member.drain_info(),
            version: event::VERSION.to_owned(),
            pid: Some(format!("slave(1)@{}:{}", agent.spec.ip, agent.spec.port)),
            total_resources: agent.spec.resources.write(None),
            allocated_resources: self.allocated(member),
            offered_resources: offered.flatten().collect(),
            ..Default::default()
        }
    }

    /// What tasks and executors hold of an agent, by role.
    fn allocated(&self, member: &Member) -> Vec<Resource> {
        let mut by_role: BTreeMap<&str, Bundle> = BTreeMap::new();
        let mut add = |role, resources: &Bundle| by_role.entry(role).or_default().add(resources);
        for (framework, id) in &member.tasks {
            let known = self.master.frameworks.get(framework);
            if let Some(task) = known.and_then(|f| f.tasks.get(id)).filter(|t| !t.freed) {
                add(&*task.role, &task.resources);
            }
        }
        for executor in member.executors.values() {
            add(&*executor.role, &executor.resources);
        }
        let written = by_role.iter().map(|(role, all)| all.write(Some(role)));
        written.flatten().collect()
    }

    fn frameworks_view(&self) -> response::GetFrameworks {
        let frameworks = self
            .master
            .frameworks
            .values()
            .map(|framework| get_frameworks::Framework {
                framework_info: (*framework.info).clone(),
                active: framework.stream.is_some(),
                connected: framework.stream.is_some(),
                recovered: framework.stream.is_none() && framework.remove_at.is_none(),
                ..Default::default()
            });
        response::GetFrameworks {
            frameworks: frameworks.collect(),
            ..Default::default()
        }
    }

    fn tasks_view(&self) -> response::GetTasks {
        let mut view = response::GetTasks::default();
        for framework in self.master.frameworks.values() {
            view.tasks.extend(
                framework
                    .tasks
                    .iter()
                    .map(|(id, task)| task_view(framework, id, task)),
            );
            view.unreachable_tasks.extend(
                framework
                    .unreachable
                    .iter()
                    .map(|(id, silent)| unreachable(framework, id, silent)),
            );
        }
        view
    }

    /// How many tasks of a framework the master tracks.
    #[must_use]
    pub fn n_tasks(&self, framework: &FrameworkId) -> usize {
        self.master
            .frameworks
            .get(framework)
            .map_or(0, |known| known.tasks.len())
    }

    /// How many tasks of all frameworks the master tracks: those that live, and those whose end is not acknowledged.
    #[must_use]
    pub fn n_tracked(&self) -> usize {
        self.master
            .frameworks
            .values()
            .map(|known| known.tasks.len())
            .sum()
    }

    /// How many offers of a framework are open.
    #[must_use]
    pub fn n_open_offers(&self, framework: &FrameworkId) -> usize {
        self.master
            .frameworks
            .get(framework)
            .map_or(0, |known| known.offers.len())
    }
}

/// A duration as Mesos writes it, in the largest unit in which it is whole.
fn duration_text(span: Span) -> String {
    let units = [
        ("weeks", 604_800_000),
        ("days", 86_400_000),
        ("hrs", 3_600_000),
        ("mins", 60_000),
        ("secs", 1000),
    ];
    let whole = units
        .iter()
        .find(|(_, millis)| span.0 > 0 && span.0.is_multiple_of(*millis));
    match whole {
        Some((unit, millis)) => format!("{}{unit}", span.0 / millis),
        None if span == Span::ZERO => "0ns".to_owned(),
        None => format!("{}ms", span.0),
    }
}

fn agent_info(agent: &Agent) -> AgentInfo {
    AgentInfo {
        hostname: agent.spec.hostname.clone(),
        port: Some(i32::from(agent.spec.port)),
        resources: agent.spec.resources.write(None),
        attributes: agent.spec.attributes.clone(),
        id: Some(agent.id.proto()),
        domain: None,
    }
}

fn task_view(framework: &Framework, id: &TaskId, task: &Task) -> v1::Task {
    v1::Task {
        name: task.name.to_string(),
        task_id: id.proto(),
        framework_id: framework.id.proto(),
        agent_id: task.agent.proto(),
        state: task.state.into(),
        resources: task.resources.write(Some(&task.role)),
        status_update_state: Some(task.forwarded.into()),
        status_update_uuid: task.uuid.map(|uuid| uuid.to_vec()),
        ..Default::default()
    }
}

fn unreachable(framework: &Framework, id: &TaskId, silent: &Silent) -> v1::Task {
    v1::Task {
        name: id.to_string(),
        task_id: id.proto(),
        framework_id: framework.id.proto(),
        agent_id: silent.agent.proto(),
        executor_id: silent.executor.as_ref().map(ExecutorId::proto),
        state: v1::TaskState::TaskUnreachable.into(),
        ..Default::default()
    }
}
