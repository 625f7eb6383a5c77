//! What pools have, each with the pools below it. It is kept while jobs change, because a walk over all pools
//! takes milliseconds.

use crate::hierarchy::{Hierarchy, PoolIdx};
use crate::pages::Pages;
use crate::terms::Held;
use std::sync::Arc;

/// What each pool has with the pools below it, by index. The sum over all pools of a tree does not saturate
/// (`echelon_core_model::sum::MOST_COUNTED`), so what was added can be subtracted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSums {
    hierarchy: Arc<Hierarchy>,
    /// What each has by itself.
    own: Pages<Held>,
    all: Pages<Held>,
}

impl PoolSums {
    /// Of what pools have by themselves. `O(pools)`.
    #[must_use]
    pub fn new(hierarchy: Arc<Hierarchy>, own: impl Iterator<Item = (PoolIdx, Held)>) -> Self {
        let mut of_each = Pages::new(hierarchy.len());
        for (pool, held) in own {
            if let Some(slot) = of_each.get_mut(pool) {
                *slot = held;
            }
        }
        let mut all = of_each.clone();
        // Each pool comes after its parent.
        for i in hierarchy.indexes().rev() {
            let Some(parent) = hierarchy.above(i).next() else {
                continue;
            };
            let below = all.get(i).copied();
            let Some(below) = below.filter(|below| *below != Held::default()) else {
                continue;
            };
            if let Some(sum) = all.get_mut(parent) {
                *sum = sum.plus(below);
            }
        }
        Self {
            hierarchy,
            own: of_each,
            all,
        }
    }

    /// Takes a hierarchy over with the same pools at the same places. `false`: it has others.
    #[must_use]
    pub fn set_hierarchy(&mut self, hierarchy: &Arc<Hierarchy>) -> bool {
        let is_same = self.hierarchy.has_places_of(hierarchy);
        if is_same {
            self.hierarchy = Arc::clone(hierarchy);
        }
        is_same
    }

    /// A pool has so much by itself from now on. `O(depth)`.
    pub fn set(&mut self, pool: PoolIdx, held: Held) {
        let Some(own) = self.own.get_mut(pool) else {
            return;
        };
        let before = std::mem::replace(own, held);
        if before == held {
            return;
        }
        for i in std::iter::once(pool).chain(self.hierarchy.above(pool)) {
            if let Some(sum) = self.all.get_mut(i) {
                *sum = sum.minus(before).plus(held);
            }
        }
    }

    pub(crate) const fn all(&self) -> &Pages<Held> {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::tests::{pool, tree};
    use crate::rooms::Rooms;
    use echelon_core_model::Resources;
    use echelon_core_testkit::build::shape;

    fn hierarchy() -> Arc<Hierarchy> {
        let pools = ["/a", "/a/x", "/a/x/q", "/a/y", "/b"].map(|path| pool(path, 0, 9, 1));
        Arc::new(Hierarchy::new(&tree(pools)))
    }

    fn held(n: u64) -> Held {
        Held {
            instances: n,
            ..Held::plain(shape(n, 0), Resources::ZERO)
        }
    }

    #[test]
    fn what_all_pools_have_is_the_same_in_one_walk_as_pool_by_pool() {
        let hierarchy = hierarchy();
        // An inner pool may have something by itself, and some pools have nothing.
        let own = || [1, 3, 4, 5].map(|i| (i, held(i as u64))).into_iter();
        let new = || Rooms::new(Arc::clone(&hierarchy), Resources::ZERO, Vec::new());
        let (mut one_by_one, mut at_once) = (new(), new());
        own().for_each(|(pool, held)| one_by_one.take_pool(pool, held));
        at_once.take_sums(&PoolSums::new(Arc::clone(&hierarchy), own()));
        assert_eq!(at_once, one_by_one);
        assert_eq!(at_once.instances(), 13);
    }

    #[test]
    fn sums_that_follow_changes_are_those_of_one_walk() {
        let hierarchy = hierarchy();
        let mut sums = PoolSums::new(Arc::clone(&hierarchy), std::iter::empty());
        assert!(sums.set_hierarchy(&hierarchy) && !sums.set_hierarchy(&Arc::default()));
        let mut own = [0u64; 6];
        for (pool, n) in [(5, 7), (3, 2), (1, 4), (5, 1), (9, 5), (3, 0), (4, 6)] {
            sums.set(pool, held(n));
            if let Some(slot) = own.get_mut(pool) {
                *slot = n;
            }
            let own = own.iter().enumerate().map(|(i, n)| (i, held(*n)));
            assert_eq!(sums, PoolSums::new(Arc::clone(&hierarchy), own));
        }
    }
}
