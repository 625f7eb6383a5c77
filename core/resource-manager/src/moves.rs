//! What becomes of released numbers, and scaling: the steps that change which numbers are assigned, for one job. A move has two
//! steps (section 6): a mark, then, once the holder has released the numbers for good, the next generation somewhere. The goal
//! wins over a move.

use crate::picture::{JobView, Picture, SliceKey};
use crate::ranges::{Cut, change, joined};
use echelon_core_model::assignment::{AssignedRange, Assignment, Releasing};
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
    for key in keys {
        let Some(report) = picture.report(id, &key) else {
            continue;
        };
        if report.released.is_empty() {
            continue;
        }
        let mut gone = RangeSet::new();
        let decided = Arc::make_mut(&mut job.decided);
        let Some(ranges) = decided.groups.get_mut(&key.group) else {
            continue;
        };
        let held: RangeSet = of_slice(ranges, &key).collect();
        let released = held.intersect(&report.released);
        change(ranges, &released, Cut::Released, |r| {
            let next = running.then(|| next_holder(picture, &r)).flatten();
            if next.is_none() {
                gone.insert(r.range);
            }
            next
        });
        remember_removed(decided, &key.group, key.generation, &gone);
        note_holders(decided, &key.group);
    }
}

fn of_slice<'a>(ranges: &'a [AssignedRange], key: &'a SliceKey) -> impl Iterator<Item = InstanceRange> + 'a {
    ranges
        .iter()
        .filter(|r| r.cluster == key.cluster && r.generation == key.generation)
        .map(|r| r.range)
}

/// The next generation of released numbers: where their mark says, or, if the mark was withdrawn too late, where they were.
fn next_holder(picture: &Picture, r: &AssignedRange) -> Option<AssignedRange> {
    let takes = |c: &ClusterId| picture.clusters.get(c).is_some_and(|v| v.wish() == Wish::Active);
    let cluster = match &r.releasing {
        Some(Releasing { to: None, .. }) => return None,
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

fn remember_removed(decided: &mut Assignment, group: &GroupName, generation: Generation, gone: &RangeSet) {
    if gone.is_empty() {
        return;
    }
    let sets = decided.removed.get_or_default(group.clone());
    let set = sets.entry(generation).or_default();
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
    let away = |r: &&AssignedRange| {
        let mark = r.releasing.as_ref();
        mark.is_some_and(|m| m.to.is_none() && m.count.is_none())
    };
    ranges.iter().filter(away).map(|r| r.range).collect()
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

/// Assigns the lowest free numbers of a group that were not withdrawn: each cluster of `shares` gets the next ones.
pub fn assign(
    decided: &mut Assignment,
    group: &GroupName,
    withdrawn: &RangeSet,
    shares: &[(ClusterId, u64)],
) {
    let taken = decided.assigned(group).union(withdrawn);
    let n: u64 = shares.iter().map(|(_, n)| n).sum();
    let end = taken.count().saturating_add(n);
    let mut free = RangeSet::below(u32::try_from(end).unwrap_or(u32::MAX)).minus(&taken);
    let shares = shares.iter().map(|(cluster, n)| {
        let part = free.lowest(*n);
        free = free.minus(&part);
        (cluster.clone(), part)
    });
    let shares: Vec<(ClusterId, RangeSet)> = shares.collect();
    give(decided, group, &shares);
}

/// Gives clusters free numbers of a group, at the generation after their last.
pub fn give(decided: &mut Assignment, group: &GroupName, shares: &[(ClusterId, RangeSet)]) {
    let removed = decided.removed.remove(group).unwrap_or_default();
    let mut new = decided.groups.remove(group).unwrap_or_default();
    let mut used = RangeSet::new();
    for (cluster, part) in shares {
        used = used.union(part);
        for (generation, set) in next_generations(part, &removed) {
            new.extend(set.ranges().iter().map(|range| AssignedRange {
                range: *range,
                cluster: cluster.clone(),
                generation,
                former: None,
                releasing: None,
            }));
        }
    }
    let left: BTreeMap<Generation, RangeSet> = removed
        .into_iter()
        .map(|(g, set)| (g, set.minus(&used)))
        .filter(|(_, set)| !set.is_empty())
        .collect();
    if !left.is_empty() {
        decided.removed.insert(group.clone(), left);
    }
    decided.groups.insert(group.clone(), joined(new));
    note_holders(decided, group);
}

fn next_generations(
    part: &RangeSet,
    removed: &BTreeMap<Generation, RangeSet>,
) -> Vec<(Generation, RangeSet)> {
    let mut rest = part.clone();
    let mut out = Vec::new();
    for (generation, set) in removed.iter().rev() {
        let again = rest.intersect(set);
        rest = rest.minus(&again);
        if !again.is_empty() {
            out.push((generation.next(), again));
        }
    }
    out.push((Generation(1), rest));
    out
}
