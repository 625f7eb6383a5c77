//! A recovery in which a bucket is slow: groups that do not lie in it are served, the others wait; and what a seal needs.

use crate::world::{Storage, World, c1, job, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::bucket::{BLOCK_BUCKETS, BLOCK_SIZE, BLOCKS_A_RUN, block_bucket};
use echelon_core_model::claim::{Claim, ClaimId, Quota, Victim};
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::instance::{Block, BlockKey, InstanceRecord, SliceRow};
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Batch, Op, Query, Stamp, Write};
use echelon_core_model::{
    AssignedRange, ClusterId, Epoch, Generation, InstanceNumber, InstanceRange, RunState,
};
use echelon_core_shard::{Alarm, Mode};
use echelon_core_testkit::build::{JobBuilder, job_id, main_group, shape};
use std::collections::BTreeSet;

fn web(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    w
}

/// Instances whose blocks lie in one bucket.
const RUN: u32 = BLOCK_SIZE * BLOCKS_A_RUN;

fn bucket_of_block(block: u32) -> u16 {
    block_bucket(job(), &main_group(), block)
}

/// A bucket in which nothing of the first `blocks` blocks lies.
fn elsewhere(blocks: u32) -> u16 {
    let mut ours: BTreeSet<u16> = (0..blocks).map(bucket_of_block).collect();
    ours.insert(bucket_of_block(SliceRow::BLOCK));
    (0..BLOCK_BUCKETS).find(|b| !ours.contains(b)).unwrap()
}

/// The leader dies, and the next one finds a bucket slow.
fn with_slow(w: &mut World, bucket: u16) {
    w.crash();
    w.slow_bucket = Some(bucket);
    w.elect();
    w.run(seconds(2));
    assert_eq!(w.shard.mode(), Mode::Recovering);
}

fn fulls(w: &World) -> usize {
    let ends = w.reports.iter().filter(|r| r.part == ReportPart::FullEnd);
    ends.count()
}

#[test]
fn a_slow_bucket_does_not_delay_groups_that_lie_elsewhere() {
    let mut w = web(2);
    with_slow(&mut w, elsewhere(1));
    let before = w.acknowledged();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    assert_eq!(w.shard.mode(), Mode::Recovering);
    assert!(w.acknowledged() > before);
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)), "restarted meanwhile");
    w.unstall();
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), w.kills().len()), (Mode::Serving, 0));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

/// What is known of it yet would look as if nothing of it were here.
#[test]
fn nothing_is_reported_of_a_group_that_is_not_read() {
    for bucket in [bucket_of_block(0), bucket_of_block(SliceRow::BLOCK)] {
        let mut w = web(2);
        w.crash();
        w.reports.clear();
        w.slow_bucket = Some(bucket);
        w.slow_heartbeats = true;
        w.elect();
        w.connect();
        // With its first heartbeat the leader may start things, so that all groups wait for another reason.
        w.slow_heartbeats = false;
        let stalled = std::mem::take(&mut w.stalled);
        stalled.into_iter().for_each(|(id, op)| w.operate(id, op));
        w.drain();
        w.run(seconds(5));
        assert_eq!(w.shard.mode(), Mode::Recovering);
        let told = w
            .reports
            .iter()
            .filter(|r| matches!(r.part, ReportPart::Slices(_)));
        assert_eq!(told.count(), 0, "{:?}", w.reports);
        w.unstall();
        w.run(seconds(2));
        assert_eq!(w.slice(1).map(|slice| slice.active), Some(2));
    }
}

#[test]
fn an_update_about_a_group_that_is_not_sealed_waits() {
    // The block's own bucket, and the slice row's.
    for bucket in [bucket_of_block(0), bucket_of_block(SliceRow::BLOCK)] {
        let mut w = web(2);
        with_slow(&mut w, bucket);
        let before = (w.acknowledged(), w.accepted());
        w.cluster.set(&task(0, 1, 1), TaskState::Failed);
        w.run(seconds(5));
        assert_eq!((w.acknowledged(), w.accepted()), before);
        w.unstall();
        w.run(seconds(5));
        assert!(w.acknowledged() > before.0);
        assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)));
        assert_eq!((w.shard.quarantined().count(), w.kills().len()), (0, 0));
    }
}

