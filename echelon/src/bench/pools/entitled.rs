//! Entitlement of many pools, a hundred below each inner one, two in three of which want more than is fair.

use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::{PoolId, Resources, Version};
use echelon_core_pools::{FirstRound, Hierarchy, entitle};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Times each figure is taken; the median counts.
const TIMES: usize = 51;
/// Pools below each inner one, with itself.
const FAMILY: u32 = 100;

/// `n` pools: every hundredth is an inner one, those after it are below it.
pub(super) fn tree(n: u32) -> PoolTree {
    let pool = |i: u32| {
        let path = path(i);
        let pool = Pool {
            share: all_kinds(u64::from(1 + i % 10)),
            ..Pool::new(PoolId::new(format!("{:08x}", i.wrapping_mul(0x9e37_79b9))), &path)
        };
        (path, pool)
    };
    PoolTree {
        version: Version(1),
        pools: (0..n).map(pool).collect(),
    }
}

/// The path of a pool.
pub(super) fn path(i: u32) -> String {
    match i % FAMILY {
        0 => format!("/p{}", i / FAMILY),
        own => format!("/p{}/q{own}", i / FAMILY),
    }
}

/// The path of one that takes jobs, for any number.
pub(super) fn leaf(i: u32, n: u32) -> String {
    let families = (n / FAMILY).max(1);
    path(i % families * FAMILY + 1 + i / families % (FAMILY - 1))
}

const fn all_kinds(n: u64) -> Resources {
    Resources {
        cpus: n,
        memory: n,
        disk: n,
        gpus: n,
    }
}

fn case(n: u32) -> (Hierarchy, Vec<Resources>, Resources) {
    let hierarchy = Hierarchy::new(&tree(n));
    let wanted = |i: usize| match i % 3 {
        0 => all_kinds(30),
        rest => all_kinds(200 + rest as u64 * 7 + i as u64 % 97),
    };
    let demand = hierarchy.indexes().map(wanted).collect();
    (hierarchy, demand, all_kinds(80 * u64::from(n)))
}

/// All anew.
pub(super) fn full(n: u32) -> Duration {
    let (hierarchy, demand, capacity) = case(n);
    median(|_| {
        let _ = black_box(entitle(&hierarchy, black_box(&demand), capacity));
    })
}

/// One pool wants another amount, and its entitlement is read.
pub(super) fn one_change(n: u32) -> Duration {
    let (hierarchy, demand, capacity) = case(n);
    let leaves: Vec<usize> = hierarchy.indexes().filter(|i| hierarchy.is_leaf(*i)).collect();
    let mut first_round = FirstRound::new(std::sync::Arc::new(hierarchy), demand, capacity);
    median(|i| {
        if let Some(leaf) = leaves.get(i * 7_919 % leaves.len().max(1)) {
            first_round.set_demand(*leaf, all_kinds(10 + i as u64 * 31 % 300));
            black_box(first_round.entitlements().amount(*leaf));
        }
    })
}

fn median(mut what: impl FnMut(usize)) -> Duration {
    let mut all: Vec<Duration> = (0..TIMES)
        .map(|i| {
            let began = Instant::now();
            what(i);
            began.elapsed()
        })
        .collect();
    all.sort_unstable();
    all.get(TIMES / 2).copied().unwrap_or_default()
}
