//! Restarts over all clusters: how far the latest one is, by what shards report of their groups, and how many
//! it may have down at once. Shards replace runs by themselves, within their allotments of `max_unavailable`.

use crate::facts::FederationFacts;
use crate::facts::group_reports::reports;
use crate::facts::job::JobView;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::job::Desired;
use echelon_core_model::restart::{RestartProgress, Restarts};
use echelon_core_model::{ClusterId, GroupName, JobId, Timestamp, Version};

/// The latest restart of a job, while it is not known to be over.
fn under_way(job: &JobView) -> Option<&Restarts> {
    let head = job.head.as_ref()?;
    let wish = head.rare.restarts.as_deref()?;
    let known = job
        .progress
        .as_ref()
        .and_then(|p| p.row.as_ref()?.restart.as_deref());
    let over = known.is_some_and(|p| p.version == wish.version && p.done_at.is_some());
    (head.goal.desired == Desired::Running && !over).then_some(wish)
}

/// Most instances of a group that the restart under way has down at once, where it sets that.
#[must_use]
pub fn batch(job: &JobView) -> Option<u32> {
    under_way(job)?.batch
}

/// What became of a job's latest restart, with what is over as it was at its end.
#[must_use]
pub fn progress(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    now: Timestamp,
) -> Option<RestartProgress> {
    let wish = job.head.as_ref()?.rare.restarts.as_deref()?;
    let known = job
        .progress
        .as_ref()
        .and_then(|p| p.row.as_ref()?.restart.as_deref());
    let before = known.filter(|p| p.version == wish.version).copied();
    if under_way(job).is_none() {
        return before;
    }
    // Before the spec is there, it is not known of which groups shards have to report.
    let settled = job.spec.is_some() && job.durable == job.decided && job.next_head.is_none();
    let groups = job.groups();
    let clusters = || job.durable.holders.keys();
    let of = || groups.iter().flat_map(|g| clusters().map(move |c| (c, g)));
    let left = of().map(|(c, g)| restarting(facts, id, c, g)).sum();
    let heard = of().all(|(c, g)| has_heard((facts, id, job), (c, g), wish.version));
    Some(RestartProgress {
        version: wish.version,
        left,
        done_at: (settled && heard && left == 0).then_some(now),
    })
}

fn restarting(facts: &FederationFacts, id: JobId, cluster: &ClusterId, group: &GroupName) -> u64 {
    let view = facts.clusters.get(cluster);
    let word = view.and_then(|v| v.words.get(&(id, group.clone())));
    word.map_or(0, |w| w.restarting)
}

/// Whether what a cluster has of a group was reported by a shard that knew of the restart.
fn has_heard(
    (facts, id, job): (&FederationFacts, JobId, &JobView),
    (cluster, group): (&ClusterId, &GroupName),
    version: Version,
) -> bool {
    let holds = job.durable.ranges(group).iter().any(|r| r.cluster == *cluster);
    let said = || reports(facts, id, cluster, group);
    let knew = |r: &SliceReport| r.head_version >= version;
    // A generation without anything left is not reported again: its last report stands.
    said().all(|r| knew(r) || (r.live == 0 && r.held.is_empty())) && (!holds || said().any(knew))
}
