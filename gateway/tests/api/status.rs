//! What answers say while leaders are away, and the status of the whole federation: leaders that answer as
//! told, found through membership.

use crate::http::Answer;
use crate::limits::Hanging;
use crate::world::{HELLO, MEMBER, World};
use echelon_core_model::cluster::{Cluster, ClusterState, ReportedCapacity};
use echelon_core_model::health::{ClusterHealth, Health};
use echelon_core_model::resources::Resources;
use echelon_core_model::role_state::{RoleAlarm, RoleStanding, RoleState, ServerContact};
use echelon_core_model::store::{self, Batch, Decision, Stamp, Write};
use echelon_core_model::{ClusterId, Epoch, Timestamp};
use echelon_io_changes::{Publisher, change_service};
use echelon_io_membership::{Candidacy, Member, Role, Standing};
use echelon_io_storage::Store;
use echelon_proto::role::role_service;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;

/// An absence is told after 3 s; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process in a role that answers as it is told.
pub(crate) struct Leader {
    state: watch::Sender<RoleState>,
    candidacy: Candidacy,
    /// What it tells gateways.
    pub(crate) changed: Publisher,
}

impl Leader {
    pub(crate) async fn start(world: &World, role: Role, epoch: u64) -> Self {
        let leader = Self::elected(world, &role, epoch).await;
        leader.candidacy.publish(Epoch(epoch)).await.unwrap();
        leader
    }

