//! The list of all agents: what a real master says of one, whose credential asks for it, and that nothing hangs on it.

use super::net::{Answer, Net};
use super::{Shard, config, kill, subscribed};
use crate::Credential;
use crate::agents::{Answers, read};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use echelon_core_hosts::{Agent, Call, Event, ListedSharing, QuotaUse};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::sharing::AgentState;
use echelon_core_model::{HostId, Kind, Resources, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A real master's agents: a call that was sent to a misspelt path subscribed to its operators' events, which begin with all of them.
fn recorded() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/recordings/http-errors.json.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let found = lines
        .filter(|l| l["path"] == "/api/v1/schedulers" && l["status"] == 200)
        .map(|l| BASE64_STANDARD.decode(l["answer_b64"].as_str().unwrap()).unwrap())
        .next()
        .unwrap();
    let record = found.splitn(2, |b| *b == b'\n').nth(1).unwrap();
    let event = serde_json::Deserializer::from_slice(record).into_iter::<Value>();
    let event = event.map(Result::unwrap).next().unwrap();
    json!({"type": "GET_AGENTS", "get_agents": event["subscribed"]["get_state"]["get_agents"]})
}

/// A list with nothing beside it.
pub fn alone(agents: String) -> Answers<String> {
    Answers {
        agents,
        quota: None,
        schedule: None,
    }
}

/// The agents of an answer, as a framework of a role sees them.
pub fn read_agents(answers: &Answers<String>, role: &str) -> Vec<Agent> {
    match read(answers, role).unwrap() {
        Event::Agents { agents, .. } => agents,
        other => panic!("{other:?}"),
    }
}

fn listed(answer: &Value, role: &str) -> Vec<Agent> {
    read_agents(&alone(answer.to_string()), role)
}

#[test]
fn what_a_real_master_lists_is_read() {
    let agents = listed(&recorded(), "echelon");
    let [agent] = &agents[..] else {
        panic!("{agents:?}")
    };
    assert!(agent.host.as_str().ends_with("-S0"));
    assert_eq!(
        (&*agent.hostname, &*agent.address),
        ("127.0.0.1", "127.0.0.1:20119")
    );
    let all = Resources {
        cpus: 2000,
        memory: 1024,
        disk: 2048,
        gpus: 0,
    };
    assert_eq!((agent.total, agent.state), (all, AgentState::Active));
    assert_eq!(agent.ports.to_string(), "31000-31010");
    let [used, offered] = [agent.others.used, agent.others.offered];
    assert_eq!([used, agent.of_role, agent.lent], [Resources::ZERO; 3]);
    assert_eq!(offered, all, "another framework holds an offer");
}

/// A kind with an amount, held by a role or reserved for one.
fn amount(name: &str, value: f64, more: Value) -> Value {
    let mut one = json!({"name": name, "type": "SCALAR", "scalar": {"value": value}});
    one.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    one
}

fn of(role: &str) -> Value {
    json!({"allocation_info": {"role": role}})
}