#[test]
fn a_group_waits_for_each_of_its_blocks() {
    let mut w = web(RUN + 2);
    with_slow(&mut w, bucket_of_block(BLOCKS_A_RUN));
    let before = w.acknowledged();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(3));
    assert_eq!(w.acknowledged(), before);
    w.unstall();
    w.run(seconds(3));
    assert!(w.acknowledged() > before);
}

#[test]
fn updates_beyond_the_bound_are_dropped_and_come_again() {
    let mut w = web(2);
    w.crash();
    let mut small = crate::world::config("small");
    small.timing.held_events = 1;
    w.shard = echelon_core_shard::Shard::new(small);
    w.slow_bucket = Some(bucket_of_block(0));
    w.elect();
    w.run(seconds(2));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    w.run(seconds(1));
    assert!(w.alarms.contains(&Alarm::HeldQueueFull));
    w.unstall();
    w.run(seconds(2));
    w.cluster.resend();
    w.run(seconds(5));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn an_order_about_a_group_that_is_not_sealed_waits() {
    let mut w = web(2);
    with_slow(&mut w, bucket_of_block(0));
    w.connect();
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert!(w.kills().is_empty());
    w.unstall();
    w.run(seconds(5));
    assert_eq!(w.states(2), [RunState::Killed; 2]);
}

#[test]
fn an_order_that_reaches_into_an_unsealed_bucket_waits() {
    let mut w = web(2);
    with_slow(&mut w, bucket_of_block(BLOCKS_A_RUN));
    w.connect();
    w.store_job(&JobBuilder::service("web", RUN + 1).build());
    w.order(&[range(0, RUN)], 3);
    w.run(seconds(3));
    assert_eq!(w.accepted().len(), 2);
    w.unstall();
    w.run(seconds(3));
    assert_eq!(w.accepted().len(), 3);
}

#[test]
fn nothing_is_reported_of_what_is_not_served_and_everything_in_the_end() {
    let mut w = web(2);
    let before = fulls(&w);
    with_slow(&mut w, elsewhere(1));
    w.reports.clear();
    w.connect();
    w.run(seconds(2));
    // A full report would say of the groups that are not read that nothing of them is here.
    assert_eq!(fulls(&w), 0);
    w.unstall();
    w.run(seconds(2));
    assert!(before > 0 && fulls(&w) > 0);
    assert_eq!(w.slice(1).unwrap().active, 2);
}

#[test]
fn a_crash_in_the_middle_loses_and_doubles_nothing() {
    let mut w = web(2);
    with_slow(&mut w, elsewhere(1));
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)));
    // The next one finds the bucket of the group slow, the one after it none.
    with_slow(&mut w, bucket_of_block(0));
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    w.run(seconds(2));
    w.slow_bucket = None;
    w.restart();
    w.run(seconds(20));
    assert_eq!(w.states(2), [RunState::Running; 2]);
    let mut live = w.cluster.live();
    live.sort();
    assert_eq!(live, [task(0, 1, 2), task(1, 1, 2)]);
    assert_eq!(w.accepted().len(), 4);
}

#[test]
fn a_recovering_shard_is_not_woken_in_vain() {
    let mut w = web(2);
    with_slow(&mut w, elsewhere(1));
    w.step(echelon_core_shard::Event::LinkClosed(w.link));
    let end = w.now.plus(seconds(5));
    let mut wakes = 0;
    while let Some(at) = w.shard.next_wake().filter(|at| *at < end) {
        w.now = at;
        w.step(echelon_core_shard::Event::Wake);
        wakes += 1;
    }
    assert!(wakes < 100, "{wakes} in five seconds");
}

#[test]
fn numbers_given_away_while_nobody_led_are_not_counted_as_held() {
    let mut w = web(4);
    let away = AssignedRange {
        range: InstanceRange { first: 2, last: 3 },
        cluster: ClusterId::new("c2"),
        generation: Generation(2),
        former: Some((c1(), Generation(1))),
        releasing: None,
    };
    w.crash();
    w.assign(&[range(0, 1), away]);
    w.restart();
    w.connect();
    w.run(seconds(2));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.held.count(), slice.active, slice.live), (2, 2, 4));
}

