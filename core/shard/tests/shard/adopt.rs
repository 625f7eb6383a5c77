//! What an assignment names here and nothing is stored of: followed by a leader that nobody tells, unless its job has ended.

use crate::world::{World, job, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::Order;
use echelon_core_model::instance::Ended;
use echelon_core_model::job::{JobState, Progress};
use echelon_core_model::store::{Batch, Op, Role, Stamp, Write};
use echelon_core_model::{AssignedRange, Epoch, Generation, RunState, Timestamp, Version};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, shape};

/// The resource manager stores how far the job is.
fn progress(w: &mut World, state: JobState) {
    let ended = matches!(state, JobState::Succeeded).then_some(Version(1));
    let progress = Progress {
        state,
        ended_version: ended,
        ..Progress::waiting(job(), Timestamp(1))
    };
    w.store.perform(Op::Commit(Batch {
        owner: Role::ResourceManager,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1,
        },
        writes: vec![Write::Progress(progress)],
    }));
}

/// A batch job of two.
fn stored() -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("work", 2).shape(shape(1, 64)).build());
    w
}

/// The same, of which both have succeeded and went to the archive.
fn archived() -> World {
    let mut w = stored();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    for n in 0..2 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    w.run(seconds(2));
    progress(&mut w, JobState::Succeeded);
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    assert_eq!(w.shard.slices().count(), 0);
    w
}

fn abandon(w: &mut World) {
    w.step(Event::LinkClosed(w.link));
}

#[test]
fn what_has_ended_is_not_run_again_by_a_leader_that_nobody_tells() {
    let mut w = archived();
    abandon(&mut w);
    w.restart();
    w.run(seconds(200));
    assert!(w.shard.no_manager_since().is_some());
    assert_eq!(w.accepted().len(), 2, "nothing was launched again");
    assert_eq!(w.shard.slices().count(), 0);
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn what_is_in_the_archive_outlives_an_order_to_archive_it_again() {
    let mut w = archived();
    w.restart();
    w.connect();
    // A late update of a run of it, and the order that a resource manager repeats.
    w.hear(&task(0, 1, 1), TaskState::Finished, "h1");
    w.direct(Order::Archive(job()));
    w.run(seconds(5));
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Succeeded));
    assert_eq!(w.stored(1).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn what_is_given_anew_is_followed_again() {
    let mut w = archived();
    w.restart();
    w.connect();
    let anew = AssignedRange {
        generation: Generation(2),
        ..range(0, 1)
    };
    w.assign(std::slice::from_ref(&anew));
    w.order_at(&[anew], &[(2, 2)]);
    w.run(seconds(2));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn what_was_assigned_while_no_manager_was_heard_waits_for_its_grant() {
    for again in [false, true] {
        let mut w = stored();
        progress(&mut w, JobState::Waiting);
        abandon(&mut w);
        w.assign(&[range(0, 1)]);
        if again {
            w.restart();
        }
        w.run(seconds(200));
        assert_eq!(w.accepted().len(), 0, "after a failover: {again}");
        w.connect();
        w.order(&[range(0, 1)], 2);
        w.run(seconds(2));
        assert_eq!(w.states(2), [RunState::Running; 2], "after a failover: {again}");
    }
}
