//! Leaving Mesos for good, when the cluster is removed: only with nothing alive, only once it is stored, and known
//! from Mesos itself.

use crate::world::{Storage, World, c1, range, seconds};
use echelon_core_hosts::Call;
use echelon_core_model::directive::Order;
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Answer, Query};
use echelon_core_testkit::build::JobBuilder;

fn asked(w: &World) -> usize {
    w.calls.iter().filter(|call| **call == Call::TearDown).count()
}

/// Whether the last heartbeat says that it is done.
fn is_shown(w: &World) -> bool {
    match w.store.read(&Query::Heartbeats) {
        Answer::Heartbeats(rows) => rows[0].signs.torn_down,
        other => panic!("{other:?}"),
    }
}

fn is_stored(w: &World) -> bool {
    match w.store.read(&Query::Shard(c1())) {
        Answer::Shard(row) => row.tears_down,
        other => panic!("{other:?}"),
    }
}

/// Two instances of a service run.
fn two() -> World {
    let spec = JobBuilder::service("web", 2).build();
    let mut w = World::serving();
    w.store_job(&spec);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    assert_eq!(w.cluster.live().len(), 2);
    w
}

/// They were stopped, and nothing is assigned any more.
fn stopped() -> World {
    let spec = JobBuilder::service("web", 2).build();
    let mut w = two();
    w.wish(&spec, Desired::Stopped, 0);
    w.send_order(&[range(0, 1)], &[(1, 0)], 2);
    w.run(seconds(30));
    assert_eq!(w.cluster.live(), Vec::<String>::new());
    w
}

#[test]
fn mesos_is_asked_once_nothing_is_left_and_its_refusal_is_the_answer() {
    let mut w = stopped();
    w.direct(Order::TearDown);
    w.run(seconds(2));
    // What has ended is in the archive, where others may still read it.
    assert_eq!(w.shard.slices().count(), 0);
    assert!(w.stored(0).is_some_and(|record| record.ended.is_some()));
    w.direct(Order::TearDown);
    w.run(seconds(2));
    assert!(is_stored(&w));
    assert_eq!((asked(&w), is_shown(&w)), (1, true), "{:?}", w.alarms);
    assert_eq!(w.alarms, [], "that was wanted");
    w.direct(Order::TearDown);
    w.run(seconds(20));
    assert_eq!(asked(&w), 1);
}

#[test]
fn nothing_is_torn_down_while_anything_may_be_alive() {
    let mut w = two();
    for _ in 0..5 {
        w.direct(Order::TearDown);
        w.run(seconds(5));
    }
    assert_eq!((asked(&w), is_stored(&w), is_shown(&w)), (0, false, false));
    assert_eq!(w.cluster.live().len(), 2);
}

#[test]
fn it_is_stored_before_mesos_is_asked() {
    let mut w = stopped();
    w.direct(Order::TearDown);
    w.run(seconds(2));
    w.storage = Storage::StallsCommits;
    w.direct(Order::TearDown);
    w.run(seconds(3));
    assert_eq!((asked(&w), is_stored(&w)), (0, false));
    w.unstall();
    w.run(seconds(3));
    assert_eq!((asked(&w), is_stored(&w)), (1, true));
}

#[test]
fn a_successor_knows_why_it_is_refused() {
    let mut w = stopped();
    for _ in 0..2 {
        w.direct(Order::TearDown);
        w.run(seconds(2));
    }
    w.crash();
    assert!(!w.shard.signs().torn_down);
    w.elect();
    w.run(seconds(5));
    assert_eq!(w.alarms, []);
    assert_eq!((asked(&w), is_shown(&w)), (1, true));
}
