//! Keeping the ends of the logs of runs that have ended: when they are read, what is stored of them, and what is said of those that
//! were not.

use crate::world::{Storage, World, c1, config, job, range, seconds, task, wrote};
use echelon_core_hosts::TaskState;
use echelon_core_model::job::Desired;
use echelon_core_model::log::{KeptLog, KeptRuns, LogGap, NoTail, Tail, Tails};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::store::{Answer, Query, ShardRow};
use echelon_core_model::time::Span;
use echelon_core_model::{MemberId, SidecarName, TaskId};
use echelon_core_shard::{Event, LogLimits, Shard};
use echelon_core_testkit::build::{JobBuilder, shape};

impl World {
    pub fn kept(&self, task: &str) -> Option<KeptLog> {
        let id: MemberId = task.parse().unwrap();
        match self.store.read(&Query::KeptLog(c1(), id)) {
            Answer::KeptLog(kept) => kept,
            other => panic!("{other:?}"),
        }
    }

    pub fn list(&self) -> Option<KeptRuns> {
        match self.store.read(&Query::KeptRuns(job())) {
            Answer::KeptRuns(lists) => lists.into_iter().next(),
            other => panic!("{other:?}"),
        }
    }

    fn gaps(&self) -> Vec<LogGap> {
        match self.store.read(&Query::Shard(c1())) {
            Answer::Shard(ShardRow { log_gaps, .. }) => log_gaps,
            other => panic!("{other:?}"),
        }
    }
}

/// A job of `n` that runs, on a shard with these limits.
fn running(job: JobBuilder, n: u32, logs: LogLimits) -> World {
    let mut limited = config("one");
    limited.timing.logs = logs;
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(4, shape(4_000, 8_000_000));
    w.shard = Shard::new(limited);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&job.build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), usize::try_from(n).unwrap());
    w
}

pub fn usual(n: u32) -> World {
    running(JobBuilder::batch("hello", n), n, LogLimits::default())
}

#[test]
fn the_logs_of_a_run_are_kept_when_it_has_ended() {
    let mut w = usual(2);
    assert_eq!(w.fetched, []);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(1));
    let asked = w.fetched.first().unwrap();
    assert_eq!((asked.run.to_string(), asked.bytes), (task(0, 1, 1), 65_536));
    let kept = w.kept(&task(0, 1, 1)).unwrap();
    assert_eq!(kept.tails.stdout, wrote(b"hello\n"));
    assert_eq!(kept.tails.stderr, Tail::Missing(NoTail::NoFile));
    let list = w.list().unwrap();
    assert_eq!((list.runs.len(), list.displaced), (1, 0));
    assert!(list.has(&asked.run) && !list.runs[0].failed);
    assert_eq!((w.shard.log_stats().kept, w.shard.log_stats().bytes), (1, 6));
    assert_eq!(w.kept(&task(1, 1, 1)), None, "it runs");
}

#[test]
fn each_failed_run_of_an_instance_is_kept_by_itself() {
    let mut w = usual(1);
    for run in 1..=2 {
        w.logs = Some(wrote(&[run]));
        w.cluster.set(&task(0, 1, run.into()), TaskState::Failed);
        w.run(seconds(60));
    }
    for run in 1..=2 {
        assert_eq!(
            w.kept(&task(0, 1, run.into())).unwrap().tails.stdout,
            wrote(&[run])
        );
    }
    assert!(w.list().unwrap().runs.iter().all(|r| r.failed));
}

#[test]
fn of_a_pod_all_members_are_kept() {
    let job = JobBuilder::batch("hello", 1).sidecar("proxy", Runtime::shell("proxy"));
    let mut w = World::serving();
    w.cluster.hosts.values_mut().for_each(|room| room.disk = 1024);
    w.store_job(&job.build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(10));
    assert_eq!(w.fetched.len(), 1, "once, when the last member is dead");
    for name in [task(0, 1, 1), format!("{}.proxy", task(0, 1, 1))] {
        assert_eq!(w.kept(&name).unwrap().tails.stdout, wrote(b"hello\n"), "{name}");
    }
    assert_eq!(w.list().unwrap().runs[0].sidecars, [SidecarName::new("proxy")]);
}

#[test]
fn nothing_is_read_before_the_end_is_stored() {
    let mut w = usual(1);
    w.storage = Storage::StallsCommits;
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(3));
    assert_eq!(w.fetched, []);
    w.unstall();
    w.run(seconds(1));
    assert_eq!(w.fetched.len(), 1);
}

#[test]
fn a_new_leader_reads_again_what_the_last_one_had_not_stored() {
    let mut w = usual(2);
    w.logs = None;
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(1));
    assert_eq!((w.fetched.len(), w.list()), (1, None));
    w.logs = Some(wrote(b"after all"));
    w.restart();
    w.run(seconds(2));
    assert_eq!(w.kept(&task(0, 1, 1)).unwrap().tails.stdout, wrote(b"after all"));
    let before = w.fetched.len();
    w.restart();
    w.run(seconds(5));
    assert_eq!(w.fetched.len(), before, "what is kept is not read again");
}

#[test]
fn what_ended_long_before_a_leader_is_not_read_again() {
    let mut w = usual(1);
    w.logs = None;
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(1));
    w.run(Span::minutes(20));
    w.fetched.clear();
    w.restart();
    w.run(seconds(5));
    assert_eq!(w.fetched, []);
}

