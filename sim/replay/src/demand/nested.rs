//! Nested and contested pools: what each pool gets is decided by entitlement and preemption here.

use super::{Draw, amount, batch, cluster, pool, runs, tree};
use crate::trace::{CapacityChange, ClusterCapacity, Job, Trace};
use echelon_core_model::pool::{Pool, PoolKind, PoolTree};
use echelon_core_model::{Resources, Timestamp};

/// For so long more is submitted than capacity could run.
const BUSY: u64 = 3_600_000;
/// The end of the trace, when most has ended.
const UNTIL: u64 = 4_800_000;
/// Between two submits, on average: jobs of 400 cores' work for 1.3 times as many.
const GAP: u64 = 9_000;
/// A name with a share.
type Named = (&'static str, u64);
/// Organisations with their teams and the share of each.
const ORGS: [(&str, u64, [Named; 3]); 3] = [
    ("/web", 4, [("shop", 3), ("search", 2), ("ads", 1)]),
    ("/ml", 3, [("train", 5), ("serve", 2), ("lab", 1)]),
    ("/data", 2, [("etl", 2), ("reports", 1), ("adhoc", 1)]),
];
/// Pools below each team.
const LEAVES: [Named; 2] = [("prod", 3), ("dev", 1)];

fn pools() -> Vec<Pool> {
    let mut out = Vec::new();
    for (org, share, teams) in ORGS {
        // Each organisation reserves for what its teams reserve, and /data nothing.
        let reserves = org != "/data";
        let reserve = |cores: u64| {
            let amount = amount(cores, 4 * cores);
            if reserves { amount } else { Resources::ZERO }
        };
        out.push(Pool {
            reservation: reserve(80),
            ..pool(org, share)
        });
        for (team, share) in teams {
            let path = format!("{org}/{team}");
            // The first team of each reserves.
            let first = teams.first().is_some_and(|(name, _)| *name == team);
            let reservation = if first { reserve(50) } else { Resources::ZERO };
            out.push(Pool {
                reservation,
                ..pool(&path, share)
            });
            for (leaf, share) in LEAVES {
                let path = format!("{path}/{leaf}");
                let is_prod = leaf == "prod";
                let reserved = first && is_prod && reserves;
                out.push(Pool {
                    reservation: if reserved { reserve(30) } else { Resources::ZERO },
                    kind: if reserved && org == "/web" {
                        PoolKind::Static
                    } else {
                        PoolKind::Elastic
                    },
                    limit: if is_prod {
                        Resources::MAX
                    } else {
                        Resources {
                            cpus: 60_000,
                            ..Resources::MAX
                        }
                    },
                    ..pool(&path, share)
                });
            }
        }
    }
    out
}

fn capacities() -> Vec<CapacityChange> {
    let mut all: Vec<CapacityChange> = [("east", 200), ("north", 120), ("west", 80)]
        .iter()
        .map(|(name, cores)| cluster(name, Timestamp(0), *cores))
        .collect();
    if let Some(ClusterCapacity::Sum(west)) = all.last_mut().map(|c| &mut c.capacity) {
        west.gpus = 16_000;
    }
    all
}

fn job(at: u64, leaves: &[String], draw: &mut Draw) -> Job {
    let leaf = usize::try_from(draw.below(leaves.len() as u64)).unwrap_or_default();
    let path = leaves.get(leaf).cloned().unwrap_or_default();
    let gpu = Resources {
        gpus: 1_000,
        ..amount(4, 16)
    };
    let shapes = [
        amount(1, 2),
        amount(1, 4),
        amount(1, 12),
        amount(2, 8),
        amount(4, 8),
        amount(8, 32),
        gpu,
    ];
    let shape = draw.of(&shapes);
    // About 30 cores a job, whatever its shape.
    let most = u32::try_from(60_000 / shape.cpus.max(1)).unwrap_or(1).max(1);
    let instances = draw.count(1, most);
    let runs = runs(draw, instances, 8, (40, 280));
    let mut job = batch(Timestamp(at), path, shape, runs);
    job.priority = draw.of(&[0, 0, 0, 1, 1, 5]);
    job.owner = format!("user{}", draw.below(12));
    if draw.percent(10) {
        job.clusters = vec![draw.of(&["east", "north", "west"]).to_owned()];
    }
    if draw.percent(5)
        && let Some(group) = job.groups.first_mut()
    {
        group.max_running = Some(2 + instances / 4);
    }
    if draw.percent(10)
        && let Some(group) = job.groups.first_mut()
    {
        // A service of few instances, for a quarter of an hour.
        group.instances = draw.count(1, 4);
        group.max_running = None;
        group.runs = Vec::new();
        job.stopped = Some(Timestamp(at + 900_000));
        job.spread = draw.percent(50);
    }
    job
}

pub(super) fn make(seed: u64) -> (Trace, PoolTree) {
    let pools = pools();
    let leaves: Vec<String> = pools
        .iter()
        .filter(|p| p.path.matches('/').count() == 3)
        .map(|p| p.path.clone())
        .collect();
    let (mut when, mut what) = (Draw::new(seed, 4), Draw::new(seed, 5));
    let mut jobs = Vec::new();
    let mut at = 0;
    while at < BUSY {
        jobs.push(job(at, &leaves, &mut what));
        at += when.below(2 * GAP + 1);
    }
    let trace = Trace {
        until: Timestamp(UNTIL),
        capacities: capacities(),
        jobs,
    };
    (trace, tree(pools))
}
