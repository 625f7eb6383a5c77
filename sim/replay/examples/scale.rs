//! How long a replay of many events takes, by the clock: `cargo run --release -p echelon-sim-replay --example scale [JOBS]`. Each job
//! is two events, its submit and its end. The sums of waits and of use are printed, so that two runs can be compared.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures and tells"
)]

use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::Kind;
use echelon_core_model::{PoolId, Resources, Span, Timestamp, Version};
use echelon_sim_replay::{ALL, CapacityChange, ClusterCapacity, Delays, Group, Job, Runs, Trace, replay};
use std::time::Instant;

const POOLS: u64 = 100;
/// Cores of each of four clusters, each with 4 GiB.
const CORES: u64 = 1_000;
/// Between two submits: with ten minutes for each job of eight cores on average 1.2 times what there is is wanted.
const EVERY_MS: u64 = 1_400;

const fn room(cores: u64) -> Resources {
    Resources {
        cpus: cores * 1_000,
        memory: cores * 4_096,
        disk: 0,
        gpus: 0,
    }
}

fn path(n: u64) -> String {
    format!("/team{}/pool{}", n / 10, n % 10)
}

fn tree() -> PoolTree {
    let new = |path: String, share: u64| {
        let pool = Pool::new(PoolId::new(path.as_str()), path.as_str());
        let share = Resources::ZERO.with(Kind::Cpus, share).with(Kind::Memory, share);
        (path, Pool { share, ..pool })
    };
    let teams = (0..POOLS / 10).map(|n| new(format!("/team{n}"), 1 + n % 3));
    PoolTree {
        version: Version(1),
        pools: teams.chain((0..POOLS).map(|n| new(path(n), 1 + n % 4))).collect(),
    }
}

fn job(n: u64) -> Job {
    // A stream of numbers that looks like chance and is none.
    let pick = |salt: u64, of: u64| {
        let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % of.max(1)
    };
    let instances = 1 + u32::try_from(pick(1, 7)).unwrap_or_default();
    let runs = vec![Runs {
        count: instances,
        span: Span::seconds(60 + pick(9, 1_080)),
    }];
    Job {
        owner: format!("user{}", pick(4, 20)),
        priority: u32::try_from(pick(5, 3)).unwrap_or_default(),
        clusters: if pick(6, 4) == 0 {
            vec![format!("c{}", pick(7, 4))]
        } else {
            Vec::new()
        },
        groups: vec![Group::new("main", instances, room(1 + pick(8, 3)), runs)],
        ..Job::new(Timestamp(n * EVERY_MS + pick(2, 900)), path(pick(3, POOLS)))
    }
}

fn main() {
    let jobs = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(50_000);
    let capacity = |n: u32| CapacityChange {
        at: Timestamp(0),
        cluster: format!("c{n}"),
        capacity: ClusterCapacity::Sum(room(CORES)),
    };
    let trace = Trace {
        until: Timestamp(jobs * EVERY_MS),
        capacities: (0..4).map(capacity).collect(),
        jobs: (0..jobs).map(job).collect(),
    };
    let began = Instant::now();
    match replay(&trace, &tree(), Delays::USUAL) {
        Ok(outcome) => {
            let took = began.elapsed();
            let all = outcome.pools.get(ALL).cloned().unwrap_or_default();
            let used = all.used.first().zip(outcome.capacity.first());
            println!("{jobs} jobs in {} ms", took.as_millis());
            println!(
                "used, in thousandths: {:?}",
                used.map(|(u, c)| u * 1000 / (*c).max(1))
            );
            for p in [50, 95, 100] {
                println!(
                    "{p}%: first {:?}, last {:?}",
                    all.first.percentile(p),
                    all.last.percentile(p)
                );
            }
        }
        Err(why) => println!("{why}"),
    }
}
