//! Ranges of instance numbers, and sets of them kept sorted and merged, so that a million instances cost a few numbers.

use crate::id::InstanceNumber;
use std::fmt;

/// Instance numbers from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceRange {
    /// The lowest number.
    pub first: u32,
    /// The highest number.
    pub last: u32,
}

impl InstanceRange {
    /// The range, if it is not empty.
    #[must_use]
    pub const fn new(first: u32, last: u32) -> Option<Self> {
        if first <= last {
            Some(Self { first, last })
        } else {
            None
        }
    }

    /// One number.
    #[must_use]
    pub const fn one(n: InstanceNumber) -> Self {
        Self {
            first: n.0,
            last: n.0,
        }
    }

    /// How many numbers it holds.
    #[must_use]
    pub const fn count(self) -> u64 {
        (self.last - self.first) as u64 + 1
    }

    /// Whether it holds `n`.
    #[must_use]
    pub const fn contains(self, n: InstanceNumber) -> bool {
        self.first <= n.0 && n.0 <= self.last
    }

    /// The numbers that both hold.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// Its numbers in order.
    pub fn numbers(self) -> impl DoubleEndedIterator<Item = InstanceNumber> {
        (self.first..=self.last).map(InstanceNumber)
    }
}

impl fmt::Display for InstanceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// A set of instance numbers as sorted ranges that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct RangeSet(Vec<InstanceRange>);

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The numbers below `n`.
    #[must_use]
    pub fn below(n: u32) -> Self {
        n.checked_sub(1)
            .map_or_else(Self::new, |last| Self(vec![InstanceRange { first: 0, last }]))
    }

    /// The ranges in order.
    #[must_use]
    pub fn ranges(&self) -> &[InstanceRange] {
        &self.0
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|r| r.count()).sum()
    }

    /// Whether it holds `n`. `O(log ranges)`.
    #[must_use]
    pub fn contains(&self, n: InstanceNumber) -> bool {
        let i = self.0.partition_point(|r| r.last < n.0);
        self.0.get(i).is_some_and(|r| r.contains(n))
    }

    /// Its numbers in order.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = InstanceNumber> + '_ {
        self.0.iter().flat_map(|r| r.numbers())
    }

    /// Adds a range. `O(1)` at or after the last range, else `O(ranges)`.
    pub fn insert(&mut self, range: InstanceRange) {
        if self.0.last().is_none_or(|last| last.first <= range.first) {
            self.append(range);
            return;
        }
        let mut all = std::mem::take(&mut self.0);
        let at = all.partition_point(|r| r.first < range.first);
        all.insert(at, range);
        all.into_iter().for_each(|r| self.append(r));
    }

    /// Adds a range that begins no earlier than the last one.
    fn append(&mut self, range: InstanceRange) {
        match self.0.last_mut() {
            Some(before) if u64::from(range.first) <= u64::from(before.last) + 1 => {
                before.last = before.last.max(range.last);
            }
            _ => self.0.push(range),
        }
    }

    /// Removes a range.
    pub fn remove(&mut self, range: InstanceRange) {
        let keep = self.0.iter().flat_map(|r| {
            let left = range
                .first
                .checked_sub(1)
                .and_then(|last| InstanceRange::new(r.first, last.min(r.last)));
            let right = range
                .last
                .checked_add(1)
                .and_then(|first| InstanceRange::new(first.max(r.first), r.last));
            [left, right].into_iter().flatten()
        });
        self.0 = keep.collect();
    }

    /// The numbers that `self` holds and `other` does not.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut out = self.clone();
        other.0.iter().for_each(|r| out.remove(*r));
        out
    }

    /// The numbers that both hold.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        self.minus(&self.minus(other))
    }

    /// The numbers that either holds.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        other.0.iter().for_each(|r| out.insert(*r));
        out
    }

    /// The lowest `n` numbers.
    #[must_use]
    pub fn lowest(&self, n: u64) -> Self {
        let mut left = n;
        let mut out = Vec::new();
        for r in &self.0 {
            let take = left.min(r.count());
            let Some(more) = take.checked_sub(1) else { break };
            let last = r.first.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            out.push(InstanceRange { first: r.first, last });
            left -= take;
        }
        Self(out)
    }

    /// The highest `n` numbers.
    #[must_use]
    pub fn highest(&self, n: u64) -> Self {
        self.minus(&self.lowest(self.count().saturating_sub(n)))
    }
}

impl FromIterator<InstanceRange> for RangeSet {
    fn from_iter<I: IntoIterator<Item = InstanceRange>>(ranges: I) -> Self {
        let mut out = Self::new();
        ranges.into_iter().for_each(|r| out.insert(r));
        out
    }
}

impl FromIterator<InstanceNumber> for RangeSet {
    fn from_iter<I: IntoIterator<Item = InstanceNumber>>(numbers: I) -> Self {
        numbers.into_iter().map(InstanceRange::one).collect()
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.0.iter().enumerate() {
            write!(f, "{}{r}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0u32..40, 0..30)
    }

    fn ranges(numbers: &BTreeSet<u32>) -> RangeSet {
        numbers.iter().copied().map(InstanceNumber).collect()
    }

    fn plain(set: &RangeSet) -> BTreeSet<u32> {
        set.numbers().map(|n| n.0).collect()
    }

    proptest! {
        #[test]
        fn ranges_behave_as_plain_sets(a in set(), b in set(), n in 0usize..45) {
            let (ra, rb) = (ranges(&a), ranges(&b));
            prop_assert_eq!(plain(&ra), a.clone());
            prop_assert_eq!(plain(&ra.minus(&rb)), a.difference(&b).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(plain(&ra.union(&rb)), a.union(&b).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(plain(&ra.intersect(&rb)), a.intersection(&b).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(plain(&ra.lowest(n as u64)), a.iter().take(n).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(plain(&ra.highest(n as u64)), a.iter().rev().take(n).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(ra.count(), a.len() as u64);
            prop_assert!((0..45).all(|i| ra.contains(InstanceNumber(i)) == a.contains(&i)));
        }
    }

    #[test]
    fn the_ends_of_the_number_line_are_numbers() {
        let all: RangeSet = [InstanceRange {
            first: 0,
            last: u32::MAX,
        }]
        .into_iter()
        .collect();
        assert_eq!(all.count(), 1 << 32);
        let mut rest = all;
        rest.remove(InstanceRange {
            first: 0,
            last: u32::MAX - 1,
        });
        assert_eq!(rest.to_string(), u32::MAX.to_string());
        assert!(RangeSet::below(0).is_empty());
    }
}
