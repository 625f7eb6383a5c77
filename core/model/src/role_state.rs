//! What a process says of itself to gateways: a resource manager or a shard, leader or standby, or another gateway.

use crate::id::Epoch;
use crate::time::Timestamp;

/// The contact of a process with servers that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerContact {
    /// They have not answered yet.
    #[default]
    Unknown,
    /// They answer.
    Connected,
    /// They have not answered for some seconds.
    Silent {
        /// When they answered last; else when they were asked first.
        since: Timestamp,
        /// What came in place of an answer, for people.
        reason: String,
    },
}

/// What a process does in its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RoleStanding {
    /// Another one leads, or none.
    #[default]
    Standby,
    /// It was elected and reads what is stored.
    Recovering,
    /// It leads.
    Leader,
    /// It cannot tell whether it still leads, and does nothing.
    Suspended,
    /// It was elected, and starts and stops nothing, since what it sees cannot be right.
    Frozen,
    /// It is a gateway, which needs no election.
    Serving,
}

impl RoleStanding {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Standby,
        Self::Recovering,
        Self::Leader,
        Self::Suspended,
        Self::Frozen,
        Self::Serving,
    ];

    /// Whether a process that stands so decides for its role, or would if what it sees were right.
    #[must_use]
    pub const fn leads(self) -> bool {
        matches!(self, Self::Recovering | Self::Leader | Self::Frozen)
    }
}

/// Something that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleAlarm {
    /// What it is, for people.
    pub summary: String,
    /// The command that helps, or shows more.
    pub command: String,
}

/// What a process says of its role.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleState {
    /// Its build, for people: the version and the commit.
    pub build: String,
    /// What it does.
    pub standing: RoleStanding,
    /// Its epoch; 0 while it has none.
    pub epoch: Epoch,
    /// How it sees the membership servers.
    pub membership: ServerContact,
    /// How it sees storage.
    pub storage: ServerContact,
    /// Why it is frozen, for people, at most [`LONGEST_REASON`] bytes; empty while it is not.
    pub frozen: String,
    /// What is open, at most [`MOST_ALARMS`].
    pub alarms: Vec<RoleAlarm>,
}

/// Bytes of the reason why a process is frozen; what is beyond them is cut off.
pub const LONGEST_REASON: usize = 512;

/// Alarms of one process; more are counted by the last one.
pub const MOST_ALARMS: usize = 32;
