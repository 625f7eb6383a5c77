//! Sets of hosts that operators want empty: named one by one, or by attributes. A set is what it is at the moment of the wish; all of it
//! is stored in one write, so that it is wished whole or not at all.

use crate::clusters;
use crate::drains::{self, LONGEST, Leave};
use crate::error::{ApiError, ErrorReason};
use crate::hosts::{self, HostView};
use crate::port::Facts;
use echelon_core_model::cluster::{Cluster, Host};
use std::collections::{BTreeMap, BTreeSet};

/// Most names that an error lists.
const LISTED: usize = 10;

/// Which hosts of a cluster are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSet {
    /// These, by name or agent id.
    pub hosts: Vec<String>,
    /// And those that have all of these attributes; none when it is empty.
    pub attributes: BTreeMap<String, String>,
}

impl HostSet {
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.hosts.is_empty() && self.attributes.is_empty() {
            return Err(ApiError::field(
                "hosts",
                "name hosts, or attributes that they have: an empty set is never all hosts",
            ));
        }
        Ok(())
    }

    fn has(&self, host: &Host) -> bool {
        let named = |name: &String| host.hostname == *name || host.id.as_str() == name;
        let alike = self
            .attributes
            .iter()
            .all(|(k, v)| host.attributes.get(k) == Some(v));
        self.hosts.iter().any(named) || (alike && !self.attributes.is_empty())
    }

    /// Those of some hosts, with the names that are none of them.
    pub(crate) fn of(&self, all: Vec<Host>) -> (Vec<Host>, Vec<&str>) {
        let known: BTreeSet<&str> = all
            .iter()
            .flat_map(|h| [h.hostname.as_str(), h.id.as_str()])
            .collect();
        let missing = self.hosts.iter().map(String::as_str);
        let missing = missing.filter(|name| !known.contains(name)).collect();
        let found = all.iter().filter(|h| self.has(h)).cloned().collect();
        (found, missing)
    }
}

/// Stores the wish that all hosts of a set are left empty, or with `store` off only says which they are.
///
/// # Errors
/// No such cluster, a host that is not there, a set without hosts, too many at a time, too long a time, or storage; nothing is
/// changed then.
pub async fn drain_hosts<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    set: &HostSet,
    (leave, store): (Leave, bool),
) -> Result<Vec<HostView>, ApiError> {
    set.check()?;
    if leave.batch_for > LONGEST {
        return Err(ApiError::field("batch_for", "must be at most 30 days"));
    }
    let cluster = hosts::cluster(facts, wanted_cluster).await?;
    let all = hosts::all(facts, &cluster.id).await?;
    let (found, missing) = set.of(all);
    if !missing.is_empty() {
        return Err(not_there(wanted_cluster, &missing));
    }
    if found.is_empty() {
        return Err(nothing(wanted_cluster, set));
    }
    if !store {
        return Ok(views(&cluster, found));
    }
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        for host in &found {
            drains::want_empty(&mut after, &host.hostname, leave);
        }
        if after.drains.hosts.len() > drains::MOST {
            return Err(drains::too_many(wanted_cluster));
        }
        if after.drains.hosts != before.drains.hosts {
            after.drains.version += 1;
        }
        Ok(after)
    });
    Ok(views(&stored.await?.cluster, found))
}

/// Takes the wish back for all hosts of a set, those included that have vanished meanwhile. Hosts that nobody wants empty stay as
/// they are.
///
/// # Errors
/// No such cluster, a name that neither a host nor a wish has, a set without hosts, or storage; nothing is changed then.
pub async fn undrain_hosts<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    set: &HostSet,
) -> Result<Vec<HostView>, ApiError> {
    set.check()?;
    let cluster = hosts::cluster(facts, wanted_cluster).await?;
    let all = hosts::all(facts, &cluster.id).await?;
    let (found, missing) = set.of(all);
    let wished = &cluster.drains.hosts;
    let (vanished, missing): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|name| wished.contains_key(*name));
    if !missing.is_empty() {
        return Err(not_there(wanted_cluster, &missing));
    }
    if found.is_empty() && vanished.is_empty() {
        return Err(nothing(wanted_cluster, set));
    }
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        let names = found.iter().map(|h| h.hostname.as_str());
        for name in names.chain(vanished.iter().copied()) {
            after.drains.hosts.remove(name);
        }
        if after.drains.hosts != before.drains.hosts {
            after.drains.version += 1;
        }
        Ok(after)
    });
    Ok(views(&stored.await?.cluster, found))
}

fn views(cluster: &Cluster, found: Vec<Host>) -> Vec<HostView> {
    found.into_iter().map(|h| hosts::view(cluster, h)).collect()
}

pub(crate) fn not_there(cluster: &str, missing: &[&str]) -> ApiError {
    let mut named: Vec<String> = missing
        .iter()
        .take(LISTED)
        .map(|name| format!("`{name}`"))
        .collect();
    if missing.len() > LISTED {
        named.push(format!("and {} more", missing.len() - LISTED));
    }
    ApiError::new(
        ErrorReason::HostNotFound,
        format!(
            "cluster `{cluster}` has no host {}; nothing was changed (`echelon host list --cluster {cluster}` shows what there is)",
            named.join(", ")
        ),
    )
}

pub(crate) fn nothing(cluster: &str, set: &HostSet) -> ApiError {
    let pairs: Vec<String> = set.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    ApiError::new(
        ErrorReason::HostNotFound,
        format!(
            "no host of cluster `{cluster}` has {}; nothing was changed (`echelon host get` shows a host's attributes)",
            pairs.join(" and ")
        ),
    )
}

#[cfg(test)]
#[path = "host_sets_tests.rs"]
mod tests;
