//! Hosts that operators want empty. The wish is stored with the cluster, by the host's name; its shard carries it out under the rules
//! of the jobs that run there.

use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::hosts::{self, HostView, get_host};
use crate::port::Facts;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::drain::HostDrain;
use echelon_core_model::{Span, Timestamp};

/// Most hosts of a cluster that are drained at a time. With the longest names, and with the moves and all else that is
/// decided for the cluster, they are still one batch of storage.
pub const MOST: usize = 2_000;
/// Longest time that batch instances may be given.
pub const LONGEST: Span = Span::minutes(30 * 24 * 60);

/// How a host is to be left.
#[derive(Debug, Clone, Copy)]
pub struct Leave {
    /// So long batch instances may end by themselves.
    pub batch_for: Span,
    /// Mesos is to drain the agent, too, once nothing of ours is left.
    pub agent: bool,
    /// When this is wished.
    pub now: Timestamp,
}

/// Stores the wish that a host is left empty. A newer wish takes the place of an older one.
///
/// # Errors
/// No such cluster or host, too many at a time, too long a time, or storage.
pub async fn drain_host<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    wanted: &str,
    leave: Leave,
) -> Result<HostView, ApiError> {
    if leave.batch_for > LONGEST {
        return Err(ApiError::field("batch_for", "must be at most 30 days"));
    }
    let found = get_host(facts, wanted_cluster, wanted).await?;
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        want_empty(&mut after, &found.host.hostname, leave);
        if after.drains.hosts.len() > MOST {
            return Err(too_many(wanted_cluster));
        }
        if after.drains.hosts != before.drains.hosts {
            after.drains.version += 1;
        }
        Ok(after)
    });
    Ok(hosts::view(&stored.await?.cluster, found.host))
}

/// Adds a host to those that are to be empty. The caller counts the change.
pub(crate) fn want_empty(cluster: &mut Cluster, hostname: &str, leave: Leave) {
    let known = cluster.drains.hosts.get(hostname);
    // Their time is over either way: saying it again changes nothing.
    let over = known
        .map(|k| k.batch_until)
        .filter(|at| *at <= leave.now && leave.batch_for == Span::ZERO);
    let wish = HostDrain {
        batch_until: over.unwrap_or_else(|| leave.now.plus(leave.batch_for)),
        agent: leave.agent,
    };
    cluster.drains.hosts.insert(hostname.to_owned(), wish);
}

/// Takes that wish back. A host that nobody wants empty stays as it is.
///
/// # Errors
/// No such cluster or host, or storage.
pub async fn undrain_host<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    wanted: &str,
) -> Result<HostView, ApiError> {
    let found = get_host(facts, wanted_cluster, wanted).await?;
    let stored = clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        forget(&mut after, &found.host.hostname);
        Ok(after)
    });
    Ok(hosts::view(&stored.await?.cluster, found.host))
}

fn forget(cluster: &mut Cluster, hostname: &str) {
    if cluster.drains.hosts.remove(hostname).is_some() {
        cluster.drains.version += 1;
    }
}

pub(crate) fn too_many(cluster: &str) -> ApiError {
    ApiError::new(
        ErrorReason::TooManyDrains,
        format!(
            "{MOST} hosts of cluster `{cluster}` are to be empty, which is the most at a time; nothing was changed (`echelon host undrain` takes one back, `echelon cluster drain` moves everything off)"
        ),
    )
}

#[cfg(test)]
#[path = "drains_tests.rs"]
mod tests;
