//! For how long a silent host is waited for: by what all leaders have observed in sum, whatever their
//! clocks say and whichever side was away.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Event as Told, TaskState};
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
    w.crash();
    w.now = now;
    w.elect();
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Serving);
    w.connect();
    w.order(&[range(0, 0)], 1);
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
