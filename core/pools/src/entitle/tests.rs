//! Cases, then properties against the rule as it is told, unit by unit.

use super::*;
use crate::again::{Usable, give_out_again};
use echelon_core_model::pool::{PoolKind, PoolTree};
use echelon_core_model::{PoolId, Version};
use proptest::prelude::*;

mod kinds;

pub(crate) fn cpus(n: u64) -> Resources {
    Resources::ZERO.with(Kind::Cpus, n)
}

/// A pool with reservation, limit and share of milli-CPU.
pub(crate) fn pool(path: &str, reservation: u64, limit: u64, share: u64) -> Pool {
    Pool {
        reservation: cpus(reservation),
        limit: cpus(limit),
        share: cpus(share),
        ..Pool::new(PoolId::new(path), path)
    }
}

pub(crate) fn tree(pools: impl IntoIterator<Item = Pool>) -> PoolTree {
    PoolTree {
        version: Version(1),
        pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
    }
}

fn check(pools: &[Pool], demand: &[(&str, u64)], capacity: u64, expected: &[u64]) {
    let h = Hierarchy::new(&tree(pools.iter().cloned()));
    let mut wanted = vec![Resources::ZERO; h.len()];
    for (path, n) in demand {
        wanted[h.find(path).unwrap()] = cpus(*n);
    }
    let out = entitle(&h, &wanted, cpus(capacity));
    let got = pools.iter().map(|p| out.amount(h.find(&p.path).unwrap()).cpus);
    assert_eq!(got.collect::<Vec<_>>(), expected);
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
fn a_static_pool_keeps_its_reservation_and_an_elastic_one_lends_it() {
    let kept = |path, reservation, limit| Pool {
        kind: PoolKind::Static,
        ..pool(path, reservation, limit, 1)
    };
    let asked = [("/a", 2), ("/b", 30)];
    check(
        &[pool("/a", 8, 99, 1), pool("/b", 0, 99, 1)],
        &asked,
        20,
        &[2, 18],
    );
    check(&[kept("/a", 8, 99), pool("/b", 0, 99, 1)], &asked, 20, &[8, 12]);
    // It may want more than that, and never gets more than its limit.
    check(
        &[kept("/a", 8, 9), pool("/b", 0, 99, 1)],
        &[("/a", 30), ("/b", 30)],
        20,
        &[9, 11],
    );
    // What an inner one keeps is not lent to its children either, which want less.
    let inner = [kept("/a", 8, 99), pool("/a/x", 3, 99, 1), pool("/b", 0, 99, 1)];
    check(&inner, &[("/a/x", 2), ("/b", 30)], 20, &[8, 2, 12]);
}

#[test]
fn what_a_static_pool_cannot_use_is_not_given_out_again() {
    let kept = Pool {
        kind: PoolKind::Static,
        ..pool("/a", 8, 99, 1)
    };
    let h = Hierarchy::new(&tree([kept, pool("/b", 0, 99, 1)]));
    let first = entitle(&h, &[cpus(0), cpus(10), cpus(30)], cpus(20));
    let second = give_out_again(&h, &first, &used_up(&first, &[cpus(0), cpus(1), first.amount(2)]));
    assert_eq!((second.amount(1), second.amount(2)), (cpus(8), cpus(12)));
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

#[test]
fn reservations_above_capacity_shrink_in_proportion() {
    let pools = [pool("/a", 60, 99, 1), pool("/b", 30, 99, 9)];
    check(&pools, &[("/a", 99), ("/b", 99)], 30, &[20, 10]);
}

/// The original's examples: three pools of reservation 20, limit 100 and share 1 over capacity 100.
#[test]
fn the_examples_of_the_field() {
    let pools = [
        pool("/a", 20, 100, 1),
        pool("/b", 20, 100, 1),
        pool("/c", 20, 100, 1),
    ];
    check(&pools, &[("/a", 10), ("/b", 80), ("/c", 80)], 100, &[10, 45, 45]);
    check(&pools, &[("/a", 60), ("/b", 80), ("/c", 80)], 100, &[34, 33, 33]);
}

#[test]
fn nothing_to_share_or_nobody_who_shares_is_no_trouble() {
    check(&[], &[], 10, &[]);
    let pools = [pool("/a", 5, 9, 0), pool("/b", 0, 9, 0)];
    check(&pools, &[("/a", 9), ("/b", 9)], 0, &[0, 0]);
    check(&pools, &[], 10, &[0, 0]);
    check(&pools, &[("/a", 9), ("/b", 9)], 9, &[7, 2]);
}

#[test]
fn what_cannot_be_used_for_want_of_another_kind_is_given_out_again() {
    let both = |cpus, memory| Resources {
        cpus,
        memory,
        ..Resources::ZERO
    };
    let half = |path| Pool {
        limit: both(99, 99),
        share: both(1, 1),
        ..pool(path, 0, 0, 0)
    };
    let h = Hierarchy::new(&tree([half("/a"), half("/b")]));
    let demand = [Resources::ZERO, both(40, 4), both(40, 40)];
    let first = entitle(&h, &demand, both(20, 20));
    assert_eq!((first.amount(1), first.amount(2)), (both(10, 4), both(10, 16)));
    // `/a` needs ten times as much memory as processors: of its ten processors it can use less than one.
    let usable = [Resources::ZERO, both(1, 4), both(10, 10)];
    let second = give_out_again(&h, &first, &used_up(&first, &usable));
    // `/b` gets them, and as much memory as goes with them.
    assert_eq!((second.amount(1), second.amount(2)), (both(1, 4), both(19, 16)));
}

#[test]
fn a_pool_that_lacks_two_kinds_gets_of_a_third_what_goes_with_the_scarcer_one() {
    let of = |cpus, memory, disk| Resources {
        cpus,
        memory,
        disk,
        ..Resources::ZERO
    };
    let half = |path| Pool {
        limit: of(99, 99, 99),
        share: of(1, 1, 1),
        ..pool(path, 0, 0, 0)
    };
    let h = Hierarchy::new(&tree([half("/a"), half("/b")]));
    // One instance of each takes one of every kind.
    let demand = [Resources::ZERO, of(20, 20, 20), of(20, 20, 20)];
    let first = entitle(&h, &demand, of(20, 20, 20));
    assert_eq!(
        (first.amount(1), first.amount(2)),
        (of(10, 10, 10), of(10, 10, 10))
    );
    // `/b` leaves nine processors, two of memory and nine of disk. `/a` is out of processors and memory.
    let usable = [
        Usable::default(),
        Usable {
            amount: of(10, 10, 2),
            lacks: of(1, 1, 0),
        },
        Usable {
            amount: of(1, 8, 1),
            lacks: Resources::ZERO,
        },
    ];
    let second = give_out_again(&h, &first, &usable);
    // With two more of memory go two more of disk.
    assert_eq!(second.amount(1).memory, 12);
    assert_eq!(second.amount(1).disk, 4);
}

/// Of each kind that is used up more would be of use.
pub(crate) fn used_up(first: &Entitlements, usable: &[Resources]) -> Vec<Usable> {
    let lacks = |i: usize, amount: Resources| {
        let used_up = Kind::ALL
            .into_iter()
            .filter(|k| amount.get(*k) >= first.amount(i).get(*k));
        used_up.fold(Resources::ZERO, |sum, k| sum.with(k, 1))
    };
    let each = usable.iter().enumerate();
    each.map(|(i, amount)| Usable {
        amount: *amount,
        lacks: lacks(i, *amount),
    })
    .collect()
}

/// Up to 30 pools below each other at random, their demands, and a capacity.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub tree: PoolTree,
    pub demand: Vec<(String, u64)>,
    pub capacity: u64,
}

impl Sample {
    pub(crate) fn demand(&self, h: &Hierarchy) -> Vec<Resources> {
        let mut out = vec![Resources::ZERO; h.len()];
        for (path, n) in &self.demand {
            out[h.find(path).unwrap()] = cpus(*n);
        }
        out
    }

    fn entitle(&self) -> (Hierarchy, Entitlements) {
        let h = Hierarchy::new(&self.tree);
        let out = entitle(&h, &self.demand(&h), cpus(self.capacity));
        (h, out)
    }

    fn amounts(&self) -> Vec<(String, u64)> {
        let (h, out) = self.entitle();
        let amount = |(path, _): &(String, u64)| (path.clone(), out.amount(h.find(path).unwrap()).cpus);
        self.demand.iter().map(amount).collect()
    }
}

pub(crate) fn sample() -> impl Strategy<Value = Sample> {
    let node = (any::<u8>(), 0u64..10, 0u64..40, 0u64..4, 0u64..30);
    (proptest::collection::vec(node, 1..=30), 0u64..=200).prop_map(|(nodes, capacity)| {
        let mut paths: Vec<String> = Vec::new();
        let mut pools = Vec::new();
        let mut demand = Vec::new();
        for (i, (above, reservation, limit, share, wanted)) in nodes.into_iter().enumerate() {
            // One in three stands at the top.
            let parent = match usize::from(above) {
                n if n % 3 == 0 || paths.is_empty() => String::new(),
                n => paths[n % paths.len()].clone(),
            };
            let path = format!("{parent}/p{i}");
            let kind = if above % 4 == 1 {
                PoolKind::Static
            } else {
                PoolKind::Elastic
            };
            pools.push(Pool {
                kind,
                ..pool(&path, reservation, limit, share)
            });
            demand.push((path.clone(), wanted));
            paths.push(path);
        }
        Sample {
            tree: tree(pools),
            demand,
            capacity,
        }
    })
}

/// The rule as it is told: what a node's children get, unit by unit. A child is its cap, what it keeps, and its pool.
fn one_at_a_time(amount: u64, children: &[(u64, u64, &Pool)]) -> Vec<u64> {
    let mut given: Vec<u64> = children.iter().map(|(_, kept, _)| *kept).collect();
    let left = amount.saturating_sub(given.iter().sum());
    let floor = |i: usize| children[i].0.min(children[i].2.reservation.cpus);
    // A fraction as a pair; smaller when a * d < c * b.
    let least = |open: Vec<(usize, u64, u64)>| {
        open.into_iter()
            .min_by(|(i, a, b), (j, c, d)| (a * d).cmp(&(c * b)).then(i.cmp(j)))
            .map(|(i, ..)| i)
    };
    for _ in 0..left {
        let all = 0..children.len();
        let below_floor = all.clone().filter(|i| given[*i] < floor(*i));
        let first = least(below_floor.map(|i| (i, given[i] + 1, floor(i))).collect());
        let below_cap: Vec<usize> = all.filter(|i| given[*i] < children[*i].0).collect();
        let with = |shared: bool| -> Vec<(usize, u64, u64)> {
            let share = |i: usize| children[i].2.share.cpus;
            let some = below_cap.iter().filter(|i| (share(**i) > 0) == shared);
            some.map(|i| (*i, given[*i] - floor(*i) + 1, share(*i).max(1)))
                .collect()
        };
        let Some(i) = first.or_else(|| least(with(true))).or_else(|| least(with(false))) else {
            break;
        };
        given[i] += 1;
    }
    given
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn the_closed_form_is_the_rule_at_every_node(s in sample()) {
        let (h, out) = s.entitle();
        for node in h.indexes() {
            let children: Vec<(u64, u64, &Pool)> =
                h.children(node).map(|c| (out.cap(c).cpus, 0, h.pool(c).unwrap())).collect();
            let expected = one_at_a_time(out.amount(node).cpus, &children);
            let got: Vec<u64> = h.children(node).map(|c| out.amount(c).cpus).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn nothing_is_left_while_a_pool_is_below_its_cap_and_nothing_is_given_twice(s in sample()) {
        let (h, out) = s.entitle();
        prop_assert_eq!(out.amount(ROOT).cpus, s.capacity);
        for node in h.indexes().filter(|i| !h.children(*i).is_empty()) {
            let given: u64 = h.children(node).map(|c| out.amount(c).cpus).sum();
            let caps: u64 = h.children(node).map(|c| out.cap(c).cpus).sum();
            prop_assert_eq!(given, out.amount(node).cpus.min(caps));
        }
        for i in h.indexes().skip(1) {
            prop_assert!(out.amount(i).fits(out.cap(i)) && out.cap(i).fits(h.pool(i).unwrap().limit));
        }
    }

    #[test]
    fn reservations_are_honoured_where_they_fit(s in sample()) {
        let (h, out) = s.entitle();
        for node in h.indexes() {
            let floor = |c: PoolIdx| out.cap(c).cpus.min(h.pool(c).unwrap().reservation.cpus);
            let floors: u64 = h.children(node).map(floor).sum();
            for c in h.children(node) {
                prop_assert!(floors > out.amount(node).cpus || out.amount(c).cpus >= floor(c));
            }
        }
    }

    #[test]
    fn more_demand_never_lowers_a_pools_own_entitlement(s in sample(), at in any::<prop::sample::Index>(), more in 1u64..20) {
        let i = at.index(s.demand.len());
        let mut greedy = s.clone();
        greedy.demand[i].1 += more;
        prop_assert!(greedy.amounts()[i].1 >= s.amounts()[i].1);
    }

    #[test]
    fn more_capacity_lowers_nobodys_entitlement(s in sample(), more in 1u64..20) {
        let richer = Sample { capacity: s.capacity + more, ..s.clone() };
        for (less, more) in s.amounts().iter().zip(richer.amounts()) {
            prop_assert!(less.1 <= more.1, "{less:?} {more:?}");
        }
    }

    #[test]
    fn renames_that_keep_ids_change_nothing(s in sample()) {
        // Other names in another order, ids kept.
        let renamed = |path: &str| path.replace("/p", "/x").replace('1', "z");
        let mut other = s.clone();
        other.tree.pools = s.tree.pools.values().map(|p| {
            let path = renamed(&p.path);
            (path.clone(), Pool { path, ..p.clone() })
        }).collect();
        for (path, _) in &mut other.demand {
            *path = renamed(path);
        }
        let (before, after) = (s.amounts(), other.amounts());
        prop_assert!(before.iter().zip(after).all(|((_, a), (_, b))| *a == b));
    }

    #[test]
    fn what_is_given_out_again_takes_nothing_usable_away(s in sample(), parts in proptest::collection::vec(0u64..5, 31)) {
        let (h, first) = s.entitle();
        let usable: Vec<Resources> = h.indexes().map(|i| {
            let lost = parts[i % parts.len()];
            cpus(if h.is_leaf(i) { first.amount(i).cpus.saturating_sub(lost) } else { 0 })
        }).collect();
        let second = give_out_again(&h, &first, &used_up(&first, &usable));
        let given: u64 = h.children(ROOT).map(|c| second.amount(c).cpus).sum();
        prop_assert!(given <= s.capacity);
        for i in h.indexes().skip(1) {
            let pool = h.pool(i).unwrap();
            prop_assert!(second.amount(i).fits(pool.limit) && usable[i].fits(second.amount(i)));
            if h.is_leaf(i) {
                prop_assert!(second.amount(i).fits(first.cap(i)));
            } else {
                let below: u64 = h.children(i).map(|c| second.amount(c).cpus).sum();
                prop_assert!(below <= second.amount(i).cpus);
            }
        }
    }
}
