//! Whether Mesos refuses a launch because it knows the task's id already. No id is launched twice, so that task was
//! launched by a leader of which storage knows nothing: storage is behind the cluster.
//!
//! The sentences are those of Mesos 1.12. A refusal for invalid offers is none of them: the master looks at the offers
//! first, and does not say whether it knows the task.

use crate::event::{TaskState, TaskStatus};
use echelon_core_model::platform::EndSource;

/// How the refusals of a master begin: it tracks the task, the task's agent is unreachable, or the agent has an executor of that id.
const BY_MASTER: [&str; 3] = [
    "Task has duplicate ID: ",
    "Task reuses the ID of an unreachable task: ",
    "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID",
];

/// What an agent says of an executor that has, or had, the name of the task's own: the reason and the sentence.
const BY_AGENT: [(&str, &str); 5] = [
    (
        "TASK_INVALID",
        "Cannot reuse an already existing executor for a command task",
    ),
    (
        "EXECUTOR_TERMINATED",
        "Master wants to launch executor, but one already exists",
    ),
    (
        "EXECUTOR_TERMINATED",
        "No executor is expected to launch and there is none running",
    ),
    ("EXECUTOR_TERMINATED", "Executor terminating"),
    ("EXECUTOR_TERMINATED", "Executor terminated"),
];

/// Whether a status refuses a launch because Mesos knows its task, or the executor that has the task's id, from an
/// earlier launch.
///
/// All tasks of a group are refused with one sentence, which names the first that is known: a pod was launched before if
/// one of its members was.
#[must_use]
pub fn was_launched_before(status: &TaskStatus) -> bool {
    match status.state {
        // What the master says itself has no uuid.
        TaskState::Error if status.uuid.is_none() => {
            let said = match status.reason.as_str() {
                "TASK_INVALID" => Some(&*status.message),
                "TASK_GROUP_INVALID" => Some(of_group(&status.message)),
                _ => None,
            };
            said.is_some_and(|said| BY_MASTER.iter().any(|sentence| said.starts_with(sentence)))
        }
        // What an executor says proves nothing: a task may have one of its own.
        TaskState::Dropped if status.uuid.is_some() && status.source != Some(EndSource::Executor) => {
            BY_AGENT.contains(&(&*status.reason, &*status.message))
        }
        _ => false,
    }
}

/// What is wrong with a task of a group. What is wrong with its executor stands alone.
fn of_group(message: &str) -> &str {
    let named = message.strip_prefix("Task '");
    named
        .and_then(|rest| rest.split_once("' is invalid: "))
        .map_or(message, |(_, said)| said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: TaskState, reason: &str, message: &str) -> TaskStatus {
        TaskStatus {
            task: "t".to_owned(),
            state,
            host: None,
            uuid: (state == TaskState::Dropped).then_some([1; 16]),
            source: None,
            reconciliation: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: None,
            healthy: None,
            ready: None,
        }
    }

    #[test]
    fn each_sentence_about_a_known_id_is_proof() {
        for (state, reason, message) in [
            (TaskState::Error, "TASK_INVALID", "Task has duplicate ID: t"),
            (
                TaskState::Error,
                "TASK_INVALID",
                "Task reuses the ID of an unreachable task: t",
            ),
            (
                TaskState::Error,
                "TASK_INVALID",
                "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n-----",
            ),
            (
                TaskState::Error,
                "TASK_GROUP_INVALID",
                "Task 't' is invalid: Task has duplicate ID: t",
            ),
            (
                TaskState::Error,
                "TASK_GROUP_INVALID",
                "Task 't.log' is invalid: Task reuses the ID of an unreachable task: t.log",
            ),
            (
                TaskState::Error,
                "TASK_GROUP_INVALID",
                "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n-----",
            ),
            (
                TaskState::Dropped,
                "TASK_INVALID",
                "Cannot reuse an already existing executor for a command task",
            ),
            (
                TaskState::Dropped,
                "EXECUTOR_TERMINATED",
                "Master wants to launch executor, but one already exists",
            ),
            (
                TaskState::Dropped,
                "EXECUTOR_TERMINATED",
                "No executor is expected to launch and there is none running",
            ),
            (TaskState::Dropped, "EXECUTOR_TERMINATED", "Executor terminating"),
            (TaskState::Dropped, "EXECUTOR_TERMINATED", "Executor terminated"),
        ] {
            let status = said(state, reason, message);
            assert!(was_launched_before(&status), "{state:?} {reason} {message}");
        }
    }

    #[test]
    fn other_refusals_and_other_speakers_prove_nothing() {
        let known = "Task has duplicate ID: t";
        for (state, reason, message) in [
            (TaskState::Error, "TASK_INVALID", "Task uses no resources"),
            (
                TaskState::Error,
                "TASK_GROUP_INVALID",
                "Task 't' is invalid: Task uses no resources",
            ),
            (TaskState::Error, "TASK_UNAUTHORIZED", known),
            (TaskState::Failed, "EXECUTOR_TERMINATED", "Executor terminated"),
            (TaskState::Dropped, "EXECUTOR_TERMINATED", "Cannot find executor"),
            (
                TaskState::Dropped,
                "INVALID_OFFERS",
                "Task assumes outdated resource state",
            ),
            (TaskState::Running, "TASK_INVALID", known),
        ] {
            let status = said(state, reason, message);
            assert!(!was_launched_before(&status), "{state:?} {reason} {message}");
        }
        let invalid_offers = TaskStatus {
            uuid: None,
            ..said(
                TaskState::Dropped,
                "INVALID_OFFERS",
                "Task launched with invalid offers: Offer o is no longer valid",
            )
        };
        assert!(!was_launched_before(&invalid_offers));
        let kept = TaskStatus {
            uuid: Some([1; 16]),
            ..said(TaskState::Error, "TASK_INVALID", known)
        };
        assert!(
            !was_launched_before(&kept),
            "the master keeps nothing that it says itself"
        );
        let by_executor = TaskStatus {
            source: Some(EndSource::Executor),
            ..said(TaskState::Dropped, "EXECUTOR_TERMINATED", "Executor terminated")
        };
        assert!(!was_launched_before(&by_executor));
    }
}
