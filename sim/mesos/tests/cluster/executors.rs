//! Executors of several tasks beyond what the recordings show: agents that are lost, restarts, virtual tasks.

use crate::framework::{World, amount, task_info};
use crate::operations::scalar;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{
    CommandInfo, DurationInfo, ExecutorId, ExecutorInfo, HealthCheck, TaskGroupInfo, TaskInfo, TaskState,
    executor_info, health_check,
};
use echelon_sim_mesos::{Cluster, Config, Executors, Output, Run, Tasks, Virtual};

const LONG: Span = Span::minutes(30);

fn executor(world: &World, name: &str) -> ExecutorInfo {
    ExecutorInfo {
        executor_id: ExecutorId {
            value: name.to_owned(),
        },
        framework_id: world.id.as_ref().map(|id| id.proto()),
        r#type: Some(executor_info::Type::Default.into()),
        resources: vec![scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 16.0)],
        ..Default::default()
    }
}

/// Launches a group on the first offer.
fn launch_group(world: &mut World, name: &str, tasks: &[&str], runtime: Span) {
    let offer = world.offers.remove(0);
    let tasks = tasks
        .iter()
        .map(|task| task_info(task, &offer, runtime))
        .collect();
    let operation = Operation {
        r#type: Some(operation::Type::LaunchGroup.into()),
        launch_group: Some(operation::LaunchGroup {
            executor: executor(world, name),
            task_group: TaskGroupInfo { tasks },
        }),
        ..Default::default()
    };
    assert_eq!(world.accept_operations(&[offer], vec![operation]).status, 202);
}

fn failures(world: &World) -> Vec<(String, i32)> {
    let failures = world.events.iter().filter_map(|event| event.failure.as_ref());
    let of_executors = failures.filter_map(|failure| Some((failure.executor_id.as_ref()?, failure.status?)));
    of_executors
        .map(|(id, status)| (id.value.clone(), status))
        .collect()
}

/// The thousandths of CPUs that are offered now.
fn offered(world: &World) -> u64 {
    world
        .offers
        .iter()
        .map(|offer| amount(&offer.resources, "cpus"))
        .sum()
}

#[test]
fn a_group_that_has_ended_leaves_nothing_behind() {
    let mut world = World::new(1);
    launch_group(&mut world, "e", &["a", "b"], Span::seconds(5));
    world.pass(Span::seconds(3));
    assert_eq!(offered(&world), 1900);
    assert_eq!(world.offers[0].executor_ids[0].value, "e");
    world.pass(Span::seconds(10));
    for task in ["a", "b"] {
        assert_eq!(world.states(task).last(), Some(&TaskState::TaskFinished));
    }
    assert_eq!(failures(&world), [("e".to_owned(), 0)]);
    assert_eq!(offered(&world), 4000);
}

#[test]
fn executors_of_a_lost_agent_are_counted_again_when_it_returns() {
    let mut world = World::new(1);
    launch_group(&mut world, "e", &["a"], LONG);
    world.pass(Span::seconds(3));
    let agent = world.agents[0].clone();
    world.cluster.cut_agent(&agent, world.now);
    world.pass(Span::seconds(100));
    assert_eq!(world.states("a").last(), Some(&TaskState::TaskUnreachable));
    world.cluster.heal_agent(&agent, world.now);
    world.pass(Span::seconds(3));
    assert_eq!(world.states("a").last(), Some(&TaskState::TaskRunning));
    assert_eq!(offered(&world), 2900);
    world.kill("a");
    world.pass(Span::seconds(10));
    assert_eq!(offered(&world), 4000);
}

/// The last status of a task, as reason and message.
fn refused(world: &World, task: &str) -> (TaskState, Reason, String) {
    let last = world.updates.iter().rfind(|status| status.task_id.value == task);
    let last = last.unwrap();
    (last.state(), last.reason(), last.message().to_owned())
}

