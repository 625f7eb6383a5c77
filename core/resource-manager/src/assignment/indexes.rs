//! Which instance indexes are bound where, and which are free.

use crate::assignment::ranges::{Cut, change, joined};
use crate::assignment::scale::scaled_away;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder, Releasing};
use echelon_core_model::{ClusterId, Generation, GroupName, RangeSet};
use std::collections::BTreeMap;

/// Notes every cluster with a range of the group as a holder, with the last generation that it was given.
pub fn note_holders(decided: &mut Assignment, group: &GroupName) {
    let held: Vec<(ClusterId, Generation)> = decided
        .ranges(group)
        .iter()
        .map(|r| (r.cluster.clone(), r.generation))
        .collect();
    for (cluster, generation) in held {
        let last = decided.holders.get_or_insert_with(cluster, || generation);
        *last = generation.max(*last);
    }
}

/// How many indexes of a group have no holder yet.
#[must_use]
pub fn missing(job: &JobView, group: &GroupName) -> u64 {
    job.wanted(group)
        .saturating_sub(kept(job.decided.ranges(group)).count())
}

pub(crate) fn kept(ranges: &[AssignedRange]) -> RangeSet {
    let all: RangeSet = ranges.iter().map(|r| r.range).collect();
    all.minus(&scaled_away(ranges))
}

/// Puts a mark on whole indexes, over whatever mark they have.
pub fn mark(ranges: &mut Vec<AssignedRange>, numbers: &RangeSet, with: &Releasing) {
    change(ranges, numbers, Cut::Kept, |r| {
        Some(AssignedRange {
            releasing: Some(with.clone()),
            ..r
        })
    });
}

/// Assigns the lowest free indexes of a group that were not withdrawn. Each cluster of `shares` gets the next
/// ones.
pub fn assign(
    decided: &mut Assignment,
    group: &GroupName,
    withdrawn: &RangeSet,
    shares: &[(ClusterId, u64)],
) {
    for (cluster, n) in shares {
        let free = decided.unbound(group, withdrawn, *n);
        give(decided, group, &[(cluster.clone(), free)]);
    }
}

/// Gives clusters free indexes of a group, at the generation after their last. Returns how many each slice
/// got.
pub fn give(
    decided: &mut Assignment,
    group: &GroupName,
    shares: &[(ClusterId, RangeSet)],
) -> Vec<(SliceKey, u64)> {
    let released = decided.released.remove(group).unwrap_or_default();
    let mut new = decided.groups.remove(group).unwrap_or_default();
    let mut used = RangeSet::new();
    let mut out: BTreeMap<SliceKey, u64> = BTreeMap::new();
    for (cluster, part) in shares {
        used = used.union(part);
        for (generation, former, set) in next_generations(part, &released) {
            let key = SliceKey {
                group: group.clone(),
                cluster: cluster.clone(),
                generation,
            };
            let count = out.entry(key).or_default();
            *count = count.saturating_add(set.count());
            new.extend(set.ranges().iter().map(|range| AssignedRange {
                range: *range,
                cluster: cluster.clone(),
                generation,
                former: former.clone(),
                releasing: None,
            }));
        }
    }
    let left: BTreeMap<LastHolder, RangeSet> = released
        .into_iter()
        .map(|(holder, set)| (holder, set.minus(&used)))
        .filter(|(_, set)| !set.is_empty())
        .collect();
    if !left.is_empty() {
        decided.released.insert(group.clone(), left);
    }
    decided.groups.insert(group.clone(), joined(new));
    note_holders(decided, group);
    out.into_iter().filter(|(_, n)| *n > 0).collect()
}

type Next = (Generation, Option<(ClusterId, Generation)>, RangeSet);

/// The generations at which indexes are bound, with their last holders.
fn next_generations(part: &RangeSet, released: &BTreeMap<LastHolder, RangeSet>) -> Vec<Next> {
    let mut rest = part.clone();
    let mut out = Vec::new();
    for (holder, set) in released.iter().rev() {
        let again = rest.intersect(set);
        rest = rest.minus(&again);
        if !again.is_empty() {
            let former = holder.cluster.clone().map(|cluster| (cluster, holder.generation));
            out.push((holder.generation.next(), former, again));
        }
    }
    out.push((Generation(1), None, rest));
    out
}
