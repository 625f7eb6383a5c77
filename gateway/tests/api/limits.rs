//! A storage that hangs, more requests than may be in hand, and the end in two steps.

use crate::http::ask;
use crate::world::World;
use async_trait::async_trait;
use echelon_core_model::store::Reading;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query};
use echelon_gateway::Config;
use echelon_io_process::shutdown::End;
use echelon_io_storage::{Durability, MemoryStore, Status, Store, StoreError};
use echelon_proto::echelon::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;
use v1::job_service_client::JobServiceClient;

/// A storage in memory that answers nothing while it hangs.
pub struct Hanging {
    inner: MemoryStore,
    pub hangs: watch::Sender<bool>,
    /// Reads of lists of jobs that were begun.
    lists: watch::Sender<usize>,
}

impl Hanging {
    pub fn new(hangs: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            hangs: watch::Sender::new(hangs),
            lists: watch::Sender::new(0),
        })
    }

    async fn pass(&self) {
        self.hangs.subscribe().wait_for(|hangs| !*hangs).await.unwrap();
    }
}

#[async_trait]
impl Store for Hanging {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        // Each list of jobs begins with this read; the gateway itself reads pools to decide by.
        let lists = matches!(query, Query::Pools) && consistency == Consistency::Quorum;
        if lists && *self.hangs.borrow() {
            self.lists.send_modify(|n| *n += 1);
        }
        self.pass().await;
        self.inner.read(query, consistency).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        self.pass().await;
        self.inner.decide(decision).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.pass().await;
        self.inner.commit(batch).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.inner.status().await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.inner.migrate().await
    }

    async fn durability(&self) -> Durability {
        self.inner.durability().await
    }
}

async fn world(store: &Arc<Hanging>, change: impl FnOnce(&mut Config)) -> World {
    World::over(Arc::clone(store) as Arc<dyn Store>, change).await
}

async fn health(world: &World, service: &str) -> ServingStatus {
    let mut client = HealthClient::new(world.channel().await);
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    client.check(request).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn a_request_ends_in_its_time_when_storage_hangs() {
    let store = Hanging::new(false);
    let world = world(&store, |_| {}).await;
    world.until_ready().await;
    store.hangs.send_replace(true);
    for path in ["/v1/jobs", "/v1/jobs/hello", "/v1/pools"] {
        let answer = ask(world.address, "GET", path, &[("grpc-timeout", "100m")], "").await;
        assert_eq!(answer.status, 503, "{path}: {}", answer.body);
        assert!(answer.body.contains("STORAGE_UNAVAILABLE"), "{}", answer.body);
        assert!(answer.body.contains("google.rpc.RetryInfo"), "{}", answer.body);
    }
    let page = ask(world.address, "GET", "/jobs", &[("grpc-timeout", "100m")], "").await;
    assert_eq!(page.status, 503);
}

#[tokio::test]
async fn a_request_that_says_no_time_has_the_usual_one() {
    let store = Hanging::new(false);
    let world = world(&store, |config| config.request_time = Duration::from_millis(100)).await;
    world.until_ready().await;
    store.hangs.send_replace(true);
    assert_eq!(world.get("/v1/jobs").await.status, 503);
}

#[tokio::test]
async fn more_requests_than_may_be_in_hand_are_refused_at_once() {
    let store = Hanging::new(false);
    let world = Arc::new(world(&store, |config| config.most_requests = 2).await);
    world.until_ready().await;
    store.hangs.send_replace(true);
    let hanging: Vec<_> = (0..2)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.get("/v1/jobs").await.status })
        })
        .collect();
    store.lists.subscribe().wait_for(|n| *n >= 2).await.unwrap();
    for path in ["/v1/jobs", "/v1/pools", "/jobs"] {
        let refused = world.get(path).await;
        assert_eq!(refused.status, 429, "{path}: {}", refused.body);
    }
    let refused = world.get("/v1/jobs").await.body;
    assert!(
        refused.contains("TOO_MANY_REQUESTS") && refused.contains("google.rpc.RetryInfo"),
        "{refused}"
    );
    let mut jobs = JobServiceClient::new(world.channel().await);
    let refused = jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let details = refused.get_error_details();
    assert!(details.retry_info().is_some(), "{details:?}");
    // What needs no storage answers.
    assert_eq!(world.get("/healthz").await.status, 200);
    store.hangs.send_replace(false);
    for request in hanging {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(world.get("/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn the_health_of_grpc_is_the_readiness() {
    let store = Hanging::new(true);
    let world = world(&store, |config| config.drain = Duration::from_secs(3600)).await;
    for service in ["", "echelon.v1.JobService", "echelon.v1.EventService"] {
        assert_eq!(
            health(&world, service).await,
            ServingStatus::NotServing,
            "{service}"
        );
    }
    store.hangs.send_replace(false);
    world.until_ready().await;
    while health(&world, "echelon.v1.JobService").await != ServingStatus::Serving {
        tokio::task::yield_now().await;
    }
    world.shutdown.begin();
    while health(&world, "").await != ServingStatus::NotServing {
        tokio::task::yield_now().await;
    }
    // It says that it ends, and serves on, over new connections too.
    let ready = world.get("/readyz").await;
    assert!(
        ready.status == 503 && ready.body.contains("this gateway ends"),
        "{}",
        ready.body
    );
    assert_eq!(world.get("/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn what_is_under_way_when_the_port_closes_is_answered() {
    let store = Hanging::new(false);
    let world = Arc::new(world(&store, |_| {}).await);
    world.until_ready().await;
    store.hangs.send_replace(true);
    let under_way = {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.get("/v1/jobs").await.status })
    };
    store.lists.subscribe().wait_for(|n| *n >= 1).await.unwrap();
    world.shutdown.begin();
    while tokio::net::TcpStream::connect(world.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    store.hangs.send_replace(false);
    assert_eq!(under_way.await.unwrap(), 200);
    assert_eq!(world.shutdown.finished().await, End::Drained);
}
