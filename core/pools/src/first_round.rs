//! Round 0 of entitlement, kept while demands change. Most changes of demand change no amount: a pool that
//! has more demand than it gets, before and after, leaves every other pool with what it has. Such a change
//! costs a walk up the tree. After any other change the next read divides again, and only what may have
//! changed: nodes that have a child with another cap, and nodes below them that get another amount. The
//! result is that of `entitle`.

use crate::entitle::{Entitlements, cap, divide, divide_node, set};
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use echelon_core_model::resources::{Kind, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Demands, a capacity, and what each pool may use of it.
#[derive(Debug, Clone)]
pub struct FirstRound {
    hierarchy: Arc<Hierarchy>,
    capacity: Resources,
    /// By index; those of inner pools count nothing.
    demand: Vec<Resources>,
    /// What the children of each node may use at most, in sum, by kind.
    below: Vec<[u128; 4]>,
    entitled: Arc<Entitlements>,
    /// Nodes that have a child which may get another amount, and of which kinds.
    outdated: BTreeMap<PoolIdx, Kinds>,
}

/// A set of kinds.
type Kinds = [bool; 4];

impl FirstRound {
    /// Divides a capacity. `demand` is by index; that of inner pools counts nothing. `O(n log n)`.
    #[must_use]
    pub fn new(hierarchy: Arc<Hierarchy>, demand: Vec<Resources>, capacity: Resources) -> Self {
        let mut caps = vec![Resources::ZERO; hierarchy.len()];
        let mut below = vec![[0u128; 4]; hierarchy.len()];
        for i in hierarchy.indexes().rev() {
            let wanted = if hierarchy.is_leaf(i) {
                demand.get(i).copied().unwrap_or_default()
            } else {
                below.get(i).map(in_units).unwrap_or_default()
            };
            let cap = cap(hierarchy.pool(i), wanted);
            set(&mut caps, i, |_| cap);
            let parent = hierarchy.above(i).next();
            if let Some(sums) = parent.and_then(|p| below.get_mut(p)) {
                for (sum, kind) in sums.iter_mut().zip(Kind::ALL) {
                    *sum += u128::from(cap.get(kind));
                }
            }
        }
        let none = vec![Resources::ZERO; hierarchy.len()];
        Self {
            entitled: Arc::new(divide(&hierarchy, caps, &none, capacity)),
            outdated: BTreeMap::new(),
            below,
            demand,
            capacity,
            hierarchy,
        }
    }

    /// Takes over other values of some pools; no other pool may have changed. `false`: that is not possible,
    /// because pools came, went or moved. `O(depth)` for each of them; nothing is divided.
    #[must_use]
    pub fn set_hierarchy<'a>(
        &mut self,
        hierarchy: &Arc<Hierarchy>,
        changed: impl IntoIterator<Item = &'a PoolIdx>,
    ) -> bool {
        if Arc::ptr_eq(&self.hierarchy, hierarchy) {
            return true;
        }
        if !self.hierarchy.has_places_of(hierarchy) {
            return false;
        }
        self.hierarchy = Arc::clone(hierarchy);
        for pool in changed {
            if let Some(parent) = self.hierarchy.above(*pool).next() {
                let all = Kind::ALL.into_iter();
                all.for_each(|kind| mark(&mut self.outdated, parent, kind));
            }
            self.walk_up(*pool);
        }
        true
    }

    /// There is another amount to divide. `O(1)`.
    pub fn set_capacity(&mut self, capacity: Resources) {
        for kind in Kind::ALL {
            if self.capacity.get(kind) != capacity.get(kind) {
                mark(&mut self.outdated, ROOT, kind);
            }
        }
        self.capacity = capacity;
    }

    /// A pool that takes jobs wants another amount. `O(depth)`; nothing is divided.
    pub fn set_demand(&mut self, pool: PoolIdx, demand: Resources) {
        let Some(slot) = self.demand.get_mut(pool).filter(|_| self.hierarchy.is_leaf(pool)) else {
            return;
        };
        *slot = demand;
        self.walk_up(pool);
    }

    /// Takes over the caps of a pool and of those above it.
    fn walk_up(&mut self, pool: PoolIdx) {
        let wanted = if self.hierarchy.is_leaf(pool) {
            self.demand.get(pool).copied()
        } else {
            self.below.get(pool).map(in_units)
        };
        let (mut at, Some(mut wanted)) = (pool, wanted) else {
            return;
        };
        let entitled = Arc::make_mut(&mut self.entitled);
        loop {
            let of_pool = self.hierarchy.pool(at);
            let (before, after) = (entitled.cap(at), cap(of_pool, wanted));
            if before == after {
                return;
            }
            entitled.set_cap(at, after);
            let Some(parent) = self.hierarchy.above(at).next() else {
                // The root is no part of a division.
                return;
            };
            let amount = entitled.amount(at);
            let reserved = of_pool.map(|p| p.reservation).unwrap_or_default();
            let is_beyond = |kind: Kind| {
                let (before, after) = (before.get(kind), after.get(kind));
                let reserved = reserved.get(kind);
                // It takes part in the same phases, and gets less than it could in each of them.
                let same_floor = before.min(reserved) == after.min(reserved);
                let same_phases = (before > reserved) == (after > reserved);
                before.min(after) > amount.get(kind) && same_floor && same_phases
            };
            let Some(sums) = self.below.get_mut(parent) else {
                return;
            };
            for (sum, kind) in sums.iter_mut().zip(Kind::ALL) {
                let (less, more) = (before.get(kind), after.get(kind));
                if less == more {
                    continue;
                }
                if !is_beyond(kind) {
                    mark(&mut self.outdated, parent, kind);
                }
                // The cap of before is part of the sum.
                *sum = sum.saturating_sub(u128::from(less)) + u128::from(more);
            }
            wanted = in_units(sums);
            at = parent;
        }
    }

    /// What every pool may use now. `O(1)`, or `O(n log n)` over the children of the nodes that are divided
    /// again.
    pub fn entitlements(&mut self) -> Arc<Entitlements> {
        if !self.outdated.is_empty() {
            self.divide();
        }
        Arc::clone(&self.entitled)
    }

    /// Divides again what may have changed, each node before those below it.
    fn divide(&mut self) {
        let Self {
            hierarchy,
            capacity,
            entitled,
            outdated,
            ..
        } = self;
        let entitled = Arc::make_mut(entitled);
        entitled.set_amount(ROOT, *capacity);
        let mut parts = Vec::new();
        while let Some((node, kinds)) = outdated.pop_first() {
            let pairs = Kind::ALL.into_iter().zip(kinds);
            for kind in pairs.filter(|(_, is)| *is).map(|(kind, _)| kind) {
                divide_node(hierarchy, entitled, &[], (node, kind), &mut parts, |child| {
                    if !hierarchy.is_leaf(child) {
                        mark(outdated, child, kind);
                    }
                });
            }
        }
    }
}

