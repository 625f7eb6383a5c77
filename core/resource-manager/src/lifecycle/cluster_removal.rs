//! Clusters that are removed for good. Their work leaves first, as it leaves a draining cluster; what has ended
//! there goes to another cluster as well, since its job still counts it. Then, step by step:
//!
//! 1. No job has anything assigned there: the shard is ordered to leave Mesos.
//! 2. The shard reports that it has: the cluster's row becomes that of a removed one. A cluster whose shard has
//!    never reported skips the first step.
//! 3. The row says so: the leadership of the cluster's shard is taken, which ends any that is left, and
//!    everything that a shard has stored is hidden under that epoch, but for the archive, events and logs.
//! 4. That is durable: what was observed of the cluster is deleted.
//!
//! Each step is known from storage or is ordered again, so a leader that dies loses none.
//!
//! A cluster that is lost for ever has no shard for the first two steps. Its row says so, for one silence.
//! Then all that it has is released without its shard, under a ban of starts (`returns/unbegun.rs`), and its
//! row becomes that of a removed cluster once no job has anything assigned there. Instances that its shard
//! has stored are not hidden: no shard has written them to the archive, and other clusters take them over. If
//! the silence ends before, the removal goes on with the shard.

use crate::effect::Effect;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use echelon_core_model::bucket::BLOCK_BUCKETS;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::directive::Order;
use echelon_core_model::health::Declaration;
use echelon_core_model::store::{
    Batch, Consistency, Decided, Decision, Leadership, Op, Query, Role, Stamp, Write,
};
use echelon_core_model::{ClusterId, Epoch, JobId, Span, Timestamp};
use std::collections::BTreeSet;

/// A shard is ordered to leave again after this time.
const ORDER_AGAIN: Span = Span::seconds(2);

/// How far a removal is, as far as it is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RemovalProgress {
    /// When the shard is ordered next to leave.
    order_at: Timestamp,
    /// The epoch at which the leadership of the shard is taken.
    fence: Epoch,
}

/// Whether a shard has ever been at work for a cluster.
fn is_used(view: &ClusterView) -> bool {
    let reported = view.state.as_ref().and_then(|state| state.reported.as_ref());
    view.heartbeat.is_some() || reported.is_some() || view.link.is_some()
}

/// Whether Mesos has removed the framework of a cluster's shard, as it was ordered.
fn is_torn_down(view: &ClusterView) -> bool {
    let sent = view.signs.as_ref().map(|(signs, _)| signs.torn_down);
    let stored = view.heartbeat.as_ref().map(|(row, _)| row.signs.torn_down);
    sent == Some(true) || stored == Some(true)
}

impl ResourceManager {
    /// Takes the next step of each removal.
    pub(crate) fn remove_clusters(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let clusters = self.picture.facts.clusters.iter();
        let going = clusters.filter_map(|(id, view)| {
            let row = view.row.as_ref()?;
            matches!(row.desired_state, DesiredState::Removing | DesiredState::Removed).then(|| id.clone())
        });
        for id in going.collect::<Vec<_>>() {
            let Some(view) = self.picture.facts.clusters.get(&id) else {
                continue;
            };
            let row = view
                .row
                .clone()
                .filter(|row| row.desired_state == DesiredState::Removing);
            match row {
                Some(row) => self.leave(&id, &row, now, out),
                None if view.state.is_some() || view.heartbeat.is_some() => self.fence_removed(&id, now, out),
                None => {}
            }
        }
    }

    fn leave(&mut self, id: &ClusterId, row: &Cluster, now: Timestamp, out: &mut Vec<Effect>) {
        if self.is_assigned(id) {
            return;
        }
        let Some(view) = self.picture.facts.clusters.get_mut(id) else {
            return;
        };
        if view.is_removed_as_lost() || is_torn_down(view) || !is_used(view) {
            return self.close_row(id, row, now, out);
        }
        if view.link.is_some() && view.removal.order_at <= now {
            view.removal.order_at = now.plus(ORDER_AGAIN);
            self.send(id, Order::TearDown, out);
        }
    }

    /// Whether a job that has not ended has anything assigned to a cluster, as it is decided or as it is
    /// stored.
    fn is_assigned(&self, id: &ClusterId) -> bool {
        let has_ended = |job: &JobView| job.progress.as_ref().is_some_and(|p| p.state().is_ended());
        let jobs = self.picture.facts.jobs.iter();
        let mut jobs = jobs.filter(|(_, job)| !has_ended(job));
        jobs.any(|(_, job)| {
            let both = [&job.durable, &job.decided];
            let mut ranges = both
                .into_iter()
                .flat_map(|of| of.groups.iter())
                .flat_map(|(_, r)| r);
            ranges.any(|range| range.cluster == *id)
        })
    }

