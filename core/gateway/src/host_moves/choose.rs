//! Which hosts a move takes: a function of what is seen. Hosts are taken on which the fewest tasks run, then those that are used least.

use super::{How, Wanted};
use crate::error::{ApiError, ErrorReason};
use crate::host_pools::{self, Seen};
use crate::host_sets::not_there;
use echelon_core_model::HostPoolName;
use echelon_core_model::cluster::Host;
use std::collections::BTreeMap;
use std::fmt;

/// A host that is to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The host.
    pub host: Host,
    /// Why this one.
    pub why: Why,
}

/// Why a host is to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It was named, or has the attributes.
    Asked,
    /// Nothing runs there.
    Empty,
    /// So many tasks run there, and at least as many on those that are left.
    Fewest(u32),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked for"),
            Self::Empty => f.write_str("nothing runs there"),
            Self::Fewest(1) => f.write_str("1 task runs there, no fewer on those that stay"),
            Self::Fewest(n) => write!(f, "{n} tasks run there, no fewer on those that stay"),
        }
    }
}

/// Why a host is left out where nobody named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It is in another host pool than the one that hosts are to come from.
    Elsewhere,
    /// It is on its way to a host pool.
    Moving,
    /// Operators want it empty.
    Draining,
    /// Its maintenance is planned.
    Maintenance,
    /// Mesos has no contact with it.
    Unreachable,
    /// It has persistent volumes: who holds one would wait for it.
    Volumes,
    /// Enough others are taken first.
    Stays,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elsewhere => "are in other host pools",
            Self::Moving => "are there or on their way already",
            Self::Draining => "are being drained",
            Self::Maintenance => "have planned maintenance",
            Self::Unreachable => "cannot be reached",
            Self::Volumes => "have persistent volumes; name them to move them",
            Self::Stays => "stay: as many as are wanted are taken before them",
        })
    }
}

/// What a move would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Hosts that would go, the easiest first.
    pub chosen: Vec<Chosen>,
    /// Names of those that would not, and why.
    pub left_out: BTreeMap<LeftOut, Vec<String>>,
}

/// Chooses. `O(hosts log hosts)`.
pub(super) fn choose(seen: &Seen, wanted: &Wanted) -> Result<Plan, ApiError> {
    let cluster = &seen.cluster.name;
    if !seen.is_made(&wanted.to) {
        return Err(host_pools::not_found(cluster, &wanted.to));
    }
    if let Some(from) = wanted.from.as_ref().filter(|from| !seen.knows(from)) {
        return Err(host_pools::not_found(cluster, from));
    }
    match (&wanted.how, &wanted.from) {
        (How::All, _) => all(seen, wanted),
        (_, None) => Err(ApiError::field(
            "from",
            "say which host pool the hosts are to come from",
        )),
        (How::Count(n), Some(from)) => some(seen, wanted, from, *n),
        (How::Size(n), Some(from)) => {
            let to = seen.pool(&wanted.to);
            let there = to.hosts.saturating_sub(to.leaving).saturating_add(to.coming);
            some(seen, wanted, from, n.saturating_sub(there))
        }
    }
}

/// All that were named or have the attributes, also hosts that would not be chosen; those that are where they are to be, or on their
/// way there, need not. Who names attributes and the host pool means those that are in it.
fn all(seen: &Seen, wanted: &Wanted) -> Result<Plan, ApiError> {
    let set = &wanted.set;
    set.check()?;
    let (found, missing) = set.of(seen.hosts.values().cloned().collect());
    let cluster = &seen.cluster.name;
    if !missing.is_empty() {
        return Err(not_there(cluster, &missing));
    }
    if found.is_empty() {
        return Err(crate::host_sets::nothing(cluster, set));
    }
    let mut plan = Plan::default();
    for host in found {
        let is_named = set
            .hosts
            .iter()
            .any(|n| *n == host.hostname || n == host.id.as_str());
        let is_from = |from: &HostPoolName| seen.is_in(&host.hostname, from);
        if !is_named && !wanted.from.as_ref().is_none_or(is_from) {
            plan.left_out
                .entry(LeftOut::Elsewhere)
                .or_default()
                .push(host.hostname);
            continue;
        }
        check(seen, wanted, &host)?;
        if is_on_its_way(seen, wanted, &host) {
            plan.left_out
                .entry(LeftOut::Moving)
                .or_default()
                .push(host.hostname);
        } else {
            plan.chosen.push(Chosen {
                why: Why::Asked,
                host,
            });
        }
    }
    plan.chosen.sort_by_key(|c| rank(&c.host));
    Ok(plan)
}

