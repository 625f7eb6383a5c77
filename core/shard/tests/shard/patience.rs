//! For how long a silent host is waited for: by what all leaders have observed in sum, whatever their
//! clocks say and whichever side was away.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Event as Told, TaskState};
use echelon_core_model::job::Desired;
use echelon_core_model::rollout::Rollout;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, RunState, Timestamp};
use echelon_core_shard::{Event, Mode};
use echelon_core_testkit::build::JobBuilder;

/// How much of what was observed a new leader may have to observe again, with the time that it takes to lead.
const AGAIN: Span = Span::seconds(25);

/// A service of one whose host has been silent for four of the five minutes that it is waited for.
fn waited_for() -> (World, HostId) {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let host = w.record(0).unwrap().run.unwrap().host;
    w.cluster.silent.push(host.clone());
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(Span::minutes(4));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Unreachable, 1));
    (w, host)
}

/// The last minute: nothing is replaced before its end, and not much later.
fn is_replaced_after_the_last_minute(w: &mut World, what: &str) {
    w.run(seconds(55));
    assert_eq!(w.accepted().len(), 1, "{what}: too early");
    w.run(Span(seconds(8).0 + AGAIN.0));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Running, 2), "{what}");
}

/// The leader dies, and another one whose clock says something else takes over.
fn succeeded_at(w: &mut World, now: Timestamp) {
    succeeded_with(w, now, 1);
}

/// The same with so many instances.
fn succeeded_with(w: &mut World, now: Timestamp, instances: u32) {
    w.crash();
    w.now = now;
    w.elect();
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Serving);
    w.connect();
    w.order(&[range(0, instances - 1)], instances.into());
}

/// What the next leader's clock says: it is ahead, the same, behind.
fn clocks(now: Timestamp) -> [Timestamp; 3] {
    let apart = Span::minutes(10);
    [now.plus(apart), now, Timestamp(now.0 - apart.0)]
}

#[test]
fn a_new_leader_goes_on_with_what_was_waited_for() {
    let (mut w, _) = waited_for();
    let now = w.now;
    succeeded_at(&mut w, now);
    is_replaced_after_the_last_minute(&mut w, "a new leader");
}

#[test]
fn a_clock_that_jumps_ends_no_patience_and_prolongs_none() {
    let hour = Span::minutes(60);
    for ahead in [true, false] {
        let (mut w, _) = waited_for();
        let now = if ahead {
            w.now.plus(hour)
        } else {
            Timestamp(w.now.0.saturating_sub(hour.0))
        };
        succeeded_at(&mut w, now);
        is_replaced_after_the_last_minute(&mut w, if ahead { "ahead" } else { "behind" });
    }
}

#[test]
fn time_without_contact_adds_nothing_and_takes_nothing() {
    let (mut w, _) = waited_for();
    w.cluster.deaf = true;
    w.cluster.subscribed = false;
    let why = "cut off".to_owned();
    w.step(Event::Cluster(Told::Disconnected { why }));
    w.run(Span::minutes(30));
    assert_eq!(w.accepted().len(), 1);
    w.cluster.deaf = false;
    w.run(seconds(20));
    assert!(w.cluster.subscribed);
    w.run(seconds(25));
    assert_eq!(w.accepted().len(), 1, "45 of 60 seconds");
    w.run(seconds(50));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Running, 2));
}

#[test]
fn a_leader_that_stood_still_has_observed_nothing() {
    let (mut w, _) = waited_for();
    // Long enough for the patience, and for the leadership.
    w.now = w.now.plus(Span::minutes(10));
    w.step(Event::Wake);
    w.step(Event::Deposed);
    w.cluster.subscribed = false;
    w.cluster.offers.clear();
    let now = w.now;
    w.elect();
    w.run(seconds(1));
    assert!(w.now > now);
    w.connect();
    w.order(&[range(0, 0)], 1);
    is_replaced_after_the_last_minute(&mut w, "after it stood still");
}

