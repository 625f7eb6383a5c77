//! Logs: from the cluster's shard, found through membership or its heartbeat.

use crate::host_pools::host;
use crate::world::{HELLO, World};
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::cluster::{Cluster, Heartbeat};
use echelon_core_model::instance::{Block, BlockKey, InstanceRecord, Run};
use echelon_core_model::log::{KeptLog, KeptRun, KeptRuns, NoTail, Tail, Tails};
use echelon_core_model::store::{Batch, Decision, Role, Stamp, Write};
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, HostId, InstanceNumber, InstanceRange, JobId, RunNumber,
    RunState, Timestamp,
};
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::v1;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};
use v1::instance_service_client::InstanceServiceClient;
use wire::shard_service_server::{ShardService, ShardServiceServer};

/// Tells what it was asked, then breaks off when asked for standard error.
struct Shard;

type Sent<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ShardService for Shard {
    type DirectStream = Sent<wire::DirectResponse>;
    type ReadLogStream = Sent<wire::ReadLogResponse>;

    async fn direct(
        &self,
        _: Request<tonic::Streaming<wire::DirectRequest>>,
    ) -> Result<Response<Self::DirectStream>, Status> {
        Err(Status::internal("nobody directs here"))
    }

    async fn read_log(
        &self,
        request: Request<wire::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        let r = request.into_inner();
        if r.run == 9 {
            return Err(Status::not_found("its sandbox is gone"));
        }
        let said = format!(
            "{}.{}.{}.{} <b>\u{1b}[1m",
            r.group, r.instance, r.generation, r.run
        );
        let mut parts = vec![Ok(wire::ReadLogResponse {
            data: said.into_bytes(),
            offset: r.offset,
        })];
        if r.stream() == wire::LogStream::Stderr {
            parts.push(Err(Status::unavailable("the agent is gone")));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    /// Has three runs, and gives one at a time: `from` is what it was asked for.
    async fn list_runs(
        &self,
        request: Request<wire::ListRunsRequest>,
    ) -> Result<Response<wire::ListRunsResponse>, Status> {
        let r = request.into_inner();
        let task = |number: u32| format!("{JOB}.main.{number}.1.1");
        let at = (0..3)
            .find(|number| r.from.is_empty() || task(*number) == r.from)
            .unwrap();
        let state = if r.host_id.is_empty() {
            v1::RunState::Unreachable
        } else {
            v1::RunState::Running
        };
        let run = v1::Run {
            task_id: task(at),
            state: state.into(),
            hostname: format!("{} {}", r.host_id, r.limit),
            since: Some(prost_types::Timestamp { seconds: 7, nanos: 0 }),
            ..v1::Run::default()
        };
        Ok(Response::new(wire::ListRunsResponse {
            runs: vec![run],
            next: if at < 2 { task(at + 1) } else { String::new() },
        }))
    }
}

/// The job of the listed runs, which storage does not know.
const JOB: JobId = JobId(0x0190_0000_0000_7000_8000_0000_0000_0001);

async fn shard() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder()
        .add_service(ShardServiceServer::new(Shard))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    address
}

fn running(number: u32) -> Run {
    Run {
        number: RunNumber(number),
        started_at: Some(Timestamp(1)),
        available_at: Some(Timestamp(1)),
        ..Run::first(RunState::Running, HostId::new("h"), "host-1", Timestamp(1))
    }
}

/// Instance 0 of `hello` runs on cluster `c`, whose shard listens at `address`.
pub(crate) async fn place(world: &World, job: JobId, address: String) {
    let (cluster, main, epoch) = (ClusterId::new("c"), GroupName::new("main"), Epoch(1));
    let added = Cluster {
        mesos: "http://127.0.0.1:1".into(),
        ..Cluster::new(cluster.clone(), "east")
    };
    let mut assignment = Assignment::new(job);
    let range = AssignedRange {
        range: InstanceRange { first: 0, last: 0 },
        cluster: cluster.clone(),
        generation: Generation(1),
        former: None,
        releasing: None,
    };
    assignment.groups.insert(main.clone(), vec![range]);
    assignment.holders.insert(cluster.clone(), Generation(1));
    let partition = assignment_partition(job);
    for decision in [
        Decision::PutCluster {
            cluster: added,
            expected: None,
        },
        Decision::RaisePartition {
            partition,
            epoch,
            expected: Epoch(0),
        },
        Decision::PutAssignments {
            partition,
            stamp: Stamp { epoch, sequence: 1 },
            put: vec![assignment],
            remove: vec![],
        },
    ] {
        world.store.decide(decision).await.unwrap();
    }
    let record = InstanceRecord {
        generation: Generation(1),
        run: Some(running(3)),
        ..InstanceRecord::default()
    };
    let block = Block {
        key: BlockKey::of(job, &main, InstanceNumber(0)),
        instances: [(InstanceNumber(0), record)].into(),
    };
    let heartbeat = Heartbeat {
        cluster: cluster.clone(),
        epoch,
        at: Timestamp(1),
        signs: Default::default(),
        address,
        trouble: None,
        loss: None,
        no_manager_since: None,
    };
    let batch = Batch {
        owner: Role::Shard(cluster),
        stamp: Stamp { epoch, sequence: 1 },
        writes: vec![Write::Block(block), Write::Heartbeat(heartbeat)],
    };
    world.store.commit(batch).await.unwrap();
}

async fn read(world: &World, ask: v1::ReadLogRequest) -> (String, Option<tonic::Code>) {
    let mut client = InstanceServiceClient::new(world.channel().await);
    let mut parts = match client.read_log(ask).await {
        Ok(parts) => parts.into_inner(),
        Err(status) => return (status.message().to_owned(), Some(status.code())),
    };
    let mut text = Vec::new();
    while let Some(part) = parts.next().await {
        match part {
            Ok(part) => text.extend(part.data),
            Err(status) => return (String::from_utf8(text).unwrap(), Some(status.code())),
        }
    }
    (String::from_utf8(text).unwrap(), None)
}

#[tokio::test]
async fn a_log_comes_from_the_shard_that_holds_the_instance() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    place(&world, job, shard().await).await;
    let ask = || v1::ReadLogRequest {
        name: "jobs/hello/groups/main/instances/0".into(),
        ..Default::default()
    };
    assert_eq!(
        read(&world, ask()).await,
        ("main.0.1.3 <b>\u{1b}[1m".to_owned(), None)
    );
    let earlier = v1::ReadLogRequest {
        task_id: format!("{job}.main.0.1.2"),
        limit_bytes: Some(10),
        ..ask()
    };
    assert_eq!(read(&world, earlier).await, ("main.0.1.2".to_owned(), None));
    let foreign = v1::ReadLogRequest {
        task_id: format!("{job}.main.1.1.2"),
        ..ask()
    };
    assert_eq!(read(&world, foreign).await.1, Some(tonic::Code::InvalidArgument));
    let gone = v1::ReadLogRequest {
        task_id: format!("{job}.main.0.1.9"),
        ..ask()
    };
    assert_eq!(read(&world, gone).await.1, Some(tonic::Code::NotFound));
    let broken = v1::ReadLogRequest {
        stream: v1::LogStream::Stderr.into(),
        ..ask()
    };
    assert_eq!(read(&world, broken).await.1, Some(tonic::Code::Unavailable));

    let lines = world
        .get("/v1/jobs/hello/groups/main/instances/0:readLog?limitBytes=4")
        .await;
    assert_eq!(lines.json()["data"], "bWFpbg==");
    let page = world.get("/jobs/hello/main/0").await.body;
    assert!(
        page.contains("main.0.1.3 &lt;b&gt;") && page.contains("host-1"),
        "{page}"
    );
    let instance = world.get("/v1/jobs/hello/groups/main/instances/0").await.json();
    assert_eq!(
        (
            instance["instance"]["state"].as_str(),
            instance["instance"]["cluster"].as_str()
        ),
        (Some("RUN_STATE_RUNNING"), Some("east"))
    );
    assert_eq!(instance["instance"]["stale"], true, "its heartbeat is from 1970");
}

