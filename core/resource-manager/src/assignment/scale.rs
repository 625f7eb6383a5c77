//! Indexes that a job loses when it becomes smaller, and gets when it grows.

use crate::assignment::indexes::{kept, mark, missing};
use crate::assignment::ranges::{Cut, change};
use crate::assignment::release::forget_records;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::cluster_choice::{ClusterChoice, Spread};
use echelon_core_model::{ClusterId, GroupName, JobId, RangeSet, ReasonCode};
use echelon_core_routing::split::{Place, SplitOrder, SplitRule, add};
use std::collections::BTreeMap;

/// Marks indexes when there are too many, and takes marks back when there are too few. `missing` counts new
/// indexes. `clusters` is where their weights follow from.
pub(crate) fn scale(job: &mut JobView, clusters: &BTreeMap<ClusterId, ClusterView>) {
    let Some(spec) = job.running() else { return };
    let division = Division {
        choice: &spec.clusters,
        clusters,
    };
    for group in job.groups() {
        let wanted = job.wanted(&group);
        let withdrawn = spec.rules.withdrawn(&group);
        let named = kept(job.decided.ranges(&group)).intersect(&withdrawn);
        if !named.is_empty()
            && let Some(ranges) = job.decided.ranges_mut(&group)
        {
            mark(ranges, &named, &scaled_down());
        }
        let kept = kept(job.decided.ranges(&group));
        if kept.count() == wanted {
            continue;
        }
        let Some(ranges) = job.decided.ranges_mut(&group) else {
            continue;
        };
        if kept.count() > wanted {
            let too_many = division.surplus(ranges, &kept, wanted);
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

/// Indexes that are bound nowhere and that the job does not need any more count as scaled away. So a shard that gave one
/// of them up, or of which it was taken while it was silent, ends what still runs of it.
pub(crate) fn forget_unneeded(job: &mut JobView, id: JobId) {
    let groups: Vec<GroupName> = job.decided.released.keys().cloned().collect();
    for group in groups {
        let withdrawn = job
            .running()
            .map_or_else(RangeSet::new, |spec| spec.rules.withdrawn(&group));
        let unbound = job.decided.unbound_with_records(&group);
        let needed = unbound.minus(&withdrawn).lowest(missing(job, &group));
        let unneeded = unbound.minus(&needed);
        if !unneeded.is_empty() {
            forget_records(job.decided.make_mut(id), &group, &unneeded);
        }
    }
}

fn scaled_down() -> Releasing {
    Releasing {
        to: None,
        why: ReasonCode::ScaledDown,
        count: None,
    }
}

pub(crate) fn scaled_away(ranges: &[AssignedRange]) -> RangeSet {
    let away = ranges.iter().filter(|r| is_scaled_away(r));
    away.map(|r| r.range).collect()
}

/// Whether a whole range is not needed any more.
fn is_scaled_away(r: &AssignedRange) -> bool {
    r.releasing.as_ref().is_some_and(Releasing::ends_range)
}

/// How a job is divided over clusters.
struct Division<'a> {
    choice: &'a ClusterChoice,
    clusters: &'a BTreeMap<ClusterId, ClusterView>,
}

impl Division<'_> {
    /// The indexes to scale away: the highest ones. Of a group that is divided by a rule: the highest ones of
    /// each cluster that has more than its part of the smaller group.
    fn surplus(&self, ranges: &[AssignedRange], kept: &RangeSet, wanted: u64) -> RangeSet {
        if self.choice.spread == Spread::None && !self.choice.bounds_clusters() {
            return kept.highest(kept.count() - wanted);
        }
        let mut by_cluster: BTreeMap<&ClusterId, RangeSet> = BTreeMap::new();
        for r in ranges {
            let held: RangeSet = std::iter::once(r.range).collect();
            let set = by_cluster.entry(&r.cluster).or_default();
            *set = set.union(&held.intersect(kept));
        }
        let held: Vec<Place> = by_cluster
            .iter()
            .map(|(id, set)| Place {
                have: 0,
                room: set.count(),
                weight: self.weight(id),
            })
            .collect();
        let go = by_cluster
            .values()
            .zip(self.stay(&held, wanted))
            .map(|(set, n)| set.highest(set.count().saturating_sub(n)));
        go.fold(RangeSet::new(), |sum, set| sum.union(&set))
    }

    /// How many stay at each cluster: `wanted` in all, by the job's rule as far as that gives so many.
    fn stay(&self, held: &[Place], wanted: u64) -> Vec<u64> {
        let rule = SplitRule {
            order: SplitOrder::ByWeight,
            instances: wanted,
            least_places: self.choice.least_clusters(wanted),
            most_on_one: self.choice.most_on_one(wanted),
        };
        let by_rule = add(held, wanted, rule);
        let left: Vec<Place> = held
            .iter()
            .zip(&by_rule)
            .map(|(place, n)| Place {
                have: *n,
                room: place.room - n,
                weight: place.weight,
            })
            .collect();
        let any = SplitRule {
            least_places: 1,
            most_on_one: u64::MAX,
            ..rule
        };
        let rest = add(&left, wanted - by_rule.iter().sum::<u64>(), any);
        by_rule.iter().zip(rest).map(|(a, b)| a + b).collect()
    }

    fn weight(&self, cluster: &ClusterId) -> u32 {
        let row = self.clusters.get(cluster).and_then(|view| view.row.as_ref());
        row.map_or(1, |row| self.choice.weight(row.identity())).max(1)
    }
}
