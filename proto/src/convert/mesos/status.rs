//! Status updates in our words (rules R92, R93, R100).

use super::probe::ready;
use crate::mesos::v1::task_status::{Reason, Source};
use crate::mesos::v1::{TaskState as Wire, TaskStatus as WireStatus};
use echelon_core_hosts::{TaskState, TaskStatus};
use echelon_core_model::platform::EndSource;
use echelon_core_model::{HostId, Timestamp};

/// An update, or the answer to a reconciliation.
#[must_use]
pub fn status_from_wire(status: &WireStatus) -> TaskStatus {
    TaskStatus {
        task: status.task_id.value.clone(),
        state: state(status),
        host: status.agent_id.as_ref().map(|id| HostId::new(&id.value)),
        uuid: status.uuid.as_deref().and_then(|bytes| bytes.try_into().ok()),
        source: source(status),
        reconciliation: status.reason == Some(i32::from(Reason::Reconciliation)),
        reason: reason_word(status),
        message: status.message.clone().unwrap_or_default(),
        at: status.timestamp.and_then(moment),
        healthy: status.healthy,
        ready: status.check_status.as_ref().and_then(ready),
    }
}

/// Mesos' reason without its prefix: `CONTAINER_LIMITATION_MEMORY`; empty when not told or not known.
#[must_use]
pub fn reason_word(status: &WireStatus) -> String {
    let reason = status.reason.and_then(|n| Reason::try_from(n).ok());
    let word = reason.map(|r| r.as_str_name()).unwrap_or_default();
    word.strip_prefix("REASON_").unwrap_or(word).to_owned()
}

/// Which part of Mesos reports a status; `None` when not told.
fn source(status: &WireStatus) -> Option<EndSource> {
    match Source::try_from(status.source?).ok()? {
        Source::Master => Some(EndSource::Master),
        Source::Agent => Some(EndSource::Agent),
        Source::Executor => Some(EndSource::Executor),
    }
}

fn state(status: &WireStatus) -> TaskState {
    match status.state() {
        // Its own agent has ended it, so it is gone, although frameworks without PARTITION_AWARE are told the older word (R91).
        Wire::TaskLost if status.reason() == Reason::ContainerPreempted => TaskState::Gone,
        Wire::TaskStaging => TaskState::Staging,
        Wire::TaskStarting => TaskState::Starting,
        Wire::TaskRunning => TaskState::Running,
        Wire::TaskKilling => TaskState::Killing,
        Wire::TaskFinished => TaskState::Finished,
        Wire::TaskFailed => TaskState::Failed,
        Wire::TaskKilled => TaskState::Killed,
        Wire::TaskError => TaskState::Error,
        Wire::TaskLost => TaskState::Lost,
        Wire::TaskDropped => TaskState::Dropped,
        Wire::TaskUnreachable => TaskState::Unreachable,
        Wire::TaskGone => TaskState::Gone,
        Wire::TaskGoneByOperator => TaskState::GoneByOperator,
        Wire::TaskUnknown => TaskState::Unknown,
    }
}

/// Seconds of the sender's clock as a moment; what is not one is nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to lie in 0..2^53 before the cast"
)]
fn moment(seconds: f64) -> Option<Timestamp> {
    let ms = seconds * 1000.0;
    (ms.is_finite() && (0.0..9_007_199_254_740_992.0).contains(&ms)).then_some(Timestamp(ms as u64))
}
