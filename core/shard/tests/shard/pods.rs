//! Pods from order to end: several tasks of one run on one host, told of one by one.

use crate::cluster::Task;
use crate::restored::{put_back_unseen, resume};
use crate::world::{World, job, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::environment;
use echelon_core_model::job::Desired;
use echelon_core_model::pod::EXECUTOR;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{HostId, InstanceId, InstanceNumber, Resources, RunState, SidecarName};
use echelon_core_shard::{Alarm, Mode};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn pod(job: JobBuilder) -> JobBuilder {
    job.sidecar("log", Runtime::shell("log"))
        .sidecar("proxy", Runtime::shell("proxy"))
}

fn member(n: u32, run: u32, name: &str) -> String {
    format!("{}.{name}", task(n, 1, run))
}

/// A job of one pod that runs.
fn running(job: JobBuilder) -> World {
    let mut w = World::serving();
    w.cluster.hosts.values_mut().for_each(|room| room.disk = 1024);
    w.store_job(&pod(job).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    assert_eq!(w.state(0), RunState::Running);
    w
}

fn host_of(w: &World, task: &str) -> Resources {
    w.cluster.used(&w.cluster.tasks[task].host)
}

#[test]
fn a_pod_is_launched_as_one_and_takes_the_room_of_all() {
    let w = running(JobBuilder::service("web", 1));
    assert_eq!(w.accepted(), [task(0, 1, 1)]);
    let launches = w.calls.iter().filter_map(|c| match c {
        Call::Accept { launches, .. } => Some(launches),
        _ => None,
    });
    let launch = launches.flatten().next().unwrap();
    let names: Vec<_> = launch.sidecars.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["log", "proxy"]);
    let env = &launch.sidecars[0].runtime.env;
    assert_eq!(env["ECHELON_SIDECAR"], "log");
    assert_eq!(env["ECHELON_TASK_ID"], member(0, 1, "log"));
    assert_eq!(env["ECHELON_INSTANCE"], "0");
    let given: BTreeSet<String> = env.keys().cloned().collect();
    assert_eq!(given, environment::names(&launch.runtime, true));
    let told = w.shard.capacity().used;
    assert_eq!(told, host_of(&w, &task(0, 1, 1)).plus(EXECUTOR));
    assert!(w.cluster.tasks.values().all(|t| t.unacknowledged.is_empty()));
}

#[test]
fn when_the_main_task_has_succeeded_the_sidecars_are_killed_and_then_the_run_is_over() {
    let mut w = running(JobBuilder::batch("hello", 1));
    w.cluster.set(&member(0, 1, "proxy"), TaskState::Finished);
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Running, "a sidecar may end well before");
    assert_eq!(w.kills(), Vec::<String>::new());
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(5));
    assert_eq!(w.kills(), [member(0, 1, "log")]);
    assert_eq!(w.state(0), RunState::Succeeded);
    assert_eq!(w.cluster.live(), Vec::<String>::new());
    assert!(w.cluster.tasks.values().all(|t| t.unacknowledged.is_empty()));
    assert_eq!(w.shard.capacity().used, Resources::ZERO);
}

#[test]
fn a_sidecar_that_fails_ends_its_pod_and_the_next_run_begins_when_all_are_dead() {
    let mut w = running(JobBuilder::service("web", 1));
    w.cluster.set(&member(0, 1, "log"), TaskState::Failed);
    w.run(seconds(10));
    let record = w.record(0).unwrap();
    assert_eq!(record.attempts, 1);
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
    assert_eq!(w.state(0), RunState::Running);
}

#[test]
fn a_restart_that_is_asked_for_while_a_pod_ends_is_that_end() {
    let mut w = running(JobBuilder::service("web", 1));
    w.cluster.deaf = true;
    w.cluster.tasks.values_mut().for_each(|t| t.pod = None);
    w.cluster.set(&member(0, 1, "log"), TaskState::Failed);
    w.run(seconds(2));
    assert_eq!(w.state(0), RunState::Stopping);
    w.wish(&pod(JobBuilder::service("web", 1)).build(), Desired::Running, 1);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.cluster.deaf = false;
    // What it did not hear leaves offers open that it alone knows of.
    w.cluster.disconnect();
    w.run(seconds(120));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(0, 1, 2)]);
    assert_eq!(w.state(0), RunState::Running);
    assert_eq!(
        w.record(0).unwrap().attempts,
        0,
        "it is replaced as it was wished"
    );
}

