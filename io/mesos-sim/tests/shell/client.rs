//! A framework for tests: it calls, reads its stream, acknowledges, and waits for what it expects.

use bytes::Bytes;
use echelon_io_mesos_sim::Span;
use echelon_io_mesos_sim::{AgentId, AgentShape, Config, Exec, Mode, Running, serve};
use echelon_io_process::Shutdown;
use echelon_proto::mesos::v1::framework_info::{Capability, capability};
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::{Call, Event, call, event};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{
    AgentId as AgentIdMessage, CommandInfo, DurationInfo, Environment, ExecutorId, ExecutorInfo, Filters,
    FrameworkId, FrameworkInfo, KillPolicy, Offer, Resource, TaskGroupInfo, TaskId, TaskInfo, TaskState,
    TaskStatus, environment, executor_info, value,
};
use echelon_proto::recordio::Decoder;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

/// Far above what anything here takes; only a hanging test sees it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster with one agent and real processes, in a work folder.
pub async fn cluster(work_dir: &Path) -> (Running, Shutdown) {
    let shutdown = Shutdown::new(Duration::from_secs(5));
    let program = std::env::current_exe().unwrap().display().to_string();
    let supervisor = ["supervisor_program", "--exact", "--nocapture"].map(str::to_owned);
    let exec = Exec {
        work_dir: work_dir.to_owned(),
        supervisor: std::iter::once(program).chain(supervisor).collect(),
        run_log: Some(work_dir.join("runs.jsonl")),
    };
    let config = config(Mode::Exec(exec));
    let running = serve(config, &shutdown).await.unwrap();
    (running, shutdown)
}

pub fn config(mode: Mode) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        reached_at: None,
        cluster: "alpha".to_owned(),
        agents: vec![AgentShape {
            attributes: vec![("rack".to_owned(), "r1".to_owned())],
            ..AgentShape::small()
        }],
        mode,
        allocation_interval: Span::millis(50),
        credentials: Vec::new(),
        operators: Vec::new(),
        stream_bound: 10_000,
        seed: 7,
    }
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends one request on a connection of its own.
pub async fn send(address: SocketAddr, request: http::Request<Full<Bytes>>) -> http::Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    tokio::time::timeout(PATIENCE, sender.send_request(request))
        .await
        .unwrap()
        .unwrap()
}

pub async fn whole(response: http::Response<Incoming>) -> Answer {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answer {
        status,
        headers,
        body,
    }
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    let request = http::Request::get(path)
        .header("host", "localhost")
        .body(Full::default())
        .unwrap();
    whole(send(address, request).await).await
}

/// An operator call in JSON.
pub async fn operate(address: SocketAddr, body: &str) -> Answer {
    let request = http::Request::post("/api/v1")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    whole(send(address, request).await).await
}

/// A subscribed framework.
pub struct Framework {
    address: SocketAddr,
    pub id: FrameworkId,
    stream_id: String,
    body: Incoming,
    decoder: Decoder,
    waiting: VecDeque<Event>,
    /// Offers that came while something else was waited for.
    offers: VecDeque<Offer>,
    /// Whether updates are acknowledged as they come.
    pub acknowledges: bool,
}

pub fn info(id: Option<&FrameworkId>) -> FrameworkInfo {
    let capabilities = [
        capability::Type::MultiRole,
        capability::Type::PartitionAware,
        capability::Type::TaskKillingState,
        capability::Type::ReservationRefinement,
    ];
    FrameworkInfo {
        user: "nobody".to_owned(),
        name: "test".to_owned(),
        id: id.cloned(),
        roles: vec!["*".to_owned()],
        checkpoint: Some(true),
        failover_timeout: Some(3600.0),
        capabilities: capabilities
            .map(|kind| Capability {
                r#type: Some(kind.into()),
            })
            .to_vec(),
        ..Default::default()
    }
}

