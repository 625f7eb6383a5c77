//! What the resource manager and gateways call: the stream of directives and reports, and logs; and the health service.

use crate::job_manager::{Input, RunsQuestion};
use crate::links::{REPORT_BYTES, REPORTS, WayBack};
use crate::log::Logs;
use echelon_core_model::HostId;
use echelon_core_model::directive::Directive;
use echelon_core_model::role_state::RoleState;
use echelon_core_shard::{LinkId, Whereabouts};
use echelon_io_changes::{Publisher, change_service};
use echelon_io_credit::Credit;
use echelon_io_process::Shutdown;
use echelon_io_process::listener::GuardedPort;
use echelon_proto::codec::refused;
use echelon_proto::convert::{Wire, instance};
use echelon_proto::echelon::shard::v1::shard_service_server::{ShardService, ShardServiceServer};
use echelon_proto::echelon::shard::v1::{
    DirectRequest, DirectResponse, ListRunsRequest, ListRunsResponse, ReadLogRequest, ReadLogResponse,
};
use echelon_proto::role::role_service;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// Largest message: a directive or report about thousands of slices.
const MAX_MESSAGE: usize = 64 << 20;

/// Most runs of one answer.
const MOST_RUNS: u32 = 1000;

/// A connection that says nothing for this long is asked for a sign of life, and given up after as long again.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The service.
pub(crate) struct Service {
    inbox: mpsc::Sender<Input>,
    logs: Logs,
    links: AtomicU64,
    stop: CancellationToken,
}

impl Service {
    pub(crate) const fn new(inbox: mpsc::Sender<Input>, logs: Logs, stop: CancellationToken) -> Self {
        Self {
            inbox,
            logs,
            links: AtomicU64::new(1),
            stop,
        }
    }
}

/// Serves on a port until the shutdown begins, then lets calls under way end.
pub(crate) fn serve(
    (service, changed): (Service, Publisher),
    state: impl Fn() -> RoleState + Send + Sync + 'static,
    port: GuardedPort,
    shutdown: &Shutdown,
) {
    let stop = shutdown.token();
    shutdown.spawn(async move {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<ShardServiceServer<Service>>().await;
        let service = ShardServiceServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let routes = Routes::new(health_service)
            .add_service(service)
            .add_service(change_service(changed))
            .add_service(role_service(state))
            .prepare();
        port.serve(routes, stop).await;
    });
}

#[tonic::async_trait]
impl ShardService for Service {
    type DirectStream = BoxStream<'static, Result<DirectResponse, Status>>;
    type ReadLogStream = BoxStream<'static, Result<ReadLogResponse, Status>>;

    async fn direct(
        &self,
        request: Request<Streaming<DirectRequest>>,
    ) -> Result<Response<Self::DirectStream>, Status> {
        let link = LinkId(self.links.fetch_add(1, Ordering::Relaxed));
        let (sender, reports) = mpsc::channel(REPORTS);
        let stop = self.stop.child_token();
        let (admit, admitted) = oneshot::channel();
        let way_back = WayBack {
            reports: sender,
            credit: Credit::new(REPORT_BYTES),
            is_in_full: false,
            admit: Some(admit),
            _way_in: stop.clone().drop_guard(),
        };
        let opened = Input::LinkOpened(link, way_back);
        let ending = || Status::unavailable("this shard is ending");
        self.inbox.send(opened).await.map_err(|_| ending())?;
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            let mut way_in = WayIn {
                link,
                directives: request.into_inner(),
                inbox: inbox.clone(),
            };
            let heard = async {
                // What a stream without proof sends stays with its sender, but for its first message.
                if way_in.hear().await.is_some() && admitted.await.is_ok() {
                    while way_in.hear().await.is_some() {}
                }
            };
            stop.run_until_cancelled(heard).await;
            let _ = inbox.send(Input::LinkClosed(link)).await;
        });
        // Its part of the credit is given back when the stream takes a report.
        let told = ReceiverStream::new(reports).map(|told| told.map(|(report, _held)| report));
        Ok(Response::new(told.boxed()))
    }

    async fn read_log(
        &self,
        request: Request<ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        let pieces = self.logs.read(request.into_inner()).await?;
        let stopped = self.stop.clone().cancelled_owned();
        Ok(Response::new(pieces.take_until(stopped).boxed()))
    }

    async fn list_runs(
        &self,
        request: Request<ListRunsRequest>,
    ) -> Result<Response<ListRunsResponse>, Status> {
        let r = request.into_inner();
        let asked = if r.host_id.is_empty() {
            Whereabouts::Unreachable
        } else {
            Whereabouts::Host(HostId::new(r.host_id))
        };
        let from = (!r.from.is_empty()).then(|| r.from.parse()).transpose();
        let (answer, answered) = oneshot::channel();
        let question = RunsQuestion {
            asked,
            from: from.map_err(|_| Status::invalid_argument("`from` is no task id"))?,
            most: usize::try_from(r.limit.clamp(1, MOST_RUNS)).unwrap_or(1),
            answer,
        };
        let ending = || Status::unavailable("this shard is ending");
        self.inbox
            .send(Input::Runs(question))
            .await
            .map_err(|_| ending())?;
        let page = answered.await.map_err(|_| ending())?;
        let page =
            page.ok_or_else(|| Status::unavailable("this shard does not lead, or reads what is stored"))?;
        Ok(Response::new(ListRunsResponse {
            runs: page
                .runs
                .iter()
                .map(|(of, run)| instance::run(run, of.clone()))
                .collect(),
            next: page.next.map(|task| task.to_string()).unwrap_or_default(),
        }))
    }
}

/// What comes over a stream.
struct WayIn {
    link: LinkId,
    directives: Streaming<DirectRequest>,
    inbox: mpsc::Sender<Input>,
}

impl WayIn {
    /// Hands the next directive to the loop; `None` when the stream has ended.
    async fn hear(&mut self) -> Option<()> {
        let link = self.link;
        let why = match self.directives.message().await {
            Ok(Some(message)) => match Directive::from_wire(message) {
                Ok(directive) => {
                    let heard = Input::Directive(link, directive);
                    return self.inbox.send(heard).await.ok();
                }
                Err(error) => Status::invalid_argument(error.to_string()),
            },
            Ok(None) => return None,
            Err(status) if refused(&status).is_some() => status,
            Err(status) => {
                tracing::info!(link = link.0, %status, "the stream of a resource manager broke");
                return None;
            }
        };
        tracing::error!(link = link.0, %why, "a directive cannot be understood; ending its stream");
        // The loop is gone only when the process ends.
        let _ = self.inbox.send(Input::Unreadable(link, why)).await;
        None
    }
}
