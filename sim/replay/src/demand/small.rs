//! Many small jobs: what late binding costs a job is most of its wait here.

use super::{Draw, amount, batch, cluster, pool, runs, tree};
use crate::trace::Trace;
use echelon_core_model::Timestamp;
use echelon_core_model::pool::PoolTree;

pub(super) const JOBS: u64 = 20_000;
const POOLS: u64 = 40;
const CLUSTERS: [(&str, u64); 3] = [("east", 400), ("north", 300), ("west", 200)];
/// Each wave has a minute with many submits and one with few: as many as 1.4 times the capacity could run,
/// and 0.4 times.
const WAVE: [(u64, u64); 2] = [(60_000, 66), (60_000, 230)];

/// When the next job is submitted after one at `at`, on average.
fn gap(at: u64) -> u64 {
    let [(first, busy), (second, quiet)] = WAVE;
    if at % (first + second) < first {
        busy
    } else {
        quiet
    }
}

/// So many jobs. A job is 2.5 instances of one core for 32.5 s on average, so 900 cores are worth 11 jobs a
/// second.
pub(super) fn make(seed: u64, jobs: u64) -> (Trace, PoolTree) {
    let (mut when, mut what) = (Draw::new(seed, 1), Draw::new(seed, 2));
    let mut at = 0;
    let mut all = Vec::new();
    for _ in 0..jobs {
        at += when.below(2 * gap(at) + 1);
        // Few pools have most of the jobs.
        let most = what.below(POOLS) + 1;
        let path = format!("/p{:02}", what.below(most));
        let instances = what.count(1, 4);
        let runs = runs(&mut what, instances, 1, (5, 60));
        let mut job = batch(Timestamp(at), path, amount(1, what.between(1, 4)), runs);
        job.priority = u32::from(what.percent(10));
        all.push(job);
    }
    let pools = (0..POOLS)
        .map(|n| pool(&format!("/p{n:02}"), 1 + n % 3))
        .collect();
    let trace = Trace {
        until: Timestamp(at + 120_000),
        capacities: CLUSTERS
            .iter()
            .map(|(name, cores)| cluster(name, Timestamp(0), *cores))
            .collect(),
        jobs: all,
    };
    (trace, tree(pools))
}
