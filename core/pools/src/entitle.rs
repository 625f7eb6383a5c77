//! What each pool may use now: hierarchical max-min fairness, exact, for each kind by itself, top-down. A child's cap is
//! min(limit, demand), an inner pool's demand being the sum of its children's caps; its floor is min(reservation, cap). Units go
//! first to children below their floor, by least (given + 1) / floor; then to those below their cap, by least (given above
//! floor + 1) / share; then equally among those with share 0. Ties go by pool id.

use crate::fill::{Taker, fill};
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::{Kind, Resources};
use std::collections::BTreeMap;

/// How one pool came to what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entitlement {
    /// min(limit, demand): more would be of no use.
    pub cap: Resources,
    /// What it may use now.
    pub amount: Resources,
}

/// What each pool may use now, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Entitlements(pub BTreeMap<String, Entitlement>);

impl Entitlements {
    /// What a pool may use; nothing when it is not in the tree.
    #[must_use]
    pub fn amount(&self, path: &str) -> Resources {
        self.0.get(path).copied().unwrap_or_default().amount
    }
}

/// Divides `capacity` over the tree. `demand` is by path of leaf pools; that of inner or unknown pools counts nothing.
pub fn entitle(tree: &PoolTree, demand: &BTreeMap<String, Resources>, capacity: Resources) -> Entitlements {
    let mut below: BTreeMap<&str, Vec<&Pool>> = BTreeMap::new();
    for pool in tree.pools.values() {
        below.entry(PoolTree::parent(&pool.path)).or_default().push(pool);
    }
    below
        .values_mut()
        .for_each(|pools| pools.sort_by(|a, b| a.id.cmp(&b.id)));
    let mut out = Entitlements::default();
    cap(&below, "/", demand, &mut out);
    divide(&below, "/", capacity, &mut out);
    out
}

/// Fills in the caps below a path, and tells their sum.
fn cap(
    below: &BTreeMap<&str, Vec<&Pool>>,
    path: &str,
    demand: &BTreeMap<String, Resources>,
    out: &mut Entitlements,
) -> Resources {
    let children = below.get(path).map_or(&[][..], Vec::as_slice);
    children.iter().fold(Resources::ZERO, |sum, pool| {
        let wanted = if below.contains_key(pool.path.as_str()) {
            cap(below, &pool.path, demand, out)
        } else {
            demand.get(&pool.path).copied().unwrap_or_default()
        };
        let cap = wanted.min_each(pool.limit);
        out.0.entry(pool.path.clone()).or_default().cap = cap;
        sum.plus(cap)
    })
}

/// Divides what a path has over its children, and theirs over theirs.
fn divide(below: &BTreeMap<&str, Vec<&Pool>>, path: &str, amount: Resources, out: &mut Entitlements) {
    let Some(children) = below.get(path) else { return };
    for kind in Kind::ALL {
        let parts: Vec<Part> = children
            .iter()
            .map(|pool| {
                let cap = out.0.get(&pool.path).map_or(0, |e| e.cap.get(kind));
                Part {
                    cap,
                    floor: cap.min(pool.reservation.get(kind)),
                    share: pool.share.get(kind),
                }
            })
            .collect();
        for (pool, units) in children.iter().zip(share_out(amount.get(kind), &parts)) {
            let entry = out.0.entry(pool.path.clone()).or_default();
            entry.amount = entry.amount.with(kind, units);
        }
    }
    for pool in children {
        divide(below, &pool.path, out.amount(&pool.path), out);
    }
}

#[derive(Debug, Clone, Copy)]
struct Part {
    cap: u64,
    floor: u64,
    share: u64,
}

