//! What runs have written: finds a run's host in storage, and reads the file from its Mesos agent piece by piece.

use crate::host_manager::{Addresses, Mesos};
use crate::serve::Parts;
use echelon_core_model::instance::{BlockKey, InstanceRecord, Run};
use echelon_core_model::pod::Member;
use echelon_core_model::run::RunState;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{
    ClusterId, GroupName, HostId, InstanceId, InstanceNumber, JobId, MemberId, SidecarName,
};
use echelon_io_mesos::files::{Wanted, pod_file, read_file, sandbox_file};
use echelon_io_mesos::{Credential, FilesError, Piece, Tcp, Timing};
use echelon_io_storage::{Store, StoreError};
use echelon_proto::echelon::shard::v1::{LogStream, ReadLogRequest, ReadLogResponse};
use futures::stream::{self, Stream};
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// Bytes of one message.
const PIECE: u64 = 256 << 10;

/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Hosts read from storage at once while one is looked for.
const HOSTS_PAGE: u32 = 1000;

/// The way to logs. Clones share the storage.
#[derive(Clone)]
pub(crate) struct Logs {
    store: Arc<dyn Store>,
    cluster: ClusterId,
    addresses: Addresses,
    credential: Option<Credential>,
    timing: Timing,
}

/// Where a stream of pieces is.
struct Reading {
    logs: Logs,
    instance: InstanceId,
    run: Run,
    agent: String,
    path: String,
    offset: u64,
    follow: bool,
}

/// What a look gave.
enum Look {
    Piece(ReadLogResponse),
    Nothing,
    End,
}

impl Logs {
    pub(crate) fn new(parts: &Parts, cluster: ClusterId, (mesos, addresses): (&Mesos, Addresses)) -> Self {
        Self {
            store: parts.store.clone(),
            cluster,
            addresses,
            credential: mesos.operator.clone().or_else(|| mesos.credential.clone()),
            timing: mesos.timing,
        }
    }

    /// The pieces of what a run has written.
    pub(crate) async fn read(
        &self,
        request: ReadLogRequest,
    ) -> Result<impl Stream<Item = Result<ReadLogResponse, Status>> + Send + use<>, Status> {
        let instance = instance(&request)?;
        let file = match request.stream() {
            LogStream::Stderr => "stderr",
            LogStream::Stdout | LogStream::Unspecified => "stdout",
        };
        let run = self.run(&instance, (request.generation, request.run)).await?;
        let agent = self.agent(&run.host).await?;
        let framework = self.framework().await?;
        let path = path(&framework, &run, &instance, (&request.sidecar, file))?;
        let mut reading = Reading {
            logs: self.clone(),
            path,
            offset: request.offset,
            follow: request.follow,
            instance,
            run,
            agent,
        };
        if let Some(tail) = request.tail_bytes {
            reading.offset = reading.size().await?.saturating_sub(tail);
        } else if !request.follow {
            // So that a log that is not there is told by the call itself.
            reading.size().await?;
        }
        Ok(stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|piece| (piece, reading)))
        }))
    }

    async fn run(&self, instance: &InstanceId, (generation, number): (u32, u32)) -> Result<Run, Status> {
        let record = self.record(instance).await?;
        let latest = record.run.ok_or_else(|| {
            Status::failed_precondition(format!(
                "instance {instance} has not begun yet, so it has written nothing"
            ))
        })?;
        if (generation, number) == (0, 0) {
            return Ok(latest);
        }
        let is_asked = |run: &Run| run.generation.0 == generation && run.number.0 == number;
        let known = std::iter::once(latest).chain(record.older);
        known.into_iter().find(is_asked).ok_or_else(|| {
            Status::not_found(format!(
                "run {number} of generation {generation} of instance {instance} is not kept any more: only its latest run is"
            ))
        })
    }

    async fn record(&self, instance: &InstanceId) -> Result<InstanceRecord, Status> {
        let key = BlockKey::of(instance.job, &instance.group, instance.number);
        let query = Query::GroupBlocks {
            cluster: self.cluster.clone(),
            job: instance.job,
            group: instance.group.clone(),
            first: key.number,
            last: key.number,
        };
        let Answer::Blocks(blocks, _) = self.ask(query).await? else {
            return Err(unexpected());
        };
        let block = blocks.into_iter().find(|block| block.key == key);
        Ok(block
            .and_then(|mut block| block.instances.remove(&instance.number))
            .unwrap_or_default())
    }

    /// A piece of a file of a sandbox.
    pub(crate) async fn piece(
        &self,
        (agent, path): (&str, &str),
        offset: u64,
        length: u64,
    ) -> Result<Piece, FilesError> {
        let wanted = Wanted {
            agent,
            path,
            offset,
            length,
        };
        read_file(&Tcp, wanted, self.credential.as_ref(), &self.timing).await
    }

    /// Where a host's agent listens: as this leader heard it, else as its row says.
    pub(crate) async fn agent(&self, host: &HostId) -> Result<String, Status> {
        if let Some(address) = self.addresses.get(host) {
            return Ok(address);
        }
        let mut after = None;
        loop {
            let query = Query::Hosts {
                cluster: self.cluster.clone(),
                after: after.take(),
                limit: HOSTS_PAGE,
            };
            let Answer::Hosts(hosts) = self.ask(query).await? else {
                return Err(unexpected());
            };
            if let Some(found) = hosts
                .iter()
                .find(|row| row.id == *host && !row.address.is_empty())
            {
                return Ok(found.address.clone());
            }
            after = hosts.last().map(|last| last.id.clone());
            if after.is_none() {
                return Err(Status::aborted(format!(
                    "it is not known where the agent of host {host} listens: ask again in a few seconds"
                )));
            }
        }
    }

    async fn framework(&self) -> Result<String, Status> {
        match self.ask(Query::Shard(self.cluster.clone())).await? {
            Answer::Shard(row) => row.framework.ok_or_else(|| {
                Status::failed_precondition("this cluster's shard has never subscribed to Mesos")
            }),
            _ => Err(unexpected()),
        }
    }

    async fn ask(&self, query: Query) -> Result<Answer, Status> {
        // Another host's row, or what is remembered of it, is not needed to find a log.
        let goes_on = matches!(query, Query::Hosts { .. } | Query::Shard(_));
        let read = self.store.read(query, Consistency::Quorum).await;
        let read = read.map_err(|error: StoreError| {
            tracing::warn!(error = error.chain(), "cannot look up a log");
            Status::unavailable(
                "storage does not answer, so the log cannot be found: ask again in a few seconds",
            )
        })?;
        match read.unread.first().filter(|_| !goes_on) {
            None => Ok(read.answer),
            Some(row) => Err(Status::failed_precondition(format!(
                "the log cannot be found: {row}"
            ))),
        }
    }
}