#[test]
fn a_host_that_came_back_while_nobody_listened_is_asked_before_its_patience_counts() {
    let (mut w, _) = waited_for();
    w.run(seconds(57));
    w.cluster.deaf = true;
    w.cluster.subscribed = false;
    let why = "cut off".to_owned();
    w.step(Event::Cluster(Told::Disconnected { why }));
    w.run(seconds(60));
    w.cluster.silent.clear();
    w.cluster.deaf = false;
    w.run(Span::minutes(6));
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Running, 1));
    assert_eq!(w.kills().len(), 0);
}

#[test]
fn a_clock_that_jumps_ends_no_drain_of_endpoints_and_prolongs_none() {
    for which in 0..3 {
        let mut spec = JobBuilder::service("web", 1).build();
        spec.groups[0].drain = seconds(60);
        let mut w = World::serving();
        w.store_job(&spec);
        w.order(&[range(0, 0)], 1);
        w.run(seconds(10));
        w.wish(&spec, Desired::Stopped, 0);
        w.order(&[range(0, 0)], 1);
        w.run(seconds(20));
        assert_eq!(w.state(0), RunState::Stopping);
        let now = clocks(w.now)[which];
        succeeded_at(&mut w, now);
        w.run(seconds(30));
        assert_eq!(w.kills().len(), 0, "{which}: too early");
        w.run(seconds(20));
        assert_eq!(w.kills().len(), 1, "{which}: too late");
    }
}

#[test]
fn a_run_that_a_clock_ahead_has_dated_settles_anew_when_that_moment_comes() {
    let rollout = Rollout {
        number: 1,
        base: 1,
        ..Rollout::after(None, 1, Timestamp(0))
    };
    let spec = |version: u32| {
        let mut spec = JobBuilder::service("web", 2).max_unavailable(1).build();
        spec.update.min_healthy = seconds(5);
        spec.groups[0].runtime = Runtime::shell(&format!("v{version}"));
        spec.groups[0].revision = version;
        spec
    };
    let mut w = World::serving();
    w.store_job(&spec(1));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(90));
    w.rollout = Some(rollout);
    w.wish(&spec(2), Desired::Running, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(4));
    let behind = Timestamp(w.now.0 - 20_000);
    succeeded_with(&mut w, behind, 2);
    // The world checks the shard's sets after each step.
    w.run(seconds(60));
    let versions = [0, 1].map(|n| w.record(n).unwrap().run.unwrap().spec_version);
    assert_eq!(versions, [2, 2]);
}

#[test]
fn a_clock_that_jumps_makes_nothing_good_or_bad_before_its_time() {
    let rollout = Rollout {
        number: 1,
        base: 1,
        ..Rollout::after(None, 1, Timestamp(0))
    };
    for (which, starts) in [
        (0, true),
        (1, true),
        (2, true),
        (0, false),
        (1, false),
        (2, false),
    ] {
        let spec = |version: u32| {
            let mut spec = JobBuilder::service("web", 2).max_unavailable(1).build();
            spec.update.min_healthy = seconds(60);
            spec.update.healthy_within = seconds(60);
            spec.groups[0].runtime = Runtime::shell(&format!("v{version}"));
            spec.groups[0].revision = version;
            spec
        };
        let mut w = World::serving();
        w.store_job(&spec(1));
        w.order(&[range(0, 1)], 2);
        w.run(seconds(90));
        w.cluster.starts = starts;
        w.rollout = Some(rollout);
        w.wish(&spec(2), Desired::Running, 0);
        w.order(&[range(0, 1)], 2);
        w.run(seconds(20));
        let now = clocks(w.now)[which];
        succeeded_with(&mut w, now, 2);
        let failed = |w: &World| w.slice(1).unwrap().update_failures;
        let version = |w: &World| w.record(1).unwrap().run.unwrap().spec_version;
        w.run(seconds(25));
        assert_eq!((version(&w), failed(&w)), (1, 0), "{which} {starts}: too early");
        // What is being started comes into that state anew when the next leader hears of it.
        w.run(seconds(if starts { 30 } else { 45 }));
        let expected = if starts { (2, 0) } else { (1, 1) };
        assert_eq!((version(&w), failed(&w)), expected, "{which} {starts}: too late");
    }
}
