//! Pods: instances of several tasks that share a host. The members of a pod are its main task, which is the run's own, and
//! its sidecars, which start and end with it. Mesos runs them as one task group below one executor (rules R71, R83).

use crate::id::{IdError, SidecarName, TaskId};
use crate::instance::Run;
use crate::resources::Resources;
use crate::run::RunState;
use crate::runtime::Runtime;
use crate::spec::GroupSpec;
use std::fmt;
use std::str::FromStr;

/// Most sidecars of a group: each is a task of its own for Mesos, and travels in every launch.
pub const MAX_SIDECARS: usize = 8;

/// What the executor takes that runs a pod's tasks. Mesos wants at least 0.01 cores, 32 MiB of memory and some disk (rule
/// R82); a tenth of a core is what agents give the executors of single tasks (R80).
pub const EXECUTOR: Resources = Resources {
    cpus: 100,
    memory: 32,
    disk: 16,
    gpus: 0,
};

/// The main task among the members of a pod, for people. No sidecar may be called so.
pub const MAIN: &str = "main";

/// A container that runs beside the main task of each instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sidecar {
    /// Its name within the group.
    pub name: SidecarName,
    /// What it is made of. Ports are the group's, so it names none; and it has no readiness probe.
    pub runtime: Runtime,
    /// Its room.
    pub resources: Resources,
}

/// One task of a pod's run, as the cluster tells of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Its name; `None`: the main task.
    pub sidecar: Option<SidecarName>,
    /// Its own state; never `Stopping`, which is the run's.
    pub state: RunState,
    /// Exit status, when it is known.
    pub exit_code: Option<i32>,
    /// What its health check said last; `None`: nothing yet, or it has none.
    pub healthy: Option<bool>,
}

impl Member {
    /// A member of which nothing was heard.
    #[must_use]
    pub const fn new(sidecar: Option<SidecarName>) -> Self {
        Self {
            sidecar,
            state: RunState::Launching,
            exit_code: None,
            healthy: None,
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        self.sidecar.as_ref().map_or(MAIN, SidecarName::as_str)
    }
}

/// What Mesos calls one task of a run: the run's own id for its main task, `<the run's id>.<sidecar>` for a sidecar. At most 187
/// bytes of characters that every version of Mesos takes (rule R73). A program that knows no pods takes the longer form for
/// nobody's task, and leaves it alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The run.
    pub run: TaskId,
    /// The sidecar; `None`: the main task.
    pub sidecar: Option<SidecarName>,
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, sidecar } = self;
        match sidecar {
            None => run.fmt(f),
            Some(name) => write!(f, "{run}.{name}"),
        }
    }
}

impl FromStr for MemberId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // A run's id has exactly five parts, so nothing can be read as both.
        match text.parse() {
            Ok(run) => Ok(Self { run, sidecar: None }),
            Err(wrong) => {
                let (run, name) = text.rsplit_once('.').ok_or(wrong)?;
                let wrong = |_| IdError::Task(text.to_owned());
                Ok(Self {
                    run: run.parse().map_err(wrong)?,
                    sidecar: Some(SidecarName::parse(name).map_err(wrong)?),
                })
            }
        }
    }
}

/// The room of an instance with these sidecars: theirs, the main task's, and that of the executor which a pod needs.
#[must_use]
pub fn room(main: Resources, sidecars: impl IntoIterator<Item = Resources>) -> Resources {
    let mut sidecars = sidecars.into_iter().peekable();
    let alone = if sidecars.peek().is_some() {
        main.plus(EXECUTOR)
    } else {
        main
    };
    sidecars.fold(alone, Resources::plus)
}

impl GroupSpec {
    /// The room of one instance, whole. Whoever places, grants, counts or refuses asks this.
    #[must_use]
    pub fn room(&self) -> Resources {
        room(self.resources, self.sidecars.iter().map(|s| s.resources)).plus(self.volume_room())
    }

    /// The part of that room that is its volume.
    #[must_use]
    pub fn volume_room(&self) -> Resources {
        Resources {
            disk: self.volume.as_ref().map_or(0, |v| v.size),
            ..Resources::ZERO
        }
    }

    /// What a run still takes of its host: a member that is known dead gives its room back at once, the executor's comes back
    /// with the last.
    #[must_use]
    pub fn room_left(&self, run: &Run) -> Resources {
        if run.members.is_empty() {
            return self.room();
        }
        let lives = |m: &&Member| !m.state.is_ended();
        let of = |m: &Member| match &m.sidecar {
            // Its volume is the main task's alone.
            None => self.resources.plus(self.volume_room()),
            Some(name) => self
                .sidecars
                .iter()
                .find(|s| s.name == *name)
                .map_or(Resources::ZERO, |s| s.resources),
        };
        run.members
            .iter()
            .filter(lives)
            .fold(EXECUTOR, |sum, m| sum.plus(of(m)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, GroupName, InstanceId, InstanceNumber, JobId, RunNumber};
    use proptest::prelude::*;

    fn run(job: u128, group: &str, numbers: (u32, u32, u32)) -> TaskId {
        TaskId {
            instance: InstanceId {
                job: JobId(job),
                group: GroupName::new(group),
                number: InstanceNumber(numbers.0),
            },
            generation: Generation(numbers.1),
            run: RunNumber(numbers.2),
        }
    }

    proptest! {
        #[test]
        fn ids_of_members_read_back_and_are_taken_for_no_run(
            job: u128, group in "[a-z0-9-]{1,63}", name in "[a-z0-9-]{1,63}", n: u32, g: u32, r: u32
        ) {
            let run = run(job, &group, (n, g, r));
            let main = MemberId { run: run.clone(), sidecar: None };
            prop_assert_eq!(main.to_string(), run.to_string());
            prop_assert_eq!(main.to_string().parse::<MemberId>(), Ok(main));
            let sidecar = MemberId { run, sidecar: Some(SidecarName::new(name)) };
            let text = sidecar.to_string();
            prop_assert!(text.len() <= 187, "{}", text);
            prop_assert!(text.parse::<TaskId>().is_err(), "{}", text);
            prop_assert_eq!(text.parse::<MemberId>(), Ok(sidecar));
        }
    }

    #[test]
    fn what_is_not_ours_is_no_member() {
        let run = run(7, "main", (1, 1, 1)).to_string();
        for text in [
            String::new(),
            "task-1".to_owned(),
            format!("{run}."),
            format!("{run}.Log"),
            format!("{run}.log.log"),
            format!("{run}.{}", "a".repeat(64)),
            run.replace(".main.", ".main.x."),
        ] {
            assert!(text.parse::<MemberId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pod_takes_what_its_tasks_and_their_executor_take() {
        let shape = |cpus, memory| Resources {
            cpus,
            memory,
            ..Resources::ZERO
        };
        let main = shape(1000, 64);
        assert_eq!(room(main, []), main, "a task alone needs no executor of ours");
        let whole = room(main, [shape(200, 32), shape(300, 16)]);
        assert_eq!(whole.to_string(), "cpus 1.6, memory 144MiB, disk 16MiB");
    }
}