impl Reading {
    async fn next(&mut self) -> Result<Option<ReadLogResponse>, Status> {
        loop {
            match self.look().await? {
                Look::Piece(piece) => return Ok(Some(piece)),
                Look::End => return Ok(None),
                Look::Nothing => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn look(&mut self) -> Result<Look, Status> {
        // Asked before the file is read: what it wrote before its end is in the file then.
        let has_ended = self.follow && self.has_ended().await?;
        let piece = match self.piece(self.offset, PIECE).await {
            Ok(piece) => piece,
            // The task has not begun to write yet.
            Err(FilesError::NotFound { .. }) if self.follow && !has_ended => return Ok(Look::Nothing),
            Err(error) => return Err(self.refusal(&error)),
        };
        if piece.data.is_empty() {
            return Ok(if self.follow && !has_ended {
                Look::Nothing
            } else {
                Look::End
            });
        }
        let offset = self.offset;
        self.offset += u64::try_from(piece.data.len()).unwrap_or_default();
        Ok(Look::Piece(ReadLogResponse {
            data: piece.data,
            offset,
        }))
    }

    async fn has_ended(&self) -> Result<bool, Status> {
        let record = self.logs.record(&self.instance).await?;
        let same = |run: &&Run| (run.generation, run.number) == (self.run.generation, self.run.number);
        let now = record.run.iter().chain(&record.older).find(same);
        // A run that is not in its record any more was followed by another.
        Ok(now.is_none_or(|run| run.state.is_ended()))
    }

    async fn size(&self) -> Result<u64, Status> {
        match self.piece(0, 1).await {
            Ok(piece) => Ok(piece.size),
            Err(FilesError::NotFound { .. }) if self.follow => Ok(0),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    async fn piece(&self, offset: u64, length: u64) -> Result<Piece, FilesError> {
        let place = (self.agent.as_str(), self.path.as_str());
        self.logs.piece(place, offset, length).await
    }

    fn refusal(&self, error: &FilesError) -> Status {
        let begins = matches!(
            self.run.state,
            RunState::Launching | RunState::Starting | RunState::Placing
        );
        match error {
            FilesError::NotFound { .. } if begins => Status::failed_precondition(format!(
                "instance {} has not begun yet, so it has written nothing",
                self.instance
            )),
            FilesError::NotFound { .. } => Status::not_found(error.to_string()),
            // Another word than that of a shard which is not reached.
            _ => Status::aborted(error.to_string()),
        }
    }
}

/// Where a task's file is on its agent.
fn path(
    framework: &str,
    run: &Run,
    instance: &InstanceId,
    (sidecar, file): (&str, &str),
) -> Result<String, Status> {
    let named = |m: &&Member| m.sidecar.as_ref().map_or("", SidecarName::as_str) == sidecar;
    let member = run.members.iter().find(named);
    let task = run.task_id(instance.clone());
    match member {
        Some(member) => {
            let id = MemberId {
                run: task.clone(),
                sidecar: member.sidecar.clone(),
            };
            Ok(pod_file(framework, &task.to_string(), &id.to_string(), file))
        }
        None if sidecar.is_empty() => Ok(sandbox_file(framework, &task.to_string(), file)),
        None => Err(Status::not_found(format!(
            "instance {instance} has no sidecar `{sidecar}`{}",
            known(run)
        ))),
    }
}

fn known(run: &Run) -> String {
    let all = run.members.iter().filter_map(|m| m.sidecar.as_ref());
    let names: Vec<&str> = all.map(SidecarName::as_str).collect();
    if names.is_empty() {
        return "; it is one task".to_owned();
    }
    format!(", only {}", names.join(", "))
}

fn instance(request: &ReadLogRequest) -> Result<InstanceId, Status> {
    let job = <[u8; 16]>::try_from(request.job.as_slice())
        .map_err(|_| Status::invalid_argument("job: expected the 16 bytes of a job id"))?;
    let group = GroupName::parse(&request.group)
        .map_err(|error| Status::invalid_argument(format!("group: {error}")))?;
    Ok(InstanceId {
        job: JobId(u128::from_be_bytes(job)),
        group,
        number: InstanceNumber(request.instance),
    })
}

fn unexpected() -> Status {
    Status::internal("storage answered another question than was asked")
}
