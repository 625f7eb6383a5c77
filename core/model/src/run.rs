//! The life of a run as a table of states. The shard's job manager is the only one that moves a run along it.

use std::fmt;

/// State of a run, and of an instance by its latest run (`Pending` before the first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum RunState {
    /// Not begun: waits for quota, a cluster, a host or a backoff.
    #[default]
    Pending = 0,
    /// A host is being chosen.
    Placing = 1,
    /// The intent is stored; its ACCEPT may be on its way.
    Launching = 2,
    /// Mesos' executor prepares it.
    Starting = 3,
    /// The command runs.
    Running = 4,
    /// Its host is silent; it may live.
    Unreachable = 5,
    /// It is to end; kills are sent until Mesos says that it has.
    Stopping = 6,
    /// Ended with status 0.
    Succeeded = 7,
    /// Ended otherwise.
    Failed = 8,
    /// Ended because we asked.
    Killed = 9,
    /// Mesos says that it is not there any more, or it was given up.
    Lost = 10,
    /// Mesos did not take it; it never ran.
    Rejected = 11,
}

impl RunState {
    /// All states, in order of number.
    pub const ALL: [Self; 12] = [
        Self::Pending,
        Self::Placing,
        Self::Launching,
        Self::Starting,
        Self::Running,
        Self::Unreachable,
        Self::Stopping,
        Self::Succeeded,
        Self::Failed,
        Self::Killed,
        Self::Lost,
        Self::Rejected,
    ];

    /// The state of a stored number.
    #[must_use]
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n)).copied()
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The word of API, command line and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Placing => "placing",
            Self::Launching => "launching",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Unreachable => "unreachable",
            Self::Stopping => "stopping",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Lost => "lost",
            Self::Rejected => "rejected",
        }
    }

    /// Whether nothing of the run can be left.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Killed | Self::Lost | Self::Rejected
        )
    }

    /// Whether Mesos may have a task of this run.
    #[must_use]
    pub const fn may_have_task(self) -> bool {
        matches!(
            self,
            Self::Launching | Self::Starting | Self::Running | Self::Unreachable | Self::Stopping
        )
    }

    /// Whether a run may go from `self` to `next`: whether that is a row of [`TRANSITIONS`].
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        let followers = match self {
            Self::Pending => const { followers(Self::Pending) },
            Self::Placing => const { followers(Self::Placing) },
            Self::Launching => const { followers(Self::Launching) },
            Self::Starting => const { followers(Self::Starting) },
            Self::Running => const { followers(Self::Running) },
            Self::Unreachable => const { followers(Self::Unreachable) },
            Self::Stopping => const { followers(Self::Stopping) },
            Self::Succeeded => const { followers(Self::Succeeded) },
            Self::Failed => const { followers(Self::Failed) },
            Self::Killed => const { followers(Self::Killed) },
            Self::Lost => const { followers(Self::Lost) },
            Self::Rejected => const { followers(Self::Rejected) },
        };
        followers & (1 << next as u16) != 0
    }
}

/// Every way of a run from one state to another, and what takes it there. An ended run stays ended, except that one given up as lost may
/// be seen again (Mesos rule R102). Of an instance between two runs `Pending` is shown.
pub const TRANSITIONS: &[(RunState, RunState, &str)] = {
    use RunState::{
        Failed, Killed, Launching, Lost, Pending, Rejected, Running, Starting, Stopping, Succeeded,
        Unreachable,
    };
    &[
        (
            Pending,
            Launching,
            "a host was chosen, and the intent to launch it there is stored",
        ),
        (Launching, Starting, "its host prepares it"),
        (Launching, Running, "its command runs"),
        (
            Launching,
            Unreachable,
            "its host fell silent before anything else was heard of it",
        ),
        (Launching, Stopping, "it is not wanted any more"),
        (
            Launching,
            Succeeded,
            "it ended with status 0 before anything else was heard of it",
        ),
        (
            Launching,
            Failed,
            "its container could not be made, or it ended otherwise",
        ),
        (Launching, Killed, "its host killed it"),
        (Launching, Lost, "it was given up: its host stayed silent"),
        (
            Launching,
            Rejected,
            "Mesos refused or dropped the launch: it never ran",
        ),
        (Starting, Running, "its command runs"),
        (Starting, Unreachable, "its host fell silent"),
        (Starting, Stopping, "it is not wanted any more"),
        (Starting, Succeeded, "it ended with status 0"),
        (Starting, Failed, "it ended otherwise"),
        (Starting, Killed, "its host killed it"),
        (Starting, Lost, "it is gone with its host, or was given up"),
        (Starting, Rejected, "Mesos says that it never ran"),
        (Running, Unreachable, "its host fell silent: it may live"),
        (Running, Stopping, "it is to end: stored before the first kill"),
        (Running, Succeeded, "it ended with status 0"),
        (
            Running,
            Failed,
            "it ended otherwise, or its health check ended it",
        ),
        (Running, Killed, "its host killed it"),
        (Running, Lost, "it is gone with its host, or was given up"),
        (Unreachable, Starting, "its host is back and prepares it"),
        (Unreachable, Running, "its host is back, and it runs"),
        (
            Unreachable,
            Stopping,
            "it is not wanted any more: it is killed when its host is back",
        ),
        (
            Unreachable,
            Succeeded,
            "its host is back and says that it ended with status 0",
        ),
        (
            Unreachable,
            Failed,
            "its host is back and says that it ended otherwise",
        ),
        (
            Unreachable,
            Killed,
            "its host is back and says that it was killed",
        ),
        (
            Unreachable,
            Lost,
            "its host is gone, or it was given up to be replaced",
        ),
        (Stopping, Succeeded, "it ended with status 0 by itself"),
        (Stopping, Failed, "it ended otherwise by itself"),
        (Stopping, Killed, "it is dead, as was wished"),
        (Stopping, Lost, "it was given up: its host stayed silent"),
        (Stopping, Rejected, "Mesos says that it never ran"),
        (Lost, Running, "it lives after all, and nothing has replaced it"),
        (Lost, Stopping, "it lives after all, and another has replaced it"),
        (
            Lost,
            Succeeded,
            "its host is back and says that it ended with status 0",
        ),
        (Lost, Failed, "its host is back and says that it ended otherwise"),
        (Lost, Killed, "its host is back and says that it was killed"),
    ]
};

/// The states that may follow one, as bits.
const fn followers(of: RunState) -> u16 {
    let (mut rest, mut out) = (TRANSITIONS, 0);
    while let Some(((from, to, _), others)) = rest.split_first() {
        if *from as u8 == of as u8 {
            out |= 1 << *to as u16;
        }
        rest = others;
    }
    out
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back() {
        for state in RunState::ALL {
            assert_eq!(RunState::from_number(state.number()), Some(state));
        }
        assert_eq!(RunState::from_number(12), None);
    }

    #[test]
    fn only_lost_runs_come_back() {
        for from in RunState::ALL.into_iter().filter(|s| s.is_ended()) {
            let back = RunState::ALL
                .into_iter()
                .filter(|to| from.may_become(*to))
                .count();
            assert_eq!(back > 0, from == RunState::Lost, "{from}");
        }
    }

    #[test]
    fn every_state_with_a_task_can_end() {
        for from in RunState::ALL.into_iter().filter(|s| s.may_have_task()) {
            for to in [
                RunState::Succeeded,
                RunState::Failed,
                RunState::Killed,
                RunState::Lost,
            ] {
                assert!(from.may_become(to), "{from} -> {to}");
            }
        }
    }
}
