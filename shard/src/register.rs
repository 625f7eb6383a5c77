//! Finds the row of the shard's cluster by its name, and keeps the address of its master in it true. A cluster is added by
//! `echelon cluster add`: a mistyped name waits instead of making a cluster. A master that another cluster has is refused,
//! since two shards would drive the same hosts.

use echelon_core_model::ClusterId;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query, Reading};
use echelon_io_process::Backoff;
use echelon_io_storage::{Store, StoreError};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::time::Duration;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// Why a shard has no cluster.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// Another cluster has this master.
    #[error(
        "cluster {name} cannot use the Mesos master {mesos}: cluster {other} has it already; give each cluster its own master, \
         or remove {other} first"
    )]
    SameMaster {
        /// The shard's cluster.
        name: String,
        /// The master.
        mesos: String,
        /// Who has it.
        other: String,
    },
    /// Storage refuses, and would again.
    #[error("cannot read cluster {name} from storage")]
    Storage {
        /// The cluster.
        name: String,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The process ends.
    #[error("the shard was stopped before its cluster {0} was found in storage")]
    Stopped(String),
}

/// The id of the cluster of this name, once it was added. Its row says where its master is then.
///
/// # Errors
/// [`RegisterError`]; a storage that does not answer, or has no such cluster yet, is asked again until `stop`.
pub(crate) async fn find(
    store: &dyn Store,
    name: &str,
    mesos: &str,
    (seed, stop): (u64, &CancellationToken),
) -> Result<ClusterId, RegisterError> {
    for wait in BACKOFF.waits(SmallRng::seed_from_u64(seed)) {
        match try_once(store, name, mesos).await {
            Ok(Attempt::Found(id)) => return Ok(id),
            Ok(Attempt::Overtaken) => {}
            Ok(Attempt::Removed) => tracing::warn!(
                cluster = name,
                "the cluster of this name was removed for good: this shard does nothing, it can be stopped; what still runs at its Mesos \
                 ends when an operator tears the framework down, or after its failover time-out"
            ),
            Ok(Attempt::Missing) => tracing::warn!(
                cluster = name,
                "there is no cluster of this name yet: add it with `echelon cluster add {name}`; waiting for it"
            ),
            Err(RegisterError::Storage { source, .. }) if source.is_retryable() => {
                tracing::warn!(
                    cluster = name,
                    error = source.chain(),
                    "storage does not tell of this cluster yet; trying again"
                );
            }
            Err(error) => return Err(error),
        }
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            break;
        }
    }
    Err(RegisterError::Stopped(name.to_owned()))
}

/// How often a shard looks whether its cluster was removed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Whether a cluster was removed for good. Storage that does not answer does not say so.
pub(crate) async fn is_removed(store: &dyn Store, id: &ClusterId) -> bool {
    let read = store.read(Query::Clusters, Consistency::Quorum);
    let Ok(Ok(reading)) = tokio::time::timeout(LOOK_WITHIN, read).await else {
        return false;
    };
    let Answer::Clusters(known) = reading.answer else {
        return false;
    };
    known
        .iter()
        .any(|c| c.id == *id && c.desired_state == DesiredState::Removed)
}

