use super::net::{Answer, Net};
use super::{Shard, config, kill, subscribed};
use bytes::Bytes;
use echelon_core_hosts::{Call, Event, Refusal};
use echelon_core_model::HostId;
use tokio::sync::mpsc::UnboundedSender;

async fn ready(net: &Net) -> (Shard, UnboundedSender<Bytes>) {
    let stream = net.stream("m:5050", subscribed());
    let mut shard = Shard::over(net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    (shard, stream)
}

#[tokio::test(start_paused = true)]
async fn calls_arrive_in_order_over_one_connection() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = ready(&net).await;
    for n in 0..50 {
        shard.say(kill(&format!("t{n}"))).await;
    }
    for _ in 0..50 {
        net.answer("m:5050", Answer::Text(202, ""));
    }
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard.say(Call::Revive).await;
    shard.hear_failed().await;
    let killed: Vec<String> = net
        .look(|s| s.call().kill.map(|k| k.task_id.value))
        .into_iter()
        .flatten()
        .collect();
    let wanted: Vec<String> = (0..50).map(|n| format!("t{n}")).collect();
    assert_eq!(killed, wanted);
    assert_eq!(
        net.dialled(),
        2,
        "the stream and the calls have a connection each"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_master_closed_while_idle_is_opened_again() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = ready(&net).await;
    net.answer("m:5050", Answer::Last);
    net.answer("m:5050", Answer::Last);
    net.answer("m:5050", Answer::Text(400, "enough"));
    for call in [kill("a"), kill("b"), Call::Suppress] {
        shard.say(call).await;
    }
    assert_eq!(shard.hear_failed().await, (Call::Suppress, true));
    assert_eq!(net.look(|_| ()).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_leaves_the_subscription_alone() {
    for (status, text) in [
        (400, "Failed to validate scheduler::Call: Not a valid UUID"),
        (404, ""),
        (413, "too large"),
    ] {
        let net = Net::with(&["m:5050"]);
        let (mut shard, stream) = ready(&net).await;
        net.answer("m:5050", Answer::Text(status, text));
        shard.say(kill("t")).await;
        assert_eq!(shard.hear_failed().await, (kill("t"), true));
        stream.send(Bytes::from(super::heartbeat())).unwrap();
        assert_eq!(shard.hear().await, Event::Heartbeat);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_stream_id_means_that_another_took_over() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, stream) = ready(&net).await;
    let stale = "The stream ID 'x' included in this request didn't match the stream ID currently associated with framework ID y";
    net.answer("m:5050", Answer::Text(400, stale));
    shard.say(kill("t")).await;
    shard.say(Call::Revive).await;
    assert_eq!(shard.hear_failed().await, (kill("t"), true));
    // What waited behind it certainly did not leave.
    let mut rest = vec![shard.hear().await, shard.hear().await];
    rest.sort_by_key(|e| matches!(e, Event::Refused { .. }));
    assert!(
        matches!(
            &rest[0],
            Event::CallFailed {
                call: Call::Revive,
                refused: true,
                ..
            }
        ),
        "{rest:?}"
    );
    assert!(
        matches!(&rest[1], Event::Refused { cause: Refusal::Superseded, message } if message.contains("didn't match"))
    );
    stream.closed().await;
    assert_eq!(net.look(|_| ()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_does_not_know_us_any_more_ends_the_subscription() {
    for (status, text) in [
        (403, "Framework is not subscribed"),
        (401, "401 Unauthorized."),
        (400, "Framework cannot be found"),
        (503, "Master has not finished recovery"),
    ] {
        let net = Net::with(&["m:5050"]);
        let (mut shard, stream) = ready(&net).await;
        net.answer("m:5050", Answer::Text(status, text));
        shard.say(kill("t")).await;
        assert_eq!(shard.hear_failed().await, (kill("t"), true));
        let why = shard.hear_disconnected().await;
        assert_eq!(why, format!("a call was lost: m:5050: {status} {text}"));
        stream.closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_framework_that_may_not_be_updated_keeps_its_subscription() {
    for (status, text) in [
        (403, "Not authorized to update the framework"),
        (
            400,
            "FrameworkInfo update is not valid: Updating 'FrameworkInfo.user' is unsupported",
        ),
        (409, "Framework cannot be found"),
    ] {
        let net = Net::with(&["m:5050"]);
        let (mut shard, stream) = ready(&net).await;
        net.answer("m:5050", Answer::Text(status, text));
        shard.say(Call::UpdateFramework).await;
        assert_eq!(shard.hear_failed().await, (Call::UpdateFramework, true));
        stream.send(Bytes::from(super::heartbeat())).unwrap();
        assert_eq!(shard.hear().await, Event::Heartbeat);
        let update = net.look(|s| s.call().update_framework).pop().flatten().unwrap();
        assert_eq!(update.framework_info.id.unwrap().value, "f-0001");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_unknown_outcome_is_told_as_such() {
    for (answer, hint) in [
        (Answer::Hang, "no answer within 75s"),
        (Answer::Cut, "the connection broke"),
        (Answer::Text(500, "oops"), "500 oops"),
    ] {
        let net = Net::with(&["m:5050"]);
        let (mut shard, stream) = ready(&net).await;
        net.answer("m:5050", answer);
        shard.say(kill("a")).await;
        shard.say(kill("b")).await;
        if hint.starts_with("no answer") {
            // The stream lives meanwhile.
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            stream.send(Bytes::from(super::heartbeat())).unwrap();
            assert_eq!(shard.hear().await, Event::Heartbeat);
        }
        assert_eq!(shard.hear_failed().await, (kill("a"), false), "{hint}");
        assert_eq!(
            shard.hear_failed().await,
            (kill("b"), true),
            "{hint}: it did not leave"
        );
        let why = shard.hear_disconnected().await;
        assert!(why.contains(hint), "{hint}: {why}");
        stream.closed().await;
        assert_eq!(net.look(|_| ()).len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_tells_what_became_of_calls() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, stream) = ready(&net).await;
    net.answer("m:5050", Answer::Hang);
    shard.say(kill("a")).await;
    shard.say(kill("b")).await;
    // The first is under way when the master has seen it.
    while net.look(|_| ()).len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    assert_eq!(shard.hear_failed().await, (kill("a"), false));
    assert_eq!(shard.hear_failed().await, (kill("b"), true));
    assert_eq!(shard.hear_disconnected().await, "the event stream ended");
}

#[tokio::test(start_paused = true)]
async fn without_a_subscription_no_call_is_made() {
    let net = Net::with(&["m:5050"]);
    let mut shard = Shard::over(&net, config("m"));
    shard.say(kill("t")).await;
    assert_eq!(shard.hear_failed().await, (kill("t"), true));
    // Nor before the first event of the stream.
    let stream = net.stream("m:5050", Vec::new());
    shard.subscribe().await;
    shard.say(Call::Revive).await;
    assert_eq!(shard.hear_failed().await, (Call::Revive, true));
    stream.send(Bytes::from(subscribed())).unwrap();
    shard.hear_subscribed().await;
    assert_eq!(net.look(|_| ()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_without_an_answer_holds_no_call_up() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = ready(&net).await;
    net.answer("m:5050", Answer::Hang);
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard
        .say(Call::Acknowledge {
            task: "t".to_owned(),
            host: HostId::new("a"),
            uuid: [7; 16],
        })
        .await;
    // The acknowledgement leaves first.
    while net.look(|_| ()).len() < 2 {
        tokio::task::yield_now().await;
    }
    shard.say(kill("t")).await;
    assert_eq!(shard.hear_failed().await, (kill("t"), true));
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_may_wait_leave_without_any_event() {
    let net = Net::with(&["m:5050"]);
    let stream = net.stream("m:5050", subscribed());
    let mut few = config("m");
    few.limits.calls = 5;
    let mut shard = Shard::over(&net, few);
    shard.subscribe().await;
    shard.hear_subscribed().await;
    for n in 0..50 {
        net.answer("m:5050", Answer::Text(202, ""));
        shard.say(kill(&format!("t{n}"))).await;
    }
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard.say(Call::Revive).await;
    assert_eq!(shard.hear_failed().await, (Call::Revive, true));
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_operator_api_have_their_own_path_and_their_answer_is_told() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = ready(&net).await;
    let host = HostId::new("a");
    let calls = [
        Call::DrainAgent { host: host.clone() },
        Call::ReactivateAgent { host },
    ];
    for call in calls.clone() {
        net.answer("m:5050", Answer::Text(200, ""));
        shard.say(call.clone()).await;
        assert_eq!(shard.hear().await, Event::Operated(call));
    }
    let seen = net.look(|s| {
        let text = String::from_utf8_lossy(&s.body).into_owned();
        (
            s.path.clone(),
            s.header("content-type").to_owned(),
            s.header("mesos-stream-id").to_owned(),
            text,
        )
    });
    let sent = |body: &str| {
        (
            "/api/v1".to_owned(),
            "application/json".to_owned(),
            String::new(),
            body.to_owned(),
        )
    };
    assert_eq!(
        seen[1..],
        [
            sent(r#"{"drain_agent":{"agent_id":{"value":"a"}},"type":"DRAIN_AGENT"}"#),
            sent(r#"{"reactivate_agent":{"agent_id":{"value":"a"}},"type":"REACTIVATE_AGENT"}"#),
        ]
    );
    for status in [400, 404] {
        net.answer("m:5050", Answer::Text(status, "Agent not found"));
        shard.say(calls[1].clone()).await;
        assert_eq!(
            shard.hear().await,
            Event::Operated(calls[1].clone()),
            "it is gone"
        );
    }
    for status in [401, 403] {
        net.answer("m:5050", Answer::Text(status, "no"));
        shard.say(calls[1].clone()).await;
        assert_eq!(
            shard.hear_failed().await,
            (calls[1].clone(), true),
            "it may be drained"
        );
    }
    // Also when it needs a permission that we have not: the subscription is not touched by it.
    for status in [400, 401, 403, 404] {
        net.answer("m:5050", Answer::Text(status, "no"));
        shard.say(calls[0].clone()).await;
        assert_eq!(shard.hear_failed().await, (calls[0].clone(), true));
    }
    net.answer("m:5050", Answer::Text(400, "Not a valid UUID"));
    shard.say(kill("t")).await;
    assert_eq!(shard.hear_failed().await, (kill("t"), true));
}