#[test]
fn a_group_with_a_known_id_is_refused_with_the_name_of_that_task() {
    let mut world = World::new(2);
    launch_group(&mut world, "e", &["a", "b"], LONG);
    world.pass(Span::seconds(3));
    launch_group(&mut world, "f", &["c", "b"], LONG);
    let said = "Task 'b' is invalid: Task has duplicate ID: b".to_owned();
    let refusal = (TaskState::TaskError, Reason::TaskGroupInvalid, said);
    assert_eq!(refused(&world, "c"), refusal);
    assert_eq!(refused(&world, "b"), refusal, "the same for all of the group");
    world.pass(Span::seconds(3));
    assert_eq!(world.reconcile(&[("b", None)]), [TaskState::TaskRunning]);
}

#[test]
fn an_id_of_an_unreachable_task_is_refused_in_words_of_its_own() {
    let mut world = World::new(2);
    launch_group(&mut world, "e", &["a"], LONG);
    world.pass(Span::seconds(3));
    let home = world.updates[0].agent_id.clone().unwrap();
    let home = echelon_sim_mesos::AgentId::from(&home);
    world.cluster.cut_agent(&home, world.now);
    world.pass(Span::seconds(100));
    let lost = world.updates.last().unwrap();
    assert_eq!(lost.state(), TaskState::TaskUnreachable);
    let executor = lost.executor_id.as_ref().map(|id| id.value.as_str());
    assert_eq!(executor, Some("e"), "a master names the executor that it tracked");

    launch_group(&mut world, "f", &["a"], LONG);
    let said = "Task reuses the ID of an unreachable task: a";
    let of_group = format!("Task 'a' is invalid: {said}");
    assert_eq!(
        refused(&world, "a"),
        (TaskState::TaskError, Reason::TaskGroupInvalid, of_group)
    );
    world.pass(Span::seconds(3));
    let offer = world.offers.remove(0);
    world.accept(&offer, vec![task_info("a", &offer, LONG)]);
    assert_eq!(
        refused(&world, "a"),
        (TaskState::TaskError, Reason::TaskInvalid, said.to_owned())
    );
    world.cluster.mark_agent_gone(&home, world.now);
    world.take();
    let gone = world.updates.last().unwrap();
    assert_eq!(gone.state(), TaskState::TaskGoneByOperator);
    assert_eq!(gone.executor_id.as_ref().map(|id| id.value.as_str()), Some("e"));
}

#[test]
fn an_agent_keeps_an_executor_until_the_ends_of_its_tasks_are_acknowledged() {
    let mut world = World::new(1);
    launch_group(&mut world, "e", &["a"], Span::seconds(5));
    world.pass(Span::seconds(3));
    world.acknowledges = false;
    world.pass(Span::seconds(5));
    assert_eq!(failures(&world), [("e".to_owned(), 0)]);
    world.pass(Span::seconds(3));
    launch_group(&mut world, "e", &["b"], LONG);
    world.pass(Span::seconds(1));
    let said = "Master wants to launch executor, but one already exists".to_owned();
    assert_eq!(
        refused(&world, "b"),
        (TaskState::TaskDropped, Reason::ExecutorTerminated, said)
    );
    world.pass(Span::seconds(5));
    assert_eq!(
        offered(&world),
        4000,
        "the executor that never began takes nothing"
    );
}

#[test]
fn executors_die_with_their_machine_and_their_framework() {
    let mut world = World::new(1);
    launch_group(&mut world, "e", &["a"], LONG);
    world.pass(Span::seconds(3));
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Die, world.now);
    world.pass(Span::seconds(3));
    world.cluster.start_agent(&agent, world.now);
    world.pass(Span::seconds(5));
    assert_eq!(world.states("a").last(), Some(&TaskState::TaskFailed));
    assert_eq!(offered(&world), 4000);
    launch_group(&mut world, "e", &["b"], LONG);
    world.pass(Span::seconds(3));
    let framework = world.id.take().unwrap();
    world.cluster.teardown(&framework, world.now);
    world.take();
    world.subscribe();
    world.pass(Span::seconds(3));
    assert_eq!(offered(&world), 4000);
}

