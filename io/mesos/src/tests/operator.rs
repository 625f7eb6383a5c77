//! What a real master answers to operators, from recordings: reservations, quotas, maintenance, and what is
//! done with agents.

use super::agents::{alone, read_agents};
use crate::agents::{Answers, read};
use crate::flags;
use echelon_core_hosts::{Agent, Event, QuotaUse};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::sharing::AgentState;
use echelon_core_model::{Kind, Resources, Span, Timestamp};
use std::collections::BTreeMap;

fn recorded(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recordings/operator");
    std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap()
}

/// The only agent of a recording.
fn agent(name: &str) -> Agent {
    let mut agents = read_agents(&alone(recorded(name)), "echelon");
    assert_eq!(agents.len(), 1, "{name}");
    agents.remove(0)
}

#[test]
fn what_an_agent_reserves_for_our_role_is_read() {
    let agent_of = agent("agent-with-reservations");
    let of = |cpus, memory, disk| Resources {
        cpus,
        memory,
        disk,
        gpus: 0,
    };
    assert_eq!(agent_of.total, of(8000, 2048, 1000));
    assert_eq!(agent_of.reserved, of(6000, 1024, 0));
    assert_eq!(
        agent_of.of_role,
        of(500, 64, 0),
        "a task of our role holds reserved room"
    );
    assert_eq!(agent_of.others.used, Resources::ZERO);
    assert_eq!(agent_of.ports.to_string(), "31000-31099,32000-32009");
    assert_eq!(agent_of.disk, None, "the larger part is not reserved");
    assert_eq!(
        agent("agent-with-volume").total.disk,
        1000,
        "beside 500 that are reserved"
    );
}

#[test]
fn what_operators_did_with_an_agent_is_read() {
    for (name, state) in [
        ("agent-with-reservations", AgentState::Active),
        ("agent-deactivated", AgentState::Deactivated),
        ("agent-draining", AgentState::Draining),
        ("agent-drained", AgentState::Drained),
        ("agent-disconnected", AgentState::Disconnected),
    ] {
        assert_eq!(agent(name).state, state, "{name}");
    }
}

#[test]
fn quotas_and_windows_of_maintenance_are_read_as_they_are_told() {
    let told = |quota: &str, schedule: &str| {
        let answers = Answers {
            agents: recorded("agent-with-reservations"),
            quota: Some(recorded(quota)),
            schedule: Some(recorded(schedule)),
        };
        match read(&answers, "echelon").unwrap() {
            Event::Agents { sharing, planned, .. } => (sharing.limits.unwrap(), planned.unwrap()),
            other => panic!("{other:?}"),
        }
    };
    let limit = QuotaUse {
        role: "echelon".to_owned(),
        kind: Kind::Cpus,
        limit: 4000,
        counted: 500,
    };
    let window = Maintenance {
        from: Timestamp(1_796_127_719_000),
        until: Some(Timestamp(1_796_134_919_000)),
    };
    let (limits, planned) = told("quota", "schedule");
    assert_eq!(limits, std::slice::from_ref(&limit));
    assert_eq!(planned.into_values().collect::<Vec<_>>(), [window]);
    let (limits, planned) = told("quota-with-guarantee", "schedule-cleared");
    assert_eq!((limits, planned), (vec![limit], BTreeMap::new()));
    assert_eq!(told("quota-cleared", "schedule-cleared").0, []);
}

#[test]
fn the_times_of_an_agents_executors_are_read_from_its_flags() {
    let times = AgentTimes {
        recovery: Some(Span::minutes(90)),
        shutdown: Some(Span::millis(1500)),
    };
    assert_eq!(flags::read(recorded("agent-flags").as_bytes()), Ok(times));
}
