//! Adds the clusters of the standalone form: there an operator adds none.

use anyhow::{Context, Result, bail};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query};
use echelon_io_storage::Store;

/// How often another process may write the same row first.
const TRIES: u32 = 8;

/// Adds a cluster where there is none of this name.
///
/// # Errors
/// Storage.
pub(super) async fn add(store: &dyn Store, name: &str) -> Result<()> {
    let failed = || format!("add cluster {name} to storage");
    for _ in 0..TRIES {
        let read = store.read(Query::Clusters, Consistency::Serial).await;
        let read = read.with_context(failed)?;
        if let Some(row) = read.unread.first() {
            bail!("add cluster {name} to storage: {row}");
        }
        let Answer::Clusters(known) = read.answer else {
            bail!("storage gave no clusters when asked for them");
        };
        if known.iter().any(|cluster| cluster.is_present_as(name)) {
            return Ok(());
        }
        let decision = Decision::PutCluster {
            cluster: Cluster::new(Cluster::fresh_id(&known, name), name),
            expected: None,
        };
        if store.decide(decision).await.with_context(failed)? == Decided::Applied {
            return Ok(());
        }
    }
    bail!("cannot add cluster {name}: other processes write clusters at the same time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_io_storage::MemoryStore;

    #[tokio::test]
    async fn a_cluster_is_added_once() {
        let store = MemoryStore::new();
        let (one, other) = tokio::join!(add(&store, "a"), add(&store, "a"));
        one.unwrap();
        other.unwrap();
        let read = store.read(Query::Clusters, Consistency::Serial).await;
        let Answer::Clusters(rows) = read.unwrap().answer else {
            panic!("no clusters");
        };
        assert_eq!(rows, [Cluster::new(echelon_core_model::ClusterId::new("a"), "a")]);
    }
}
