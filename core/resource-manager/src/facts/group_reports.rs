//! What shards have reported of the groups of a job, and which clusters get orders about it.

use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId};
use std::collections::BTreeSet;

/// The clusters that get orders about a job.
#[must_use]
pub fn listeners(job: &JobView) -> BTreeSet<ClusterId> {
    job.durable.holders.keys().cloned().collect()
}

/// What a cluster has reported of a group.
pub fn reports<'a>(
    facts: &'a FederationFacts,
    id: JobId,
    cluster: &ClusterId,
    group: &'a GroupName,
) -> impl Iterator<Item = &'a SliceReport> {
    let view = facts.clusters.get(cluster);
    let keys = (id, group.clone(), Generation(0))..=(id, group.clone(), Generation(u32::MAX));
    view.into_iter()
        .flat_map(move |v| v.reports.range(keys.clone()).map(|(_, r)| r.as_ref()))
}

/// Whether a cluster has confirmed that nothing of a job lives there, knowing its present goal.
#[must_use]
pub fn has_confirmed(facts: &FederationFacts, id: JobId, job: &JobView, cluster: &ClusterId) -> bool {
    let Some(head) = &job.head else { return false };
    let left = facts
        .clusters
        .get(cluster)
        .is_some_and(|c| c.desired_state() == echelon_core_model::cluster::DesiredState::Removed);
    let groups = job.groups();
    left || groups.iter().all(|group| {
        let said: Vec<&SliceReport> = reports(facts, id, cluster, group).collect();
        // A generation without anything left is not reported again: its last report stands.
        let heard = |r: &&SliceReport| r.head_version >= head.version;
        said.iter().any(heard)
            && said
                .iter()
                .all(|r| r.live == 0 && (heard(r) || r.held.is_empty()))
    })
}