#[tokio::test]
async fn a_shard_that_does_not_answer_is_named() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    place(&world, job, address).await;
    let ask = v1::ReadLogRequest {
        name: "jobs/hello/groups/main/instances/0".into(),
        ..Default::default()
    };
    let (told, code) = read(&world, ask).await;
    assert_eq!(code, Some(tonic::Code::Unavailable));
    assert!(told.contains("east"), "{told}");
}

/// Run `number` of instance 0 wrote ten bytes, of which the last four are kept.
async fn keep(world: &World, job: JobId, number: u32) {
    let cluster = ClusterId::new("c");
    let run: echelon_core_model::TaskId = format!("{job}.main.0.1.{number}").parse().unwrap();
    let kept = KeptRun {
        run: run.clone(),
        sidecars: Vec::new(),
        failed: true,
    };
    let mut list = KeptRuns::new(job, cluster.clone());
    list.add(kept, 10);
    let log = KeptLog {
        run,
        at: Timestamp(1_500),
        hostname: "host-1".into(),
        tails: Tails {
            sidecar: None,
            stdout: Tail::Read {
                bytes: b"\xffend"[..].into(),
                size: 10,
            },
            stderr: Tail::Missing(NoTail::NoFile),
        },
    };
    let batch = Batch {
        owner: Role::Shard(cluster),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 2,
        },
        writes: vec![Write::Log(log), Write::KeptRuns(list)],
    };
    world.store.commit(batch).await.unwrap();
}

