//! Properties over all four kinds at once, on trees that a gateway would store: kinds are independent in round 0, reservations
//! are honoured at every depth, and what the second round comes to.

use super::*;
use crate::tree::problems;

/// Up to 30 pools, good by every rule of the tree, with numbers of their own for each kind.
#[derive(Debug, Clone)]
struct Whole {
    h: Hierarchy,
    pools: Vec<Pool>,
    demand: Vec<Resources>,
    /// Room of one instance of each leaf's work.
    shapes: Vec<Resources>,
    capacity: Resources,
}

fn resources(max: u64) -> impl Strategy<Value = Resources> {
    [0..max, 0..max, 0..max, 0..max].prop_map(|[cpus, memory, disk, gpus]| Resources {
        cpus,
        memory,
        disk,
        gpus,
    })
}

fn whole() -> impl Strategy<Value = Whole> {
    let node = (
        any::<u8>(),
        resources(8),
        resources(30),
        resources(4),
        resources(30),
        resources(5),
    );
    (proptest::collection::vec(node, 1..=30), resources(200)).prop_map(|(nodes, capacity)| {
        let mut pools: Vec<Pool> = Vec::new();
        let mut wanted = Vec::new();
        for (i, (above, reservation, more, share, demand, shape)) in nodes.into_iter().enumerate() {
            let parent = match usize::from(above) {
                n if n % 3 == 0 || pools.is_empty() => String::new(),
                n => pools[n % pools.len()].path.clone(),
            };
            let path = format!("{parent}/p{i}");
            let limit = reservation.plus(more);
            pools.push(Pool {
                reservation,
                limit,
                share,
                ..pool(&path, 0, 0, 0)
            });
            wanted.push((path, demand, shape));
        }
        // A parent reserves at least what its children do. Children come after their parents.
        for i in (0..pools.len()).rev() {
            let path = pools[i].path.clone();
            let below = pools.iter().filter(|p| PoolTree::parent(&p.path) == path);
            let sum = below.fold(Resources::ZERO, |sum, p| sum.plus(p.reservation));
            pools[i].reservation = pools[i].reservation.max_each(sum);
            pools[i].limit = pools[i].limit.max_each(pools[i].reservation);
        }
        let stored = tree(pools.iter().cloned());
        assert_eq!(problems(&stored), []);
        let h = Hierarchy::new(&stored);
        let mut out = Whole {
            demand: vec![Resources::ZERO; h.len()],
            shapes: vec![Resources::ZERO; h.len()],
            h,
            pools,
            capacity,
        };
        for (path, demand, shape) in wanted {
            let i = out.h.find(&path).unwrap();
            (out.demand[i], out.shapes[i]) = (demand, shape);
        }
        out
    })
}

impl Whole {
    fn first(&self) -> Entitlements {
        entitle(&self.h, &self.demand, self.capacity)
    }

    /// Of what round 0 gives each leaf, what whole instances of its shape can use.
    fn usable(&self, first: &Entitlements) -> Vec<Resources> {
        let of = |i: PoolIdx| {
            let (amount, shape) = (first.amount(i), self.shapes[i]);
            if shape == Resources::ZERO || !self.h.is_leaf(i) {
                return Resources::ZERO;
            }
            shape.times(shape.count_in(amount))
        };
        self.h.indexes().map(of).collect()
    }

    /// What a leaf keeps, and an inner pool with all below it.
    fn kept(&self, usable: &[Resources]) -> Vec<Resources> {
        let mut out = usable.to_vec();
        for i in self.h.indexes().rev().filter(|i| !self.h.is_leaf(*i)) {
            let below = self.h.children(i).map(|c| out[c]);
            out[i] = below.fold(Resources::ZERO, Resources::plus);
        }
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn kinds_are_independent(w in whole()) {
        let all = w.first();
        for kind in Kind::ALL {
            let only = |r: Resources| Resources::ZERO.with(kind, r.get(kind));
            let alone = tree(w.pools.iter().map(|p| Pool {
                reservation: only(p.reservation),
                limit: only(p.limit),
                share: only(p.share),
                ..p.clone()
            }));
            let demand: Vec<Resources> = w.demand.iter().map(|d| only(*d)).collect();
            let out = entitle(&Hierarchy::new(&alone), &demand, only(w.capacity));
            for i in w.h.indexes() {
                prop_assert_eq!(out.amount(i), only(all.amount(i)));
            }
        }
    }

    #[test]
    fn under_full_demand_every_pool_has_its_reservation(w in whole()) {
        let full = vec![Resources::MAX; w.h.len()];
        let reserved = w.h.children(ROOT).filter_map(|c| w.h.pool(c));
        let reserved = reserved.fold(Resources::ZERO, |sum, p| sum.plus(p.reservation));
        let out = entitle(&w.h, &full, w.capacity.max_each(reserved));
        for i in w.h.indexes().skip(1) {
            // An inner pool is entitled to nothing that no pool below it could use.
            let reservation = w.h.pool(i).unwrap().reservation;
            let most = if w.h.is_leaf(i) { Resources::MAX } else { out.cap(i) };
            let reservation = reservation.min_each(most);
            prop_assert!(reservation.fits(out.amount(i)), "{}: {:?}", i, out.amount(i));
        }
    }

    #[test]
    fn the_second_round_is_the_rule_at_every_node(w in whole()) {
        let first = w.first();
        let usable = w.usable(&first);
        let second = give_out_again(&w.h, &first, &used_up(&first, &usable));
        let kept = w.kept(&usable);
        for node in w.h.indexes() {
            for kind in Kind::ALL {
                let children = w.h.children(node).map(|c| {
                    let pool = w.h.pool(c).unwrap();
                    let (reservation, share) = (pool.reservation.get(kind), pool.share.get(kind));
                    let alone = Pool { reservation: cpus(reservation), share: cpus(share), ..pool.clone() };
                    (second.cap(c).get(kind), kept[c].get(kind), alone)
                });
                let children: Vec<(u64, u64, Pool)> = children.collect();
                let borrowed: Vec<(u64, u64, &Pool)> = children.iter().map(|(cap, kept, p)| (*cap, *kept, p)).collect();
                let expected = one_at_a_time(second.amount(node).get(kind), &borrowed);
                let got: Vec<u64> = w.h.children(node).map(|c| second.amount(c).get(kind)).collect();
                prop_assert_eq!(got, expected, "{} below {}", kind, node);
            }
        }
    }

    #[test]
    fn the_final_answer_keeps_limits_and_capacity_and_what_was_usable(w in whole()) {
        let first = w.first();
        let usable = w.usable(&first);
        let last = give_out_again(&w.h, &first, &used_up(&first, &usable));
        prop_assert_eq!(last.amount(ROOT), w.capacity);
        for i in w.h.indexes() {
            let below = w.h.children(i).fold(Resources::ZERO, |sum, c| sum.plus(last.amount(c)));
            prop_assert!(below.fits(last.amount(i)));
            prop_assert!(usable[i].fits(last.amount(i)));
            if let Some(pool) = w.h.pool(i) {
                prop_assert!(last.amount(i).fits(pool.limit));
            }
            for kind in Kind::ALL.into_iter().filter(|_| w.h.is_leaf(i)) {
                // Of no kind it gets more than it wants.
                prop_assert!(last.amount(i).get(kind) <= w.demand[i].get(kind).max(usable[i].get(kind)));
            }
        }
    }
}
