//! From an order to running tasks, and what goes wrong on the way.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, Event as Told, TaskState};
use echelon_core_model::environment;
use echelon_core_model::instance::Ended;
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState, Timestamp};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, shape};
use std::collections::BTreeSet;

fn running(n: u32) -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("hello", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    w
}

#[test]
fn instances_run_once_each_and_find_their_environment() {
    let w = running(3);
    assert_eq!(w.states(3), [RunState::Running; 3]);
    assert_eq!(w.accepted().len(), 3);
    let t = &w.cluster.tasks[&task(1, 1, 1)];
    let host = format!("{}.example", t.host);
    let of = |name: &str| t.env.get(name).map(String::as_str);
    assert_eq!(of("ECHELON_JOB"), Some("hello"));
    assert_eq!(of("ECHELON_INSTANCE"), Some("1"));
    assert_eq!(of("ECHELON_INSTANCES"), Some("3"));
    assert_eq!(of("ECHELON_GROUP"), Some("main"));
    assert_eq!(of("ECHELON_RUN"), Some("1"));
    assert_eq!(of("ECHELON_CLUSTER"), Some("east"));
    assert_eq!(of("ECHELON_HOST"), Some(host.as_str()));
    assert_eq!(of("ECHELON_TASK_ID"), Some(task(1, 1, 1).as_str()));
    assert_eq!(of("ECHELON_GENERATION"), Some("1"));
    let given: BTreeSet<String> = t.env.keys().cloned().collect();
    let named = environment::names(&JobBuilder::batch("hello", 3).build().groups[0].runtime, false);
    assert_eq!(given, named, "what is given is what may be referred to");
}

#[test]
fn references_in_an_environment_are_put_in_for_each_instance() {
    let mut w = World::serving();
    let job = JobBuilder::batch("hello", 2)
        .env(
            "OUT",
            "/srv/${ECHELON_JOB}/part-${ECHELON_INSTANCE}-of-${ECHELON_INSTANCES}",
        )
        .env("RAW", "$${ECHELON_RUN} ${HOME}");
    w.store_job(&job.build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    for n in 0..2 {
        let env = &w.cluster.tasks[&task(n, 1, 1)].env;
        assert_eq!(env["OUT"], format!("/srv/hello/part-{n}-of-2"));
        assert_eq!(env["RAW"], "${ECHELON_RUN} ${HOME}");
    }
}

#[test]
fn what_succeeds_is_not_run_again() {
    let mut w = running(2);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(5));
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Succeeded));
    assert_eq!(w.accepted().len(), 2);
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.succeeded, slice.active, slice.live), (1, 1, 1));
}

#[test]
fn failed_runs_are_retried_with_backoff_until_the_limit() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("flaky", 1).retry_limit(3).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    for run in 1..=3 {
        let task = task(0, 1, run);
        assert!(w.cluster.tasks.contains_key(&task), "run {run}");
        w.cluster.set(&task, TaskState::Failed);
        w.run(Span::millis(500));
        assert!(
            !w.cluster.tasks.contains_key(&self::task(0, 1, run + 1)),
            "no backoff after run {run}"
        );
        w.run(seconds(8));
    }
    let record = w.stored(0).unwrap();
    assert_eq!((record.ended, record.attempts), (Some(Ended::Failed), 3));
    assert_eq!(w.accepted().len(), 3);
    assert_eq!(w.slice(1).unwrap().failed, 1);
}

#[test]
fn hosts_are_avoided_after_failures() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("flaky", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let first = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    assert_ne!(w.cluster.tasks[&task(0, 1, 2)].host, first);
}

#[test]
fn a_backoff_goes_on_under_new_leaders_whatever_their_clocks_say() {
    let jump = 900_000;
    let began = World::serving().now.0;
    for clocks in [
        [began, began],
        [began + jump, began],
        [began - jump, began + jump],
    ] {
        let mut w = World::serving();
        let wait = seconds(40);
        let flaky = JobBuilder::batch("flaky", 1).group(|g| {
            g.retry.backoff = wait;
            g.retry.max_backoff = wait;
        });
        w.store_job(&flaky.build());
        w.order(&[range(0, 0)], 1);
        w.run(seconds(2));
        w.cluster.set(&task(0, 1, 1), TaskState::Failed);
        w.run(seconds(10));
        for clock in clocks {
            w.crash();
            w.now = Timestamp(clock + 20_000);
            w.elect();
            w.run(seconds(1));
            w.connect();
            w.order(&[range(0, 0)], 1);
            w.run(seconds(10));
            assert!(
                !w.cluster.tasks.contains_key(&task(0, 1, 2)),
                "too early: {clocks:?}"
            );
        }
        // 30 of 40 seconds are over, and what each leader did after its last sign of life is counted again.
        w.run(seconds(25));
        assert_eq!(w.state(0), RunState::Running, "too late: {clocks:?}");
    }
}

