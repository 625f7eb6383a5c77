//! The switch that stops all kills, as every caller sees it.

use crate::world::World;
use echelon_core_model::control::Control;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Query};
use echelon_proto::echelon::v1;
use v1::control_service_client::ControlServiceClient;
use v1::job_service_client::JobServiceClient;

fn says_off(head: &str) -> bool {
    head.to_ascii_lowercase().contains("echelon-kills: off")
}

const OFF: &str = r#"{"kills": "off", "by": "ann", "why": "a <bad> release"}"#;

#[tokio::test]
async fn every_answer_and_every_page_says_that_kills_are_off() {
    let world = World::start().await;
    let before = world.get("/v1/control").await;
    assert!(!says_off(&before.head));
    assert_eq!(before.json()["kills"], "KILLS_ON");
    assert_eq!(before.json()["updateTime"], serde_json::Value::Null);
    let done = world.change("PATCH", "/v1/control", OFF).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(says_off(&done.head));
    assert_eq!(done.json()["why"], "a <bad> release");
    for path in [
        "/v1/control",
        "/v1/jobs",
        "/v1/jobs/nobody",
        "/nothing",
        "/readyz",
    ] {
        assert!(says_off(&world.get(path).await.head), "{path}");
    }
    for path in ["/", "/clusters", "/pools", "/jobs", "/jobs/nobody"] {
        let page = world.get(path).await;
        assert!(page.body.contains("Kills are off"), "{path}: {}", page.body);
        assert!(page.body.contains("a &lt;bad&gt; release"), "{path}");
    }
    let metrics = world.get("/metrics").await.body;
    assert!(metrics.contains("echelon_gateway_kills_off{"), "{metrics}");
    let on = world.change("PATCH", "/v1/control", r#"{"kills": "on"}"#).await;
    assert!(!says_off(&on.head));
    assert!(!world.get("/jobs").await.body.contains("Kills are off"));
}

#[tokio::test]
async fn answers_and_errors_over_grpc_say_it_too() {
    let world = World::start().await;
    let mut control = ControlServiceClient::new(world.channel().await);
    let off = v1::UpdateControlRequest {
        control: Some(v1::Control {
            kills: v1::Kills::Off.into(),
            ..Default::default()
        }),
    };
    let answer = control.update_control(off.clone()).await.unwrap();
    assert_eq!(answer.metadata().get("echelon-kills").unwrap(), "off");
    let mut jobs = JobServiceClient::new(world.channel().await);
    let missing = jobs
        .get_job(v1::GetJobRequest {
            name: "jobs/nobody".into(),
            spec_version: None,
        })
        .await
        .unwrap_err();
    assert_eq!(missing.metadata().get("echelon-kills").unwrap(), "off");
    let mut stale = off;
    stale.control.as_mut().unwrap().etag = "7".into();
    let refused = control.update_control(stale).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Aborted);
}

#[tokio::test]
async fn what_another_gateway_has_set_is_found() {
    let world = World::start().await;
    // The gateway may have made the key of tokens by now.
    let before = switches(&world).await;
    let expected = before.version;
    let control = Control {
        version: expected.next(),
        kills_off: true,
        ..before
    };
    let set = world
        .store
        .decide(Decision::PutControl { control, expected })
        .await;
    assert_eq!(set.unwrap(), Decided::Applied);
    // Who asks for it reads it; every other answer follows.
    let read = world.get("/v1/control").await;
    assert_eq!(read.json()["kills"], "KILLS_OFF");
    assert!(says_off(&world.get("/v1/jobs").await.head));
}

#[tokio::test]
async fn what_is_no_switch_is_refused() {
    let world = World::start().await;
    for (body, field) in [
        ("{}", "control.kills"),
        (r#"{"kills": "off", "why": "two\nlines"}"#, "control.why"),
        (r#"{"kills": "off", "by": "a\u0000b"}"#, "control.by"),
    ] {
        let refused = world.change("PATCH", "/v1/control", body).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.body);
        assert_eq!(refused.fields(), [field], "{body}");
    }
    let unknown = world
        .change("PATCH", "/v1/control", r#"{"kills": "maybe"}"#)
        .await;
    assert_eq!(unknown.status, 400, "{}", unknown.body);
    let there = switches(&world).await;
    assert!(
        !there.kills_off && there.by.is_empty() && there.why.is_empty(),
        "{there:?}"
    );
}

/// The row, once the gateway has made the key of tokens.
async fn switches(world: &World) -> Control {
    loop {
        let read = world.store.read(Query::Control, Consistency::Serial).await;
        if let Ok(Answer::Control(control)) = read.map(|r| r.answer)
            && control.token_key.is_some()
        {
            return control;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
