//! The order of durability with a storage that stalls, fails, or does and says that it failed. `World` checks it at every
//! call to the cluster; here each step is held up on purpose.

use crate::world::{Storage, World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::job::Desired;
use echelon_core_model::store::Op;
use echelon_core_model::time::Span;
use echelon_core_model::{RunNumber, RunState};
use echelon_core_shard::Mode;
use echelon_core_testkit::build::JobBuilder;

fn ordered(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(Span::millis(2));
    w
}

#[test]
fn nothing_is_accepted_before_its_intent_is_durable() {
    let mut w = ordered(2);
    w.storage = Storage::StallsCommits;
    w.run(seconds(3));
    assert_eq!(w.accepted(), Vec::<String>::new());
    w.unstall();
    w.run(seconds(2));
    assert_eq!(w.cluster.live().len(), 2);
}

#[test]
fn nothing_is_acknowledged_before_its_effect_is_durable() {
    let mut w = ordered(1);
    w.cluster.starts = false;
    w.run(seconds(2));
    w.storage = Storage::StallsCommits;
    w.cluster.set(&task(0, 1, 1), TaskState::Running);
    w.run(seconds(3));
    assert_eq!((w.acknowledged(), w.state(0)), (0, RunState::Running));
    w.unstall();
    w.run(seconds(1));
    assert_eq!(w.acknowledged(), 1);
}

#[test]
fn nothing_is_killed_before_the_wish_is_durable() {
    let mut w = ordered(1);
    w.run(seconds(2));
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Stopped, 0);
    w.storage = Storage::StallsCommits;
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!((w.kills(), w.state(0)), (Vec::new(), RunState::Stopping));
    w.unstall();
    w.run(seconds(1));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
}

#[test]
fn nothing_is_reported_before_it_is_durable() {
    let mut w = ordered(1);
    w.run(seconds(2));
    w.storage = Storage::StallsCommits;
    let told = |w: &World| {
        w.reports
            .iter()
            .filter(|r| matches!(r.part, ReportPart::Slices(_)))
            .count()
    };
    let before = told(&w);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(3));
    assert_eq!(told(&w), before);
    w.unstall();
    w.run(Span::millis(300));
    assert!(told(&w) > before);
}

#[test]
fn an_unknown_outcome_is_settled_by_the_same_batch_again() {
    let mut w = ordered(1);
    w.run(seconds(2));
    w.ops.clear();
    w.storage = Storage::DoesAndFails;
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(2));
    let acknowledged = w.acknowledged();
    w.storage = Storage::Works;
    w.run(seconds(3));
    let blocks = |op: &&Op| matches!(op, Op::Commit(b) if b.writes.iter().any(|w| matches!(w, echelon_core_model::store::Write::Block(_))));
    let commits: Vec<&Op> = w.ops.iter().filter(blocks).collect();
    assert!(commits.len() > 2);
    assert_eq!(commits[0], commits[1], "repeated with another content or stamp");
    assert!(w.acknowledged() > acknowledged);
}

#[test]
fn stamps_never_repeat_within_an_epoch() {
    let mut w = ordered(3);
    w.run(seconds(10));
    let mut stamps = Vec::new();
    for op in &w.ops {
        if let Op::Commit(batch) = op {
            stamps.push(batch.stamp);
        }
    }
    let all = stamps.len();
    stamps.sort();
    stamps.dedup();
    assert_eq!(stamps.len(), all);
}

#[test]
fn without_storage_nothing_starts_or_stops_and_leadership_is_given_up() {
    let mut w = ordered(1);
    w.run(seconds(2));
    w.storage = Storage::Fails;
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(9));
    assert_eq!((w.accepted().len(), w.kills().len()), (1, 0));
    w.run(seconds(4));
    assert_eq!((w.stepped_down.len(), w.shard.mode()), (1, Mode::Follower));
    // Elected again once storage is back, it goes on.
    w.storage = Storage::Works;
    w.elect();
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Running);
    assert_eq!(w.stored(0).unwrap().run.unwrap().number, RunNumber(2));
}

#[test]
fn a_deposed_leader_does_nothing_of_what_was_pending() {
    let mut w = ordered(2);
    w.storage = Storage::StallsCommits;
    w.run(seconds(2));
    w.step(echelon_core_shard::Event::Deposed);
    let calls = w.calls.len();
    w.unstall();
    w.run(seconds(30));
    assert_eq!(w.calls.len(), calls);
    assert_eq!(w.shard.pending_operations(), 0);
}

/// A change is reported at once, and while more follow there are ten reports a second.
#[test]
fn a_first_change_is_reported_at_once_and_more_of_them_at_a_distance() {
    let mut w = ordered(100);
    w.run(seconds(5));
    let told = |w: &World| {
        let slices = |r: &&echelon_core_model::directive::Report| matches!(r.part, ReportPart::Slices(_));
        w.reports.iter().filter(slices).count()
    };
    let before = told(&w);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(Span::millis(20));
    assert_eq!(told(&w), before + 1, "at once");
    for n in 1..100 {
        w.cluster.set(&task(n, 1, 1), TaskState::Failed);
        w.run(Span::millis(20));
    }
    let all = told(&w) - before;
    assert!((15..=30).contains(&all), "{all} in two seconds");
}