/// What a list tells of other frameworks.
fn sharing(answer: &Value, quota: Option<&Value>, role: &str) -> ListedSharing {
    let answers = Answers {
        quota: quota.map(Value::to_string),
        ..alone(answer.to_string())
    };
    match read(&answers, role).unwrap() {
        Event::Agents { sharing, .. } => sharing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn roles_and_quotas_are_told_beside_the_agents() {
    let mut answer = recorded();
    let agent = &mut answer["get_agents"]["agents"][0];
    agent["total_resources"] = json!([
        amount("cpus", 20.0, json!({})),
        amount(
            "cpus",
            3.0,
            json!({"reservations": [{"type": "STATIC", "role": "eng/db"}]})
        ),
        amount(
            "cpus",
            5.0,
            json!({"reservations": [{"type": "STATIC", "role": "eng/web"}]})
        ),
    ]);
    let mut kept = of("eng/db");
    kept["reservations"] = json!([{"type": "STATIC", "role": "eng/db"}]);
    agent["allocated_resources"] = json!([
        amount("cpus", 2.0, of("eng/web")),
        amount("cpus", 1.0, of("eng/db")),
        amount("cpus", 1.0, kept),
        amount("cpus", 4.0, of("engine")),
        amount("mem", 64.0, of("engine")),
    ]);
    agent["offered_resources"] = json!([
        amount("cpus", 0.5, of("eng/web")),
        amount("cpus", 0.25, of("eng/db")),
        amount("cpus", 0.125, of("*")),
    ]);
    let quota = json!({"type": "GET_QUOTA", "get_quota": {"status": {
        "infos": [{"role": "eng"}],
        "configs": [
            {"role": "eng", "limits": {"cpus": {"value": 9.5}, "ports": {"value": 1.0}}},
            {"role": "eng/web", "limits": {"mem": {"value": 100.0}}, "guarantees": {}},
            {"role": "engine", "limits": {"cpus": {"value": 1.0}}},
            {"role": "eng/web/x", "limits": {"cpus": {"value": 1.0}}},
        ]
    }}});
    let told = sharing(&answer, Some(&quota), "eng/web");
    let cpus = |role: &str| {
        let held = told.roles.get(role).copied().unwrap_or_default();
        [held.used.cpus, held.offered.cpus]
    };
    assert_eq!(told.role, "eng/web");
    assert_eq!(
        cpus("eng/db"),
        [1000, 250],
        "what is reserved for it we could never use"
    );
    assert_eq!(
        [cpus("engine"), cpus("*"), cpus("eng/web")],
        [[4000, 0], [0, 125], [0, 0]]
    );
    let limits: Vec<_> = told
        .limits
        .unwrap()
        .into_iter()
        .map(|l| (l.role, l.kind, l.limit, l.counted))
        .collect();
    // Used by both roles 4, offered to the other 0.25, and 2 that are reserved for it and not used.
    assert_eq!(
        limits,
        [
            ("eng".to_owned(), Kind::Cpus, 9500, 6250),
            ("eng/web".to_owned(), Kind::Memory, 100, 0),
        ]
    );
    for unread in [json!({}), json!({"get_quota": {}}), json!([])] {
        assert_eq!(sharing(&answer, Some(&unread), "eng").limits, None, "{unread}");
    }
    let none = json!({"get_quota": {"status": {}}});
    assert_eq!(sharing(&answer, Some(&none), "eng").limits, Some(vec![]));
    assert_eq!(sharing(&answer, None, "eng").limits, None);
}

#[test]
fn windows_of_maintenance_are_told_by_agent() {
    let answer = recorded();
    let planned = |schedule: Value| {
        let answers = Answers {
            schedule: Some(schedule.to_string()),
            ..alone(answer.to_string())
        };
        match read(&answers, "*").unwrap() {
            Event::Agents { planned, .. } => planned,
            other => panic!("{other:?}"),
        }
    };
    let schedule = |machines: Value| {
        json!({"get_maintenance_schedule": {"schedule": {"windows": [{
            "machine_ids": machines,
            "unavailability": {"start": {"nanoseconds": 7_000_000_000u64}, "duration": {"nanoseconds": 2_000_000_000u64}}
        }]}}})
    };
    let window = Maintenance {
        from: Timestamp(7000),
        until: Some(Timestamp(9000)),
    };
    for (machine, is_it) in [
        (json!({"hostname": "127.0.0.1", "ip": "127.0.0.1"}), true),
        (json!({"hostname": "127.0.0.1"}), true),
        (json!({"ip": "127.0.0.1"}), true),
        (json!({"hostname": "127.0.0.1", "ip": "127.0.0.2"}), false),
        (json!({"hostname": "other"}), false),
        (json!({}), false),
    ] {
        let told = planned(schedule(json!([machine.clone()]))).unwrap();
        let windows: Vec<Maintenance> = told.into_values().collect();
        let expected = if is_it { vec![window] } else { vec![] };
        assert_eq!(windows, expected, "{machine}");
    }
    let none = json!({"get_maintenance_schedule": {"schedule": {}}});
    assert_eq!(planned(none), Some(BTreeMap::new()));
    for unread in [json!({}), json!([]), json!({"get_maintenance_schedule": 1})] {
        assert_eq!(planned(unread), None, "not told is not cancelled");
    }
}

#[test]
fn what_operators_do_with_an_agent_is_told_apart() {
    let mut answer = recorded();
    let drain = |state: &str| json!({"state": state, "config": {"mark_gone": false}});
    for (active, deactivated, info, state) in [
        (true, false, Value::Null, AgentState::Active),
        (false, false, Value::Null, AgentState::Disconnected),
        (false, true, Value::Null, AgentState::Deactivated),
        (true, true, drain("DRAINING"), AgentState::Draining),
        (false, true, drain("DRAINED"), AgentState::Drained),
        (false, true, drain("A_NEWER_STATE"), AgentState::Draining),
    ] {
        let agent = &mut answer["get_agents"]["agents"][0];
        agent["active"] = json!(active);
        agent["deactivated"] = json!(deactivated);
        agent["drain_info"] = info;
        assert_eq!(listed(&answer, "*")[0].state, state);
    }
}

#[test]
fn what_is_taken_says_whose_it_is_by_its_role() {
    let mut answer = recorded();
    let cpus = |value: f64, more: Value| {
        let mut one = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": value}});
        one.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        one
    };
    let disk = |role: &str, kind: &str| {
        let labels = json!({"labels": [{"key": "echelon_volume", "value": "v"}]});
        let labels = if kind == "STATIC" { Value::Null } else { labels };
        json!({"name": "disk", "type": "SCALAR", "scalar": {"value": 100.0},
            "reservations": [{"type": kind, "role": role, "labels": labels}],
            "disk": {"persistence": {"id": "v"}, "volume": {"mode": "RW", "container_path": "v"}},
            "allocation_info": {"role": role}})
    };
    let agent = &mut answer["get_agents"]["agents"][0];
    let total = agent["total_resources"].as_array_mut().unwrap();
    total.push(disk("echelon", "DYNAMIC"));
    total.push(disk("echelon", "STATIC"));
    total.push(disk("web", "DYNAMIC"));
    total.push(cpus(
        8.0,
        json!({"reservations": [{"type": "STATIC", "role": "web"}]}),
    ));
    total.push(cpus(3.0, json!({"revocable": {}})));
    agent["allocated_resources"] = json!([
        cpus(0.5, json!({"allocation_info": {"role": "web"}})),
        cpus(0.25, json!({"allocation_info": {"role": "echelon"}})),
        cpus(0.125, json!({})),
        cpus(
            8.0,
            json!({"reservations": [{"type": "STATIC", "role": "web"}], "allocation_info": {"role": "web"}})
        ),
        cpus(1.0, json!({"revocable": {}, "allocation_info": {"role": "web"}})),
        cpus(
            1.0,
            json!({"revocable": {}, "allocation_info": {"role": "echelon"}})
        ),
        disk("echelon", "DYNAMIC"),
    ]);
    agent["drain_info"] = json!({"state": "DRAINING"});
    agent["agent_info"]["domain"] = json!({"fault_domain": {"region": {"name": "r"}, "zone": {"name": "z"}}});
    agent["agent_info"]["attributes"] = json!([
        {"name": "rack", "type": "TEXT", "text": {"value": "r1"}},
        {"name": "level", "type": "SCALAR", "scalar": {"value": 3.0}}
    ]);
    answer["get_agents"]["recovered_agents"] = json!([{"hostname": "h", "id": {"value": "S9"}}]);
    let agent = &listed(&answer, "echelon")[0];
    let of = |cpus, disk| Resources {
        cpus,
        disk,
        ..Resources::ZERO
    };
    assert_eq!([agent.total.cpus, agent.total.disk], [2000, 2148]);
    assert_eq!([agent.others.used, agent.of_role], [of(625, 0), of(250, 100)]);
    assert_eq!(agent.lent, of(2000, 0), "less what another role holds of it");
    assert_eq!(agent.state, AgentState::Draining);
    let attributes: Vec<_> = agent.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(attributes, ["level=3", "rack=r1", "region=r", "zone=z"]);
    let Event::Agents { awaited, .. } = read(&alone(answer.to_string()), "*").unwrap() else {
        panic!()
    };
    assert_eq!(awaited.len(), 1);
    for broken in ["", "[]", "{}", r#"{"get_agents":{"agents":[{}]}}"#] {
        assert!(read(&alone(broken.to_owned()), "*").is_err(), "{broken}");
    }
}

/// An agent that keeps room for a role: it counts as ours, whoever of the role or below it holds it.
#[test]
fn room_that_an_agent_reserves_for_our_role_counts() {
    let mut answer = recorded();
    let kept = |role: &str, holder: &str| {
        let mut more = json!({"reservations": [{"type": "STATIC", "role": role}]});
        if !holder.is_empty() {
            more["allocation_info"] = json!({"role": holder});
        }
        more
    };
    let agent = &mut answer["get_agents"]["agents"][0];
    agent["total_resources"] = json!([
        amount("cpus", 2.0, json!({})),
        amount("disk", 100.0, json!({})),
        amount("cpus", 6.0, kept("eng", "")),
        amount("disk", 900.0, kept("eng", "")),
        amount("cpus", 1.0, kept("eng/web", "")),
        amount("cpus", 4.0, kept("eng/db", "")),
        {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 80, "end": 81}]},
            "reservations": [{"type": "STATIC", "role": "eng"}]},
    ]);
    agent["allocated_resources"] = json!([
        amount("cpus", 1.0, kept("eng", "eng/db")),
        amount("disk", 50.0, kept("eng", "eng/db")),
        amount("disk", 50.0, of("eng/db")),
        amount("cpus", 4.0, kept("eng/db", "eng/db")),
        amount("cpus", 2.0, kept("eng", "eng/web")),
    ]);
    agent["offered_resources"] = json!([
        amount("cpus", 3.0, kept("eng", "eng/web")),
        amount("disk", 850.0, kept("eng", "eng/web")),
    ]);
    let agent = &listed(&answer, "eng/web")[0];
    let of = |cpus, disk| Resources {
        cpus,
        disk,
        ..Resources::ZERO
    };
    assert_eq!(agent.total, of(9000, 900), "of the disk the larger part");
    assert_eq!(agent.disk.as_ref().unwrap().0[0].role, "eng");
    assert_eq!(agent.reserved, of(7000, 900));
    assert_eq!(agent.ports.to_string(), "80-81");
    assert_eq!(
        (agent.others.used, agent.others.offered),
        (of(1000, 50), Resources::ZERO)
    );
    assert_eq!(
        (agent.of_role, agent.offered_of_role),
        (of(2000, 0), of(3000, 850))
    );
    let told = sharing(&answer, None, "eng/web");
    assert_eq!(told.roles["eng/db"].used, of(1000, 50));
}