/// Returns when a cluster was removed for good.
pub(crate) async fn removed(store: &dyn Store, id: &ClusterId) {
    while !is_removed(store, id).await {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What one look at storage gave.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Found(ClusterId),
    /// Another process wrote the row meanwhile.
    Overtaken,
    /// It was not added.
    Missing,
    /// It was removed, and none of its name was added since.
    Removed,
}

async fn try_once(store: &dyn Store, name: &str, mesos: &str) -> Result<Attempt, RegisterError> {
    let failed = |source| RegisterError::Storage {
        name: name.to_owned(),
        source,
    };
    let read = store.read(Query::Clusters, Consistency::Serial).await;
    let Reading { answer, mut unread } = read.map_err(failed)?;
    let Answer::Clusters(known) = answer else {
        return Ok(Attempt::Overtaken);
    };
    let moved = match row(&known, name, mesos)? {
        Some(FoundRow::True(id)) => return Ok(Attempt::Found(id)),
        Some(FoundRow::Moved(moved)) => moved,
        // A row that cannot be understood may be this cluster's.
        None => match unread.pop() {
            Some(row) => return Err(failed(StoreError::Unread(Box::new(row)))),
            None => return Ok(absent(&known, name)),
        },
    };
    let id = moved.id.clone();
    let expected = known
        .iter()
        .find(|cluster| cluster.id == id)
        .map(|cluster| cluster.version);
    let decision = Decision::PutCluster {
        cluster: *moved,
        expected,
    };
    match store.decide(decision).await.map_err(failed)? {
        Decided::Applied => Ok(Attempt::Found(id)),
        Decided::Conflict(_) => Ok(Attempt::Overtaken),
    }
}

/// What it means that no cluster of this name is present.
fn absent(known: &[Cluster], name: &str) -> Attempt {
    // A cluster that is present was found before.
    if known.iter().any(|cluster| cluster.name == name) {
        Attempt::Removed
    } else {
        Attempt::Missing
    }
}

/// The row as it is to be, where it is to change. `None`: there is none of this name.
fn row(known: &[Cluster], name: &str, mesos: &str) -> Result<Option<FoundRow>, RegisterError> {
    let present = known
        .iter()
        .filter(|cluster| cluster.desired_state != DesiredState::Removed);
    let mut others = present.filter(|cluster| cluster.name != name && cluster.mesos == mesos);
    if let Some(other) = others.next() {
        return Err(RegisterError::SameMaster {
            name: name.to_owned(),
            mesos: mesos.to_owned(),
            other: other.name.clone(),
        });
    }
    let own = known.iter().find(|cluster| cluster.is_present_as(name));
    Ok(own.map(|own| {
        if own.mesos == mesos {
            return FoundRow::True(own.id.clone());
        }
        FoundRow::Moved(Box::new(Cluster {
            mesos: mesos.to_owned(),
            version: own.version.next(),
            ..own.clone()
        }))
    }))
}

/// The row of a cluster that was added.
#[derive(Debug)]
enum FoundRow {
    /// It has the shard's master.
    True(ClusterId),
    /// It had another master: as it is to be.
    Moved(Box<Cluster>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_io_storage::MemoryStore;

    fn cluster(name: &str, mesos: &str, desired_state: DesiredState) -> Cluster {
        Cluster {
            mesos: mesos.into(),
            desired_state,
            ..Cluster::new(ClusterId::new(name), name)
        }
    }

    #[test]
    fn a_row_follows_its_master_and_one_that_has_left_is_none() {
        let moves = |known: &[Cluster]| {
            row(known, "a", "m:1").unwrap().map(|found| match found {
                FoundRow::True(id) => (id.to_string(), None),
                FoundRow::Moved(row) => (row.id.to_string(), Some((row.version.0, row.mesos))),
            })
        };
        assert_eq!(moves(&[]), None);
        assert_eq!(moves(&[cluster("b", "m:2", DesiredState::Active)]), None);
        assert_eq!(moves(&[cluster("a", "m:1", DesiredState::Removed)]), None);
        let there = [cluster("a", "m:1", DesiredState::Cordoned)];
        assert_eq!(moves(&there), Some(("a".to_owned(), None)));
        let moved = [cluster("a", "m:2", DesiredState::Active)];
        assert_eq!(moves(&moved), Some(("a".to_owned(), Some((2, "m:1".to_owned())))));
    }

    #[test]
    fn a_cluster_that_was_removed_is_told_from_one_that_was_never_added() {
        let known = [cluster("a", "m:1", DesiredState::Removed)];
        assert_eq!(absent(&known, "a"), Attempt::Removed);
        assert_eq!(absent(&known, "b"), Attempt::Missing);
    }

    #[test]
    fn a_master_has_one_cluster() {
        let known = [cluster("b", "m:1", DesiredState::Active)];
        let error = row(&known, "a", "m:1").unwrap_err().to_string();
        assert!(error.contains("cluster b has it already"), "{error}");
    }

    #[tokio::test]
    async fn a_shard_waits_until_its_cluster_was_added() {
        let (store, stop) = (MemoryStore::new(), CancellationToken::new());
        let add = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let decision = Decision::PutCluster {
                cluster: cluster("a", "", DesiredState::Active),
                expected: None,
            };
            store.decide(decision).await.unwrap()
        };
        let shards = async {
            tokio::join!(
                find(&store, "a", "m:1", (1, &stop)),
                find(&store, "a", "m:1", (2, &stop))
            )
        };
        let (_, (one, other)) = tokio::join!(add, shards);
        assert_eq!(one.unwrap().as_str(), "a");
        assert_eq!(other.unwrap().as_str(), "a");
        let read = store.read(Query::Clusters, Consistency::Serial).await;
        let Answer::Clusters(rows) = read.unwrap().answer else {
            panic!("no clusters");
        };
        assert_eq!(rows.iter().map(|c| c.mesos.as_str()).collect::<Vec<_>>(), ["m:1"]);
    }

    #[tokio::test]
    async fn a_shard_that_is_stopped_waits_no_longer() {
        let (store, stop) = (MemoryStore::new(), CancellationToken::new());
        stop.cancel();
        let found = find(&store, "a", "m:1", (1, &stop)).await;
        assert!(matches!(found, Err(RegisterError::Stopped(_))));
        let read = store.read(Query::Clusters, Consistency::Serial).await;
        assert_eq!(read.unwrap().answer, Answer::Clusters(vec![]), "no row was made");
    }
}
