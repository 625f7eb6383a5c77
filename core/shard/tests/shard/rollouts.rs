//! Rollouts at one cluster: what is replaced when, by which version, and what is told of it.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::Amount;
use echelon_core_model::job::Desired;
use echelon_core_model::rollout::Rollout;
use echelon_core_model::runtime::{Probe, ProbeKind, Runtime};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState, Timestamp};
use echelon_core_testkit::build::{JobBuilder, shape};

/// `web` with `n` instances, whose runs are of this revision.
fn spec(n: u32, revision: u32) -> JobSpec {
    let mut spec = JobBuilder::service("web", n).max_unavailable(1).build();
    for group in &mut spec.groups {
        group.runtime = Runtime::shell(&format!("v{revision}"));
        group.revision = revision;
    }
    spec
}

const ROLLOUT: Rollout = Rollout {
    number: 1,
    base: 1,
    since: Timestamp(0),
    held: None,
    promoted: false,
    back: None,
    forgiven: 0,
};

/// `n` instances that run version 1.
fn web(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&spec(n, 1));
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    assert_eq!(w.states(n), vec![RunState::Running; n as usize]);
    w
}

fn update(w: &mut World, spec: &JobSpec, rollout: Rollout) {
    w.rollout = Some(rollout);
    w.wish(spec, Desired::Running, 0);
    let n = spec.groups[0].instances;
    w.order(&[range(0, n - 1)], u64::from(n));
}

fn versions(w: &World, n: u32) -> Vec<u32> {
    let version = |n| w.record(n).and_then(|r| Some(r.run?.spec_version));
    (0..n).map(|n| version(n).unwrap_or_default()).collect()
}

/// The command of a launched task.
fn command_of(w: &World, task: &str) -> String {
    let launches = w.calls.iter().filter_map(|c| match c {
        Call::Accept { launches, .. } => Some(launches),
        _ => None,
    });
    let found = launches.flatten().find(|l| l.task.to_string() == task);
    format!("{:?}", found.expect("a launch").runtime.command)
}

#[test]
fn a_rollout_replaces_one_after_the_other_each_when_the_one_before_is_good() {
    let mut w = web(3);
    update(&mut w, &spec(3, 2), ROLLOUT);
    let mut lowest = 3;
    let mut at = Vec::new();
    for tenth in 0..400 {
        w.run(Span::millis(100));
        lowest = lowest.min(w.states(3).iter().filter(|s| **s == RunState::Running).count());
        if w.kills().len() > at.len() {
            at.push(tenth);
        }
    }
    assert_eq!(lowest, 2, "max_unavailable is 1");
    assert_eq!(versions(&w, 3), [2, 2, 2]);
    assert_eq!(w.kills(), [task(0, 1, 1), task(1, 1, 1), task(2, 1, 1)]);
    assert!(
        at.windows(2).all(|p| p[1] - p[0] >= 50),
        "min_healthy is 5 s: {at:?}"
    );
    assert!(command_of(&w, &task(0, 1, 2)).contains("v2"));
    let slice = w.slice(1).unwrap();
    assert_eq!(
        (
            slice.revision,
            slice.updated,
            slice.update_failures,
            slice.outdated
        ),
        (2, 3, 0, 0)
    );
}

#[test]
fn scale_and_care_replace_nothing() {
    let mut w = web(3);
    let mut scaled = spec(3, 1);
    scaled.groups[0].retry.limit = 9;
    update(&mut w, &scaled, ROLLOUT);
    w.run(seconds(10));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.slice(1).unwrap().updated, 3);
}

