//! Executors without their agent: how long they wait for it, and what ends them.

use crate::framework::World;
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::TaskState;
use echelon_sim_mesos::{AgentId, AgentSpec, Bundle, Config, Tasks};

const RECOVERY: Span = Span::minutes(5);

fn world() -> World {
    let config = Config {
        recovery_timeout: RECOVERY,
        ..Config::default()
    };
    let mut world = World::with(config, 1);
    world.launch(0, "t", Span::minutes(600));
    world.pass(Span::seconds(2));
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskRunning));
    world
}

fn lives(world: &World) -> bool {
    world.cluster.live_tasks().next().is_some()
}

/// A new agent at the address of the first one.
fn replace(world: &mut World) -> AgentId {
    let spec = AgentSpec::new("host-0", Bundle::of(4, 4096, 1000));
    let new = world.cluster.add_agent(spec, world.now);
    world.take();
    new
}

#[test]
fn executors_wait_for_their_agent_and_then_end() {
    let mut world = world();
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Live, world.now);
    world.pass(Span(RECOVERY.0 - 1000));
    assert!(lives(&world));
    world.pass(Span::seconds(10));
    assert!(!lives(&world));
    // It finds out when it comes back.
    world.cluster.start_agent(&agent, world.now);
    world.pass(Span::seconds(30));
    assert_eq!(
        world.states("t").last(),
        Some(&TaskState::TaskFailed),
        "{:?}",
        world.states("t")
    );
}

#[test]
fn an_agent_that_is_back_in_time_keeps_its_executors() {
    let mut world = world();
    let agent = world.agents[0].clone();
    for _ in 0..2 {
        world.cluster.stop_agent(&agent, Tasks::Live, world.now);
        world.pass(Span(RECOVERY.0 - 1000));
        world.cluster.start_agent(&agent, world.now);
        world.pass(Span::seconds(30));
    }
    assert!(lives(&world));
}

#[test]
fn executors_of_a_replaced_agent_live_on_until_their_wait_is_over() {
    let mut world = world();
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Live, world.now);
    world.pass(Span::seconds(20));
    replace(&mut world);
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskLost));
    assert!(lives(&world));
    world.pass(Span(RECOVERY.0 - 30_000));
    assert!(lives(&world));
    world.pass(Span::seconds(20));
    assert!(!lives(&world));
    assert_eq!(world.cluster.agent_ids().count(), 1);
}

#[test]
fn an_agent_that_is_told_that_it_is_gone_ends_its_executors_within_their_grace() {
    let mut world = world();
    let agent = world.agents[0].clone();
    world.cluster.mark_agent_gone(&agent, world.now);
    world.take();
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskGoneByOperator));
    assert!(lives(&world));
    world.pass(Span::seconds(6));
    assert!(!lives(&world));
}

#[test]
fn an_agent_tells_its_flags_while_its_process_is_there() {
    let mut world = world();
    let old = world.agents[0].clone();
    let flag = |world: &World, agent: &AgentId, name: &str| {
        let told = world.cluster.get_agent_flags(agent)?.get_flags.unwrap();
        let flag = told.flags.into_iter().find(|flag| flag.name == name);
        flag.unwrap().value
    };
    assert_eq!(flag(&world, &old, "recovery_timeout").as_deref(), Some("5mins"));
    let grace = flag(&world, &old, "executor_shutdown_grace_period");
    assert_eq!(grace.as_deref(), Some("5secs"));
    assert_eq!(world.cluster.agent_at("127.0.0.1", 5051), Some(&old));
    world.cluster.stop_agent(&old, Tasks::Live, world.now);
    assert_eq!(flag(&world, &old, "port"), None);
    assert_eq!(world.cluster.agent_at("127.0.0.1", 5051), None);
    let new = replace(&mut world);
    assert_eq!(world.cluster.agent_at("127.0.0.1", 5051), Some(&new));
    assert_eq!(flag(&world, &new, "recovery_timeout").as_deref(), Some("5mins"));
}
