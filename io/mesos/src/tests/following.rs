//! Subscriptions at the master that ZooKeeper names. What ZooKeeper tells is said by the test.

use super::net::{Answer, Net};
use super::{Shard, config, heartbeat, subscribed};
use crate::leaders::{Leader, Leaders, Sighting};
use bytes::Bytes;
use echelon_core_hosts::Event;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

fn led(number: u32, master: &str) -> Sighting {
    Sighting::Led(Leader {
        node: format!("json.info_{number:010}"),
        endpoint: master.parse().unwrap(),
    })
}

fn follow(net: &Net, first: Sighting) -> (Shard, watch::Sender<Sighting>) {
    let (zookeeper, seen) = watch::channel(first);
    let (calls, called) = mpsc::channel(1_000);
    let (told, events) = mpsc::channel(1_000);
    let config = config("zk://z/mesos-of-a-test");
    crate::connection::spawn_at(
        Leaders::Followed(seen),
        Arc::new(net.clone()),
        config,
        (called, told),
    );
    (Shard { calls, events }, zookeeper)
}

#[tokio::test(start_paused = true)]
async fn a_subscription_waits_for_a_leader_and_goes_there() {
    let net = Net::with(&["m1:5050"]);
    let (mut shard, zookeeper) = follow(&net, Sighting::looking("none contends"));
    shard.subscribe().await;
    sleep(Duration::from_secs(10)).await;
    assert!(net.look(|_| ()).is_empty());
    let _stream = net.stream("m1:5050", subscribed());
    zookeeper.send_replace(led(1, "m1:5050"));
    shard.hear_subscribed().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_the_attempt_ends_and_says_why() {
    let net = Net::with(&[]);
    let (mut shard, _zookeeper) = follow(&net, Sighting::looking("ZooKeeper: no answer within 10s"));
    let before = Instant::now();
    shard.subscribe().await;
    assert_eq!(shard.hear_disconnected().await, "ZooKeeper: no answer within 10s");
    assert_eq!(before.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_ends_the_stream_of_the_old_one_at_once() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    let (mut shard, zookeeper) = follow(&net, led(1, "m1:5050"));
    let old = net.stream("m1:5050", subscribed());
    shard.subscribe().await;
    shard.hear_subscribed().await;
    let before = Instant::now();
    zookeeper.send_replace(led(2, "m2:5050"));
    assert_eq!(
        shard.hear_disconnected().await,
        "another master leads, says ZooKeeper: m2:5050"
    );
    old.closed().await;
    assert_eq!(before.elapsed().as_millis(), 0);
    let _new = net.stream("m2:5050", subscribed());
    shard.subscribe().await;
    shard.hear_subscribed().await;
    assert_eq!(net.look(|s| s.authority.clone()), ["m1:5050", "m2:5050"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_leader_leaves_an_open_stream_alone() {
    let net = Net::with(&["m1:5050"]);
    let (mut shard, zookeeper) = follow(&net, led(1, "m1:5050"));
    let stream = net.stream("m1:5050", subscribed());
    shard.subscribe().await;
    shard.hear_subscribed().await;
    for sighting in [Sighting::looking("the session is over"), led(1, "m1:5050")] {
        zookeeper.send_replace(sighting);
        sleep(Duration::from_secs(5)).await;
        stream.send(Bytes::from(heartbeat())).unwrap();
        assert_eq!(shard.hear().await, Event::Heartbeat);
    }
    // Nor does the end of what follows ZooKeeper.
    drop(zookeeper);
    stream.send(Bytes::from(heartbeat())).unwrap();
    assert_eq!(shard.hear().await, Event::Heartbeat);
}

#[tokio::test(start_paused = true)]
async fn a_dead_master_is_not_waited_for_once_another_leads() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    net.answer("m1:5050", Answer::Hang);
    let (mut shard, zookeeper) = follow(&net, led(1, "m1:5050"));
    shard.subscribe().await;
    sleep(Duration::from_secs(8)).await;
    let _stream = net.stream("m2:5050", subscribed());
    let before = Instant::now();
    zookeeper.send_replace(led(2, "m2:5050"));
    shard.hear_subscribed().await;
    assert_eq!(before.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_named_master_may_still_redirect() {
    let net = Net::with(&["m1:5050", "m2:5050"]);
    net.answer("m1:5050", Answer::Redirect("//m2:5050/master/api/v1/scheduler"));
    let _stream = net.stream("m2:5050", subscribed());
    let (mut shard, _zookeeper) = follow(&net, led(1, "m1:5050"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
}