#[test]
fn a_silent_agent_is_asked_three_times_and_then_that_is_said() {
    let mut w = usual(1);
    w.logs = Some(Tail::Missing(NoTail::AgentSilent));
    // Its other output is as silent.
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.logs = None;
    w.run(seconds(1));
    let silent = || Event::Tails(task(0, 1, 1).parse::<TaskId>().unwrap(), Vec::new());
    for n in 1..=3 {
        assert_eq!(w.fetched.iter().filter(|f| f.run.run.0 == 1).count(), n);
        w.step(silent());
        w.run(seconds(6));
    }
    let kept = w.kept(&task(0, 1, 1)).unwrap();
    assert_eq!(kept.tails, Tails::missing(None, NoTail::AgentSilent));
    assert_eq!(w.shard.log_stats().missing[&NoTail::AgentSilent], 2);
    assert_eq!(w.shard.log_stats().kept, 0);
}

#[test]
fn a_read_that_nobody_answers_is_given_up() {
    let mut w = usual(1);
    w.logs = None;
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(Span::minutes(5));
    assert_eq!(w.fetched.len(), 3);
    assert!(w.kept(&task(0, 1, 1)).is_some());
    // An answer that comes after all is nobody's.
    w.step(Event::Tails(task(0, 1, 1).parse().unwrap(), Vec::new()));
    w.run(seconds(5));
    assert_eq!(w.list().unwrap().runs.len(), 1);
}

#[test]
fn more_than_asked_for_is_cut_in_front() {
    let logs = LogLimits {
        keep_bytes: 4,
        ..LogLimits::default()
    };
    let mut w = running(JobBuilder::batch("hello", 1), 1, logs);
    w.logs = Some(wrote(b"\xff\xfe123456"));
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    let Tail::Read { bytes, size } = w.kept(&task(0, 1, 1)).unwrap().tails.stdout else {
        panic!("nothing")
    };
    assert_eq!((&bytes[..], size), (&b"3456"[..], 8));
}

#[test]
fn switched_off_nothing_is_read() {
    let logs = LogLimits {
        keep_bytes: 0,
        ..LogLimits::default()
    };
    let mut w = running(JobBuilder::batch("hello", 1), 1, logs);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    assert_eq!((w.fetched.len(), w.list()), (0, None));
}

#[test]
fn bytes_a_second_are_kept_to_and_full_outputs_count_whole() {
    let logs = LogLimits {
        bytes_per_second: 40_000,
        ..LogLimits::default()
    };
    let mut w = running(JobBuilder::batch("hello", 60), 60, logs);
    w.logs = Some(wrote(&[b'x'; 20_000]));
    for n in 0..60 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    // A second's worth at once, two a second, and what is read at a time.
    w.run(seconds(5));
    let early = w.fetched.len();
    assert!((10..=14 + 8).contains(&early), "{early}");
    w.run(seconds(40));
    assert_eq!(w.fetched.len(), 60);
    assert_eq!(w.gaps(), []);
}

#[test]
fn who_finds_no_place_in_the_line_is_said_and_failures_come_first() {
    let logs = LogLimits {
        bytes_per_second: 1,
        ..LogLimits::default()
    };
    let mut w = running(JobBuilder::service("web", 2_100), 2_100, logs);
    // The one that is being read stays so.
    w.logs = None;
    for n in 0..2_050 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    w.run(seconds(2));
    let gone: u64 = w.gaps().iter().map(|g| g.runs).sum();
    assert_eq!(gone, 50);
    assert_eq!(w.shard.log_stats().crowded, gone);
    w.cluster.set(&task(2_050, 1, 1), TaskState::Failed);
    w.run(seconds(2));
    assert_eq!(
        w.shard.log_stats().crowded,
        gone + 1,
        "one that succeeded made room"
    );
    assert_eq!(w.gaps().iter().map(|g| g.runs).sum::<u64>(), gone + 1);
    w.restart();
    assert_eq!(w.gaps().iter().map(|g| g.runs).sum::<u64>(), gone + 1);
}

#[test]
fn of_a_job_so_many_runs_are_kept_and_no_more() {
    let logs = LogLimits {
        runs_per_job: 5,
        ..LogLimits::default()
    };
    let mut w = running(JobBuilder::batch("hello", 20), 20, logs);
    w.cluster.set(&task(3, 1, 1), TaskState::Failed);
    w.run(seconds(2));
    for n in (0..20).filter(|n| *n != 3) {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
        w.run(seconds(1));
    }
    let list = w.list().unwrap();
    assert_eq!((list.runs.len(), list.displaced), (5, 15));
    assert!(w.kept(&task(3, 1, 1)).is_some(), "it failed");
    let there = (0..20).filter(|n| w.kept(&task(*n, 1, 1)).is_some()).count();
    assert_eq!(there, 5, "what made room is gone");
}

#[test]
fn with_a_deleted_job_its_logs_go() {
    let spec = JobBuilder::batch("hello", 2);
    let mut w = usual(2);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    assert!(w.kept(&task(0, 1, 1)).is_some());
    w.wish(&spec.build(), Desired::Deleted, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(10));
    w.direct(echelon_core_model::directive::Order::Archive(job()));
    w.run(seconds(5));
    assert_eq!(w.kept(&task(0, 1, 1)), None);
    assert_eq!(
        w.kept(&task(1, 1, 1)),
        None,
        "killed for the deletion: never kept"
    );
    assert_eq!(w.list().map(|l| l.runs), Some(Vec::new()));
}

#[test]
fn a_storage_that_stalls_loses_nothing_that_was_read() {
    let mut w = usual(3);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(Span::millis(100));
    assert_eq!(w.fetched.len(), 1);
    w.storage = Storage::DoesAndFails;
    w.run(seconds(2));
    w.storage = Storage::Works;
    w.run(seconds(5));
    assert_eq!(w.list().unwrap().runs.len(), 1);
    assert_eq!(w.kept(&task(0, 1, 1)).unwrap().tails.stdout, wrote(b"hello\n"));
}
