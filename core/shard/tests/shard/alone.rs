//! Without a resource manager (law 7): instances begin inside stored parts of pool reservations, and nowhere else.

use crate::world::{Storage, World, c1, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::job::Goal;
use echelon_core_model::part::PoolParts;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{Epoch, ReasonCode, RunState};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, job_id, main_group, shape};

/// As long as grants hold here.
const AFTER: Span = Span::seconds(30);

fn web(n: u32) -> JobSpec {
    JobBuilder::service("web", n).shape(shape(1, 64)).build()
}

fn parts(number: u64, cores: u64) -> PoolParts {
    PoolParts {
        number,
        after: AFTER,
        room: [("/default".to_owned(), shape(cores, 4096))].into(),
    }
}

fn running(w: &World, n: u32) -> Vec<u32> {
    (0..n).filter(|i| w.state(*i) == RunState::Running).collect()
}

/// Six instances are assigned, so many granted, and a part of so many cores is given.
fn given(granted: u64, cores: u64) -> World {
    given_of(&web(6), granted, cores)
}

fn given_of(spec: &JobSpec, granted: u64, cores: u64) -> World {
    let mut w = World::serving();
    w.store_job(spec);
    w.order(&[range(0, 5)], granted);
    w.direct(Order::Parts(parts(1, cores)));
    w.run(seconds(2));
    assert_eq!(running(&w, 6).len() as u64, granted);
    w
}

/// No resource manager any more.
fn abandon(w: &mut World) {
    w.step(Event::LinkClosed(w.link));
}

fn obeyed(w: &World) -> PoolParts {
    let told = w.reports.iter().rev().find_map(|r| match &r.part {
        ReportPart::Parts(parts) => Some(parts.clone()),
        _ => None,
    });
    told.unwrap_or_default()
}

fn stored(w: &World) -> PoolParts {
    match w.store.read(&Query::Shard(c1())) {
        Answer::Shard(row) => row.parts,
        _ => panic!(),
    }
}

#[test]
fn without_a_resource_manager_waiting_instances_begin_inside_the_part() {
    let mut w = given(2, 5);
    abandon(&mut w);
    w.run(seconds(20));
    assert_eq!(running(&w, 6), [0, 1], "its grants have not expired");
    w.run(seconds(20));
    assert_eq!(running(&w, 6), [0, 1, 2, 3, 4]);
    // A stream alone is no word of a resource manager.
    w.connect();
    w.run(seconds(2));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.added), (5, 3));
    let why: Vec<_> = slice.waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(why, [(ReasonCode::NoResourceManager, 1)]);
    let (reason, ..) = &slice.waiting[0];
    assert_eq!(
        reason.to_string(),
        "no resource manager is heard at the moment: cpus needs 1, has at most 0 (part of pool /default)"
    );
}

#[test]
fn a_shard_says_in_its_sign_of_life_that_it_is_alone() {
    let alone = |w: &World| match w.store.read(&Query::Heartbeats) {
        Answer::Heartbeats(beats) => beats[0].alone,
        _ => panic!(),
    };
    let mut w = given(1, 3);
    abandon(&mut w);
    w.run(seconds(20));
    assert_eq!(alone(&w), None);
    w.run(seconds(20));
    assert!(alone(&w).is_some_and(|since| since < w.now));
    w.connect();
    w.direct(Order::Slices(Vec::new()));
    w.run(seconds(5));
    assert_eq!(alone(&w), None);
}

#[test]
fn a_part_that_is_smaller_than_what_runs_stops_nothing_and_adds_nothing() {
    let mut w = given(4, 2);
    abandon(&mut w);
    w.run(seconds(60));
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
    // What was active is restarted, inside the part or not.
    w.cluster.set(&crate::world::task(1, 1, 1), TaskState::Failed);
    w.run(seconds(30));
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
}