fn mark(outdated: &mut BTreeMap<PoolIdx, Kinds>, node: PoolIdx, kind: Kind) {
    let kinds = outdated.entry(node).or_default();
    if let Some(is) = kinds.get_mut(kind as usize) {
        *is = true;
    }
}

/// A sum as the demand of an inner pool: at most the largest number of each kind.
fn in_units(sums: &[u128; 4]) -> Resources {
    let pairs = Kind::ALL.into_iter().zip(sums);
    pairs.fold(Resources::ZERO, |r, (kind, sum)| {
        r.with(kind, u64::try_from(*sum).unwrap_or(u64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate;
    use crate::entitle::entitle;
    use crate::entitle::tests::{Sample, cpus, pool, sample, tree};
    use echelon_core_model::pool::Pool;
    use proptest::prelude::*;

    fn first_round(s: &Sample) -> FirstRound {
        let h = Hierarchy::new(&s.tree);
        let demand = s.demand(&h);
        FirstRound::new(Arc::new(h), demand, cpus(s.capacity))
    }

    /// Another demand of a pool, perhaps with another capacity and other bounds of that pool.
    #[derive(Debug, Clone)]
    struct RoundChange {
        at: prop::sample::Index,
        wanted: u64,
        capacity: Option<u64>,
        /// Reservation, limit and share.
        bounds: Option<(u64, u64, u64)>,
        /// The amounts are read before the next change.
        is_read: bool,
    }

    fn changes() -> impl Strategy<Value = Vec<RoundChange>> {
        let capacity = proptest::option::weighted(0.2, 0u64..200);
        let bounds = proptest::option::weighted(0.2, (0u64..10, 0u64..40, 0u64..4));
        let all = (
            any::<prop::sample::Index>(),
            0u64..60,
            capacity,
            bounds,
            any::<bool>(),
        );
        let change = all.prop_map(|all| {
            let (at, wanted, capacity, bounds, is_read) = all;
            RoundChange {
                at,
                wanted,
                capacity,
                bounds,
                is_read,
            }
        });
        proptest::collection::vec(change, 1..12)
    }

    fn take(round: &mut FirstRound, s: &mut Sample, change: &RoundChange) {
        let i = change.at.index(s.demand.len());
        let path = s.demand[i].0.clone();
        s.demand[i].1 = change.wanted;
        s.capacity = change.capacity.unwrap_or(s.capacity);
        let at = round.hierarchy.find(&path).unwrap();
        if let Some((reservation, limit, share)) = change.bounds {
            let kind = s.tree.pools[&path].kind;
            let changed = Pool {
                kind,
                ..pool(&path, reservation, limit, share)
            };
            let next = Arc::new(round.hierarchy.with_values([&changed]));
            s.tree.pools.insert(path, changed);
            assert!(round.set_hierarchy(&next, &[at]));
        }
        round.set_demand(at, cpus(change.wanted));
        round.set_capacity(cpus(s.capacity));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn after_each_change_the_amounts_are_those_of_a_full_division(mut s in sample(), changes in changes()) {
            let mut round = first_round(&s);
            for change in changes {
                take(&mut round, &mut s, &change);
                if change.is_read {
                    let full = entitle(&round.hierarchy, &s.demand(&round.hierarchy), cpus(s.capacity));
                    prop_assert_eq!(&*round.entitlements(), &full);
                }
            }
            let entitled = round.entitlements();
            let full = entitle(&round.hierarchy, &s.demand(&round.hierarchy), cpus(s.capacity));
            prop_assert_eq!(&*entitled, &full);
            let proof = certificate::certify(&round.hierarchy, &entitled);
            let demand: BTreeMap<_, _> = s.demand.iter().map(|(p, n)| (p.clone(), cpus(*n))).collect();
            prop_assert_eq!(certificate::check(&s.tree, &demand, cpus(s.capacity), &proof), []);
        }
    }

    #[test]
    fn only_what_may_have_changed_is_divided_again() {
        let pools = [
            pool("/a", 0, 100, 1),
            pool("/a/x", 0, 100, 1),
            pool("/a/y", 0, 100, 1),
            pool("/b", 0, 100, 1),
            pool("/b/z", 0, 100, 1),
        ];
        let h = Hierarchy::new(&tree(pools));
        let of = |path: &str| h.find(path).unwrap();
        let (a, x, y, z) = (of("/a"), of("/a/x"), of("/a/y"), of("/b/z"));
        let mut demand = vec![Resources::ZERO; h.len()];
        (demand[x], demand[y], demand[z]) = (cpus(20), cpus(20), cpus(30));
        let mut round = FirstRound::new(Arc::new(h.clone()), demand, cpus(20));
        let outdated = |round: &FirstRound| round.outdated.keys().copied().collect::<Vec<_>>();
        // Inside of `/a`, which has more demand than it gets before and after.
        round.set_demand(x, cpus(2));
        assert_eq!(outdated(&round), [a]);
        let entitled = round.entitlements();
        assert_eq!((entitled.amount(x), entitled.amount(y)), (cpus(2), cpus(8)));
        round.set_capacity(cpus(30));
        assert_eq!(outdated(&round), [ROOT]);
        assert_eq!(round.entitlements().amount(y), cpus(13));
        assert!(outdated(&round).is_empty());
        // Another tree may have other pools.
        let other = Arc::new(Hierarchy::new(&tree([pool("/a", 0, 9, 1)])));
        assert!(!round.set_hierarchy(&other, &[]));
    }

    #[test]
    fn a_pool_that_wants_more_than_it_gets_may_want_more_without_a_division() {
        let pools = [pool("/a", 0, 100, 1), pool("/b", 0, 100, 1)];
        let h = Hierarchy::new(&tree(pools));
        let (a, b) = (h.find("/a").unwrap(), h.find("/b").unwrap());
        let mut demand = vec![Resources::ZERO; h.len()];
        (demand[a], demand[b]) = (cpus(20), cpus(20));
        let mut round = FirstRound::new(Arc::new(h), demand, cpus(10));
        for wanted in [40, 1_000, 6] {
            round.set_demand(a, cpus(wanted));
            assert!(round.outdated.is_empty(), "{wanted}");
        }
        assert_eq!(round.entitlements().amount(a), cpus(5));
        round.set_demand(a, cpus(5));
        assert!(!round.outdated.is_empty());
        assert_eq!(round.entitlements().amount(b), cpus(5));
        round.set_demand(a, cpus(4));
        assert_eq!(round.entitlements().amount(b), cpus(6));
    }

    #[test]
    fn sums_beyond_the_largest_number_come_back() {
        let pools = [
            pool("/a", 0, u64::MAX, 1),
            pool("/a/x", 0, u64::MAX, 1),
            pool("/a/y", 0, u64::MAX, 1),
        ];
        let h = Hierarchy::new(&tree(pools));
        let of = |x: u64, y: u64| {
            let mut demand = vec![Resources::ZERO; h.len()];
            demand[h.find("/a/x").unwrap()] = cpus(x);
            demand[h.find("/a/y").unwrap()] = cpus(y);
            demand
        };
        let mut round = FirstRound::new(Arc::new(h.clone()), of(u64::MAX, u64::MAX), cpus(10));
        round.set_demand(h.find("/a/x").unwrap(), cpus(3));
        round.set_demand(h.find("/a/y").unwrap(), cpus(4));
        assert_eq!(*round.entitlements(), entitle(&h, &of(3, 4), cpus(10)));
    }
}
