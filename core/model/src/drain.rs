//! Hosts that operators want empty: the wish, by the host's name, since an agent comes back from a reboot under another id, and how
//! far its shard has come with it.

use crate::id::{GroupName, JobId};
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// What is wanted of one host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostDrain {
    /// Until then batch instances may end by themselves. Everything else leaves at once, as far as `max_unavailable` allows.
    pub batch_until: Timestamp,
    /// Once nothing of ours is left, Mesos is to drain its agent, too, so that other frameworks leave (R131).
    pub agent: bool,
}

/// All hosts of a cluster that are to be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Drains {
    /// Counts the changes, from 1; 0: there never was one. What is older changes nothing.
    pub version: u64,
    /// By the hosts' names.
    pub hosts: BTreeMap<String, HostDrain>,
}

/// How far the drain of a host has come, beside the tasks that it still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainState {
    /// What its shard has taken in.
    pub wish: HostDrain,
    /// What Mesos said when it was asked to drain the agent.
    pub agent: AgentDrain,
    /// What of ours is still there, and why; at most [`MOST_LEFT`] groups.
    pub left: Vec<Left>,
}

/// Groups that are told of a host that is being left: the row stays small, and whoever reads it sees what to do first.
pub const MOST_LEFT: usize = 8;

/// Runs of a group that are still on a host which is to be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Why they are there.
    pub why: Stays,
    /// Whose.
    pub job: JobId,
    /// Of which group.
    pub group: GroupName,
    /// How many.
    pub runs: u32,
}

/// Why a run is still on a host that is to be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stays {
    /// Kills are switched off.
    KillsOff = 1,
    /// Nothing is replaced after a mass loss, until an operator accepts it.
    MassLoss = 2,
    /// As many of its job are down as its `max_unavailable` allows.
    MaxUnavailable = 3,
    /// It may end by itself, until the batch instances' time is over.
    MayEnd = 4,
    /// It goes when everything else has gone.
    GoesLast = 5,
    /// It is being stopped, or is about to be.
    Leaves = 6,
}

impl Stays {
    /// All of them, in order of number: what somebody may have to look into comes first.
    pub const ALL: [Self; 6] = [
        Self::KillsOff,
        Self::MassLoss,
        Self::MaxUnavailable,
        Self::MayEnd,
        Self::GoesLast,
        Self::Leaves,
    ];

    /// The one of a stored number.
    #[must_use]
    pub fn from_number(n: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|why| u32::from(why.number()) == n)
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// What has become of the wish that Mesos drains an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AgentDrain {
    /// It was not asked yet, or did not answer.
    #[default]
    Open,
    /// It does.
    Done,
    /// It does not, with its words; it is asked again.
    Refused(String),
}
