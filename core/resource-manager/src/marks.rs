//! Marks by count: so many of the waiting numbers of a slice are to go to another cluster. Which ones wait only its shard knows, so a mark
//! is tried on one range, then on another, and taken back where it has nothing to do.

use crate::picture::{JobView, SliceKey};
use crate::ranges::{Cut, change};
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::directive::SliceReport;
use echelon_core_model::{ClusterId, RangeSet, ReasonCode, Span, Timestamp};
use std::sync::Arc;

/// Most ranges of one group that marks are made in: of 64 groups they have their place in one write.
pub(crate) const MAX_RANGES: usize = 400;

/// How often numbers that wait could have been marked by now: until they count as stuck, and then until a mark is taken back.
pub(crate) fn tries(now: Timestamp, spill_after: Span) -> usize {
    let each = spill_after.0.saturating_mul(3).max(1);
    usize::try_from(now.0 / each).unwrap_or_default()
}

/// The unmarked ranges of a slice, by index, the highest first, but begun with another one at each try: which of them have waiting numbers
/// only the shard knows, and what asks for too many where there are none is taken back.
pub(crate) fn markable(ranges: &[AssignedRange], key: &SliceKey, tries: usize) -> Vec<usize> {
    let unmarked = |(_, r): &(usize, &AssignedRange)| is_of(r, key) && r.releasing.is_none();
    let all = ranges.iter().enumerate().filter(unmarked);
    let mut out: Vec<usize> = all.map(|(i, _)| i).collect();
    out.reverse();
    let first = tries.checked_rem(out.len()).unwrap_or_default();
    out.rotate_left(first);
    out
}

/// Marks waiting numbers of a slice to go to another cluster; tells how many.
pub(crate) fn mark_some(
    job: &mut JobView,
    key: &SliceKey,
    (to, count): (&ClusterId, u64),
    tries: usize,
) -> u64 {
    let open = markable(job.decided.ranges(&key.group), key, tries);
    if count == 0 || open.is_empty() {
        return 0;
    }
    let Some(ranges) = Arc::make_mut(&mut job.decided).groups.get_mut(&key.group) else {
        return 0;
    };
    let mut left = count;
    for at in open {
        let Some(r) = ranges.get_mut(at).filter(|_| left > 0) else {
            break;
        };
        let n = left.min(r.range.count());
        r.releasing = Some(Releasing {
            to: Some(to.clone()),
            why: ReasonCode::Moved,
            count: Some(n),
        });
        left -= n;
    }
    count - left
}

/// Sends waiting numbers of a slice to another cluster, unless its assignment is being changed already. Tells whether it did.
pub(crate) fn send_waiting(
    job: &mut JobView,
    key: &SliceKey,
    (to, count): (&ClusterId, u64),
    (now, spill_after): (Timestamp, Span),
) -> bool {
    let settled = job.durable == job.decided && job.decided.ranges(&key.group).len() <= MAX_RANGES;
    let marked = settled && mark_some(job, key, (to, count), tries(now, spill_after)) > 0;
    if marked {
        // However long they have waited: the mark is doubted from now on.
        job.stuck.insert(key.clone(), now);
    }
    marked
}

pub(crate) fn is_of(r: &AssignedRange, key: &SliceKey) -> bool {
    r.cluster == key.cluster && r.generation == key.generation
}

/// A mark by count has nothing left to do when every number of the slice has begun: it is taken back. Tells whether any was.
pub(crate) fn withdraw_idle(job: &mut JobView, key: &SliceKey, report: &SliceReport) -> bool {
    report.unstarted == 0 && withdraw(job, key)
}

/// Takes back the marks by count of a slice. Tells whether there were any.
pub(crate) fn withdraw(job: &mut JobView, key: &SliceKey) -> bool {
    let idle: RangeSet = job
        .decided
        .ranges(&key.group)
        .iter()
        .filter(|r| is_of(r, key) && r.releasing.as_ref().is_some_and(|m| m.count.is_some()))
        .map(|r| r.range)
        .collect();
    let decided = (!idle.is_empty()).then(|| Arc::make_mut(&mut job.decided));
    let Some(ranges) = decided.and_then(|d| d.groups.get_mut(&key.group)) else {
        return false;
    };
    change(ranges, &idle, Cut::Kept, |r| {
        Some(AssignedRange { releasing: None, ..r })
    });
    true
}
