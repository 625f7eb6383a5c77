//! Records that outlive the process of a shell: agents with their frameworks, and tasks with their unacknowledged
//! updates. A cluster recovered from them is one whose master and agents were started again.

use crate::agent::{Agent, Contact, Member};
use crate::bundle::Bundle;
use crate::cluster::{Cluster, Leadership};
use crate::config::{AgentSpec, Config};
use crate::feedback::Confirmation;
use crate::id::{AgentId, Container, FrameworkId, TaskId};
use crate::output::Output;
use crate::shared_executor::{AgentExecutor, SharedExecutor};
use crate::task_record::{TaskRecord, restored_task, task_record};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::{Attribute, ExecutorInfo, FrameworkInfo, Resource};
use prost::Message;
use std::sync::Arc;
use thiserror::Error;

/// Which record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKey {
    /// An agent.
    Agent(AgentId),
    /// A task on an agent.
    Task(AgentId, FrameworkId, TaskId),
}

/// A record could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecoverError {
    /// Its name is none of ours.
    #[error("`{0}` is not a record of a simulated cluster; is this its work folder?")]
    Key(String),
    /// Its bytes are broken.
    #[error(
        "the record `{key}` of the simulated cluster cannot be read; restore the work folder or start with an empty one"
    )]
    Record {
        /// Which one.
        key: String,
        /// What is wrong with it.
        #[source]
        source: prost::DecodeError,
    },
    /// It says something impossible.
    #[error(
        "the record `{key}` of the simulated cluster has a bad {what}; restore the work folder or start with an empty one"
    )]
    Content {
        /// Which one.
        key: String,
        /// Which part.
        what: &'static str,
    },
}

