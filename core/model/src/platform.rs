//! Whether a run has ended by a fault of the platform that was to run it, and not by the run itself.
//!
//! What an end says of a cluster, and whether a run may be tried again without counting against its
//! retries, both follow from this one function.

use std::fmt;

/// Which part of Mesos reports an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndSource {
    /// The executor, which runs on the host beside the task.
    Executor,
    /// The agent of the host.
    Agent,
    /// The master.
    Master,
}

impl EndSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Executor, Self::Agent, Self::Master];
}

/// The part of the platform by which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlatformCause {
    /// The container could not be made, or was lost by what keeps it.
    Container,
    /// The fetcher could not bring the files of the run.
    Fetcher,
    /// The image store could not bring the image.
    ImageStore,
    /// The executor did not register with its agent, or ended before the task did.
    Executor,
    /// The agent could not take the run, or was gone when it came.
    Agent,
}

impl PlatformCause {
    /// All of them, in order of number.
    pub const ALL: [Self; 5] = [
        Self::Container,
        Self::Fetcher,
        Self::ImageStore,
        Self::Executor,
        Self::Agent,
    ];

    /// Its stable number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Container => 1,
            Self::Fetcher => 2,
            Self::ImageStore => 3,
            Self::Executor => 4,
            Self::Agent => 5,
        }
    }

    /// The cause with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Container,
            2 => Self::Fetcher,
            3 => Self::ImageStore,
            4 => Self::Executor,
            5 => Self::Agent,
            _ => return None,
        })
    }
}

impl fmt::Display for PlatformCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container => "containers that cannot be made",
            Self::Fetcher => "the fetcher of files",
            Self::ImageStore => "the image store",
            Self::Executor => "executors that do not register or end early",
            Self::Agent => "agents that do not take launches",
        })
    }
}

/// By which fault of the platform a run ended; `None`: by none, or that is not certain.
///
/// `reason` is Mesos' reason without `REASON_`; empty: none was given. `message` is not trusted: it only
/// decides which part of the platform is named, and never whether the end counts.
///
/// | Mesos' reason | reported by | cause |
/// | --- | --- | --- |
/// | `CONTAINER_LAUNCH_FAILED`, with a message about fetching | agent, executor | the fetcher |
/// | `CONTAINER_LAUNCH_FAILED`, with a message about an image | agent, executor | the image store |
/// | `CONTAINER_LAUNCH_FAILED`, with any other message | agent, executor | the container |
/// | `CONTAINER_UPDATE_FAILED`, `IO_SWITCHBOARD_EXITED` | agent | the container |
/// | `EXECUTOR_REGISTRATION_TIMEOUT`, `EXECUTOR_REREGISTRATION_TIMEOUT` | agent | the executor |
/// | `EXECUTOR_UNREGISTERED` | agent | the executor |
/// | `EXECUTOR_TERMINATED`, `COMMAND_EXECUTOR_FAILED` | agent | the executor |
/// | `AGENT_RESTARTED`, `GC_ERROR`, `RESOURCES_UNKNOWN` | agent | the agent |
/// | `AGENT_UNKNOWN`, `AGENT_DISCONNECTED`, `AGENT_REMOVED` | master | the agent |
/// | none: the exit status or the signal of the command | any | none: the run's own |
/// | `CONTAINER_LIMITATION`, also of memory or disk | any | none: the run's own |
/// | `MAX_COMPLETION_TIME_REACHED` | any | none: the run's own |
/// | `TASK_HEALTH_CHECK_STATUS_UPDATED`, `TASK_CHECK_STATUS_UPDATED` | any | none: the run's own |
/// | `TASK_INVALID`, `TASK_UNAUTHORIZED` and the same of groups | any | none: the job's own |
/// | `INVALID_FRAMEWORKID` | any | none: the job's own |
/// | `TASK_KILLED_DURING_LAUNCH`, `CONTAINER_PREEMPTED`, `AGENT_DRAINING` | any | none: a kill |
/// | `AGENT_REMOVED_BY_OPERATOR`, `FRAMEWORK_REMOVED` | any | none: done by an operator |
/// | `INVALID_OFFERS`, `MASTER_DISCONNECTED` | any | none: a race of every failover |
/// | `RECONCILIATION`, `AGENT_REREGISTERED`, `TASK_UNKNOWN` | any | none: it says no cause |
/// | one of a later Mesos | any | none: it is not known |
///
/// Of what an executor reports only a failed launch counts, which the executor of a pod reports of the pod's
/// members. It shares the container with the run, so what else it reports may be the run's doing.
#[must_use]
pub fn platform_cause(source: EndSource, reason: &str, message: &str) -> Option<PlatformCause> {
    match (source, reason) {
        (EndSource::Agent | EndSource::Executor, "CONTAINER_LAUNCH_FAILED") => Some(of_launch(message)),
        (EndSource::Agent, "CONTAINER_UPDATE_FAILED" | "IO_SWITCHBOARD_EXITED") => {
            Some(PlatformCause::Container)
        }
        (
            EndSource::Agent,
            "EXECUTOR_REGISTRATION_TIMEOUT"
            | "EXECUTOR_REREGISTRATION_TIMEOUT"
            | "EXECUTOR_UNREGISTERED"
            | "EXECUTOR_TERMINATED"
            | "COMMAND_EXECUTOR_FAILED",
        ) => Some(PlatformCause::Executor),
        (EndSource::Agent, "AGENT_RESTARTED" | "GC_ERROR" | "RESOURCES_UNKNOWN")
        | (EndSource::Master, "AGENT_UNKNOWN" | "AGENT_DISCONNECTED" | "AGENT_REMOVED") => {
            Some(PlatformCause::Agent)
        }
        _ => None,
    }
}