#[test]
fn the_main_task_is_killed_first_and_again_until_all_are_dead() {
    let mut w = running(JobBuilder::service("web", 1));
    let spec = pod(JobBuilder::service("web", 1)).build();
    w.wish(&spec, Desired::Stopped, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
    assert_eq!(w.kills(), [task(0, 1, 1)]);
    assert_eq!(w.state(0), RunState::Killed);
    assert_eq!(w.cluster.live(), Vec::<String>::new());
}

#[test]
fn a_new_leader_asks_about_each_member_and_waits_for_all_answers() {
    let mut w = running(JobBuilder::service("web", 1));
    w.crash();
    // One of them ended while nobody led, and its update comes after the answers.
    w.cluster.tasks.get_mut(&member(0, 1, "log")).unwrap().state = TaskState::Finished;
    w.restart();
    w.run(seconds(5));
    let asked: Vec<&String> = w
        .calls
        .iter()
        .filter_map(|c| match c {
            Call::Reconcile { tasks } => Some(tasks),
            _ => None,
        })
        .flatten()
        .map(|(task, _)| task)
        .collect();
    for task in [task(0, 1, 1), member(0, 1, "log"), member(0, 1, "proxy")] {
        assert!(asked.contains(&&task), "{task} is not among {asked:?}");
    }
    assert_eq!(w.kills(), [task(0, 1, 1)], "what is gone takes its pod along");
    w.run(seconds(10));
    assert_eq!(w.accepted().last(), Some(&task(0, 1, 2)));
}

/// Puts a running task onto the cluster without the shard's doing.
fn plant(w: &mut World, id: &str) {
    let new = Task {
        volume: None,
        host: HostId::new("host-0"),
        state: TaskState::Staging,
        resources: shape(1, 64),
        env: BTreeMap::new(),
        ports: Vec::new(),
        pod: None,
        unacknowledged: VecDeque::new(),
    };
    w.cluster.tasks.insert(id.to_owned(), new);
    w.cluster.set(id, TaskState::Running);
    w.run(seconds(3));
}

#[test]
fn members_of_an_unknown_run_are_judged_once_as_that_run() {
    let mut w = World::serving();
    plant(&mut w, &member(0, 1, "log"));
    plant(&mut w, &task(0, 1, 1));
    assert_eq!(w.alarms, [Alarm::Quarantined(task(0, 1, 1).parse().unwrap())]);
    w.run(seconds(600));
    assert_eq!(w.kills(), Vec::<String>::new());
    assert_eq!(w.shard.quarantined().count(), 1);
    // An instance does not begin beside what is left of it.
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.store_job(&pod(JobBuilder::batch("hello", 1)).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(5));
    assert_eq!(w.shard.quarantined().count(), 1);
    assert_eq!(w.accepted(), Vec::<String>::new());
    w.cluster.set(&member(0, 1, "log"), TaskState::Finished);
    w.run(seconds(5));
    assert_eq!(w.shard.quarantined().count(), 0);
}

#[test]
fn a_condemned_stranger_is_killed_by_each_member_that_was_found() {
    let mut w = World::serving();
    w.wish(&JobBuilder::service("web", 1).build(), Desired::Stopped, 0);
    plant(&mut w, &member(0, 1, "log"));
    assert_eq!(w.kills(), [member(0, 1, "log")]);
}

#[test]
fn a_stored_pod_names_its_members() {
    let w = running(JobBuilder::service("web", 1));
    let run = w.stored(0).unwrap().run.unwrap();
    let instance = InstanceId {
        job: job(),
        group: main_group(),
        number: InstanceNumber(0),
    };
    let tasks: Vec<_> = run.tasks(instance).into_iter().map(|t| t.sidecar).collect();
    let named = |name| Some(SidecarName::new(name));
    assert_eq!(tasks, [None, named("log"), named("proxy")]);
    assert!(run.members.iter().all(|m| m.state == RunState::Running));
}

#[test]
fn a_pod_that_storage_does_not_know_is_adopted_with_all_its_members() {
    let mut w = running(JobBuilder::service("web", 1));
    let backup = w.store.clone();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    assert!(
        w.cluster.live().contains(&task(0, 1, 2)),
        "{:?}",
        w.cluster.live()
    );
    put_back_unseen(&mut w, backup);
    resume(&mut w);
    let run = w.record(0).unwrap().run.unwrap();
    assert_eq!(
        (run.number.0, run.members.len(), run.state),
        (2, 3, RunState::Running)
    );
    // Not the end of the whole run, as of a task without sidecars.
    w.cluster.set(&member(0, 2, "log"), TaskState::Finished);
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Running);
}

/// How many updates of a task were acknowledged.
fn acknowledged(w: &World, task: &str) -> usize {
    let of_task = |c: &&Call| matches!(c, Call::Acknowledge { task: of, .. } if of == task);
    w.calls.iter().filter(of_task).count()
}

#[test]
fn an_end_that_is_told_before_its_pod_is_adopted_is_acknowledged_once_it_is_stored() {
    let mut w = running(JobBuilder::batch("work", 1).retry_limit(3));
    let backup = w.store.clone();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    let second = task(0, 1, 2);
    assert!(w.cluster.live().contains(&second), "{:?}", w.cluster.live());
    put_back_unseen(&mut w, backup);
    assert_eq!(w.shard.mode(), Mode::Frozen);
    // Its sidecars live on, so it will be adopted.
    let before = acknowledged(&w, &second);
    w.cluster.set(&second, TaskState::Finished);
    w.cluster.set(&member(0, 2, "log"), TaskState::Killing);
    w.cluster.set(&member(0, 2, "proxy"), TaskState::Finished);
    w.run(seconds(30));
    assert_eq!(acknowledged(&w, &second), before, "nothing of it is stored");
    resume(&mut w);
    assert_eq!(acknowledged(&w, &second), before + 1);
    let run = w.stored(0).unwrap().run.unwrap();
    assert_eq!((run.number.0, run.state), (2, RunState::Succeeded));
    assert_eq!(run.members.len(), 3, "that has ended, too");
    assert_eq!(
        w.cluster.live(),
        Vec::<String>::new(),
        "what succeeded is not done again"
    );
}

#[test]
fn what_is_told_of_a_pod_that_is_not_adopted_is_acknowledged() {
    let mut w = running(JobBuilder::service("web", 1));
    let backup = w.store.clone();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    put_back_unseen(&mut w, backup);
    let second = [task(0, 1, 2), member(0, 2, "log"), member(0, 2, "proxy")];
    second
        .iter()
        .for_each(|of| w.cluster.set(of, TaskState::Finished));
    w.run(seconds(30));
    assert!(
        second
            .iter()
            .all(|of| w.cluster.tasks[of].unacknowledged.is_empty())
    );
}