impl Framework {
    pub async fn subscribe(address: SocketAddr, id: Option<&FrameworkId>) -> Self {
        let call = Call {
            r#type: Some(call::Type::Subscribe.into()),
            framework_id: id.cloned(),
            subscribe: Some(call::Subscribe {
                framework_info: info(id),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = http::Request::post("/api/v1/scheduler")
            .header("content-type", "application/x-protobuf")
            .header("accept", "application/x-protobuf")
            .body(Full::new(Bytes::from(call.encode_to_vec())))
            .unwrap();
        let response = send(address, request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-protobuf");
        let stream_id = response.headers()["mesos-stream-id"].to_str().unwrap().to_owned();
        let mut framework = Self {
            address,
            id: FrameworkId::default(),
            stream_id,
            body: response.into_body(),
            decoder: Decoder::new(1 << 20),
            waiting: VecDeque::new(),
            offers: VecDeque::new(),
            acknowledges: true,
        };
        let subscribed = framework.event(event::Type::Subscribed).await.subscribed.unwrap();
        framework.id = subscribed.framework_id;
        framework
    }

    /// The next event of any kind; `None` when the stream has ended or broken.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .expect("no event comes")?
                .ok()?;
            let mut records = Vec::new();
            self.decoder
                .push(frame.data_ref().unwrap(), &mut records)
                .unwrap();
            self.waiting.extend(
                records
                    .iter()
                    .map(|record| Event::decode(record.as_slice()).unwrap()),
            );
        }
    }

    /// The next event of a kind. Others pass: updates are acknowledged, offers kept.
    pub async fn event(&mut self, kind: event::Type) -> Event {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let event = self.next().await.expect("the stream has ended");
                if let Some(update) = event.update.as_ref().filter(|_| self.acknowledges) {
                    self.acknowledge(&update.status).await;
                }
                self.offers
                    .extend(event.offers.iter().flat_map(|part| part.offers.clone()));
                if event.r#type() == kind {
                    return event;
                }
            }
        });
        found
            .await
            .unwrap_or_else(|_| panic!("no {} comes", kind.as_str_name()))
    }

    /// The oldest offer that was not used.
    pub async fn offer(&mut self) -> Offer {
        while self.offers.is_empty() {
            self.event(event::Type::Offers).await;
        }
        self.offers.pop_front().unwrap()
    }

    /// Waits for a state of a task.
    pub async fn state(&mut self, task: &str, state: TaskState) -> TaskStatus {
        loop {
            let status = self.event(event::Type::Update).await.update.unwrap().status;
            if status.task_id.value == task && status.state() == state {
                return status;
            }
        }
    }

    /// Waits for an update of a task with this reason.
    pub async fn reason(&mut self, task: &str, reason: Reason) -> TaskStatus {
        loop {
            let status = self.event(event::Type::Update).await.update.unwrap().status;
            if status.task_id.value == task && status.reason == Some(reason.into()) {
                return status;
            }
        }
    }

    pub async fn call(&self, kind: call::Type, call: Call) -> Answer {
        let call = Call {
            r#type: Some(kind.into()),
            framework_id: Some(self.id.clone()),
            ..call
        };
        let request = http::Request::post("/api/v1/scheduler")
            .header("content-type", "application/x-protobuf")
            .header("mesos-stream-id", &self.stream_id)
            .body(Full::new(Bytes::from(call.encode_to_vec())))
            .unwrap();
        whole(send(self.address, request).await).await
    }

    pub async fn acknowledge(&self, status: &TaskStatus) {
        let Some(uuid) = status.uuid.clone() else { return };
        let (agent_id, task_id) = (status.agent_id.clone().unwrap(), status.task_id.clone());
        let acknowledge = Some(call::Acknowledge {
            agent_id,
            task_id,
            uuid,
        });
        let answer = self
            .call(
                call::Type::Acknowledge,
                Call {
                    acknowledge,
                    ..Default::default()
                },
            )
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// Launches a command on the next offer.
    pub async fn launch(&mut self, task: TaskInfo) -> AgentIdMessage {
        let offer = self.offer().await;
        let task = TaskInfo {
            agent_id: offer.agent_id.clone(),
            ..task
        };
        let launch = Operation {
            r#type: Some(operation::Type::Launch.into()),
            launch: Some(operation::Launch {
                task_infos: vec![task],
            }),
            ..Default::default()
        };
        self.accept(offer, launch).await
    }

    /// Launches commands as one group below a default executor of this name, on the next offer.
    pub async fn launch_group(&mut self, name: &str, tasks: Vec<TaskInfo>) -> AgentIdMessage {
        let offer = self.offer().await;
        let tasks = tasks.into_iter().map(|task| TaskInfo {
            agent_id: offer.agent_id.clone(),
            ..task
        });
        let executor = ExecutorInfo {
            r#type: Some(executor_info::Type::Default.into()),
            executor_id: ExecutorId {
                value: name.to_owned(),
            },
            framework_id: Some(self.id.clone()),
            resources: vec![scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 16.0)],
            ..Default::default()
        };
        let launch = Operation {
            r#type: Some(operation::Type::LaunchGroup.into()),
            launch_group: Some(operation::LaunchGroup {
                executor,
                task_group: TaskGroupInfo {
                    tasks: tasks.collect(),
                },
            }),
            ..Default::default()
        };
        self.accept(offer, launch).await
    }

    async fn accept(&mut self, offer: Offer, launch: Operation) -> AgentIdMessage {
        let accept = Some(call::Accept {
            offer_ids: vec![offer.id],
            operations: vec![launch],
            filters: Some(Filters {
                refuse_seconds: Some(0.0),
            }),
        });
        let answer = self
            .call(
                call::Type::Accept,
                Call {
                    accept,
                    ..Default::default()
                },
            )
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        offer.agent_id
    }

    pub async fn kill(&self, task: &str) {
        let kill = Some(call::Kill {
            task_id: TaskId {
                value: task.to_owned(),
            },
            ..Default::default()
        });
        assert_eq!(
            self.call(
                call::Type::Kill,
                Call {
                    kill,
                    ..Default::default()
                }
            )
            .await
            .status,
            202
        );
    }
}

fn scalar(name: &str, value: f64) -> Resource {
    Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value }),
        ..Default::default()
    }
}

/// A task of a tenth of a CPU that runs a line of shell.
pub fn task(name: &str, line: &str) -> TaskInfo {
    let variable = environment::Variable {
        name: "GREETING".to_owned(),
        value: Some("hello".to_owned()),
        ..Default::default()
    };
    TaskInfo {
        name: name.to_owned(),
        task_id: TaskId {
            value: name.to_owned(),
        },
        resources: vec![scalar("cpus", 0.1), scalar("mem", 32.0)],
        command: Some(CommandInfo {
            value: Some(line.to_owned()),
            environment: Some(Environment {
                variables: vec![variable],
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn with_grace(task: TaskInfo, grace: Duration) -> TaskInfo {
    let nanoseconds = i64::try_from(grace.as_nanos()).unwrap();
    let kill_policy = Some(KillPolicy {
        grace_period: Some(DurationInfo { nanoseconds }),
    });
    TaskInfo { kill_policy, ..task }
}

/// What a task has written.
pub async fn file(running: &Running, framework: &FrameworkId, task: &str, name: &str) -> String {
    let (_, address): &(AgentId, SocketAddr) = &running.agents[0];
    let path = format!(
        "/frameworks/{}/executors/{task}/runs/latest/{name}",
        framework.value
    );
    let answer = get(
        *address,
        &format!("/files/read?path={path}&offset=0&length=50000"),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let content: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    content["data"].as_str().unwrap().to_owned()
}
