//! Host pools: made, planned, moved to, taken back and deleted by JSON.

use crate::world::World;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::host_pool::HostPlace;
use echelon_core_model::store::{Batch, Decision, Role, ShardRow, Stamp, Write};
use echelon_core_model::{ClusterId, Epoch, HostId, HostPoolName, Resources, Timestamp};
use std::collections::BTreeMap;

pub fn host(id: &str, tasks: u32) -> Host {
    Host {
        id: HostId::new(id),
        hostname: format!("{id}.example"),
        address: String::new(),
        capacity: Resources::ZERO,
        used: Resources::ZERO,
        tasks,
        attributes: BTreeMap::new(),
        reachable: true,
        seen_at: Timestamp(1),
        maintenance: None,
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: HostPlace::default(),
    }
}

/// What the shard of the cluster writes next.
async fn writes(world: &World, sequence: u64, writes: Vec<Write>) {
    let batch = Batch {
        owner: Role::Shard(ClusterId::new("c")),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence,
        },
        writes,
    };
    world.store.commit(batch).await.unwrap();
}

/// Two hosts, of which the second has work.
async fn start() -> World {
    let world = World::start().await;
    let cluster = Cluster {
        mesos: "http://127.0.0.1:1".into(),
        ..Cluster::new(ClusterId::new("c"), "east")
    };
    let add = Decision::PutCluster {
        cluster,
        expected: None,
    };
    world.store.decide(add).await.unwrap();
    let hosts = [host("h0", 0), host("h1", 3)].map(Write::Host);
    writes(&world, 1, hosts.to_vec()).await;
    world
}

const POOLS: &str = "/v1/clusters/east/hostPools";

#[tokio::test]
async fn hosts_are_moved_by_plan_and_back() {
    let world = start().await;
    let made = world.change("POST", POOLS, r#"{"hostPool": "gpu"}"#).await;
    assert_eq!(
        made.json()["hostPool"]["name"],
        "clusters/c/hostPools/gpu",
        "{}",
        made.body
    );
    let wish = r#"{"from": "default", "to": "gpu", "count": 1}"#;
    let plan = world
        .change("POST", "/v1/clusters/east/hosts:planMoves", wish)
        .await
        .json();
    assert_eq!(plan["hosts"][0]["host"]["hostname"], "h0.example");
    assert_eq!(plan["hosts"][0]["why"], "nothing runs there");
    assert_eq!(plan["leftOut"][0]["hostnames"][0], "h1.example");
    let wish = r#"{"to": "gpu", "hosts": ["h0.example"], "batchFor": "60s"}"#;
    for _ in 0..2 {
        let moved = world
            .change("POST", "/v1/clusters/east/hosts:move", wish)
            .await
            .json();
        assert_eq!(moved["hosts"][0]["move"]["to"], "gpu");
        assert_eq!(moved["hosts"][0]["hostPool"], "default");
    }
    let shown = world.get("/v1/clusters/east/hosts/h0").await.json();
    assert_eq!(shown["move"]["to"], "gpu");
    let all = world.get(POOLS).await.json();
    assert_eq!(all["hostPools"][0]["leaving"], 1);
    assert_eq!(all["hostPools"][1]["coming"], 1);
    let undo = r#"{"to": "gpu"}"#;
    let undone = world
        .change("POST", "/v1/clusters/east/hosts:undoMoves", undo)
        .await
        .json();
    assert_eq!(undone["hosts"][0]["hostname"], "h0.example");
    let shown = world.get("/v1/clusters/east/hosts/h0").await.json();
    assert!(shown["move"].is_null(), "{shown}");
    assert_eq!(
        world.change("DELETE", &format!("{POOLS}/gpu"), "").await.status,
        200
    );
    assert_eq!(
        world.get(POOLS).await.json()["hostPools"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_host_pool_in_use_and_one_that_is_not_there_are_told() {
    let world = start().await;
    world.change("POST", POOLS, r#"{"hostPool": "gpu"}"#).await;
    let row = ShardRow {
        host_pools: [("h1.example".to_owned(), HostPoolName::new("gpu"))].into(),
        ..ShardRow::default()
    };
    writes(&world, 2, row.writes()).await;
    let all = world.get(POOLS).await.json();
    assert_eq!(
        (&all["hostPools"][1]["hosts"], &all["hostPools"][1]["tasks"]),
        (&1.into(), &3.into())
    );
    for pool in ["gpu", "default"] {
        let kept = world.change("DELETE", &format!("{POOLS}/{pool}"), "").await;
        assert_eq!((kept.status, kept.reason().as_str()), (400, "HOST_POOL_IN_USE"));
    }
    let nowhere = r#"{"to": "none", "hosts": ["h0"]}"#;
    let told = world
        .change("POST", "/v1/clusters/east/hosts:move", nowhere)
        .await;
    assert_eq!(
        (told.status, told.reason().as_str()),
        (404, "HOST_POOL_NOT_FOUND")
    );
    let wrong = world.change("POST", POOLS, r#"{"hostPool": "GPU!"}"#).await;
    assert_eq!(wrong.fields(), ["host_pool"]);
}