#[test]
fn what_crashes_before_its_turn_starts_with_its_own_version() {
    let mut w = web(3);
    let held = Rollout {
        held: Some(ReasonCode::RolloutPaused),
        ..ROLLOUT
    };
    update(&mut w, &spec(3, 2), held);
    w.run(seconds(3));
    w.cluster.set(&task(2, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    assert_eq!(versions(&w, 3), [1, 1, 1]);
    assert_eq!(w.state(2), RunState::Running);
    assert!(command_of(&w, &task(2, 1, 2)).contains("v1"));
}

#[test]
fn only_canaries_are_updated_until_they_are_accepted() {
    let mut w = web(4);
    let mut new = spec(4, 2);
    new.update.canaries = Amount::Count(2);
    w.below = 2;
    update(&mut w, &new, ROLLOUT);
    w.run(seconds(40));
    assert_eq!(versions(&w, 4), [2, 2, 1, 1]);
    assert_eq!(w.slice(1).unwrap().updated, 2);
    let promoted = Rollout {
        promoted: true,
        ..ROLLOUT
    };
    update(&mut w, &new, promoted);
    w.run(seconds(40));
    assert_eq!(versions(&w, 4), [2, 2, 2, 2]);
}

#[test]
fn what_is_not_ready_is_not_available_and_nothing_follows_it() {
    let mut w = web(3);
    let mut new = spec(3, 2);
    new.groups[0].runtime.readiness = Some(Probe {
        kind: ProbeKind::Command("test -e ready".into()),
        delay: Span::ZERO,
        interval: Span::seconds(1),
        timeout: Span::seconds(1),
    });
    update(&mut w, &new, ROLLOUT);
    w.run(seconds(60));
    assert_eq!(versions(&w, 3), [2, 1, 1], "0 runs and was never told ready");
    assert_eq!((w.state(0), w.slice(1).unwrap().updated), (RunState::Running, 0));
    w.cluster.ready(&task(0, 1, 2), true);
    w.run(seconds(4));
    assert_eq!(versions(&w, 3), [2, 1, 1], "not for long enough");
    w.run(seconds(6));
    assert_eq!(versions(&w, 3), [2, 2, 1]);
}

#[test]
fn failures_of_the_new_version_are_told_once_an_instance() {
    let mut w = web(3);
    w.cluster.starts = false;
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(3));
    w.cluster.set(&task(0, 1, 2), TaskState::Failed);
    w.run(seconds(5));
    w.cluster.set(&task(0, 1, 3), TaskState::Failed);
    w.run(seconds(5));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.update_failures, slice.updated), (1, 0));
    assert_eq!(w.kills(), [task(0, 1, 1)], "nobody follows one that fails");
}

#[test]
fn what_does_not_become_available_in_time_has_failed() {
    let mut w = web(2);
    let mut new = spec(2, 2);
    new.update.healthy_within = Span::seconds(20);
    w.cluster.starts = false;
    update(&mut w, &new, ROLLOUT);
    w.run(seconds(15));
    assert_eq!(w.slice(1).unwrap().update_failures, 0);
    w.run(seconds(15));
    assert_eq!(w.slice(1).unwrap().update_failures, 1);
}

#[test]
fn a_rollback_touches_only_what_was_updated() {
    let mut w = web(3);
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(3));
    assert_eq!(versions(&w, 3), [2, 1, 1]);
    let back = Rollout {
        number: 2,
        back: Some(ReasonCode::RolloutFailures),
        ..ROLLOUT
    };
    update(&mut w, &spec(3, 1), back);
    w.run(seconds(30));
    assert_eq!(versions(&w, 3), [1, 1, 1]);
    assert_eq!(w.kills(), [task(0, 1, 1), task(0, 1, 2)]);
}

#[test]
fn what_keeps_failing_while_it_is_replaced_goes_back_with_its_next_run() {
    let mut w = web(3);
    w.cluster.starts = false;
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(3));
    w.cluster.set(&task(0, 1, 2), TaskState::Failed);
    w.run(Span::millis(500));
    let back = Rollout {
        number: 2,
        back: Some(ReasonCode::RolloutFailures),
        ..ROLLOUT
    };
    w.cluster.starts = true;
    update(&mut w, &spec(3, 1), back);
    w.run(seconds(20));
    assert_eq!(
        versions(&w, 3),
        [1, 1, 1],
        "its own failure does not stand in its way"
    );
    assert_eq!(w.states(3), [RunState::Running; 3]);
}

#[test]
fn a_new_leader_goes_on_where_the_rollout_was() {
    let mut w = web(3);
    w.cluster.starts = false;
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(2));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    w.restart();
    w.connect();
    w.order(&[range(0, 2)], 3);
    w.run(seconds(10));
    assert_eq!(w.kills(), [task(0, 1, 1)], "0 is still down for the rollout");
    w.cluster.starts = true;
    let down = w.task(0, 2);
    w.cluster.set(&down, TaskState::Running);
    w.run(seconds(60));
    assert_eq!(versions(&w, 3), [2, 2, 2]);
    assert_eq!(w.kills().len(), 3);
}

#[test]
fn a_newer_update_supersedes_and_counts_who_is_down_already() {
    let mut w = web(3);
    w.cluster.starts = false;
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(2));
    let next = Rollout { number: 2, ..ROLLOUT };
    update(&mut w, &spec(3, 3), next);
    w.run(seconds(3));
    let down = w.states(3).iter().filter(|s| **s != RunState::Running).count();
    assert_eq!(down, 1);
    w.cluster.starts = true;
    let pending = w.record(0).unwrap().run.unwrap();
    w.cluster.set(&task(0, 1, pending.number.0), TaskState::Running);
    w.run(seconds(60));
    assert_eq!(versions(&w, 3), [3, 3, 3]);
}

