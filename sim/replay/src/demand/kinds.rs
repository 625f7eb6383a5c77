//! Three kinds of work, each with a cluster of its own or on the same hosts as one federation: what sharing
//! gains, and what it costs.

use super::{Draw, amount, batch, cluster, pool, runs, tree};
use crate::trace::{Job, Trace};
use echelon_core_model::Timestamp;
use echelon_core_model::pool::{Pool, PoolTree};

/// The end of the trace.
const UNTIL: u64 = 3_000_000;
/// A cluster and a pool of each kind, with the cores of its cluster. Each pool reserves these where all
/// share.
const KINDS: [(&str, u64); 3] = [("batch", 200), ("services", 200), ("stateful", 100)];
/// Batch work is submitted for so long.
const BUSY: u64 = 2_100_000;
/// Between two batch jobs, on average: work for 1.9 times the batch cluster.
const GAP: u64 = 5_800;

/// Runs until it is stopped.
fn service(at: u64, stopped: Option<u64>, pool: &str, instances: u32, cores: u64) -> Job {
    let mut job = batch(
        Timestamp(at),
        pool.to_owned(),
        amount(cores, 4 * cores),
        Vec::new(),
    );
    job.stopped = stopped.map(Timestamp);
    for group in &mut job.groups {
        group.instances = instances;
    }
    job
}

/// Batch jobs of 12 cores for three minutes on average, and more than their cluster could run.
fn batch_jobs(seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed, 6);
    let mut out = Vec::new();
    let mut at = 0;
    while at < BUSY {
        let instances = draw.count(1, 15);
        let runs = runs(&mut draw, instances, 5, (60, 300));
        let shape = amount(draw.between(1, 2), 4);
        out.push(batch(Timestamp(at), "/batch".to_owned(), shape, runs));
        at += draw.below(2 * GAP + 1);
    }
    out
}

/// Services that always run, and some that come for each of two busy ten minutes.
fn services(seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed, 7);
    let mut out = Vec::new();
    for _ in 0..10 {
        let instances = draw.count(2, 8);
        out.push(service(draw.below(60_000), None, "/services", instances, 1));
    }
    for wave in [600_000, 1_500_000] {
        for _ in 0..20 {
            let at = wave + draw.below(60_000);
            let instances = draw.count(2, 8);
            let end = at + 600_000;
            out.push(service(at, Some(end), "/services", instances, 1));
        }
    }
    out
}

/// Stateful services that grow in number over time.
fn stateful(seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed, 8);
    let each = (0..8).map(|n| service(n * 400_000, None, "/stateful", draw.count(2, 4), 2));
    each.collect()
}

/// The same jobs, with each bound to the cluster of its kind or free to use any.
pub(super) fn make(seed: u64, is_bound: bool) -> (Trace, PoolTree) {
    let mut jobs = [batch_jobs(seed), services(seed), stateful(seed)].concat();
    jobs.sort_by_key(|job| job.submitted);
    if is_bound {
        for job in &mut jobs {
            job.clusters = vec![job.pool.trim_start_matches('/').to_owned()];
        }
    }
    let pools = KINDS.iter().map(|(name, cores)| Pool {
        reservation: amount(*cores, 4 * cores),
        ..pool(&format!("/{name}"), 1)
    });
    let trace = Trace {
        until: Timestamp(UNTIL),
        capacities: KINDS
            .iter()
            .map(|(name, cores)| cluster(name, Timestamp(0), *cores))
            .collect(),
        jobs,
    };
    (trace, tree(pools.collect()))
}
