//! Calls to the resource manager's leader and to the shards' leaders: hints, plans, figures of
//! pools and logs. A hint is sent once, beside others, and may be lost; nothing waits for it.

use crate::telemetry::Telemetry;
use echelon_core_gateway::{ApiError, ErrorReason};
use echelon_core_model::cluster::{ClusterQuestion, Heartbeat};
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::Progress;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::role_state::RoleState;
use echelon_core_model::{ClusterId, JobId};
use echelon_io_membership::{Membership, Role, Sighting};
use echelon_proto::convert::shard::Changed;
use echelon_proto::convert::wire::Wire;
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::v1;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use wire::resource_manager_service_client::ResourceManagerServiceClient;
use wire::role_service_client::RoleServiceClient;
use wire::shard_service_client::ShardServiceClient;

/// Hints that may wait to be sent; more are dropped.
const WAITING_HINTS: usize = 1024;
/// Hints under way at once: one that hangs holds no other up.
const HINTS_AT_ONCE: usize = 256;
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Largest answer taken: the figures of the largest tree that can be stored.
const MAX_ANSWER: usize = 128 * 1024 * 1024;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A page of jobs is shown without what the resource manager says if that takes longer.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(2);
/// A job is stored without a check of its instances if that takes longer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Ways to the other processes; clones share their connections.
#[derive(Clone)]
pub(crate) struct Links {
    membership: Arc<dyn Membership>,
    channels: Arc<Mutex<BTreeMap<String, Channel>>>,
    hints: mpsc::Sender<Changed>,
    telemetry: Telemetry,
}

impl Links {
    pub(crate) fn new(
        membership: Arc<dyn Membership>,
        telemetry: Telemetry,
        stop: CancellationToken,
    ) -> Self {
        let (hints, queue) = mpsc::channel(WAITING_HINTS);
        let links = Self {
            membership,
            channels: Arc::default(),
            hints,
            telemetry,
        };
        tokio::spawn(links.clone().send_hints(queue, stop));
        links
    }

    /// Where the other processes are.
    pub(crate) fn membership(&self) -> &dyn Membership {
        self.membership.as_ref()
    }

    /// Follows the leader of a role. While the membership servers do not answer, the last one that was seen
    /// stays.
    pub(crate) fn follow(&self, role: &Role) -> watch::Receiver<Sighting> {
        self.membership.watch(role)
    }

    /// What the process at an address says of its role.
    ///
    /// # Errors
    /// Why it says nothing, for people. It may wait for long.
    pub(crate) async fn role_state(&self, address: &str) -> Result<RoleState, String> {
        let channel = self
            .channel(address)
            .ok_or("it has no address that can be called")?;
        let mut client = RoleServiceClient::new(channel);
        let answer = client.get_role_state(wire::GetRoleStateRequest {}).await;
        let state = answer
            .map_err(|status| status.message().to_owned())?
            .into_inner()
            .state;
        let state = state.ok_or("it says nothing of its role")?;
        RoleState::from_wire(state).map_err(|error| error.to_string())
    }

    /// Tells the resource manager to look at something; never waits.
    pub(crate) fn hint(&self, changed: Changed) {
        if self.hints.try_send(changed).is_err() {
            self.telemetry.hint("dropped");
        }
    }

    async fn send_hints(self, queue: mpsc::Receiver<Changed>, stop: CancellationToken) {
        let sending = ReceiverStream::new(queue).for_each_concurrent(HINTS_AT_ONCE, |changed| {
            let links = self.clone();
            async move { links.send_in_time(changed).await }
        });
        stop.run_until_cancelled(sending).await;
    }

    async fn send_in_time(&self, changed: Changed) {
        let sent = tokio::time::timeout(HINT_TIMEOUT, self.send_hint(changed)).await;
        self.telemetry.hint(match sent {
            Ok(true) => "sent",
            Ok(false) => "failed",
            Err(_) => "timed_out",
        });
    }

    async fn send_hint(&self, changed: Changed) -> bool {
        let Some(channel) = self.leader(&Role::ResourceManager).await else {
            return false;
        };
        let mut client = ResourceManagerServiceClient::new(channel);
        client.hint(changed.to_wire()).await.is_ok()
    }

