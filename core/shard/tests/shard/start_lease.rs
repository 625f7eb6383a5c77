//! The start lease: what has not begun begins only under a young durable heartbeat, and only where nothing
//! forbids it. Each test names the rule of the model (`tests/tests/start_lease.rs`) that it holds.

use crate::world::{Storage, World, c1, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::bucket::ASSIGNMENT_PARTITIONS;
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{
    Answer, Consistency, Decided, Decision, Op, OpResult, Query, Stamp, TroubleKind, Write,
};
use echelon_core_model::{AssignedRange, ClusterId, Generation, ReasonCode, RunState};
use echelon_core_shard::Mode;
use echelon_core_testkit::build::JobBuilder;

/// Writes the row, as the resource manager does.
fn decide_starts(w: &mut World, number: u64, silence: Option<u64>) {
    let Answer::StartBans(before) = w.store.read(&Query::StartBans) else {
        panic!()
    };
    let ban = StartBan { number, silence };
    let mut bans = before.with(&c1(), ban);
    if before == StartBans::default() {
        bans.stamp = Stamp {
            epoch: w.rm,
            sequence: 0,
        };
    }
    let put = Decision::PutStartBans {
        bans,
        expected: before.stamp,
    };
    let done = w.store.perform(Op::Decide(put));
    assert!(matches!(done, OpResult::Decided(Decided::Applied)), "{done:?}");
}

/// Why instances wait, as it was reported last.
fn reasons(w: &World) -> Vec<ReasonCode> {
    let slice = w.slice(1).unwrap();
    slice.waiting.iter().map(|(reason, ..)| reason.code).collect()
}

/// A granted job of which nothing has begun, since placement answers nothing.
fn granted(instances: u32) -> World {
    let mut w = World::serving();
    w.placement_works = false;
    w.store_job(&JobBuilder::service("web", instances).build());
    w.order(&[range(0, instances - 1)], u64::from(instances));
    w.run(seconds(2));
    assert!(w.accepted().is_empty());
    w
}

/// The resource manager has taken over all assignments, as it has when it orders something.
fn raise_all(w: &mut World) {
    for partition in 0..ASSIGNMENT_PARTITIONS {
        let Answer::Assignments(last, _) = w.store.read(&Query::Assignments(partition)) else {
            panic!()
        };
        let raise = Decision::RaisePartition {
            partition,
            epoch: w.rm,
            expected: last.epoch,
        };
        w.store.perform(Op::Decide(raise));
    }
}

/// Storage is full for so long that the lease lapses, and the leader stays.
fn lapse(w: &mut World) {
    w.storage = Storage::Troubled(TroubleKind::Full);
    w.run(seconds(25));
    assert!(w.stepped_down.is_empty(), "{:?}", w.stepped_down);
}

fn moved(first: u32, last: u32) -> AssignedRange {
    AssignedRange {
        cluster: ClusterId::new("c2"),
        generation: Generation(2),
        former: Some((c1(), Generation(1))),
        ..range(first, last)
    }
}

/// `ObeyRow`.
#[test]
fn nothing_new_begins_while_starts_are_forbidden() {
    let mut w = World::new();
    decide_starts(&mut w, 1, Some(7));
    w.elect();
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Serving);
    w.connect();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(20));
    assert!(w.accepted().is_empty());
    assert_eq!(reasons(&w), [ReasonCode::StartsForbidden]);
    assert_eq!(w.shard.forbidden_for(), Some(7));
    decide_starts(&mut w, 1, None);
    w.run(seconds(4));
    // What was ordered before is as old as the ban: the streams are opened anew.
    assert_eq!(w.refused.len(), 1);
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    assert_eq!(w.accepted().len(), 2);
}

/// `NewLeaderLapsed` and `HeartbeatThenRead`: heartbeat, row, assignments, in this order.
#[test]
fn a_new_leader_begins_nothing_before_it_has_read_what_is_forbidden_and_its_assignments() {
    let mut w = granted(2);
    w.slow_heartbeats = true;
    w.ops.clear();
    w.restart();
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.placement_works = true;
    w.run(seconds(6));
    assert!(w.accepted().is_empty());
    assert_eq!(w.count_reads(|q| *q == Query::StartBans), 0);
    assert_eq!(reasons(&w), [ReasonCode::Recovering]);
    w.ops.clear();
    w.unstall();
    w.run(seconds(2));
    let row = Op::Read(Query::StartBans, Consistency::Serial);
    let row = w.ops.iter().position(|op| *op == row).unwrap();
    let of_assignments = |op: &Op| matches!(op, Op::Read(Query::Assignments(_), Consistency::Serial));
    let first = w.ops.iter().position(of_assignments).unwrap();
    let last = w.ops.iter().rposition(of_assignments).unwrap();
    let begins = |op: &Op| match op {
        Op::Commit(batch) => batch.writes.iter().any(|w| matches!(w, Write::Block(_))),
        _ => false,
    };
    let intent = w.ops.iter().position(begins).unwrap();
    assert!(row < first && last < intent, "{row} {first} {last} {intent}");
    assert_eq!(w.accepted().len(), 2);
}

