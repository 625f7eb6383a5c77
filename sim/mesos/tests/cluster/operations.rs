//! Reservations, volumes and revocable resources beyond what the recordings show.

use crate::framework::{World, task_info};
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::resource::disk_info::Persistence;
use echelon_proto::mesos::v1::resource::reservation_info::Type::Dynamic;
use echelon_proto::mesos::v1::resource::{DiskInfo, ReservationInfo, SharedInfo};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_proto::mesos::v1::{
    AgentId, OperationId, OperationState, OperationStatus, Resource, TaskState, Volume, value, volume,
};
use echelon_sim_mesos::{Bundle, Cluster, Config, Output, Tasks};
use std::collections::BTreeMap;

const LONG: Span = Span::minutes(30);

pub fn scalar(name: &str, value: f64) -> Resource {
    Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value }),
        ..Default::default()
    }
}

pub fn reserved(resource: Resource, roles: &[&str]) -> Resource {
    let level = |role: &&str| ReservationInfo {
        role: Some((*role).to_owned()),
        r#type: Some(Dynamic.into()),
        ..Default::default()
    };
    Resource {
        reservations: roles.iter().map(level).collect(),
        ..resource
    }
}

pub fn volume(id: &str, size: f64) -> Resource {
    let volume = Volume {
        container_path: "data".to_owned(),
        mode: volume::Mode::Rw.into(),
        ..Default::default()
    };
    Resource {
        disk: Some(DiskInfo {
            persistence: Some(Persistence {
                id: id.to_owned(),
                principal: None,
            }),
            volume: Some(volume),
            source: None,
        }),
        ..reserved(scalar("disk", size), &["r"])
    }
}

pub fn shared(volume: Resource) -> Resource {
    Resource {
        shared: Some(SharedInfo::default()),
        ..volume
    }
}

pub fn reserve(resource: Resource) -> Operation {
    Operation {
        r#type: Some(operation::Type::Reserve.into()),
        reserve: Some(operation::Reserve {
            resources: vec![resource],
            source: Vec::new(),
        }),
        ..Default::default()
    }
}

pub fn unreserve(resource: Resource) -> Operation {
    Operation {
        r#type: Some(operation::Type::Unreserve.into()),
        unreserve: Some(operation::Unreserve {
            resources: vec![resource],
        }),
        ..Default::default()
    }
}

pub fn create(volume: Resource) -> Operation {
    Operation {
        r#type: Some(operation::Type::Create.into()),
        create: Some(operation::Create {
            volumes: vec![volume],
        }),
        ..Default::default()
    }
}

pub fn destroy(volume: Resource) -> Operation {
    Operation {
        r#type: Some(operation::Type::Destroy.into()),
        destroy: Some(operation::Destroy {
            volumes: vec![volume],
        }),
        ..Default::default()
    }
}

pub fn named(id: &str, operation: Operation) -> Operation {
    Operation {
        id: Some(OperationId { value: id.to_owned() }),
        ..operation
    }
}

impl World {
    /// Performs operations on all open offers of the first agent, then waits for the next offers.
    fn perform(&mut self, operations: Vec<Operation>) {
        let Some(agent) = self.offers.first().map(|offer| offer.agent_id.clone()) else {
            return self.pass(Span::seconds(2));
        };
        let (offers, others) = std::mem::take(&mut self.offers)
            .into_iter()
            .partition(|offer| offer.agent_id == agent);
        let (offers, others): (Vec<_>, Vec<_>) = (offers, others);
        self.offers = others;
        let response = self.accept_operations(&offers, operations);
        assert_eq!(response.status, 202);
        self.pass(Span::seconds(2));
    }

    /// What is offered, as thousandths by a text of name and marks.
    fn offered(&self) -> BTreeMap<String, u64> {
        let mut offered = BTreeMap::new();
        for resource in self.offers.iter().flat_map(|offer| &offer.resources) {
            let Some(scalar) = &resource.scalar else { continue };
            let roles: Vec<&str> = resource.reservations.iter().map(ReservationInfo::role).collect();
            let persistence = resource.disk.as_ref().and_then(|disk| disk.persistence.as_ref());
            let mut words = vec![resource.name.clone()];
            words.extend((!roles.is_empty()).then(|| roles.join(",")));
            words.extend(persistence.map(|persistence| persistence.id.clone()));
            words.extend(resource.revocable.map(|_| "revocable".to_owned()));
            *offered.entry(words.join(" ")).or_default() += (scalar.value * 1000.0).round() as u64;
        }
        offered
    }

