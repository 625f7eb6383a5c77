//! A gateway on a free port over a storage in memory.

use crate::http::{Answer, ask};
use echelon_gateway::{Config, serve};
use echelon_io_membership::{Membership, Timeouts, in_process::Hub};
use echelon_io_process::Shutdown;
use echelon_io_process::http::Admin;
use echelon_io_storage::{MemoryStore, Store};
use echelon_proto::echelon::v1;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;

/// The gateway's connection to the membership.
pub const MEMBER: &str = "test";

pub struct World {
    pub address: SocketAddr,
    pub store: Arc<dyn Store>,
    pub membership: Arc<dyn Membership>,
    /// Where the gateway's connection has this name: [`MEMBER`].
    pub hub: Hub,
    pub shutdown: Shutdown,
}

impl World {
    pub async fn start() -> Self {
        let world = Self::over(Arc::new(MemoryStore::new()), |_| {}).await;
        world.until_ready().await;
        world
    }

    /// Over a storage of the test's, which may not answer yet.
    pub async fn over(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        Self::join(store, Hub::new(Timeouts::default()), MEMBER, change).await
    }

    /// A second gateway with a connection of its own to the same membership servers.
    pub async fn beside(&self, name: &str, store: Arc<dyn Store>) -> Self {
        Self::join(store, self.hub.clone(), name, |_| {}).await
    }

    async fn join(store: Arc<dyn Store>, hub: Hub, name: &str, change: impl FnOnce(&mut Config)) -> Self {
        let membership: Arc<dyn Membership> = Arc::new(hub.connect(name));
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let mut config = Config::loopback(0, "test");
        // No leader is heard here.
        config.watch_round = Duration::from_millis(20);
        change(&mut config);
        let running = serve(
            config,
            Arc::clone(&store),
            Arc::clone(&membership),
            shutdown.clone(),
            Admin::default(),
        )
        .await
        .unwrap();
        Self {
            address: running.address,
            store,
            membership,
            hub,
            shutdown,
        }
    }

    /// The first pool is made soon after the start; readiness says when.
    pub async fn until_ready(&self) {
        while self.get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        ask(self.address, "GET", path, &[], "").await
    }

    pub async fn change(&self, verb: &str, path: &str, body: &str) -> Answer {
        let json = [("content-type", "application/json")];
        ask(self.address, verb, path, &json, body).await
    }
}

/// The smallest job.
pub fn hello() -> v1::JobSpec {
    v1::JobSpec {
        name: "hello".into(),
        kind: v1::JobKind::Batch.into(),
        groups: vec![v1::GroupSpec {
            instances: 8,
            command: "echo hello".into(),
            resources: Some(v1::Resources {
                cpus_milli: 100,
                memory_mib: 32,
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The same as JSON.
pub const HELLO: &str = r#"{"spec": {"name": "hello", "kind": "batch", "groups": [
    {"instances": 8, "command": "echo hello", "resources": {"cpusMilli": 100, "memoryMib": 32}}]}}"#;