/// A subscribed shard whose operator calls carry a credential of their own.
async fn operating(net: &Net) -> (Shard, tokio::sync::mpsc::UnboundedSender<bytes::Bytes>) {
    let stream = net.stream("m:5050", subscribed());
    let credential = |principal: &str| Credential {
        principal: principal.to_owned(),
        secret: "s".to_owned(),
    };
    let mut both = config("m");
    both.credential = Some(credential("framework"));
    both.operator = Some(credential("operator"));
    let mut shard = Shard::over(net, both);
    shard.subscribe().await;
    shard.hear_subscribed().await;
    (shard, stream)
}

/// Asks for the agents: how many are listed, with what is told beside them.
async fn ask(
    shard: &mut Shard,
) -> (
    usize,
    Option<Vec<QuotaUse>>,
    Option<BTreeMap<HostId, Maintenance>>,
) {
    shard.say(Call::ListAgents).await;
    match shard.hear().await {
        Event::Agents {
            agents,
            sharing,
            planned,
            ..
        } => (agents.len(), sharing.limits, planned),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn agents_are_asked_for_as_the_operator_and_everything_else_as_the_framework() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = operating(&net).await;
    let answer = recorded().to_string().into_bytes();
    net.answer(
        "m:5050",
        Answer::Body(vec![("content-type", "application/json")], answer),
    );
    let quota = json!({"get_quota": {"status": {"configs": []}}});
    let json = vec![("content-type", "application/json")];
    net.answer(
        "m:5050",
        Answer::Body(json.clone(), quota.to_string().into_bytes()),
    );
    let schedule = json!({"get_maintenance_schedule": {"schedule": {}}});
    net.answer("m:5050", Answer::Body(json, schedule.to_string().into_bytes()));
    assert_eq!(ask(&mut shard).await, (1, Some(vec![]), Some(BTreeMap::new())));
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard.say(kill("t")).await;
    shard.hear_failed().await;
    let seen = net.look(|s| (s.path.clone(), s.header("authorization").to_owned()));
    let basic = |who: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{who}:s")));
    let api = "/api/v1/scheduler".to_owned();
    let (framework, operator) = (basic("framework"), basic("operator"));
    assert_eq!(
        seen,
        [
            (api.clone(), framework.clone()),
            ("/api/v1".to_owned(), operator.clone()),
            ("/api/v1".to_owned(), operator.clone()),
            ("/api/v1".to_owned(), operator),
            (api, framework)
        ]
    );
}

#[tokio::test]
async fn agents_are_told_also_where_nothing_is_beside_them() {
    for refused in [
        || Answer::Text(403, "no"),
        || Answer::Text(501, "no"),
        || Answer::Cut,
    ] {
        let net = Net::with(&["m:5050"]);
        let (mut shard, _stream) = operating(&net).await;
        let answer = recorded().to_string().into_bytes();
        net.answer("m:5050", Answer::Body(vec![], answer));
        net.answer("m:5050", refused());
        net.answer("m:5050", refused());
        assert_eq!(ask(&mut shard).await, (1, None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_late_or_broken_costs_no_subscription_and_no_call() {
    let net = Net::with(&["m:5050"]);
    let (mut shard, _stream) = operating(&net).await;
    for status in [401, 403, 404, 501] {
        net.answer("m:5050", Answer::Text(status, "no"));
        shard.say(Call::ListAgents).await;
        let Event::Unlisted { why } = shard.hear().await else {
            panic!()
        };
        assert_eq!(why, format!("m:5050: {status} no"));
    }
    let garbage = Answer::Body(vec![], b"{".to_vec());
    for answer in [
        Answer::Text(500, "oh"),
        Answer::Text(503, "later"),
        garbage,
        Answer::Cut,
    ] {
        net.answer("m:5050", answer);
        shard.say(Call::ListAgents).await;
        assert_eq!(shard.hear_failed().await.0, Call::ListAgents);
    }
    net.answer("m:5050", Answer::Hang);
    shard.say(Call::ListAgents).await;
    let before = net.look(|_| ()).len();
    while net.look(|_| ()).len() == before {
        tokio::task::yield_now().await;
    }
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard.say(kill("t")).await;
    assert_eq!(
        shard.hear_failed().await,
        (kill("t"), true),
        "it overtakes the list"
    );
}
