//! What follows the end of a job: the read at SERIAL before it, and the archive after it. The archive is
//! ordered of a shard for as long as that still reports the job.

use crate::effect::Effect;
use crate::facts::known::KnownProgress;
use crate::lifecycle::outcome::outcome;
use crate::manager::ResourceManager;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Timestamp};
use std::collections::BTreeSet;

impl ResourceManager {
    /// Jobs that would end now are read at SERIAL first.
    /// Ended ones with a stored end leave memory; deleted ones become tombstones.
    pub(crate) fn follow_ends(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            if self.retire(id) {
                continue;
            }
            let Some(job) = self.picture.facts.jobs.get(&id).filter(|j| j.is_live()) else {
                continue;
            };
            let state = job.progress.as_ref().map(KnownProgress::state);
            if state == Some(JobState::Deleted) {
                if self.committing.as_ref().is_none_or(|c| !c.contains(&id)) {
                    self.entomb(id);
                }
                continue;
            }
            let version = job.head.as_ref().map(|h| h.version);
            if outcome(&self.picture.facts, id, job).is_some() && job.rare.confirmed != version {
                self.settle_head(id, now, out);
            }
        }
    }

    /// A shard reported jobs that have ended, or that are unknown: it may archive them once that is sure.
    pub(crate) fn after_ended(
        &mut self,
        cluster: &ClusterId,
        jobs: &BTreeSet<JobId>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        if self.leading().is_none() {
            return;
        }
        // What a full report has left out is archived already.
        for id in jobs
            .iter()
            .filter(|id| self.tells_of(cluster, **id))
            .collect::<Vec<_>>()
        {
            if let Some(job) = self.picture.facts.jobs.get(id) {
                let ended = job.progress.as_ref().is_some_and(|p| p.state().is_ended());
                let stored = self.committing.as_ref().is_none_or(|c| !c.contains(id));
                if ended && stored && job.desired() != Desired::Deleted {
                    self.send(cluster, Order::Archive(*id), out);
                }
            } else if self.picture.facts.ended.contains_key(id) {
                self.tell_retired(cluster, *id, out);
            } else if let Some(tombstone) = self.tombstones.get(id) {
                // A void head proves nothing of what runs.
                if !tombstone.void {
                    self.send(cluster, Order::Archive(*id), out);
                }
            } else {
                self.settle_head(*id, now, out);
            }
        }
    }

    /// Whether a shard's last report still has slices of a job.
    fn tells_of(&self, cluster: &ClusterId, id: JobId) -> bool {
        let first = (id, GroupName::new(""), Generation(0));
        let view = self.picture.facts.clusters.get(cluster);
        view.and_then(|v| v.reports.range(first..).next())
            .is_some_and(|((job, _, _), _)| *job == id)
    }

    /// The job is unknown, at SERIAL: every shard that reported it may archive it.
    pub(crate) fn archive_unknown(&mut self, id: JobId, out: &mut Vec<Effect>) {
        let clusters: Vec<ClusterId> = self.picture.facts.clusters.keys().cloned().collect();
        for cluster in clusters
            .into_iter()
            .filter(|c| self.tells_of(c, id))
            .collect::<Vec<_>>()
        {
            self.send(&cluster, Order::Archive(id), out);
        }
    }
}
