//! The storage contract on a real Cassandra, behind a proxy that drops answers, and what only Cassandra can do wrong.
#![cfg(test)]

use async_trait::async_trait;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query};
use echelon_core_model::{Epoch, Version};
use echelon_io_storage::contract::{Case, Faults, facts};
use echelon_io_storage::{CassandraStore, Standing, Store, StoreError, open_checked};
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::servers::Cassandra;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn node() -> SocketAddr {
    tokio::task::block_in_place(|| Cassandra::shared().unwrap().addresses()[0])
}

async fn plain(node: SocketAddr) -> Session {
    SessionBuilder::new().known_node_addr(node).build().await.unwrap()
}

/// Between two tries of what nodes cannot do yet.
const PAUSE: Duration = Duration::from_millis(200);

/// Keyspaces that were used and are free again: a schema costs more time and memory than emptying its tables.
static FREE: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MADE: AtomicU32 = AtomicU32::new(0);

/// A keyspace that no other test uses; given back when it is dropped.
struct Keyspace(String);

impl Keyspace {
    async fn take(node: SocketAddr) -> Self {
        let free = FREE.lock().unwrap().pop();
        if let Some(name) = free {
            empty(&plain(node).await, &name).await;
            return Self(name);
        }
        let name = format!("contract_{}", MADE.fetch_add(1, Ordering::Relaxed));
        let store = CassandraStore::connect(&format!("cassandra://{node}/{name}?replication=1")).await;
        let store = store.unwrap();
        assert_eq!(store.status().await.unwrap().level, 0, "nothing is there before");
        let early = store.read(Query::Pools, Consistency::Quorum).await.unwrap_err();
        assert!(
            matches!(early, StoreError::Level { found: 0, .. }),
            "{}",
            early.chain()
        );
        store.migrate().await.unwrap();
        Self(name)
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        FREE.lock().unwrap().push(self.0.clone());
    }
}

async fn empty(session: &Session, keyspace: &str) {
    let tables = session
        .query_unpaged(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
            (keyspace,),
        )
        .await
        .unwrap();
    let tables = tables.into_rows_result().unwrap();
    for table in tables.rows::<(String,)>().unwrap() {
        let (table,) = table.unwrap();
        if table != "migrations" {
            session
                .query_unpaged(format!("TRUNCATE {keyspace}.{table}"), ())
                .await
                .unwrap();
        }
    }
}

/// A store that reaches the node through a proxy alone.
async fn behind(proxy: &Proxy, node: SocketAddr, keyspace: &str) -> CassandraStore {
    let address = proxy.address();
    // The driver takes the port of its contact point for every node's.
    let said = SocketAddr::new(node.ip(), address.port());
    let addresses = HashMap::from([(node, address), (said, address)]);
    let url = format!("cassandra://{address}/{keyspace}?replication=1");
    CassandraStore::connect_through(&url, addresses).await.unwrap()
}

struct Dropped {
    proxy: Proxy,
    store: Arc<CassandraStore>,
}

#[async_trait]
impl Faults for Dropped {
    async fn lose_answers(&self) {
        self.proxy.set(Mode::DropAnswers);
    }

    async fn answer(&self) {
        self.proxy.set(Mode::Pass);
        let connected = async {
            while self.store.status().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), connected)
            .await
            .unwrap();
    }
}

/// The servers of tests keep one copy and write their commit log before they answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_says_of_its_durability_is_read() {
    let node = node();
    let keyspace = Keyspace::take(node).await;
    let url = format!("cassandra://{node}/{}?replication=1", keyspace.0);
    let said = CassandraStore::connect(&url).await.unwrap().durability().await;
    let told = |property: &str| {
        let of = said.findings.iter().find(|f| f.property == property);
        of.map(|f| f.standing)
    };
    assert_eq!(told("replication"), Some(Standing::Weak), "{said:?}");
    assert_eq!(told("commit-log"), Some(Standing::Durable), "{said:?}");
}

async fn fresh() -> Case {
    let node = node();
    let keyspace = Keyspace::take(node).await;
    let proxy = Proxy::start(node).unwrap();
    let store = Arc::new(behind(&proxy, node, &keyspace.0).await);
    Case {
        store: Arc::clone(&store) as Arc<dyn Store>,
        faults: Arc::new(Dropped { proxy, store }),
        keep: Box::new(keyspace),
    }
}