    /// One that has not published its epoch.
    async fn elected(world: &World, role: &Role, epoch: u64) -> Self {
        let state = watch::Sender::new(RoleState {
            build: "1.2.3 (commit abc)".to_owned(),
            standing: RoleStanding::Leader,
            epoch: Epoch(epoch),
            membership: ServerContact::Connected,
            storage: ServerContact::Connected,
            ..RoleState::default()
        });
        let told = state.subscribe();
        let changed = Publisher::default();
        changed.lead(Some(Epoch(epoch)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = tonic::transport::Server::builder()
            .add_service(role_service(move || told.borrow().clone()))
            .add_service(change_service(changed.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        let member = Member {
            id: format!("{role} {address}"),
            address,
        };
        let candidacy = world.membership.campaign(role.clone(), member).await.unwrap();
        let mut standing = candidacy.watch();
        standing
            .wait_for(|s| matches!(s, Standing::Leader(_)))
            .await
            .unwrap();
        Self {
            state,
            candidacy,
            changed,
        }
    }

    fn stands(&self, standing: RoleStanding) {
        self.state.send_modify(|state| state.standing = standing);
    }
}

/// Asks for a path until the answer is as expected.
pub(crate) async fn until(world: &World, path: &str, expected: impl Fn(&Answer) -> bool) -> Answer {
    let began = Instant::now();
    loop {
        let answer = world.get(path).await;
        if expected(&answer) {
            return answer;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{path}: {}\n{}",
            answer.head,
            answer.body
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn stale(answer: &Answer) -> Option<&str> {
    let lines = answer.head.lines();
    lines
        .filter_map(|line| line.strip_prefix("echelon-stale: "))
        .next()
}

/// The value of a condition of `/readyz`: whether it holds.
pub(crate) fn holds(answer: &Answer, name: &str) -> Option<bool> {
    let report = answer.json();
    let all = report["conditions"].as_array().unwrap().clone();
    let found = all.into_iter().find(|condition| condition["name"] == name)?;
    found["ready"].as_bool()
}

async fn add_east(storage: &dyn Store) {
    let east = ClusterId::new("east");
    let cluster = Cluster {
        mesos: "m:5050".to_owned(),
        ..Cluster::new(east.clone(), "east")
    };
    let decision = Decision::PutCluster {
        cluster,
        expected: None,
    };
    storage.decide(decision).await.unwrap();
    let state = ClusterState {
        cluster: east,
        health: ClusterHealth {
            health: Health::Healthy,
            since: Timestamp(1_000),
            // A resource manager whose clock is ahead has confirmed it.
            as_of: Timestamp(1 << 42),
            ..ClusterHealth::default()
        },
        reported: Some(ReportedCapacity {
            total: Resources::ZERO,
            used: Resources::ZERO,
            hosts: 3,
            sharing: echelon_core_model::sharing::Sharing::default(),
            largest_host: Resources {
                cpus: 4_000,
                memory: 4_096,
                disk: 4_096,
                gpus: 0,
            },
        }),
    };
    let batch = Batch {
        owner: store::Role::ResourceManager,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1,
        },
        writes: vec![Write::ClusterState(state)],
    };
    storage.commit(batch).await.unwrap();
}

#[tokio::test]
async fn every_answer_states_its_age_while_no_resource_manager_answers() {
    let world = World::start().await;
    add_east(world.store.as_ref()).await;
    let manager = Leader::start(&world, Role::ResourceManager, 3).await;
    let _shard = Leader::start(&world, Role::Shard(ClusterId::new("east")), 5).await;
    let all_there = |answer: &Answer| {
        holds(answer, "leader of resource-manager") == Some(true)
            && holds(answer, "leader of shard east") == Some(true)
    };
    until(&world, "/readyz", all_there).await;
    let job = world.change("POST", "/v1/jobs", HELLO).await.json();
    let path = format!("/v1/{}", job["name"].as_str().unwrap());
    let fresh = world.get("/v1/clusters").await;
    assert_eq!(
        (stale(&fresh), &fresh.json()["clusters"][0]["health"]),
        (None, &"HEALTH_HEALTHY".into())
    );
    assert_eq!(world.get(&path).await.json()["staleSince"], Value::Null);

    // It answers, and says that it cannot tell whether it still leads.
    manager.stands(RoleStanding::Suspended);
    let away = until(&world, "/v1/clusters", |answer| stale(answer).is_some()).await;
    let said = stale(&away).unwrap();
    assert!(said.starts_with("resource-manager since 20"), "{said}");
    let cluster = &away.json()["clusters"][0];
    assert_eq!(cluster["health"], "HEALTH_HEALTHY");
    let since = cluster["healthUnconfirmedSince"].as_str().unwrap();
    assert!(since.starts_with("20"), "{since}");
    for (path, field) in [
        (path.clone(), "/staleSince"),
        ("/v1/jobs".to_owned(), "/jobs/0/staleSince"),
        (format!("{path}:explain"), "/job/staleSince"),
    ] {
        let answer = world.get(&path).await;
        assert!(stale(&answer).is_some(), "{path}: {}", answer.head);
        let found = answer.json().pointer(field).cloned().unwrap_or_default();
        assert!(found.is_string(), "{path}: {}", answer.body);
    }
    let page = world.get("/clusters").await.body;
    assert!(
        page.contains("No leader answers: resource-manager since"),
        "{page}"
    );
    assert!(
        page.contains("healthy") && page.contains("unconfirmed since"),
        "{page}"
    );
    let ready = world.get("/readyz").await;
    assert_eq!(
        (ready.status, holds(&ready, "leader of resource-manager")),
        (200, Some(false))
    );
    let metrics = world.get("/metrics").await.body;
    let absent = r#"echelon_gateway_leader_absent{of="resource-manager",role="gateway"} 1"#;
    assert!(metrics.contains(absent), "{metrics}");

    manager.stands(RoleStanding::Leader);
    let back = until(&world, "/v1/clusters", |answer| stale(answer).is_none()).await;
    let cluster = &back.json()["clusters"][0];
    assert_eq!(cluster["healthUnconfirmedSince"], Value::Null);
    assert_eq!(world.get(&path).await.json()["staleSince"], Value::Null);
}

/// A process that was elected and takes no epoch, since storage is behind, publishes nothing.
#[tokio::test]
async fn a_process_that_is_frozen_before_it_leads_is_named_with_the_way_out() {
    let world = World::start().await;
    add_east(world.store.as_ref()).await;
    let why = "membership has seen write 9 of epoch 4";
    let mut kept = Vec::new();
    for role in [Role::ResourceManager, Role::Shard(ClusterId::new("east"))] {
        let frozen = Leader::elected(&world, &role, 0).await;
        frozen.state.send_modify(|state| {
            state.standing = RoleStanding::Frozen;
            state.frozen = why.to_owned();
        });
        kept.push(frozen);
    }
    let way_out = "(frozen: run `echelon storage resume`)";
    let listed = until(&world, "/v1/clusters", |answer| {
        stale(answer).is_some_and(|told| told.matches(way_out).count() == 2)
    })
    .await;
    let trouble = listed.json()["clusters"][0]["trouble"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(trouble, format!("frozen, run `echelon storage resume`: {why}"));
    let jobs = world.get("/v1/jobs").await;
    assert!(
        stale(&jobs).is_some_and(|told| told.contains(way_out)),
        "{}",
        jobs.head
    );
    let status = world.get("/v1/status").await.json();
    let reason = status["roles"][1]["absentReason"].as_str().unwrap();
    assert!(
        reason.contains("is frozen, run `echelon storage resume`") && reason.contains(why),
        "{reason}"
    );
    let alarms = status["alarms"].to_string();
    assert!(
        alarms.contains(why) && alarms.contains("echelon storage resume"),
        "{alarms}"
    );
}

/// A leader that found while it led that storage is behind answers still, and decides nothing.
#[tokio::test]
async fn a_leader_that_is_frozen_is_named_with_every_list() {
    let world = World::start().await;
    add_east(world.store.as_ref()).await;
    let _manager = Leader::start(&world, Role::ResourceManager, 3).await;
    let shard = Leader::start(&world, Role::Shard(ClusterId::new("east")), 5).await;
    shard.state.send_modify(|state| {
        state.standing = RoleStanding::Frozen;
        state.frozen = "task x is newer than storage".to_owned();
    });
    let jobs = until(&world, "/v1/jobs", |answer| {
        stale(answer).is_some_and(|told| told.contains("shard east since"))
    })
    .await;
    let told = stale(&jobs).unwrap();
    assert!(
        told.contains("(frozen: run `echelon storage resume`)") && !told.contains("resource-manager"),
        "{told}"
    );
}

#[tokio::test]
async fn the_status_shows_every_role_and_what_is_open() {
    let world = World::start().await;
    add_east(world.store.as_ref()).await;
    let manager = Leader::start(&world, Role::ResourceManager, 3).await;
    let shard = Leader::start(&world, Role::Shard(ClusterId::new("east")), 5).await;
    let alarm = RoleAlarm {
        summary: "job x is set aside".to_owned(),
        command: "echelon job get x".to_owned(),
    };
    manager.state.send_modify(|state| state.alarms.push(alarm));
    shard.state.send_modify(|state| {
        state.standing = RoleStanding::Frozen;
        state.storage = ServerContact::Silent {
            since: Timestamp(1_000),
            reason: "no answer for 3 s".to_owned(),
        };
    });
    let shown = until(&world, "/v1/status", |answer| {
        answer.json()["roles"]
            .as_array()
            .is_some_and(|roles| roles.len() == 3)
    })
    .await
    .json();
    let role = |place: usize| {
        let role = &shown["roles"][place];
        let process = &role["processes"][0];
        (
            role["role"].clone(),
            process["standing"].clone(),
            process["epoch"].clone(),
        )
    };
    assert_eq!(role(0).1, "STANDING_SERVING", "{shown:#}");
    assert_eq!(
        role(1),
        ("resource-manager".into(), "STANDING_LEADER".into(), "3".into())
    );
    assert_eq!(role(2), ("shard".into(), "STANDING_FROZEN".into(), "5".into()));
    let process = &shown["roles"][2]["processes"][0];
    assert_eq!(process["build"], "1.2.3 (commit abc)");
    assert_eq!(process["membership"]["reach"], "REACH_CONNECTED");
    assert_eq!(process["storage"]["reach"], "REACH_SILENT");
    assert_eq!(shown["clusters"][0]["displayName"], "east");
    let alarms = shown["alarms"].as_array().unwrap();
    let commands: Vec<_> = alarms
        .iter()
        .filter_map(|alarm| alarm["command"].as_str())
        .collect();
    assert_eq!(
        commands,
        ["echelon doctor", "echelon storage resume", "echelon job get x"]
    );
}

#[tokio::test]
async fn the_status_answers_while_storage_hangs_and_membership_is_away() {
    let store = Hanging::new(false);
    let world = World::over(Arc::clone(&store) as Arc<dyn Store>, |_| {}).await;
    world.until_ready().await;
    let _manager = Leader::start(&world, Role::ResourceManager, 3).await;
    let leads = |answer: &Answer| holds(answer, "leader of resource-manager") == Some(true);
    until(&world, "/readyz", leads).await;
    store.hangs.send_replace(true);
    world.hub.cut(MEMBER);
    let shown = world.get("/v1/status").await;
    assert_eq!(shown.status, 200, "{}", shown.body);
    let shown = shown.json();
    let unknown = shown["clustersUnknown"].as_str().unwrap();
    assert!(unknown.contains("storage"), "{unknown}");
    let role = &shown["roles"][1];
    let unknown = role["unknown"].as_str().unwrap();
    assert!(unknown.contains("membership servers do not answer"), "{unknown}");
    // The leader that was known last still answers.
    assert_eq!(role["processes"][0]["standing"], "STANDING_LEADER", "{shown:#}");
    store.hangs.send_replace(false);
}

#[tokio::test]
async fn the_status_shows_what_other_gateways_see() {
    let world = World::start().await;
    let store = Hanging::new(false);
    let other = world.beside("other", Arc::clone(&store) as Arc<dyn Store>).await;
    other.until_ready().await;
    let at = format!("http://{}", other.address);
    let seen = |answer: &Answer| {
        let shown = answer.json();
        let gateways = shown["roles"][0]["processes"].as_array()?.clone();
        gateways.into_iter().find(|process| process["address"] == *at)
    };
    let reach = |answer: &Answer, of: &str| {
        let process = seen(answer)?;
        process[of]["reach"].as_str().map(str::to_owned)
    };
    let connected = |answer: &Answer| {
        ["membership", "storage"]
            .iter()
            .all(|of| reach(answer, of).as_deref() == Some("REACH_CONNECTED"))
    };
    let answer = until(&world, "/v1/status", connected).await;
    let process = seen(&answer).unwrap();
    assert_eq!(
        (&process["standing"], &process["build"]),
        (&"STANDING_SERVING".into(), &"test".into())
    );

    store.hangs.send_replace(true);
    let silent = |answer: &Answer| {
        let alarms = answer.json()["alarms"].to_string();
        alarms.contains(&format!("storage does not answer gateway at {at}"))
    };
    until(&world, "/v1/status", silent).await;
    store.hangs.send_replace(false);
}

#[tokio::test]
async fn a_job_that_fits_nowhere_is_accepted_with_a_warning() {
    let world = World::start().await;
    let large = HELLO.replace("100", "64000");
    let unknown = world.change("POST", "/v1/jobs", &large).await.json();
    assert!(unknown["name"].is_string());
    assert_eq!(unknown["warnings"], Value::Null, "nothing is known of any host");
    add_east(world.store.as_ref()).await;
    let warned = world
        .change(
            "POST",
            "/v1/jobs",
            &large.replace("hello\", \"kind", "other\", \"kind"),
        )
        .await
        .json();
    assert!(warned["name"].is_string());
    assert_eq!(
        warned["warnings"][0],
        "group `main` fits on no host and waits until one can hold it: no cluster has room for it: cpus needs 64, has at most 4 \
         (east: the largest host has cpus 4, memory 4096MiB, disk 4096MiB)"
    );
}
