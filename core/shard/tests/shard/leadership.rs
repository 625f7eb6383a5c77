//! Becoming, staying and ceasing to be the leader.

use crate::world::{Storage, World, c1, job, range, seconds};
use echelon_core_hosts::{Call, Event as Told, Refusal};
use echelon_core_model::bucket::block_bucket;
use echelon_core_model::store::{Answer, Batch, Decision, EventEnd, Leadership, Op, Query, Write};
use echelon_core_model::time::Span;
use echelon_core_model::{Epoch, GroupName};
use echelon_core_shard::{Alarm, Event, Mode};
use echelon_core_testkit::build::JobBuilder;

fn take(w: &mut World, epoch: u64, expected: u64) {
    let decision = Decision::TakeEpoch {
        role: w.role(),
        next: Leadership {
            epoch: Epoch(epoch),
            holder: "another".to_owned(),
            proof: 1,
            resumed: Epoch(0),
        },
        expected: Epoch(expected),
    };
    w.store.perform(Op::Decide(decision));
}

#[test]
fn a_leader_takes_the_next_epoch_publishes_it_and_serves() {
    let w = World::serving();
    assert_eq!((w.shard.epoch(), w.published.epoch), (Epoch(1), Epoch(1)));
}

#[test]
fn each_leader_has_a_larger_epoch() {
    let mut w = World::serving();
    for epoch in 2..5 {
        w.restart();
        assert_eq!(w.shard.epoch(), Epoch(epoch));
    }
}

#[test]
fn an_unknown_outcome_of_taking_the_epoch_is_settled() {
    let mut w = World::new();
    w.storage = Storage::DoesAndFails;
    w.elect();
    w.run(seconds(1));
    w.storage = Storage::Works;
    w.run(seconds(5));
    assert_eq!((w.shard.mode(), w.shard.epoch()), (Mode::Serving, Epoch(1)));
}

#[test]
fn a_larger_epoch_in_storage_ends_the_leadership_within_a_third_of_the_lease() {
    let mut w = World::serving();
    take(&mut w, 2, 1);
    w.run(seconds(4));
    assert_eq!((w.stepped_down.len(), w.shard.mode()), (1, Mode::Follower));
}

#[test]
fn nothing_leaves_while_it_is_not_certain_who_leads() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.storage = Storage::Fails;
    w.run(seconds(5));
    w.order(&[range(0, 0)], 1);
    w.storage = Storage::Works;
    // The question is repeated with backoff; until it is answered nothing is launched.
    assert!(w.accepted().is_empty());
    w.run(seconds(6));
    assert_eq!(w.accepted().len(), 1);
}

#[test]
fn a_process_that_was_paused_beyond_its_lease_does_nothing_but_step_down() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.placement_works = false;
    w.order(&[range(0, 0)], 1);
    w.run(Span::millis(50));
    let calls = w.calls.len();
    w.now = w.now.plus(seconds(11));
    w.placement_works = true;
    w.step(Event::Wake);
    w.run(seconds(5));
    assert_eq!((w.calls.len(), w.stepped_down.len()), (calls, 1));
}

#[test]
fn an_epoch_that_membership_knows_and_storage_does_not_freezes() {
    let mut w = World::new();
    w.published.epoch = Epoch(7);
    w.elect();
    w.run(seconds(60));
    assert_eq!(w.shard.mode(), Mode::Frozen);
    assert!(w.calls.is_empty(), "{:?}", w.calls);
    assert!(matches!(w.alarms[..], [Alarm::StorageRolledBack { .. }]));
    // An operator has raised the stored epoch far above.
    take(&mut w, 1000, 0);
    w.run(seconds(30));
    assert_eq!((w.shard.mode(), w.shard.epoch()), (Mode::Serving, Epoch(1001)));
}

#[test]
fn a_stored_epoch_below_our_own_freezes() {
    let mut w = World::serving();
    w.store = echelon_core_testkit::store::ModelStore::new();
    w.run(seconds(4));
    assert_eq!(w.shard.mode(), Mode::Frozen);
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert!(w.accepted().is_empty());
}

#[test]
fn the_framework_id_is_stored_before_anything_else_is_sent() {
    let mut w = World::new();
    w.storage = Storage::StallsCommits;
    w.elect();
    w.run(seconds(2));
    let others = w
        .calls
        .iter()
        .filter(|c| !matches!(c, Call::Subscribe { framework: None }));
    assert_eq!(others.count(), 0);
    w.unstall();
    w.run(seconds(1));
    w.restart();
    let last = w.calls.iter().rev().find(|c| matches!(c, Call::Subscribe { .. }));
    let framework = Some("framework-1".to_owned());
    assert_eq!(last, Some(&Call::Subscribe { framework }));
}

#[test]
fn another_framework_id_than_the_stored_one_freezes() {
    let mut w = World::serving();
    w.crash();
    w.elect();
    w.feed(Event::Wake);
    w.step(Event::Cluster(Told::Subscribed {
        framework: "other".to_owned(),
        heartbeat: seconds(15),
        master: None,
    }));
    w.run(seconds(1));
    assert!(
        w.alarms
            .iter()
            .any(|a| matches!(a, Alarm::ForeignFramework { .. })),
        "{:?}",
        w.alarms
    );
    assert_eq!(w.shard.mode(), Mode::Frozen);
}

