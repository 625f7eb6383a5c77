//! Goals: stop, delete, scale, restart within what may be unavailable.

use crate::world::{World, config, marked, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::instance::Ended;
use echelon_core_model::job::Desired;
use echelon_core_model::restart::RestartPart;
use echelon_core_model::time::Span;
use echelon_core_model::{AssignedRange, Generation, InstanceNumber, RunState, Timestamp};
use echelon_core_shard::{Event, Shard};
use echelon_core_testkit::build::{JobBuilder, main_group};

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
fn kills_keep_their_pace_whatever_else_happens() {
    let mut paced = config("one");
    paced.timing.rates.kills = 20;
    let mut w = World::new();
    w.shard = Shard::new(paced);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 6).build());
    w.order(&[range(0, 5)], 6);
    w.run(seconds(2));
    assert_eq!(w.states(6), [RunState::Running; 6]);
    w.wish(&JobBuilder::service("web", 6).build(), Desired::Stopped, 0);
    w.order(&[range(0, 5)], 6);
    while w.kills().is_empty() {
        w.run(Span::millis(1));
    }
    for _ in 0..20 {
        w.step(Event::Wake);
    }
    assert_eq!(w.kills().len(), 2, "no event brings the next kills forward");
    w.run(seconds(3));
    assert_eq!(w.states(6), [RunState::Killed; 6]);
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
fn a_restart_does_not_wait_for_what_was_scaled_away_under_it() {
    let mut w = web(2);
    let spec = JobBuilder::service("web", 2).max_unavailable(2).build();
    w.wish(&spec, Desired::Running, 1);
    w.send_order(&[range(0, 1)], &[(1, 2)], 2);
    while w.kills().len() < 2 {
        w.run(Span::millis(10));
    }
    // The second is stopped for the restart, and not wanted before it comes back.
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0), marked(range(1, 1), None, None)], 1);
    w.run(seconds(60));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.restarting), (1, 0));
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

#[test]
fn what_is_outdated_and_the_part_in_force_are_told() {
    let mut w = web(3);
    let told = |w: &World| {
        let slice = w.slice(1).unwrap();
        (slice.outdated, slice.max_unavailable)
    };
    assert_eq!(told(&w), (0, 1));
    w.wish(&JobBuilder::service("web", 3).build(), Desired::Running, 1);
    w.send_order(&[range(0, 2)], &[(1, 3)], 0);
    w.run(seconds(2));
    assert_eq!(told(&w), (3, 0));
    w.cluster.starts = false;
    w.send_order(&[range(0, 2)], &[(1, 3)], 2);
    w.run(seconds(3));
    assert_eq!(told(&w), (1, 2));
    // A smaller part is obeyed at once, and in force when the restarts under way have come to their end.
    let before = w.slice(1).unwrap().part_number;
    w.send_order(&[range(0, 2)], &[(1, 3)], 0);
    w.run(seconds(2));
    assert_eq!(told(&w), (1, 2));
    assert!(w.slice(1).unwrap().part_number > before);
    for (n, left) in [(0, 1), (1, 0)] {
        w.cluster.set(&task(n, 1, 2), TaskState::Running);
        w.run(seconds(8));
        assert_eq!(told(&w), (1, left));
    }
    assert_eq!(w.kills(), [task(0, 1, 1), task(1, 1, 1)]);
}

#[test]
fn a_restart_under_way_is_counted_by_the_next_leader() {
    let mut w = web(2);
    w.cluster.starts = false;
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Running, 1);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    w.restart();
    w.reports.clear();
    w.connect();
    w.send_order(&[range(0, 1)], &[(1, 2)], 0);
    w.run(seconds(2));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.outdated, slice.max_unavailable), (1, 1));
    // Another restart makes what the first one took down no less down.
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Running, 2);
    w.send_order(&[range(0, 1)], &[(1, 2)], 0);
    w.run(seconds(2));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.outdated, slice.max_unavailable), (2, 1));
}

#[test]
fn a_late_part_changes_nothing() {
    let mut w = web(2);
    let mut late = w.slice_order(&[range(0, 1)], &[(1, 2)], 2);
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Running, 1);
    w.send_order(&[range(0, 1)], &[(1, 2)], 0);
    w.run(seconds(1));
    late.head_version = w.head_version();
    w.direct(echelon_core_model::directive::Order::Slices(vec![late]));
    w.run(seconds(3));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.slice(1).unwrap().max_unavailable, 0);
}

#[test]
fn stopping_what_is_down_makes_nothing_more_unavailable() {
    let mut w = web(3);
    w.cluster.starts = false;
    w.cluster.set(&task(2, 1, 1), TaskState::Failed);
    w.run(seconds(4));
    w.cluster.set(&task(2, 1, 2), TaskState::Starting);
    w.run(seconds(1));
    let down = |w: &World| {
        let slice = w.slice(1).unwrap();
        slice.active - slice.counts.get(RunState::Running)
    };
    assert_eq!((down(&w), w.state(2)), (1, RunState::Starting));
    w.wish(&JobBuilder::service("web", 3).build(), Desired::Running, 1);
    w.send_order(&[range(0, 2)], &[(1, 3)], 0);
    w.run(seconds(3));
    assert_eq!(w.kills(), Vec::<String>::new(), "not without a part");
    w.send_order(&[range(0, 2)], &[(1, 3)], 1);
    w.run(seconds(3));
    assert_eq!((w.kills(), down(&w)), (vec![task(2, 1, 2)], 1));
    w.cluster.set(&task(2, 1, 3), TaskState::Running);
    w.run(seconds(4));
    assert_eq!(w.kills(), [task(2, 1, 2)], "it is not up for long enough");
    w.run(seconds(4));
    assert_eq!((w.kills(), down(&w)), (vec![task(2, 1, 2), task(0, 1, 1)], 1));
}

