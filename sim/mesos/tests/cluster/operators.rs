//! What operators do to a cluster beyond what the recordings show: drains, deactivation, quotas, maintenance.

use crate::framework::{World, amount};
use TaskState::{TaskGoneByOperator, TaskKilled, TaskKilling, TaskRunning, TaskStarting};
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::master::{Schedule, Window};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{InverseOffer, MachineId, TaskState, TimeInfo, Unavailability};
use echelon_sim_mesos::{AgentSpec, Bundle, Tasks};
use std::collections::BTreeMap;

const LONG: Span = Span::minutes(30);

impl World {
    fn offered_cpus(&self) -> u64 {
        self.offers
            .iter()
            .map(|offer| amount(&offer.resources, "cpus"))
            .sum()
    }

    fn inverse_offers(&self) -> Vec<InverseOffer> {
        let events = self
            .events
            .iter()
            .filter_map(|event| event.inverse_offers.as_ref());
        events.flat_map(|event| event.inverse_offers.clone()).collect()
    }
}

fn machine(host: usize) -> MachineId {
    MachineId {
        hostname: Some(format!("host-{host}")),
        ip: Some("127.0.0.1".to_owned()),
    }
}

fn schedule(hosts: &[usize]) -> Schedule {
    let window = Window {
        machine_ids: hosts.iter().map(|host| machine(*host)).collect(),
        unavailability: Unavailability {
            start: TimeInfo { nanoseconds: 1 },
            duration: None,
        },
    };
    Schedule {
        windows: vec![window],
    }
}

#[test]
fn a_drain_that_marks_gone_ends_with_the_agent() {
    let mut world = World::new(2);
    world.acknowledges = false;
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    world.acknowledges = true;
    let agent = world.agents[0].clone();
    assert!(
        world
            .cluster
            .drain_agent(&agent, Some(Span::seconds(1)), true, world.now)
    );
    world.take();
    assert_eq!(world.offered_cpus(), 4000, "offers of the other agent stay");
    world.pass(Span::minutes(1));
    assert_eq!(
        world.states("t"),
        [TaskStarting, TaskRunning, TaskKilling, TaskGoneByOperator]
    );
    assert_eq!(world.updates.last().unwrap().reason(), Reason::AgentDraining);
    assert_eq!(world.reconcile(&[("t", Some(0))]), [TaskGoneByOperator]);
    assert!(!world.cluster.reactivate_agent(&agent, world.now));
}

#[test]
fn a_drain_goes_on_under_the_next_master_and_when_the_agent_is_back() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Live, world.now);
    assert!(world.cluster.drain_agent(&agent, None, false, world.now));
    world.cluster.fail_over(Span::seconds(1), world.now);
    world.take();
    world.pass(Span::seconds(2));
    world.subscribe();
    world.cluster.start_agent(&agent, world.now);
    world.take();
    world.pass(Span::seconds(10));
    assert_eq!(world.states("t").last(), Some(&TaskKilled));
    assert_eq!(world.offered_cpus(), 0);
    assert!(world.cluster.reactivate_agent(&agent, world.now));
    world.pass(Span::seconds(2));
    assert_eq!(world.offered_cpus(), 4000);
}

#[test]
fn a_deactivated_agent_keeps_its_tasks_but_is_not_offered() {
    let mut world = World::new(1);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    let agent = world.agents[0].clone();
    assert!(world.cluster.deactivate_agent(&agent));
    world.take();
    world.pass(Span::seconds(5));
    assert_eq!(
        (world.states("t"), world.offered_cpus()),
        (vec![TaskStarting, TaskRunning], 0)
    );
    assert!(world.cluster.reactivate_agent(&agent, world.now));
    world.pass(Span::seconds(2));
    assert_eq!(world.offered_cpus(), 3000);
}

#[test]
fn the_quota_of_a_role_caps_the_roles_below_it_together() {
    let mut world = World::with_roles(&["r/a", "r/b", "s"], 4);
    let cpus_of = |world: &World, role: &str| {
        let of_role = world
            .offers
            .iter()
            .filter(|offer| offer.allocation_info.as_ref().unwrap().role().starts_with(role));
        of_role.map(|offer| amount(&offer.resources, "cpus")).sum::<u64>()
    };
    let limit = |cpus: f64| BTreeMap::from([("cpus".to_owned(), cpus)]);
    world.subscribe();
    assert!(world.cluster.set_quota("r", &limit(1.5), world.now));
    world.suppress(&["s"]);
    world.pass(Span::seconds(2));
    assert_eq!(cpus_of(&world, "r/"), 1500);
    // What is missing from these offers goes to whoever may have it.
    world.revive(&["s"]);
    world.pass(Span::seconds(2));
    assert_eq!((cpus_of(&world, "r/"), cpus_of(&world, "s")), (1500, 14_500));
    assert!(!world.cluster.set_quota("*", &limit(1.0), world.now));
    assert!(
        !world
            .cluster
            .set_quota("r", &BTreeMap::from([("ports".to_owned(), 1.0)]), world.now)
    );
    assert!(world.cluster.set_quota("r", &BTreeMap::new(), world.now));
    world.suppress(&["s"]);
    world.subscribe();
    world.suppress(&["s"]);
    world.pass(Span::seconds(2));
    assert_eq!(world.offered_cpus(), 16_000);
}

#[test]
fn only_those_who_use_a_machine_are_asked_to_leave_it() {
    let mut world = World::new(2);
    world.launch(0, "t", LONG);
    world.suppress(&["r"]);
    world.pass(Span::seconds(2));
    assert!(world.cluster.schedule_maintenance(&schedule(&[0, 1]), world.now));
    world.take();
    // The offer of the second machine was rescinded, and nothing runs there.
    let asked = world.inverse_offers();
    let agents: Vec<_> = asked
        .iter()
        .map(|one| one.agent_id.clone().unwrap().value)
        .collect();
    assert_eq!(agents, [world.agents[0].as_str()]);
    // A new subscription is asked anew.
    world.subscribe();
    world.pass(Span::seconds(2));
    assert!(world.inverse_offers().len() > asked.len());
    world
        .cluster
        .schedule_maintenance(&Schedule::default(), world.now);
    world.take();
    assert!(
        world
            .events
            .iter()
            .any(|event| event.rescind_inverse_offer.is_some())
    );
}

#[test]
fn a_machine_under_maintenance_is_away_until_it_is_over() {
    let mut world = World::new(2);
    world.launch(0, "t", LONG);
    world.pass(Span::seconds(2));
    assert!(
        !world.cluster.start_maintenance(&[machine(0)], world.now),
        "it is not scheduled"
    );
    assert!(world.cluster.schedule_maintenance(&schedule(&[0]), world.now));
    assert!(world.cluster.start_maintenance(&[machine(0)], world.now));
    world.take();
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskLost));
    assert!(
        !world
            .cluster
            .schedule_maintenance(&Schedule::default(), world.now),
        "it is down"
    );
    assert_eq!(world.cluster.maintenance_status().down_machines, [machine(0)]);
    let spec = || AgentSpec::new("host-0", Bundle::of(4, 4096, 1000));
    let early = world.cluster.add_agent(spec(), world.now);
    world.pass(Span::seconds(2));
    assert!(
        world
            .offers
            .iter()
            .all(|offer| offer.agent_id.value != early.as_str())
    );
    assert!(world.cluster.stop_maintenance(&[machine(0)]));
    world.cluster.start_agent(&early, world.now);
    world.take();
    world.pass(Span::seconds(2));
    assert!(
        world
            .offers
            .iter()
            .any(|offer| offer.agent_id.value == early.as_str())
    );
}
