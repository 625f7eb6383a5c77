//! Without a resource manager (law 7): what was granted goes on, and what waits keeps waiting.
//! The shard says since when it hears none.

use crate::cluster::Cluster;
use crate::world::{Storage, World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::store::{Answer, Op, Query, TroubleKind};
use echelon_core_model::{ReasonCode, RunState, Timestamp, Version};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, job_id, main_group, shape};

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

/// So many jobs of one instance run, and no resource manager is heard any more.
fn abandoned_jobs(n: u128) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(8, shape(64, 65_536));
    w.elect();
    w.run(seconds(1));
    w.connect();
    for job in (1..=n).map(job_id) {
        let spec = JobBuilder::service("web", 1).shape(shape(1, 64)).build();
        w.store_head_of(job, &spec, Goal::default());
        w.assign_of(job, &[(main_group(), &[range(0, 0)])]);
        let mut order = w.slice_order(&[range(0, 0)], &[(1, 1)], 1);
        order.job = job;
        order.spec_version = 1;
        order.head_version = Version(1);
        w.direct(Order::Slices(vec![order]));
    }
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len() as u128, n);
    w.step(Event::LinkClosed(w.link));
    // Everything is read once.
    w.run(seconds(60));
    w.ops.clear();
    w
}

/// The reads of jobs, and of how far partitions are.
fn reads(w: &World) -> (Vec<&Query>, usize) {
    let all = w.ops.iter().filter_map(|op| match op {
        Op::Read(query, _) => Some(query),
        _ => None,
    });
    let (mut jobs, mut changes) = (Vec::new(), 0);
    for query in all {
        match query {
            Query::Head(_)
            | Query::Heads(_)
            | Query::Assignment(_)
            | Query::Assignments(_)
            | Query::Spec(..) => {
                jobs.push(query);
            }
            Query::Changes(_) => changes += 1,
            _ => {}
        }
    }
    (jobs, changes)
}

#[test]
fn what_is_read_without_a_resource_manager_does_not_grow_with_jobs_that_do_not_change() {
    let mut counts = Vec::new();
    for n in [2, 60] {
        let mut w = abandoned_jobs(n);
        w.run(seconds(60));
        let (jobs, changes) = reads(&w);
        assert_eq!(jobs, [] as [&Query; 0], "{n} jobs");
        counts.push(changes);
    }
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0] > 0);
}

#[test]
fn a_change_of_one_job_is_read_and_no_other_job() {
    let mut w = abandoned_jobs(60);
    let changed = job_id(7);
    let stopped = Goal {
        desired: Desired::Stopped,
        ..Goal::default()
    };
    let spec = JobBuilder::service("web", 1).shape(shape(1, 64)).build();
    w.store_head_of(changed, &spec, stopped);
    w.run(seconds(60));
    assert_eq!(w.cluster.live().len(), 59);
    let (jobs, _) = reads(&w);
    let of_it = |query: &&Query| match query {
        Query::Heads(bucket) => *bucket == job_bucket(changed),
        Query::Head(job) | Query::Assignment(job) | Query::Spec(job, _) => *job == changed,
        _ => false,
    };
    assert!(jobs.iter().all(of_it), "{jobs:?}");
    let heads = jobs.iter().filter(|query| matches!(query, Query::Heads(_)));
    assert_eq!(heads.count(), 1);
}

#[test]
fn a_head_that_could_not_be_read_is_read_again() {
    let mut w = abandoned_jobs(3);
    let stopped = Goal {
        desired: Desired::Stopped,
        ..Goal::default()
    };
    let spec = JobBuilder::service("web", 1).shape(shape(1, 64)).build();
    w.store_head_of(job_id(2), &spec, stopped);
    w.storage = Storage::Troubled(TroubleKind::Overloaded);
    w.run(seconds(20));
    assert_eq!(w.cluster.live().len(), 3);
    w.storage = Storage::Works;
    w.run(seconds(60));
    assert_eq!(w.cluster.live().len(), 2);
}
