//! Hosts that operators want empty: the wish, by the host's name, since an agent comes back from a reboot under another id, and how
//! far its shard has come with it.

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
