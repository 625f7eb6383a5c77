//! Random trees and demands: a fix that is stated always admits everything.

use crate::tests::case::{Case, batch};
use crate::tests::explain::user::make;
use crate::tests::explain::{explained, fixes};
use echelon_core_model::pool::PoolKind;
use echelon_core_model::{JobId, Span};
use proptest::prelude::*;

/// One pool: cores of its limit and reservation, its share, whether it is static, and instances of its job.
#[derive(Debug, Clone)]
struct RandomPool {
    limit: u64,
    reserves: u64,
    share: u64,
    is_static: bool,
    wants: u32,
    most: Option<u64>,
}

fn random_pool() -> impl Strategy<Value = RandomPool> {
    let most = proptest::option::weighted(0.2, 1u64..8);
    (2u64..30, 0u64..8, 1u64..4, any::<bool>(), 0u32..20, most).prop_map(
        |(limit, reserves, share, is_static, wants, most)| RandomPool {
            limit,
            reserves: reserves.min(limit),
            share,
            is_static,
            wants,
            most,
        },
    )
}

fn paths(n: usize) -> Vec<String> {
    let path = |i: usize| {
        if i.is_multiple_of(2) {
            format!("/p{i}")
        } else {
            format!("/n/p{i}")
        }
    };
    (0..n).map(path).collect()
}

fn made(pools: &[RandomPool], cores: u64) -> (Case, Vec<JobId>) {
    let mut case = Case::new();
    case.set_pool("/n", 1_000_000);
    let paths = paths(pools.len());
    for (path, of) in paths.iter().zip(pools) {
        case.set_pool(path, of.limit);
        case.change_pool(path, |p| {
            p.reservation.cpus = of.reserves * 1000;
            p.share.cpus = of.share;
            p.kind = if of.is_static {
                PoolKind::Static
            } else {
                PoolKind::Elastic
            };
            p.max_instances = of.most.unwrap_or(u64::MAX);
        });
    }
    let sum: u64 = pools.iter().map(|p| p.reserves * 1000).sum();
    case.change_pool("/n", |p| p.reservation.cpus = sum);
    let mut case = case.cluster("a", cores);
    case.elect();
    case.run_for(Span::seconds(2));
    let mut jobs = Vec::new();
    for (n, (path, of)) in paths
        .iter()
        .zip(pools)
        .enumerate()
        .filter(|(_, (_, of))| of.wants > 0)
    {
        jobs.push(case.job(n as u128 + 1, batch(of.wants).pool(path)));
    }
    case.run_for(Span::minutes(2));
    (case, jobs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_fix_that_is_stated_admits_everything(
        pools in prop::collection::vec(random_pool(), 1..5),
        cores in 4u64..24,
    ) {
        let (case, jobs) = made(&pools, cores);
        for (at, job) in jobs.iter().enumerate() {
            let told = explained(&case, *job);
            for fix in fixes(&told).iter().take(1) {
                let (mut case, jobs) = made(&pools, cores);
                let job = jobs[at];
                make(&mut case, job, &fix.changes);
                let wanted = usize::try_from(case.head(job).unwrap().instances).unwrap();
                let active = case.total_active(job);
                prop_assert_eq!(active, wanted, "{} {:?}", fix, case.waiting(job));
            }
        }
    }
}
