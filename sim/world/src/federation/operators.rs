//! Operators who set the desired state of clusters, add one and remove one for good.

use super::course::ClusterCourse;
use crate::process::Who;
use crate::world::{Item, World};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{ClusterId, Span, Timestamp};
use std::collections::BTreeMap;

/// A removal is tried this often until nothing is in its way.
const TRY_AGAIN: Span = Span::seconds(5);
/// The most hosts of a cluster.
pub(super) const MOST_HOSTS: usize = 3;

/// The labels of the n-th cluster.
pub(super) fn labels_of(cluster: usize) -> BTreeMap<String, String> {
    let region = if cluster.is_multiple_of(2) { "eu" } else { "us" };
    let label = |key: &str, value: String| (key.to_owned(), value);
    BTreeMap::from([
        label("region", region.to_owned()),
        label("zone", format!("{region}-{}", cluster / 2)),
        label("cost_core_hour", format!("0.0{}", 1 + cluster % 5)),
    ])
}

impl World {
    fn stored_cluster(&self, id: &ClusterId) -> Option<Cluster> {
        match self.store.read(&Query::Clusters) {
            Answer::Clusters(rows) => rows.into_iter().find(|row| row.id == *id),
            _ => None,
        }
    }

    /// Gives a cluster its labels.
    pub(super) fn label_cluster(&mut self, cluster: usize) {
        let Some(row) = self.stored_cluster(&self.cluster_id(cluster)) else {
            return;
        };
        let expected = Some(row.version);
        let cluster = Cluster {
            labels: labels_of(cluster),
            version: row.version.next(),
            ..row
        };
        self.store
            .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
    }

    /// A cluster is there from now on.
    pub(super) fn begin_course(&mut self) {
        self.federation.courses.push(ClusterCourse::new(self.now));
    }

    /// An operator adds a cluster, and its machines are started.
    pub(crate) fn add_cluster(&mut self) {
        let cluster = self.clusters.len();
        self.options.clusters = cluster + 1;
        let hosts = 1 + self.dice.federation.index(MOST_HOSTS);
        self.found_cluster(cluster, hosts);
        let id = self.cluster_id(cluster);
        self.store_cluster(&id);
        self.label_cluster(cluster);
        self.begin_course();
        self.found_shard(cluster);
        for index in 0..self.options.shards {
            self.join(Who::Shard { cluster, index });
        }
        self.begin_probes(cluster);
        self.flush_mesos(cluster);
        self.federation.figures.added += 1;
    }

    /// An operator removes a cluster for good, once nothing is in the way (`removal_problems` of the
    /// gateway).
    pub(crate) fn try_to_remove(&mut self, cluster: usize, until: Timestamp) {
        let id = self.cluster_id(cluster);
        let Some(row) = self.stored_cluster(&id) else {
            return;
        };
        match row.desired_state {
            DesiredState::Removed => return self.stop_shard(cluster),
            DesiredState::Removing => {}
            _ if self.is_in_use(&id) => {
                if self.now >= until {
                    return self.set_desired_state(cluster, DesiredState::Active);
                }
            }
            _ => self.set_desired_state(cluster, DesiredState::Removing),
        }
        self.queue
            .plan(self.now.plus(TRY_AGAIN), Item::TryToRemove(cluster, until));
    }

    /// Whether a job has something assigned to a cluster.
    fn is_in_use(&self, id: &ClusterId) -> bool {
        let jobs = self.users.0.iter().filter_map(|user| user.job);
        let mut assignments = jobs.filter_map(|job| match self.store.read(&Query::Assignment(job)) {
            Answer::Assignments(_, found) => Some(found),
            _ => None,
        });
        assignments.any(|found| {
            let mut ranges = found.iter().flat_map(|a| a.groups.values().flatten());
            ranges.any(|range| range.cluster == *id)
        })
    }

    /// Whether a process is one of a cluster that was removed: operators start it no more.
    pub(crate) fn is_removed(&self, who: Who) -> bool {
        match who {
            Who::Manager(_) => false,
            Who::Shard { cluster, .. } => self.federation.desired_of(cluster) == DesiredState::Removed,
        }
    }

    /// An operator stops the processes of a cluster that was removed.
    fn stop_shard(&mut self, cluster: usize) {
        for index in 0..self.options.shards {
            self.kill(Who::Shard { cluster, index });
        }
        let now = self.now;
        self.federation.note_desired(cluster, DesiredState::Removed, now);
        self.federation.figures.removed += 1;
    }
}
