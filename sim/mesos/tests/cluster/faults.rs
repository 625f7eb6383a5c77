//! Faults one by one.

use crate::framework::World;
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::TaskState::{
    TaskDropped, TaskFailed, TaskFinished, TaskGone, TaskKilled, TaskKilling, TaskRunning, TaskStarting,
    TaskUnknown, TaskUnreachable,
};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_sim_mesos::{AgentId, Fault, Leadership, Registry, Tasks, Updates};

const LONG: Span = Span::minutes(60);

#[test]
fn a_virtual_task_lives_its_time() {
    let mut world = World::new(1);
    world.launch(0, "t", Span::seconds(5));
    world.pass(Span::seconds(5));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning]);
    world.pass(Span::seconds(1));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning, TaskFinished]);
}

#[test]
fn a_new_master_knows_nothing_until_agents_return() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(3));
    let old_offer = world.offers[0].clone();
    world.cluster.fail_over(Span::seconds(2), world.now);
    world.take();
    assert_eq!(world.stream, None);
    let answer = world.subscribe();
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, "Master has not finished recovery")
    );
    world.pass(Span::seconds(2));
    assert_eq!(world.subscribe().status, 200);
    // The agent is only recovered: no answer with its id, none without any, but strangers are unknown (R105).
    world.agents.push(echelon_sim_mesos::AgentId::new("stranger"));
    assert_eq!(
        world.reconcile(&[("t", Some(0)), ("t", None), ("t", Some(1))]),
        [TaskUnknown]
    );
    world.pass(Span::seconds(2));
    assert_eq!(
        world.reconcile(&[("t", Some(0)), ("never", Some(0)), ("never", None)]),
        [TaskRunning, TaskGone, TaskUnknown]
    );
    world.accept(
        &old_offer,
        vec![crate::framework::task_info("late", &old_offer, LONG)],
    );
    assert_eq!(world.states("late"), [TaskDropped]);
    assert_eq!(world.updates.last().unwrap().reason(), Reason::InvalidOffers);
}

#[test]
fn an_agent_that_misses_a_failover_becomes_unreachable_without_a_word_about_its_tasks() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(3));
    let agent = world.agents[0].clone();
    world.cluster.cut_agent(&agent, world.now);
    world.cluster.fail_over(Span::seconds(1), world.now);
    world.pass(Span::seconds(1));
    world.subscribe();
    let told = world.updates.len();
    world.pass(Span::minutes(11));
    assert_eq!(world.updates.len(), told);
    assert!(world.events.iter().any(|event| event.failure.is_some()));
    assert_eq!(
        world.reconcile(&[("t", Some(0)), ("t", None)]),
        [TaskUnreachable, TaskUnknown]
    );
    world.cluster.heal_agent(&agent, world.now);
    world.take();
    assert_eq!(world.updates.last().unwrap().reason(), Reason::AgentReregistered);
    assert_eq!(world.states("t").last(), Some(&TaskRunning));
}

#[test]
fn a_cut_agent_is_noticed_by_its_silence() {
    let mut world = World::new(2);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    world.cluster.cut_agent(&agent, world.now);
    // What is sent to it is lost, and its offers stay good: nobody knows yet.
    world.launch(0, "lost", LONG);
    world.pass(Span::seconds(74));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning]);
    world.pass(Span::seconds(2));
    assert_eq!(world.states("t").last(), Some(&TaskUnreachable));
    assert_eq!(world.states("lost"), [TaskUnreachable]);
    world.cluster.heal_agent(&agent, world.now);
    world.take();
    assert_eq!(world.states("t").last(), Some(&TaskRunning));
    assert_eq!(world.reconcile(&[("lost", Some(0))]), [TaskGone]);
}

#[test]
fn a_launch_that_never_arrived_is_dropped_when_the_agent_registers_again() {
    let mut world = World::new(1);
    world.pass(Span::seconds(1));
    let agent = world.agents[0].clone();
    world.cluster.cut_agent(&agent, world.now);
    world.launch(0, "lost", LONG);
    world.pass(Span::seconds(10));
    assert_eq!(world.states("lost"), []);
    world.cluster.heal_agent(&agent, world.now);
    world.take();
    assert_eq!(world.states("lost"), [TaskDropped]);
    let status = world.updates.last().unwrap();
    assert_eq!(status.reason(), Reason::Reconciliation);
    assert!(status.uuid.is_some());
    world.pass(Span::seconds(2));
    let offered = world
        .offers
        .iter()
        .map(|offer| crate::framework::amount(&offer.resources, "cpus"));
    assert_eq!(offered.sum::<u64>(), 4000);
}

#[test]
fn a_machine_that_dies_loses_its_tasks_but_not_their_updates() {
    let mut world = World::new(1);
    world.acknowledges = false;
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Die, world.now);
    world.pass(Span::seconds(5));
    world.cluster.start_agent(&agent, world.now);
    world.take();
    world.acknowledges = true;
    world.pass(Span::minutes(2));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning, TaskFailed]);
    assert_eq!(world.reconcile(&[("t", Some(0))]), [TaskGone]);
}

#[test]
fn a_kill_for_a_disconnected_agent_waits_for_it() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Live, world.now);
    world.kill("t");
    world.pass(Span::seconds(5));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning]);
    world.cluster.start_agent(&agent, world.now);
    world.take();
    world.pass(Span::seconds(1));
    assert_eq!(
        world.states("t"),
        [TaskStarting, TaskRunning, TaskKilling, TaskKilled]
    );
}

#[test]
fn a_call_that_is_lost_is_answered_all_the_same() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let kill = Some(call::Kill {
        task_id: echelon_sim_mesos::TaskId::new("t").proto(),
        ..Default::default()
    });
    let request = world.request(
        call::Type::Kill,
        Call {
            kill,
            ..Default::default()
        },
    );
    assert_eq!(world.cluster.answer_and_lose(&request).status, 202);
    world.pass(Span::seconds(5));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning]);
}

