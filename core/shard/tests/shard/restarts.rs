//! Goals: stop, delete, scale, restart within what may be unavailable.

use crate::world::{World, marked, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::RunState;
use echelon_core_model::instance::Ended;
use echelon_core_model::job::Desired;
use echelon_core_model::time::Span;
use echelon_core_testkit::build::JobBuilder;

fn web(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    w
}

#[test]
fn a_stopped_job_is_killed_and_ends() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        let mut w = web(3);
        w.wish(&JobBuilder::service("web", 3).build(), desired, 0);
        w.order(&[range(0, 2)], 3);
        w.run(seconds(3));
        assert_eq!(w.states(3), [RunState::Killed; 3]);
        assert_eq!(w.stored(1).unwrap().ended, Some(Ended::Stopped));
        let slice = w.slice(1).unwrap();
        assert_eq!((slice.live, slice.active, slice.stopped), (0, 0, 3));
        assert_eq!(slice.head_version, w.head_version());
        w.run(seconds(30));
        assert_eq!(w.accepted().len(), 3);
    }
}

#[test]
fn an_unstarted_instance_of_a_stopped_job_never_begins_and_counts_as_stopped() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 0);
    w.run(seconds(1));
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert!(w.accepted().is_empty());
    assert_eq!(w.slice(1).unwrap().stopped, 2);
}

#[test]
fn a_newer_wish_to_run_brings_a_stopping_job_back() {
    let mut w = web(2);
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Running, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(8));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn kills_are_repeated_until_the_task_is_dead() {
    let mut w = web(1);
    w.cluster
        .silent
        .push(w.cluster.tasks[&task(0, 1, 1)].host.clone());
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Stopped, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(60));
    assert!(w.kills().len() >= 3, "{}", w.kills().len());
    assert_eq!(w.state(0), RunState::Stopping);
    w.cluster.silent.clear();
    w.run(seconds(61));
    assert_eq!(w.state(0), RunState::Killed);
}

#[test]
fn the_highest_are_scaled_away_and_given_back() {
    let mut w = web(4);
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1), marked(range(2, 3), None, None)], 4);
    w.run(seconds(3));
    assert_eq!(w.kills(), [task(2, 1, 1), task(3, 1, 1)]);
    let slice = w.slice(1).unwrap();
    assert_eq!(
        (slice.held.to_string(), slice.released.to_string()),
        ("0-1".to_owned(), "2-3".to_owned())
    );
    assert_eq!((slice.active, slice.live), (2, 2));
}

#[test]
fn a_restart_takes_one_at_a_time_and_ends_with_all_renewed() {
    let mut w = web(4);
    let spec = JobBuilder::service("web", 4).max_unavailable(1).build();
    w.wish(&spec, Desired::Running, 1);
    w.order(&[range(0, 3)], 4);
    let mut lowest = 4;
    for _ in 0..200 {
        w.run(Span::millis(100));
        let up = w.states(4).iter().filter(|s| **s == RunState::Running).count();
        lowest = lowest.min(up);
    }
    assert_eq!(lowest, 3, "max_unavailable is 1");
    assert_eq!(w.states(4), [RunState::Running; 4]);
    assert!((0..4).all(|n| w.stored(n).unwrap().run.unwrap().restarts == 1));
    assert_eq!(
        w.kills(),
        [task(0, 1, 1), task(1, 1, 1), task(2, 1, 1), task(3, 1, 1)]
    );
    assert!(
        (0..4).all(|n| w.stored(n).unwrap().attempts == 0),
        "a restart is no failure"
    );
}

#[test]
fn a_restart_waits_while_something_else_is_down() {
    let mut w = web(3);
    w.cluster.starts = false;
    w.cluster.set(&task(2, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    w.wish(&JobBuilder::service("web", 3).build(), Desired::Running, 1);
    w.order(&[range(0, 2)], 3);
    w.run(seconds(5));
    let down: Vec<String> = w.kills().into_iter().filter(|t| *t != task(2, 1, 2)).collect();
    assert_eq!(down, Vec::<String>::new());
}

#[test]
fn no_part_of_max_unavailable_means_no_restart() {
    let mut w = web(2);
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Running, 1);
    w.send_order(&[range(0, 1)], &[(1, 2)], 0);
    w.run(seconds(5));
    assert_eq!(w.kills(), Vec::<String>::new());
}
