//! Host pools of a cluster: which there are, what is in them, and how one is made and deleted. Which host is in which, the cluster's shard
//! stores; hosts' rows may tell it a moment later.

use crate::ask;
use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::hosts;
use crate::port::Facts;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::store::{Answer, Consistency, Query, RowSubject, ShardKey, ShardRow};
use echelon_core_model::{ClusterId, HostPoolName, Resources};
use std::collections::{BTreeMap, BTreeSet};

/// Most host pools of a cluster: they are kept in one row.
pub const MOST: usize = 100;

/// A host pool with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPoolView {
    /// Its name.
    pub name: HostPoolName,
    /// Its cluster's id.
    pub cluster: ClusterId,
    /// Its cluster's name.
    pub cluster_name: String,
    /// Hosts that are in it.
    pub hosts: u32,
    /// Of these, those that Mesos has no contact with.
    pub unreachable: u32,
    /// Of these, those that are on their way to another.
    pub leaving: u32,
    /// Hosts of others that are on their way to it.
    pub coming: u32,
    /// Our tasks on its hosts.
    pub tasks: u32,
    /// All that its hosts were seen to have.
    pub capacity: Resources,
    /// What our tasks use of that.
    pub used: Resources,
}

/// A cluster as host pools look at it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) cluster: Cluster,
    /// One of each name: the agent that can be reached, where a host had several; with the tasks of all of them.
    pub(crate) hosts: BTreeMap<String, Host>,
    /// What its shard has stored.
    pub(crate) row: ShardRow,
    /// Names of hosts of which the stored host pool cannot be read.
    pub(crate) unknown: BTreeSet<String>,
}

impl Seen {
    /// The host pool of a host; `None`: it cannot be read.
    pub(crate) fn pool_of(&self, hostname: &str) -> Option<HostPoolName> {
        let known = !self.unknown.contains(hostname);
        known.then(|| self.row.host_pools.get(hostname).cloned().unwrap_or_default())
    }

    /// Whether a host is known to be in a host pool.
    pub(crate) fn is_in(&self, hostname: &str, pool: &HostPoolName) -> bool {
        self.pool_of(hostname).as_ref() == Some(pool)
    }

    /// Where a host is on its way to.
    pub(crate) fn goes_to(&self, cluster: &Cluster, hostname: &str) -> Option<HostPoolName> {
        let wish = cluster.host_pools.moves.hosts.get(hostname)?;
        (!self.is_in(hostname, &wish.to)).then(|| wish.to.clone())
    }

    /// Whether a host pool is known: made, or left over with hosts in it.
    pub(crate) fn knows(&self, pool: &HostPoolName) -> bool {
        self.is_made(pool) || self.row.host_pools.values().any(|of| of == pool)
    }

    /// Whether hosts may be moved there.
    pub(crate) fn is_made(&self, pool: &HostPoolName) -> bool {
        pool.is_default() || self.cluster.host_pools.names.contains(pool)
    }

    fn pools(&self) -> Vec<HostPoolView> {
        let made = self.cluster.host_pools.names.iter();
        let names: BTreeSet<&HostPoolName> = made.chain(self.row.host_pools.values()).collect();
        let usual = HostPoolName::default();
        let others = names.into_iter().filter(|name| !name.is_default());
        std::iter::once(&usual)
            .chain(others)
            .map(|name| self.pool(name))
            .collect()
    }

    pub(crate) fn pool(&self, name: &HostPoolName) -> HostPoolView {
        let mut out = HostPoolView {
            name: name.clone(),
            cluster: self.cluster.id.clone(),
            cluster_name: self.cluster.name.clone(),
            hosts: 0,
            unreachable: 0,
            leaving: 0,
            coming: 0,
            tasks: 0,
            capacity: Resources::ZERO,
            used: Resources::ZERO,
        };
        for (hostname, host) in &self.hosts {
            let to = self.goes_to(&self.cluster, hostname);
            if self.is_in(hostname, name) {
                out.hosts += 1;
                out.unreachable += u32::from(!host.reachable);
                out.leaving += u32::from(to.is_some());
                out.tasks = out.tasks.saturating_add(host.tasks);
                out.capacity = out.capacity.plus(host.capacity);
                out.used = out.used.plus(host.used);
            } else if to.as_ref() == Some(name) {
                out.coming += 1;
            }
        }
        out
    }
}