fn is_on_its_way(seen: &Seen, wanted: &Wanted, host: &Host) -> bool {
    let to = seen.goes_to(&seen.cluster, &host.hostname);
    to.or_else(|| seen.pool_of(&host.hostname)).as_ref() == Some(&wanted.to)
}

/// Whether a host that somebody named may be moved.
pub(super) fn check(seen: &Seen, wanted: &Wanted, host: &Host) -> Result<(), ApiError> {
    let (name, pool) = (&host.hostname, seen.pool_of(&host.hostname));
    let cluster = &seen.cluster.name;
    if is_on_its_way(seen, wanted, host) {
        return Ok(());
    }
    let refused = |why: String| {
        let message = format!("host `{name}` of cluster `{cluster}` {why}; nothing was changed");
        Err(ApiError::new(ErrorReason::HostNotMovable, message))
    };
    if let Some(to) = seen.goes_to(&seen.cluster, name) {
        return refused(format!(
            "is on its way to host pool `{to}` (`echelon host-pool undo {cluster}/{name}` takes that back)"
        ));
    }
    if let Some(from) = wanted.from.as_ref().filter(|from| pool.as_ref() != Some(from)) {
        return refused(match pool {
            Some(pool) => format!("is in host pool `{pool}`, not in `{from}`"),
            None => format!("is in a host pool that cannot be read: name it without `--from {from}`"),
        });
    }
    if seen.cluster.drains.hosts.contains_key(name) {
        return refused(format!(
            "is being drained (`echelon host undrain {cluster}/{name}` takes that back)"
        ));
    }
    Ok(())
}

/// As many as are asked for of one host pool.
fn some(seen: &Seen, wanted: &Wanted, from: &HostPoolName, n: u32) -> Result<Plan, ApiError> {
    let attributes = &wanted.set.attributes;
    let meant = |host: &&Host| {
        attributes.iter().all(|(k, v)| host.attributes.get(k) == Some(v)) && seen.is_in(&host.hostname, from)
    };
    let mut plan = Plan::default();
    let mut open: Vec<&Host> = Vec::new();
    for host in seen.hosts.values().filter(meant) {
        match left_out(seen, host) {
            Some(why) => plan.left_out.entry(why).or_default().push(host.hostname.clone()),
            None => open.push(host),
        }
    }
    open.sort_by_key(|host| rank(host));
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    if open.len() < n {
        return Err(too_few(seen, from, (open.len(), n), &plan));
    }
    let stays = open.split_off(n);
    if !stays.is_empty() {
        let names = stays.into_iter().map(|host| host.hostname.clone());
        plan.left_out.insert(LeftOut::Stays, names.collect());
    }
    let chosen = open.into_iter().map(|host| Chosen {
        why: match host.tasks {
            0 => Why::Empty,
            n => Why::Fewest(n),
        },
        host: host.clone(),
    });
    plan.chosen = chosen.collect();
    Ok(plan)
}

fn left_out(seen: &Seen, host: &Host) -> Option<LeftOut> {
    if seen.goes_to(&seen.cluster, &host.hostname).is_some() {
        Some(LeftOut::Moving)
    } else if seen.cluster.drains.hosts.contains_key(&host.hostname) {
        Some(LeftOut::Draining)
    } else if host.maintenance.is_some() {
        Some(LeftOut::Maintenance)
    } else if !host.reachable {
        Some(LeftOut::Unreachable)
    } else if !host.volumes.is_empty() {
        Some(LeftOut::Volumes)
    } else {
        None
    }
}

/// Fewest tasks first, then the least that they use, then the name.
fn rank(host: &Host) -> (u32, u64, u64, String) {
    (
        host.tasks,
        host.used.cpus,
        host.used.memory,
        host.hostname.clone(),
    )
}

fn too_few(seen: &Seen, from: &HostPoolName, (have, want): (usize, usize), plan: &Plan) -> ApiError {
    let others = plan.left_out.iter();
    let others = others.map(|(why, hosts)| format!("; {} {why}", hosts.len()));
    ApiError::new(
        ErrorReason::HostPoolTooSmall,
        format!(
            "host pool `{from}` of cluster `{}` has {have} hosts that could go, and {want} are asked for; nothing was changed{}",
            seen.cluster.name,
            others.collect::<String>()
        ),
    )
}
