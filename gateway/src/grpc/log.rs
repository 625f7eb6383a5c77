//! ReadLog: finds out which cluster's shard can read what a run wrote, and passes it on; where nothing can be read there, what was
//! kept of it when the run ended.

use crate::context::Gateway;
use crate::error::status;
use crate::links::log_error;
use echelon_core_gateway::instances::{InstanceSeen, get_instance};
use echelon_core_gateway::logs::{AskedLog, KeptOutput, kept_output};
use echelon_core_gateway::view::Federation;
use echelon_core_gateway::{ApiError, ErrorReason, resource};
use echelon_core_model::{InstanceId, MemberId, RunNumber, SidecarName, TaskId};
use echelon_proto::convert::quantity::timestamp;
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The answers of a reading.
pub(super) type Reading = ReceiverStream<Result<v1::ReadLogResponse, Status>>;

pub(super) async fn start(gateway: Gateway, r: v1::ReadLogRequest) -> Result<Reading, ApiError> {
    let (job, group, number) = resource::instance(&r.name, "name")?;
    let seen = get_instance(&gateway.facts, &job, &group, number, gateway.now()).await?;
    let asked = asked(&r, &seen)?;
    let request = shard_request(&r, &asked)?;
    let source = open(&gateway, &seen, request).await;
    let kept = Kept {
        gateway: gateway.clone(),
        seen,
        asked,
    };
    let (send, receive) = mpsc::channel(8);
    match source {
        Ok(source) => {
            let cluster = kept.seen.instance.cluster.as_ref();
            let copy = Copy {
                gateway,
                cluster: cluster.map(|c| c.name.clone()).unwrap_or_default(),
                left: r.limit_bytes.unwrap_or(u64::MAX),
                has_sent: false,
                kept,
            };
            tokio::spawn(copy.run(source, send));
        }
        Err(error) => {
            let found = kept.instead(error).await?;
            // There is room for one.
            drop(send.try_send(Ok(found)));
        }
    }
    Ok(ReceiverStream::new(receive))
}

/// The shard's stream.
async fn open(
    gateway: &Gateway,
    seen: &InstanceSeen,
    request: wire::ReadLogRequest,
) -> Result<tonic::Streaming<wire::ReadLogResponse>, ApiError> {
    let cluster = seen.instance.cluster.as_ref().ok_or_else(|| not_begun(seen))?;
    let federation = Federation::read(&gateway.facts).await?;
    let heartbeat = federation.heartbeats.get(&cluster.id);
    let asked = gateway
        .links
        .read_log((&cluster.id, &cluster.name), heartbeat, request);
    asked.await
}

fn not_begun(seen: &InstanceSeen) -> ApiError {
    ApiError::new(
        ErrorReason::InstanceNotBegun,
        format!(
            "instance {} of group {} has not begun, so it has written nothing: {}",
            seen.instance.number, seen.instance.group, seen.instance.reason
        ),
    )
}

/// Which task's output is asked for, and which part of it.
fn asked(r: &v1::ReadLogRequest, seen: &InstanceSeen) -> Result<AskedLog, ApiError> {
    let stderr = match v1::LogStream::try_from(r.stream) {
        Ok(v1::LogStream::Unspecified | v1::LogStream::Stdout) => false,
        Ok(v1::LogStream::Stderr) => true,
        Err(_) => return Err(ApiError::field("stream", "must be stdout or stderr")),
    };
    Ok(AskedLog {
        task: MemberId {
            run: asked_run(r, seen)?,
            sidecar: sidecar(r)?,
        },
        stderr,
        offset: r.offset,
        tail_bytes: r.tail_bytes,
        limit_bytes: r.limit_bytes,
    })
}

fn asked_run(r: &v1::ReadLogRequest, seen: &InstanceSeen) -> Result<TaskId, ApiError> {
    let instance = InstanceId {
        job: seen.job,
        group: seen.instance.group.clone(),
        number: seen.instance.number,
    };
    if r.task_id.is_empty() {
        let latest = seen.instance.record.as_ref().and_then(|i| i.run.as_ref());
        let mut task = latest.ok_or_else(|| not_begun(seen))?.task_id(instance);
        if r.run > 0 {
            task.run = RunNumber(r.run);
        }
        return Ok(task);
    }
    if r.run > 0 {
        return Err(ApiError::field(
            "run",
            "is left out where `task_id` says which run",
        ));
    }
    let task: TaskId = r
        .task_id
        .parse()
        .map_err(|e: echelon_core_model::id::IdError| ApiError::field("task_id", e.to_string()))?;
    if task.instance != instance {
        return Err(ApiError::field("task_id", "is the task of another instance"));
    }
    Ok(task)
}