/// By which fault of the platform a launch was dropped; `None`: by none that counts.
///
/// A dropped launch never ran, so nothing of the run can explain the drop. It counts whatever its reason is,
/// also one of a later Mesos, but for those that a stale offer, a race of a failover, a kill or an operator
/// explains, or that the job itself is refused by: it would be repeated without end.
#[must_use]
pub fn drop_cause(source: EndSource, reason: &str, message: &str) -> Option<PlatformCause> {
    let is_explained = matches!(
        reason,
        "INVALID_OFFERS"
            | "MASTER_DISCONNECTED"
            | "TASK_KILLED_DURING_LAUNCH"
            | "CONTAINER_PREEMPTED"
            | "AGENT_DRAINING"
            | "AGENT_REMOVED_BY_OPERATOR"
            | "FRAMEWORK_REMOVED"
            | "TASK_INVALID"
            | "TASK_UNAUTHORIZED"
            | "TASK_GROUP_INVALID"
            | "TASK_GROUP_UNAUTHORIZED"
            | "INVALID_FRAMEWORKID"
    );
    let is_known = platform_cause(source, reason, message);
    is_known.or_else(|| (!is_explained && source != EndSource::Executor).then_some(PlatformCause::Agent))
}

/// What a launch of a container failed by. Mesos gives one reason for all, and says more only in words.
fn of_launch(message: &str) -> PlatformCause {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["fetch", "Fetch"]) {
        PlatformCause::Fetcher
    } else if says(&["image", "Image", "pull", "manifest", "provision"]) {
        PlatformCause::ImageStore
    } else {
        PlatformCause::Container
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EndSource::{Agent, Executor, Master};

    /// Each reason that counts, with what reports it. All others count for none.
    const COUNTED: [(&str, &[EndSource], PlatformCause); 14] = [
        (
            "CONTAINER_LAUNCH_FAILED",
            &[Agent, Executor],
            PlatformCause::Container,
        ),
        ("CONTAINER_UPDATE_FAILED", &[Agent], PlatformCause::Container),
        ("IO_SWITCHBOARD_EXITED", &[Agent], PlatformCause::Container),
        ("EXECUTOR_REGISTRATION_TIMEOUT", &[Agent], PlatformCause::Executor),
        (
            "EXECUTOR_REREGISTRATION_TIMEOUT",
            &[Agent],
            PlatformCause::Executor,
        ),
        ("EXECUTOR_UNREGISTERED", &[Agent], PlatformCause::Executor),
        ("EXECUTOR_TERMINATED", &[Agent], PlatformCause::Executor),
        ("COMMAND_EXECUTOR_FAILED", &[Agent], PlatformCause::Executor),
        ("AGENT_RESTARTED", &[Agent], PlatformCause::Agent),
        ("GC_ERROR", &[Agent], PlatformCause::Agent),
        ("RESOURCES_UNKNOWN", &[Agent], PlatformCause::Agent),
        ("AGENT_UNKNOWN", &[Master], PlatformCause::Agent),
        ("AGENT_DISCONNECTED", &[Master], PlatformCause::Agent),
        ("AGENT_REMOVED", &[Master], PlatformCause::Agent),
    ];

    /// The other reasons of Mesos, the absent one, and one of a later Mesos.
    const NOT_COUNTED: [&str; 23] = [
        "",
        "FRAMEWORK_REMOVED",
        "INVALID_FRAMEWORKID",
        "INVALID_OFFERS",
        "MASTER_DISCONNECTED",
        "CONTAINER_LIMITATION_MEMORY",
        "RECONCILIATION",
        "TASK_INVALID",
        "TASK_UNAUTHORIZED",
        "TASK_UNKNOWN",
        "CONTAINER_PREEMPTED",
        "CONTAINER_LIMITATION",
        "CONTAINER_LIMITATION_DISK",
        "TASK_GROUP_INVALID",
        "TASK_GROUP_UNAUTHORIZED",
        "TASK_CHECK_STATUS_UPDATED",
        "TASK_HEALTH_CHECK_STATUS_UPDATED",
        "TASK_KILLED_DURING_LAUNCH",
        "AGENT_REMOVED_BY_OPERATOR",
        "AGENT_REREGISTERED",
        "MAX_COMPLETION_TIME_REACHED",
        "AGENT_DRAINING",
        "A_REASON_OF_TOMORROW",
    ];

    #[test]
    fn each_reason_counts_only_from_the_part_that_can_know_it() {
        for (reason, sources, cause) in COUNTED {
            for source in EndSource::ALL {
                let expected = sources.contains(&source).then_some(cause);
                assert_eq!(
                    platform_cause(source, reason, ""),
                    expected,
                    "{source:?} {reason}"
                );
            }
        }
    }

    #[test]
    fn what_a_run_a_job_or_an_operator_does_never_counts() {
        // Words do not make a platform's fault of it, whatever they say.
        let message = "Failed to fetch the image: Command exited with status 1";
        for reason in NOT_COUNTED {
            for source in EndSource::ALL {
                assert_eq!(
                    platform_cause(source, reason, message),
                    None,
                    "{source:?} {reason}"
                );
            }
        }
    }

    #[test]
    fn a_drop_counts_unless_a_stale_offer_a_failover_a_kill_or_an_operator_explains_it() {
        for (source, reason, expected) in [
            (Agent, "EXECUTOR_TERMINATED", Some(PlatformCause::Executor)),
            (Agent, "GC_ERROR", Some(PlatformCause::Agent)),
            (Agent, "A_REASON_OF_TOMORROW", Some(PlatformCause::Agent)),
            (Agent, "", Some(PlatformCause::Agent)),
            (Agent, "RECONCILIATION", Some(PlatformCause::Agent)),
            (Master, "AGENT_DISCONNECTED", Some(PlatformCause::Agent)),
            (Master, "INVALID_OFFERS", None),
            (Master, "MASTER_DISCONNECTED", None),
            (Agent, "TASK_KILLED_DURING_LAUNCH", None),
            (Agent, "AGENT_DRAINING", None),
            (Agent, "CONTAINER_PREEMPTED", None),
            (Master, "AGENT_REMOVED_BY_OPERATOR", None),
            (Master, "FRAMEWORK_REMOVED", None),
            (Agent, "TASK_INVALID", None),
            (Executor, "A_REASON_OF_TOMORROW", None),
        ] {
            assert_eq!(drop_cause(source, reason, ""), expected, "{source:?} {reason}");
        }
    }

    #[test]
    fn a_failed_launch_names_the_part_by_what_mesos_says() {
        for (message, expected) in [
            ("", PlatformCause::Container),
            (
                "Failed to launch container: Failed to create containerizer",
                PlatformCause::Container,
            ),
            (
                "Failed to launch container: Failed to fetch all URIs for container 'c' with exit status: 256",
                PlatformCause::Fetcher,
            ),
            (
                "Failed to launch container: Failed to pull image 'a:1'",
                PlatformCause::ImageStore,
            ),
            (
                "Failed to launch container: Failed to provision rootfs",
                PlatformCause::ImageStore,
            ),
        ] {
            let found = platform_cause(Agent, "CONTAINER_LAUNCH_FAILED", message);
            assert_eq!(found, Some(expected), "{message}");
        }
    }

    #[test]
    fn causes_read_back_by_number() {
        for (cause, number) in PlatformCause::ALL.into_iter().zip(1..) {
            assert_eq!(cause.number(), number);
            assert_eq!(PlatformCause::from_number(number), Some(cause));
        }
        assert_eq!(PlatformCause::from_number(0), None);
        assert_eq!(PlatformCause::from_number(6), None);
    }
}