    fn operation_updates(&self) -> Vec<OperationStatus> {
        let updates = self
            .events
            .iter()
            .filter_map(|event| event.update_operation_status.as_ref());
        updates.map(|update| update.status.clone()).collect()
    }

    fn acknowledge_operation(&mut self, status: &OperationStatus) {
        let acknowledge_operation_status = Some(call::AcknowledgeOperationStatus {
            agent_id: status.agent_id.clone(),
            uuid: status.uuid.clone().unwrap().value,
            operation_id: status.operation_id.clone().unwrap(),
            ..Default::default()
        });
        let call = Call {
            acknowledge_operation_status,
            ..Default::default()
        };
        assert_eq!(
            self.call(call::Type::AcknowledgeOperationStatus, call).status,
            202
        );
    }

    /// What the master says of an operation on an agent.
    fn ask(&mut self, operation: &str, agent_id: Option<AgentId>) -> OperationState {
        let asked = call::reconcile_operations::Operation {
            operation_id: OperationId {
                value: operation.to_owned(),
            },
            agent_id,
            ..Default::default()
        };
        let call = Call {
            reconcile_operations: Some(call::ReconcileOperations {
                operations: vec![asked],
            }),
            ..Default::default()
        };
        self.call(call::Type::ReconcileOperations, call);
        self.operation_updates().last().unwrap().state()
    }
}

fn table(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter()
        .map(|(name, amount)| ((*name).to_owned(), *amount))
        .collect()
}

#[test]
fn a_volume_grows_and_shrinks_for_the_next_offer_only() {
    let mut world = World::new(1);
    let grow = Operation {
        r#type: Some(operation::Type::GrowVolume.into()),
        grow_volume: Some(operation::GrowVolume {
            volume: volume("v", 64.0),
            addition: reserved(scalar("disk", 32.0), &["r"]),
        }),
        ..Default::default()
    };
    let agent_id = world.offers[0].agent_id.clone();
    let mut task = task_info("t", &world.offers[0], LONG);
    task.resources.push(volume("v", 96.0));
    let launch = Operation {
        r#type: Some(operation::Type::Launch.into()),
        launch: Some(operation::Launch {
            task_infos: vec![task],
        }),
        ..Default::default()
    };
    let disk = reserve(reserved(scalar("disk", 128.0), &["r"]));
    world.perform(vec![disk, create(volume("v", 64.0)), grow, launch]);
    assert_eq!(world.states("t"), [TaskState::TaskError]);
    let rest = ("cpus", 4_000_000 / 1000);
    let all = |rows: &[(&str, u64)]| table(&[rows, &[rest, ("mem", 4_096_000)]].concat());
    assert_eq!(
        world.offered(),
        all(&[("disk", 872_000), ("disk r", 32_000), ("disk r v", 96_000)])
    );

    let shrink = Operation {
        r#type: Some(operation::Type::ShrinkVolume.into()),
        shrink_volume: Some(operation::ShrinkVolume {
            volume: volume("v", 96.0),
            subtract: value::Scalar { value: 90.0 },
        }),
        ..Default::default()
    };
    world.perform(vec![named("s", shrink)]);
    assert_eq!(
        world.offered(),
        all(&[("disk", 872_000), ("disk r", 122_000), ("disk r v", 6_000)])
    );
    let status = world.operation_updates().pop().unwrap();
    assert_eq!(
        (status.state(), status.agent_id),
        (OperationState::OperationFinished, Some(agent_id))
    );
}

#[test]
fn a_refined_reservation_is_given_back_level_by_level() {
    let mut world = World::with_roles(&["r", "r/s"], 1);
    let role_of = |world: &World, role: &str| {
        let of_role =
            |offer: &&echelon_proto::mesos::v1::Offer| offer.allocation_info.as_ref().unwrap().role() == role;
        world.offers.iter().filter(of_role).count()
    };
    assert_eq!(role_of(&world, "r") + role_of(&world, "r/s"), 1);
    if role_of(&world, "r") == 0 {
        world.perform(vec![reserve(reserved(scalar("cpus", 1.0), &["r/s"]))]);
        assert_eq!(world.offered().get("cpus r/s"), Some(&1000));
        world.perform(vec![unreserve(reserved(scalar("cpus", 1.0), &["r/s"]))]);
    }
    // What is reserved for a role may go to the roles below it, which may refine it.
    world.suppress(&["r/s"]);
    world.perform(Vec::new());
    world.perform(vec![reserve(reserved(scalar("cpus", 1.0), &["r"]))]);
    world.revive(&["r/s"]);
    world.suppress(&["r"]);
    world.perform(Vec::new());
    assert_eq!(role_of(&world, "r/s"), 1);
    world.perform(vec![reserve(reserved(scalar("cpus", 1.0), &["r", "r/s"]))]);
    assert_eq!(world.offered().get("cpus r,r/s"), Some(&1000));
    world.perform(vec![unreserve(reserved(scalar("cpus", 1.0), &["r", "r/s"]))]);
    assert_eq!(world.offered().get("cpus r"), Some(&1000));
}