async fn first(world: &World, ask: v1::ReadLogRequest) -> Result<v1::ReadLogResponse, Status> {
    let mut client = InstanceServiceClient::new(world.channel().await);
    let mut parts = client.read_log(ask).await?.into_inner();
    parts.next().await.unwrap()
}

#[tokio::test]
async fn what_was_kept_answers_where_the_sandbox_is_gone_or_nobody_can_read_it() {
    for (number, is_dead, because) in [(9, false, "its sandbox is gone"), (3, true, "does not answer")] {
        let world = World::start().await;
        let made = world.change("POST", "/v1/jobs", HELLO).await.json();
        let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
        let address = if is_dead {
            "http://127.0.0.1:1".to_owned()
        } else {
            shard().await
        };
        place(&world, job, address).await;
        keep(&world, job, number).await;
        let ask = v1::ReadLogRequest {
            name: "jobs/hello/groups/main/instances/0".into(),
            run: number,
            ..Default::default()
        };
        let part = first(&world, ask.clone()).await.unwrap();
        assert_eq!((part.offset, &part.data[..]), (6, &b"\xffend"[..]));
        let kept = part.kept.unwrap();
        assert_eq!((kept.host.as_str(), kept.size, kept.cut), ("host-1", 10, 6));
        assert!(kept.because.contains(because), "{}", kept.because);
        let stderr = v1::ReadLogRequest {
            stream: v1::LogStream::Stderr.into(),
            ..ask.clone()
        };
        if is_dead {
            let why = first(&world, stderr).await.unwrap_err();
            assert!(why.message().contains("had no such file"), "{}", why.message());
        }
        let wrong = v1::ReadLogRequest {
            task_id: format!("{job}.main.0.1.2"),
            ..ask
        };
        let why = first(&world, wrong).await.unwrap_err();
        assert_eq!(why.code(), tonic::Code::InvalidArgument, "{}", why.message());
    }
}

#[tokio::test]
async fn the_page_shows_what_was_kept_and_why() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    place(&world, job, "http://127.0.0.1:1".to_owned()).await;
    keep(&world, job, 3).await;
    let page = world.get("/jobs/hello/main/0").await.body;
    assert!(
        page.contains("Kept when the run ended") && page.contains("end</pre>"),
        "{page}"
    );
}

/// What is listed over the pages of a list, and how many pages there were.
async fn listed(world: &World, path: &str) -> (Vec<serde_json::Value>, usize) {
    let (mut runs, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = world
            .get(&format!("{path}?pageSize=5&pageToken={token}"))
            .await
            .json();
        runs.extend(page["runs"].as_array().cloned().unwrap_or_default());
        pages += 1;
        match page["nextPageToken"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return (runs, pages),
        }
    }
}

#[tokio::test]
async fn what_runs_on_a_host_or_is_unreachable_comes_from_the_shard_in_pages() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    place(&world, job, shard().await).await;
    let batch = Batch {
        owner: Role::Shard(ClusterId::new("c")),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 3,
        },
        writes: vec![Write::Host(host("h", 3))],
    };
    world.store.commit(batch).await.unwrap();
    let (there, pages) = listed(&world, "/v1/clusters/east/hosts/h.example/runs").await;
    assert_eq!((there.len(), pages), (3, 3));
    assert_eq!(there[1]["name"], format!("jobs/{JOB}/groups/main/instances/1"));
    assert_eq!(there[1]["run"]["state"], "RUN_STATE_RUNNING");
    assert_eq!(
        there[1]["run"]["hostname"], "h 5",
        "the host by its id, and the size of the page"
    );
    assert_eq!(
        there[1].get("job"),
        None,
        "a job that storage does not know has no name"
    );
    let (silent, _) = listed(&world, "/v1/clusters/east/unreachableRuns").await;
    assert_eq!(silent.len(), 3);
    assert_eq!(silent[2]["run"]["state"], "RUN_STATE_UNREACHABLE");
    assert_eq!(silent[2]["run"]["since"], "1970-01-01T00:00:07Z");

    let foreign = world.get("/v1/clusters/east/unreachableRuns?pageToken=00").await;
    assert_eq!(foreign.status, 400, "{}", foreign.body);
    let nowhere = world.get("/v1/clusters/east/hosts/host-9/runs").await;
    assert_eq!(nowhere.status, 404, "{}", nowhere.body);
}

#[tokio::test]
async fn without_a_shard_it_is_not_known_what_runs_on_a_host() {
    let world = World::start().await;
    let made = world.change("POST", "/v1/jobs", HELLO).await.json();
    let job: JobId = made["jobId"].as_str().unwrap().parse().unwrap();
    place(&world, job, "http://127.0.0.1:1".to_owned()).await;
    let answer = world.get("/v1/clusters/east/unreachableRuns").await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(
        answer.body.contains("it is not known what runs there"),
        "{}",
        answer.body
    );
}