#[test]
fn a_follower_redirects_and_a_master_without_leader_refuses() {
    let mut world = World::new(0);
    world
        .cluster
        .set_leadership(Leadership::Follows("10.0.0.7:5050".to_owned()));
    let answer = world.subscribe();
    assert_eq!(answer.status, 307);
    assert_eq!(
        answer.headers,
        [("Location", "//10.0.0.7:5050/master/api/v1/scheduler".to_owned())]
    );
    world.cluster.set_leadership(Leadership::Nobody);
    let answer = world.subscribe();
    assert_eq!((answer.status, answer.body.as_str()), (503, "No leader elected"));
}

#[test]
fn an_idle_cluster_asks_for_no_time_but_heartbeats() {
    let mut world = World::new(3);
    world.call(call::Type::Suppress, Call::default());
    world.pass(Span::seconds(20));
    let wakes: Vec<_> = (0..3)
        .map(|_| {
            world.now = world.cluster.next_wake().unwrap();
            world.cluster.tick(world.now);
            world.take();
            world.now.0
        })
        .collect();
    assert_eq!(wakes, [30_000, 45_000, 60_000]);
}

#[test]
fn a_new_master_with_a_fresh_registry_knows_no_agent_until_it_registers() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(3));
    let fault = Fault::MasterFailover(Registry::Fresh, Span::seconds(1));
    world.cluster.inject(fault, world.now).unwrap();
    world.take();
    world.pass(Span::seconds(1));
    assert_eq!(world.subscribe().status, 200);
    // With the registry kept there would be no answer.
    assert_eq!(world.reconcile(&[("t", Some(0))]), [TaskUnknown]);
    world.pass(Span::seconds(5));
    assert_eq!(world.reconcile(&[("t", Some(0))]), [TaskRunning]);
}

#[test]
fn updates_come_late_twice_and_out_of_order_as_asked_and_none_is_lost() {
    let mut world = World::new(4);
    let unruly = Updates {
        delay: Span::seconds(1),
        jitter: Span::seconds(2),
        twice: 500,
    };
    world.cluster.inject(Fault::Updates(unruly), world.now).unwrap();
    for n in 0..4 {
        world.launch(n, &format!("t{n}"), LONG);
    }
    assert_eq!(world.updates.len(), 0);
    world.pass(Span::seconds(20));
    for n in 0..4 {
        let states = world.states(&format!("t{n}"));
        assert!(
            states.contains(&TaskStarting) && states.contains(&TaskRunning),
            "{states:?}"
        );
    }
    assert!(world.updates.len() > 8, "none came twice");
    world
        .cluster
        .inject(Fault::Updates(Updates::default()), world.now)
        .unwrap();
    world.launch(0, "after", LONG);
    world.pass(Span::seconds(1));
    assert_eq!(world.states("after"), [TaskStarting, TaskRunning]);
}

#[test]
fn a_stalled_stream_carries_everything_afterwards_in_order() {
    let mut world = World::new(1);
    world.pass(Span::seconds(1));
    world
        .cluster
        .inject(Fault::Stall(Span::seconds(30)), world.now)
        .unwrap();
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(29));
    assert_eq!(world.states("t"), []);
    world.pass(Span::seconds(2));
    assert_eq!(world.states("t"), [TaskStarting, TaskRunning]);
}

#[test]
fn every_offer_is_taken_back_at_once_and_a_lost_agent_returns() {
    let mut world = World::new(2);
    world.pass(Span::seconds(1));
    assert_eq!(world.offers.len(), 2);
    world.cluster.inject(Fault::RescindAll, world.now).unwrap();
    world.take();
    let rescinded = world.events.iter().filter(|e| e.rescind.is_some()).count();
    assert_eq!(rescinded, 2);
    let (agent, nobody) = (world.agents[0].clone(), AgentId::new("nobody"));
    for lost in [
        Fault::AgentLost(agent.clone(), Tasks::Live),
        Fault::AgentPartitioned(agent.clone()),
    ] {
        world.cluster.inject(lost, world.now).unwrap();
        world.pass(Span::seconds(80));
        let unknown = world.reconcile(&[("never", Some(0))]);
        assert_eq!(unknown, [TaskUnreachable]);
        world
            .cluster
            .inject(Fault::AgentReturned(agent.clone()), world.now)
            .unwrap();
        world.pass(Span::seconds(5));
        assert_eq!(world.reconcile(&[("never", Some(0))]), [TaskGone]);
    }
    let refused = world.cluster.inject(Fault::AgentReturned(nobody), world.now);
    assert_eq!(refused.unwrap_err().to_string(), "there is no agent `nobody`");
}

#[test]
fn an_agent_that_starts_nothing_drops_what_comes_and_goes_on_with_what_runs() {
    let mut world = World::new(1);
    world.launch(0, "before", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    let words = Some("No such user 'nosuchuser'".to_owned());
    let fault = Fault::StartsFail(agent.clone(), words);
    world.cluster.inject(fault, world.now).unwrap();
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    assert_eq!(world.states("t"), [TaskDropped]);
    let last = world.updates.last().unwrap();
    assert_eq!(last.reason(), Reason::ExecutorTerminated);
    assert_eq!(last.message(), "No such user 'nosuchuser'");
    assert_eq!(world.states("before"), [TaskStarting, TaskRunning]);
    world
        .cluster
        .inject(Fault::StartsFail(agent, None), world.now)
        .unwrap();
    world.launch(0, "after", LONG);
    world.pass(Span::seconds(2));
    assert_eq!(world.states("after"), [TaskStarting, TaskRunning]);
}
