//! Few large jobs: binding ahead in chunks is what they need.

use super::{Draw, amount, batch, cluster, pool, runs, tree};
use crate::trace::Trace;
use echelon_core_model::Timestamp;
use echelon_core_model::pool::PoolTree;

const JOBS: u64 = 20;
/// Instances of the smallest job and of the largest.
const LEAST: u32 = 5_000;
const MOST: u32 = 100_000;
const POOLS: [(&str, u64); 5] = [("/a", 1), ("/b", 2), ("/c", 3), ("/d", 1), ("/e", 4)];
/// The end of the trace.
const UNTIL: u64 = 5_400_000;

/// Twenty jobs in the first forty minutes. Each doubling of size is as likely as any other.
pub(super) fn make(seed: u64) -> (Trace, PoolTree) {
    let mut draw = Draw::new(seed, 3);
    let mut all = Vec::new();
    for n in 0..JOBS {
        // The first jobs have the bounds of sizes, so that every seed has them.
        let instances = match n {
            0 => MOST,
            1 => LEAST,
            _ => size(&mut draw),
        };
        let at = Timestamp(n * 120_000 + draw.below(120_000));
        let (path, _) = draw.of(&POOLS);
        let shape = draw.of(&[amount(1, 2), amount(1, 4), amount(2, 4)]);
        let runs = runs(&mut draw, instances, 100, (20, 60));
        let mut job = batch(at, path.to_owned(), shape, runs);
        job.priority = u32::from(draw.percent(20));
        all.push(job);
    }
    let capacities = vec![
        cluster("east", Timestamp(0), 2_000),
        cluster("north", Timestamp(0), 1_000),
        cluster("south", Timestamp(0), 0),
        cluster("west", Timestamp(0), 500),
        // One joins, and one leaves: what runs there ends there, and nothing begins.
        cluster("south", Timestamp(1_500_000), 1_500),
        cluster("north", Timestamp(2_700_000), 0),
    ];
    let trace = Trace {
        until: Timestamp(UNTIL),
        capacities,
        jobs: all,
    };
    let pools = POOLS.iter().map(|(path, share)| pool(path, *share)).collect();
    (trace, tree(pools))
}

/// 5,000 times 1 to 16, plus up to a quarter.
fn size(draw: &mut Draw) -> u32 {
    let doubled = LEAST << draw.count(0, 4);
    doubled + draw.count(0, doubled / 4)
}
