//! A user who makes a change, and another one who makes one unit less of it.

use crate::queries::explain::answer::{AddedHosts, FixChange, PoolCount};
use crate::tests::case::Case;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::Part;
use echelon_core_model::{HostPoolName, JobId, Kind, Resources, Span};
use echelon_core_pools::tree::PoolQuantity;

/// Makes all changes, and waits until what follows from them has happened.
pub fn make(case: &mut Case, job: JobId, changes: &[FixChange]) {
    for change in changes {
        make_one(case, job, change);
    }
    case.run_for(Span::minutes(3));
}

fn make_one(case: &mut Case, job: JobId, change: &FixChange) {
    match change {
        FixChange::CreatePool { pool } => {
            let ends: Vec<usize> = pool.match_indices('/').map(|(at, _)| at).skip(1).collect();
            for path in ends.into_iter().chain([pool.len()]).map(|end| &pool[..end]) {
                if !case.tree().pools.contains_key(path) {
                    case.set_pool(path, 1_000_000);
                }
            }
        }
        FixChange::RaiseMaxRunning { group, to } => case.respec(job, |spec| {
            let group = spec.groups.iter_mut().find(|g| g.name == *group);
            group.unwrap().max_running = Some(*to);
        }),
        FixChange::SetQuantity { pool, quantity, to } => {
            case.change_pool(pool, |p| {
                let all = to
                    .iter()
                    .fold(quantity.of(p), |all, (kind, n)| all.with(*kind, *n));
                quantity.set(p, all);
            });
            let limit = case.tree().pools[pool].limit.cpus;
            case.limits.insert(pool.clone(), limit / 1000);
        }
        FixChange::RaiseCount { pool, count, to } => case.change_pool(pool, |p| match count {
            PoolCount::Jobs => p.max_jobs = *to,
            PoolCount::Instances => p.max_instances = *to,
        }),
        FixChange::ActivateCluster { name, .. } => case.desire(name, DesiredState::Active),
        FixChange::AllowCluster { name, .. } => {
            case.respec(job, |spec| spec.clusters.only.push(name.clone()));
        }
        FixChange::AddHosts(hosts) => add_hosts(case, hosts),
        FixChange::LowerRequest { group, kind, to } => case.respec(job, |spec| {
            let group = spec.groups.iter_mut().find(|g| g.name == *group).unwrap();
            group.resources = group.resources.with(*kind, *to);
        }),
    }
}

fn add_hosts(case: &mut Case, hosts: &AddedHosts) {
    // Its hosts have 10,000 MiB for each core.
    let cores = |of: Resources| of.cpus.div_ceil(1000).max(of.memory.div_ceil(10_000));
    let (cores, host) = (cores(hosts.amount), cores(hosts.host));
    case.at(&hosts.name, |shard, now| {
        if hosts.revocable {
            shard.lent_cores += cores;
            return shard.full(now);
        }
        shard.cores += cores;
        shard.host_cores = shard.host_cores.max(host);
        if let Some(some) = &mut shard.constrained_cores {
            *some += cores;
        }
        let of = |cores: u64| Resources {
            cpus: cores * 1000,
            memory: cores * 10_000,
            ..Resources::ZERO
        };
        let name = hosts.host_pool.clone().unwrap_or_default();
        if !shard.host_pools.is_empty() || !name.is_default() {
            if shard.host_pools.is_empty() {
                let all = shard.cores - cores;
                let part = Part {
                    total: of(all),
                    used: Resources::ZERO,
                    largest_host: of(all.min(4)),
                };
                shard.host_pools.insert(HostPoolName::default(), part);
            }
            let part = shard.host_pools.entry(name).or_default();
            part.total = part.total.plus(of(cores));
            part.largest_host = part.largest_host.max_each(of(host));
        }
        shard.full(now)
    });
}

/// All sets of changes with one unit less of one amount, or without one of them.
pub fn one_less(changes: &[FixChange], before: &Case) -> Vec<Vec<FixChange>> {
    let mut out = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        for less in less(change, before) {
            let mut all = changes.to_vec();
            match less {
                Some(less) => all[at] = less,
                None => drop(all.remove(at)),
            }
            out.push(all);
        }
    }
    out
}

/// A change with one unit less of each of its amounts. `None` stands for no change.
fn less(change: &FixChange, before: &Case) -> Vec<Option<FixChange>> {
    match change {
        FixChange::RaiseMaxRunning { group, to } => vec![Some(FixChange::RaiseMaxRunning {
            group: group.clone(),
            to: to - 1,
        })],
        FixChange::RaiseCount { pool, count, to } => vec![Some(FixChange::RaiseCount {
            pool: pool.clone(),
            count: *count,
            to: to - 1,
        })],
        FixChange::SetQuantity { pool, quantity, to } => {
            let of = before
                .tree()
                .pools
                .get(pool)
                .map(|p| quantity.of(p))
                .unwrap_or_default();
            let all = (0..to.len()).map(|i| {
                let mut fewer: Vec<(Kind, u64)> = to.clone();
                let is_share = *quantity == PoolQuantity::Share;
                for (at, (kind, n)) in fewer
                    .iter_mut()
                    .enumerate()
                    .filter(|(at, _)| *at == i || is_share)
                {
                    let _ = at;
                    *n = if *n > of.get(*kind) { *n - 1 } else { *n + 1 };
                }
                Some(FixChange::SetQuantity {
                    pool: pool.clone(),
                    quantity: *quantity,
                    to: fewer,
                })
            });
            let all: Vec<_> = all.collect();
            if *quantity == PoolQuantity::Share {
                all.into_iter().take(1).collect()
            } else {
                all
            }
        }
        FixChange::AddHosts(hosts) => {
            let n: u64 = hosts.groups.iter().map(|(_, n)| n).sum();
            let one = |amount: u64| amount - amount / n;
            let amount = Resources {
                cpus: one(hosts.amount.cpus),
                ..hosts.amount
            };
            vec![(n > 1).then(|| {
                FixChange::AddHosts(AddedHosts {
                    amount,
                    ..hosts.clone()
                })
            })]
        }
        FixChange::LowerRequest { group, kind, to } => vec![Some(FixChange::LowerRequest {
            group: group.clone(),
            kind: *kind,
            to: to + 1,
        })],
        FixChange::CreatePool { .. } | FixChange::ActivateCluster { .. } | FixChange::AllowCluster { .. } => {
            vec![None]
        }
    }
}
