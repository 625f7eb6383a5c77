//! ReadLog: finds out which cluster's shard can read what a run wrote, and passes it on.

use crate::context::Gateway;
use crate::error::status;
use crate::links::log_error;
use echelon_core_gateway::instances::{InstanceSeen, get_instance};
use echelon_core_gateway::view::Federation;
use echelon_core_gateway::{ApiError, ErrorReason, resource};
use echelon_core_model::{SidecarName, TaskId};
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
    let asked = shard_request(&r, &seen)?;
    let cluster = seen.instance.cluster.as_ref().ok_or_else(|| not_begun(&seen))?;
    let federation = Federation::read(&gateway.facts).await?;
    let source = gateway
        .links
        .read_log(
            (&cluster.id, &cluster.name),
            federation.heartbeats.get(&cluster.id),
            asked,
        )
        .await?;
    let (send, receive) = mpsc::channel(8);
    let copy = Copy {
        gateway,
        cluster: cluster.name.clone(),
        left: r.limit_bytes.unwrap_or(u64::MAX),
    };
    tokio::spawn(copy.run(source, send));
    Ok(ReceiverStream::new(receive))
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

fn shard_request(r: &v1::ReadLogRequest, seen: &InstanceSeen) -> Result<wire::ReadLogRequest, ApiError> {
    let (generation, run) = if r.task_id.is_empty() {
        let run = seen.instance.record.as_ref().and_then(|i| i.run.as_ref());
        let run = run.ok_or_else(|| not_begun(seen))?;
        (run.generation, run.number)
    } else {
        let task: TaskId = r
            .task_id
            .parse()
            .map_err(|e: echelon_core_model::id::IdError| ApiError::field("task_id", e.to_string()))?;
        let ours = task.instance.job == seen.job
            && task.instance.group == seen.instance.group
            && task.instance.number == seen.instance.number;
        if !ours {
            return Err(ApiError::field("task_id", "is the task of another instance"));
        }
        (task.generation, task.run)
    };
    let stream = match v1::LogStream::try_from(r.stream) {
        Ok(v1::LogStream::Unspecified | v1::LogStream::Stdout) => wire::LogStream::Stdout,
        Ok(v1::LogStream::Stderr) => wire::LogStream::Stderr,
        Err(_) => return Err(ApiError::field("stream", "must be stdout or stderr")),
    };
    Ok(wire::ReadLogRequest {
        job: seen.job.0.to_be_bytes().to_vec(),
        group: seen.instance.group.to_string(),
        instance: seen.instance.number.0,
        generation: generation.0,
        run: run.0,
        sidecar: sidecar(r)?,
        stream: stream.into(),
        offset: r.offset,
        tail_bytes: r.tail_bytes,
        follow: r.follow,
    })
}

/// By its name, if one is asked for. Whether the run has it is the shard's to say.
fn sidecar(r: &v1::ReadLogRequest) -> Result<String, ApiError> {
    if r.sidecar.is_empty() {
        return Ok(String::new());
    }
    let name = SidecarName::parse(&r.sidecar);
    let name = name.map_err(|wrong| ApiError::field("sidecar", wrong.to_string()))?;
    Ok(name.to_string())
}

struct Copy {
    gateway: Gateway,
    cluster: String,
    left: u64,
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
                    Some(Err(Status::unavailable("this gateway ends; go on at another from the last offset")))
                }
            };
            let answer = match next {
                None => break,
                Some(Ok(part)) => Ok(self.cut(part)),
                Some(Err(broken)) => Err(self.broken(&broken)),
            };
            let end = answer.is_err();
            if send.send(answer).await.is_err() || end {
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
        }
    }

    fn broken(&self, broken: &Status) -> Status {
        match log_error(broken, &self.cluster) {
            Some(error) => status(&error),
            None => Status::unavailable(format!(
                "reading from cluster {} broke: {}; go on from the last offset",
                self.cluster,
                broken.message()
            )),
        }
    }
}
