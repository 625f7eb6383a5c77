//! What a real master said, read in our words.

use super::*;
use crate::mesos::v1::domain_info::FaultDomain;
use crate::mesos::v1::domain_info::fault_domain::{RegionInfo, ZoneInfo};
use crate::mesos::v1::scheduler::{self, Event as Wire};
use crate::mesos::v1::{self, Attribute, DomainInfo, value};
use base64::Engine;
use echelon_core_hosts::{Event, InverseOffer, Refusal, TaskState};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::{HostId, Resources};
use prost::Message;

/// Our events of a recording's stream, in order.
fn recorded(name: &str) -> Vec<Event> {
    let path = format!(
        "{}/../tests/recordings/{name}.protobuf.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).expect(&path);
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let records = lines.filter(|line| line["kind"] == "event").map(|line| {
        let bytes = base64::prelude::BASE64_STANDARD
            .decode(line["record_b64"].as_str().unwrap())
            .unwrap();
        Wire::decode(bytes.as_slice()).unwrap()
    });
    records.flat_map(|wire| event_from_wire(&wire)).collect()
}

#[test]
fn a_finished_task_is_told_in_our_words() {
    let events = recorded("launch-finish");
    let states: Vec<TaskState> = events
        .iter()
        .filter_map(|e| {
            if let Event::Update(s) = e {
                Some(s.state)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        states,
        [TaskState::Starting, TaskState::Running, TaskState::Finished]
    );
    let offer = events
        .iter()
        .find_map(|e| if let Event::Offers(o) = e { o.first() } else { None })
        .unwrap();
    assert_eq!(
        offer.resources,
        Resources {
            cpus: 2000,
            memory: 1024,
            disk: 2048,
            gpus: 0
        }
    );
    assert_eq!(offer.attributes.get("rack").map(String::as_str), Some("r1"));
    assert!(offer.address.starts_with("127.0.0.1:"), "{}", offer.address);
    assert!(matches!(events.first(), Some(Event::Subscribed { heartbeat, .. }) if heartbeat.0 == 15_000));
}

#[test]
fn planned_maintenance_is_told_by_offers_and_inverse_offers() {
    let events = recorded("maintenance");
    let asked: Vec<&InverseOffer> = events
        .iter()
        .filter_map(|e| {
            if let Event::InverseOffers(all) = e {
                Some(all)
            } else {
                None
            }
        })
        .flatten()
        .collect();
    let planned: Vec<(HostId, Maintenance)> = events
        .iter()
        .filter_map(|e| {
            if let Event::Offers(all) = e {
                Some(all)
            } else {
                None
            }
        })
        .flatten()
        .filter_map(|o| Some((o.host.clone(), o.maintenance?)))
        .collect();
    assert!(!asked.is_empty() && !planned.is_empty());
    for a in &asked {
        let Maintenance { from, until } = a.maintenance;
        assert!(from.0 > 1_500_000_000_000, "milliseconds of our time: {from:?}");
        assert!(until.is_none_or(|until| until > from));
        assert!(
            planned
                .iter()
                .any(|(host, m)| *host == a.host && *m == a.maintenance)
        );
    }
    assert!(events.iter().any(|e| matches!(e, Event::RescindInverse(_))));
}

#[test]
fn a_fault_domain_is_an_attribute_unless_the_agent_says_otherwise() {
    let name = |n: &str| n.to_owned();
    let domain = DomainInfo {
        fault_domain: Some(FaultDomain {
            region: RegionInfo { name: name("north") },
            zone: ZoneInfo { name: name("n1") },
        }),
    };
    let own = Attribute {
        name: name("zone"),
        r#type: value::Type::Text.into(),
        text: Some(value::Text { value: name("mine") }),
        ..Attribute::default()
    };
    let read = |attributes: Vec<Attribute>| {
        let offer = v1::Offer {
            domain: Some(domain.clone()),
            attributes,
            ..v1::Offer::default()
        };
        let wire = scheduler::Event {
            r#type: Some(scheduler::event::Type::Offers.into()),
            offers: Some(scheduler::event::Offers { offers: vec![offer] }),
            ..scheduler::Event::default()
        };
        let Some(Event::Offers(offers)) = event_from_wire(&wire).pop() else {
            panic!("offers");
        };
        let of = |n: &str| offers[0].attributes.get(n).cloned().unwrap_or_default();
        (of("region"), of("zone"))
    };
    assert_eq!(read(vec![]), (name("north"), name("n1")));
    assert_eq!(read(vec![own]), (name("north"), name("mine")));
}

#[test]
fn a_newer_subscription_is_told_apart_from_a_refusal() {
    let refused = |name: &str| -> Vec<Refusal> {
        let events = recorded(name);
        events
            .iter()
            .filter_map(|e| {
                if let Event::Refused { cause, .. } = e {
                    Some(*cause)
                } else {
                    None
                }
            })
            .collect()
    };
    assert_eq!(refused("framework-failover"), [Refusal::Superseded]);
    assert_eq!(refused("teardown"), [Refusal::Removed]);
    assert_eq!(refused("framework-disconnect"), [Refusal::Removed]);
    let others = refused("subscribe-errors");
    assert!(
        !others.is_empty() && others.iter().all(|r| *r == Refusal::Wrong),
        "{others:?}"
    );
}

#[test]
fn unreachable_tasks_and_reconciliations_are_told_apart() {
    let events = recorded("agent-unreachable");
    let statuses: Vec<_> = events
        .iter()
        .filter_map(|e| if let Event::Update(s) = e { Some(s) } else { None })
        .collect();
    assert!(
        statuses
            .iter()
            .any(|s| s.state == TaskState::Unreachable && s.uuid.is_none() && !s.reconciliation)
    );
    assert!(
        statuses
            .iter()
            .any(|s| s.state == TaskState::Unreachable && s.reconciliation)
    );
    assert!(statuses.iter().any(|s| s.reason == "AGENT_REREGISTERED"));
    assert!(events.iter().any(|e| matches!(
        e,
        Event::Failure {
            host: Some(_),
            executor: None
        }
    )));
}

#[test]
fn every_state_and_every_reason_of_mesos_has_a_meaning() {
    use crate::mesos::v1::TaskState;
    use crate::mesos::v1::task_status::Reason;
    use echelon_core_hosts::meaning::{REASONS, STATES, meaning};
    let reasons: Vec<Reason> = (0..1000).filter_map(|n| Reason::try_from(n).ok()).collect();
    let words: Vec<&str> = reasons
        .iter()
        .map(|r| &r.as_str_name()["REASON_".len()..])
        .collect();
    assert_eq!(words, REASONS.map(|m| m.word));
    let states: Vec<TaskState> = (0..1000).filter_map(|n| TaskState::try_from(n).ok()).collect();
    assert_eq!(states.len(), STATES.len());
    for state in states {
        let status = |reason: Option<Reason>| crate::mesos::v1::TaskStatus {
            state: state.into(),
            reason: reason.map(i32::from),
            ..Default::default()
        };
        let told = super::status_from_wire(&status(None));
        let meant = STATES.iter().find(|(s, _)| *s == told.state).unwrap().1;
        assert_eq!(meant.word, state.as_str_name());
        for reason in &reasons {
            let told = super::status_from_wire(&status(Some(*reason)));
            let expected = meaning(&told.reason).unwrap().code.or(meant.code);
            assert_eq!(Some(echelon_core_hosts::reason_of(&told).code), expected);
        }
    }
}

#[test]
fn the_source_of_a_status_is_read() {
    use crate::mesos::v1::task_status::Source;
    use echelon_core_model::platform::EndSource;
    let told = |source: Option<Source>| {
        let status = crate::mesos::v1::TaskStatus {
            source: source.map(i32::from),
            ..Default::default()
        };
        super::status_from_wire(&status).source
    };
    assert_eq!(told(Some(Source::Executor)), Some(EndSource::Executor));
    assert_eq!(told(Some(Source::Agent)), Some(EndSource::Agent));
    assert_eq!(told(Some(Source::Master)), Some(EndSource::Master));
    assert_eq!(told(None), None);
}

#[test]
fn what_its_agent_has_preempted_is_gone_in_whatever_word() {
    use crate::mesos::v1::TaskState;
    use crate::mesos::v1::task_status::Reason;
    let told = |state: TaskState, reason: Reason| {
        let status = crate::mesos::v1::TaskStatus {
            state: state.into(),
            reason: Some(reason.into()),
            ..Default::default()
        };
        super::status_from_wire(&status).state
    };
    use echelon_core_hosts::TaskState as Ours;
    assert_eq!(told(TaskState::TaskGone, Reason::ContainerPreempted), Ours::Gone);
    assert_eq!(told(TaskState::TaskLost, Reason::ContainerPreempted), Ours::Gone);
    assert_eq!(told(TaskState::TaskLost, Reason::AgentRemoved), Ours::Lost);
}
