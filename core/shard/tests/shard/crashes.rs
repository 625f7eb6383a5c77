//! Instances that fail again and again: told as such, over leaders, until they have run well for long enough.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState};
use echelon_core_testkit::build::JobBuilder;

/// A service of two, of which number 0 has failed so often in a row.
fn failed(times: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    for n in 1..=times {
        while w.state(0) != RunState::Running {
            w.run(Span::millis(100));
        }
        w.cluster.set(&task(0, 1, n), TaskState::Failed);
        w.run(Span::millis(500));
    }
    w
}

fn told(w: &World) -> Vec<(ReasonCode, u64)> {
    let waiting = w.slice(1).unwrap().waiting;
    waiting.into_iter().map(|(r, n, _)| (r.code, n)).collect()
}

#[test]
fn what_fails_again_and_again_is_told_as_such_also_by_a_new_leader() {
    let mut w = failed(2);
    assert_eq!(told(&w), [(ReasonCode::Backoff, 1)]);
    assert_eq!(w.shard.crash_looping(), 0);
    let mut w2 = failed(3);
    assert_eq!(told(&w2), [(ReasonCode::CrashLooping, 1)]);
    assert_eq!(w2.shard.crash_looping(), 1);
    assert!(w2.stored(0).unwrap().failure.is_some());
    w2.restart();
    w2.connect();
    w2.run(Span::millis(500));
    assert_eq!(w2.shard.crash_looping(), 1, "it is in the record");
    w.run(seconds(30));
    assert_eq!(told(&w), [], "it runs");
}

#[test]
fn a_crash_loop_is_over_when_the_instance_has_run_well_for_long_enough_over_leaders() {
    let mut w = failed(3);
    w.run(seconds(30));
    assert_eq!(w.state(0), RunState::Running);
    assert_eq!(w.shard.crash_looping(), 1, "not for long enough yet");
    assert_eq!(told(&w), [], "it waits for nothing");
    assert_eq!(w.slice(1).unwrap().crash_looping, 1);
    let since = w.record(0).unwrap().run.unwrap().available_at.unwrap();
    w.run(seconds(120));
    w.restart();
    w.connect();
    w.order(&[range(0, 1)], 2);
    while w.now < since.plus(Span::minutes(5)) {
        assert_eq!(w.shard.crash_looping(), 1);
        w.run(seconds(1));
    }
    w.run(seconds(1));
    assert_eq!(w.shard.crash_looping(), 0, "counted from what is stored");
    w.run(seconds(1));
    assert_eq!(w.slice(1).unwrap().crash_looping, 0);
    let record = w.stored(0).unwrap();
    assert_eq!(
        (record.attempts, record.failure, record.avoid.len()),
        (0, None, 0)
    );
}

#[test]
fn what_is_stopped_or_scaled_away_loops_no_more() {
    let mut w = failed(3);
    let spec = JobBuilder::service("web", 2).build();
    w.wish(&spec, echelon_core_model::job::Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.shard.crash_looping(), 0);
    assert_eq!(told(&w), []);
}
