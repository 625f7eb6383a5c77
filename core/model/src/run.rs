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

    /// Whether a run may go from `self` to `next`. An ended run stays ended, except that one given up as lost may be
    /// seen again (Mesos rule R102).
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use RunState::{
            Failed, Killed, Launching, Lost, Pending, Placing, Rejected, Running, Starting, Stopping,
            Succeeded, Unreachable,
        };
        match self {
            Pending => matches!(next, Placing | Launching),
            Placing => matches!(next, Pending | Launching),
            Launching => matches!(
                next,
                Starting | Running | Unreachable | Stopping | Succeeded | Failed | Killed | Lost | Rejected
            ),
            Starting => matches!(
                next,
                Running | Unreachable | Stopping | Succeeded | Failed | Killed | Lost | Rejected
            ),
            Running => matches!(next, Unreachable | Stopping | Succeeded | Failed | Killed | Lost),
            Unreachable => matches!(
                next,
                Starting | Running | Stopping | Succeeded | Failed | Killed | Lost
            ),
            Stopping => matches!(next, Succeeded | Failed | Killed | Lost | Rejected),
            Lost => matches!(next, Running | Stopping | Succeeded | Failed | Killed),
            Succeeded | Failed | Killed | Rejected => false,
        }
    }
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
