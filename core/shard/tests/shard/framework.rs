//! Our framework in the cluster: registered once, kept equal to what is configured, and never replaced by itself.

use crate::world::{World, c1, config, seconds};
use echelon_core_hosts::{Call, Refusal};
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::time::Span;
use echelon_core_shard::{Alarm, Config, Event, Mode, Shard};

fn subscriptions(w: &World) -> Vec<Option<String>> {
    let ids = w.calls.iter().filter_map(|call| match call {
        Call::Subscribe { framework } => Some(framework.clone()),
        _ => None,
    });
    ids.collect()
}

fn updates(w: &World) -> usize {
    let updates = w.calls.iter().filter(|call| **call == Call::UpdateFramework);
    updates.count()
}

fn stored(w: &World) -> Option<String> {
    match w.store.read(&Query::Shard(c1())) {
        Answer::Shard(row) => row.framework,
        other => panic!("{other:?}"),
    }
}

/// What the last heartbeat in storage complains of.
fn trouble(w: &World) -> Option<String> {
    match w.store.read(&Query::Heartbeats) {
        Answer::Heartbeats(beats) => beats[0].trouble.clone(),
        other => panic!("{other:?}"),
    }
}

fn ours() -> Option<String> {
    Some("framework-1".to_owned())
}

#[test]
fn each_leadership_says_once_what_is_configured() {
    let mut w = World::serving();
    assert_eq!((subscriptions(&w), updates(&w)), (vec![None], 1));
    w.cluster.disconnect();
    w.run(seconds(3));
    assert_eq!((subscriptions(&w), updates(&w)), (vec![None, ours()], 1));
    w.restart();
    assert_eq!((subscriptions(&w), updates(&w)), (vec![None, ours(), ours()], 2));
}

#[test]
fn a_new_framework_that_cannot_be_updated_is_raised_by_another_subscription() {
    let mut w = World::new();
    w.cluster.keeps_framework = true;
    w.elect();
    w.run(seconds(2));
    assert_eq!(subscriptions(&w), [None, ours()]);
    assert!(matches!(&w.alarms[..], [Alarm::FrameworkKept { why }] if why == "400 not valid"));
    assert_eq!(w.shard.mode(), Mode::Serving);
    // A known one has subscribed with all that is configured, so only its difference is told.
    w.restart();
    assert_eq!(subscriptions(&w).len(), 3);
    assert_eq!(w.alarms.len(), 2);
}

#[test]
fn a_refused_leader_stays_says_so_once_and_tries_on_with_its_id() {
    for (cause, alarm) in [
        (
            Refusal::Wrong,
            Alarm::Refused {
                message: "not you".to_owned(),
            },
        ),
        (
            Refusal::Removed,
            Alarm::FrameworkRemoved {
                framework: "framework-1".to_owned(),
            },
        ),
    ] {
        let mut w = World::serving();
        w.cluster.refuses = Some(cause);
        w.cluster.disconnect();
        w.run(Span::minutes(5));
        assert_eq!(w.alarms, [alarm], "{cause:?}");
        assert_eq!((w.shard.mode(), w.stepped_down.len()), (Mode::Serving, 0));
        let tries = subscriptions(&w).split_off(1);
        assert!((4..8).contains(&tries.len()), "{tries:?}");
        assert!(tries.iter().all(|id| *id == ours()), "{tries:?}");
        assert_eq!((trouble(&w).as_deref(), stored(&w)), (Some("not you"), ours()));
        assert!(w.shard.refused().is_some() && !w.shard.is_subscribed());
        // People have mended it.
        w.cluster.refuses = None;
        w.run(Span::minutes(2));
        assert!(w.shard.refused().is_none() && w.shard.is_subscribed());
        assert_eq!((trouble(&w), w.alarms.len()), (None, 1));
    }
}

#[test]
fn a_removed_framework_is_replaced_only_where_an_operator_names_it() {
    let begin = |replaced: &str| {
        let mut w = World::serving();
        w.crash();
        w.shard = Shard::new(Config {
            replaced_framework: Some(replaced.to_owned()),
            ..config("two")
        });
        w
    };
    for (replaced, cause) in [("framework-0", Refusal::Removed), ("framework-1", Refusal::Wrong)] {
        let mut w = begin(replaced);
        w.cluster.refuses = Some(cause);
        w.elect();
        w.run(Span::minutes(3));
        assert_eq!((stored(&w), w.stepped_down.len()), (ours(), 0), "{replaced}");
    }
    let mut w = begin("framework-1");
    w.cluster.refuses = Some(Refusal::Removed);
    w.elect();
    w.run(seconds(1));
    assert_eq!((stored(&w), w.stepped_down.len()), (None, 1));
    w.cluster.refuses = None;
    w.cluster.framework = "framework-2".to_owned();
    w.elect();
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Serving);
    assert_eq!(stored(&w).as_deref(), Some("framework-2"));
    // The wish is spent: it names another framework.
    w.cluster.refuses = Some(Refusal::Removed);
    w.cluster.disconnect();
    w.run(Span::minutes(2));
    assert_eq!(stored(&w).as_deref(), Some("framework-2"));
}

#[test]
fn a_lost_connection_is_told_until_it_stands_again() {
    let mut w = World::serving();
    assert_eq!(trouble(&w), None);
    w.cluster.mute = true;
    w.cluster.refuses = Some(Refusal::Wrong);
    w.cluster.suppressed = true;
    w.run(seconds(70));
    assert_eq!(trouble(&w), None);
    w.run(seconds(20));
    assert!(trouble(&w).is_some());
}

#[test]
fn a_clock_that_jumps_costs_a_leadership_or_a_subscription_and_no_more() {
    let mut w = World::serving();
    // Back: time stands still until it has caught up.
    w.now = Timestamp(w.now.0 - 100_000);
    w.step(Event::Wake);
    w.now = w.now.plus(seconds(100));
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), w.stepped_down.len()), (Mode::Serving, 0));
    // Forward: this process cannot know whether it still leads.
    w.now = w.now.plus(Span::minutes(60));
    w.step(Event::Wake);
    assert_eq!((w.shard.mode(), w.stepped_down.len()), (Mode::Follower, 1));
    w.elect();
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), stored(&w)), (Mode::Serving, ours()));
}
