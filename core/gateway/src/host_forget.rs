//! An operator says that a host never returns. The word is stored with the cluster; its shard ends what was
//! silent there.

use crate::ask;
use crate::clusters;
use crate::error::{ApiError, ErrorReason};
use crate::hosts::{self, HostView, get_host};
use crate::port::Facts;
use echelon_core_model::store::{Answer, Consistency, Query};

/// Stores that a host never returns; the host as it is stored, or none where its row is gone already.
///
/// # Errors
/// No such cluster, a host that Mesos has contact with, or storage.
pub async fn forget_host<F: Facts>(
    facts: &F,
    wanted_cluster: &str,
    wanted: &str,
) -> Result<Option<HostView>, ApiError> {
    let found = match get_host(facts, wanted_cluster, wanted).await {
        Ok(found) => Some(found),
        // Its runs may still be waited for.
        Err(e) if e.reason == ErrorReason::HostNotFound => None,
        Err(e) => return Err(e),
    };
    if let Some(view) = found.as_ref().filter(|v| v.host.reachable) {
        return Err(ApiError::new(
            ErrorReason::HostInContact,
            format!(
                "Mesos has contact with host `{}` of cluster `{}`; nothing was changed (`echelon host drain` has it left empty)",
                view.host.hostname, view.cluster_name
            ),
        ));
    }
    let cluster = hosts::cluster(facts, wanted_cluster).await?;
    let query = Query::Shard(cluster.id.clone());
    let observed = match ask::read(facts, query, Consistency::Quorum, "the shard's row").await? {
        Answer::Shard(row) => row.observed,
        _ => return Err(ask::broken_conflict("the shard's row")),
    };
    let name = found.as_ref().map_or(wanted, |v| v.host.id.as_str()).to_owned();
    clusters::put(facts, wanted_cluster, |before, _| {
        let mut after = before.clone();
        after.forgotten.name(&name, observed);
        Ok(after)
    })
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, run};
    use echelon_core_model::Span;

    fn forget(store: &mut Memory, host: &'static str) -> Result<bool, ErrorReason> {
        let done = run(store, move |facts| async move {
            forget_host(&facts, "east", host).await
        });
        done.map(|v| v.is_some()).map_err(|e| e.reason)
    }

    #[test]
    fn a_host_that_never_returns_is_stored_by_its_agent_and_one_in_contact_is_refused() {
        let mut store = Memory::new();
        let east = store.add_cluster("east");
        store.add_host(&east, "h1", "web-1");
        store.shards.entry(east.clone()).or_default().observed = Span::minutes(7);
        assert_eq!(forget(&mut store, "web-1"), Err(ErrorReason::HostInContact));
        assert!(store.clusters[&east].forgotten.hosts.is_empty());
        store.hosts.get_mut(&east).unwrap()[0].reachable = false;
        assert_eq!(forget(&mut store, "web-1"), Ok(true));
        assert_eq!(forget(&mut store, "long-gone"), Ok(false));
        let stored = &store.clusters[&east].forgotten;
        assert_eq!(stored.version, 2);
        assert_eq!(stored.hosts["h1"], Span::minutes(7));
        assert!(stored.hosts.contains_key("long-gone"));
    }
}
