//! Looking in from outside: what the simulation, tests and pages see of a shard. Nothing is changed here.

use crate::Shard;
use crate::pace::Action;
use echelon_core_hosts::Tally;
use echelon_core_model::instance::{InstanceRecord, SliceRow};
use echelon_core_model::{Epoch, GroupName, InstanceId, JobId, Span, TaskId, Timestamp};

impl Shard {
    /// The epoch that it leads with; 0 while it does not lead.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Every instance with a record, as this shard knows it now, durable or not.
    pub fn instances(&self) -> impl Iterator<Item = (InstanceId, &InstanceRecord)> {
        self.picture
            .groups
            .values()
            .flat_map(|g| g.records().map(|(n, r)| (g.instance(n), r)))
    }

    /// The slice rows of all groups.
    pub fn slices(&self) -> impl Iterator<Item = &SliceRow> {
        self.picture.groups.values().map(|g| &g.row)
    }

    /// The part of `max_unavailable` that each group was given.
    pub fn restart_parts(&self) -> impl Iterator<Item = (JobId, &GroupName, u32)> {
        let groups = self.picture.groups.values();
        groups.map(|g| (g.job(), g.name(), g.max_unavailable))
    }

    /// Versions of specs that are kept.
    #[must_use]
    pub fn kept_specs(&self) -> usize {
        self.picture.specs.len()
    }

    /// Tasks of our naming that no record explains.
    pub fn quarantined(&self) -> impl Iterator<Item = &TaskId> {
        self.strangers.quarantined()
    }

    /// Operations on storage that are under way.
    #[must_use]
    pub fn pending_operations(&self) -> usize {
        self.ops.len()
    }

    /// Runs of an earlier leader of which the cluster has not spoken yet.
    #[must_use]
    pub fn unobserved(&self) -> usize {
        self.reconcile.unobserved()
    }

    /// Tasks that the cluster was or will be asked for and has not answered about; its word that it has told all counts as one.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.reconcile.unanswered()
    }

    /// How many views of hosts were made since this leadership began, so that placement is asked about hosts
    /// as they are.
    #[must_use]
    pub const fn views_renewed(&self) -> u64 {
        self.views_renewed
    }

    /// Offers that are neither used nor given back.
    #[must_use]
    pub fn open_offers(&self) -> usize {
        self.hosts.open_offers()
    }

    /// The limit of a mass action a second, and how often it has held something back.
    #[must_use]
    pub fn pace(&self, action: Action) -> (u32, u64) {
        self.paces.told(action)
    }

    /// The least time between two revivals of offers, and how often it has made one wait.
    #[must_use]
    pub const fn revivals(&self) -> (Span, u64) {
        (self.config.timing.hosts.revive_gap, self.hosts.held_revivals())
    }

    /// What became of the offers of this leadership.
    #[must_use]
    pub const fn offers(&self) -> Tally {
        self.hosts.tally()
    }

    /// Since when the oldest commit under way is.
    #[must_use]
    pub fn oldest_commit(&self) -> Option<Timestamp> {
        self.journal.oldest_flight()
    }
}
