//! Streams and operator calls of a cluster with virtual tasks.

use crate::client::{Framework, config, get, operate, send, task, whole};
use bytes::Bytes;
use echelon_io_mesos_sim::Span;
use echelon_io_mesos_sim::{Mode, Running, Virtual, serve};
use echelon_io_process::Shutdown;
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::scheduler::event;
use http_body_util::{BodyExt as _, Full};
use std::time::Duration;

async fn virtual_cluster() -> (Running, Shutdown) {
    let shutdown = Shutdown::new(Duration::from_secs(5));
    let quick = Virtual {
        start_delay: Span::millis(1),
        runtime: Some(Span::millis(5)),
        term_delay: Span::millis(1),
    };
    (
        serve(config(Mode::Virtual(quick)), &shutdown).await.unwrap(),
        shutdown,
    )
}

#[tokio::test]
async fn virtual_tasks_live_their_time_without_processes() {
    let (running, _shutdown) = virtual_cluster().await;
    assert!(running.agents.is_empty());
    let mut framework = Framework::subscribe(running.address, None).await;
    framework.launch(task("virtual", "true")).await;
    framework.state("virtual", TaskState::TaskRunning).await;
    framework.state("virtual", TaskState::TaskFinished).await;
}

#[tokio::test]
async fn a_second_subscription_ends_the_first() {
    let (running, _shutdown) = virtual_cluster().await;
    let mut old = Framework::subscribe(running.address, None).await;
    let mut new = Framework::subscribe(running.address, Some(&old.id)).await;
    assert_eq!(
        old.event(event::Type::Error).await.error.unwrap().message,
        "Framework failed over"
    );
    assert_eq!(old.next().await, None);
    let kill = old
        .call(
            echelon_proto::mesos::v1::scheduler::call::Type::Revive,
            Default::default(),
        )
        .await;
    assert_eq!(kill.status, 400);
    assert!(kill.text().starts_with("The stream ID '"), "{}", kill.text());
    new.offer().await;
}

#[tokio::test]
async fn a_broken_connection_disconnects_the_framework() {
    let (running, _shutdown) = virtual_cluster().await;
    let framework = Framework::subscribe(running.address, None).await;
    let id = framework.id.clone();
    drop(framework);
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let state = operate(running.address, r#"{"type":"GET_FRAMEWORKS"}"#)
                .await
                .text();
            assert!(state.contains(&id.value), "{state}");
            if state.contains(r#""connected":false"#) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited
        .await
        .expect("the master does not see the broken connection");
    Framework::subscribe(running.address, Some(&id))
        .await
        .offer()
        .await;
}

#[tokio::test]
async fn json_streams_are_json() {
    let (running, _shutdown) = virtual_cluster().await;
    let body = r#"{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"nobody","name":"json"}}}"#;
    let request = http::Request::post("/api/v1/scheduler")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let mut response = send(running.address, request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["transfer-encoding"], "chunked");
    let first = response
        .body_mut()
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    let text = String::from_utf8(first.to_vec()).unwrap();
    let (length, record) = text.split_once('\n').unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), record.len());
    let event: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!(event["type"], "SUBSCRIBED");
    assert_eq!(event["subscribed"]["heartbeat_interval_seconds"], 15.0);
}

#[tokio::test]
async fn operators_see_the_state_and_mark_agents_gone() {
    let (running, _shutdown) = virtual_cluster().await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let offer = framework.offer().await;
    let state = operate(running.address, r#"{"type":"GET_STATE"}"#).await.text();
    assert!(state.contains(r#""hostname":"alpha-host-0""#), "{state}");
    let gone = format!(
        r#"{{"type":"MARK_AGENT_GONE","mark_agent_gone":{{"agent_id":{{"value":"{}"}}}}}}"#,
        offer.agent_id.value
    );
    assert_eq!(operate(running.address, &gone).await.status, 200);
    let failure = framework.event(event::Type::Failure).await.failure.unwrap();
    assert_eq!(failure.agent_id, Some(offer.agent_id));
    for (body, status) in [
        (r#"{"type":"GET_HEALTH"}"#, 200),
        (r#"{"type":"GET_MASTER"}"#, 200),
        (r#"{"type":"GET_AGENTS"}"#, 200),
        (r#"{"type":"UPDATE_WEIGHTS"}"#, 501),
        (r#"{"type":"MARK_AGENT_GONE"}"#, 400),
        (
            r#"{"type":"MARK_AGENT_GONE","mark_agent_gone":{"agent_id":{"value":"nobody"}}}"#,
            404,
        ),
        (r#"{"type":"MARK_AGENT_GONE","mark_agent_gone":{}}"#, 400),
        ("{}", 400),
        ("nonsense", 400),
    ] {
        let answer = operate(running.address, body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
}

#[tokio::test]
async fn redirects_name_the_master() {
    let (running, _shutdown) = virtual_cluster().await;
    for path in ["/redirect", "/master/redirect"] {
        let answer = get(running.address, path).await;
        assert_eq!(answer.status, 307);
        assert_eq!(answer.headers["location"], format!("//{}", running.address));
    }
    assert_eq!(get(running.address, "/nowhere").await.status, 404);
    let request = http::Request::get("/api/v1").body(Full::default()).unwrap();
    assert_eq!(whole(send(running.address, request).await).await.status, 405);
}

#[tokio::test]
async fn faults_are_asked_for_over_http() {
    let (running, _shutdown) = virtual_cluster().await;
    let mut framework = Framework::subscribe(running.address, None).await;
    let offer = framework.offer().await;
    let host = offer.hostname.clone();
    let ask = async |body: String| fault(running.address, body).await;
    for (body, status) in [
        ("{}".to_owned(), 400),
        (r#"{"fault": "rain"}"#.to_owned(), 400),
        (r#"{"fault": "stall", "ms": 1, "agent": "x"}"#.to_owned(), 400),
        (r#"{"fault": "agent_lost", "agent": "nobody"}"#.to_owned(), 404),
        (
            r#"{"fault": "updates", "delay_ms": 5, "jitter_ms": 5, "twice_per_mille": 100}"#.to_owned(),
            200,
        ),
        (
            format!(r#"{{"fault": "agent_lost", "agent": "{host}", "tasks_live": true}}"#),
            200,
        ),
        (
            format!(
                r#"{{"fault": "agent_returned", "agent": "{}"}}"#,
                offer.agent_id.value
            ),
            200,
        ),
    ] {
        let answer = ask(body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
    let rescind = framework.event(event::Type::Rescind).await;
    assert!(rescind.rescind.is_some());
    ask(r#"{"fault": "master_failover", "registry": "fresh"}"#.to_owned()).await;
    while framework.next().await.is_some() {}
    Framework::subscribe(running.address, Some(&framework.id))
        .await
        .offer()
        .await;
}

async fn fault(address: std::net::SocketAddr, body: String) -> crate::client::Answer {
    let request = http::Request::post("/sim/v1/faults")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    whole(send(address, request).await).await
}
