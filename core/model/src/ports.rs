//! Sets of a host's ports.

use crate::id::InstanceNumber;
use crate::range::{InstanceRange, RangeSet};
use std::fmt;

/// Port numbers as ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortSet(RangeSet);

impl PortSet {
    /// No ports.
    #[must_use]
    pub const fn new() -> Self {
        Self(RangeSet::new())
    }

    /// Adds a range, both ends included; an empty one adds nothing.
    pub fn insert(&mut self, first: u16, last: u16) {
        if let Some(range) = InstanceRange::new(first.into(), last.into()) {
            self.0.insert(range);
        }
    }

    /// Takes a port out; whether it was there.
    pub fn take(&mut self, port: u16) -> bool {
        let there = self.contains(port);
        if there {
            self.0.remove(InstanceRange::one(InstanceNumber(port.into())));
        }
        there
    }

    /// Whether a port is in it.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(InstanceNumber(port.into()))
    }

    /// Whether none is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The ports in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.numbers().filter_map(|n| u16::try_from(n.0).ok())
    }

    /// The ranges in order, both ends included.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let end = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        self.0.ranges().iter().map(move |r| (end(r.first), end(r.last)))
    }

    /// All ports of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0))
    }

    /// The ports that the other has not.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.minus(&other.0))
    }

    /// Whether all ports of the other are in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.minus(self).is_empty()
    }
}

impl FromIterator<u16> for PortSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        let mut out = Self::new();
        ports.into_iter().for_each(|p| out.insert(p, p));
        out
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ports that an instance wants, in order: a certain one, or any.
pub type PortWishes = Vec<Option<u16>>;

/// Ports for the wishes out of those that are free: the certain ones, and for the others the lowest that nobody of them asks
/// for. `None` when there are too few. `O(ranges + wishes log wishes)`.
#[must_use]
pub fn choose(wishes: &[Option<u16>], free: &PortSet) -> Option<Vec<u16>> {
    let mut left = free.clone();
    if !wishes.iter().flatten().all(|port| left.take(*port)) {
        return None;
    }
    let mut any = left.iter();
    wishes.iter().map(|wish| wish.or_else(|| any.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(ranges: &[(u16, u16)]) -> PortSet {
        let mut out = PortSet::new();
        ranges.iter().for_each(|(a, b)| out.insert(*a, *b));
        out
    }

    #[test]
    fn ports_are_chosen_by_wish_then_from_below() {
        let free = set(&[(31_000, 31_002), (80, 80)]);
        let any = None;
        for (wishes, chosen) in [
            (vec![], Some(vec![])),
            (vec![any, any], Some(vec![80, 31_000])),
            (vec![any, Some(80)], Some(vec![31_000, 80])),
            (vec![Some(81)], None),
            (vec![Some(80), Some(80)], None),
            (vec![any; 5], None),
        ] {
            assert_eq!(choose(&wishes, &free), chosen, "{wishes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_free_and_chosen_once(
            free in prop::collection::btree_set(0u16..40, 0..20),
            wishes in prop::collection::vec(prop::option::of(0u16..40), 0..8),
        ) {
            let free: PortSet = free.into_iter().collect();
            match choose(&wishes, &free) {
                Some(chosen) => {
                    let different: PortSet = chosen.iter().copied().collect();
                    prop_assert_eq!(different.count(), chosen.len() as u64);
                    prop_assert!(free.covers(&different));
                    prop_assert!(wishes.iter().zip(&chosen).all(|(w, c)| w.is_none_or(|w| w == *c)));
                }
                None => {
                    let certain: Vec<u16> = wishes.iter().flatten().copied().collect();
                    let different: PortSet = certain.iter().copied().collect();
                    let possible = different.count() == certain.len() as u64 && free.covers(&different);
                    prop_assert!(!possible || free.count() < wishes.len() as u64);
                }
            }
        }
    }
}
