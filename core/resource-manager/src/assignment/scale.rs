//! Indexes that a job loses when it becomes smaller, and gets when it grows.

use crate::assignment::indexes::{kept, mark};
use crate::assignment::ranges::{Cut, change};
use crate::facts::job::JobView;
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::spec::Spread;
use echelon_core_model::{ClusterId, RangeSet, ReasonCode};
use echelon_core_routing::split::{Place, add_evenly};
use std::collections::BTreeMap;

/// Marks indexes when there are too many, and takes marks back when there are too few. `missing` counts new
/// indexes.
pub fn scale(job: &mut JobView) {
    let Some(spec) = job.running() else { return };
    let spread = spec.clusters.spread;
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

/// The indexes to scale away: the highest ones. Of a group that is spread: the highest ones where it has
/// most.
pub(crate) fn surplus(ranges: &[AssignedRange], kept: &RangeSet, wanted: u64, spread: Spread) -> RangeSet {
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
