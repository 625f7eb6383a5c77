//! Round 0 of entitlement, standing: one pool's demand changes, and what depends on it is found without dividing everything again.
//! A change is entered where it happened and in the pools above, as far as caps change; how far a node's units go is found when
//! somebody reads an amount below it. The answer is that of `entitle`.

use crate::entitle::{Entitlements, FULL, Levels, Part, Phase, cap, caps};
use crate::fill::{Level, Taker};
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use crate::takers::Takers;
use echelon_core_model::resources::{Kind, Resources};
use std::sync::Arc;

/// Demands, a capacity, and what each pool may use of it.
#[derive(Debug, Clone)]
pub struct Standing {
    hierarchy: Arc<Hierarchy>,
    capacity: Resources,
    caps: Vec<Resources>,
    /// Of pools that have children.
    inner: Vec<Option<Box<Inner>>>,
}

/// A node's division among its children, by kind.
#[derive(Debug, Clone)]
struct Inner {
    kinds: [Division; 4],
}

#[derive(Debug, Clone)]
struct Division {
    /// By phase.
    takers: [Takers; 3],
    /// What the children's caps come to, however much that is.
    wanted: u128,
    /// How far an amount went, since the last change.
    went: Option<(u64, Levels)>,
}

impl Division {
    fn new(parts: &[Part]) -> Self {
        Self {
            takers: Phase::ALL.map(|phase| Takers::new(parts.iter().map(|p| p.taker(phase)))),
            wanted: parts.iter().map(|p| u128::from(p.cap())).sum(),
            went: None,
        }
    }

    fn replace(&mut self, index: usize, before: Part, after: Part) {
        for (phase, takers) in Phase::ALL.into_iter().zip(&mut self.takers) {
            let taker = |part: Part| -> Taker { part.taker(phase) };
            takers.replace(index, taker(before), taker(after));
        }
        self.wanted = self.wanted.saturating_sub(u128::from(before.cap())) + u128::from(after.cap());
        self.went = None;
    }

    fn levels(&mut self, amount: u64) -> Levels {
        if let Some((_, levels)) = self.went.filter(|(of, _)| *of == amount) {
            return levels;
        }
        let mut left = amount;
        let mut levels = FULL;
        for (slot, takers) in levels.iter_mut().zip(&self.takers) {
            *slot = takers.level(left);
            // What is not enough for all is given out whole.
            left = match *slot {
                Level::Full => left.saturating_sub(u64::try_from(takers.wanted()).unwrap_or(u64::MAX)),
                Level::Nothing | Level::Until(..) => 0,
            };
        }
        self.went = Some((amount, levels));
        levels
    }
}

impl Standing {
    /// Demands by index; those of inner pools count nothing. `O(n log n)`.
    #[must_use]
    pub fn new(hierarchy: Arc<Hierarchy>, demand: &[Resources], capacity: Resources) -> Self {
        let caps = caps(&hierarchy, demand);
        let part = |i: PoolIdx, kind| {
            let cap = caps.get(i).copied().unwrap_or_default();
            Part::new(hierarchy.pool(i), kind, cap.get(kind), 0)
        };
        let division = |node, kind| {
            let parts: Vec<Part> = hierarchy.children(node).map(|c| part(c, kind)).collect();
            Division::new(&parts)
        };
        let inner = |node: PoolIdx| {
            let kinds = || Kind::ALL.map(|kind| division(node, kind));
            (!hierarchy.children(node).is_empty()).then(|| Box::new(Inner { kinds: kinds() }))
        };
        Self {
            inner: hierarchy.indexes().map(inner).collect(),
            caps,
            capacity,
            hierarchy,
        }
    }

    /// The pools.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// There is another amount to divide. `O(1)`.
    pub const fn set_capacity(&mut self, capacity: Resources) {
        self.capacity = capacity;
    }

    /// A pool that takes jobs wants another amount. `O(depth)` look-ups and moves of numbers among its siblings; nothing is divided.
    pub fn set_demand(&mut self, pool: PoolIdx, demand: Resources) {
        if !self.hierarchy.is_leaf(pool) {
            return;
        }
        let mut at = pool;
        let mut wanted = demand;
        loop {
            let of_pool = self.hierarchy.pool(at);
            let after = cap(of_pool, wanted);
            let Some(slot) = self.caps.get_mut(at) else { return };
            let before = std::mem::replace(slot, after);
            let parent = self.hierarchy.above(at).next();
            let (Some(parent), true) = (parent, before != after) else {
                return;
            };
            let index = at - self.hierarchy.children(parent).start;
            let Some(inner) = self.inner.get_mut(parent).and_then(Option::as_deref_mut) else {
                return;
            };
            for (kind, division) in Kind::ALL.into_iter().zip(&mut inner.kinds) {
                let part = |cap: Resources| Part::new(of_pool, kind, cap.get(kind), 0);
                if before.get(kind) != after.get(kind) {
                    division.replace(index, part(before), part(after));
                }
                wanted = wanted.with(kind, u64::try_from(division.wanted).unwrap_or(u64::MAX));
            }
            at = parent;
        }
    }

    /// What a pool may use now. Finds the levels of the nodes above it where they are not known.
    #[must_use]
    pub fn amount(&mut self, pool: PoolIdx) -> Resources {
        let mut down: Vec<PoolIdx> = self.hierarchy.above(pool).collect();
        down.reverse();
        down.push(pool);
        let mut amount = self.capacity;
        for pair in down.windows(2) {
            if let [node, child] = pair {
                amount = self.child(*node, *child, amount);
            }
        }
        amount
    }

