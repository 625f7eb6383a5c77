//! The states of a rollout, and every way from one to another.

use std::fmt;

/// How far a rollout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum RolloutState {
    /// Instances are being updated.
    #[default]
    Running = 0,
    /// Only its canaries are updated: they wait to be accepted.
    Canary = 1,
    /// Nothing more is updated until somebody decides.
    Paused = 2,
    /// Instances go back to an earlier version.
    RollingBack = 3,
    /// Every instance runs the new version.
    Done = 4,
    /// Every instance runs the earlier version again.
    RolledBack = 5,
}

impl RolloutState {
    /// All states, in order of number.
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Canary,
        Self::Paused,
        Self::RollingBack,
        Self::Done,
        Self::RolledBack,
    ];

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The state of a stored number.
    #[must_use]
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n)).copied()
    }

    /// The word of API and command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Canary => "canary",
            Self::Paused => "paused",
            Self::RollingBack => "rolling-back",
            Self::Done => "done",
            Self::RolledBack => "rolled-back",
        }
    }

    /// Whether a rollout may go from `self` to `next`: whether that is a row of [`TRANSITIONS`].
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to, _)| (*from, *to) == (self, next))
    }

    /// Whether nothing more comes of it.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::RolledBack)
    }
}

/// Every way of a rollout from one state to another, and what takes it there. What is over stays so: the next wish is another rollout.
pub const TRANSITIONS: &[(RolloutState, RolloutState, &str)] = {
    use RolloutState::{Canary, Done, Paused, RolledBack, RollingBack, Running};
    &[
        (Running, Canary, "its canaries are good, and wait to be accepted"),
        (
            Running,
            Paused,
            "it is held by command, or by failures where `on_failure` is `pause`",
        ),
        (Running, Done, "every instance runs the new version and is good"),
        (
            Canary,
            Running,
            "the canaries are accepted, or one of them is not good any more",
        ),
        (Canary, Paused, "it is held by command, or by failures"),
        (Paused, Running, "it goes on by command"),
        (Paused, Canary, "it goes on by command, and its canaries are good"),
        (
            Paused,
            Done,
            "what was under way when it was held has made the last instance good",
        ),
        (Paused, RollingBack, "a rollback goes on by command"),
        (
            Paused,
            RolledBack,
            "what was under way when a rollback was held has made the last instance good",
        ),
        (RollingBack, Paused, "a rollback is held by command"),
        (
            RollingBack,
            RolledBack,
            "every instance runs the earlier version again and is good",
        ),
    ]
};

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_so_and_all_else_can_end() {
        for from in RolloutState::ALL {
            assert_eq!(RolloutState::from_number(from.number()), Some(from));
            let leads_on = TRANSITIONS.iter().any(|(of, _, _)| *of == from);
            assert_eq!(leads_on, !from.is_over(), "{from}");
        }
    }
}
