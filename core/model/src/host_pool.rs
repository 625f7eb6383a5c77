//! Host pools: each host of a cluster is in one, by its name, since an agent comes back from a reboot under another id. Which one a host
//! is in, its shard says; that it is to go to another, operators do, and the host is left empty before it does.

use crate::drain::Left;
use crate::id::{HostPoolName, IdError};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The hosts that a group may use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPoolChoice {
    /// Those of every host pool.
    Any,
    /// Those of this one.
    Only(HostPoolName),
}

impl HostPoolChoice {
    /// How the choice of every host pool is written.
    pub const ANY: &'static str = "*";

    /// Reads `*` or the name of a host pool.
    ///
    /// # Errors
    /// `IdError::HostPool` when the text is neither.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text == Self::ANY {
            Ok(Self::Any)
        } else {
            HostPoolName::parse(text).map(Self::Only)
        }
    }

    /// Whether hosts of a host pool may be used.
    #[must_use]
    pub fn lets(&self, pool: &HostPoolName) -> bool {
        match self {
            Self::Any => true,
            Self::Only(name) => name == pool,
        }
    }
}

impl Default for HostPoolChoice {
    fn default() -> Self {
        Self::Only(HostPoolName::default())
    }
}

impl fmt::Display for HostPoolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(Self::ANY),
            Self::Only(name) => name.fmt(f),
        }
    }
}

/// That a host is to go to another host pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostMove {
    /// Where it is to be.
    pub to: HostPoolName,
    /// Until then batch instances may end by themselves. Everything else leaves at once, as far as `max_unavailable` allows.
    pub batch_until: Timestamp,
}

/// All hosts of a cluster that are to be in a certain host pool. One that is there already stays there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostMoves {
    /// Counts the changes, from 1; 0: there never was one. What is older changes nothing.
    pub version: u64,
    /// By the hosts' names. A host that is not named stays where it is.
    pub hosts: BTreeMap<String, HostMove>,
}

/// What operators want of a cluster's host pools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostPoolWishes {
    /// Those that there are beside `default`.
    pub names: BTreeSet<HostPoolName>,
    /// Hosts that are to be in one.
    pub moves: HostMoves,
}

/// In which host pool a host is, and how far it is on its way to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPlace {
    /// Its host pool.
    pub pool: HostPoolName,
    /// Set while it is being left empty to go to another.
    pub moving: Option<HostMoving>,
}

/// How far the move of a host has come, beside the tasks that it still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMoving {
    /// What its shard has taken in.
    pub wish: HostMove,
    /// What of ours is still there, and why; at most [`crate::drain::MOST_LEFT`] groups.
    pub left: Vec<Left>,
}
