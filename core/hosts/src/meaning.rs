//! What Mesos' states and reasons mean in our words: the one table of them. Each has a code of ours, for programs and the rules
//! above, and a sentence for a person who reads it in the middle of the night. `docs/mesos-reasons.md` shows the same.
//!
//! Where a state and a reason come together, the reason's code stands if it has one: it says more.

use crate::event::{TaskState, TaskStatus};
use echelon_core_model::{Reason, ReasonCode};
use std::borrow::Cow;

/// What one of Mesos' words means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Mesos' word: of a state with `TASK_`, of a reason without `REASON_`.
    pub word: &'static str,
    /// Our code. A reason without one adds nothing to the state that it comes with.
    pub code: Option<ReasonCode>,
    /// What it means and what to do, for people. Shown where Mesos itself says nothing.
    pub sentence: &'static str,
}

const fn of(word: &'static str, code: ReasonCode, sentence: &'static str) -> Meaning {
    Meaning {
        word,
        code: Some(code),
        sentence,
    }
}

const fn none(word: &'static str, sentence: &'static str) -> Meaning {
    Meaning {
        word,
        code: None,
        sentence,
    }
}

/// Every state of a task.
pub const STATES: [(TaskState, Meaning); 14] = [
    (
        TaskState::Staging,
        of(
            "TASK_STAGING",
            ReasonCode::Starting,
            "Mesos has the launch; nothing runs yet",
        ),
    ),
    (
        TaskState::Starting,
        of(
            "TASK_STARTING",
            ReasonCode::Starting,
            "its host fetches, mounts and starts",
        ),
    ),
    (
        TaskState::Running,
        of("TASK_RUNNING", ReasonCode::Running, "the command runs"),
    ),
    (
        TaskState::Killing,
        of(
            "TASK_KILLING",
            ReasonCode::Running,
            "it was told to end, and ends",
        ),
    ),
    (
        TaskState::Finished,
        of(
            "TASK_FINISHED",
            ReasonCode::Succeeded,
            "the command ended with status 0",
        ),
    ),
    (
        TaskState::Failed,
        of(
            "TASK_FAILED",
            ReasonCode::Failed,
            "the command ended with another status, or could not go on",
        ),
    ),
    (
        TaskState::Killed,
        of("TASK_KILLED", ReasonCode::Killed, "it ended since it was told to"),
    ),
    (
        TaskState::Error,
        of(
            "TASK_ERROR",
            ReasonCode::LaunchInvalid,
            "Mesos refused it; it never ran",
        ),
    ),
    (
        TaskState::Lost,
        of(
            "TASK_LOST",
            ReasonCode::HostGone,
            "Mesos took its host out of service; probably dead, not proven: it is replaced after `on_unreachable`, or `on_gone` where another agent is at its address",
        ),
    ),
    (
        TaskState::Dropped,
        of(
            "TASK_DROPPED",
            ReasonCode::LaunchDropped,
            "it never reached its host, or its host forgot it; it is placed again",
        ),
    ),
    (
        TaskState::Unreachable,
        of(
            "TASK_UNREACHABLE",
            ReasonCode::HostUnreachable,
            "its host is silent; it may run on there, and is replaced after `on_unreachable`",
        ),
    ),
    (
        TaskState::Gone,
        of(
            "TASK_GONE",
            ReasonCode::TaskGone,
            "its host is there and it is not; it is replaced, unless too many are gone at once",
        ),
    ),
    (
        TaskState::GoneByOperator,
        of(
            "TASK_GONE_BY_OPERATOR",
            ReasonCode::GoneByOperator,
            "an operator marked its host as gone: it counts as ended, and is replaced, after `on_gone`",
        ),
    ),
    (
        TaskState::Unknown,
        of(
            "TASK_UNKNOWN",
            ReasonCode::TaskUnknown,
            "Mesos knows neither it nor its host; it may live, and is replaced after `on_unreachable`, unless too many are unknown at once",
        ),
    ),
];

