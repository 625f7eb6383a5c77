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

/// Gives indexes that were released for good their next holder, or none, by the last reports of shards. Returns the
/// clusters that are lost to the job and have given something of it up.
pub fn settle_released(facts: &FederationFacts, id: JobId, job: &mut JobView) -> BTreeSet<ClusterId> {
    let mut lost = BTreeSet::new();
    let keys: Vec<SliceKey> = job.decided_slices().keys().cloned().collect();
    for key in keys {
        let report = facts.report(id, &key);
        let Some(report) = report.filter(|report| !report.released.is_empty()) else {
            continue;
        };
        if settle_slice(facts, id, job, &key, &report.released) == Settled::GivenUp {
            lost.insert(key.cluster);
        }
    }
    lost
}

/// What became of the released indexes of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// None of them was assigned there any more.
    Nothing,
    /// Some have left their cluster.
    Left,
    /// Some have, since their cluster is lost to the job.
    GivenUp,
}

/// Gives released indexes of a slice their next holder, or none.
pub(crate) fn settle_slice(
    facts: &FederationFacts,
    id: JobId,
    job: &mut JobView,
    key: &SliceKey,
    released: &RangeSet,
) -> Settled {
    let running = job.running_spec().is_some();
    let is_gang = job.running_spec().is_some_and(|s| s.gang.is_some());
    let (mut gone, mut returned) = (RangeSet::new(), RangeSet::new());
    let mut settled = Settled::Nothing;
    let decided = job.decided.make_mut(id);
    let Some(ranges) = decided.groups.get_mut(&key.group) else {
        return settled;
    };
    let held: RangeSet = of_slice(ranges, key).collect();
    let released = held.intersect(released);
    if !released.is_empty() {
        settled = Settled::Left;
    }
    change(ranges, &released, Cut::Released, |r| {
        let why = r.releasing.as_ref().map(|mark| mark.why);
        if why == Some(ReasonCode::ClusterLost) {
            settled = Settled::GivenUp;
        }
        let next = running.then(|| next_holder(facts, is_gang, &r)).flatten();
        let is_wanted = why != Some(ReasonCode::ScaledDown);
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
    if of_slice(decided.ranges(&key.group), key).next().is_none() {
        // Its shard can begin nothing of it any more.
        job.grants.remove(key);
    }
    settled
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

/// Notes that the records of indexes that are bound nowhere count for no next holder.
pub(crate) fn forget_records(decided: &mut Assignment, group: &GroupName, numbers: &RangeSet) {
    let with_records = |holder: &LastHolder, set: &RangeSet| {
        let forgotten = set.intersect(numbers);
        let is_some = holder.cluster.is_some() && !forgotten.is_empty();
        is_some.then(|| (holder.clone(), forgotten))
    };
    let sets = decided.released.get_or_default(group.clone());
    let forgotten: Vec<(LastHolder, RangeSet)> = sets
        .iter()
        .filter_map(|(holder, set)| with_records(holder, set))
        .collect();
    for (holder, set) in forgotten {
        sets.entry(holder.clone())
            .and_modify(|left| *left = left.minus(&set));
        let none = sets
            .entry(LastHolder {
                cluster: None,
                ..holder
            })
            .or_default();
        *none = none.union(&set);
    }
    sets.retain(|_, set| !set.is_empty());
}