/// The three rounds for one kind.
fn share_out(amount: u64, parts: &[Part]) -> Vec<u64> {
    let rounds: [fn(&Part) -> Taker; 3] = [
        |p| Taker::new(p.floor, p.floor),
        |p| Taker::new(p.share, p.cap - p.floor),
        |p| Taker::new(u64::from(p.share == 0), p.cap - p.floor),
    ];
    let mut left = amount;
    let mut given = vec![0u64; parts.len()];
    for round in rounds {
        let takers: Vec<Taker> = parts.iter().map(round).collect();
        for (sum, more) in given.iter_mut().zip(fill(left, &takers)) {
            *sum += more;
            left -= more;
        }
    }
    given
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use echelon_core_model::{PoolId, Version};
    use proptest::prelude::*;

    pub(crate) fn cpus(n: u64) -> Resources {
        Resources::ZERO.with(Kind::Cpus, n)
    }

    /// A pool with reservation, limit and share of milli-CPU.
    pub(crate) fn pool(path: &str, reservation: u64, limit: u64, share: u64) -> Pool {
        Pool {
            id: PoolId::new(path),
            path: path.to_owned(),
            reservation: cpus(reservation),
            limit: cpus(limit),
            share: cpus(share),
            version: Version(1),
        }
    }

    pub(crate) fn tree(pools: impl IntoIterator<Item = Pool>) -> PoolTree {
        PoolTree {
            version: Version(1),
            pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
        }
    }

    fn amounts(tree: &PoolTree, demand: &[(&str, u64)], capacity: u64) -> Vec<(String, u64)> {
        let demand = demand.iter().map(|(p, n)| ((*p).to_owned(), cpus(*n))).collect();
        let out = entitle(tree, &demand, cpus(capacity));
        out.0.into_iter().map(|(p, e)| (p, e.amount.cpus)).collect()
    }

    fn check(pools: &[Pool], demand: &[(&str, u64)], capacity: u64, expected: &[u64]) {
        let got = amounts(&tree(pools.iter().cloned()), demand, capacity);
        assert_eq!(
            got.iter().map(|(_, n)| *n).collect::<Vec<_>>(),
            expected,
            "{got:?}"
        );
    }

    #[test]
    fn reservations_first_then_shares_then_those_without() {
        let pools = [pool("/a", 6, 99, 1), pool("/b", 0, 99, 3), pool("/c", 0, 99, 0)];
        let all = [("/a", 50), ("/b", 50), ("/c", 50)];
        check(&pools, &all, 4, &[4, 0, 0]);
        check(&pools, &all, 14, &[8, 6, 0]);
        check(&pools, &[("/a", 7), ("/b", 2), ("/c", 50)], 14, &[7, 2, 5]);
    }

    #[test]
    fn unused_reservations_are_lent_and_limits_hold() {
        let pools = [pool("/a", 6, 99, 1), pool("/b", 0, 5, 1)];
        check(&pools, &[("/b", 50)], 10, &[0, 5]);
        check(&pools, &[("/a", 2), ("/b", 50)], 10, &[2, 5]);
    }

    #[test]
    fn inner_pools_hold_their_children() {
        let pools = [
            pool("/a", 0, 8, 1),
            pool("/a/x", 0, 99, 1),
            pool("/a/y", 0, 99, 3),
            pool("/b", 0, 99, 1),
        ];
        check(
            &pools,
            &[("/a/x", 50), ("/a/y", 50), ("/b", 2)],
            20,
            &[8, 2, 6, 2],
        );
    }

    #[test]
    fn the_last_unit_goes_by_id() {
        check(
            &[pool("/a", 0, 9, 1), pool("/b", 0, 9, 1)],
            &[("/a", 9), ("/b", 9)],
            3,
            &[2, 1],
        );
    }

    fn some_tree() -> impl Strategy<Value = (PoolTree, Vec<(String, u64)>, u64)> {
        let node = (0u64..10, 0u64..20, 0u64..4, 0u64..25);
        (proptest::collection::vec(node, 6), 0u64..80).prop_map(|(nodes, capacity)| {
            let paths = ["/a", "/a/x", "/a/y", "/b", "/b/x", "/c"];
            let pools = paths
                .iter()
                .zip(&nodes)
                .map(|(path, (reservation, limit, share, _))| pool(path, *reservation, *limit, *share));
            let demand = paths.iter().zip(&nodes).map(|(p, n)| ((*p).to_owned(), n.3));
            (tree(pools), demand.collect(), capacity)
        })
    }

    proptest! {
        #[test]
        fn nothing_is_left_while_a_pool_is_below_its_cap((tree, demand, capacity) in some_tree()) {
            let demand: BTreeMap<String, Resources> = demand.into_iter().map(|(p, n)| (p, cpus(n))).collect();
            let out = entitle(&tree, &demand, cpus(capacity));
            let inner = |path: &str| -> (u64, u64) {
                let of = |p: &Pool| { let e = out.0[&p.path]; (e.amount.cpus, e.cap.cpus) };
                tree.children(path).map(of).fold((0, 0), |(a, c), (x, y)| (a + x, c + y))
            };
            let (given, caps) = inner("/");
            prop_assert_eq!(given, capacity.min(caps));
            for pool in tree.pools.values() {
                let e = out.0[&pool.path];
                prop_assert!(e.amount.fits(e.cap) && e.cap.fits(pool.limit));
                if !tree.is_leaf(&pool.path) {
                    let (given, caps) = inner(&pool.path);
                    prop_assert_eq!(given, e.amount.cpus.min(caps));
                }
            }
        }

        #[test]
        fn a_pool_gets_its_floor_when_all_floors_fit((tree, demand, capacity) in some_tree()) {
            let demand: BTreeMap<String, Resources> = demand.into_iter().map(|(p, n)| (p, cpus(n))).collect();
            let out = entitle(&tree, &demand, cpus(capacity));
            let floor = |p: &Pool| p.reservation.min_each(out.0[&p.path].cap).cpus;
            let floors: u64 = tree.children("/").map(floor).sum();
            for pool in tree.children("/") {
                prop_assert!(floors > capacity || out.amount(&pool.path).cpus >= floor(pool));
            }
        }

        #[test]
        fn renames_that_keep_ids_change_nothing((tree, demand, capacity) in some_tree()) {
            // The same pools under paths in the reverse order, ids kept.
            let renamed = |path: &str| path.replace("/a", "/z").replace("/b", "/m");
            let mut other = PoolTree::default();
            for p in tree.pools.values() {
                let path = renamed(&p.path);
                other.pools.insert(path.clone(), Pool { path, ..p.clone() });
            }
            let as_map = |names: &dyn Fn(&str) -> String| -> BTreeMap<String, Resources> {
                demand.iter().map(|(p, n)| (names(p), cpus(*n))).collect()
            };
            let before = entitle(&tree, &as_map(&|p| p.to_owned()), cpus(capacity));
            let after = entitle(&other, &as_map(&renamed), cpus(capacity));
            for (path, e) in &before.0 {
                prop_assert_eq!(*e, after.0[&renamed(path)]);
            }
        }
    }
}
