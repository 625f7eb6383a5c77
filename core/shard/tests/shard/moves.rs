//! Marks, releases, and taking over between clusters.

use crate::world::{World, c1, job, marked, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::assignment::LastHolder;
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::instance::{Block, BlockKey, Ended, InstanceRecord, Run};
use echelon_core_model::store::{Answer, Batch, Decision, Leadership, Op, Query, Role, Stamp, Write};
use echelon_core_model::{
    AssignedRange, ClusterId, Epoch, Generation, HostId, InstanceNumber, RangeSet, ReasonCode, RunNumber,
    RunState, Timestamp, Version,
};
use echelon_core_testkit::build::{JobBuilder, main_group};
use std::collections::BTreeMap;
use std::sync::Arc;

fn c2() -> ClusterId {
    ClusterId::new("c2")
}

fn web(n: u32, active: u64) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", n).build());
    w.order(&[range(0, n - 1)], active);
    w.run(seconds(2));
    w
}

/// What the shard of c2 has stored.
fn theirs(w: &mut World, records: &[(u32, InstanceRecord)]) {
    let role = Role::Shard(c2());
    let next = Leadership {
        epoch: Epoch(1),
        holder: "c2".to_owned(),
        proof: 1,
        resumed: Epoch(0),
    };
    let take = Decision::TakeEpoch {
        role: role.clone(),
        next,
        expected: Epoch(0),
    };
    w.store.perform(Op::Decide(take));
    let instances = records
        .iter()
        .map(|(n, r)| (InstanceNumber(*n), r.clone()))
        .collect();
    let key = BlockKey::of(job(), &main_group(), InstanceNumber(0));
    let batch = Batch {
        owner: role,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1 + u64::try_from(records.len()).unwrap(),
        },
        writes: vec![Write::Block(Block { key, instances })],
    };
    w.store.perform(Op::Commit(batch));
}

fn run_at(generation: u32, state: RunState) -> Run {
    Run {
        generation: Generation(generation),
        number: RunNumber(1),
        state,
        since: Timestamp(5),
        reason: ReasonCode::Running.into(),
        host: HostId::new("far"),
        hostname: Arc::from("far"),
        spec_version: 1,
        restarts: 0,
        head_version: Version(0),
        replaces: false,
        started_at: None,
        ended_at: None,
        exit_code: None,
        stopping: None,
        ports: Default::default(),
        revocable: None,
        healthy: None,
        ready: None,
        members: Default::default(),
        ending: None,
        available_at: None,
        observed_at: Default::default(),
        probes: Default::default(),
        gang_try: 0,
        fault: None,
        gone: None,
    }
}

/// A range that comes from c2.
fn from_c2(first: u32, last: u32, generation: u32) -> AssignedRange {
    AssignedRange {
        generation: Generation(generation),
        former: Some((c2(), Generation(generation - 1))),
        ..range(first, last)
    }
}

#[test]
fn a_marked_range_starts_nothing_and_is_given_back() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 4).build());
    w.order(&[range(0, 1), marked(range(2, 3), Some("c2"), None)], 4);
    w.run(seconds(2));
    assert_eq!(w.accepted().len(), 2);
    assert_eq!(w.slice(1).unwrap().released.to_string(), "2-3");
}

#[test]
fn released_is_final_for_its_generation() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 2).build());
    w.order(&[marked(range(0, 1), Some("c2"), None)], 2);
    w.run(seconds(2));
    // The mark is withdrawn too late.
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.accepted(), Vec::<String>::new());
    w.restart();
    w.connect();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(w.accepted(), Vec::<String>::new());
    // Assigned to us again at the next generation, they begin.
    let again = AssignedRange {
        generation: Generation(2),
        former: Some((c1(), Generation(1))),
        ..range(0, 1)
    };
    w.order_at(&[again], &[(2, 2)]);
    w.run(seconds(5));
    assert_eq!(w.accepted().len(), 2);
    assert!(w.accepted().contains(&task(0, 2, 1)));
}

#[test]
fn a_withdrawn_mark_lets_the_range_go_on() {
    let mut w = web(2, 2);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster
        .silent
        .extend([host, w.cluster.tasks[&task(1, 1, 1)].host.clone()]);
    w.order(&[marked(range(0, 1), Some("c2"), None)], 2);
    w.run(seconds(2));
    assert!(
        w.slice(1).unwrap().released.is_empty(),
        "given back while it may be alive"
    );
    w.order(&[range(0, 1)], 2);
    w.cluster.silent.clear();
    w.run(seconds(70));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(10));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn running_numbers_are_stopped_before_they_are_given_back() {
    let mut w = web(2, 2);
    w.order(&[range(0, 0), marked(range(1, 1), Some("c2"), None)], 2);
    w.run(seconds(3));
    assert_eq!(w.kills(), [task(1, 1, 1)]);
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.released.to_string(), slice.live), ("1".to_owned(), 1));
    // What became of it is stored, for the next holder.
    assert_eq!(w.stored(1).unwrap().run.unwrap().state, RunState::Killed);
    assert_eq!(
        w.stored(1).unwrap().ended,
        None,
        "a move does not end an instance"
    );
}

