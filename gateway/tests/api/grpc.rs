//! gRPC.

use crate::world::{World, hello};
use echelon_proto::echelon::v1;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_types::StatusExt;
use v1::instance_service_client::InstanceServiceClient;
use v1::job_service_client::JobServiceClient;
use v1::pool_service_client::PoolServiceClient;

pub(crate) fn create(request_id: &str, spec: v1::JobSpec) -> v1::CreateJobRequest {
    v1::CreateJobRequest {
        job: Some(v1::Job {
            spec: Some(spec),
            ..Default::default()
        }),
        request_id: request_id.into(),
    }
}

#[tokio::test]
async fn errors_carry_reason_and_fields() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    let mut wrong = hello();
    wrong.groups[0].command.clear();
    let refused = jobs.create_job(create("r", wrong)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "FIELD_INVALID");
    assert_eq!(
        details.bad_request().unwrap().field_violations[0].field,
        "job.spec.groups[0].command"
    );

    jobs.create_job(create("r", hello())).await.unwrap();
    let taken = jobs.create_job(create("s", hello())).await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists);
    let reused = jobs
        .create_job(create(
            "r",
            v1::JobSpec {
                priority: Some(1),
                ..hello()
            },
        ))
        .await
        .unwrap_err();
    assert_eq!(
        reused.get_error_details().error_info().unwrap().reason,
        "REQUEST_ID_REUSED"
    );
    let missing = jobs
        .create_job(v1::CreateJobRequest::default())
        .await
        .unwrap_err();
    assert_eq!(
        missing
            .get_error_details()
            .bad_request()
            .unwrap()
            .field_violations[0]
            .field,
        "job.spec"
    );
}

#[tokio::test]
async fn too_large_a_message_is_refused() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    let mut large = hello();
    large.groups[0].command = "x".repeat(1 << 20);
    let refused = jobs.create_job(create("r", large)).await.unwrap_err();
    assert!(refused.message().contains("too large"), "{refused}");
}

