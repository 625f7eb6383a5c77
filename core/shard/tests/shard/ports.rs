//! Ports: chosen with the host, stored with the intent, told to the run, free after its end.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, Event as Told, TaskState, TaskStatus};
use echelon_core_model::runtime::{PortSpec, Protocol, Visibility};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{HostId, PortSet, ReasonCode, RunState};
use echelon_core_shard::Event;
use echelon_core_testkit::build::JobBuilder;

fn port(name: &str, fixed: Option<u16>) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        fixed,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    }
}

fn web(instances: u32, ports: &[PortSpec]) -> JobSpec {
    JobBuilder::service("web", instances)
        .runtime(|r| r.ports = ports.to_vec())
        .build()
}

/// A world in which each host has the ports 80 and 31000 to 31003.
fn world() -> World {
    let mut w = World::new();
    let mut ports = PortSet::new();
    ports.insert(80, 80);
    ports.insert(31_000, 31_003);
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    w.cluster.ports = hosts.into_iter().map(|h| (h, ports.clone())).collect();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w
}

fn stored_ports(w: &World, n: u32) -> Vec<String> {
    let run = w.stored(n).and_then(|r| r.run).unwrap();
    run.ports
        .iter()
        .map(|p| format!("{}={}", p.name, p.number))
        .collect()
}

#[test]
fn a_run_gets_its_ports_and_they_are_stored_before_it_is_launched() {
    let mut w = world();
    w.store_job(&web(1, &[port("http", None), port("admin", Some(80))]));
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.state(0), RunState::Running);
    assert_eq!(stored_ports(&w, 0), ["http=31000", "admin=80"]);
    let t = &w.cluster.tasks[&task(0, 1, 1)];
    assert_eq!(t.ports, [31_000, 80]);
    let of = |name: &str| t.env.get(name).map(String::as_str);
    assert_eq!(
        (of("PORT"), of("PORT_HTTP"), of("PORT_ADMIN")),
        (Some("31000"), Some("31000"), Some("80"))
    );
}

#[test]
fn tasks_on_a_host_never_share_a_port_and_the_next_leader_knows() {
    let mut w = world();
    let hosts = u32::try_from(w.cluster.hosts.len()).unwrap();
    w.store_job(&web(2 * hosts, &[port("http", None)]));
    w.order(&[range(0, 2 * hosts - 1)], u64::from(hosts));
    w.run(seconds(2));
    w.restart();
    w.connect();
    w.order(&[range(0, 2 * hosts - 1)], u64::from(2 * hosts));
    w.run(seconds(5));
    assert_eq!(
        w.states(2 * hosts),
        vec![RunState::Running; usize::try_from(2 * hosts).unwrap()]
    );
    let mut all: Vec<(HostId, u16)> = w
        .cluster
        .tasks
        .values()
        .map(|t| (t.host.clone(), t.ports[0]))
        .collect();
    all.sort();
    let n = all.len();
    all.dedup();
    assert_eq!((all.len(), n), (n, usize::try_from(2 * hosts).unwrap()));
    for n in 0..2 * hosts {
        let given = w.cluster.tasks[&task(n, 1, 1)].ports[0];
        assert_eq!(stored_ports(&w, n), [format!("http={given}")]);
    }
}

#[test]
fn a_port_that_no_host_has_left_is_the_reason_to_wait_until_one_is_free_again() {
    let mut w = world();
    let hosts = u32::try_from(w.cluster.hosts.len()).unwrap();
    w.store_job(&web(hosts + 1, &[port("http", Some(80))]));
    w.order(&[range(0, hosts)], u64::from(hosts + 1));
    w.run(seconds(2));
    let mut states = w.states(hosts + 1);
    states.sort();
    assert_eq!(states[0], RunState::Pending);
    assert!(states[1..].iter().all(|s| *s == RunState::Running));
    let waiting = w.slice(1).unwrap().waiting;
    assert!(
        waiting.iter().any(|x| x.0.code == ReasonCode::HostPorts),
        "{waiting:?}"
    );
    let told = waiting.iter().find_map(|x| x.0.detail.clone()).unwrap();
    assert!(told.contains("needs port 80"), "{told}");
    let ended = w.cluster.tasks.keys().next().unwrap().clone();
    w.cluster.set(&ended, TaskState::Finished);
    w.cluster.offer();
    w.run(seconds(5));
    let running = w
        .states(hosts + 1)
        .into_iter()
        .filter(|s| *s == RunState::Running);
    assert_eq!(running.count(), usize::try_from(hosts).unwrap());
}

#[test]
fn health_and_readiness_are_stored_and_bad_health_counts_as_failure() {
    let mut w = world();
    w.store_job(&web(1, &[]));
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let id = task(0, 1, 1);
    let host = w.cluster.tasks[&id].host.clone();
    let mut says = |state, healthy, ready| {
        let status = TaskStatus {
            healthy,
            ready,
            ..crate::cluster::status(&id, state, Some(host.clone()))
        };
        w.step(Event::Cluster(Told::Update(status)));
        w.run(seconds(1));
        let record = w.stored(0).unwrap();
        let run = record.run.unwrap();
        (run.healthy, run.ready, run.reason.code, record.attempts)
    };
    assert_eq!(
        says(TaskState::Running, Some(true), Some(false)),
        (Some(true), Some(false), ReasonCode::Running, 0)
    );
    assert_eq!(
        says(TaskState::Running, None, Some(true)),
        (Some(true), Some(true), ReasonCode::Running, 0)
    );
    w.cluster.tasks.clear();
    w.cluster.starts = false;
    let status = TaskStatus {
        healthy: Some(false),
        ..crate::cluster::status(&id, TaskState::Killed, Some(host))
    };
    w.step(Event::Cluster(Told::Update(status)));
    let record = w.record(0).unwrap();
    let run = record.run.unwrap();
    assert_eq!(
        (run.state, run.reason.code, run.healthy, record.attempts),
        (RunState::Failed, ReasonCode::Unhealthy, Some(false), 1),
        "its executor killed it, nobody of us"
    );
    assert!(!w.calls.iter().any(|c| matches!(c, Call::Kill { .. })));
}