/// `NewLeaderLapsed`, as it is each day: the recovery reads the assignments, and nothing is read twice.
#[test]
fn the_recovery_of_a_new_leader_reads_assignments_once() {
    let mut w = granted(2);
    raise_all(&mut w);
    w.ops.clear();
    w.restart();
    let serial = |op: &&Op| matches!(op, Op::Read(Query::Assignments(_), Consistency::Serial));
    assert_eq!(w.ops.iter().filter(serial).count(), 64);
    assert_eq!(w.count_reads(|q| *q == Query::StartBans), 1);
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.placement_works = true;
    w.run(seconds(2));
    assert_eq!(w.accepted().len(), 2);
}

/// `LeaseAtLaunch`: the intent was written under the lease and is durable after it.
#[test]
fn a_launch_leaves_only_under_the_lease() {
    let mut w = granted(1);
    w.storage = Storage::Troubled(TroubleKind::Full);
    w.placement_works = true;
    w.run(seconds(25));
    assert_eq!(w.state(0), RunState::Launching);
    w.slow_heartbeats = true;
    w.storage = Storage::Works;
    w.run(seconds(5));
    assert!(w.accepted().is_empty());
    assert_eq!(w.stored(0).unwrap().state(), RunState::Pending);
    w.unstall();
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 2)]);
}

/// What has begun goes on without the lease.
#[test]
fn what_has_begun_is_restarted_while_starts_are_forbidden() {
    let mut w = granted(2);
    w.placement_works = true;
    w.run(seconds(2));
    assert_eq!(w.states(2), [RunState::Running; 2]);
    decide_starts(&mut w, 1, Some(7));
    w.restart();
    assert_eq!(w.shard.forbidden_for(), Some(7));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(10));
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

/// What has begun goes on also where its next launch was dropped.
#[test]
fn a_dropped_restart_is_tried_again_while_starts_are_forbidden() {
    let mut w = granted(1);
    w.placement_works = true;
    w.run(seconds(2));
    decide_starts(&mut w, 1, Some(7));
    w.restart();
    w.cluster.starts = false;
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(4));
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)));
    w.hear(&task(0, 1, 2), TaskState::Dropped, "h0");
    w.run(seconds(10));
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 3)));
}

/// `RestartAfterLaunch`: a stored intent is no launch. An earlier leader stored it, and its launch never
/// left.
#[test]
fn a_stored_intent_that_was_not_launched_begins_only_under_the_lease() {
    let mut w = granted(1);
    // The intent is stored, and its leader never learns of it.
    w.storage = Storage::DoesAndFails;
    w.placement_works = true;
    w.run(seconds(2));
    assert!(w.accepted().is_empty());
    assert_eq!(w.stored(0).unwrap().state(), RunState::Launching);
    w.storage = Storage::Works;
    decide_starts(&mut w, 1, Some(7));
    w.restart();
    w.run(seconds(60));
    assert!(w.accepted().is_empty(), "{:?}", w.accepted());
    decide_starts(&mut w, 1, None);
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 2)]);
}

/// What went to another cluster meanwhile is not begun, also where an older order of it arrives late.
#[test]
fn what_has_moved_in_a_silence_is_not_begun() {
    let mut w = granted(2);
    let old = w.link;
    lapse(&mut w);
    // The resource manager forbids starts, moves instance 1, sees the heartbeat, and allows starts again.
    decide_starts(&mut w, 1, Some(7));
    w.assign(&[range(0, 0), moved(1, 1)]);
    decide_starts(&mut w, 1, None);
    w.placement_works = true;
    w.storage = Storage::Works;
    w.run(seconds(5));
    assert_eq!(w.refused.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [old]);
    // It was under way for all that time.
    w.send_order(&[range(0, 1)], &[(1, 2)], 1);
    w.run(seconds(5));
    assert!(
        w.accepted().iter().all(|t| *t == task(0, 1, 1)),
        "{:?}",
        w.accepted()
    );
    assert!(w.stored(1).is_none());
    w.connect();
    w.order(&[range(0, 0), moved(1, 1)], 1);
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 1)]);
}

/// Without a silence that the resource manager acted on, a lapse costs no stream.
#[test]
fn after_a_lapse_without_a_ban_all_goes_on() {
    let mut w = granted(2);
    lapse(&mut w);
    w.placement_works = true;
    w.slow_heartbeats = true;
    w.storage = Storage::Works;
    w.run(seconds(3));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    assert_eq!(
        (w.accepted().len(), reasons(&w)),
        (0, vec![ReasonCode::StorageUnavailable])
    );
    w.unstall();
    w.run(seconds(5));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert!(w.refused.is_empty());
    assert_eq!(w.accepted().len(), 2);
}
