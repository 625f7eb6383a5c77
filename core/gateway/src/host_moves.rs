//! Moves of hosts from one host pool to another. A plan says which hosts would go and why; a move stores the wish with the cluster, by the
//! hosts' names, and the cluster's shard carries it out under the rules of the jobs that run there.

mod choose;

use crate::clusters;
use crate::drains::LONGEST;
use crate::error::{ApiError, ErrorReason};
use crate::host_pools::{self, Seen, parse};
use crate::host_sets::{HostSet, not_there};
use crate::hosts::{self, HostView};
use crate::port::Facts;
pub use choose::{Chosen, LeftOut, Plan, Why};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::{HostPoolName, Span, Timestamp};

/// Most hosts of a cluster that are on their way at a time: they are kept with the cluster.
pub const MOST: usize = 500;

/// How many hosts are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// All that are meant.
    All,
    /// So many of them.
    Count(u32),
    /// As many as let the other host pool have so many in the end.
    Size(u32),
}

/// What is to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Only hosts of this host pool.
    pub from: Option<HostPoolName>,
    /// Where they are to go.
    pub to: HostPoolName,
    /// Which hosts are meant; with a number, attributes only, and without any all of `from`.
    pub set: HostSet,
    /// How many of them.
    pub how: How,
}

impl Wanted {
    /// What a request asks for; `from` and numbers may be left out.
    ///
    /// # Errors
    /// What is wrong with it, field by field.
    pub fn new(from: &str, to: &str, set: HostSet, (count, size): (u32, u32)) -> Result<Self, ApiError> {
        let to = parse(to, "to")?;
        let from = match from {
            "" => None,
            from => Some(parse(from, "from")?),
        };
        if from.as_ref() == Some(&to) {
            return Err(ApiError::field("to", "must be another host pool than `from`"));
        }
        let how = match (count, size) {
            (0, 0) => How::All,
            (n, 0) => How::Count(n),
            (0, n) => How::Size(n),
            _ => return Err(ApiError::field("size", "must be left out where there is a count")),
        };
        if how != How::All && !set.hosts.is_empty() {
            return Err(ApiError::field(
                "hosts",
                "must be left out where there is a count or a size: it says how many, and these say which",
            ));
        }
        Ok(Self { from, to, set, how })
    }
}

/// Which hosts would go. Changes nothing.
///
/// # Errors
/// No such cluster, host pool or host, one that may not be moved, fewer hosts than are asked for, or storage.
pub async fn plan_host_moves<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    wanted: &Wanted,
) -> Result<(Cluster, Plan), ApiError> {
    let seen = host_pools::seen(facts, wanted_cluster).await?;
    let plan = choose::choose(&seen, wanted)?;
    Ok((seen.cluster, plan))
}

/// Has all hosts that are meant go, or none. `batch_for`: so long batch instances may end by themselves.
///
/// # Errors
/// As of a plan, too many at a time, or too long a time; nothing is changed then.
pub async fn move_hosts<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    wanted: &Wanted,
    (batch_for, now): (Span, Timestamp),
) -> Result<Vec<HostView>, ApiError> {
    if batch_for > LONGEST {
        return Err(ApiError::field("batch_for", "must be at most 30 days"));
    }
    let seen = host_pools::seen(facts, wanted_cluster).await?;
    let plan = choose::choose(&seen, wanted)?;
    let wish = HostMove {
        to: wanted.to.clone(),
        batch_until: now.plus(batch_for),
    };
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        // Others may have come first since the plan was made.
        let seen = Seen {
            cluster: before.clone(),
            ..seen.clone()
        };
        if !seen.is_made(&wanted.to) {
            return Err(host_pools::not_found(wanted_cluster, &wanted.to));
        }
        let mut after = before.clone();
        let moves = &mut after.host_pools.moves.hosts;
        moves.retain(|name, wish| !seen.is_in(name, &wish.to));
        for chosen in &plan.chosen {
            choose::check(&seen, wanted, &chosen.host)?;
            moves
                .entry(chosen.host.hostname.clone())
                .or_insert_with(|| wish.clone());
        }
        if moves.len() > MOST {
            return Err(too_many(wanted_cluster));
        }
        Ok(counted(&seen, before, after))
    });
    let cluster = stored.await?.cluster;
    let names = plan.chosen.iter().map(|c| &c.host.hostname);
    let others = plan.left_out.get(&LeftOut::Moving).into_iter().flatten();
    let hosts = names.chain(others).filter_map(|name| seen.hosts.get(name));
    Ok(hosts.map(|host| hosts::view(&cluster, host.clone())).collect())
}

/// Takes moves back, of hosts that are named and of all that are on their way to `to`. Hosts that have changed already stay where they are
/// now, those that nobody moves as they are.
///
/// # Errors
/// No such cluster, a name that neither a host nor a move has, nothing that is meant, or storage; nothing is changed then.
pub async fn undo_host_moves<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    (named, to): (&[String], &str),
) -> Result<Vec<HostView>, ApiError> {
    let to = match to {
        "" => None,
        to => Some(parse(to, "to")?),
    };
    if named.is_empty() && to.is_none() {
        return Err(ApiError::field(
            "hosts",
            "name hosts, or in `to` the host pool that they are on their way to: an empty set is never all hosts",
        ));
    }
    let seen = host_pools::seen(facts, wanted_cluster).await?;
    if let Some(to) = to.as_ref().filter(|to| !seen.knows(to)) {
        return Err(host_pools::not_found(wanted_cluster, to));
    }
    let name_of = |name: &String| {
        let by_id = seen.hosts.values().find(|h| h.id.as_str() == name);
        by_id.map_or_else(|| name.clone(), |h| h.hostname.clone())
    };
    let named: Vec<String> = named.iter().map(name_of).collect();
    let moves = &seen.cluster.host_pools.moves.hosts;
    let known = |name: &&String| seen.hosts.contains_key(*name) || moves.contains_key(*name);
    let missing: Vec<&str> = named.iter().filter(|n| !known(n)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(not_there(wanted_cluster, &missing));
    }
    let meant = |name: &String, wish: &HostMove| named.contains(name) || to.as_ref() == Some(&wish.to);
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        after
            .host_pools
            .moves
            .hosts
            .retain(|name, wish| !meant(name, wish));
        Ok(counted(&seen, before, after))
    });
    let cluster = stored.await?.cluster;
    let hosts = seen
        .hosts
        .iter()
        .filter(|(name, _)| named.contains(name) || moves.get(*name).is_some_and(|wish| meant(name, wish)));
    Ok(hosts
        .map(|(_, host)| hosts::view(&cluster, host.clone()))
        .collect())
}

/// The same with the change counted, if there is one, beyond what its shard has heard: a gateway that is older than host pools forgets the
/// count whenever it writes the cluster's row.
fn counted(seen: &Seen, before: &Cluster, mut after: Cluster) -> Cluster {
    let moves = &mut after.host_pools.moves;
    if moves.hosts != before.host_pools.moves.hosts {
        moves.version = moves.version.max(seen.row.moves.version).saturating_add(1);
    }
    after
}

fn too_many(cluster: &str) -> ApiError {
    ApiError::new(
        ErrorReason::TooManyHostMoves,
        format!(
            "more than {MOST} hosts of cluster `{cluster}` would be on their way at a time; nothing was changed (move fewer at first, `echelon host-pool moves` shows those that are)"
        ),
    )
}

#[cfg(test)]
#[path = "host_moves_tests.rs"]
mod tests;
