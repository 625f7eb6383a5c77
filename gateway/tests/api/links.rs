//! A resource manager and a shard that answer as told, found through membership.

use crate::ages::commit;
use crate::world::{HELLO, World, hello};
use echelon_core_model::cluster::ClusterState;
use echelon_core_model::health::{ClusterHealth, Health, HealthCause};
use echelon_core_model::job::{Progress, Waiting};
use echelon_core_model::store::{self, Write};
use echelon_core_model::{ClusterId, Epoch, GroupName, JobId, Reason, ReasonCode};
use echelon_io_membership::{Candidacy, Member, Role, Standing};
use echelon_proto::convert::Wire;
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::storage::v1 as stored;
use echelon_proto::echelon::v1;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use v1::job_service_client::JobServiceClient;
use wire::resource_manager_service_server::{ResourceManagerService, ResourceManagerServiceServer};

struct Manager {
    hints: mpsc::UnboundedSender<wire::HintRequest>,
    /// Whether it takes hints and never answers.
    hangs: bool,
}

#[tonic::async_trait]
impl ResourceManagerService for Manager {
    async fn hint(
        &self,
        request: Request<wire::HintRequest>,
    ) -> Result<Response<wire::HintResponse>, Status> {
        self.hints.send(request.into_inner()).unwrap();
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(wire::HintResponse {}))
    }

    async fn plan(
        &self,
        request: Request<wire::PlanRequest>,
    ) -> Result<Response<wire::PlanResponse>, Status> {
        let asked = request.into_inner().spec.unwrap();
        assert_eq!(asked.groups[0].name, "main", "defaults are filled in before");
        let plan = v1::PlanJobResponse {
            startable: 5,
            ..Default::default()
        };
        Ok(Response::new(wire::PlanResponse { plan: Some(plan) }))
    }

    /// Tells the tree that it was asked about: every pool is entitled to as many units as its path has letters.
    async fn describe_pools(
        &self,
        request: Request<wire::DescribePoolsRequest>,
    ) -> Result<Response<wire::DescribePoolsResponse>, Status> {
        let tree = request.into_inner().tree.unwrap_or_default();
        let figure = |p: &echelon_proto::echelon::storage::v1::Pool| v1::PoolFigure {
            pool: Some(v1::Pool {
                path: p.path.clone(),
                pool_id: p.id.clone(),
                ..v1::Pool::default()
            }),
            entitlement: Some(v1::Resources {
                cpus_milli: p.path.len() as u64,
                ..v1::Resources::default()
            }),
            ..v1::PoolFigure::default()
        };
        let figures = v1::PoolFigures {
            tree_version: 7,
            pools: tree.pools.iter().map(figure).collect(),
            ..v1::PoolFigures::default()
        };
        Ok(Response::new(wire::DescribePoolsResponse {
            figures: Some(figures),
        }))
    }

    async fn describe_admission(
        &self,
        request: Request<wire::DescribeAdmissionRequest>,
    ) -> Result<Response<wire::DescribeAdmissionResponse>, Status> {
        assert_eq!(request.into_inner().job.len(), 16);
        let fix = v1::VerifiedFix {
            text: "raise the limit".to_owned(),
            is_least: true,
            ..v1::VerifiedFix::default()
        };
        let admission = v1::JobAdmission {
            waiting: 3,
            outcome: v1::AdmissionOutcome::Fixes.into(),
            fixes: vec![fix],
            ..v1::JobAdmission::default()
        };
        Ok(Response::new(wire::DescribeAdmissionResponse {
            admission: Some(admission),
        }))
    }

    /// A cluster holds as many instances as its label says, and its shard reports.
    async fn describe_cluster_work(
        &self,
        request: Request<wire::DescribeClusterWorkRequest>,
    ) -> Result<Response<wire::DescribeClusterWorkResponse>, Status> {
        let asked = request.into_inner();
        let instances = asked.labels.get("instances").map_or(0, |n| n.parse().unwrap());
        let departure = match asked.desired_state() {
            stored::DesiredState::Removing if asked.lost => v1::Departure::GivenUp,
            _ if asked.lost => v1::Departure::Stays,
            stored::DesiredState::Removing => v1::Departure::Moves,
            _ => v1::Departure::None,
        };
        let group = v1::GroupWork {
            job_id: "not an id".into(),
            instances,
            departure: departure.into(),
            ..v1::GroupWork::default()
        };
        let work = v1::ClusterWork {
            reported: true,
            groups: vec![group],
            instances,
            given_up: if departure == v1::Departure::GivenUp {
                instances
            } else {
                0
            },
            ..v1::ClusterWork::default()
        };
        Ok(Response::new(wire::DescribeClusterWorkResponse {
            work: Some(work),
        }))
    }

    /// A job may have eight instances.
    async fn check_instances(
        &self,
        request: Request<wire::CheckInstancesRequest>,
    ) -> Result<Response<wire::CheckInstancesResponse>, Status> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let asked = request.into_inner();
        assert_eq!(asked.job.len(), 16);
        let exceeded = wire::ExceededInstanceLimit {
            pool: asked.pool,
            others: 100_000_000,
            limit: 100_000_008,
        };
        Ok(Response::new(wire::CheckInstancesResponse {
            exceeded: (asked.instances > 8).then_some(exceeded),
        }))
    }

    /// Of each job, that its instances wait for the pool's limit since the job was made.
    async fn describe_progress(
        &self,
        request: Request<wire::DescribeProgressRequest>,
    ) -> Result<Response<wire::DescribeProgressResponse>, Status> {
        let jobs = request.into_inner().jobs;
        let waiting = |id: &Vec<u8>| {
            let job = JobId(u128::from_be_bytes(id.as_slice().try_into().unwrap()));
            let since = job.created_at();
            let row = Progress {
                waiting: vec![Waiting {
                    group: GroupName::new("main"),
                    cluster: None,
                    reason: Reason::new(ReasonCode::PoolLimit).at("/default"),
                    count: 1,
                    since,
                }],
                ..Progress::waiting(job, since)
            };
            row.to_wire()
        };
        Ok(Response::new(wire::DescribeProgressResponse {
            progress: jobs.iter().map(waiting).collect(),
        }))
    }
}

