//! Round 0 of entitlement, kept while demands change. Most changes of demand change no amount: a pool that
//! has more demand than it gets, before and after, leaves every other pool with what it has. Such a change
//! costs a walk up the tree. After any other change the next read divides the whole capacity, once. The
//! result is that of `entitle`.

use crate::entitle::{Entitlements, cap, divide, set};
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use echelon_core_model::resources::{Kind, Resources};
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
    /// The amounts are not those of the present demands and capacity.
    is_outdated: bool,
}

impl FirstRound {
    /// Divides a capacity. `demand` is by index. `O(n log n)`.
    #[must_use]
    pub fn new(hierarchy: Arc<Hierarchy>, demand: Vec<Resources>, capacity: Resources) -> Self {
        let mut out = Self {
            below: vec![[0; 4]; hierarchy.len()],
            entitled: Arc::default(),
            is_outdated: true,
            demand,
            capacity,
            hierarchy,
        };
        out.entitlements();
        out
    }

    /// Whether it is about this very hierarchy, with its shares, limits and reservations.
    #[must_use]
    pub fn divides(&self, hierarchy: &Arc<Hierarchy>) -> bool {
        Arc::ptr_eq(&self.hierarchy, hierarchy)
    }

    /// There is another amount to divide. `O(1)`.
    pub fn set_capacity(&mut self, capacity: Resources) {
        self.is_outdated |= self.capacity != capacity;
        self.capacity = capacity;
    }

    /// A pool that takes jobs wants another amount. `O(depth)`; nothing is divided.
    pub fn set_demand(&mut self, pool: PoolIdx, demand: Resources) {
        let Some(wanted) = self.demand.get_mut(pool).filter(|_| self.hierarchy.is_leaf(pool)) else {
            return;
        };
        *wanted = demand;
        if self.is_outdated || self.passes_up(pool, demand) {
            return;
        }
        self.is_outdated = true;
    }

    /// Takes the caps of a pool and of those above it in; `false`: some amount may be another one.
    fn passes_up(&mut self, pool: PoolIdx, demand: Resources) -> bool {
        let entitled = Arc::make_mut(&mut self.entitled);
        let (mut at, mut wanted) = (pool, demand);
        loop {
            let of_pool = self.hierarchy.pool(at);
            let (before, after) = (entitled.cap(at), cap(of_pool, wanted));
            if before == after {
                return true;
            }
            let Some(parent) = self.hierarchy.above(at).next() else {
                // The root is no part of a division.
                entitled.set_cap(at, after);
                return true;
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
            let differs = |kind: &Kind| before.get(*kind) != after.get(*kind);
            if !Kind::ALL.into_iter().filter(differs).all(is_beyond) {
                return false;
            }
            entitled.set_cap(at, after);
            let Some(sums) = self.below.get_mut(parent) else {
                return false;
            };
            for (sum, kind) in sums.iter_mut().zip(Kind::ALL) {
                let without = sum.checked_sub(u128::from(before.get(kind)));
                let Some(sum_now) = without.map(|sum| sum + u128::from(after.get(kind))) else {
                    return false;
                };
                *sum = sum_now;
                wanted = wanted.with(kind, u64::try_from(sum_now).unwrap_or(u64::MAX));
            }
            at = parent;
        }
    }

    /// What every pool may use now. `O(1)`, or `O(n log n)` where some change may have changed an amount.
    pub fn entitlements(&mut self) -> Arc<Entitlements> {
        if self.is_outdated {
            self.divide();
            self.is_outdated = false;
        }
        Arc::clone(&self.entitled)
    }

    fn divide(&mut self) {
        let hierarchy = &self.hierarchy;
        let mut caps = vec![Resources::ZERO; hierarchy.len()];
        self.below.fill([0; 4]);
        for i in hierarchy.indexes().rev() {
            let sums = self.below.get(i).copied().unwrap_or_default();
            let wanted = if hierarchy.is_leaf(i) {
                self.demand.get(i).copied().unwrap_or_default()
            } else {
                let units = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
                let pairs = Kind::ALL.into_iter().zip(sums);
                pairs.fold(Resources::ZERO, |r, (kind, sum)| r.with(kind, units(sum)))
            };
            let cap = cap(hierarchy.pool(i), wanted);
            set(&mut caps, i, |_| cap);
            let parent = hierarchy.above(i).next();
            if let Some(sums) = parent.and_then(|p| self.below.get_mut(p)) {
                for (sum, kind) in sums.iter_mut().zip(Kind::ALL) {
                    *sum += u128::from(cap.get(kind));
                }
            }
        }
        debug_assert_eq!(caps.len(), hierarchy.len());
        let none = vec![Resources::ZERO; hierarchy.len()];
        self.entitled = Arc::new(divide(hierarchy, caps, &none, self.capacity));
        debug_assert_eq!(self.entitled.amount(ROOT), self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate;
    use crate::entitle::entitle;
    use crate::entitle::tests::{Sample, cpus, pool, sample, tree};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn first_round(s: &Sample) -> FirstRound {
        let h = Hierarchy::new(&s.tree);
        let demand = s.demand(&h);
        FirstRound::new(Arc::new(h), demand, cpus(s.capacity))
    }

    fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u64, Option<u64>)>> {
        let capacity = proptest::option::weighted(0.2, 0u64..200);
        proptest::collection::vec((any::<prop::sample::Index>(), 0u64..60, capacity), 1..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn after_each_change_the_amounts_are_those_of_a_full_division(mut s in sample(), changes in changes()) {
            let mut round = first_round(&s);
            for (at, wanted, capacity) in changes {
                let i = at.index(s.demand.len());
                s.demand[i].1 = wanted;
                s.capacity = capacity.unwrap_or(s.capacity);
                let pool = round.hierarchy.find(&s.demand[i].0).unwrap();
                round.set_demand(pool, cpus(wanted));
                round.set_capacity(cpus(s.capacity));
                let full = entitle(&round.hierarchy, &s.demand(&round.hierarchy), cpus(s.capacity));
                prop_assert_eq!(&*round.entitlements(), &full);
            }
            let entitled = round.entitlements();
            let proof = certificate::certify(&round.hierarchy, &entitled);
            let demand: BTreeMap<_, _> = s.demand.iter().map(|(p, n)| (p.clone(), cpus(*n))).collect();
            prop_assert_eq!(certificate::check(&s.tree, &demand, cpus(s.capacity), &proof), []);
        }
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
            assert!(!round.is_outdated, "{wanted}");
        }
        assert_eq!(round.entitlements().amount(a), cpus(5));
        round.set_demand(a, cpus(5));
        assert!(round.is_outdated);
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