/// Every reason that Mesos gives, in the order of its numbers.
pub const REASONS: [Meaning; 35] = [
    of(
        "COMMAND_EXECUTOR_FAILED",
        ReasonCode::ExecutorFailed,
        "the helper process that runs the command on its host failed",
    ),
    of(
        "EXECUTOR_TERMINATED",
        ReasonCode::ExecutorFailed,
        "the helper process on its host ended before the command did; look at the agent's log",
    ),
    of(
        "EXECUTOR_UNREGISTERED",
        ReasonCode::ExecutorFailed,
        "the helper process on its host never became known to the agent",
    ),
    of(
        "FRAMEWORK_REMOVED",
        ReasonCode::FrameworkRemoved,
        "an operator tore our framework down, or no shard was subscribed for its failover time-out",
    ),
    of(
        "GC_ERROR",
        ReasonCode::LaunchDropped,
        "the host could not clear its work folder; look at its disk and the agent's log",
    ),
    of(
        "INVALID_FRAMEWORKID",
        ReasonCode::LaunchInvalid,
        "the agent does not know our framework id",
    ),
    of(
        "INVALID_OFFERS",
        ReasonCode::LaunchDropped,
        "its offer was gone when the launch came; it is placed again",
    ),
    of(
        "MASTER_DISCONNECTED",
        ReasonCode::MesosUnavailable,
        "the leading master was lost",
    ),
    of(
        "CONTAINER_LIMITATION_MEMORY",
        ReasonCode::OutOfMemory,
        "raise `memory` of its group, or find out what uses so much",
    ),
    none("RECONCILIATION", "an answer to our question; its state says all"),
    none(
        "AGENT_DISCONNECTED",
        "the agent's connection broke; the run may go on there",
    ),
    none(
        "AGENT_REMOVED",
        "the agent did not answer for too long, or was taken out of service",
    ),
    of(
        "AGENT_RESTARTED",
        ReasonCode::LaunchDropped,
        "the agent restarted before it had begun; it is placed again",
    ),
    of(
        "AGENT_UNKNOWN",
        ReasonCode::LaunchDropped,
        "the master does not know the agent; it is placed again",
    ),
    of(
        "TASK_INVALID",
        ReasonCode::LaunchInvalid,
        "the same launch would be refused again: change the job",
    ),
    of(
        "TASK_UNAUTHORIZED",
        ReasonCode::LaunchUnauthorized,
        "Mesos' access rules forbid it to our principal or user",
    ),
    of(
        "TASK_UNKNOWN",
        ReasonCode::TaskUnknown,
        "the master or agent has never heard of it",
    ),
    of(
        "CONTAINER_PREEMPTED",
        ReasonCode::Preempted,
        "it ran on lent room, which is wanted back; it is placed again",
    ),
    of(
        "RESOURCES_UNKNOWN",
        ReasonCode::LaunchDropped,
        "the agent does not have the reserved or persistent resources that it was to use",
    ),
    of(
        "CONTAINER_LIMITATION",
        ReasonCode::KilledByHost,
        "it broke a limit of its container",
    ),
    of(
        "CONTAINER_LIMITATION_DISK",
        ReasonCode::OutOfDisk,
        "raise `disk` of its group, or find out what fills its sandbox",
    ),
    of(
        "CONTAINER_LAUNCH_FAILED",
        ReasonCode::LaunchFailed,
        "its container could not be made: look for a wrong image, volume or address of a file, then at the agent's log",
    ),
    of(
        "CONTAINER_UPDATE_FAILED",
        ReasonCode::ExecutorFailed,
        "the agent could not change its container, and gave it up",
    ),
    of(
        "EXECUTOR_REGISTRATION_TIMEOUT",
        ReasonCode::LaunchFailed,
        "fetching its files or image took longer than the agent allows",
    ),
    of(
        "EXECUTOR_REREGISTRATION_TIMEOUT",
        ReasonCode::ExecutorFailed,
        "the agent restarted, and the helper process did not come back to it in time",
    ),
    of(
        "TASK_GROUP_INVALID",
        ReasonCode::LaunchInvalid,
        "one task of its group is refused, and so all are: change the job",
    ),
    of(
        "TASK_GROUP_UNAUTHORIZED",
        ReasonCode::LaunchUnauthorized,
        "Mesos' access rules forbid one task of its group",
    ),
    of(
        "IO_SWITCHBOARD_EXITED",
        ReasonCode::ExecutorFailed,
        "the process that carries its output ended",
    ),
    none("TASK_CHECK_STATUS_UPDATED", "news of a check; the run goes on"),
    none(
        "TASK_HEALTH_CHECK_STATUS_UPDATED",
        "news of its health check; the run goes on",
    ),
    of(
        "TASK_KILLED_DURING_LAUNCH",
        ReasonCode::Killed,
        "it was to end before it had begun",
    ),
    of(
        "AGENT_REMOVED_BY_OPERATOR",
        ReasonCode::GoneByOperator,
        "an operator marked the agent as gone for good",
    ),
    none("AGENT_REREGISTERED", "its host is back, with it"),
    of(
        "MAX_COMPLETION_TIME_REACHED",
        ReasonCode::DeadlineExceeded,
        "raise `max_run` of its group, or find out what takes so long",
    ),
    of(
        "AGENT_DRAINING",
        ReasonCode::HostDraining,
        "an operator drains the host; it is placed again elsewhere",
    ),
];

