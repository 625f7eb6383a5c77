//! Without a resource manager (law 7): what was granted goes on, and what waits keeps waiting.
//! The shard says since when it hears none.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{ReasonCode, RunState, Timestamp};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, shape};

fn running(w: &World) -> Vec<u32> {
    (0..6).filter(|i| w.state(*i) == RunState::Running).collect()
}

/// Six instances of a service are assigned, so many granted, and no resource manager is there any more.
fn abandoned(granted: u64) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 6).shape(shape(1, 64)).build());
    w.order(&[range(0, 5)], granted);
    w.run(seconds(2));
    assert_eq!(running(&w).len() as u64, granted);
    w.step(Event::LinkClosed(w.link));
    w
}

fn said(w: &World) -> Option<Timestamp> {
    match w.store.read(&Query::Heartbeats) {
        Answer::Heartbeats(beats) => beats[0].no_manager_since,
        _ => panic!(),
    }
}

#[test]
fn what_is_granted_goes_on_and_nothing_new_begins_after_the_grants_time() {
    let mut w = abandoned(4);
    w.run(seconds(90));
    assert_eq!(running(&w), [0, 1, 2, 3], "the grants have expired");
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    w.run(seconds(30));
    assert_eq!(running(&w), [0, 1, 2, 3], "it was started again");
    // Nor does the next leader begin anything, or stop what it finds.
    w.restart();
    w.run(seconds(120));
    assert_eq!(running(&w), [0, 1, 2, 3]);
    w.connect();
    w.run(seconds(1));
    let waiting: Vec<_> = w.slice(1).unwrap().waiting.clone();
    let waiting: Vec<_> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(waiting, [(ReasonCode::AwaitingGrant, 2)]);
}

#[test]
fn stops_go_on_by_what_is_stored() {
    let mut w = abandoned(4);
    w.run(seconds(90));
    let stopped = Goal {
        desired: Desired::Stopped,
        ..Goal::default()
    };
    let spec = JobBuilder::service("web", 6).shape(shape(1, 64)).build();
    w.store_head(&spec, stopped);
    w.run(seconds(90));
    assert_eq!(running(&w), [0; 0]);
}

#[test]
fn a_shard_says_in_its_sign_of_life_since_when_it_hears_no_resource_manager() {
    let mut w = abandoned(1);
    let since = w.now;
    w.run(seconds(5));
    assert_eq!(said(&w), None, "a moment ago it did");
    w.run(seconds(40));
    let told = said(&w).unwrap();
    assert!(
        told <= since && since.since(told) <= seconds(2),
        "{told:?} {since:?}"
    );
    assert_eq!(w.shard.no_manager_since(), Some(told));
    // A stream alone is no word of a resource manager.
    w.connect();
    w.run(seconds(5));
    assert!(said(&w).is_some());
    w.direct(Order::Slices(Vec::new()));
    w.run(seconds(5));
    assert_eq!((said(&w), w.shard.no_manager_for()), (None, seconds(0)));
}

#[test]
fn silence_from_before_a_leadership_is_none() {
    let mut w = abandoned(1);
    w.run(seconds(40));
    let began = w.now;
    w.restart();
    w.run(seconds(40));
    let told = said(&w);
    assert!(told.is_some_and(|since| since >= began), "{told:?} {began:?}");
}
