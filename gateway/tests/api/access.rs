//! Requests that show a driver's token, over gRPC, JSON and to pages.

use crate::http::ask;
use crate::world::{HELLO, World};
use echelon_core_model::JobId;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::token::TokenKey;
use echelon_proto::echelon::v1;
use tonic::{Code, Request};
use v1::instance_service_client::InstanceServiceClient;
use v1::job_service_client::JobServiceClient;

/// The key that the gateway has made.
async fn key(world: &World) -> TokenKey {
    loop {
        let read = world.store.read(Query::Control, Consistency::Serial).await;
        if let Ok(Answer::Control(control)) = read.map(|r| r.answer)
            && let Some(key) = control.token_key
        {
            return key;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A job of this name, and the token of its driver.
async fn submit(world: &World, name: &str) -> String {
    let body = HELLO.replace("\"hello\"", &format!("\"{name}\""));
    let made = world.change("POST", "/v1/jobs", &body).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let id: JobId = made.json()["jobId"].as_str().unwrap().parse().unwrap();
    key(world).await.sign(id).unwrap()
}

async fn with(world: &World, token: &str, verb: &str, path: &str, body: &str) -> crate::http::Answer {
    let shown = format!("Bearer {token}");
    let headers = [
        ("content-type", "application/json"),
        ("authorization", shown.as_str()),
    ];
    ask(world.address, verb, path, &headers, body).await
}

#[tokio::test]
async fn a_token_is_good_for_its_own_job_and_nothing_else() {
    let world = World::start().await;
    let token = submit(&world, "mine").await;
    submit(&world, "other").await;
    let scale = r#"{"instances": 3}"#;
    for (verb, path, body, status) in [
        ("GET", "/v1/jobs/mine", "", 200),
        ("GET", "/v1/jobs/mine/instances", "", 200),
        ("POST", "/v1/jobs/mine:scale", scale, 200),
        ("POST", "/v1/jobs/other:scale", scale, 403),
        ("GET", "/v1/jobs/other", "", 403),
        ("GET", "/v1/jobs", "", 403),
        ("GET", "/v1/pools", "", 403),
        ("POST", "/v1/jobs", HELLO, 403),
        ("DELETE", "/v1/jobs/mine", "", 403),
        ("GET", "/", "", 403),
        ("GET", "/metrics", "", 403),
        ("POST", "/v1/jobs/mine:stop", "{}", 200),
    ] {
        let answer = with(&world, &token, verb, path, body).await;
        assert_eq!(answer.status, status, "{verb} {path}: {}", answer.body);
    }
    let forged = with(&world, "ech1.a.b", "GET", "/v1/jobs/mine", "").await;
    assert_eq!(forged.status, 401, "{}", forged.body);
    let open = world.get("/v1/jobs/other").await;
    assert_eq!(open.status, 200, "without a token all is as before");
    assert!(!world.get("/v1/jobs/mine").await.body.contains("ech1."));
    assert!(
        !world.get("/v1/control").await.body.contains("oken"),
        "the key is not shown"
    );
}

#[tokio::test]
async fn the_same_holds_over_grpc() {
    let world = World::start().await;
    let token = submit(&world, "mine").await;
    submit(&world, "other").await;
    let mut jobs = JobServiceClient::new(world.channel().await);
    let shown = |job: &str| {
        let mut request = Request::new(v1::ScaleJobRequest {
            name: format!("jobs/{job}"),
            instances: Some(2),
            ..Default::default()
        });
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        request
    };
    assert!(jobs.scale_job(shown("mine")).await.is_ok());
    let refused = jobs.scale_job(shown("other")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let mut list = Request::new(v1::ListJobsRequest::default());
    list.metadata_mut()
        .insert("authorization", format!("Bearer {token}").parse().unwrap());
    assert_eq!(
        jobs.list_jobs(list).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    let mut basic = Request::new(v1::ListJobsRequest::default());
    basic
        .metadata_mut()
        .insert("authorization", "Basic eA==".parse().unwrap());
    assert_eq!(
        jobs.list_jobs(basic).await.unwrap_err().code(),
        Code::Unauthenticated
    );
}

#[tokio::test]
async fn endpoints_are_watched_with_the_token_of_their_job() {
    let world = World::start().await;
    let token = submit(&world, "mine").await;
    submit(&world, "other").await;
    let mut instances = InstanceServiceClient::new(world.channel().await);
    let shown = |job: &str| {
        let mut request = Request::new(v1::WatchEndpointsRequest {
            parent: format!("jobs/{job}"),
            ..Default::default()
        });
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        request
    };
    assert!(instances.watch_endpoints(shown("mine")).await.is_ok());
    let refused = instances.watch_endpoints(shown("other")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_token_of_before_the_key_was_changed_is_good_until_it_is_changed_again() {
    let world = World::start().await;
    let token = submit(&world, "mine").await;
    let looks = async |token: &str| with(&world, token, "GET", "/v1/jobs/mine", "").await.status;
    let etag = world.get("/v1/control").await.json()["etag"]
        .as_str()
        .unwrap()
        .to_owned();
    let rotate = format!(r#"{{"etag": "{etag}"}}"#);
    let done = world.change("POST", "/v1/control:rotateTokenKey", &rotate).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(!done.body.contains("oken"), "the key is not shown: {}", done.body);
    let again = world.change("POST", "/v1/control:rotateTokenKey", &rotate).await;
    assert_eq!(
        again.status, 409,
        "a repeated request does it once: {}",
        again.body
    );
    let job = token.split('.').nth(1).unwrap().parse().unwrap();
    let newer = key(&world).await.sign(job).unwrap();
    assert_ne!(newer, token);
    assert_eq!((looks(&token).await, looks(&newer).await), (200, 200));
    let denied = with(&world, &newer, "POST", "/v1/control:rotateTokenKey", "{}").await;
    assert_eq!(denied.status, 403, "{}", denied.body);
    world.change("POST", "/v1/control:rotateTokenKey", "{}").await;
    assert_eq!((looks(&token).await, looks(&newer).await), (401, 200));
}