async fn lead(world: &World) -> (mpsc::UnboundedReceiver<wire::HintRequest>, Candidacy) {
    lead_as(world, false).await
}

async fn lead_as(world: &World, hangs: bool) -> (mpsc::UnboundedReceiver<wire::HintRequest>, Candidacy) {
    let (hints, told) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder()
        .add_service(ResourceManagerServiceServer::new(Manager { hints, hangs }))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    let member = Member {
        id: "rm".into(),
        address,
    };
    let candidacy = world
        .membership
        .campaign(Role::ResourceManager, member)
        .await
        .unwrap();
    let mut standing = candidacy.watch();
    standing
        .wait_for(|s| matches!(s, Standing::Leader(_)))
        .await
        .unwrap();
    candidacy.publish(Epoch(1)).await.unwrap();
    (told, candidacy)
}

#[tokio::test]
async fn plans_come_from_the_resource_manager_and_changes_are_hinted() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    let ask = || v1::PlanJobRequest { spec: Some(hello()) };
    let nobody = jobs.plan_job(ask()).await.unwrap_err();
    assert_eq!(nobody.code(), tonic::Code::Unavailable);

    let (mut told, _candidacy) = lead(&world).await;
    let plan = jobs.plan_job(ask()).await.unwrap().into_inner();
    assert_eq!(
        (plan.startable, plan.spec.unwrap().pool.as_str()),
        (5, "/default")
    );
    let mut wrong = ask();
    wrong.spec.as_mut().unwrap().pool = "/nowhere".into();
    assert_eq!(
        jobs.plan_job(wrong).await.unwrap_err().code(),
        tonic::Code::InvalidArgument
    );

    world.change("POST", "/v1/jobs", HELLO).await;
    let hint = told.recv().await.unwrap();
    assert!(matches!(hint.changed, Some(wire::hint_request::Changed::Job(id)) if id.len() == 16));
    world.change("POST", "/v1/pools", r#"{"path": "/ml"}"#).await;
    let hint = told.recv().await.unwrap();
    assert!(matches!(
        hint.changed,
        Some(wire::hint_request::Changed::Pools(_))
    ));
}