#[tokio::test]
async fn a_tree_of_10_000_pools_fits_into_a_request() {
    let world = World::start().await;
    let pools = PoolServiceClient::new(world.channel().await);
    let mut pools = pools.max_decoding_message_size(32 << 20);
    let pool = |n: usize| v1::PoolWish {
        pool: Some(v1::Pool {
            path: format!("/{n:0>60}"),
            max_jobs: Some(1 << 50),
            max_instances: Some(1 << 50),
            ..Default::default()
        }),
        moved_from: String::new(),
    };
    let request = |n: usize| v1::ApplyPoolsRequest {
        pools: (0..n).map(pool).collect(),
        ..Default::default()
    };
    let applied = pools.apply_pools(request(10_000)).await.unwrap().into_inner();
    assert_eq!(applied.differences.len(), 10_001, "with /default, which is gone");
    let refused = pools.apply_pools(request(10_001)).await.unwrap_err();
    assert_eq!(
        refused.message(),
        "field `pools` has more than 10000 entries, which is the most there may be"
    );
    // As JSON it is larger still, and fits.
    let body = (0..10_000).map(|n| format!(r#"{{"pool": {{"path": "/{n:0>60}", "max_jobs": "9"}}}}"#));
    let body = format!(r#"{{"pools": [{}]}}"#, body.collect::<Vec<_>>().join(", "));
    let applied = world.change("POST", "/v1/pools:apply", &body).await;
    assert_eq!(applied.status, 200);
}

#[tokio::test]
async fn specs_change_within_what_may_change() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    let mut service = hello();
    service.kind = v1::JobKind::Service.into();
    jobs.create_job(create("r", service)).await.unwrap();
    let mut update = async |spec: v1::JobSpec, mask: &[&str]| {
        let request = v1::UpdateJobRequest {
            job: Some(v1::Job {
                name: "jobs/hello".into(),
                spec: Some(spec),
                ..Default::default()
            }),
            update_mask: Some(prost_types::FieldMask {
                paths: mask.iter().map(|m| (*m).to_owned()).collect(),
            }),
        };
        jobs.update_job(request)
            .await
            .map(|r| r.into_inner().job.unwrap())
    };
    let owner = v1::JobSpec {
        owner: "me".into(),
        ..Default::default()
    };
    let job = update(owner.clone(), &["spec.owner"]).await.unwrap();
    assert_eq!(
        (job.owner.as_str(), job.spec_version, job.etag.as_str()),
        ("me", 2, "2")
    );
    let same = update(owner, &["spec.owner"]).await.unwrap();
    assert_eq!(same.etag, "2");
    let pool = v1::JobSpec {
        pool: "/other".into(),
        ..Default::default()
    };
    let refused = update(pool, &["spec.pool"]).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let violations = refused
        .get_error_details()
        .precondition_failure()
        .unwrap()
        .violations
        .clone();
    assert_eq!(
        (violations[0].r#type.as_str(), violations[0].subject.as_str()),
        ("FIELD_IMMUTABLE", "job.spec.pool")
    );

    let mut scale = async |instances| {
        let request = v1::ScaleJobRequest {
            name: "jobs/hello".into(),
            instances,
            ..Default::default()
        };
        jobs.scale_job(request)
            .await
            .map(|r| r.into_inner().job.unwrap().instances)
    };
    assert_eq!(scale(Some(0)).await.unwrap(), 0);
    assert_eq!(scale(Some(12)).await.unwrap(), 12);
    for wrong in [None, Some(10_000_001)] {
        assert_eq!(scale(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_watch_tells_changes_and_goes_on_where_it_stopped() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    jobs.create_job(create("r", hello())).await.unwrap();
    let watching = |token: String| v1::WatchJobRequest {
        name: "jobs/hello".into(),
        resume_token: token,
    };
    let mut watch = jobs
        .watch_job(watching(String::new()))
        .await
        .unwrap()
        .into_inner();
    let first = watch.next().await.unwrap().unwrap();
    assert_eq!(first.job.unwrap().etag, "1");
    let stop = v1::StopJobRequest {
        name: "jobs/hello".into(),
        ..Default::default()
    };
    jobs.stop_job(stop).await.unwrap();
    let next = watch.next().await.unwrap().unwrap();
    assert_eq!(next.job.unwrap().desired(), v1::Desired::Stopped);
    drop(watch);
    let mut again = jobs
        .watch_job(watching(next.resume_token))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(again.next().await.unwrap().unwrap().job.unwrap().etag, "2");
    let wrong = jobs.watch_job(watching("abc".into())).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);

    world.shutdown.begin();
    let end = again.next().await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
}

#[tokio::test]
async fn an_instance_that_has_not_begun_has_no_log() {
    let world = World::start().await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    jobs.create_job(create("r", hello())).await.unwrap();
    let mut instances = InstanceServiceClient::new(world.channel().await);
    let log = |number: u32| v1::ReadLogRequest {
        name: format!("jobs/hello/groups/main/instances/{number}"),
        ..Default::default()
    };
    let none = instances.read_log(log(0)).await.unwrap_err();
    assert_eq!(none.code(), Code::FailedPrecondition);
    let nobody = instances.read_log(log(8)).await.unwrap_err();
    assert_eq!(nobody.code(), Code::NotFound);
}

#[tokio::test]
async fn health_and_both_reflections_answer() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    let world = World::start().await;
    let request = HealthCheckRequest {
        service: "echelon.v1.JobService".into(),
    };
    let health = HealthClient::new(world.channel().await)
        .check(request)
        .await
        .unwrap();
    assert_eq!(health.into_inner().status, 1);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(world.channel().await)
        .server_reflection_info(tokio_stream::once(ask))
        .await
        .unwrap()
        .into_inner();
    let text = format!("{:?}", answers.next().await.unwrap().unwrap());
    assert!(
        text.contains("echelon.v1.JobService") && text.contains("grpc.health.v1.Health"),
        "{text}"
    );
    assert!(!text.contains("echelon.shard"), "{text}");
}
