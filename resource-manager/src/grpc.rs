//! What gateways call: hints, plans, the figures of pools, why jobs wait, what became of those of which
//! nothing is stored, and whether a job may have so many instances; and the health service.

use crate::query::PictureQuery;
use crate::run::Input;
use crate::{admission, cluster_work, figures, plan};
use echelon_core_model::JobId;
use echelon_core_model::cluster::ClusterQuestion;
use echelon_core_model::instance_limit::WantedInstances;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::role_state::RoleState;
use echelon_io_changes::{Publisher, change_service};
use echelon_io_process::listener::GuardedPort;
use echelon_io_process::{Clock, Shutdown};
use echelon_proto::convert::shard::Changed;
use echelon_proto::convert::{Wire, spec};
use echelon_proto::echelon::shard::v1::resource_manager_service_server::{
    ResourceManagerService, ResourceManagerServiceServer,
};
use echelon_proto::echelon::shard::v1::{
    CheckInstancesRequest, CheckInstancesResponse, DescribeAdmissionRequest, DescribeAdmissionResponse,
    DescribeClusterWorkRequest, DescribeClusterWorkResponse, DescribePoolsRequest, DescribePoolsResponse,
    DescribeProgressRequest, DescribeProgressResponse, HintRequest, HintResponse, PlanRequest, PlanResponse,
};
use echelon_proto::role::role_service;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Largest request: a plan of a tree of 10,000 pools with all fields and the longest paths.
const MAX_MESSAGE: usize = 64 << 20;
/// The first snapshot of a leadership takes a second or two, any other query less than a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Jobs that one question may name: a page of a list.
const MOST_JOBS: usize = 1_000;

/// Answers to why a job waits that are computed at once. Each has a copy of all facts, and takes up to
/// seconds of one processor.
const EXPLAINED_AT_ONCE: usize = 1;

/// The service. Clones share the loop's queue.
pub(crate) struct Service {
    inbox: mpsc::Sender<Input>,
    clock: Clock,
    explaining: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(inbox: mpsc::Sender<Input>, clock: Clock) -> Self {
        Self {
            inbox,
            clock,
            explaining: Arc::new(Semaphore::new(EXPLAINED_AT_ONCE)),
        }
    }

    /// Puts a question to the loop and waits for its answer.
    async fn ask<T>(&self, question: Input, answer: oneshot::Receiver<Option<T>>) -> Result<T, Status> {
        self.inbox.try_send(question).map_err(|_| {
            Status::unavailable("the resource manager has too much to do: ask again in a second")
        })?;
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => Err(Status::unavailable(
                "this resource manager does not lead now, or still reads storage: ask again in a second",
            )),
            Ok(Err(_)) | Err(_) => Err(Status::unavailable(
                "the resource manager did not answer: ask again in a second",
            )),
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
        health
            .set_serving::<ResourceManagerServiceServer<Service>>()
            .await;
        let service = ResourceManagerServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE);
        let routes = Routes::new(health_service)
            .add_service(service)
            .add_service(change_service(changed))
            .add_service(role_service(state))
            .prepare();
        port.serve(routes, stop).await;
    });
}

#[tonic::async_trait]
impl ResourceManagerService for Service {
    async fn hint(&self, request: Request<HintRequest>) -> Result<Response<HintResponse>, Status> {
        let changed = Changed::from_wire(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        // A hint that finds the queue full is lost: what it is about is read again within a minute.
        let _ = self.inbox.try_send(Input::Changed(changed));
        Ok(Response::new(HintResponse {}))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let sent = request.into_inner().spec.unwrap_or_default();
        let spec =
            spec::from_wire(sent).map_err(|problems| Status::invalid_argument(problems.to_string()))?;
        let (answer, planned) = oneshot::channel();
        let planned = self
            .ask(Input::Query(PictureQuery::Plan(Box::new(spec), answer)), planned)
            .await?;
        Ok(Response::new(PlanResponse {
            plan: Some(plan::to_wire(&planned)),
        }))
    }

    async fn describe_pools(
        &self,
        request: Request<DescribePoolsRequest>,
    ) -> Result<Response<DescribePoolsResponse>, Status> {
        let tree = request.into_inner().tree.map(PoolTree::from_wire).transpose();
        let tree = tree.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (answer, described) = oneshot::channel();
        let described = self
            .ask(Input::Query(PictureQuery::Figures(tree, answer)), described)
            .await?;
        Ok(Response::new(DescribePoolsResponse {
            figures: Some(figures::to_wire(&described)),
        }))
    }

    async fn describe_admission(
        &self,
        request: Request<DescribeAdmissionRequest>,
    ) -> Result<Response<DescribeAdmissionResponse>, Status> {
        let job = job_id(&request.into_inner().job)?;
        let busy = || Status::unavailable("the resource manager explains other jobs: ask again in a second");
        let permit = Arc::clone(&self.explaining).acquire_owned();
        let permit = tokio::time::timeout(ANSWER_WITHIN, permit).await;
        let permit = permit.ok().and_then(Result::ok).ok_or_else(busy)?;
        let (answer, question) = oneshot::channel();
        let question = self
            .ask(Input::Query(PictureQuery::Explain(job, answer)), question)
            .await?;
        // Beside the loop: it is computed on a copy.
        let answered = tokio::task::spawn_blocking(move || {
            let answer = question.answer();
            drop(permit);
            answer
        });
        let answered = answered
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(DescribeAdmissionResponse {
            admission: Some(admission::to_wire(&answered)),
        }))
    }

    async fn describe_cluster_work(
        &self,
        request: Request<DescribeClusterWorkRequest>,
    ) -> Result<Response<DescribeClusterWorkResponse>, Status> {
        let question = ClusterQuestion::from_wire(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (answer, work) = oneshot::channel();
        let query = PictureQuery::ClusterWork(question, answer);
        let work = self.ask(Input::Query(query), work).await?;
        Ok(Response::new(DescribeClusterWorkResponse {
            work: Some(cluster_work::to_wire(&work)),
        }))
    }

    async fn describe_progress(
        &self,
        request: Request<DescribeProgressRequest>,
    ) -> Result<Response<DescribeProgressResponse>, Status> {
        let jobs = request.into_inner().jobs;
        if jobs.len() > MOST_JOBS {
            let most = format!("jobs: at most {MOST_JOBS}");
            return Err(Status::invalid_argument(most));
        }
        let jobs: Result<Vec<JobId>, Status> = jobs.iter().map(|id| job_id(id)).collect();
        let (answer, rows) = oneshot::channel();
        let query = PictureQuery::Unstored(jobs?, self.clock.now(), answer);
        let rows = self.ask(Input::Query(query), rows).await?;
        Ok(Response::new(DescribeProgressResponse {
            progress: rows.iter().map(Wire::to_wire).collect(),
        }))
    }

    async fn check_instances(
        &self,
        request: Request<CheckInstancesRequest>,
    ) -> Result<Response<CheckInstancesResponse>, Status> {
        let wanted = WantedInstances::from_wire(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (answer, checked) = oneshot::channel();
        let checked = self.ask(Input::CheckInstances(wanted, answer), checked).await?;
        Ok(Response::new(CheckInstancesResponse {
            exceeded: checked.err().map(|exceeded| exceeded.to_wire()),
        }))
    }
}

fn job_id(bytes: &[u8]) -> Result<JobId, Status> {
    let id: Result<[u8; 16], _> = bytes.try_into();
    let id = id.map_err(|_| Status::invalid_argument("a job's id must be 16 bytes"))?;
    Ok(JobId(u128::from_be_bytes(id)))
}
