//! Hosts of a cluster, as its shard last wrote them.

use crate::ask;
use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::view::Federation;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::drain::HostDrain;
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{ClusterId, HostId};

/// A host with its cluster.
#[derive(Debug, Clone)]
pub struct HostView {
    /// The host.
    pub host: Host,
    /// Its cluster's id.
    pub cluster: ClusterId,
    /// Its cluster's name.
    pub cluster_name: String,
    /// Operators want it empty.
    pub drain: Option<HostDrain>,
    /// Operators want it in a certain host pool.
    pub to: Option<HostMove>,
}

/// The cluster that is meant.
pub(crate) async fn cluster<F: Facts>(facts: &F, wanted: &str) -> Result<Cluster, ApiError> {
    let all = ask::clusters(facts).await?;
    let federation = Federation {
        clusters: all.into_iter().map(|c| (c.id.clone(), c)).collect(),
        ..Federation::default()
    };
    federation
        .find(wanted)
        .cloned()
        .ok_or_else(|| clusters::not_found(wanted))
}

async fn read<F: Facts>(
    facts: &F,
    cluster: &ClusterId,
    after: Option<HostId>,
    limit: u32,
) -> Result<Vec<Host>, ApiError> {
    let query = Query::Hosts {
        cluster: cluster.clone(),
        after,
        limit,
    };
    match ask::read(facts, query, Consistency::Quorum, "the hosts").await? {
        Answer::Hosts(hosts) => Ok(hosts),
        _ => Err(ask::broken_conflict("the hosts")),
    }
}

/// All hosts of a cluster.
pub(crate) async fn all<F: Facts>(facts: &F, cluster: &ClusterId) -> Result<Vec<Host>, ApiError> {
    let mut all: Vec<Host> = Vec::new();
    loop {
        let after = all.last().map(|h| h.id.clone());
        let rows = read(facts, cluster, after, page::LARGEST).await?;
        let full = u32::try_from(rows.len()).unwrap_or(u32::MAX) >= page::LARGEST;
        all.extend(rows);
        if !full {
            return Ok(all);
        }
    }
}

/// A host with its cluster, and what is wanted of it.
#[must_use]
pub fn view(cluster: &Cluster, host: Host) -> HostView {
    HostView {
        drain: cluster.drains.hosts.get(&host.hostname).cloned(),
        to: cluster.host_pools.moves.hosts.get(&host.hostname).cloned(),
        host,
        cluster: cluster.id.clone(),
        cluster_name: cluster.name.clone(),
    }
}

/// A page of hosts in order of id.
///
/// # Errors
/// No such cluster, a wrong page token or size, or storage.
pub async fn list_hosts<F: Facts>(
    facts: &F,
    wanted: &str,
    page: PageRequest,
) -> Result<Page<HostView>, ApiError> {
    let limit = page.limit()?;
    let cluster = cluster(facts, wanted).await?;
    let asked = format!("hosts {}", cluster.id);
    let after = page.position(&asked)?.map(HostId::new);
    let rows = read(facts, &cluster.id, after, limit.saturating_add(1)).await?;
    let rows = rows.into_iter().map(|h| view(&cluster, h)).collect();
    Ok(page::cut(rows, limit, &asked, |h: &HostView| {
        h.host.id.to_string()
    }))
}

/// One host, by id or hostname.
///
/// # Errors
/// No such cluster or host, or storage.
pub async fn get_host<F: Facts>(facts: &F, wanted_cluster: &str, wanted: &str) -> Result<HostView, ApiError> {
    let cluster = cluster(facts, wanted_cluster).await?;
    let mut after = None;
    loop {
        let rows = read(facts, &cluster.id, after, page::LARGEST).await?;
        let full = u32::try_from(rows.len()).unwrap_or(u32::MAX) >= page::LARGEST;
        after = rows.last().map(|h| h.id.clone());
        let found = rows
            .into_iter()
            .find(|h| h.id.as_str() == wanted || h.hostname == wanted);
        match found {
            Some(host) => return Ok(view(&cluster, host)),
            None if full => {}
            None => {
                return Err(ApiError::new(
                    ErrorReason::HostNotFound,
                    format!(
                        "cluster `{wanted_cluster}` has no host `{wanted}`; `echelon host list {wanted_cluster}` shows what there is"
                    ),
                ));
            }
        }
    }
}