/// Reads a cluster, its hosts, and where these are.
pub(crate) async fn seen<F: Facts>(facts: &F, wanted: &str) -> Result<Seen, ApiError> {
    let cluster = hosts::cluster(facts, wanted).await?;
    let all = hosts::all(facts, &cluster.id).await?;
    let query = Query::Shard(cluster.id.clone());
    const WHAT: &str = "the hosts' host pools";
    let (row, unread) = match ask::read_some(facts, query, Consistency::Quorum, WHAT).await? {
        (Answer::Shard(row), unread) => (row, unread),
        _ => return Err(ask::broken_conflict(WHAT)),
    };
    let unknown = unread.into_iter().filter_map(|row| match row.subject {
        RowSubject::Shard(ShardKey::Host(name)) => Some(name),
        _ => None,
    });
    let unknown = unknown.collect();
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    for host in all {
        let Some(known) = hosts.get_mut(&host.hostname) else {
            hosts.insert(host.hostname.clone(), host);
            continue;
        };
        let tasks = known.tasks.saturating_add(host.tasks);
        if host.reachable && !known.reachable {
            *known = host;
        }
        known.tasks = tasks;
    }
    Ok(Seen {
        cluster,
        hosts,
        row,
        unknown,
    })
}

/// All host pools of a cluster: `default`, then the others by name.
///
/// # Errors
/// No such cluster, or storage.
pub async fn list_host_pools<F: Facts>(facts: &F, wanted: &str) -> Result<Vec<HostPoolView>, ApiError> {
    Ok(seen(facts, wanted).await?.pools())
}

/// Makes a host pool. One that is there stays as it is.
///
/// # Errors
/// No such cluster, a wrong name, too many, or storage.
pub async fn create_host_pool<F: Facts>(
    facts: &F,
    wanted: &str,
    name: &str,
) -> Result<HostPoolView, ApiError> {
    let pool = parse(name, "host_pool")?;
    clusters::put(facts, wanted, |before, _| {
        let mut after = before.clone();
        if !pool.is_default() {
            after.host_pools.names.insert(pool.clone());
        }
        if after.host_pools.names.len() > MOST {
            return Err(ApiError::new(
                ErrorReason::TooManyHostPools,
                format!("cluster `{wanted}` has {MOST} host pools beside `default`, which is the most; nothing was changed (`echelon host-pool delete` deletes one without hosts)"),
            ));
        }
        Ok(after)
    })
    .await?;
    Ok(seen(facts, wanted).await?.pool(&pool))
}

/// Deletes a host pool that no host is in or on its way to. What names it waits from then on.
///
/// # Errors
/// No such cluster or host pool, one with hosts, `default`, or storage.
pub async fn delete_host_pool<F: Facts>(facts: &F, wanted: &str, name: &str) -> Result<(), ApiError> {
    let pool = parse(name, "name")?;
    if pool.is_default() {
        return Err(in_use(
            "every host is in `default` unless it was moved, so it cannot be deleted",
        ));
    }
    let seen = seen(facts, wanted).await?;
    if !seen.is_made(&pool) {
        return Err(not_found(wanted, &pool));
    }
    if let Some(host) = seen.unknown.first() {
        return Err(in_use(&format!(
            "in which host pool host `{host}` of cluster `{wanted}` is cannot be read, so it may be in `{pool}`; nothing was changed (`echelon host-pool move --cluster {wanted} --to default {host}` settles where it is)"
        )));
    }
    // Those included that are away: their shard remembers where they belong.
    let there = seen.row.host_pools.values().filter(|of| **of == pool).count();
    clusters::put(facts, wanted, |before, _| {
        let moves = &before.host_pools.moves.hosts;
        let coming = moves
            .iter()
            .filter(|(name, wish)| wish.to == pool && !seen.is_in(name, &pool))
            .count();
        if there + coming > 0 {
            return Err(in_use(&format!(
                "host pool `{pool}` of cluster `{wanted}` has {there} hosts, and {coming} are on their way to it; nothing was changed (`echelon host-pool move --cluster {wanted} --from {pool} --to default` moves them)"
            )));
        }
        let mut after = before.clone();
        after.host_pools.names.remove(&pool);
        Ok(after)
    })
    .await?;
    Ok(())
}

fn in_use(message: &str) -> ApiError {
    ApiError::new(ErrorReason::HostPoolInUse, message)
}

/// A host pool's name.
pub(crate) fn parse(name: &str, field: &str) -> Result<HostPoolName, ApiError> {
    HostPoolName::parse(name).map_err(|wrong| ApiError::field(field, wrong.to_string()))
}

pub(crate) fn not_found(cluster: &str, pool: &HostPoolName) -> ApiError {
    ApiError::new(
        ErrorReason::HostPoolNotFound,
        format!(
            "cluster `{cluster}` has no host pool `{pool}`; nothing was changed (`echelon host-pool list --cluster {cluster}` shows what there is, `echelon host-pool create {cluster}/{pool}` makes it)"
        ),
    )
}

#[cfg(test)]
#[path = "host_pools_tests.rs"]
pub(crate) mod tests;