fn shard_request(r: &v1::ReadLogRequest, asked: &AskedLog) -> Result<wire::ReadLogRequest, ApiError> {
    let TaskId {
        instance,
        generation,
        run,
    } = &asked.task.run;
    let stream = if asked.stderr {
        wire::LogStream::Stderr
    } else {
        wire::LogStream::Stdout
    };
    let sidecar = asked.task.sidecar.as_ref();
    Ok(wire::ReadLogRequest {
        job: instance.job.0.to_be_bytes().to_vec(),
        group: instance.group.to_string(),
        instance: instance.number.0,
        generation: generation.0,
        run: run.0,
        sidecar: sidecar.map(SidecarName::to_string).unwrap_or_default(),
        stream: stream.into(),
        offset: r.offset,
        tail_bytes: r.tail_bytes,
        follow: r.follow,
    })
}

/// By its name, if one is asked for. Whether the run has it is the shard's to say.
fn sidecar(r: &v1::ReadLogRequest) -> Result<Option<SidecarName>, ApiError> {
    if r.sidecar.is_empty() {
        return Ok(None);
    }
    let name = SidecarName::parse(&r.sidecar);
    name.map(Some)
        .map_err(|wrong| ApiError::field("sidecar", wrong.to_string()))
}

/// The way to what was kept.
struct Kept {
    gateway: Gateway,
    seen: InstanceSeen,
    asked: AskedLog,
}

impl Kept {
    /// What was kept, in place of what could not be read; else why neither is there.
    async fn instead(&self, error: ApiError) -> Result<v1::ReadLogResponse, ApiError> {
        match kept_output(&self.gateway.facts, &self.seen, &self.asked).await {
            Ok(Ok(kept)) => Ok(answer(kept, error.message)),
            Ok(Err(_)) if error.reason == ErrorReason::InstanceNotBegun => Err(error),
            Ok(Err(why)) => Err(ApiError {
                message: format!("{}; {why}", error.message),
                ..error
            }),
            // Storage does not answer either: what came first is told.
            Err(unread) => Err(error.behind(unread.message)),
        }
    }
}

fn answer(kept: KeptOutput, because: String) -> v1::ReadLogResponse {
    v1::ReadLogResponse {
        offset: kept.offset,
        data: kept.bytes,
        kept: Some(v1::KeptLog {
            read_time: Some(timestamp(kept.log.at)),
            host: kept.log.hostname.to_string(),
            size: kept.size,
            cut: kept.cut,
            because,
        }),
    }
}

struct Copy {
    gateway: Gateway,
    cluster: String,
    left: u64,
    has_sent: bool,
    kept: Kept,
}

impl Copy {
    async fn run(
        mut self,
        mut source: tonic::Streaming<wire::ReadLogResponse>,
        send: mpsc::Sender<Result<v1::ReadLogResponse, Status>>,
    ) {
        self.gateway.telemetry.streams.inc();
        while self.left > 0 {
            let next = tokio::select! {
                next = source.next() => next,
                () = send.closed() => break,
                () = self.gateway.stop.cancelled() => {
                    let ends = Status::unavailable("this gateway ends; go on at another from the last offset");
                    let _ = send.send(Err(ends)).await;
                    break;
                }
            };
            let (answer, is_last) = match next {
                None => break,
                Some(Ok(part)) => (Ok(self.cut(part)), false),
                Some(Err(broken)) => (self.broken(&broken).await, true),
            };
            self.has_sent = true;
            if send.send(answer).await.is_err() || is_last {
                break;
            }
        }
        self.gateway.telemetry.streams.dec();
    }

    fn cut(&mut self, mut part: wire::ReadLogResponse) -> v1::ReadLogResponse {
        part.data
            .truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left = self
            .left
            .saturating_sub(u64::try_from(part.data.len()).unwrap_or(u64::MAX));
        v1::ReadLogResponse {
            offset: part.offset,
            data: part.data,
            kept: None,
        }
    }

    /// Before anything was read, what was kept will do; in the middle of it the reader has to know.
    async fn broken(&self, broken: &Status) -> Result<v1::ReadLogResponse, Status> {
        let error = log_error(broken, &self.cluster).unwrap_or_else(|| {
            let why = format!(
                "reading from cluster {} broke: {}; go on from the last offset",
                self.cluster,
                broken.message()
            );
            ApiError::new(ErrorReason::ShardUnavailable, why)
        });
        if self.has_sent {
            return Err(status(&error));
        }
        self.kept.instead(error).await.map_err(|error| status(&error))
    }
}