#[test]
fn a_count_takes_the_highest_unstarted_once() {
    let mut w = web(8, 2);
    let order = [marked(range(0, 7), Some("c2"), Some(3))];
    for _ in 0..3 {
        w.order(&order, 2);
        w.run(seconds(2));
        assert_eq!(w.slice(1).unwrap().released.to_string(), "5-7");
    }
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.slice(1).unwrap().active, 2);
}

#[test]
fn a_count_never_takes_what_was_begun() {
    let mut w = web(4, 3);
    w.order(&[marked(range(0, 3), Some("c2"), Some(4))], 3);
    w.run(seconds(3));
    assert_eq!(w.slice(1).unwrap().released.to_string(), "3");
    assert_eq!(w.cluster.live().len(), 3);
}

#[test]
fn what_ended_elsewhere_is_not_run_again() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 3).build());
    let done = InstanceRecord {
        generation: Generation(1),
        run: Some(run_at(1, RunState::Succeeded)),
        ended: Some(Ended::Succeeded),
        ..InstanceRecord::default()
    };
    let tried = InstanceRecord {
        generation: Generation(1),
        run: Some(run_at(1, RunState::Failed)),
        attempts: 2,
        ..InstanceRecord::default()
    };
    theirs(&mut w, &[(0, done), (1, tried)]);
    w.order_at(&[from_c2(0, 2, 2)], &[(2, 3)]);
    w.run(seconds(3));
    assert_eq!(w.accepted(), [task(1, 2, 1), task(2, 2, 1)]);
    assert_eq!(w.stored(1).unwrap().attempts, 2);
    let told = w.slice(2).unwrap();
    let shown = told.counts.get(RunState::Succeeded);
    assert_eq!((told.succeeded, shown), (1, 1));
    w.cluster.set(&task(1, 2, 1), TaskState::Failed);
    w.run(seconds(3));
    assert_eq!(
        w.stored(1).unwrap().ended,
        Some(Ended::Failed),
        "attempts go with the instance"
    );
}

#[test]
fn nothing_starts_before_the_former_holder_was_read() {
    use crate::world::Storage;
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 1).build());
    w.assign(&[from_c2(0, 0, 2)]);
    w.storage = Storage::StallsCommits;
    w.send_order(&[from_c2(0, 0, 2)], &[(2, 1)], 1);
    w.run(seconds(3));
    assert!(w.accepted().is_empty());
    w.unstall();
    w.run(seconds(3));
    assert_eq!(w.accepted(), [task(0, 2, 1)]);
    let row = w.shard.slices().next().unwrap();
    assert_eq!(row.taken_over[&Generation(2)].to_string(), "0");
}

#[test]
fn a_cluster_that_was_believed_lost_kills_only_what_runs_or_ended_elsewhere() {
    let mut w = web(3, 3);
    // While we were away, 0 and 1 began at c2, 0 has ended there; 2 has not begun.
    let done = InstanceRecord {
        generation: Generation(2),
        run: Some(run_at(2, RunState::Succeeded)),
        ended: Some(Ended::Succeeded),
        ..InstanceRecord::default()
    };
    let runs = InstanceRecord {
        generation: Generation(2),
        run: Some(run_at(2, RunState::Running)),
        ..InstanceRecord::default()
    };
    theirs(&mut w, &[(0, done), (1, runs)]);
    let away = AssignedRange {
        cluster: c2(),
        generation: Generation(2),
        former: Some((c1(), Generation(1))),
        ..range(0, 2)
    };
    w.order_at(&[away], &[]);
    w.run(seconds(5));
    assert_eq!(w.kills(), [task(0, 1, 1), task(1, 1, 1)]);
    assert_eq!(w.cluster.live(), [task(2, 1, 1)]);
    // It comes back to us at the third generation: the task goes on as it is.
    w.order_at(&[from_c2(2, 2, 3)], &[(3, 1)]);
    w.run(seconds(5));
    let kept = w.stored(2).unwrap();
    assert_eq!(
        (kept.generation, kept.run.unwrap().generation),
        (Generation(3), Generation(1))
    );
    assert_eq!(w.cluster.live(), [task(2, 1, 1)]);
    assert_eq!(w.accepted().len(), 3);
    assert_eq!(w.slice(3).unwrap().active, 1);
}

