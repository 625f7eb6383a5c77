//! What is assigned to a cluster and was never reported by its shard, since the stream broke before. Where the
//! shard answers by storage, it is asked there for what has not begun. How much has begun only the shard knows:
//! it releases no index that has, and no grant is lowered before it has released something.

use crate::admission::router::GroupOf;
use crate::demand::request::avoided;
use crate::demand::slices::Line;
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::returns::{Returns, is_of};
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::{ClusterId, JobId, ReasonCode};

/// Whether a cluster's shard has never reported of something of a job that is assigned to it.
pub(super) fn is_unreported(facts: &FederationFacts, id: JobId, job: &JobView, cluster: &ClusterId) -> bool {
    let slices = job.decided_slices();
    let mut there = slices.keys().filter(|key| key.cluster == *cluster);
    there.any(|key| facts.report(id, key).is_none())
}

impl Returns<'_> {
    /// What was never reported goes elsewhere, if another cluster may take it and the shard answers by storage.
    pub(super) fn unreported(&mut self, of: GroupOf<'_>, job: &mut JobView, line: &Line) {
        let key = &line.key;
        let view = self.picture.facts.clusters.get(&key.cluster);
        let answers = view.is_some_and(|view| view.epoch_without_manager().is_some());
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        let open = |r: &AssignedRange| is_of(r, key) && r.releasing.is_none();
        let is_marked = !job.decided.ranges(&key.group).iter().any(open);
        let may_leave = answers && !self.drains(&key.cluster) && !is_marked;
        if !may_leave || !self.router.may_use_others(of, &avoid) {
            self.changed |= job.idle.remove(key).is_some();
            return;
        }
        self.changed |= !job.idle.contains_key(key);
        let since = *job.idle.get_or_insert_with(key.clone(), || self.now);
        if self.now.since(since) < self.spill_after {
            return;
        }
        job.idle.remove(key);
        let Some(ranges) = job.decided.ranges_mut(&key.group) else {
            return;
        };
        let mut count = 0;
        for r in ranges.iter_mut().filter(|r| open(r)) {
            count += r.range.count();
            r.releasing = Some(Releasing {
                to: None,
                why: ReasonCode::Moved,
                count: Some(r.range.count()),
            });
        }
        self.changed = true;
        let granted = job.grants.get(key).map_or(0, |grant| grant.granted());
        self.send_on(of, count.min(granted));
    }
}