#[tokio::test]
async fn what_a_change_of_a_cluster_means_comes_from_the_resource_managers_leader() {
    let world = World::start().await;
    let north = r#"{"displayName": "north", "labels": {"instances": "3"}}"#;
    assert_eq!(world.change("POST", "/v1/clusters", north).await.status, 200);
    let plan = |body: &'static str| world.change("POST", "/v1/clusters:plan", body);
    let removal = r#"{"cluster": {"name": "clusters/north", "desiredState": "CLUSTER_DESIRED_STATE_REMOVING"}, "updateMask": "desiredState"}"#;
    let alone = plan(removal).await;
    assert_eq!(
        (alone.status, alone.reason().as_str()),
        (503, "RESOURCE_MANAGER_UNAVAILABLE")
    );
    let removed = world.change("POST", "/v1/clusters/north:remove", "{}").await;
    assert_eq!(removed.status, 503, "nothing is removed unseen: {}", removed.body);

    let (_told, _candidacy) = lead(&world).await;
    let planned = plan(removal).await.json();
    assert_eq!(
        planned["cluster"]["desiredState"],
        "CLUSTER_DESIRED_STATE_REMOVING"
    );
    assert_eq!(planned["work"]["groups"][0]["departure"], "DEPARTURE_MOVES");
    let problem = planned["problems"][0].as_str().unwrap();
    assert!(
        problem.starts_with("3 instances are at cluster `north`"),
        "{problem}"
    );
    let refused = world.change("POST", "/v1/clusters/north:remove", "{}").await;
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (400, "CLUSTER_IN_USE"),
        "{}",
        refused.body
    );
    let same = world.get("/v1/clusters/north").await.json();
    assert_eq!(
        same["desiredState"], "CLUSTER_DESIRED_STATE_ACTIVE",
        "plans and refusals change nothing"
    );

    let lost = plan(r#"{"cluster": {"name": "clusters/north"}, "lost": true}"#)
        .await
        .json();
    assert_eq!(lost["work"]["groups"][0]["departure"], "DEPARTURE_STAYS");
    assert_eq!(lost.get("problems"), None);
    let both = r#"{"cluster": {"name": "clusters/north", "labels": {"a": "b"}}, "lost": true}"#;
    assert_eq!(plan(both).await.fields(), ["lost"]);

    let empty = r#"{"cluster": {"name": "clusters/north", "labels": {}}, "updateMask": "labels"}"#;
    let planned = plan(empty).await.json();
    assert_eq!(planned["cluster"].get("labels"), None);
    assert_eq!(planned.get("problems"), None);
    let new = plan(r#"{"cluster": {"displayName": "south"}}"#).await.json();
    assert_eq!(new["cluster"]["clusterId"], "south");
    assert_eq!(world.get("/v1/clusters/south").await.status, 404);
    let wrong = plan(r#"{"cluster": {"displayName": "South"}}"#).await;
    assert_eq!(wrong.fields(), ["cluster.display_name"]);
    let missing = plan(r#"{"cluster": {"name": "clusters/none"}}"#).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_lost_cluster_is_removed_without_its_shard_as_far_as_that_is_accepted() {
    let world = World::start().await;
    let (_told, _candidacy) = lead(&world).await;
    let north = r#"{"displayName": "north", "labels": {"instances": "3"}}"#;
    assert_eq!(world.change("POST", "/v1/clusters", north).await.status, 200);
    let remove = |body: &'static str| world.change("POST", "/v1/clusters/north:remove", body);
    let well = remove(r#"{"lost": true, "acceptedLoss": "3"}"#).await;
    assert_eq!((well.status, well.reason().as_str()), (400, "CLUSTER_IN_USE"));
    assert!(well.body.contains("is not lost"), "{}", well.body);

    let health = ClusterHealth {
        health: Health::Lost,
        causes: vec![HealthCause::ShardSilent],
        silence: 17,
        ..ClusterHealth::default()
    };
    let state = ClusterState {
        cluster: ClusterId::new("north"),
        health,
        reported: None,
    };
    let manager = store::Role::ResourceManager;
    commit(&world, manager, 1, Write::ClusterState(state)).await;
    let undeclared = remove(r#"{"lost": true, "acceptedLoss": "3"}"#).await;
    assert!(
        undeclared.body.contains("echelon cluster declare-lost north"),
        "{}",
        undeclared.body
    );
    let declared = world
        .change("POST", "/v1/clusters/north:declareLost", r#"{"silence": "17"}"#)
        .await;
    assert_eq!(declared.status, 200, "{}", declared.body);

    let plan = |body: &'static str| world.change("POST", "/v1/clusters:plan", body);
    let removal = r#"{"cluster": {"name": "clusters/north", "desiredState": "CLUSTER_DESIRED_STATE_REMOVING"}, "lost": true}"#;
    let planned = plan(removal).await.json();
    assert_eq!(planned["work"]["groups"][0]["departure"], "DEPARTURE_GIVEN_UP");
    let problem = planned["problems"][0].as_str().unwrap();
    assert!(problem.contains("`--accept-loss-of 3`"), "{problem}");
    let refused = remove(r#"{"lost": true, "acceptedLoss": "2"}"#).await;
    assert!(refused.body.contains("`--accept-loss-of 3`"), "{}", refused.body);
    let other = remove(r#"{"lost": true, "silence": "16", "acceptedLoss": "3"}"#).await;
    assert_eq!(other.reason(), "CLUSTER_NOT_SILENT");
    let same = world.get("/v1/clusters/north").await.json();
    assert_eq!(same["desiredState"], "CLUSTER_DESIRED_STATE_ACTIVE");

    // What is repeated changes nothing, also without a number.
    for body in [
        r#"{"lost": true, "silence": "17", "acceptedLoss": "3"}"#,
        r#"{"lost": true}"#,
    ] {
        let removed = remove(body).await;
        let row = removed.json();
        assert_eq!(
            (row["desiredState"].as_str(), row["removedAsLost"].as_bool()),
            (Some("CLUSTER_DESIRED_STATE_REMOVING"), Some(true)),
            "{}",
            removed.body
        );
    }
}

#[tokio::test]
async fn a_cluster_that_is_being_removed_has_no_way_back() {
    let world = World::start().await;
    let (_told, _candidacy) = lead(&world).await;
    world
        .change("POST", "/v1/clusters", r#"{"displayName": "north"}"#)
        .await;
    // The desired state alone removes nothing.
    let path = "/v1/clusters/north?updateMask=desiredState";
    for desired_state in ["CLUSTER_DESIRED_STATE_REMOVING", "CLUSTER_DESIRED_STATE_REMOVED"] {
        let body = format!(r#"{{"desiredState": "{desired_state}"}}"#);
        let refused = world.change("PATCH", path, &body).await;
        assert_eq!(refused.fields(), ["cluster.desired_state"], "{desired_state}");
    }
    let stale = world
        .change("POST", "/v1/clusters/north:remove", r#"{"etag": "99"}"#)
        .await;
    assert_eq!(stale.reason(), "ETAG_STALE");
    for _ in 0..2 {
        let removed = world.change("POST", "/v1/clusters/north:remove", "{}").await;
        assert_eq!(
            removed.json()["desiredState"],
            "CLUSTER_DESIRED_STATE_REMOVING",
            "{}",
            removed.body
        );
    }
    let back = world
        .change(
            "PATCH",
            path,
            r#"{"desiredState": "CLUSTER_DESIRED_STATE_ACTIVE"}"#,
        )
        .await;
    assert_eq!((back.status, back.reason().as_str()), (400, "CLUSTER_REMOVED"));
}

#[tokio::test]
async fn instances_of_a_job_are_checked_by_the_resource_managers_leader() {
    let world = World::start().await;
    let job = |name: &str, instances: u32| {
        HELLO.replacen("hello", name, 1).replacen(
            r#""instances": 8"#,
            &format!(r#""instances": {instances}"#),
            1,
        )
    };
    // Without a leader a job is taken in.
    assert_eq!(
        world.change("POST", "/v1/jobs", &job("first", 9)).await.status,
        200
    );

    let (_told, _candidacy) = lead(&world).await;
    assert_eq!(
        world.change("POST", "/v1/jobs", &job("second", 8)).await.status,
        200
    );
    let refused = world.change("POST", "/v1/jobs", &job("third", 9)).await;
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (400, "TOO_MANY_INSTANCES")
    );
    let said =
        "job `third` cannot have 9 instances: the other jobs of pool /default have 100000000 instances";
    assert!(refused.body.contains(said), "{}", refused.body);
    assert_eq!(world.get("/v1/jobs/third").await.status, 404);
    let scaled = world
        .change("POST", "/v1/jobs/second:scale", r#"{"instances": 9}"#)
        .await;
    assert_eq!(
        (scaled.status, scaled.reason().as_str()),
        (400, "TOO_MANY_INSTANCES")
    );
    let scaled = world
        .change("POST", "/v1/jobs/first:scale", r#"{"instances": 7}"#)
        .await;
    assert_eq!(scaled.status, 200);
}

#[tokio::test]
async fn a_resource_manager_that_hangs_keeps_no_job_out() {
    let world = World::start().await;
    let (_told, _candidacy) = lead_as(&world, true).await;
    let begun = std::time::Instant::now();
    assert_eq!(world.change("POST", "/v1/jobs", HELLO).await.status, 200);
    // It waits for three seconds.
    assert!(begun.elapsed() < std::time::Duration::from_secs(9));
}

/// Sent one after the other, each would wait for the time-out of the one before it.
#[tokio::test]
async fn what_would_admit_a_job_comes_from_the_resource_managers_leader() {
    let world = World::start().await;
    world.change("POST", "/v1/jobs", HELLO).await;
    let alone = world.get("/v1/jobs/hello:explain").await.json();
    assert_eq!(alone.get("admission"), None);
    let text = alone["noAdmission"].as_str().unwrap();
    assert!(
        text.starts_with("no resource manager answers, so it is not known what would admit the job"),
        "{text}"
    );
    let (_told, _candidacy) = lead(&world).await;
    let answer = world.get("/v1/jobs/hello:explain").await.json();
    assert_eq!(answer["admission"]["fixes"][0]["text"], "raise the limit");
    assert_eq!(answer["admission"]["outcome"], "ADMISSION_OUTCOME_FIXES");
    assert_eq!(answer.get("noAdmission"), None);
}

/// Storage has nothing of a job that only waits but its head and its spec.
#[tokio::test]
async fn why_a_job_waits_that_has_no_row_comes_from_the_resource_managers_leader() {
    let world = World::start().await;
    world.change("POST", "/v1/jobs", HELLO).await;
    let said = async || {
        let job = world.get("/v1/jobs/hello").await.json();
        let list = world.get("/v1/jobs").await.json();
        let explained = world.get("/v1/jobs/hello:explain").await.json();
        let instances = world.get("/v1/jobs/hello/instances").await.json();
        let page = world.get("/jobs/hello").await.body;
        let code = |waits: &Value| waits["reason"]["code"].as_str().map(str::to_owned);
        let codes = [
            code(&job["waiting"][0]),
            code(&list["jobs"][0]["waiting"][0]),
            code(&explained["waiting"][0]),
            code(&instances["instances"][0]),
        ];
        assert_eq!(job["state"], "JOB_STATE_WAITING", "{job}");
        (codes, page.contains("its pool's limit is reached"))
    };
    let (codes, on_page) = said().await;
    let none = || Some("NO_RESOURCE_MANAGER".to_owned());
    assert_eq!((codes, on_page), ([none(), None, none(), none()], false));
    let (_told, _candidacy) = lead(&world).await;
    let (codes, on_page) = said().await;
    let limit = || Some("POOL_LIMIT".to_owned());
    assert_eq!((codes, on_page), ([limit(), limit(), limit(), limit()], true));
}

#[tokio::test]
async fn a_resource_manager_that_hangs_holds_no_hint_up() {
    let world = World::start().await;
    let (mut told, _candidacy) = lead_as(&world, true).await;
    let changes = 12;
    for n in 0..changes {
        let pool = format!(r#"{{"path": "/p{n}"}}"#);
        world.change("POST", "/v1/pools", &pool).await;
    }
    let all_told = async {
        for _ in 0..changes {
            told.recv().await.unwrap();
        }
    };
    let within = std::time::Duration::from_secs(6);
    assert!(
        tokio::time::timeout(within, all_told).await.is_ok(),
        "hints wait for each other"
    );
}

#[tokio::test]
async fn figures_of_pools_come_from_the_resource_managers_leader() {
    let world = World::start().await;
    let nobody = world.get("/v1/pools:figures").await;
    assert_eq!(
        (nobody.status, nobody.reason().as_str()),
        (503, "RESOURCE_MANAGER_UNAVAILABLE")
    );
    assert!(nobody.body.contains("nobody can tell what pools are entitled to"));
    let (_told, _candidacy) = lead(&world).await;
    let figures = world.get("/v1/pools:figures").await.json();
    assert_eq!(figures["treeVersion"], "7");
    assert!(figures["asOf"].is_string(), "{figures}");
}

#[tokio::test]
async fn a_whole_tree_is_planned_with_who_gains_and_loses_and_applied() {
    let world = World::start().await;
    let tree = |only: bool, etag: &str| {
        format!(
            r#"{{"pools": [{{"pool": {{"path": "/default"}}}}, {{"pool": {{"path": "/ml"}}}}, {{"pool": {{"path": "/ml/x"}}}}],
                "validateOnly": {only}, "etag": "{etag}"}}"#
        )
    };
    let apply = |body: String| {
        let world = &world;
        async move { world.change("POST", "/v1/pools:apply", &body).await }
    };
    let alone = apply(tree(true, "")).await;
    assert_eq!(alone.reason(), "RESOURCE_MANAGER_UNAVAILABLE");

    let (mut told, _candidacy) = lead(&world).await;
    let plan = apply(tree(true, "")).await.json();
    let paths = |of: &serde_json::Value| {
        let each = of.as_array().unwrap().iter();
        each.map(|e| (e["action"].clone(), e["after"]["path"].clone()))
            .collect::<Vec<_>>()
    };
    let added = |path: &str| ("POOL_ACTION_ADDED".into(), path.into());
    assert_eq!(paths(&plan["differences"]), [added("/ml"), added("/ml/x")]);
    // The resource manager of this test tells nothing of a tree that it is not asked about.
    assert_eq!(plan["effects"][1]["path"], "/ml");
    assert_eq!(plan["effects"][1]["after"]["cpusMilli"], "3");
    assert_eq!(world.get("/v1/pools/ml").await.status, 404);

    let etag = plan["etag"].as_str().unwrap().to_owned();
    let done = apply(tree(false, &etag)).await.json();
    assert_eq!(paths(&done["differences"]).len(), 2);
    assert_eq!(world.get("/v1/pools/ml/x").await.status, 200);
    let hint = told.recv().await.unwrap();
    assert!(matches!(
        hint.changed,
        Some(wire::hint_request::Changed::Pools(_))
    ));
    assert_eq!(apply(tree(false, &etag)).await.reason(), "ETAG_STALE");

    let wrong =
        apply(r#"{"pools": [{"pool": {"path": "/a/b", "kind": "POOL_KIND_STATIC"}}]}"#.to_owned()).await;
    assert_eq!(wrong.fields(), ["pools[0].pool.path"]);
}