    fn close_row(&mut self, id: &ClusterId, row: &Cluster, now: Timestamp, out: &mut Vec<Effect>) {
        let purpose = Purpose::CloseCluster(id.clone());
        if self.ops.has(&purpose) {
            return;
        }
        let view = self.picture.facts.clusters.get(id);
        let is_lost = view.is_some_and(ClusterView::is_removed_as_lost);
        let decision = Decision::PutCluster {
            cluster: Cluster {
                version: row.version.next(),
                desired_state: DesiredState::Removed,
                // It says that no shard has written instances to the archive.
                declared: row.declared.filter(|_| is_lost),
                ..Cluster::new(row.id.clone(), &row.name)
            },
            expected: Some(row.version),
        };
        self.ops.start(purpose, Op::Decide(decision), now, out);
    }

    /// The row was written, or another one is there: either way it is read again.
    pub(crate) fn cluster_closed(&mut self, decided: &Decided, now: Timestamp, out: &mut Vec<Effect>) {
        self.due |= *decided == Decided::Applied;
        self.read_clusters(now, out);
    }

    /// Asks who leads the shard of a cluster that is removed.
    fn fence_removed(&mut self, id: &ClusterId, now: Timestamp, out: &mut Vec<Effect>) {
        let is_under_way = [
            Purpose::ReadRemoved(id.clone()),
            Purpose::FenceRemoved(id.clone()),
            Purpose::HideRemoved(id.clone()),
        ];
        if is_under_way.iter().any(|purpose| self.ops.has(purpose)) {
            return;
        }
        let query = Query::Leadership(Role::Shard(id.clone()));
        let op = Op::Read(query, Consistency::Serial);
        self.ops.start(Purpose::ReadRemoved(id.clone()), op, now, out);
    }

    /// Takes the leadership of the shard: none that is left can write any more.
    pub(crate) fn take_removed(
        &mut self,
        id: ClusterId,
        there: &Leadership,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let next = there.epoch.next();
        if let Some(view) = self.picture.facts.clusters.get_mut(&id) {
            view.removal.fence = next;
        }
        let decision = Decision::TakeEpoch {
            role: Role::Shard(id.clone()),
            next: Leadership {
                resumed: there.resumed,
                ..Leadership::taken(next, "the cluster is removed", self.config.seed)
            },
            expected: there.epoch,
        };
        let purpose = Purpose::FenceRemoved(id);
        self.ops.start(purpose, Op::Decide(decision), now, out);
    }

    /// Hides what a shard has stored. Of one that was lost instances are not hidden.
    pub(crate) fn hide_removed(
        &mut self,
        id: ClusterId,
        decided: &Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let view = self.picture.facts.clusters.get(&id);
        let Some(view) = view.filter(|_| *decided == Decided::Applied) else {
            return;
        };
        let epoch = view.removal.fence;
        let declared = view.row.as_ref().and_then(|row| row.declared);
        let is_lost = declared.is_some_and(|of| of.as_what == Declaration::NeverReturns);
        let buckets = (0..BLOCK_BUCKETS).filter(|_| !is_lost).map(Write::Seal);
        let others = [Write::SealShard, Write::SealHosts, Write::RemoveHeartbeat];
        let batch = Batch {
            owner: Role::Shard(id.clone()),
            stamp: Stamp { epoch, sequence: 1 },
            writes: buckets.chain(others).collect(),
        };
        self.ops
            .start(Purpose::HideRemoved(id), Op::Commit(batch), now, out);
    }

    /// Nothing is stored of its shard any more: what was observed of the cluster goes, too.
    pub(crate) fn removed_hidden(&mut self, id: &ClusterId) {
        self.writes.push(Write::RemoveClusterState(id.clone()));
        let Some(view) = self.picture.facts.clusters.get_mut(id) else {
            return;
        };
        let jobs: BTreeSet<JobId> = view.reports.keys().map(|(job, ..)| *job).collect();
        jobs.iter().for_each(|job| view.forget(*job));
        (view.state, view.heartbeat, view.signs, view.capacity) = (None, None, None, None);
        view.removal = RemovalProgress::default();
        self.dirty.extend(jobs);
        self.due = true;
    }
}
