//! Cutting and joining assigned ranges. Every change of an assignment goes through `change`, so that ranges
//! stay sorted, disjoint and few.

use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::{InstanceRange, RangeSet};

/// What happens to the indexes that are cut out of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// They stay counted in a mark by count on their range.
    Kept,
    /// They were released: a mark by count on their range has that many fewer left.
    Released,
}

/// Cuts `numbers` out of the ranges that contain them, and puts what `f` makes of each piece in their place.
/// `None` removes the piece.
pub fn change(
    ranges: &mut Vec<AssignedRange>,
    numbers: &RangeSet,
    cut: Cut,
    mut f: impl FnMut(AssignedRange) -> Option<AssignedRange>,
) {
    let mut out = Vec::new();
    for r in std::mem::take(ranges) {
        let whole: RangeSet = std::iter::once(r.range).collect();
        let hit = whole.intersect(numbers);
        if hit.is_empty() {
            out.push(r);
            continue;
        }
        out.extend(rest(&r, &whole.minus(&hit), left_to_go(&r, cut, hit.count())));
        let pieces = hit.ranges().iter().map(|range| with_range(&r, *range));
        out.extend(pieces.filter_map(&mut f));
    }
    *ranges = joined(out);
}

/// Cuts the last `n` indexes out of the ranges that may lose some.
pub(crate) fn without_last(
    ranges: &mut Vec<AssignedRange>,
    n: u64,
    may_lose: impl Fn(&AssignedRange) -> bool,
) {
    let (mut left, mut kept) = (n, Vec::new());
    for mut r in ranges.drain(..).rev() {
        let cut = if may_lose(&r) {
            left.min(r.range.count())
        } else {
            0
        };
        left = left.saturating_sub(cut);
        let last = u32::try_from(cut)
            .ok()
            .and_then(|cut| r.range.last.checked_sub(cut));
        if let Some(last) = last.filter(|last| *last >= r.range.first) {
            r.range.last = last;
            kept.push(r);
        }
    }
    kept.reverse();
    *ranges = kept;
}

/// How many indexes a mark by count still has to release.
fn left_to_go(r: &AssignedRange, cut: Cut, gone: u64) -> u64 {
    let count = r.releasing.as_ref().and_then(|m| m.count).unwrap_or_default();
    match cut {
        Cut::Kept => count,
        Cut::Released => count.saturating_sub(gone),
    }
}

/// What is left of a range. A mark by count stays with its highest indexes.
fn rest(r: &AssignedRange, left: &RangeSet, mut to_go: u64) -> Vec<AssignedRange> {
    let mut out = Vec::new();
    for range in left.ranges().iter().rev() {
        let mut piece = with_range(r, *range);
        if let Some(Releasing { count: Some(n), .. }) = &mut piece.releasing {
            *n = to_go.min(range.count());
            to_go -= *n;
            if *n == 0 {
                piece.releasing = None;
            }
        }
        out.push(piece);
    }
    out
}

fn with_range(r: &AssignedRange, range: InstanceRange) -> AssignedRange {
    AssignedRange { range, ..r.clone() }
}

/// The ranges in order. Those that touch and are otherwise equal are joined into one.
#[must_use]
pub fn joined(mut ranges: Vec<AssignedRange>) -> Vec<AssignedRange> {
    ranges.sort_by_key(|r| r.range);
    let mut out: Vec<AssignedRange> = Vec::with_capacity(ranges.len());
    for r in ranges {
        match out.last_mut() {
            Some(before) if says_the_same(before, &r) => before.range.last = r.range.last,
            _ => out.push(r),
        }
    }
    out
}

fn says_the_same(a: &AssignedRange, b: &AssignedRange) -> bool {
    // Two marks by count have two counts, so their ranges stay apart.
    let by_count = |r: &AssignedRange| r.releasing.as_ref().is_some_and(|m| m.count.is_some());
    a.range.last.checked_add(1) == Some(b.range.first)
        && (&a.cluster, a.generation, &a.former, &a.releasing)
            == (&b.cluster, b.generation, &b.former, &b.releasing)
        && !by_count(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{ClusterId, Generation, InstanceNumber, ReasonCode};
    use proptest::prelude::*;

    fn range(first: u32, last: u32, count: Option<Option<u64>>) -> AssignedRange {
        AssignedRange {
            range: InstanceRange { first, last },
            cluster: ClusterId::new("a"),
            generation: Generation(1),
            former: None,
            releasing: count.map(|count| Releasing {
                to: None,
                why: ReasonCode::Moved,
                count,
            }),
        }
    }

    fn numbers(n: &[u32]) -> RangeSet {
        n.iter().map(|n| InstanceNumber(*n)).collect()
    }

    #[test]
    fn what_touches_and_says_the_same_is_one_range() {
        let mut ranges = vec![range(0, 9, None)];
        change(&mut ranges, &numbers(&[3, 4]), Cut::Kept, |r| {
            Some(AssignedRange {
                releasing: range(0, 0, Some(None)).releasing,
                ..r
            })
        });
        assert_eq!(
            ranges,
            [range(0, 2, None), range(3, 4, Some(None)), range(5, 9, None)]
        );
        change(&mut ranges, &numbers(&[3, 4]), Cut::Kept, |r| {
            Some(AssignedRange { releasing: None, ..r })
        });
        assert_eq!(ranges, [range(0, 9, None)]);
    }

    #[test]
    fn a_mark_by_count_counts_down_and_stays_with_the_highest() {
        let mut ranges = vec![range(0, 9, Some(Some(5)))];
        change(&mut ranges, &numbers(&[8, 9]), Cut::Released, |_| None);
        assert_eq!(ranges, [range(0, 7, Some(Some(3)))]);
        change(&mut ranges, &numbers(&[6]), Cut::Kept, |_| None);
        assert_eq!(ranges, [range(0, 5, Some(Some(2))), range(7, 7, Some(Some(1)))]);
        change(&mut ranges, &numbers(&[4, 5, 7]), Cut::Released, |_| None);
        assert_eq!(ranges, [range(0, 3, None)]);
    }

    proptest! {
        #[test]
        fn no_number_is_lost_or_doubled(
            cuts in proptest::collection::vec((proptest::collection::btree_set(0u32..30, 0..12), any::<bool>()), 1..6),
        ) {
            let mut ranges = vec![range(0, 14, None), range(15, 29, Some(Some(4)))];
            let mut left = RangeSet::below(30);
            for (cut, keep) in cuts {
                let cut: RangeSet = cut.into_iter().map(InstanceNumber).collect();
                change(&mut ranges, &cut, Cut::Released, |r| keep.then_some(AssignedRange { releasing: None, ..r }));
                if !keep {
                    left = left.minus(&cut);
                }
                let all: RangeSet = ranges.iter().map(|r| r.range).collect();
                prop_assert_eq!(&all, &left);
                prop_assert_eq!(ranges.iter().map(|r| r.range.count()).sum::<u64>(), left.count());
                prop_assert!(ranges.windows(2).all(|p| p[0].range.last < p[1].range.first));
            }
        }
    }
}
