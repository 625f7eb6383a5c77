//! Full entitlement of 10,000 pools and four kinds: side by side, as 100 times 100, and ten levels deep; and how it grows. The same
//! where it stands and one pool's demand changes, read anew for that pool and another one.
//!
//! `cargo bench -p echelon-core-pools`

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::{PoolId, Resources, Version};
use echelon_core_pools::{FirstRound, Hierarchy, certificate, entitle};
use std::hint::black_box;

fn resources(n: u64) -> Resources {
    Resources {
        cpus: n,
        memory: n * 7,
        disk: n * 3,
        gpus: n / 5,
    }
}

/// Pools with shares of 1 to 10, some of which reserve something, and demands of which two in three are more than fair.
fn tree(paths: impl Iterator<Item = String>) -> PoolTree {
    let pool = |(i, path): (usize, String)| {
        let i = i as u64;
        let pool = Pool {
            reservation: resources(if i.is_multiple_of(3) { 40 + i % 11 } else { 0 }),
            share: resources(1 + i % 10),
            ..Pool::new(
                PoolId::new(format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
                &path,
            )
        };
        (path, pool)
    };
    PoolTree {
        version: Version(1),
        pools: paths.enumerate().map(pool).collect(),
    }
}

fn demand(h: &Hierarchy) -> Vec<Resources> {
    let of = |i: usize| {
        resources(if i.is_multiple_of(3) {
            30
        } else {
            200 + (i as u64) % 97
        })
    };
    h.indexes().map(of).collect()
}

fn flat(n: usize) -> PoolTree {
    tree((0..n).map(|i| format!("/p{i}")))
}

fn square() -> PoolTree {
    let inner = (0..100).map(|i| format!("/p{i}"));
    let leaves = (0..100).flat_map(|i| (0..99).map(move |j| format!("/p{i}/q{j}")));
    tree(inner.chain(leaves))
}

/// Ten levels: a thousand chains of ten.
fn deep() -> PoolTree {
    let path = |i: usize, depth: usize| (0..=depth).map(|d| format!("/p{i}-{d}")).collect::<String>();
    tree((0..1000).flat_map(|i| (0..10).map(move |depth| path(i, depth))))
}

fn full(c: &mut Criterion) {
    let mut group = c.benchmark_group("entitle");
    for (name, tree) in [
        ("flat/100", flat(100)),
        ("flat/1000", flat(1_000)),
        ("flat/10000", flat(10_000)),
        ("flat/100000", flat(100_000)),
        ("100x100/10000", square()),
        ("ten_levels/10000", deep()),
    ] {
        let h = Hierarchy::new(&tree);
        let demand = demand(&h);
        let capacity = resources(80 * h.len() as u64);
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| black_box(entitle(&h, black_box(&demand), capacity)));
        });
    }
    group.finish();
}

/// All with the same share, or each with one of its own.
fn shares(mut tree: PoolTree, of: impl Fn(u64) -> u64) -> PoolTree {
    for (i, pool) in tree.pools.values_mut().enumerate() {
        pool.share = resources(of(i as u64));
    }
    tree
}

fn one_change(c: &mut Criterion) {
    let mut group = c.benchmark_group("one_change");
    for (name, tree, each) in [
        ("flat/10000", flat(10_000), 80),
        ("100x100/10000", square(), 80),
        ("ten_levels/10000", deep(), 80),
        ("flat/same_share/10000", shares(flat(10_000), |_| 5), 80),
        ("flat/other_shares/10000", shares(flat(10_000), |i| 5 + i * 5), 80),
        ("flat/short_of_reservations/10000", flat(10_000), 10),
    ] {
        let h = Hierarchy::new(&tree);
        let wanted = demand(&h);
        let capacity = resources(each * h.len() as u64);
        let leaves: Vec<usize> = h.indexes().filter(|i| h.is_leaf(*i)).collect();
        let mut first_round = FirstRound::new(std::sync::Arc::new(h), wanted, capacity);
        let mut step = 0usize;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                step += 1;
                let leaf = |n: usize| leaves.get(n % leaves.len()).copied().unwrap_or_default();
                let (changed, other) = (leaf(step * 7_919), leaf(step * 104_729));
                first_round.set_demand(changed, resources(20 + (step as u64 * 31) % 300));
                let entitled = first_round.entitlements();
                black_box((entitled.amount(changed), entitled.amount(other)))
            });
        });
    }
    group.finish();
}

fn proofs(c: &mut Criterion) {
    let tree = flat(10_000);
    let h = Hierarchy::new(&tree);
    let demand = demand(&h);
    let capacity = resources(80 * h.len() as u64);
    let by_path = h
        .indexes()
        .filter_map(|i| Some((h.pool(i)?.path.clone(), *demand.get(i)?)))
        .collect();
    let proof = certificate::certify(&h, &entitle(&h, &demand, capacity));
    c.bench_function("hierarchy/flat/10000", |b| {
        b.iter(|| black_box(Hierarchy::new(&tree)))
    });
    c.bench_function("certificate/check/flat/10000", |b| {
        b.iter(|| black_box(certificate::check(&tree, &by_path, capacity, &proof)));
    });
}

criterion_group!(benches, full, one_change, proofs);
criterion_main!(benches);
