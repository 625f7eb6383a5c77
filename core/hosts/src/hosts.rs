//! The state of a cluster's hosts: what is offered, held, launched and lost. Its caller, `core/shard`, feeds every event of
//! the cluster and performs the calls that come out.

use crate::call::{Call, Launch};
use crate::config::Config;
use crate::event::Event;
use echelon_core_model::cluster::{Host, HostView};
use echelon_core_model::directive::Capacity;
use echelon_core_model::{GroupName, HostId, JobId, Resources, TaskId, Timestamp};
use std::collections::BTreeMap;

/// All hosts of a cluster.
#[derive(Debug, Clone)]
pub struct Hosts {
    config: Config,
}

/// Rows of the host table that are to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Hosts that are new or have changed.
    pub rows: Vec<Host>,
    /// Hosts that are forgotten.
    pub removed: Vec<HostId>,
}

impl Hosts {
    /// No hosts yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config }
    }

    /// Takes in what an earlier leader stored, so that capacity does not start from nothing. Call it before the first event.
    pub fn restore(&mut self, _rows: Vec<Host>, _now: Timestamp) {}

    /// Takes an event in. Proof of a task's death frees its room here; offers are void after `Disconnected` and `Subscribed`.
    pub fn on_event(&mut self, _event: &Event, _now: Timestamp) {}

    /// Counts a task that storage or the cluster tells of and that `accept` did not launch. Repeating it changes nothing.
    pub fn adopt(&mut self, _task: &TaskId, _host: &HostId, _resources: Resources) {}

    /// Stops counting a task: its run has ended, was given up, or was never sent.
    pub fn release(&mut self, _task: &TaskId) {}

    /// The call that launches these tasks on a host, using all its open offers; the rest is refused for a short time.
    /// `None`, and nothing changes, when the open offers have too little room, a task is named twice or already counted, or
    /// there is nothing to launch.
    pub fn accept(&mut self, _host: &HostId, _launches: Vec<Launch>, _now: Timestamp) -> Option<Call> {
        None
    }

    /// What is to be said to the cluster now: declines, suppress, revive. `demand`: instances wait for a host.
    pub fn next_calls(&mut self, _demand: bool, _now: Timestamp) -> Vec<Call> {
        let _ = self.config;
        Vec::new()
    }

    /// When `next_calls` has something to say at the latest.
    #[must_use]
    pub fn next_wake(&self, _demand: bool) -> Option<Timestamp> {
        None
    }

    /// The hosts that can be reached, by id, with the room of their open offers.
    #[must_use]
    pub fn views(&self) -> Vec<HostView> {
        Vec::new()
    }

    /// How many tasks of a group each host has; hosts without any are left out.
    #[must_use]
    pub fn tasks_of(&self, _job: JobId, _group: &GroupName) -> BTreeMap<HostId, u32> {
        BTreeMap::new()
    }

    /// A host as it is stored.
    #[must_use]
    pub fn host(&self, _id: &HostId) -> Option<Host> {
        None
    }

    /// The hosts that can be reached in sum. `largest_free` is capacity minus our tasks: an idle shard holds no offers.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        Capacity::default()
    }

    /// Rows to write since this was last asked.
    pub fn changes(&mut self) -> Changes {
        Changes::default()
    }

    /// Offers that are open: a gauge, zero in an idle shard.
    #[must_use]
    pub fn open_offers(&self) -> usize {
        0
    }
}