#[test]
fn a_newer_subscription_ends_the_leadership_and_a_break_does_not() {
    let mut w = World::serving();
    w.cluster.disconnect();
    w.run(seconds(3));
    assert_eq!((w.shard.mode(), w.cluster.subscribed), (Mode::Serving, true));
    let message = "Framework failed over".to_owned();
    w.step(Event::Cluster(Told::Refused {
        message,
        cause: Refusal::Superseded,
    }));
    assert_eq!((w.shard.mode(), w.stepped_down.len()), (Mode::Follower, 1));
    let calls = w.calls.len();
    w.run(seconds(60));
    assert_eq!(
        w.calls.len(),
        calls,
        "a superseded leader must not come back by itself"
    );
}

#[test]
fn a_silent_stream_is_subscribed_again() {
    let mut w = World::serving();
    let count = |w: &World| {
        w.calls
            .iter()
            .filter(|c| matches!(c, Call::Subscribe { .. }))
            .count()
    };
    let before = count(&w);
    w.cluster.mute = true;
    w.cluster.suppressed = true;
    w.run(seconds(60));
    assert_eq!(count(&w), before);
    w.run(seconds(40));
    assert!(count(&w) > before);
}

#[test]
fn heartbeats_are_stored_with_what_is_observed() {
    use echelon_core_model::store::{Answer, Query};
    let mut w = World::serving();
    w.run(seconds(10));
    let Answer::Heartbeats(all) = w.store.read(&Query::Heartbeats) else {
        panic!()
    };
    assert_eq!((all.len(), &all[0].cluster, all[0].epoch), (1, &c1(), Epoch(1)));
    assert!(w.now.since(all[0].at) <= seconds(4));
    assert!(all[0].signs.subscribed && all[0].signs.event_age.is_some());
}

/// Everything that a leader may do is done again later, and nothing is read or sealed again.
#[test]
fn a_suspended_leader_does_nothing_and_goes_on_in_the_same_term() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.step(Event::Suspended);
    let (calls, ops, reports) = (w.calls.len(), w.ops.len(), w.reports.len());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!(
        (w.calls.len(), w.ops.len(), w.reports.len()),
        (calls, ops, reports)
    );
    assert!(w.shard.is_suspended());
    w.step(Event::Resumed);
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), w.shard.epoch()), (Mode::Serving, Epoch(1)));
    assert_eq!((w.accepted().len(), w.stepped_down.len()), (1, 0));
    let read_again = w.ops.iter().skip(ops).any(|op| {
        let text = format!("{op:?}");
        text.contains("Bucket") || text.contains("TakeEpoch")
    });
    assert!(!read_again, "{:?}", w.ops);
}

#[test]
fn a_resumed_leader_acts_only_after_storage_has_confirmed_its_epoch() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.step(Event::Suspended);
    take(&mut w, 2, 1);
    let calls = w.calls.len();
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    w.step(Event::Resumed);
    w.run(seconds(3));
    assert_eq!((w.calls.len(), w.stepped_down.len()), (calls, 1));
    assert_eq!(w.shard.mode(), Mode::Follower);
}

#[test]
fn a_resumed_leader_gives_up_when_storage_does_not_answer_for_its_lease() {
    let mut w = World::serving();
    w.step(Event::Suspended);
    w.storage = Storage::Fails;
    w.step(Event::Resumed);
    w.run(seconds(9));
    assert!(w.shard.is_suspended());
    w.run(seconds(2));
    assert_eq!((w.stepped_down.len(), w.shard.mode()), (1, Mode::Follower));
}

#[test]
fn only_a_lost_leadership_forgets() {
    let mut w = World::serving();
    w.step(Event::Suspended);
    w.step(Event::Deposed);
    assert_eq!((w.shard.mode(), w.shard.is_suspended()), (Mode::Follower, false));
    w.elect();
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), w.shard.epoch()), (Mode::Serving, Epoch(2)));
}

/// What a deposed leader still writes of a bucket that its successor has sealed is hidden, and so are the events of it; what it had noted
/// before stays.
#[test]
fn a_successor_closes_the_events_of_its_predecessor() {
    let mut w = World::serving();
    let spec = JobBuilder::service("web", 1).build();
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let role = w.role();
    let written = w.store.events_of(job(), &role).len();
    assert!(written > 0);
    let lane = block_bucket(job(), &GroupName::new("main"), 0);
    let ends = |w: &World| match w.store.read(&Query::EventEnds(w.role(), lane)) {
        Answer::EventEnds(ends) => ends,
        other => panic!("{other:?}"),
    };
    let [noted] = ends(&w)[..] else {
        panic!("one leader has written")
    };
    assert_eq!((noted.stamp.epoch, noted.is_closed), (Epoch(1), false));
    w.restart();
    let closed = |w: &World| {
        ends(w)
            .into_iter()
            .filter(|end| end.is_closed)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        closed(&w),
        [EventEnd {
            is_closed: true,
            ..noted
        }]
    );
    // A write of the deposed leader that was under way for long.
    let late = Batch {
        owner: role,
        stamp: noted.stamp.next(),
        writes: vec![
            Write::Event(w.store.events_of(job(), &w.role())[0].clone()),
            Write::NoteEvents(lane),
        ],
    };
    w.store.perform(Op::Commit(late));
    assert_eq!(w.store.events_of(job(), &w.role()).len(), written + 1);
    assert_eq!(
        closed(&w),
        [EventEnd {
            is_closed: true,
            ..noted
        }],
        "it is behind the end"
    );
    assert!(
        ends(&w)
            .iter()
            .all(|end| end.is_closed || end.stamp.epoch == Epoch(2))
    );
}
