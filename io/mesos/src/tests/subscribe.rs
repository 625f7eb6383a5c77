use super::net::{Answer, Net};
use super::{Shard, config, error, heartbeat, kill, subscribed};
use crate::{Credential, Timing};
use echelon_core_hosts::{Call, Event, Refusal};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_redirect_is_followed_and_calls_go_to_the_leader() {
    let net = Net::with(&["m1:5050", "m2:5051"]);
    net.answer("m1:5050", Answer::Redirect("//m2:5051/master/api/v1/scheduler"));
    let _stream = net.stream("m2:5051", subscribed());
    let mut shard = Shard::over(&net, config("m1,m2:1"));
    shard
        .say(Call::Subscribe {
            framework: Some("f-0001".to_owned()),
        })
        .await;
    shard.hear_subscribed().await;
    net.answer("m2:5051", Answer::Text(400, "no"));
    shard.say(kill("t")).await;
    shard.hear_failed().await;
    let seen = net.look(|s| format!("{}{}", s.authority, s.path));
    assert_eq!(
        seen,
        [
            "m1:5050/api/v1/scheduler",
            "m2:5051/master/api/v1/scheduler",
            "m2:5051/master/api/v1/scheduler"
        ]
    );
    let ids = net.look(|s| s.call().framework_id.map(|id| id.value));
    assert!(ids.iter().all(|id| id.as_deref() == Some("f-0001")), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_redirect_in_a_circle_ends() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    for _ in 0..9 {
        net.answer("m1:5050", Answer::Redirect("//m2:5050/x"));
        net.answer("m2:5050", Answer::Redirect("//m1:5050/x"));
    }
    let mut shard = Shard::over(&net, config("m1"));
    shard.subscribe().await;
    let why = shard.hear_disconnected().await;
    assert!(why.contains("too many redirects"), "{why}");
    assert_eq!(net.look(|_| ()).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn masters_are_tried_in_order_and_the_last_leader_first() {
    let net = Net::with(&["m1:5050", "m2:5050", "m3:5050"]);
    net.answer("m1:5050", Answer::Text(503, "Master has not finished recovery"));
    net.answer("m2:5050", Answer::Redirect("ftp://nowhere"));
    drop(net.stream("m3:5050", subscribed()));
    net.answer("m3:5050", Answer::Text(503, "No leader elected"));
    drop(net.stream("m1:5050", subscribed()));
    let mut shard = Shard::over(&net, config("m1,m2,m0,m3"));
    for _ in 0..2 {
        shard.subscribe().await;
        shard.hear_subscribed().await;
        assert_eq!(shard.hear_disconnected().await, "the event stream ended");
    }
    let seen = net.look(|s| s.authority.clone());
    assert_eq!(seen, ["m1:5050", "m2:5050", "m3:5050", "m3:5050", "m1:5050"]);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_leads_it_is_said_of_each_master() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    net.answer("m1:5050", Answer::Text(503, "Master has not finished recovery\n"));
    net.answer("m2:5050", Answer::Cut);
    let mut shard = Shard::over(&net, config("m1,m2,m3"));
    shard.subscribe().await;
    let why = shard.hear_disconnected().await;
    let (first, rest) = why.split_once("; ").unwrap();
    assert_eq!(first, "m1:5050: 503 Master has not finished recovery");
    assert!(rest.starts_with("m2:5050: the connection broke"), "{why}");
    assert!(
        why.ends_with("m3:5050: connecting failed: connection refused"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_in_a_row_are_slowed_down_and_the_first_is_not() {
    let net = Net::with(&["m1:5050"]);
    let mut shard = Shard::over(&net, config("m1"));
    let Timing {
        first_wait,
        longest_wait,
        ..
    } = Timing::usual();
    let mut waits = Vec::new();
    for n in 0..12u32 {
        net.answer("m1:5050", Answer::Text(503, ""));
        let before = Instant::now();
        shard.subscribe().await;
        shard.hear_disconnected().await;
        let bound = first_wait
            .saturating_mul(1 << n.saturating_sub(1))
            .min(longest_wait);
        waits.push(before.elapsed());
        assert!(
            before.elapsed() <= bound + std::time::Duration::from_millis(2),
            "attempt {n}"
        );
    }
    assert_eq!(waits[0].as_millis(), 0);
    assert!(waits[1..].iter().any(|w| *w > first_wait), "{waits:?}");
    drop(net.stream("m1:5050", subscribed()));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    shard.hear_disconnected().await;
    net.answer("m1:5050", Answer::Text(503, ""));
    let before = Instant::now();
    shard.subscribe().await;
    shard.hear_disconnected().await;
    assert!(
        before.elapsed() <= first_wait + std::time::Duration::from_millis(2),
        "a success begins a new row"
    );
}

#[tokio::test(start_paused = true)]
async fn what_would_be_refused_again_is_told_as_refused() {
    for (status, text) in [
        (
            400,
            "Failed to validate scheduler::Call: Expecting 'framework_id' to be present",
        ),
        (401, "401 Unauthorized."),
        (403, "not authorized"),
        (
            415,
            "Expecting 'Content-Type' of application/json or application/x-protobuf",
        ),
    ] {
        let net = Net::with(&["m1:5050", "m2:5050"]);
        net.answer("m1:5050", Answer::Text(status, text));
        let mut shard = Shard::over(&net, config("m1,m2"));
        shard.subscribe().await;
        assert_eq!(
            shard.hear_refused().await,
            (format!("m1:5050: {status} {text}"), Refusal::Wrong)
        );
        assert_eq!(net.look(|_| ()).len(), 1, "the other master is not asked");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_event_refuses_or_supersedes() {
    let net = Net::with(&["m:5050"]);
    let mut shard = Shard::over(&net, config("m"));
    drop(net.stream("m:5050", error("Framework has been removed")));
    shard.subscribe().await;
    assert_eq!(
        shard.hear_refused().await,
        ("Framework has been removed".to_owned(), Refusal::Removed)
    );
    drop(
        net.stream(
            "m:5050",
            [
                subscribed(),
                heartbeat(),
                error("Framework failed over"),
                heartbeat(),
            ]
            .concat(),
        ),
    );
    shard.subscribe().await;
    shard.hear_subscribed().await;
    assert_eq!(shard.hear().await, Event::Heartbeat);
    assert_eq!(
        shard.hear_refused().await,
        ("Framework failed over".to_owned(), Refusal::Superseded)
    );
    // Nothing more comes by itself, and calls are refused.
    shard.say(Call::Revive).await;
    assert_eq!(shard.hear_failed().await, (Call::Revive, true));
    assert_eq!(net.look(|_| ()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn something_else_that_answers_is_found_out() {
    let stream = ("mesos-stream-id", "s");
    let kind = ("content-type", "application/x-protobuf");
    for (headers, body, hint) in [
        (vec![kind], subscribed(), "stream id ``"),
        (
            vec![stream, ("content-type", "application/json")],
            subscribed(),
            "content type `application/json`",
        ),
        (vec![stream, kind], heartbeat(), "neither SUBSCRIBED nor ERROR"),
        (
            vec![stream, kind],
            b"<html>\n".to_vec(),
            "expected a record's length",
        ),
        (
            vec![stream, kind],
            b"5\n{\"a\":".to_vec(),
            "cannot be read as protobuf",
        ),
    ] {
        let net = Net::with(&["m:5050"]);
        net.answer("m:5050", Answer::Body(headers, body));
        let mut shard = Shard::over(&net, config("m"));
        shard.subscribe().await;
        let why = shard.hear_disconnected().await;
        assert!(why.contains(hint), "{hint}: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_subscription_takes_the_place_of_the_open_one() {
    let net = Net::with(&["m:5050"]);
    let first = net.stream("m:5050", subscribed());
    let mut shard = Shard::over(&net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    let _second = net.stream("m:5050", [subscribed(), heartbeat()].concat());
    shard.subscribe().await;
    shard.hear_subscribed().await;
    first.closed().await;
    assert_eq!(shard.hear().await, Event::Heartbeat);
}

#[tokio::test(start_paused = true)]
async fn credentials_go_with_every_request_and_are_not_shown() {
    let net = Net::with(&["m:5050"]);
    let _stream = net.stream("m:5050", subscribed());
    net.answer("m:5050", Answer::Text(400, "no"));
    let credential = Credential {
        principal: "rec".to_owned(),
        secret: "s3cret".to_owned(),
    };
    assert!(!format!("{credential:?}").contains("s3cret"));
    let mut shard = Shard::over(
        &net,
        crate::Config {
            credential: Some(credential),
            ..config("m")
        },
    );
    shard.subscribe().await;
    shard.hear_subscribed().await;
    shard.say(Call::Revive).await;
    shard.hear_failed().await;
    assert_eq!(
        net.look(|s| s.header("authorization").to_owned()),
        ["Basic cmVjOnMzY3JldA=="; 2]
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_shard_closes_the_stream_and_tears_nothing_down() {
    let net = Net::with(&["m:5050"]);
    let stream = net.stream("m:5050", subscribed());
    let mut shard = Shard::over(&net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    let Shard { calls, mut events } = shard;
    drop(calls);
    stream.closed().await;
    assert_eq!(events.recv().await, None);
    assert_eq!(net.look(|_| ()).len(), 1);
}

#[tokio::test]
async fn masters_are_reached_over_tcp() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let master = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 4096];
        let n = stream.read(&mut asked).await.unwrap();
        let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 17\r\n\r\nNo leader elected";
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&asked[..n]).into_owned()
    });
    let (calls, called) = tokio::sync::mpsc::channel(1);
    let (told, mut events) = tokio::sync::mpsc::channel(1);
    crate::spawn(config(&address.to_string()), called, told);
    calls.send(Call::Subscribe { framework: None }).await.unwrap();
    let why = format!("{address}: 503 No leader elected");
    assert_eq!(events.recv().await, Some(Event::Disconnected { why }));
    assert!(
        master
            .await
            .unwrap()
            .starts_with("POST /api/v1/scheduler HTTP/1.1\r\n")
    );
}