#[test]
fn every_bucket_is_sealed_after_all_that_it_holds_is_written_back() {
    let mut w = World::new();
    // Five full blocks of one bucket are more than one commit.
    let bucket = bucket_of_block(0);
    let keys = (0..).map(|n| BlockKey {
        job: job_id(9),
        group: main_group(),
        number: n,
    });
    let keys: Vec<BlockKey> = keys.filter(|k| k.bucket() == bucket).take(5).collect();
    let block = |key: &BlockKey| {
        let first = key.number * BLOCK_SIZE;
        let instances = (first..first + BLOCK_SIZE).map(|n| (InstanceNumber(n), InstanceRecord::default()));
        Block {
            key: key.clone(),
            instances: instances.collect(),
        }
    };
    w.store.perform(Op::Commit(Batch {
        owner: w.role(),
        stamp: Stamp {
            epoch: Epoch(0),
            sequence: 1,
        },
        writes: keys.iter().map(block).map(Write::Block).collect(),
    }));
    w.elect();
    w.run(seconds(2));
    let (mut seals, mut written) = (BTreeSet::new(), 0);
    for op in &w.ops {
        let Op::Commit(batch) = op else { continue };
        for write in &batch.writes {
            match write {
                Write::Block(b) if keys.contains(&b.key) => written += 1,
                Write::Seal(n) if *n == bucket => assert_eq!(written, 5, "sealed too early"),
                _ => {}
            }
            seals.extend(match write {
                Write::Seal(n) => Some(*n),
                _ => None,
            });
        }
    }
    assert_eq!(seals.len(), usize::from(BLOCK_BUCKETS));
}

/// What is read is written back before much more is read: meanwhile it is in memory twice.
#[test]
fn reading_runs_not_far_ahead_of_what_is_written_back() {
    let mut w = web(2);
    w.crash();
    w.ops.clear();
    w.elect();
    w.storage = Storage::StallsCommits;
    w.run(seconds(2));
    let read = |w: &World| w.count_reads(|q| matches!(q, Query::BlockBucket(..)));
    assert_eq!(w.shard.mode(), Mode::Recovering);
    assert!((1..=48).contains(&read(&w)), "{}", read(&w));
    w.storage = Storage::Works;
    w.unstall();
    w.run(seconds(2));
    assert_eq!((w.shard.mode(), read(&w)), (Mode::Serving, 256));
}

#[test]
fn what_a_deposed_resource_manager_ordered_of_a_group_that_is_not_sealed_is_dropped() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 1);
    w.run(seconds(2));
    with_slow(&mut w, bucket_of_block(0));
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(1));
    w.rm = Epoch(5);
    w.direct(Order::Report);
    w.run(seconds(1));
    w.unstall();
    w.run(seconds(5));
    assert_eq!(w.shard.mode(), Mode::Serving);
    assert_eq!((w.state(0), w.accepted().len()), (RunState::Running, 1));
}

#[test]
fn a_claim_of_a_deposed_resource_manager_that_waited_for_a_recovery_stops_nothing() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    with_slow(&mut w, elsewhere(1));
    w.connect();
    let id = ClaimId {
        epoch: w.rm,
        number: 1,
    };
    let claim = Claim {
        id,
        job: job_id(9),
        parts: Vec::new(),
        waits: c1(),
        pool: "/owner".to_owned(),
        most: 1,
        victims: vec![Victim {
            job: job(),
            group: main_group(),
            generation: Generation(1),
            most: 2,
            class: 0,
        }],
        quota: Some(Quota {
            left: shape(0, 0),
            unit: shape(1, 64),
            count: 1,
        }),
        keeps_host: false,
    };
    let (claims, lease) = (vec![claim], seconds(60));
    w.direct(Order::Claims { claims, lease });
    w.run(seconds(1));
    w.rm = Epoch(5);
    w.direct(Order::Report);
    w.run(seconds(1));
    assert_eq!(w.shard.mode(), Mode::Recovering);
    w.unstall();
    w.run(seconds(3));
    assert_eq!((w.shard.mode(), w.kills().len()), (Mode::Serving, 0));
}
