//! When this gateway saw the rows change that others store of clusters, by its own clock.
//!
//! The moments in these rows come from clocks of other machines, so they say nothing about how old a row is.
//! A row that changes every few seconds is as old as the last change that this gateway saw. A gateway that
//! has just started has seen no change yet. Until then a row counts as old as its own moment says, and at
//! least as old as the time for which this gateway has watched it. With clocks that are apart this may call a
//! row unconfirmed that is not, until its next change, which comes within five seconds. A gateway that took
//! every row for fresh at its start would call one confirmed for 15 s that nothing confirms.

use echelon_core_model::cluster::{ClusterState, Heartbeat};
use echelon_core_model::{ClusterId, Timestamp};
use std::collections::BTreeMap;

/// How one row was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowSighting {
    /// The writer's moment in the row: it tells writes apart, and is compared with no clock once a change was
    /// seen.
    written: Timestamp,
    /// The one before. A read that another one has overtaken returns it once more.
    written_before: Timestamp,
    /// When the row was first seen.
    first_seen: Timestamp,
    /// When it was last seen to be another one.
    changed_at: Option<Timestamp>,
}

impl RowSighting {
    const fn first(written: Timestamp, now: Timestamp) -> Self {
        Self {
            written,
            written_before: written,
            first_seen: now,
            changed_at: None,
        }
    }

    fn note(&mut self, written: Timestamp, now: Timestamp) {
        if written != self.written && written != self.written_before {
            self.written_before = self.written;
            self.written = written;
            self.changed_at = Some(now);
        }
    }

    fn moment(&self) -> Timestamp {
        self.changed_at
            .unwrap_or_else(|| self.written.min(self.first_seen))
    }
}

/// How the rows of all clusters were seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sightings {
    health: BTreeMap<ClusterId, RowSighting>,
    heartbeats: BTreeMap<ClusterId, RowSighting>,
}

impl Sightings {
    /// Takes in all rows as they were read. `now` is this process' own time.
    pub fn note(&mut self, states: &[ClusterState], heartbeats: &[Heartbeat], now: Timestamp) {
        let health = states.iter().map(|row| (&row.cluster, row.health.as_of));
        note_rows(&mut self.health, health, now);
        let heartbeats = heartbeats.iter().map(|row| (&row.cluster, row.at));
        note_rows(&mut self.heartbeats, heartbeats, now);
    }

    /// As of which moment a health is confirmed, by this gateway's clock.
    #[must_use]
    pub fn judged_at(&self, row: &ClusterState) -> Timestamp {
        let seen = self.health.get(&row.cluster);
        seen.map_or(row.health.as_of, RowSighting::moment)
    }

    /// When a heartbeat was written, by this gateway's clock.
    #[must_use]
    pub fn beat_at(&self, row: &Heartbeat) -> Timestamp {
        let seen = self.heartbeats.get(&row.cluster);
        seen.map_or(row.at, RowSighting::moment)
    }
}

fn note_rows<'a>(
    seen: &mut BTreeMap<ClusterId, RowSighting>,
    rows: impl Iterator<Item = (&'a ClusterId, Timestamp)>,
    now: Timestamp,
) {
    let mut before = std::mem::take(seen);
    for (cluster, written) in rows {
        let mut sighting = before
            .remove(cluster)
            .unwrap_or_else(|| RowSighting::first(written, now));
        sighting.note(written, now);
        seen.insert(cluster.clone(), sighting);
    }
}

#[cfg(test)]
#[path = "sightings_tests.rs"]
mod tests;
