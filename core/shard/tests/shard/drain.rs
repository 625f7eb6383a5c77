//! Planned maintenance of hosts: services leave in time and within what may be unavailable, batch instances at the last moment, and
//! nothing of it counts as a failure.

use crate::world::{World, config, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState};
use echelon_core_shard::Shard;
use echelon_core_testkit::build::JobBuilder;

/// Four instances on two hosts.
fn four(spec: &JobBuilder) -> World {
    let mut w = World::serving();
    w.store_job(&spec.clone().build());
    w.order(&[range(0, 3)], 4);
    w.run(seconds(2));
    assert_eq!(w.states(4), [RunState::Running; 4]);
    w
}

fn host_of(w: &World, n: u32) -> HostId {
    w.stored(n).unwrap().run.unwrap().host
}

fn on(w: &World, host: &HostId) -> Vec<u32> {
    (0..4).filter(|n| host_of(w, *n) == *host).collect()
}

fn plan(w: &mut World, host: &HostId, after: Span) {
    let from = w.now.plus(after);
    w.cluster.plan(
        host,
        Maintenance {
            from,
            until: Some(from.plus(Span::minutes(60))),
        },
    );
    w.drain();
}

#[test]
fn a_service_leaves_a_host_in_time_within_its_max_unavailable() {
    let mut w = four(&JobBuilder::service("web", 4));
    let host = host_of(&w, 0);
    assert_eq!(on(&w, &host).len(), 2);
    plan(&mut w, &host, Span::minutes(40));
    w.run(Span::minutes(9));
    assert_eq!(w.kills(), Vec::<String>::new(), "there is time");
    let mut lowest = 4;
    for _ in 0..900 {
        w.run(Span::millis(100));
        let up = w.states(4).iter().filter(|s| **s == RunState::Running).count();
        lowest = lowest.min(up);
    }
    assert_eq!(lowest, 3, "max_unavailable is 1");
    assert_eq!(on(&w, &host), Vec::<u32>::new());
    assert_eq!(w.states(4), [RunState::Running; 4]);
    assert_eq!(w.cluster.answers, [(host, true)]);
    assert!((0..4).all(|n| w.stored(n).unwrap().attempts == 0), "no failure");
}

#[test]
fn what_left_has_its_reason() {
    let mut w = four(&JobBuilder::service("web", 4));
    let host = host_of(&w, 0);
    w.cluster.silent.push(host.clone());
    plan(&mut w, &host, Span::minutes(2));
    w.run(seconds(5));
    let stopping = (0..4).filter_map(|n| w.stored(n).unwrap().run.unwrap().stopping);
    let codes: Vec<ReasonCode> = stopping.map(|s| s.reason.code).collect();
    assert_eq!(codes, [ReasonCode::HostMaintenance]);
    assert_eq!(w.cluster.answers, []);
    w.run(Span::minutes(2));
    assert_eq!(
        w.cluster.answers,
        [(host, false)],
        "it is not empty when it goes away"
    );
}

#[test]
fn without_a_part_of_max_unavailable_a_service_stays() {
    let mut w = four(&JobBuilder::service("web", 4));
    w.send_order(&[range(0, 3)], &[(1, 4)], 0);
    let host = host_of(&w, 0);
    plan(&mut w, &host, Span::minutes(10));
    w.run(Span::minutes(1));
    assert_eq!(w.kills(), Vec::<String>::new());
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.outdated, slice.max_unavailable), (2, 0), "it asks for one");
    w.order(&[range(0, 3)], 4);
    w.run(Span::minutes(1));
    assert_eq!(on(&w, &host), Vec::<u32>::new());
}

#[test]
fn batch_instances_stay_to_the_last_moment_and_are_tried_again_elsewhere() {
    let mut w = four(&JobBuilder::batch("crunch", 4));
    let host = host_of(&w, 0);
    let there = on(&w, &host);
    plan(&mut w, &host, Span::minutes(10));
    w.run(Span::minutes(7));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.cluster.set(&task(there[0], 1, 1), TaskState::Finished);
    w.run(Span::minutes(2));
    let rest: Vec<String> = there[1..].iter().map(|n| task(*n, 1, 1)).collect();
    assert_eq!(w.kills(), rest, "one ended by itself");
    for n in &there[1..] {
        let record = w.stored(*n).unwrap();
        assert_eq!((record.attempts, record.run.unwrap().number.0), (0, 2));
    }
    assert_eq!(w.cluster.answers, [(host, true)]);
}

#[test]
fn a_new_leader_goes_on_with_it() {
    let mut w = four(&JobBuilder::service("web", 4));
    let host = host_of(&w, 0);
    plan(&mut w, &host, Span::minutes(40));
    w.run(seconds(30));
    w.restart();
    w.connect();
    w.order(&[range(0, 3)], 4);
    w.run(Span::minutes(12));
    assert_eq!(on(&w, &host), Vec::<u32>::new(), "also after a change of leaders");
}

#[test]
fn where_every_host_is_to_be_left_the_wait_says_so() {
    let mut w = World::new();
    w.shard = Shard::new(config("one"));
    w.elect();
    w.run(seconds(1));
    w.connect();
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    for host in &hosts {
        plan(&mut w, host, Span::minutes(5));
    }
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.accepted(), Vec::<String>::new());
    let slice = w.slice(1).unwrap();
    assert_eq!(
        slice.waiting[0].0.code,
        ReasonCode::HostMaintenance,
        "{:?}",
        slice.waiting
    );
    w.run(Span::minutes(66));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.states(2), [RunState::Running; 2], "it is over");
}
