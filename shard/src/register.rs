//! Makes the shard's cluster known: adds its row where there is none, and keeps the address of its master true. A master
//! that another cluster has is refused, since two shards would drive the same hosts.

use echelon_core_model::cluster::{Cluster, Wish};
use echelon_core_model::drain::Drains;
use echelon_core_model::host_pool::HostPoolWishes;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query, Reading};
use echelon_core_model::{ClusterId, Version};
use echelon_io_process::Backoff;
use echelon_io_storage::{Store, StoreError};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
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
         or make {other} leave first"
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
    #[error("cannot add cluster {name} to storage")]
    Storage {
        /// The cluster.
        name: String,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The process ends.
    #[error("the shard was stopped before storage knew its cluster {0}")]
    Stopped(String),
}

/// The id of the cluster of this name, which storage knows then.
///
/// # Errors
/// [`RegisterError`]; a storage that does not answer is asked again until `stop`.
pub(crate) async fn ensure(
    store: &dyn Store,
    name: &str,
    mesos: &str,
    (seed, stop): (u64, &CancellationToken),
) -> Result<ClusterId, RegisterError> {
    for wait in BACKOFF.waits(SmallRng::seed_from_u64(seed)) {
        match try_once(store, name, mesos).await {
            Ok(Some(id)) => return Ok(id),
            // Somebody else wrote the row meanwhile: look again.
            Ok(None) => {}
            Err(RegisterError::Storage { source, .. }) if source.is_retryable() => {
                tracing::warn!(
                    cluster = name,
                    error = source.chain(),
                    "storage does not know this cluster yet; trying again"
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

async fn try_once(store: &dyn Store, name: &str, mesos: &str) -> Result<Option<ClusterId>, RegisterError> {
    let failed = |source| RegisterError::Storage {
        name: name.to_owned(),
        source,
    };
    let read = store.read(Query::Clusters, Consistency::Serial).await;
    let Reading { answer, mut unread } = read.map_err(failed)?;
    let Answer::Clusters(known) = answer else {
        return Ok(None);
    };
    let own = known.iter().find(|cluster| is_own(cluster, name));
    // A row that cannot be understood may be this cluster's: another one is not added beside it.
    if let (None, Some(row)) = (own, unread.pop()) {
        return Err(failed(StoreError::Unread(Box::new(row))));
    }
    let Some((cluster, expected)) = row(&known, name, mesos)? else {
        return Ok(own.map(|cluster| cluster.id.clone()));
    };
    let id = cluster.id.clone();
    let decision = Decision::PutCluster { cluster, expected };
    match store.decide(decision).await.map_err(failed)? {
        Decided::Applied => Ok(Some(id)),
        Decided::Conflict(_) => Ok(None),
    }
}

fn is_own(cluster: &Cluster, name: &str) -> bool {
    cluster.name == name && cluster.wish != Wish::Left
}

/// What is to be written, and over which version; nothing when the row is there and true.
fn row(
    known: &[Cluster],
    name: &str,
    mesos: &str,
) -> Result<Option<(Cluster, Option<Version>)>, RegisterError> {
    let present = known.iter().filter(|cluster| cluster.wish != Wish::Left);
    if let Some(other) = present
        .clone()
        .find(|cluster| cluster.name != name && cluster.mesos == mesos)
    {
        return Err(RegisterError::SameMaster {
            name: name.to_owned(),
            mesos: mesos.to_owned(),
            other: other.name.clone(),
        });
    }
    let own = known.iter().find(|cluster| is_own(cluster, name));
    Ok(match own {
        Some(own) if own.mesos == mesos => None,
        Some(own) => {
            let moved = Cluster {
                mesos: mesos.to_owned(),
                version: own.version.next(),
                ..own.clone()
            };
            Some((moved, Some(own.version)))
        }
        None => {
            let added = Cluster {
                id: fresh_id(known, name),
                name: name.to_owned(),
                version: Version(1),
                wish: Wish::Active,
                mesos: mesos.to_owned(),
                labels: BTreeMap::new(),
                accepted_loss: 0,
                forgotten: Default::default(),
                volumes: BTreeMap::new(),
                drains: Drains::default(),
                host_pools: HostPoolWishes::default(),
            };
            Some((added, None))
        }
    })
}

/// The name itself, unless a cluster that has left had it as its id: an id is never used again.
fn fresh_id(known: &[Cluster], name: &str) -> ClusterId {
    let is_free = |id: &ClusterId| known.iter().all(|cluster| cluster.id != *id);
    let first = ClusterId::new(name);
    if is_free(&first) {
        return first;
    }
    let numbered = (2..=u32::MAX).map(|n| ClusterId::new(format!("{name}-{n}")));
    numbered.into_iter().find(is_free).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_io_storage::MemoryStore;

    fn cluster(id: &str, name: &str, mesos: &str, wish: Wish) -> Cluster {
        Cluster {
            id: ClusterId::new(id),
            name: name.into(),
            version: Version(1),
            wish,
            mesos: mesos.into(),
            labels: BTreeMap::new(),
            accepted_loss: 0,
            forgotten: Default::default(),
            volumes: BTreeMap::new(),
            drains: Drains::default(),
            host_pools: HostPoolWishes::default(),
        }
    }

    fn id_and_version(row: Option<(Cluster, Option<Version>)>) -> Option<(String, Option<u64>)> {
        row.map(|(cluster, over)| (cluster.id.to_string(), over.map(|version| version.0)))
    }

    #[test]
    fn a_cluster_is_added_once_and_follows_its_master() {
        use Wish::{Active, Cordoned, Left};
        let cases = [
            ("nobody is there", vec![], Some(("a", None))),
            ("it is there", vec![cluster("a", "a", "m:1", Cordoned)], None),
            (
                "its master moved",
                vec![cluster("a", "a", "m:2", Active)],
                Some(("a", Some(1))),
            ),
            (
                "one of its name has left",
                vec![cluster("a", "a", "m:1", Left)],
                Some(("a-2", None)),
            ),
            (
                "two of its name have left",
                vec![cluster("a", "a", "m:1", Left), cluster("a-2", "a", "m:1", Left)],
                Some(("a-3", None)),
            ),
            (
                "another has its own",
                vec![cluster("b", "b", "m:2", Active)],
                Some(("a", None)),
            ),
        ];
        for (what, known, expected) in cases {
            let expected = expected.map(|(id, over)| (id.to_owned(), over));
            assert_eq!(
                id_and_version(row(&known, "a", "m:1").unwrap()),
                expected,
                "{what}"
            );
        }
    }

    #[test]
    fn a_master_has_one_cluster() {
        let known = [cluster("b", "b", "m:1", Wish::Active)];
        let error = row(&known, "a", "m:1").err().unwrap().to_string();
        assert!(error.contains("cluster b has it already"), "{error}");
    }

    #[tokio::test]
    async fn shards_of_one_cluster_agree_on_its_id() {
        let (store, stop) = (MemoryStore::new(), CancellationToken::new());
        let (one, other) = tokio::join!(
            ensure(&store, "a", "m:1", (1, &stop)),
            ensure(&store, "a", "m:1", (1, &stop))
        );
        assert_eq!(one.unwrap(), other.unwrap());
        let read = store.read(Query::Clusters, Consistency::Serial).await;
        let Answer::Clusters(rows) = read.unwrap().answer else {
            panic!("no clusters");
        };
        assert_eq!(rows.len(), 1);
    }
}