    /// What a child gets of what its node has.
    fn child(&mut self, node: PoolIdx, child: PoolIdx, amount: Resources) -> Resources {
        let index = child - self.hierarchy.children(node).start;
        let pool = self.hierarchy.pool(child);
        let cap = self.caps.get(child).copied().unwrap_or_default();
        let mut out = Resources::ZERO;
        let Some(inner) = self.inner.get_mut(node).and_then(Option::as_deref_mut) else {
            return out;
        };
        for (kind, division) in Kind::ALL.into_iter().zip(&mut inner.kinds) {
            let levels = division.levels(amount.get(kind));
            let part = Part::new(pool, kind, cap.get(kind), 0);
            out = out.with(kind, part.units(index, &levels));
        }
        out
    }

    /// What every pool may use now, with how far each node's units went. `O(n)`, and the levels that are not known.
    pub fn entitlements(&mut self) -> Entitlements {
        let mut amounts = vec![self.capacity; self.hierarchy.len().min(1)];
        let mut levels = Vec::with_capacity(self.hierarchy.len());
        for node in self.hierarchy.indexes() {
            let amount = amounts.get(node).copied().unwrap_or_default();
            // Children stand behind all that came before them, so their amounts are the next ones.
            for child in self.hierarchy.children(node) {
                amounts.push(self.child(node, child, amount));
            }
            let inner = self.inner.get_mut(node).and_then(Option::as_deref_mut);
            levels.push(inner.map_or([FULL; 4], |inner| {
                let mut of_kinds = Kind::ALL.into_iter();
                inner.kinds.each_mut().map(|division| {
                    let kind = of_kinds.next();
                    division.levels(kind.map_or(0, |kind| amount.get(kind)))
                })
            }));
        }
        debug_assert_eq!(amounts.get(ROOT), Some(&self.capacity));
        Entitlements::new(self.caps.clone(), amounts, levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate;
    use crate::entitle::entitle;
    use crate::entitle::tests::{Sample, cpus, pool, sample, tree};
    use echelon_core_model::pool::Pool;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn standing(s: &Sample) -> Standing {
        let h = Hierarchy::new(&s.tree);
        let demand = s.demand(&h);
        Standing::new(Arc::new(h), &demand, cpus(s.capacity))
    }

    fn same(s: &Sample, standing: &mut Standing) -> Result<(), TestCaseError> {
        let h = Hierarchy::new(&s.tree);
        let full = entitle(&h, &s.demand(&h), cpus(s.capacity));
        // Read one by one, then all.
        for i in h.indexes() {
            prop_assert_eq!(standing.amount(i), full.amount(i), "pool {}", i);
        }
        prop_assert_eq!(standing.entitlements(), full);
        Ok(())
    }

    fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u64, u64)>> {
        proptest::collection::vec((any::<prop::sample::Index>(), 0u64..30, 0u64..200), 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn what_stands_after_changes_is_what_a_full_computation_gives(mut s in sample(), changes in changes()) {
            let mut standing = standing(&s);
            same(&s, &mut standing)?;
            for (at, wanted, capacity) in changes {
                let i = at.index(s.demand.len());
                s.demand[i].1 = wanted;
                s.capacity = capacity;
                let pool = standing.hierarchy().find(&s.demand[i].0).unwrap();
                standing.set_demand(pool, cpus(wanted));
                standing.set_capacity(cpus(capacity));
                same(&s, &mut standing)?;
            }
        }

        #[test]
        fn the_order_in_which_pools_and_demands_come_changes_nothing(s in sample(), keys in proptest::collection::vec(any::<u8>(), 30)) {
            let mut others: Vec<(u8, Pool, u64)> = s.demand.iter().zip(&keys)
                .map(|((path, wanted), key)| (*key, s.tree.pools[path].clone(), *wanted))
                .collect();
            others.sort_by_key(|(key, ..)| *key);
            let other = tree(others.iter().map(|(_, pool, _)| pool.clone()));
            let h = Hierarchy::new(&other);
            let none = vec![Resources::ZERO; h.len()];
            let mut standing = Standing::new(Arc::new(h), &none, cpus(s.capacity));
            for (_, pool, wanted) in &others {
                let at = standing.hierarchy().find(&pool.path).unwrap();
                standing.set_demand(at, cpus(*wanted));
            }
            same(&s, &mut standing)?;
        }

        #[test]
        fn what_stands_after_changes_proves_itself(mut s in sample(), changes in changes()) {
            let mut standing = standing(&s);
            for (at, wanted, _) in changes {
                let i = at.index(s.demand.len());
                s.demand[i].1 = wanted;
                let pool = standing.hierarchy().find(&s.demand[i].0).unwrap();
                standing.set_demand(pool, cpus(wanted));
            }
            let entitled = standing.entitlements();
            let proof = certificate::certify(standing.hierarchy(), &entitled);
            let demand: BTreeMap<_, _> = s.demand.iter().map(|(p, n)| (p.clone(), cpus(*n))).collect();
            prop_assert_eq!(certificate::check(&s.tree, &demand, cpus(s.capacity), &proof), []);
        }
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
        let mut s = Standing::new(Arc::new(h.clone()), &of(u64::MAX, u64::MAX), cpus(10));
        s.set_demand(h.find("/a/x").unwrap(), cpus(3));
        s.set_demand(h.find("/a/y").unwrap(), cpus(4));
        assert_eq!(s.entitlements(), entitle(&h, &of(3, 4), cpus(10)));
    }
}