#[test]
fn what_is_reserved_outlives_masters_agents_and_the_process() {
    let config = Config {
        durable: true,
        ..Config::default()
    };
    let mut world = World::with(config.clone(), 1);
    let reserve_disk = named("op", reserve(reserved(scalar("disk", 64.0), &["r"])));
    world.perform(vec![reserve_disk, create(volume("v", 64.0))]);
    let finished = world.operation_updates().pop().unwrap();
    let offered = world.offered();
    assert_eq!(offered.get("disk r v"), Some(&64_000));

    world.cluster.fail_over(Span::seconds(1), world.now);
    world.take();
    world.pass(Span::seconds(10));
    world.subscribe();
    world.pass(Span::seconds(2));
    assert_eq!(world.offered(), offered);

    let agent = world.agents[0].clone();
    world.cluster.stop_agent(&agent, Tasks::Live, world.now);
    world.take();
    world.cluster.start_agent(&agent, world.now);
    world.take();
    assert_eq!(world.operation_updates().pop(), Some(finished.clone()));

    let records = world.records.clone();
    world.cluster = Cluster::recover(config, 7, records, world.now).unwrap();
    world.cluster.start_agent(&agent, world.now);
    world.subscribe();
    world.pass(Span::seconds(10));
    world.pass(Span::seconds(2));
    assert_eq!(world.offered(), offered);
    assert_eq!(world.operation_updates().pop(), Some(finished.clone()));
    world.acknowledge_operation(&finished);
    let n_updates = world.operation_updates().len();
    world.pass(Span::minutes(30));
    assert_eq!(world.operation_updates().len(), n_updates);
}

#[test]
fn of_two_operations_with_one_id_only_the_last_can_be_acknowledged() {
    let mut world = World::new(1);
    let one = || named("op", reserve(reserved(scalar("cpus", 1.0), &["r"])));
    world.perform(vec![one(), one()]);
    let [first, last] = world.operation_updates().try_into().unwrap();
    world.acknowledge_operation(&last);
    world.acknowledge_operation(&first);
    world.pass(Span::seconds(30));
    let uuids: Vec<_> = world
        .operation_updates()
        .into_iter()
        .skip(2)
        .map(|status| status.uuid)
        .collect();
    assert_eq!(uuids, [first.uuid.clone(), first.uuid]);
}

#[test]
fn an_unknown_operation_is_judged_by_its_agent() {
    let mut world = World::new(3);
    let ids: Vec<_> = world.agents.clone();
    world.cluster.mark_agent_gone(&ids[1], world.now);
    world.cluster.stop_agent(&ids[2], Tasks::Die, world.now);
    world.take();
    world.pass(Span::minutes(2));
    let foreign = AgentId {
        value: "nowhere-S1".to_owned(),
    };
    for (agent, state) in [
        (None, OperationState::OperationUnknown),
        (Some(foreign), OperationState::OperationUnknown),
        (Some(ids[0].proto()), OperationState::OperationUnknown),
        (Some(ids[1].proto()), OperationState::OperationGoneByOperator),
        (Some(ids[2].proto()), OperationState::OperationUnreachable),
    ] {
        assert_eq!(world.ask("op", agent.clone()), state, "{agent:?}");
    }
    world.cluster.fail_over(Span::ZERO, world.now);
    world.take();
    world.cluster.tick(world.now);
    world.subscribe();
    assert_eq!(
        world.ask("op", Some(ids[0].proto())),
        OperationState::OperationRecovering
    );
}