#[test]
fn what_begins_elsewhere_after_the_first_question_is_stopped_then() {
    let mut w = web(1, 1);
    theirs(&mut w, &[]);
    let away = AssignedRange {
        cluster: c2(),
        generation: Generation(2),
        former: Some((c1(), Generation(1))),
        ..range(0, 0)
    };
    w.order_at(&[away], &[]);
    w.run(seconds(30));
    assert_eq!(w.cluster.live(), [task(0, 1, 1)], "it has begun nowhere else");
    let runs = InstanceRecord {
        generation: Generation(2),
        run: Some(run_at(2, RunState::Running)),
        ..InstanceRecord::default()
    };
    theirs(&mut w, &[(0, runs)]);
    w.run(seconds(15));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    // Nothing is left to be asked about.
    let before = w.count_reads(|q| matches!(q, Query::Assignment(_)));
    w.run(seconds(60));
    assert_eq!(w.count_reads(|q| matches!(q, Query::Assignment(_))), before);
}

#[test]
fn what_was_scaled_away_without_a_release_is_stopped() {
    let mut w = web(3, 3);
    w.order_at(&[range(0, 1)], &[(1, 2)]);
    w.run(seconds(15));
    assert_eq!(w.kills(), Vec::<String>::new(), "an absent range is no evidence");
    let partition = assignment_partition(job());
    let Answer::Assignments(last, all) = w.store.read(&Query::Assignments(partition)) else {
        panic!()
    };
    let mut assignment = all.into_iter().find(|a| a.job == job()).unwrap();
    let holder = LastHolder {
        generation: Generation(1),
        cluster: None,
    };
    let numbers: RangeSet = std::iter::once(range(2, 2).range).collect();
    let away = BTreeMap::from([(holder, numbers)]);
    assignment.released.insert(main_group(), away);
    w.store.perform(Op::Decide(Decision::PutAssignments {
        partition,
        stamp: last.next(),
        put: vec![assignment],
        remove: Vec::new(),
    }));
    w.run(seconds(15));
    assert_eq!(w.kills(), [task(2, 1, 1)]);
    assert_eq!(w.cluster.live(), [task(0, 1, 1), task(1, 1, 1)]);
}

#[test]
fn an_ended_job_goes_to_the_archive_and_is_forgotten_here() {
    use echelon_core_model::directive::Order;
    let mut w = web(2, 2);
    for n in 0..2 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    w.run(seconds(2));
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    assert_eq!(w.shard.slices().count(), 0);
    let key = BlockKey::of(job(), &main_group(), InstanceNumber(0));
    let Answer::Blocks(here, _) = w.store.read(&Query::BlockBucket(c1(), key.bucket())) else {
        panic!()
    };
    assert!(here.is_empty());
    assert_eq!(
        w.stored(0).unwrap().ended,
        Some(Ended::Succeeded),
        "the archive has it"
    );
}

#[test]
fn what_went_to_the_archive_is_not_adopted_again() {
    use echelon_core_model::directive::{Order, ReportPart};
    use echelon_core_model::store::Query;
    let mut w = web(2, 2);
    for n in 0..2 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    w.run(seconds(2));
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    w.reports.clear();
    w.ops.clear();
    // The assignment stays, and is read again and again while no resource manager is heard.
    w.run(seconds(120));
    assert!(w.count_reads(|q| matches!(q, Query::Assignments(_))) > 0);
    assert_eq!(w.shard.slices().count(), 0);
    let told = |r: &&echelon_core_model::directive::Report| matches!(r.part, ReportPart::Slices(_));
    assert_eq!(w.reports.iter().filter(told).count(), 0);
    // Wanted again, it is followed again.
    w.order(&[range(0, 1)], 2);
    assert_eq!(w.shard.slices().count(), 1);
}

#[test]
fn nothing_is_remembered_of_a_job_that_is_deleted_after_its_end() {
    use echelon_core_model::directive::Order;
    use echelon_core_model::job::Desired;
    let mut w = web(1, 1);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    assert_eq!(w.shard.ended_jobs(), 1, "its assignment stands");
    w.wish(&JobBuilder::batch("work", 1).build(), Desired::Deleted, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    assert_eq!((w.shard.slices().count(), w.shard.ended_jobs()), (0, 0));
}

#[test]
fn what_lives_is_not_archived() {
    use echelon_core_model::directive::Order;
    let mut w = web(2, 2);
    w.direct(Order::Archive(job()));
    w.run(seconds(5));
    assert_eq!(w.shard.slices().count(), 1);
}
