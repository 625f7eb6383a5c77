//! What becomes of released indexes of one job. An index leaves in two steps (section 6). First it is marked.
//! Once the holder has released it for good, it gets the next generation at the cluster that the mark names,
//! or it is bound nowhere. The goal takes precedence over a move.

use crate::assignment::indexes::note_holders;
use crate::assignment::ranges::{Cut, change};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder, Releasing};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::{ClusterId, Generation, GroupName, InstanceRange, JobId, RangeSet, ReasonCode};
use std::collections::BTreeSet;

/// Gives indexes that were released for good their next holder, or none. Returns the clusters that are lost to the job
/// and have given something of it up.
pub fn settle_released(facts: &FederationFacts, id: JobId, job: &mut JobView) -> BTreeSet<ClusterId> {
    let mut lost = BTreeSet::new();
    let keys: Vec<SliceKey> = job.decided_slices().keys().cloned().collect();
    let running = job.running_spec().is_some();
    let is_gang = job.running_spec().is_some_and(|s| s.gang.is_some());
    for key in keys {
        let Some(report) = facts.report(id, &key) else {
            continue;
        };
        if report.released.is_empty() {
            continue;
        }
        let (mut gone, mut returned) = (RangeSet::new(), RangeSet::new());
        let decided = job.decided.make_mut(id);
        let Some(ranges) = decided.groups.get_mut(&key.group) else {
            continue;
        };
        let held: RangeSet = of_slice(ranges, &key).collect();
        let released = held.intersect(&report.released);
        change(ranges, &released, Cut::Released, |r| {
            if r.releasing
                .as_ref()
                .is_some_and(|m| m.why == ReasonCode::ClusterLost)
            {
                lost.insert(key.cluster.clone());
            }
            let next = running.then(|| next_holder(facts, is_gang, &r)).flatten();
            let is_wanted = r
                .releasing
                .as_ref()
                .is_none_or(|m| m.why != ReasonCode::ScaledDown);
            if next.is_none() && running && is_wanted {
                returned.insert(r.range);
            } else if next.is_none() {
                gone.insert(r.range);
            }
            next
        });
        // Indexes that were scaled away have no records if they are needed again.
        remember(decided, &key.group, key.generation, None, &gone);
        remember(decided, &key.group, key.generation, Some(&key.cluster), &returned);
        note_holders(decided, &key.group);
        if of_slice(decided.ranges(&key.group), &key).next().is_none() {
            // Its shard can begin nothing of it any more.
            job.grants.remove(&key);
        }
    }
    lost
}

fn of_slice<'a>(ranges: &'a [AssignedRange], key: &'a SliceKey) -> impl Iterator<Item = InstanceRange> + 'a {
    ranges
        .iter()
        .filter(|r| r.cluster == key.cluster && r.generation == key.generation)
        .map(|r| r.range)
}

/// The next generation of released indexes, at the cluster that their mark names. They stay where they were
/// if that cluster takes no work, or if they are of a gang and their mark was withdrawn too late. `None`:
/// they are bound nowhere.
fn next_holder(facts: &FederationFacts, is_gang: bool, r: &AssignedRange) -> Option<AssignedRange> {
    let takes = |c: &ClusterId| {
        facts
            .clusters
            .get(c)
            .is_some_and(|v| v.desired_state() == DesiredState::Active)
    };
    let cluster = match &r.releasing {
        Some(Releasing { to: None, .. }) => return None,
        None if !is_gang => return None,
        Some(Releasing { to: Some(to), .. }) if takes(to) => to.clone(),
        _ => r.cluster.clone(),
    };
    Some(AssignedRange {
        range: r.range,
        cluster,
        generation: r.generation.next(),
        former: Some((r.cluster.clone(), r.generation)),
        releasing: None,
    })
}

/// Notes who held indexes last that are bound nowhere now, and where the records are that count for the next holder.
pub(crate) fn remember(
    decided: &mut Assignment,
    group: &GroupName,
    generation: Generation,
    cluster: Option<&ClusterId>,
    gone: &RangeSet,
) {
    if gone.is_empty() {
        return;
    }
    let holder = LastHolder {
        generation,
        cluster: cluster.cloned(),
    };
    let sets = decided.released.get_or_default(group.clone());
    let set = sets.entry(holder).or_default();
    *set = set.union(gone);
}