#[test]
fn a_shared_volume_that_is_destroyed_leaves_other_offers() {
    let mut world = World::new(1);
    let disk = reserve(reserved(scalar("disk", 64.0), &["r"]));
    let mut task = task_info("t", &world.offers[0], Span::seconds(10));
    task.resources.push(shared(volume("v", 64.0)));
    let launch = Operation {
        r#type: Some(operation::Type::Launch.into()),
        launch: Some(operation::Launch {
            task_infos: vec![task],
        }),
        ..Default::default()
    };
    world.perform(vec![disk, create(shared(volume("v", 64.0))), launch]);
    let first = world.offers.clone();
    world.pass(Span::seconds(15));
    assert_eq!(world.states("t").last(), Some(&TaskState::TaskFinished));
    assert_eq!(
        world.offers.len(),
        2,
        "what the task held is offered apart, with the volume once more"
    );
    let rescinds = |world: &World| {
        world
            .events
            .iter()
            .filter(|event| event.rescind.is_some())
            .count()
    };
    assert_eq!(rescinds(&world), 0);
    world.offers.retain(|offer| !first.contains(offer));
    world.accept_operations(&first, vec![destroy(shared(volume("v", 64.0)))]);
    assert_eq!(rescinds(&world), 1);
    world.pass(Span::seconds(2));
    assert_eq!(
        world.offered(),
        table(&[
            ("cpus", 4000),
            ("mem", 4_096_000),
            ("disk", 936_000),
            ("disk r", 64_000)
        ])
    );
}

#[test]
fn an_estimate_that_shrinks_takes_offers_back() {
    let mut world = World::new(1);
    let agent = world.agents[0].clone();
    world.perform(Vec::new());
    assert!(
        world
            .cluster
            .set_revocable(&agent, &Bundle::of(2, 0, 0), world.now)
    );
    world.take();
    world.perform(Vec::new());
    assert_eq!(world.offered().get("cpus revocable"), Some(&2000));
    let revocable = Resource {
        revocable: Some(echelon_proto::mesos::v1::resource::RevocableInfo::default()),
        ..scalar("cpus", 1.5)
    };
    let mut task = task_info("t", &world.offers[0], Span::seconds(60));
    task.resources = vec![revocable, scalar("mem", 64.0)];
    let offer = world.offers.remove(0);
    world.accept(&offer, vec![task]);
    world.pass(Span::seconds(2));
    assert_eq!(world.offered().get("cpus revocable"), Some(&500));
    // Below what the task holds: nothing is left, not even when its end gives back more than there is.
    assert!(
        world
            .cluster
            .set_revocable(&agent, &Bundle::of(1, 0, 0), world.now)
    );
    world.take();
    assert_eq!(world.offered().get("cpus revocable"), None);
    assert_eq!(world.offered().get("cpus"), Some(&4000));
    world.perform(Vec::new());
    assert_eq!(world.offered().get("cpus revocable"), None);
    world.pass(Span::minutes(2));
    world.perform(Vec::new());
    assert_eq!(world.offered().get("cpus revocable"), Some(&1000));
}

#[test]
fn what_runs_on_more_than_is_lent_is_preempted_the_last_first() {
    let mut world = World::new(1);
    let agent = world.agents[0].clone();
    world.perform(Vec::new());
    assert!(world.cluster.lend(&agent, &Bundle::of(2, 0, 0), world.now));
    world.take();
    world.perform(Vec::new());
    let revocable = || Resource {
        revocable: Some(echelon_proto::mesos::v1::resource::RevocableInfo::default()),
        ..scalar("cpus", 1.0)
    };
    let mut tasks: Vec<_> = ["t1", "t2", "plain"]
        .map(|name| task_info(name, &world.offers[0], Span::seconds(600)))
        .into();
    tasks[0].resources = vec![revocable(), scalar("mem", 64.0)];
    tasks[1].resources = vec![revocable(), scalar("mem", 64.0)];
    let offer = world.offers.remove(0);
    world.accept(&offer, tasks);
    world.pass(Span::seconds(2));
    assert_eq!(world.cluster.live_tasks().count(), 3);
    assert_eq!(world.cluster.over_committed().count(), 0);
    assert!(
        world
            .cluster
            .set_revocable(&agent, &Bundle::of(1, 0, 0), world.now)
    );
    assert_eq!(
        world.cluster.over_committed().count(),
        1,
        "an estimate alone ends nothing"
    );
    assert!(world.cluster.lend(&agent, &Bundle::of(1, 0, 0), world.now));
    world.pass(Span::seconds(1));
    let left: Vec<&str> = world
        .cluster
        .live_tasks()
        .map(|(_, task)| task.as_str())
        .collect();
    assert_eq!(left, ["plain", "t1"]);
    assert_eq!(world.cluster.over_committed().count(), 0);
    let preempted = world.updates.iter().any(|u| {
        u.task_id.value == "t2"
            && u.state() == echelon_proto::mesos::v1::TaskState::TaskGone
            && u.reason() == echelon_proto::mesos::v1::task_status::Reason::ContainerPreempted
    });
    assert!(preempted, "{:?}", world.updates);
}