#[derive(Clone, PartialEq, Message)]
struct AgentRecord {
    #[prost(string, tag = "1")]
    hostname: String,
    #[prost(string, tag = "2")]
    ip: String,
    #[prost(uint32, tag = "3")]
    port: u32,
    #[prost(message, repeated, tag = "4")]
    resources: Vec<Resource>,
    #[prost(message, repeated, tag = "5")]
    attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "6")]
    frameworks: Vec<FrameworkInfo>,
    #[prost(bool, tag = "7")]
    gone: bool,
    #[prost(message, repeated, tag = "8")]
    confirmations: Vec<ConfirmationRecord>,
    #[prost(bool, tag = "9")]
    http_command_executor: bool,
    #[prost(message, repeated, tag = "10")]
    executors: Vec<ExecutorRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct ExecutorRecord {
    #[prost(message, optional, tag = "1")]
    info: Option<ExecutorInfo>,
    #[prost(string, tag = "2")]
    role: String,
    #[prost(bytes = "vec", tag = "3")]
    container: Vec<u8>,
    #[prost(uint64, tag = "4")]
    n_groups: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ConfirmationRecord {
    #[prost(bytes = "vec", tag = "1")]
    uuid: Vec<u8>,
    #[prost(string, tag = "2")]
    framework: String,
    #[prost(string, tag = "3")]
    operation: String,
}

impl Cluster {
    /// The present record of a key.
    pub(crate) fn record(&self, key: &StoreKey) -> Output {
        let value = match key {
            StoreKey::Agent(id) => self.agents.get(id).map(|agent| {
                let gone = self.contact(id) == Some(Contact::Gone);
                agent_record(agent, gone).encode_to_vec()
            }),
            StoreKey::Task(agent, framework, task) => {
                let key = (framework.clone(), task.clone());
                self.agents
                    .get(agent)
                    .and_then(|a| a.tasks.get(&key))
                    .map(|task| task_record(task).encode_to_vec())
            }
        };
        Output::Store {
            key: key_text(key),
            value,
        }
    }

    /// A cluster from its records. Its agents are down: settle their runs by [`Cluster::started`] and
    /// [`Cluster::exited`], then [`Cluster::start_agent`] each.
    ///
    /// # Errors
    /// `RecoverError` when a record cannot be read.
    pub fn recover(
        config: Config,
        seed: u64,
        records: impl IntoIterator<Item = (String, Vec<u8>)>,
        now: Timestamp,
    ) -> Result<Self, RecoverError> {
        let mut cluster = Self::new(config, seed, now);
        let mut records: Vec<(String, Vec<u8>)> = records.into_iter().collect();
        // `agent/...` comes before `task/...`.
        records.sort();
        for (key, value) in records {
            cluster.restore(&key, &value)?;
        }
        cluster.n_agents = u64::try_from(cluster.agents.len()).unwrap_or(u64::MAX);
        let ids: Vec<AgentId> = cluster.agents.keys().cloned().collect();
        for id in ids {
            cluster.await_return(id, now);
        }
        debug_assert_eq!(cluster.master.leadership, Leadership::Leads);
        Ok(cluster)
    }

    /// An agent listens elsewhere since it was started again.
    pub fn move_agent(&mut self, id: &AgentId, ip: &str, port: u16) {
        if let Some(agent) = self.agents.get_mut(id) {
            ip.clone_into(&mut agent.spec.ip);
            agent.spec.port = port;
            self.addresses.insert((agent.spec.ip.clone(), port), id.clone());
            self.dirty.insert(StoreKey::Agent(id.clone()));
        }
    }

    fn restore(&mut self, key: &str, value: &[u8]) -> Result<(), RecoverError> {
        let broken = |source| RecoverError::Record {
            key: key.to_owned(),
            source,
        };
        let parts: Vec<&str> = key.split('/').collect();
        match parts.as_slice() {
            ["agent", id] => {
                let record = AgentRecord::decode(value).map_err(broken)?;
                self.restore_agent(AgentId::new(id), record, key)
            }
            ["task", agent, framework, task] => {
                let record = TaskRecord::decode(value).map_err(broken)?;
                let task_key = (FrameworkId::new(framework), TaskId::new(task));
                if let Some(agent) = self.agents.get_mut(&AgentId::new(agent)) {
                    let task = restored_task(record, &task_key.0, agent);
                    let task = task.map_err(|what| RecoverError::Content {
                        key: key.to_owned(),
                        what,
                    })?;
                    agent.tasks.insert(task_key, task);
                }
                Ok(())
            }
            _ => Err(RecoverError::Key(key.to_owned())),
        }
    }

    fn restore_agent(&mut self, id: AgentId, record: AgentRecord, key: &str) -> Result<(), RecoverError> {
        let bad = |what| RecoverError::Content {
            key: key.to_owned(),
            what,
        };
        let spec = AgentSpec {
            hostname: record.hostname,
            ip: record.ip,
            port: u16::try_from(record.port).map_err(|_| bad("port"))?,
            resources: Bundle::read(&record.resources).map_err(|_| bad("list of resources"))?,
            attributes: record.attributes,
            http_command_executor: record.http_command_executor,
        };
        let mut agent = Agent::new(id.clone(), spec);
        agent.up = false;
        for info in record.frameworks {
            let framework = info
                .id
                .as_ref()
                .map(FrameworkId::from)
                .ok_or_else(|| bad("framework id"))?;
            agent.frameworks.insert(framework, Arc::new(info));
        }
        for one in record.confirmations {
            let uuid = one.uuid.try_into().map_err(|_| bad("uuid"))?;
            let confirmation = Confirmation {
                framework: FrameworkId::new(one.framework),
                operation: one.operation,
                retry: None,
            };
            agent.confirmations.insert(uuid, confirmation);
        }
        for one in record.executors {
            let info = one.info.ok_or_else(|| bad("executor"))?;
            let framework = info.framework_id.as_ref().map(FrameworkId::from);
            let executor = AgentExecutor {
                container: Container(one.container.try_into().map_err(|_| bad("container id"))?),
                shared: SharedExecutor {
                    resources: Bundle::read(&info.resources).map_err(|_| bad("list of resources"))?,
                    role: Arc::from(one.role.as_str()),
                    info: Arc::new(info),
                },
                n_groups: one.n_groups,
                shutting_down: false,
            };
            let key = (
                framework.ok_or_else(|| bad("framework id"))?,
                executor.shared.id(),
            );
            agent.executors.insert(key, executor);
        }
        let contact = if record.gone {
            Contact::Gone
        } else {
            Contact::Recovered
        };
        self.master.members.insert(
            id.clone(),
            Member {
                contact,
                ..Member::recovered()
            },
        );
        self.addresses
            .insert((agent.spec.ip.clone(), agent.spec.port), id.clone());
        self.agents.insert(id, agent);
        Ok(())
    }
}

fn key_text(key: &StoreKey) -> String {
    match key {
        StoreKey::Agent(id) => format!("agent/{id}"),
        StoreKey::Task(agent, framework, task) => format!("task/{agent}/{framework}/{task}"),
    }
}

fn agent_record(agent: &Agent, gone: bool) -> AgentRecord {
    let confirmations = agent.confirmations.iter().map(|(uuid, one)| ConfirmationRecord {
        uuid: uuid.to_vec(),
        framework: one.framework.to_string(),
        operation: one.operation.clone(),
    });
    let executors = agent.executors.values().map(|one| ExecutorRecord {
        info: Some((*one.shared.info).clone()),
        role: one.shared.role.to_string(),
        container: one.container.0.to_vec(),
        n_groups: one.n_groups,
    });
    AgentRecord {
        hostname: agent.spec.hostname.clone(),
        ip: agent.spec.ip.clone(),
        port: u32::from(agent.spec.port),
        // An estimate is made anew by an agent that starts.
        resources: agent.spec.resources.only(|mark| !mark.revocable).write(None),
        attributes: agent.spec.attributes.clone(),
        frameworks: agent.frameworks.values().map(|info| (**info).clone()).collect(),
        gone,
        confirmations: confirmations.collect(),
        http_command_executor: agent.spec.http_command_executor,
        executors: executors.collect(),
    }
}
