//! What we say, field by field.

#[path = "pod_tests.rs"]
mod pods;

use super::amount::from_revocable;
use super::task::single;
use super::*;
use crate::mesos::v1::offer::operation;
use crate::mesos::v1::scheduler::call::Type;
use crate::mesos::v1::{Resource, TaskInfo, executor_info};
use echelon_core_hosts::{Call, Launch, OfferId, TaskVolume};
use echelon_core_model::pod::Sidecar;
use echelon_core_model::runtime::{
    HealthCheck, Port, PortReference, PortSpec, Probe, ProbeKind, Protocol, Runtime, Visibility,
};
use echelon_core_model::{HostId, Resources, SidecarName, Span, VolumeId};

fn framework() -> Framework {
    Framework {
        role: "ours".to_owned(),
        ..Framework::named("echelon")
    }
}

#[test]
fn a_framework_subscribes_first_without_an_id_and_then_with_it_in_both_places() {
    for id in [None, Some("f-1")] {
        let stored = id.map(str::to_owned);
        let wire = call_to_wire(
            &Call::Subscribe {
                framework: stored.clone(),
            },
            &framework(),
            Some("ignored"),
        )
        .unwrap();
        let info = wire.subscribe.as_ref().unwrap().framework_info.clone();
        assert_eq!(wire.r#type(), Type::Subscribe);
        assert_eq!(wire.framework_id.clone().map(|id| id.value), stored, "R23");
        assert_eq!(info.id.clone().map(|id| id.value), stored, "R23");
        // A framework whose id is lost before it is stored must not stay for weeks.
        let weeks = 28.0 * 24.0 * 3600.0;
        let seconds = if id.is_some() { weeks } else { 600.0 };
        assert!((info.failover_timeout() - seconds).abs() < 1.0, "R32");
        assert!(info.checkpoint(), "R36");
        assert_eq!(info.roles, ["ours"]);
        #[expect(deprecated, reason = "R25: refused beside `roles`")]
        {
            assert_eq!(info.role, None);
        }
        let capabilities: Vec<&str> = info
            .capabilities
            .iter()
            .map(|c| c.r#type().as_str_name())
            .collect();
        for needed in [
            "MULTI_ROLE",
            "PARTITION_AWARE",
            "TASK_KILLING_STATE",
            "RESERVATION_REFINEMENT",
            "GPU_RESOURCES",
        ] {
            assert!(capabilities.contains(&needed), "R35: {needed}");
        }
    }
}

#[test]
fn an_update_of_the_framework_says_what_a_later_subscription_would() {
    let wire = call_to_wire(&Call::UpdateFramework, &framework(), Some("f-1")).unwrap();
    assert_eq!(wire.r#type(), Type::UpdateFramework);
    assert_eq!(wire.framework_id.unwrap().value, "f-1");
    let update = wire.update_framework.unwrap();
    assert_eq!(update.framework_info, framework().to_wire(Some("f-1")));
    assert!(update.suppressed_roles.is_empty());
}

fn web() -> Launch {
    Launch {
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "web 0".to_owned(),
        discovery: "main.web".to_owned(),
        runtime: Runtime::shell("sleep 1"),
        ports: Vec::new(),
        volume: None,
        resources: Resources {
            cpus: 1500,
            memory: 64,
            disk: 0,
            gpus: 2000,
        },
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        grace: Span::millis(1500),
        max_run: Some(Span::seconds(60)),
        labels: [("k".to_owned(), "v".to_owned())].into(),
        sidecars: Vec::new(),
    }
}

#[test]
fn a_launch_says_all_that_its_task_needs() {
    let call = Call::Accept {
        offers: vec![OfferId("o1".into()), OfferId("o2".into())],
        host: HostId::new("agent"),
        launches: vec![web()],
        refuse: Span::millis(500),
    };
    let wire = call_to_wire(&call, &framework(), Some("f-1")).unwrap();
    assert_eq!(wire.framework_id.clone().unwrap().value, "f-1");
    let accept = wire.accept.unwrap();
    assert_eq!(
        accept
            .offer_ids
            .iter()
            .map(|o| o.value.as_str())
            .collect::<Vec<_>>(),
        ["o1", "o2"]
    );
    assert_eq!(accept.filters.unwrap().refuse_seconds(), 0.5);
    let task = &accept.operations[0].launch.as_ref().unwrap().task_infos[0];
    assert_eq!(task.task_id.value, "0000000000000000000000000a.main.0.1.1");
    assert_eq!(task.agent_id.value, "agent");
    assert_eq!(
        task.kill_policy
            .as_ref()
            .unwrap()
            .grace_period
            .unwrap()
            .nanoseconds,
        1_500_000_000,
        "R85"
    );
    assert_eq!(
        task.max_completion_time.unwrap().nanoseconds,
        60_000_000_000,
        "R89"
    );
    let command = task.command.as_ref().unwrap();
    assert_eq!((command.value(), command.shell()), ("sleep 1", true));
    let amounts: Vec<(&str, f64)> = task
        .resources
        .iter()
        .map(|r| (r.name.as_str(), r.scalar.as_ref().unwrap().value))
        .collect();
    assert_eq!(
        amounts,
        [("cpus", 1.5), ("mem", 64.0), ("gpus", 2.0)],
        "R79: zero is invalid"
    );
    let roles: Vec<&str> = task
        .resources
        .iter()
        .map(|r| r.allocation_info.as_ref().unwrap().role())
        .collect();
    assert_eq!(roles, ["ours"; 3]);
    assert_eq!(
        from_resources(&task.resources),
        Resources {
            cpus: 1500,
            memory: 64,
            disk: 0,
            gpus: 2000
        }
    );
}

#[test]
fn lent_room_is_marked_and_no_kind_comes_from_both_sides() {
    let launch = Launch {
        revocable: Resources {
            cpus: 1500,
            ..Resources::ZERO
        },
        ..web()
    };
    let task = single(&launch, &HostId::new("agent"), &framework());
    let marked: Vec<(&str, bool)> = task
        .resources
        .iter()
        .map(|r| (r.name.as_str(), r.revocable.is_some()))
        .collect();
    assert_eq!(marked, [("mem", false), ("gpus", false), ("cpus", true)]);
}

#[test]
fn other_calls_name_what_they_are_about() {
    let (host, uuid) = (HostId::new("agent"), [3; 16]);
    let say = |call: Call| call_to_wire(&call, &framework(), Some("f-1")).unwrap();
    let killed = say(Call::Kill {
        task: "t".to_owned(),
        host: Some(host.clone()),
        grace: Span::seconds(2),
    });
    let kill = killed.kill.clone().unwrap();
    assert_eq!(
        (kill.task_id.value.as_str(), kill.agent_id.unwrap().value.as_str()),
        ("t", "agent"),
        "R104"
    );
    assert_eq!(
        kill.kill_policy.unwrap().grace_period.unwrap().nanoseconds,
        2_000_000_000
    );
    let acknowledged = say(Call::Acknowledge {
        task: "t".to_owned(),
        host: host.clone(),
        uuid,
    });
    let acknowledge = acknowledged.acknowledge.clone().unwrap();
    assert_eq!(
        (acknowledge.agent_id.value.as_str(), acknowledge.uuid),
        ("agent", uuid.to_vec()),
        "R96"
    );
    let declined = say(Call::Decline {
        offers: vec![OfferId("o".into())],
        refuse: Span::minutes(60),
    });
    assert_eq!(
        declined
            .decline
            .clone()
            .unwrap()
            .filters
            .unwrap()
            .refuse_seconds(),
        3600.0
    );
    let asked = say(Call::Reconcile {
        tasks: vec![("t".to_owned(), Some(host)), ("u".to_owned(), None)],
    });
    let tasks = asked.reconcile.clone().unwrap().tasks;
    assert_eq!(tasks[0].agent_id.clone().unwrap().value, "agent");
    assert_eq!(tasks[1].agent_id, None);
    // The sub-message must be there even when it is empty (R57).
    assert!(say(Call::Reconcile { tasks: Vec::new() }).reconcile.is_some());
    let types = [
        killed,
        acknowledged,
        declined,
        asked,
        say(Call::Revive),
        say(Call::Suppress),
    ]
    .map(|w| w.r#type());
    assert_eq!(
        types,
        [
            Type::Kill,
            Type::Acknowledge,
            Type::Decline,
            Type::Reconcile,
            Type::Revive,
            Type::Suppress
        ]
    );
}

#[test]
fn planned_maintenance_is_answered_either_way() {
    let say = |call: Call| call_to_wire(&call, &framework(), Some("f-1")).unwrap();
    let answer = |accept| {
        say(Call::AnswerInverse {
            offers: vec![OfferId("o".into())],
            host: HostId::new("agent"),
            accept,
            refuse: Span::minutes(1),
        })
    };
    let (yes, no) = (
        answer(true).accept_inverse_offers.clone().unwrap(),
        answer(false).decline_inverse_offers.clone().unwrap(),
    );
    assert_eq!((yes.inverse_offer_ids.len(), no.inverse_offer_ids.len()), (1, 1));
    assert_eq!(yes.filters.unwrap().refuse_seconds(), 60.0);
    let types = [answer(true), answer(false)].map(|w| w.r#type());
    assert_eq!(types, [Type::AcceptInverseOffers, Type::DeclineInverseOffers]);
}
