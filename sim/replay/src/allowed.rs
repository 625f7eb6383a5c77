//! The most work that demand and capacity allow.

use crate::trace::Trace;
use echelon_core_model::resources::Kind;
use echelon_core_model::{Resources, Timestamp};
use std::collections::BTreeMap;

/// What changes at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    /// What begins and what ends, if capacity had no bound.
    begins: u128,
    ends: u128,
    /// Capacity that comes and that goes.
    comes: u128,
    goes: u128,
}

/// An upper bound of the work of each kind that can be done up to the end of the trace: amounts times
/// milliseconds.
///
/// Up to any moment `s` no more is done than if every instance had begun at its submit, and from then on no
/// more than all capacity does: the least of these sums over all `s` is the bound. Limits of pools, bounds of
/// `max_running` and chosen clusters are left out. `O(n log n)` in jobs' runs.
pub fn allowed(trace: &Trace) -> [u128; 4] {
    Kind::ALL.map(|kind| of_kind(trace, kind))
}

fn of_kind(trace: &Trace, kind: Kind) -> u128 {
    let until = trace.until;
    let mut changes: BTreeMap<Timestamp, Change> = BTreeMap::new();
    for job in &trace.jobs {
        let end = job.stopped.map_or(until, |at| at.min(until));
        for group in &job.groups {
            let one = u128::from(group.shape.get(kind));
            let mut left = group.instances;
            for runs in &group.runs {
                let n = runs.count.min(left);
                left -= n;
                let amount = one * u128::from(n);
                let ends = job.submitted.plus(runs.span).min(end).max(job.submitted);
                changes.entry(job.submitted).or_default().begins += amount;
                changes.entry(ends).or_default().ends += amount;
            }
            let amount = one * u128::from(left);
            changes.entry(job.submitted).or_default().begins += amount;
            changes.entry(end.max(job.submitted)).or_default().ends += amount;
        }
    }
    let mut there: BTreeMap<&str, Resources> = BTreeMap::new();
    for change in &trace.capacities {
        let before = there.insert(&change.cluster, change.capacity.sum());
        let at = changes.entry(change.at).or_default();
        at.comes += u128::from(change.capacity.sum().get(kind));
        at.goes += before.map_or(0, |before| u128::from(before.get(kind)));
    }
    changes.entry(until).or_default();
    let (mut since, mut active, mut capacity) = (Timestamp(0), 0u128, 0u128);
    // Work that is done up to now without a bound, and capacity up to now, times time; the least difference
    // of both, as two parts.
    let (mut work, mut room) = (0u128, 0u128);
    let mut best = (0u128, 0u128);
    for (at, change) in changes.range(..=until) {
        let span = u128::from(at.since(since).0);
        work += active * span;
        room += capacity * span;
        since = *at;
        if work + best.1 < room + best.0 {
            best = (work, room);
        }
        active = (active + change.begins).saturating_sub(change.ends);
        capacity = (capacity + change.comes).saturating_sub(change.goes);
    }
    best.0 + room - best.1
}