    async fn leader(&self, role: &Role) -> Option<Channel> {
        match self.membership.leader(role).await {
            Ok(leader) => leader.and_then(|l| self.channel(&l.address)),
            Err(error) => {
                tracing::debug!(%role, %error, "membership does not tell the leader");
                None
            }
        }
    }

    pub(crate) fn channel(&self, address: &str) -> Option<Channel> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Some(channel.clone());
        }
        let endpoint = Endpoint::from_shared(address.to_owned()).ok()?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        channels.insert(address.to_owned(), channel.clone());
        Some(channel)
    }

    /// Asks the resource manager what would become of a spec.
    pub(crate) async fn plan(&self, spec: v1::JobSpec) -> Result<v1::PlanJobResponse, ApiError> {
        let unavailable = || unavailable("nothing can be planned");
        let mut client = self.resource_manager().await.ok_or_else(unavailable)?;
        let asking = client.plan(wire::PlanRequest { spec: Some(spec) });
        answered(asking, unavailable).await?.plan.ok_or_else(unavailable)
    }

    /// Asks the resource manager how the pools stand, or would stand under `tree`.
    pub(crate) async fn pool_figures(&self, tree: Option<&PoolTree>) -> Result<v1::PoolFigures, ApiError> {
        let unavailable = || unavailable("nobody can tell what pools are entitled to");
        let mut client = self.resource_manager().await.ok_or_else(unavailable)?;
        let asking = client.describe_pools(wire::DescribePoolsRequest {
            tree: tree.map(Wire::to_wire),
        });
        answered(asking, unavailable)
            .await?
            .figures
            .ok_or_else(unavailable)
    }

    /// Asks the resource manager what a cluster holds, and what would become of that.
    pub(crate) async fn cluster_work(&self, question: &ClusterQuestion) -> Result<v1::ClusterWork, ApiError> {
        let unavailable = || unavailable("it is not known what the cluster holds");
        let mut client = self.resource_manager().await.ok_or_else(unavailable)?;
        let asking = client.describe_cluster_work(question.to_wire());
        answered(asking, unavailable).await?.work.ok_or_else(unavailable)
    }

    /// Asks the resource manager why a job waits for admission, and what would admit all of it.
    pub(crate) async fn admission(&self, job: JobId) -> Result<v1::JobAdmission, ApiError> {
        let unavailable = || unavailable("it is not known what would admit the job");
        let mut client = self.resource_manager().await.ok_or_else(unavailable)?;
        let asking = client.describe_admission(wire::DescribeAdmissionRequest {
            job: job.0.to_be_bytes().to_vec(),
        });
        answered(asking, unavailable)
            .await?
            .admission
            .ok_or_else(unavailable)
    }

    /// What the resource manager says of jobs of which storage has no progress; `None`: it did not answer in time,
    /// or what it said cannot be understood.
    pub(crate) async fn progress(&self, jobs: &[JobId]) -> Option<Vec<Progress>> {
        let jobs = jobs.iter().map(|job| job.0.to_be_bytes().to_vec()).collect();
        let asking = async {
            let mut client = self.resource_manager().await?;
            let request = wire::DescribeProgressRequest { jobs };
            Some(client.describe_progress(request).await)
        };
        let answer = tokio::time::timeout(PROGRESS_TIMEOUT, asking).await.ok()??;
        let rows = answer.map(|answer| answer.into_inner().progress.into_iter());
        let rows =
            rows.map_err(|status| tracing::debug!(%status, "the resource manager says nothing of jobs"));
        let rows: Result<Vec<Progress>, _> = rows.ok()?.map(Progress::from_wire).collect();
        rows.map_err(
            |error| tracing::warn!(%error, "what the resource manager says of jobs cannot be understood"),
        )
        .ok()
    }

    /// Whether the resource manager lets a job have its instances. `None`: it did not answer in time, or its
    /// answer cannot be understood.
    pub(crate) async fn check_instances(
        &self,
        wanted: &WantedInstances,
    ) -> Option<Result<(), ExceededLimit>> {
        let asking = async {
            let mut client = self.resource_manager().await?;
            Some(client.check_instances(wanted.to_wire()).await)
        };
        let answer = tokio::time::timeout(CHECK_TIMEOUT, asking).await.ok()??;
        let answer = answer.map_err(|status| tracing::debug!(%status, "instances of a job were not checked"));
        let exceeded = answer.ok()?.into_inner().exceeded.map(ExceededLimit::from_wire);
        match exceeded {
            None => Some(Ok(())),
            Some(Ok(exceeded)) => Some(Err(exceeded)),
            Some(Err(error)) => {
                tracing::warn!(%error, "what the resource manager says of instances cannot be understood");
                None
            }
        }
    }

    async fn resource_manager(&self) -> Option<ResourceManagerServiceClient<Channel>> {
        let channel = self.leader(&Role::ResourceManager).await?;
        Some(ResourceManagerServiceClient::new(channel).max_decoding_message_size(MAX_ANSWER))
    }

    /// The leader of a cluster's shard; without membership the one that stored the last sign of life.
    async fn shard(&self, cluster: &ClusterId, heartbeat: Option<&Heartbeat>) -> Option<Channel> {
        match self.leader(&Role::Shard(cluster.clone())).await {
            Some(channel) => Some(channel),
            None => heartbeat.and_then(|h| self.channel(&h.address)),
        }
    }

    /// Asks a cluster's shard which runs are on a host, or are unreachable.
    pub(crate) async fn list_runs(
        &self,
        (id, name): (&ClusterId, &str),
        heartbeat: Option<&Heartbeat>,
        request: wire::ListRunsRequest,
    ) -> Result<wire::ListRunsResponse, ApiError> {
        let unavailable = || {
            ApiError::new(
                ErrorReason::ShardUnavailable,
                format!(
                    "the shard of cluster {name} does not answer, so it is not known what runs there; check that one is running and leads (`echelon cluster get {name}`)"
                ),
            )
        };
        let channel = self.shard(id, heartbeat).await;
        let channel = channel.ok_or_else(|| unavailable().behind("no leader is known"))?;
        let mut client = ShardServiceClient::new(channel);
        answered(client.list_runs(request), unavailable).await
    }

    /// Reads what a run wrote, through its cluster's shard.
    pub(crate) async fn read_log(
        &self,
        cluster: (&ClusterId, &str),
        heartbeat: Option<&Heartbeat>,
        request: wire::ReadLogRequest,
    ) -> Result<tonic::Streaming<wire::ReadLogResponse>, ApiError> {
        let (id, name) = cluster;
        let unavailable = |why: String| {
            ApiError::new(
                ErrorReason::ShardUnavailable,
                format!(
                    "the shard of cluster {name} does not answer, so its logs cannot be read; check that one is running and leads (`echelon cluster get {name}`)"
                ),
            )
            .behind(why)
        };
        let channel = self.shard(id, heartbeat).await;
        let channel = channel.ok_or_else(|| unavailable("no leader is known".to_owned()))?;
        let mut client = ShardServiceClient::new(channel);
        match tokio::time::timeout(ANSWER_TIMEOUT, client.read_log(request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => {
                Err(log_error(&status, name).unwrap_or_else(|| unavailable(status.to_string())))
            }
            Err(_) => Err(unavailable("no answer within 10 s".to_owned())),
        }
    }
}