#[test]
fn a_dropped_launch_is_tried_again_as_another_run() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::batch("hello", 1).retry_limit(1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.cluster.tasks.clear();
    w.hear(&task(0, 1, 1), TaskState::Dropped, "host-0");
    w.cluster.starts = true;
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
    assert_eq!(w.stored(0).unwrap().attempts, 0, "it was not its fault");
}

#[test]
fn an_invalid_task_uses_its_retries_up() {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.store_job(&JobBuilder::batch("bad", 1).retry_limit(2).build());
    w.order(&[range(0, 0)], 1);
    for run in 1..=2 {
        w.run(seconds(5));
        w.cluster.tasks.clear();
        w.hear(&task(0, 1, run), TaskState::Error, "host-0");
    }
    w.run(seconds(30));
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Failed));
    assert_eq!(w.accepted().len(), 2);
}

#[test]
fn a_launch_that_nobody_answers_is_asked_for_before_it_is_repeated() {
    let mut w = World::serving();
    w.cluster.drops_accepts = true;
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(20));
    assert_eq!(w.accepted().len(), 1, "repeated without an answer");
    w.cluster.drops_accepts = false;
    w.run(seconds(20));
    // The reconciliation said GONE.
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
    assert_eq!(w.state(0), RunState::Running);
}

#[test]
fn a_refused_accept_is_known_not_to_have_launched() {
    let mut w = World::serving();
    w.cluster.drops_accepts = true;
    w.store_job(&JobBuilder::batch("hello", 1).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(1));
    w.cluster.drops_accepts = false;
    let call = w
        .calls
        .iter()
        .find(|c| matches!(c, Call::Accept { .. }))
        .cloned()
        .unwrap();
    let why = "400".to_owned();
    w.step(Event::Cluster(Told::CallFailed {
        call,
        why,
        refused: true,
    }));
    w.run(seconds(5));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
}

#[test]
fn what_does_not_fit_waits_with_a_reason_and_starts_when_there_is_room() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::batch("big", 4).shape(shape(4, 64)).build());
    w.order(&[range(0, 3)], 4);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 3);
    let slice = w.slice(1).unwrap();
    let waiting: u64 = slice.waiting.iter().map(|(_, n, _)| n).sum();
    assert_eq!((waiting, slice.unstarted), (1, 1), "{:?}", slice.waiting);
    assert_eq!(
        slice.waiting[0].0.code,
        ReasonCode::HostResources,
        "{:?}",
        slice.waiting
    );
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(8));
    assert_eq!(w.state(3), RunState::Running);
}

#[test]
fn services_are_restarted_whatever_their_exit_was() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    for run in 1..=5 {
        w.run(seconds(60));
        // Renewed, as a resource manager does.
        w.order(&[range(0, 0)], 1);
        w.run(seconds(2));
        let end = if run % 2 == 0 {
            TaskState::Finished
        } else {
            TaskState::Failed
        };
        assert_eq!(w.state(0), RunState::Running, "run {run}");
        w.cluster.set(&task(0, 1, run), end);
    }
    w.run(seconds(60));
    assert_eq!(w.stored(0).unwrap().ended, None);
}

#[test]
fn a_second_update_of_the_same_run_changes_nothing_and_is_acknowledged_again() {
    let mut w = running(1);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    let update = w.cluster.out.front().cloned().unwrap();
    w.run(seconds(5));
    let before = (w.stored(0).unwrap().attempts, w.acknowledged());
    w.step(Event::Cluster(update.clone()));
    w.step(Event::Cluster(update));
    w.run(seconds(1));
    assert_eq!(w.stored(0).unwrap().attempts, before.0);
    assert_eq!(w.acknowledged(), before.1 + 2);
}

#[test]
fn a_known_end_is_never_left() {
    let mut w = running(1);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(1));
    for late in [
        TaskState::Running,
        TaskState::Gone,
        TaskState::Failed,
        TaskState::Unreachable,
        TaskState::Lost,
    ] {
        w.hear(&task(0, 1, 1), late, "host-0");
    }
    w.run(seconds(1));
    let record = w.stored(0).unwrap();
    assert_eq!(
        (record.ended, record.run.unwrap().state),
        (Some(Ended::Succeeded), RunState::Succeeded)
    );
    assert_eq!(w.accepted().len(), 1);
}

#[test]
fn a_rescind_between_choice_and_launch_loses_nothing() {
    let mut w = World::serving();
    w.placement_works = false;
    w.store_job(&JobBuilder::batch("hello", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(1));
    w.storage = crate::world::Storage::StallsCommits;
    w.placement_works = true;
    w.run(seconds(1));
    assert_eq!(w.states(2), [RunState::Launching; 2]);
    // The intents are on their way to storage when their offers go.
    let offers: Vec<String> = std::mem::take(&mut w.cluster.offers).into_keys().collect();
    for offer in offers {
        let id = echelon_core_hosts::OfferId(offer.into());
        w.step(Event::Cluster(Told::Rescind(id)));
    }
    w.unstall();
    w.run(seconds(10));
    assert_eq!(w.states(2), [RunState::Running; 2]);
    assert_eq!(w.accepted(), [task(0, 1, 2), task(1, 1, 2)]);
}