echelon_io_storage::storage_contract!(fresh);

/// Names of a schema that is not there, of one that a newer build has made, and of a node that is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_keyspace_is_told() {
    let node = node();
    let newer = CassandraStore::connect(&format!("cassandra://{node}/newer?replication=1"))
        .await
        .unwrap();
    newer.migrate().await.unwrap();
    let url = format!("cassandra://{node}/newer?replication=1");
    assert!(open_checked(&url).await.is_ok());
    let record = "INSERT INTO newer.migrations (part, number) VALUES (0, 99)";
    plain(node).await.query_unpaged(record, ()).await.unwrap();
    for error in [newer.migrate().await.err(), open_checked(&url).await.err()] {
        let error = error.unwrap();
        assert!(
            matches!(error, StoreError::Level { found: 99, .. }),
            "{}",
            error.chain()
        );
        assert!(!error.is_retryable());
    }
    assert!(!newer.status().await.unwrap().is_current());
    // A storage of the builds before levels were checked: refused, and nothing in it is changed.
    let session = plain(node).await;
    for statement in [
        "TRUNCATE newer.migrations",
        "INSERT INTO newer.migrations (part, number) VALUES (0, 4)",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let error = newer.migrate().await.unwrap_err();
    assert!(
        error.chain().contains("an older build made it"),
        "{}",
        error.chain()
    );

    let nobody = CassandraStore::connect("cassandra://127.0.0.1:1/k")
        .await
        .err()
        .unwrap();
    assert!(
        nobody.is_retryable() && nobody.chain().contains("127.0.0.1:1"),
        "{}",
        nobody.chain()
    );
}

/// Two processes that migrate a new keyspace at once: one does, the other is told or finds it done, and all of it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_migrates_at_a_time() {
    let url = format!("cassandra://{}/raced?replication=1", node());
    let stores = [
        CassandraStore::connect(&url).await.unwrap(),
        CassandraStore::connect(&url).await.unwrap(),
    ];
    let (one, two) = tokio::join!(stores[0].migrate(), stores[1].migrate());
    for outcome in [one, two] {
        match outcome {
            Ok(status) => assert!(status.is_current()),
            Err(error) => assert!(error.is_retryable(), "{}", error.chain()),
        }
    }
    let status = stores[0].migrate().await.unwrap();
    assert!(status.is_current(), "{status:?}");
    let raise = Decision::RaisePartition {
        partition: 0,
        epoch: Epoch(1),
        expected: Epoch(0),
    };
    assert_eq!(stores[1].decide(raise).await.unwrap(), Decided::Applied);
}

/// Three copies, one of them killed: what was answered is there, and deciding goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_nodes_one_may_be_killed() {
    let mut cluster = tokio::task::block_in_place(|| Cassandra::start(3)).unwrap();
    let url = format!("cassandra://{}/three?replication=3", cluster.contact_points());
    let store = CassandraStore::connect(&url).await.unwrap();
    // Nodes serve before they all have heard of each other.
    let mut tries = 0;
    while let Err(error) = store.migrate().await {
        tries += 1;
        assert!(error.is_retryable() && tries < 300, "{}", error.chain());
        tokio::time::sleep(PAUSE).await;
    }
    let put = |n| Decision::PutHead {
        head: facts::head(facts::job(n), 1),
        expected: None,
    };
    let mut tries = 0;
    for n in 0..20 {
        if n == 10 {
            tokio::task::block_in_place(|| cluster.node(2).unwrap().kill()).unwrap();
        }
        // Every failure is one after which the same decision may be made again.
        while let Err(error) = store.decide(put(n)).await {
            tries += 1;
            assert!(error.is_retryable() && tries < 300, "{}", error.chain());
            tokio::time::sleep(PAUSE).await;
        }
    }
    for n in 0..20 {
        let head = store
            .read(Query::Head(facts::job(n)), Consistency::Serial)
            .await
            .unwrap();
        assert_eq!(head.answer, Answer::Head(Some(facts::head(facts::job(n), 1))));
    }
    let late = Decision::PutHead {
        head: facts::head(facts::job(0), 3),
        expected: Some(Version(2)),
    };
    assert!(matches!(store.decide(late).await.unwrap(), Decided::Conflict(_)));
}
