//! A resource manager and a shard that answer as told, found through membership.

use crate::world::{HELLO, World, hello};
use echelon_core_model::Epoch;
use echelon_io_membership::{Candidacy, Member, Role, Standing};
use echelon_proto::echelon::shard::v1 as wire;
use echelon_proto::echelon::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use v1::job_service_client::JobServiceClient;
use wire::resource_manager_service_server::{ResourceManagerService, ResourceManagerServiceServer};

struct Manager {
    hints: mpsc::UnboundedSender<wire::HintRequest>,
}

#[tonic::async_trait]
impl ResourceManagerService for Manager {
    async fn hint(
        &self,
        request: Request<wire::HintRequest>,
    ) -> Result<Response<wire::HintResponse>, Status> {
        self.hints.send(request.into_inner()).unwrap();
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
}

async fn lead(world: &World) -> (mpsc::UnboundedReceiver<wire::HintRequest>, Candidacy) {
    let (hints, told) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder()
        .add_service(ResourceManagerServiceServer::new(Manager { hints }))
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
