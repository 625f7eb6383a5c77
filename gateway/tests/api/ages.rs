//! How old what is shown of a silent cluster is: endpoints, counts and the health itself, whatever the clocks
//! of others say.

use crate::http::Answer;
use crate::log::place;
use crate::status::{Leader, holds, until};
use crate::world::{HELLO, World};
use echelon_core_model::cluster::{Cluster, ClusterState, Heartbeat};
use echelon_core_model::health::{ClusterHealth, Health, HealthCause, ShardSigns};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{JobState, Progress};
use echelon_core_model::store::{self, Batch, Decision, Stamp, Write};
use echelon_core_model::{ClusterId, Epoch, GroupName, JobId, RunState, Span, Timestamp};
use echelon_io_membership::Role;
use serde_json::Value;

/// The cluster of [`place`], which is called `east`.
fn cluster() -> ClusterId {
    ClusterId::new("c")
}

/// Commits one write of its owner's first epoch.
pub async fn commit(world: &World, owner: store::Role, sequence: u64, write: Write) {
    let batch = Batch {
        owner,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence,
        },
        writes: vec![write],
    };
    world.store.commit(batch).await.unwrap();
}

/// The resource manager judges the cluster, at a moment of its own clock.
async fn judge(world: &World, sequence: u64, health: Health, as_of: Timestamp) {
    let causes = match health {
        Health::CutOff => vec![HealthCause::ShardSilent],
        _ => Vec::new(),
    };
    let state = ClusterState {
        cluster: cluster(),
        health: ClusterHealth {
            health,
            causes,
            as_of,
            ..ClusterHealth::default()
        },
        reported: None,
    };
    let manager = store::Role::ResourceManager;
    commit(world, manager, sequence, Write::ClusterState(state)).await;
}

/// A heartbeat of a shard that hears its Mesos.
async fn beat(world: &World, sequence: u64, at: Timestamp) {
    let heartbeat = Heartbeat {
        cluster: cluster(),
        epoch: Epoch(1),
        at,
        signs: ShardSigns {
            subscribed: true,
            event_age: Some(Span::ZERO),
            ..ShardSigns::default()
        },
        address: String::new(),
        trouble: None,
        loss: None,
        no_manager_since: None,
    };
    let shard = store::Role::Shard(cluster());
    commit(world, shard, sequence, Write::Heartbeat(heartbeat)).await;
}

async fn one_runs(world: &World, job: JobId) {
    let mut counts = Counts::default();
    counts.add(RunState::Running, 1);
    let progress = Progress {
        state: JobState::Running,
        groups: std::iter::once((GroupName::new("main"), counts)).collect(),
        ..Progress::waiting(job, Timestamp(1))
    };
    let manager = store::Role::ResourceManager;
    commit(world, manager, 1, Write::Progress(progress)).await;
}

async fn endpoint(world: &World) -> Value {
    let listed = world.get("/v1/jobs/hello/endpoints").await;
    let all = listed.json()["endpoints"].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{}", listed.body);
    all[0].clone()
}

#[tokio::test]
async fn endpoints_and_counts_of_a_silent_cluster_state_their_age_everywhere() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    place(&world, job, "http://127.0.0.1:1".to_owned()).await;
    one_runs(&world, job).await;
    judge(&world, 2, Health::Healthy, Timestamp(1)).await;
    // The gateway sees the heartbeat change, whose time is long past by every clock.
    assert_eq!(world.get("/v1/clusters").await.status, 200);
    beat(&world, 2, Timestamp(2)).await;
    let fresh = endpoint(&world).await;
    assert_eq!(
        (&fresh["cluster"], &fresh["clusterHealth"]),
        (&"east".into(), &"HEALTH_HEALTHY".into())
    );
    assert_ne!(fresh["stale"], Value::Bool(true), "{fresh}");
    assert!(fresh["age"].is_string(), "{fresh}");
    let listed = world.get("/v1/jobs").await.json();
    assert!(
        listed["jobs"][0]["parts"].as_array().is_none_or(Vec::is_empty),
        "{listed}"
    );

    judge(&world, 3, Health::CutOff, Timestamp(2)).await;
    let silent = endpoint(&world).await;
    assert_eq!(
        (&silent["stale"], &silent["clusterHealth"]),
        (&true.into(), &"HEALTH_CUT_OFF".into())
    );
    let why = "its cluster east is cut-off: neither its shard's stream nor its heartbeats are read";
    assert_eq!(silent["staleReason"], why);
    let listed = world.get("/v1/jobs").await.json();
    let part = &listed["jobs"][0]["parts"][0];
    assert_eq!((&part["cluster"], &part["stale"]), (&"east".into(), &true.into()));
    assert_eq!(part["instances"], "1", "{part}");
    let targets = world.get("/http_sd/jobs/hello").await;
    assert_eq!(targets.status, 200);
    for path in [
        "/jobs",
        "/jobs/hello",
        "/jobs/hello/main/0",
        "/v1/jobs/hello:explain",
    ] {
        let shown = world.get(path).await.body;
        assert!(shown.contains("unconfirmed for "), "{path}: {shown}");
    }
}

#[tokio::test]
async fn a_health_is_confirmed_by_its_changes_whatever_the_clocks_say() {
    let world = World::start().await;
    let _manager = Leader::start(&world, Role::ResourceManager, 3).await;
    let leads = |answer: &Answer| holds(answer, "leader of resource-manager") == Some(true);
    until(&world, "/readyz", leads).await;
    let added = Cluster {
        mesos: "http://127.0.0.1:1".to_owned(),
        ..Cluster::new(cluster(), "east")
    };
    let decision = Decision::PutCluster {
        cluster: added,
        expected: None,
    };
    world.store.decide(decision).await.unwrap();
    let unconfirmed = async || {
        let listed = world.get("/v1/clusters").await.json();
        listed["clusters"][0]["healthUnconfirmedSince"].clone()
    };
    // Its clock is decades behind, and this gateway has not seen the row change yet.
    judge(&world, 1, Health::Healthy, Timestamp(1_000)).await;
    assert!(unconfirmed().await.is_string());
    judge(&world, 2, Health::Healthy, Timestamp(6_000)).await;
    assert_eq!(unconfirmed().await, Value::Null);
    // The next leader's clock is ahead.
    judge(&world, 3, Health::Healthy, Timestamp(1 << 42)).await;
    assert_eq!(unconfirmed().await, Value::Null);
}