fn unavailable(so: &str) -> ApiError {
    ApiError::new(
        ErrorReason::ResourceManagerUnavailable,
        format!(
            "no resource manager answers, so {so}; check that one is running and leads (`echelon resource-manager`)"
        ),
    )
}

/// What the resource manager answered in time.
async fn answered<T>(
    asking: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    unavailable: impl Fn() -> ApiError,
) -> Result<T, ApiError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(unavailable().behind(status.to_string())),
        Err(_) => Err(unavailable().behind("no answer within 10 s")),
    }
}

/// What a shard's refusal means to the caller; `None` when the shard was not reached.
pub(crate) fn log_error(status: &tonic::Status, cluster: &str) -> Option<ApiError> {
    match status.code() {
        tonic::Code::NotFound => Some(ApiError::new(
            ErrorReason::LogNotFound,
            format!(
                "cluster {cluster} has nothing of that run any more: {}",
                status.message()
            ),
        )),
        tonic::Code::Aborted => Some(ApiError::new(
            ErrorReason::ShardUnavailable,
            format!("on cluster {cluster} {}", status.message()),
        )),
        tonic::Code::FailedPrecondition => {
            Some(ApiError::new(ErrorReason::InstanceNotBegun, status.message()))
        }
        _ => None,
    }
}