/// Longest part of a message that is kept, in bytes: messages are not trusted.
const LONGEST: usize = 240;
/// Of a message that is longer, so much of its beginning is kept; the rest is its end, where Mesos puts the
/// cause, behind paths that fill a line.
const BEGINNING: usize = 60;
/// All that an agent says where it has no containerizer for the kind of container that a task wants.
const UNKNOWN_CONTAINER: &str = "unknown container";
/// What that mostly means, for people.
const NO_CONTAINERIZER: &str =
    "its agent made no container: does its `--containerizers` name the `type` of the job's container?";
/// Stands for what is left out.
const LEFT_OUT: &str = " ... ";

/// What a reason of Mesos means; `None` for none, and for one that this build does not know.
#[must_use]
pub fn meaning(reason: &str) -> Option<&'static Meaning> {
    REASONS.iter().find(|m| m.word == reason)
}

/// Why a task is in the state told, in our words, with what Mesos said of it.
#[must_use]
pub fn reason_of(status: &TaskStatus) -> Reason {
    let state = STATES.iter().find(|(s, _)| *s == status.state).map(|(_, m)| m);
    let cause = meaning(&status.reason).filter(|m| m.code.is_some());
    let signalled = cause.is_none()
        && status.state == TaskState::Failed
        && status.message.contains("terminated with signal");
    let killed_by_health = matches!(status.state, TaskState::Failed | TaskState::Killed)
        && status.healthy == Some(false)
        && cause.and_then(|m| m.code) != Some(ReasonCode::DeadlineExceeded);
    let code = if killed_by_health {
        ReasonCode::Unhealthy
    } else if signalled {
        ReasonCode::Signalled
    } else {
        let found = cause.or(state).and_then(|m| m.code);
        found.unwrap_or(ReasonCode::Failed)
    };
    let reason = Reason::new(code);
    let goes_on = matches!(
        status.state,
        TaskState::Staging | TaskState::Starting | TaskState::Running | TaskState::Killing
    );
    match (status.message.as_str(), cause) {
        _ if goes_on => reason,
        ("", Some(cause)) => reason.at(cause.sentence),
        ("", None) => reason,
        (said, _) if said.ends_with(UNKNOWN_CONTAINER) => {
            reason.at(format!("{} ({NO_CONTAINERIZER})", shortened(said)))
        }
        (said, _) => reason.at(shortened(said)),
    }
}

