//! What becomes of released indexes, and scaling: the steps that change which indexes are bound, for one job. What leaves takes
//! two steps (section 6): a mark, then, once the holder has released the indexes for good, either the next generation at the
//! cluster that the mark names, or bound nowhere. The goal wins over a move.

use crate::picture::{JobView, Picture, SliceKey};
use crate::ranges::{Cut, change, joined};
use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder, Releasing};
use echelon_core_model::cluster::Wish;
use echelon_core_model::spec::Spread;
use echelon_core_model::{ClusterId, Generation, GroupName, InstanceRange, JobId, RangeSet, ReasonCode};
use echelon_core_routing::split::{Place, add_evenly};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gives numbers that were released for good their next holder, or none.
pub fn settle_released(picture: &Picture, id: JobId, job: &mut JobView) {
    let keys: Vec<SliceKey> = crate::picture::slices_of(&job.decided).into_keys().collect();
    let running = job.running_spec().is_some();
    let is_gang = job.running_spec().is_some_and(|s| s.gang.is_some());
    for key in keys {
        let Some(report) = picture.report(id, &key) else {
            continue;
        };
        if report.released.is_empty() {
            continue;
        }
        let (mut gone, mut returned) = (RangeSet::new(), RangeSet::new());
        let decided = Arc::make_mut(&mut job.decided);
        let Some(ranges) = decided.groups.get_mut(&key.group) else {
            continue;
        };
        let held: RangeSet = of_slice(ranges, &key).collect();
        let released = held.intersect(&report.released);
        change(ranges, &released, Cut::Released, |r| {
            let next = running.then(|| next_holder(picture, is_gang, &r)).flatten();
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
        // Indexes that were scaled away have no records if they are wanted again.
        remember(decided, &key.group, key.generation, None, &gone);
        remember(decided, &key.group, key.generation, Some(&key.cluster), &returned);
        note_holders(decided, &key.group);
        if of_slice(decided.ranges(&key.group), &key).next().is_none() {
            // Its shard can begin nothing of it any more.
            job.grants.remove(&key);
        }
    }
}

fn of_slice<'a>(ranges: &'a [AssignedRange], key: &'a SliceKey) -> impl Iterator<Item = InstanceRange> + 'a {
    ranges
        .iter()
        .filter(|r| r.cluster == key.cluster && r.generation == key.generation)
        .map(|r| r.range)
}

/// The next generation of released indexes: where their mark says, and of a gang, if the mark was withdrawn too late, where
/// they were. `None`: they are bound nowhere.
fn next_holder(picture: &Picture, is_gang: bool, r: &AssignedRange) -> Option<AssignedRange> {
    let takes = |c: &ClusterId| picture.clusters.get(c).is_some_and(|v| v.wish() == Wish::Active);
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

fn remember(
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

/// Every cluster that holds a part is among the holders, at the last generation it was given.
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

/// Marks what is too much, takes marks back when they are too many. New numbers are `missing`'s.
pub fn scale(job: &mut JobView) {
    let Some(spec) = job.running() else { return };
    let spread = spec.clusters.spread;
    for group in job.groups() {
        let wanted = job.wanted(&group);
        let withdrawn = spec.rules.withdrawn(&group);
        let named = kept(job.decided.ranges(&group)).intersect(&withdrawn);
        if !named.is_empty()
            && let Some(ranges) = Arc::make_mut(&mut job.decided).groups.get_mut(&group)
        {
            mark(ranges, &named, &scaled_down());
        }
        let kept = kept(job.decided.ranges(&group));
        if kept.count() == wanted {
            continue;
        }
        let Some(ranges) = Arc::make_mut(&mut job.decided).groups.get_mut(&group) else {
            continue;
        };
        if kept.count() > wanted {
            let too_many = surplus(ranges, &kept, wanted, spread);
            mark(ranges, &too_many, &scaled_down());
        } else {
            let back = scaled_away(ranges).minus(&withdrawn);
            let back = back.lowest(wanted - kept.count());
            change(ranges, &back, Cut::Kept, |r| {
                Some(AssignedRange { releasing: None, ..r })
            });
        }
    }
}

/// How many numbers of a group have no holder yet.
#[must_use]
pub fn missing(job: &JobView, group: &GroupName) -> u64 {
    job.wanted(group)
        .saturating_sub(kept(job.decided.ranges(group)).count())
}

fn scaled_down() -> Releasing {
    Releasing {
        to: None,
        why: ReasonCode::ScaledDown,
        count: None,
    }
}

fn scaled_away(ranges: &[AssignedRange]) -> RangeSet {
    let away = ranges.iter().filter(|r| is_scaled_away(r));
    away.map(|r| r.range).collect()
}

/// Whether a whole range is wanted no more.
fn is_scaled_away(r: &AssignedRange) -> bool {
    r.releasing.as_ref().is_some_and(Releasing::ends_range)
}

fn kept(ranges: &[AssignedRange]) -> RangeSet {
    let all: RangeSet = ranges.iter().map(|r| r.range).collect();
    all.minus(&scaled_away(ranges))
}

/// The numbers to scale away: the highest; of a group that is spread, the highest where it has most.
fn surplus(ranges: &[AssignedRange], kept: &RangeSet, wanted: u64, spread: Spread) -> RangeSet {
    if spread == Spread::None {
        return kept.highest(kept.count() - wanted);
    }
    let mut by_cluster: BTreeMap<&ClusterId, RangeSet> = BTreeMap::new();
    for r in ranges {
        let held: RangeSet = std::iter::once(r.range).collect();
        let set = by_cluster.entry(&r.cluster).or_default();
        *set = set.union(&held.intersect(kept));
    }
    let places: Vec<Place> = by_cluster
        .values()
        .map(|set| Place {
            have: 0,
            room: set.count(),
        })
        .collect();
    let stay = add_evenly(&places, wanted);
    let go = by_cluster
        .values()
        .zip(stay)
        .map(|(set, n)| set.highest(set.count().saturating_sub(n)));
    go.fold(RangeSet::new(), |sum, set| sum.union(&set))
}

/// Puts a mark on whole numbers, over whatever mark they have.
pub fn mark(ranges: &mut Vec<AssignedRange>, numbers: &RangeSet, with: &Releasing) {
    change(ranges, numbers, Cut::Kept, |r| {
        Some(AssignedRange {
            releasing: Some(with.clone()),
            ..r
        })
    });
}

/// Assigns the lowest free indexes of a group that were not withdrawn: each cluster of `shares` gets the next ones.
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

/// Gives clusters free indexes of a group, at the generation after their last. Returns the slices with how many each got.
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