#[test]
fn a_pool_above_holds_back_what_fits_into_its_own_part() {
    let mut w = World::serving();
    let spec = JobBuilder::service("web", 6)
        .shape(shape(1, 64))
        .pool("/ml/train")
        .build();
    w.store_job(&spec);
    w.order(&[range(0, 5)], 0);
    let room = |cores| shape(cores, 4096);
    let room = [("/ml".to_owned(), room(2)), ("/ml/train".to_owned(), room(4))];
    w.direct(Order::Parts(PoolParts {
        room: room.into(),
        ..parts(1, 0)
    }));
    abandon(&mut w);
    w.run(seconds(60));
    assert_eq!(running(&w, 6), [0, 1]);
}

#[test]
fn nothing_begins_in_a_pool_without_a_part_or_before_any_was_given() {
    let mut w = given(1, 0);
    abandon(&mut w);
    w.run(seconds(90));
    assert_eq!(running(&w, 6), [0]);
    let mut w = World::serving();
    w.store_job(&web(6));
    w.order(&[range(0, 5)], 1);
    abandon(&mut w);
    w.run(seconds(90));
    assert_eq!(running(&w, 6), [0]);
    assert!(!w.shard.is_alone(), "it was never told after how long");
}

#[test]
fn revocable_work_controllers_and_gangs_are_not_begun_by_parts() {
    for spec in [
        JobBuilder::service("web", 6)
            .shape(shape(1, 64))
            .revocable()
            .build(),
        JobBuilder::service("web", 6)
            .shape(shape(1, 64))
            .controller()
            .build(),
        JobBuilder::service("web", 6).shape(shape(1, 64)).gang().build(),
    ] {
        let mut w = World::serving();
        w.store_job(&spec);
        w.order(&[range(0, 5)], 0);
        w.direct(Order::Parts(parts(1, 6)));
        abandon(&mut w);
        w.run(seconds(60));
        assert_eq!(running(&w, 6), [0; 0], "{spec:?}");
    }
}

#[test]
fn max_running_holds_without_a_resource_manager() {
    let mut w = given_of(&capped(3), 1, 6);
    abandon(&mut w);
    w.run(seconds(60));
    assert_eq!(running(&w, 6).len(), 3, "the whole group is here");
    // Of a group that is elsewhere, too, others may have the rest.
    let mut w = World::serving();
    w.store_job(&capped(3));
    w.order(&[range(0, 3)], 1);
    w.direct(Order::Parts(parts(1, 6)));
    abandon(&mut w);
    w.run(seconds(60));
    assert_eq!(running(&w, 6).len(), 1);
}

fn capped(most: u32) -> JobSpec {
    let mut spec = web(6);
    spec.groups[0].max_running = Some(most);
    spec
}

#[test]
fn what_has_ended_makes_room_in_the_part() {
    let spec = JobBuilder::batch("web", 6).shape(shape(1, 64)).build();
    let mut w = given_of(&spec, 2, 2);
    abandon(&mut w);
    w.run(seconds(40));
    assert_eq!(running(&w, 6), [0, 1]);
    w.cluster.set(&crate::world::task(0, 1, 1), TaskState::Finished);
    w.run(seconds(10));
    assert_eq!(running(&w, 6), [1, 2]);
}

#[test]
fn parts_are_stored_and_obeyed_by_the_next_leader_after_its_own_patience() {
    let mut w = given(1, 3);
    assert_eq!((stored(&w), obeyed(&w)), (parts(1, 3), parts(1, 3)));
    w.run(seconds(60));
    assert_eq!(running(&w, 6).len(), 3);
    let mut w = given(1, 3);
    w.restart();
    w.run(seconds(20));
    assert_eq!(running(&w, 6), [0], "silence from before was our own");
    w.run(seconds(40));
    assert_eq!(running(&w, 6), [0, 1, 2]);
    // The one after that knows what was added.
    w.restart();
    w.run(seconds(60));
    assert_eq!(running(&w, 6), [0, 1, 2]);
    w.connect();
    w.run(seconds(1));
    assert_eq!(w.slice(1).unwrap().added, 2);
}