#[test]
fn operations_are_refused_with_a_reason() {
    let mut world = World::new(1);
    let agent_id = world.offers[0].agent_id.value.clone();
    let at_agent = format!("; on agent {agent_id} at slave(1)@127.0.0.1:5051 (host-0)");
    let stranger = reserved(scalar("cpus", 1.0), &["other"]);
    let mut read_only = volume("v", 1.0);
    read_only.disk.as_mut().unwrap().volume.as_mut().unwrap().mode = volume::Mode::Ro.into();
    let with_source = Operation {
        reserve: Some(operation::Reserve {
            resources: vec![reserved(scalar("cpus", 1.0), &["r"])],
            source: vec![scalar("cpus", 1.0)],
        }),
        ..reserve(scalar("cpus", 1.0))
    };
    let cases = [
        (reserve(scalar("cpus", 1.0)), "not dynamically reserved"),
        (reserve(stranger), "for role 'other' with an offer of role 'r'"),
        (
            reserve(reserved(scalar("cpus", 9.0), &["r"])),
            "does not contain cpus(allocated: r):9",
        ),
        (with_source, "reserve.source"),
        (unreserve(scalar("cpus", 1.0)), "not dynamically reserved"),
        (create(reserved(scalar("disk", 1.0), &["r"])), "what is no volume"),
        (create(read_only), "read-write"),
        (destroy(volume("none", 1.0)), "Persistent volumes not found"),
    ];
    for (n, (operation, words)) in cases.into_iter().enumerate() {
        let is_of_agent = operation.create.is_some() || operation.destroy.is_some();
        world.perform(vec![named(&format!("op-{n}"), operation)]);
        let status = world.operation_updates().pop().unwrap();
        assert_eq!(status.state(), OperationState::OperationError, "{words}");
        let message = status.message.unwrap();
        assert!(message.contains(words), "{message}");
        assert_eq!(message.ends_with(&at_agent), is_of_agent, "{message}");
        assert_eq!(
            world.offered(),
            table(&[("cpus", 4000), ("mem", 4_096_000), ("disk", 1_000_000)])
        );
    }
}

#[test]
fn the_hazard_of_a_wrong_agent_leaves_a_cluster_without_a_leader() {
    let mut world = World::new(2);
    world.perform(vec![named("op", reserve(reserved(scalar("cpus", 1.0), &["r"])))]);
    let mut status = world.operation_updates().pop().unwrap();
    let right = status.agent_id.clone().unwrap();
    let wrong = world
        .agents
        .iter()
        .find(|agent| agent.as_str() != right.value)
        .unwrap();
    status.agent_id = Some(wrong.proto());
    let acknowledge_operation_status = Some(call::AcknowledgeOperationStatus {
        agent_id: status.agent_id,
        uuid: status.uuid.unwrap().value,
        operation_id: status.operation_id.unwrap(),
        ..Default::default()
    });
    let call = Call {
        acknowledge_operation_status,
        ..Default::default()
    };
    let answer = world.call(call::Type::AcknowledgeOperationStatus, call);
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("rule H2"), "{}", answer.body);
    assert!(world.stream.is_none() && world.trace.iter().any(|line| line.contains("Crash")));
    assert_eq!(world.subscribe().status, 503);
    world.cluster.fail_over(Span::seconds(1), world.now);
    world.pass(Span::seconds(5));
    assert_eq!(world.subscribe().status, 200);
}

#[test]
fn records_name_what_is_kept() {
    let config = Config {
        durable: true,
        ..Config::default()
    };
    let mut world = World::with(config, 1);
    let agent = world.agents[0].clone();
    world.cluster.unregister_agent(&agent, world.now);
    let outputs = world.cluster.drain();
    let forgotten =
        |output: &Output| matches!(output, Output::Store { key, value: None } if key.starts_with("agent/"));
    assert!(outputs.iter().any(forgotten));
}
