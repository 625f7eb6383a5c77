use super::net::Net;
use super::{Shard, config, heartbeat, subscribed};
use crate::{Config, Limits};
use bytes::Bytes;
use echelon_core_hosts::{Call, Event};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_dropped_after_five_heartbeats() {
    let net = Net::with(&["m:5050"]);
    let stream = net.stream("m:5050", subscribed());
    let mut shard = Shard::over(&net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    for _ in 0..4 {
        sleep(Duration::from_secs(74)).await;
        stream.send(Bytes::from(heartbeat())).unwrap();
        assert_eq!(shard.hear().await, Event::Heartbeat);
    }
    let last = Instant::now();
    // Half an event is no sign of life.
    sleep(Duration::from_secs(60)).await;
    stream.send(Bytes::from_static(b"100\nabc")).unwrap();
    let why = shard.hear_disconnected().await;
    assert!(why.starts_with("no event and no heartbeat for 75s"), "{why}");
    assert_eq!(last.elapsed().as_secs(), 75);
    stream.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_master_that_never_answers_is_given_up() {
    let net = Net::with(&["m1:5050"]);
    net.answer("m1:5050", super::net::Answer::Hang);
    let mut shard = Shard::over(&net, config("m1"));
    shard.subscribe().await;
    assert_eq!(shard.hear_disconnected().await, "m1:5050: no answer within 75s");
    let _silent = net.stream("m1:5050", Vec::new());
    shard.subscribe().await;
    let why = shard.hear_disconnected().await;
    assert!(why.starts_with("no event and no heartbeat for 75s"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_fault_is_heard_and_then_the_fault() {
    let limits = Limits {
        event_bytes: 1_000,
        ..Limits::usual()
    };
    for (bytes, hint) in [
        (
            &b"12x\n"[..],
            "expected a record's length in the event stream, found `12x`",
        ),
        (
            b"1001\n",
            "a record of 1001 bytes in the event stream exceeds the bound of 1000 bytes",
        ),
        (b"99999999999999999999999999\n", "expected a record's length"),
        (b"3\n\xff\xff\xff", "an event cannot be read as protobuf"),
        (b"3\nab", "ended in the middle of an event"),
        (b"", "the event stream ended"),
    ] {
        let net = Net::with(&["m:5050"]);
        drop(net.stream("m:5050", [&subscribed(), &heartbeat(), bytes].concat()));
        let mut shard = Shard::over(
            &net,
            Config {
                limits,
                ..config("m")
            },
        );
        shard.subscribe().await;
        shard.hear_subscribed().await;
        assert_eq!(shard.hear().await, Event::Heartbeat);
        let why = shard.hear_disconnected().await;
        assert!(why.contains(hint), "{hint}: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_events_are_skipped() {
    let net = Net::with(&["m:5050"]);
    // An event of type 99 with a field that nobody knows.
    let unknown = b"8\n\x08\x63\xba\x06\x03new".to_vec();
    assert_eq!(unknown.len(), 10);
    drop(net.stream("m:5050", [subscribed(), unknown, heartbeat()].concat()));
    let mut shard = Shard::over(&net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    assert_eq!(shard.hear().await, Event::Heartbeat);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_keep_up_loses_the_stream_not_the_master() {
    let net = Net::with(&["m:5050"]);
    let limits = Limits {
        events: 10,
        ..Limits::usual()
    };
    let stream = net.stream("m:5050", subscribed());
    let mut shard = Shard::with_room(
        &net,
        Config {
            limits,
            ..config("m")
        },
        1,
    );
    shard.subscribe().await;
    for _ in 0..1_000 {
        drop(stream.send(Bytes::from(heartbeat())));
    }
    // The stream is closed although nobody has read anything.
    stream.closed().await;
    shard.hear_subscribed().await;
    let mut heard = 0;
    let why = loop {
        match shard.hear().await {
            Event::Heartbeat => heard += 1,
            Event::Disconnected { why } => break why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        why,
        "more than 10 events wait to be taken in; the stream is dropped rather than left unread"
    );
    assert!((10..=12).contains(&heard), "{heard}");
    shard.say(Call::Revive).await;
    assert_eq!(shard.hear_failed().await, (Call::Revive, true));
}