/// A message without its middle, where it is too long.
fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return Cow::Borrowed(message);
    }
    let end = LONGEST - BEGINNING - LEFT_OUT.len();
    let first = message.get(..message.floor_char_boundary(BEGINNING));
    let last = message.get(message.ceil_char_boundary(message.len() - end)..);
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    Cow::Owned(format!("{}{LEFT_OUT}{}", first.trim_end(), last.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::platform::{EndSource, platform_cause};
    use std::collections::BTreeSet;

    fn told(state: TaskState, reason: &str, message: &str) -> Reason {
        reason_of(&TaskStatus {
            task: String::new(),
            state,
            host: None,
            uuid: None,
            source: None,
            reconciliation: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: None,
            healthy: None,
            ready: None,
        })
    }

    #[test]
    fn every_word_is_told_apart_and_says_something() {
        let words: BTreeSet<&str> = REASONS.iter().map(|m| m.word).collect();
        assert_eq!(words.len(), REASONS.len());
        let states: BTreeSet<TaskState> = STATES.iter().map(|(s, _)| *s).collect();
        assert_eq!(states.len(), STATES.len());
        let all = STATES.iter().map(|(_, m)| m).chain(&REASONS);
        for m in all {
            assert!(m.sentence.len() > 15, "{}: {}", m.word, m.sentence);
            assert!(
                !m.sentence.ends_with('.') && !m.sentence.contains('|'),
                "{}",
                m.word
            );
        }
        assert!(STATES.iter().all(|(_, m)| m.code.is_some()));
    }

    #[test]
    fn a_reason_says_more_than_its_state() {
        for (state, reason, message, expected) in [
            (
                TaskState::Failed,
                "CONTAINER_LIMITATION_MEMORY",
                "",
                ReasonCode::OutOfMemory,
            ),
            (
                TaskState::Failed,
                "",
                "Command terminated with signal Killed",
                ReasonCode::Signalled,
            ),
            (
                TaskState::Failed,
                "",
                "Command exited with status 3",
                ReasonCode::Failed,
            ),
            (
                TaskState::Dropped,
                "INVALID_OFFERS",
                "",
                ReasonCode::LaunchDropped,
            ),
            (TaskState::Lost, "AGENT_REMOVED", "", ReasonCode::HostGone),
            (
                TaskState::Unreachable,
                "AGENT_REMOVED",
                "",
                ReasonCode::HostUnreachable,
            ),
            (TaskState::Gone, "RECONCILIATION", "", ReasonCode::TaskGone),
            (TaskState::Gone, "CONTAINER_PREEMPTED", "", ReasonCode::Preempted),
            (TaskState::Killed, "AGENT_DRAINING", "", ReasonCode::HostDraining),
            (TaskState::Failed, "A_REASON_OF_TOMORROW", "", ReasonCode::Failed),
        ] {
            assert_eq!(told(state, reason, message).code, expected, "{state:?} {reason}");
        }
    }

    #[test]
    fn no_reason_that_is_the_runs_own_counts_as_a_fault_of_the_platform() {
        let own = [
            ReasonCode::OutOfMemory,
            ReasonCode::OutOfDisk,
            ReasonCode::KilledByHost,
            ReasonCode::Killed,
            ReasonCode::Preempted,
            ReasonCode::DeadlineExceeded,
            ReasonCode::HostDraining,
            ReasonCode::GoneByOperator,
            ReasonCode::LaunchInvalid,
            ReasonCode::LaunchUnauthorized,
        ];
        let counts = |m: &Meaning| {
            let mut sources = EndSource::ALL.into_iter();
            sources.any(|source| platform_cause(source, m.word, "").is_some())
        };
        let is_own = |m: &&Meaning| m.code.is_some_and(|code| own.contains(&code));
        assert!(REASONS.iter().filter(is_own).all(|m| !counts(m)));
        assert_eq!(REASONS.iter().filter(|m| counts(m)).count(), 14);
    }

    #[test]
    fn a_long_message_keeps_its_end_where_the_cause_is() {
        let path = "/var/lib/mesos/slaves/7a1d3c62-5b0e-4b6f-9a54-1f0c53c2d9aa-S4/frameworks/7a1d3c62-0001/executors";
        let said = format!(
            "Failed to create executor directory '{path}/runs/1' for '{path}': Failed to chown '{path}/runs/1': \
             No such user 'nosuchuser'"
        );
        let kept = told(TaskState::Dropped, "EXECUTOR_TERMINATED", &said);
        let kept = kept.detail.unwrap();
        assert!(kept.len() <= LONGEST, "{}", kept.len());
        assert!(
            kept.starts_with("Failed to create executor directory '/var/"),
            "{kept}"
        );
        assert!(kept.ends_with(": No such user 'nosuchuser'"), "{kept}");
        let short = "x".repeat(LONGEST);
        assert_eq!(
            told(TaskState::Failed, "", &short).detail.as_deref(),
            Some(&*short)
        );
    }

    #[test]
    fn a_container_of_a_kind_that_the_agent_does_not_make_is_explained() {
        let said = "Abnormal executor termination: unknown container";
        let shown = told(TaskState::Failed, "EXECUTOR_TERMINATED", said)
            .detail
            .unwrap();
        assert!(
            shown.starts_with(said) && shown.contains("`--containerizers`"),
            "{shown}"
        );
        assert!(shown.len() <= LONGEST, "it may be quoted as a whole");
        let other = told(
            TaskState::Failed,
            "EXECUTOR_TERMINATED",
            "unknown container of another",
        );
        assert_eq!(other.detail.as_deref(), Some("unknown container of another"));
    }

    #[test]
    fn what_mesos_says_is_shown_and_bounded_and_our_own_sentence_where_it_says_nothing() {
        let long = "é".repeat(400);
        let kept = told(TaskState::Failed, "", &long).detail.unwrap();
        assert!((LONGEST - 4..=LONGEST).contains(&kept.len()), "{}", kept.len());
        assert!(kept.contains(" ... "), "{kept}");
        let silent = told(TaskState::Failed, "CONTAINER_LIMITATION_DISK", "");
        let shown = silent.to_string();
        assert!(shown.contains("find out what fills its sandbox"), "{shown}");
        assert_eq!(told(TaskState::Running, "", "anything").detail, None);
    }
}