#[test]
fn what_is_to_end_is_drained_before_it_is_killed_also_by_the_next_leader() {
    let mut w = World::serving();
    let mut drained = spec(1, 1);
    drained.groups[0].drain = Span::seconds(20);
    w.store_job(&drained);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.wish(&drained, Desired::Running, 1);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(12));
    assert_eq!(
        w.state(0),
        RunState::Stopping,
        "it is among the endpoints no more"
    );
    w.restart();
    w.connect();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(4));
    assert_eq!(w.kills(), Vec::<String>::new());
    w.run(seconds(6));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn what_was_never_available_is_not_drained() {
    let mut w = World::serving();
    w.cluster.starts = false;
    let mut drained = spec(1, 1);
    drained.groups[0].drain = Span::seconds(20);
    w.store_job(&drained);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.wish(&drained, Desired::Stopped, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

fn host_of(w: &World, n: u32) -> String {
    w.record(n)
        .and_then(|r| r.run)
        .map(|r| r.host.to_string())
        .unwrap_or_default()
}

#[test]
fn replacements_go_back_to_the_host_of_their_former_run() {
    let mut w = web(3);
    let before: Vec<String> = (0..3).map(|n| host_of(&w, n)).collect();
    // A rotation that is no accident: the roomiest host by far is another one.
    w.cluster.hosts.insert(HostId::new("host-3"), shape(64, 65_536));
    update(&mut w, &spec(3, 2), ROLLOUT);
    w.run(seconds(60));
    assert_eq!(versions(&w, 3), [2, 2, 2]);
    let after: Vec<String> = (0..3).map(|n| host_of(&w, n)).collect();
    assert_eq!(before, after);
}

#[test]
fn who_finds_no_room_on_its_former_host_waits_for_a_moment_and_goes_elsewhere() {
    let mut w = web(1);
    let before = host_of(&w, 0);
    // Its room is taken by others as soon as it is free.
    w.cluster.hosts.insert(HostId::new(&before), shape(0, 4096));
    update(&mut w, &spec(1, 2), ROLLOUT);
    w.run(seconds(20));
    assert_eq!((versions(&w, 1), w.states(1)), (vec![2], vec![RunState::Running]));
    assert_ne!(host_of(&w, 0), before);
}

#[test]
fn stateful_instances_wait_for_their_number_and_tell_which_is_the_first() {
    let of = |revision| {
        let mut spec = JobBuilder::stateful("db", 3, 64).build();
        for group in &mut spec.groups {
            group.runtime = Runtime::shell(&format!("v{revision}"));
            group.revision = revision;
        }
        spec
    };
    let mut w = World::new();
    for room in w.cluster.hosts.values_mut() {
        room.disk = 4096;
    }
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&of(1));
    w.order(&[range(0, 2)], 3);
    w.run(seconds(3));
    assert_eq!(w.states(3), [RunState::Running; 3]);
    // Number 0 is at another cluster, for all that this one is told.
    w.below = 0;
    update(&mut w, &of(2), ROLLOUT);
    w.run(seconds(30));
    assert_eq!((versions(&w, 3), w.kills().len()), (vec![1; 3], 0));
    assert_eq!(w.slice(1).unwrap().first_behind, Some(0));
    for n in 0..3u32 {
        w.below = n + 1;
        w.order(&[range(0, 2)], 3);
        w.run(seconds(30));
        let now: Vec<u32> = (0..3).map(|i| if i <= n { 2 } else { 1 }).collect();
        assert_eq!(versions(&w, 3), now);
        let next = Some(n + 1).filter(|n| *n < 3);
        assert_eq!(w.slice(1).unwrap().first_behind, next, "{n}");
    }
}

#[test]
fn versions_that_nobody_runs_any_more_are_let_go() {
    let mut w = web(2);
    for revision in 2..6u32 {
        let rollout = Rollout {
            number: revision - 1,
            base: revision - 1,
            ..ROLLOUT
        };
        update(&mut w, &spec(2, revision), rollout);
        w.run(seconds(40));
        assert_eq!(versions(&w, 2), [revision; 2]);
    }
    assert!(w.shard.kept_specs() <= 3, "{}", w.shard.kept_specs());
    w.cluster.set(&task(0, 1, 5), TaskState::Failed);
    w.run(seconds(20));
    assert_eq!(w.states(2), [RunState::Running; 2], "what is needed is there");
}