#[test]
fn parts_are_confirmed_when_they_are_stored() {
    let mut w = given(1, 3);
    w.storage = Storage::StallsCommits;
    w.direct(Order::Parts(parts(2, 5)));
    w.run(seconds(2));
    assert_eq!((stored(&w), obeyed(&w)), (parts(1, 3), parts(1, 3)));
    // Its process dies: the next one knows the ones before.
    let mut v = given(1, 3);
    v.storage = Storage::StallsCommits;
    v.direct(Order::Parts(parts(2, 5)));
    v.storage = Storage::Works;
    v.restart();
    v.connect();
    v.run(seconds(1));
    assert_eq!(obeyed(&v), parts(1, 3));
    w.unstall();
    w.run(seconds(2));
    assert_eq!((stored(&w), obeyed(&w)), (parts(2, 5), parts(2, 5)));
}

#[test]
fn late_parts_change_nothing_and_those_of_an_older_epoch_are_refused() {
    let mut w = given(1, 3);
    w.direct(Order::Parts(parts(3, 2)));
    w.direct(Order::Parts(parts(2, 6)));
    w.run(seconds(1));
    assert_eq!((stored(&w), obeyed(&w)), (parts(3, 2), parts(3, 2)));
    w.rm = Epoch(2);
    w.direct(Order::Parts(parts(1 << 41, 4)));
    w.rm = Epoch(1);
    w.direct(Order::Parts(parts(1 << 42, 6)));
    w.run(seconds(1));
    assert_eq!(stored(&w), parts(1 << 41, 4));
    assert!(
        w.reports
            .iter()
            .any(|r| r.part == ReportPart::Superseded(Epoch(2)))
    );
}

#[test]
fn a_resource_manager_that_returns_grants_on_and_stops_nothing_but_by_a_smaller_grant() {
    let mut w = given(2, 5);
    abandon(&mut w);
    w.run(seconds(40));
    assert_eq!(running(&w, 6).len(), 5);
    // It does not know yet what was added: the grant is of the old size.
    w.connect();
    w.order(&[range(0, 5)], 2);
    w.run(seconds(5));
    assert_eq!(running(&w, 6).len(), 5);
    assert!(!w.shard.is_alone());
    // It knows now.
    grant(&mut w, 5, 3);
    w.run(seconds(5));
    assert_eq!(running(&w, 6).len(), 5);
    // And renewed, and late.
    w.order(&[range(0, 5)], 2);
    w.run(seconds(5));
    assert_eq!(running(&w, 6).len(), 5);
    grant(&mut w, 4, 3);
    w.run(seconds(5));
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
    // Parts allow nothing while it is heard.
    w.direct(Order::Parts(parts(9, 6)));
    for _ in 0..10 {
        w.direct(Order::Slices(Vec::new()));
        w.run(seconds(6));
    }
    assert_eq!(running(&w, 6), [0, 1, 2, 3]);
}

/// A grant that includes what was added.
fn grant(w: &mut World, active: u64, included: u64) {
    let mut order = w.slice_order(&[range(0, 5)], &[(1, active)], 1);
    for (_, grant) in &mut order.grants {
        grant.included = included;
    }
    w.direct(Order::Slices(vec![order]));
}

#[test]
fn those_of_higher_priority_begin_first_and_then_the_older() {
    let mut w = World::serving();
    w.direct(Order::Parts(parts(1, 3)));
    let job = |w: &mut World, n: u128, priority: u32| {
        let spec = JobBuilder::service("web", 2)
            .shape(shape(1, 64))
            .priority(priority);
        w.store_head_of(job_id(n), &spec.build(), Goal::default());
        w.assign_of(job_id(n), &[(main_group(), &[range(0, 1)])]);
    };
    job(&mut w, 1, 1);
    job(&mut w, 2, 5);
    job(&mut w, 3, 1);
    abandon(&mut w);
    w.run(seconds(90));
    let active = |n: u128| {
        let all = w.shard.instances().filter(|(id, _)| id.job == job_id(n));
        all.filter(|(_, r)| r.state() == RunState::Running).count()
    };
    assert_eq!([1, 2, 3].map(active), [1, 2, 0]);
}