/// Asks for a restart of these numbers of `web`, beside those before.
fn restart_some(w: &mut World, n: u32, numbers: &[u32]) {
    let part = RestartPart {
        version: w.head_version().next(),
        group: main_group(),
        numbers: numbers.iter().copied().map(InstanceNumber).collect(),
    };
    let before = w.restarts.take().unwrap_or_default();
    w.restarts = Some(before.and(part, Timestamp(1), None));
    let spec = JobBuilder::service("web", n).max_unavailable(1).build();
    w.wish(&spec, Desired::Running, 0);
    w.order(&[range(0, n - 1)], u64::from(n));
}

#[test]
fn only_those_named_are_restarted_one_at_a_time_and_told_of_until_they_are_good() {
    let mut w = web(4);
    restart_some(&mut w, 4, &[1, 3]);
    let (mut lowest, mut left) = (4, Vec::new());
    for _ in 0..200 {
        w.run(Span::millis(100));
        lowest = lowest.min(w.states(4).iter().filter(|s| **s == RunState::Running).count());
        left.extend(w.slice(1).map(|s| s.restarting));
    }
    left.dedup();
    assert_eq!(lowest, 3, "max_unavailable is 1");
    assert_eq!(w.kills(), [task(1, 1, 1), task(3, 1, 1)]);
    assert_eq!(left, [2, 1, 0], "a restarted one counts until it is good");
    w.run(seconds(60));
    assert_eq!(w.kills().len(), 2);
}

#[test]
fn a_second_restart_of_others_goes_on_beside_the_first_and_over_a_crash() {
    let mut w = web(5);
    restart_some(&mut w, 5, &[0, 1, 2]);
    while w.kills().is_empty() {
        w.run(Span::millis(100));
    }
    restart_some(&mut w, 5, &[2, 4]);
    w.restart();
    w.connect();
    w.order(&[range(0, 4)], 5);
    w.run(seconds(60));
    let mut killed = w.kills();
    killed.sort();
    killed.dedup();
    assert_eq!(killed, [0, 1, 2, 4].map(|n| task(n, 1, 1)), "each of them once");
    assert_eq!(w.slice(1).unwrap().restarting, 0);
}

#[test]
fn a_shard_that_reads_the_goal_by_itself_restarts_the_same_and_begins_no_run_twice() {
    let mut w = web(3);
    restart_some(&mut w, 3, &[0]);
    w.run(seconds(20));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    let version = w.head_version();
    assert_eq!(w.stored(0).unwrap().run.unwrap().head_version, version);
    w.restart();
    // No resource manager comes back: head and assignment are read from storage.
    w.run(seconds(120));
    assert_eq!(
        w.kills(),
        [task(0, 1, 1)],
        "what began by this head is not before it"
    );
}

/// At a newer generation.
fn at_generation(range: AssignedRange, generation: u32) -> AssignedRange {
    AssignedRange {
        generation: Generation(generation),
        ..range
    }
}

/// Scaled from four to two.
fn scaled_down(w: &mut World) {
    let leaves = marked(range(2, 3), None, None);
    w.order(&[range(0, 1), leaves], 4);
    w.run(seconds(5));
    let released = w.slice(1).unwrap().released;
    assert_eq!(released.count(), 2);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
}

#[test]
fn what_was_scaled_away_begins_when_it_is_assigned_again() {
    for restarts in [false, true] {
        let mut w = web(4);
        scaled_down(&mut w);
        assert_eq!(w.cluster.live().len(), 2);
        if restarts {
            w.restart();
            w.connect();
        }
        let back = at_generation(range(2, 3), 2);
        w.order_at(&[range(0, 1), back], &[(1, 2), (2, 2)]);
        w.run(seconds(5));
        assert_eq!(w.states(4), [RunState::Running; 4]);
        assert_eq!(w.accepted().len(), 6);
    }
}

#[test]
fn what_had_succeeded_before_it_was_scaled_away_does_not_run_again() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 4).build());
    w.order(&[range(0, 3)], 4);
    w.run(seconds(2));
    w.cluster.set(&task(3, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    scaled_down(&mut w);
    let back = at_generation(range(2, 3), 2);
    w.order_at(&[range(0, 1), back], &[(1, 2), (2, 2)]);
    w.run(seconds(10));
    let expected = [0, 1, 2, 3].map(|n| task(n, 1, 1)).into_iter();
    assert_eq!(w.accepted(), expected.chain([task(2, 2, 1)]).collect::<Vec<_>>());
    assert_eq!(w.stored(3).unwrap().ended, Some(Ended::Succeeded));
}
