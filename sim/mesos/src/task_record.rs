//! The record of a task on an agent, with its unacknowledged updates.

use crate::agent::{Agent, AgentTask, Extra, Life, Phase, Update};
use crate::bundle::Bundle;
use crate::id::{Container, ExecutorId, FrameworkId};
use crate::shared_executor::Place;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{CheckStatusInfo, Labels, Resource, TaskState};
use prost::Message;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskRecord {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    role: String,
    #[prost(message, repeated, tag = "3")]
    resources: Vec<Resource>,
    #[prost(bytes = "vec", tag = "4")]
    container: Vec<u8>,
    #[prost(uint32, tag = "5")]
    pid: u32,
    #[prost(uint32, tag = "6")]
    phase: u32,
    #[prost(enumeration = "TaskState", tag = "7")]
    state: i32,
    #[prost(message, repeated, tag = "8")]
    updates: Vec<UpdateRecord>,
    #[prost(uint64, tag = "9")]
    grace_ms: u64,
    #[prost(string, optional, tag = "10")]
    executor: Option<String>,
    #[prost(uint64, optional, tag = "11")]
    group: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct UpdateRecord {
    #[prost(bytes = "vec", tag = "1")]
    uuid: Vec<u8>,
    #[prost(enumeration = "TaskState", tag = "2")]
    state: i32,
    #[prost(enumeration = "Source", tag = "3")]
    source: i32,
    #[prost(enumeration = "Reason", optional, tag = "4")]
    reason: Option<i32>,
    #[prost(string, optional, tag = "5")]
    message: Option<String>,
    #[prost(uint64, tag = "6")]
    at_ms: u64,
    #[prost(bool, optional, tag = "7")]
    healthy: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "8")]
    data: Option<Vec<u8>>,
    #[prost(message, optional, tag = "9")]
    labels: Option<Labels>,
    #[prost(message, optional, tag = "10")]
    check_status: Option<CheckStatusInfo>,
}

pub(crate) fn task_record(task: &AgentTask) -> TaskRecord {
    let extra = |update: &Update| update.extra.as_deref().cloned().unwrap_or_default();
    let updates = task.updates.iter().map(|update| UpdateRecord {
        healthy: extra(update).healthy,
        data: extra(update).data,
        labels: extra(update).labels,
        check_status: extra(update).check_status,
        uuid: update.uuid.to_vec(),
        state: update.state.into(),
        source: update.source.into(),
        reason: update.reason.map(Into::into),
        message: update.message.clone(),
        at_ms: update.at.0,
    });
    TaskRecord {
        name: task.name.to_string(),
        role: task.role.to_string(),
        resources: task.resources.write(None),
        container: task.container.0.to_vec(),
        pid: task.pid,
        phase: match task.phase {
            Phase::Launching => 0,
            Phase::Running => 1,
            Phase::Killing => 2,
            Phase::Lost => 3,
            Phase::Ended => 4,
        },
        state: task.state.into(),
        updates: updates.collect(),
        grace_ms: task.grace.0,
        executor: task.place.as_ref().map(|place| place.executor.to_string()),
        group: task.place.as_ref().and_then(|place| place.group),
    }
}

/// A task of `framework` on `agent`, whose executors are known already.
pub(crate) fn restored_task(
    record: TaskRecord,
    framework: &FrameworkId,
    agent: &Agent,
) -> Result<AgentTask, &'static str> {
    let phase = match record.phase {
        0 => Phase::Launching,
        1 => Phase::Running,
        2 => Phase::Killing,
        3 => Phase::Lost,
        4 => Phase::Ended,
        _ => return Err("phase"),
    };
    let place = match &record.executor {
        Some(executor) => {
            let key = (framework.clone(), ExecutorId::new(executor));
            let known = agent.executors.get(&key).ok_or("executor")?;
            Some(Arc::new(Place {
                executor: key.1,
                container: known.container,
                group: record.group,
            }))
        }
        None => None,
    };
    let updates: Result<VecDeque<Update>, &'static str> =
        record.updates.into_iter().map(restored_update).collect();
    Ok(AgentTask {
        name: Arc::from(record.name.as_str()),
        role: Arc::from(record.role.as_str()),
        resources: Bundle::read(&record.resources).map_err(|_| "list of resources")?,
        container: Container(record.container.try_into().map_err(|_| "container id")?),
        pid: record.pid,
        phase,
        state: TaskState::try_from(record.state).map_err(|_| "state")?,
        updates: updates?,
        retry: None,
        grace: Span(record.grace_ms),
        term_at: None,
        watch: None,
        life: Life::default(),
        place,
    })
}

fn restored_update(record: UpdateRecord) -> Result<Update, &'static str> {
    let extra = Extra {
        healthy: record.healthy,
        data: record.data,
        labels: record.labels,
        check_status: record.check_status,
    };
    Ok(Update {
        uuid: record.uuid.try_into().map_err(|_| "uuid")?,
        state: TaskState::try_from(record.state).map_err(|_| "state of an update")?,
        source: Source::try_from(record.source).map_err(|_| "source of an update")?,
        reason: record
            .reason
            .map(Reason::try_from)
            .transpose()
            .map_err(|_| "reason of an update")?,
        message: record.message,
        at: Timestamp(record.at_ms),
        extra: (extra != Extra::default()).then(|| Box::new(extra)),
    })
}
