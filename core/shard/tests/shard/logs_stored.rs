//! How kept logs get into storage: in batches that it takes, and nothing of a job that is deleted.

use crate::logs::usual;
use crate::world::{World, config, job, range, seconds, task, wrote};
use echelon_core_hosts::TaskState;
use echelon_core_model::Resources;
use echelon_core_model::directive::Order;
use echelon_core_model::job::Desired;
use echelon_core_model::log::{MAX_TAIL, Tail};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::store::{Op, Write};
use echelon_core_model::time::Span;
use echelon_core_shard::{Event, Shard};
use echelon_core_testkit::build::JobBuilder;

/// Bytes of logs in each batch that was stored.
fn batches(w: &World) -> Vec<u64> {
    let bytes = |write: &Write| match write {
        Write::Log(log) => Some(log.tails.len()),
        _ => None,
    };
    let commits = w.ops.iter().filter_map(|op| match op {
        Op::Commit(batch) => Some(&batch.writes),
        _ => None,
    });
    let sums = commits.filter_map(|writes| writes.iter().filter_map(bytes).reduce(|a, b| a + b));
    sums.collect()
}

/// Nine tasks, each of which has written as much as can be kept, and have just ended.
fn pod_that_wrote_much() -> World {
    let mut limited = config("one");
    limited.timing.logs.keep_bytes = MAX_TAIL;
    let mut w = World::new();
    for room in w.cluster.hosts.values_mut() {
        *room = Resources {
            cpus: 16_000,
            memory: 16_000,
            disk: 16_000,
            ..*room
        };
    }
    w.shard = Shard::new(limited);
    w.elect();
    w.run(seconds(1));
    w.connect();
    let mut job = JobBuilder::batch("hello", 1);
    for n in 0..8 {
        job = job.sidecar(&format!("s{n}"), Runtime::shell("run"));
    }
    w.store_job(&job.build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 9);
    let whole = usize::try_from(MAX_TAIL).unwrap();
    w.logs = Some(wrote(&vec![b'x'; whole]));
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w
}

#[test]
fn a_pod_that_has_written_much_is_stored_in_batches_that_storage_takes_and_listed_with_the_last() {
    let mut w = pod_that_wrote_much();
    w.run(seconds(20));
    let stored = batches(&w);
    assert_eq!(stored.iter().sum::<u64>(), 9 * MAX_TAIL);
    assert!(stored.iter().all(|bytes| *bytes <= 512 * 1024), "{stored:?}");
    let tasks = (0..8).map(|n| format!("{}.s{n}", task(0, 1, 1)));
    for of in tasks.chain([task(0, 1, 1)]) {
        assert_eq!(w.kept(&of).unwrap().tails.stdout.len(), MAX_TAIL, "{of}");
    }
    assert_eq!(w.list().unwrap().runs.len(), 1);
    assert_eq!(
        (w.shard.log_stats().kept, w.shard.log_stats().bytes),
        (1, 9 * MAX_TAIL)
    );
}

/// The job is deleted, and the last of it goes to the archive.
fn delete(w: &mut World, n: u32) {
    w.wish(&JobBuilder::batch("hello", n).build(), Desired::Deleted, 0);
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(10));
    w.direct(Order::Archive(job()));
    w.run(seconds(5));
    assert_eq!(w.shard.slices().count(), 0);
}

#[test]
fn logs_that_are_read_while_their_job_is_deleted_are_not_stored() {
    let mut w = usual(2);
    w.logs = None;
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    assert_eq!(w.fetched.len(), 1);
    let read = w.fetched[0].run.clone();
    delete(&mut w, 2);
    let tails = echelon_core_model::log::Tails {
        sidecar: None,
        stdout: wrote(b"late"),
        stderr: wrote(b""),
    };
    w.step(Event::Tails(read, vec![tails]));
    w.run(Span::minutes(5));
    assert_eq!(w.kept(&task(0, 1, 1)), None);
    assert!(w.list().is_none_or(|list| list.runs.is_empty()));
    assert_eq!(batches(&w), Vec::<u64>::new());
}

#[test]
fn what_was_stored_in_part_when_its_job_was_deleted_is_removed() {
    for moment in 0..30 {
        let mut w = pod_that_wrote_much();
        w.run(Span::millis(30 * moment));
        delete(&mut w, 1);
        w.run(seconds(10));
        for of in ["", ".s0", ".s7"] {
            let of = format!("{}{of}", task(0, 1, 1));
            assert_eq!(w.kept(&of).map(|k| k.tails.stdout), None::<Tail>, "{moment} {of}");
        }
        assert!(w.list().is_none_or(|list| list.runs.is_empty()));
    }
}