#[test]
fn a_group_lives_and_dies_together_after_a_restart() {
    let config = Config {
        durable: true,
        executors: Executors::External,
        ..Config::default()
    };
    let mut world = World::with(config.clone(), 1);
    launch_group(&mut world, "e", &["a", "b"], LONG);
    world.take();
    let mut cluster = Cluster::recover(config, 2, world.records.clone(), Timestamp(9)).unwrap();
    let agent = world.agents[0].clone();
    let runs: Vec<Run> = cluster
        .live_runs(&agent)
        .into_iter()
        .map(|(run, _)| run)
        .collect();
    for run in &runs {
        cluster.started(run, 7, Timestamp(10));
    }
    cluster.start_agent(&agent, Timestamp(11));
    cluster.drain();
    let exit = echelon_sim_mesos::Exit::Code(1);
    cluster.exited(&runs[0], &exit, Timestamp(12));
    let killed = cluster
        .drain()
        .into_iter()
        .any(|output| matches!(output, Output::Kill { run, .. } if run == runs[1]));
    assert!(killed, "the other task of the group lives on");
}

#[test]
fn a_virtual_custom_executor_ends_when_it_is_asked_to() {
    let mut world = World::new(1);
    let offer = world.offers.remove(0);
    let info = ExecutorInfo {
        r#type: Some(executor_info::Type::Custom.into()),
        command: Some(CommandInfo::default()),
        ..executor(&world, "c")
    };
    let task = TaskInfo {
        command: None,
        executor: Some(info),
        ..task_info("t", &offer, LONG)
    };
    world.accept(&offer, vec![task]);
    world.pass(Span::seconds(3));
    assert_eq!(world.states("t"), [TaskState::TaskRunning]);
    let shutdown = Some(call::Shutdown {
        executor_id: ExecutorId {
            value: "c".to_owned(),
        },
        agent_id: world.agents[0].proto(),
    });
    world.call(
        call::Type::Shutdown,
        Call {
            shutdown,
            ..Default::default()
        },
    );
    world.pass(Span::seconds(5));
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskKilled));
    assert_eq!(failures(&world), [("c".to_owned(), 0)]);
    assert_eq!(offered(&world), 4000);
}

#[test]
fn bad_results_count_after_the_grace_period_and_in_a_row() {
    let executors = Executors::Virtual(Virtual::default());
    let mut world = World::with(
        Config {
            executors,
            ..Config::default()
        },
        1,
    );
    let offer = world.offers.remove(0);
    let check = HealthCheck {
        r#type: Some(health_check::Type::Command.into()),
        command: Some(CommandInfo {
            value: Some("true".to_owned()),
            ..CommandInfo::default()
        }),
        grace_period_seconds: Some(10.0),
        consecutive_failures: Some(2),
        ..Default::default()
    };
    let task = TaskInfo {
        health_check: Some(check),
        max_completion_time: Some(DurationInfo {
            nanoseconds: 60_000_000_000,
        }),
        ..task_info("t", &offer, LONG)
    };
    world.accept(&offer, vec![task]);
    world.pass(Span::seconds(2));
    let run = world.cluster.live_runs(&world.agents[0])[0].0.clone();
    let told = |world: &World| {
        let of_check = world
            .updates
            .iter()
            .filter(|status| status.reason() == Reason::TaskHealthCheckStatusUpdated);
        of_check.map(|status| status.healthy()).collect::<Vec<bool>>()
    };
    for (healthy, seen) in [
        (false, 0),
        (true, 1),
        (true, 1),
        (false, 2),
        (true, 3),
        (false, 4),
    ] {
        world.cluster.checked(&run, healthy, world.now);
        world.take();
        assert_eq!(told(&world).len(), seen, "{healthy}");
    }
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskRunning));
    world.cluster.checked(&run, false, world.now);
    world.pass(Span::seconds(5));
    let last = world.updates.last().unwrap();
    assert_eq!((last.state(), last.healthy), (TaskState::TaskKilled, Some(false)));
}
