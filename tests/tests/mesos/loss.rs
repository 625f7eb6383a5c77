//! A real cluster loses its masters, or some of its agents: each sign tells that in time, work goes to the other
//! cluster, and what runs is not touched.

use crate::pair::{self, DETECTED, Pair, RETURNED, at, cluster, row, until_health};
use crate::{Federation, Marks};
use anyhow::Result;
use echelon_tests::server::Server;
use echelon_tests::servers::MesosMember;
use echelon_tests::wait;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Ten seconds after the cluster is known to be without Mesos, what has not begun leaves; the rest is for a busy
/// machine.
const MOVED: Duration = Duration::from_secs(90);
const PATIENCE: Duration = Duration::from_secs(180);

/// A job of two short instances that may run anywhere.
fn short(marks: &Marks, name: &str) -> Value {
    let mut job = marks.batch(name, 2, 0);
    job["spec"]["clusters"] = json!({});
    job
}

fn ends_at_west(federation: &Federation, jobs: &[String]) {
    for job in jobs {
        federation
            .wait_for_within(job, "JOB_STATE_SUCCEEDED", MOVED)
            .unwrap();
        assert_eq!(at(federation, job), [0, 2], "{job}");
    }
}

/// The line of a cluster in the list of all.
fn listed(federation: &Federation, name: &str) -> String {
    let all = federation.shown(&["cluster", "list"]).unwrap();
    let line = all.lines().find(|line| line.starts_with(name));
    line.unwrap_or(&all).to_owned()
}

fn work_goes_on_elsewhere(
    break_master: impl Fn(&mut Server) -> Result<()>,
    mend: impl Fn(&mut Server) -> Result<()>,
) {
    let pair = Pair::start();
    let (federation, marks) = (&pair.federation, &pair.marks);
    let service = federation.submit(&marks.service("service", 4)).unwrap();
    let before = federation.all_running(&service, 4).unwrap();
    assert_eq!(at(federation, &service), [2, 2]);

    for master in pair.east.masters() {
        pair.east.hold(master, &break_master).unwrap();
    }
    // Nothing can be known of it yet.
    let submit = |name: String| federation.submit(&short(marks, &name)).unwrap();
    let early: Vec<String> = (0..4).map(|n| submit(format!("early-{n}"))).collect();
    until_health(federation, "east", "HEALTH_WITHOUT_MESOS", DETECTED);
    let (east, west) = (listed(federation, "east"), listed(federation, "west"));
    assert!(
        east.contains("without-mesos") && west.contains("healthy"),
        "{east}\n{west}"
    );
    let shown = federation.shown(&["cluster", "get", "east"]).unwrap();
    assert!(shown.contains("health:    without-mesos for"), "{shown}");
    let late: Vec<String> = (0..6).map(|n| submit(format!("late-{n}"))).collect();
    ends_at_west(federation, &late);
    ends_at_west(federation, &early);
    let shown = federation.shown(&["job", "get", "service"]).unwrap();
    assert!(shown.contains("2 at east unconfirmed for"), "{shown}");

    for master in pair.east.masters() {
        pair.east.release(master, &mend).unwrap();
    }
    until_health(federation, "east", "HEALTH_HEALTHY", RETURNED);
    assert_eq!(federation.all_running(&service, 4).unwrap(), before);
    assert_eq!(
        marks.begun("service"),
        4,
        "nothing of the service was started again"
    );
    let all = marks.done("early") + marks.done("late");
    assert_eq!(all, 20, "each instance is done once");
    assert_eq!(marks.twice(), Vec::<String>::new());
    // It takes work again.
    let mut back = marks.batch("back", 2, 0);
    back["spec"]["clusters"] = json!({"only": ["east"]});
    let back = federation.submit(&back).unwrap();
    federation.wait_for(&back, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(marks.done("back"), 2);
}

#[test]
fn work_goes_on_elsewhere_while_all_masters_are_dead() {
    work_goes_on_elsewhere(Server::kill, Server::start_again);
}

#[test]
fn work_goes_on_elsewhere_while_all_masters_hang() {
    // One that finds its session ended when it goes on ends by itself, and is started again.
    work_goes_on_elsewhere(Server::pause, Server::resume);
}

#[test]
fn killed_agents_are_shown_as_soon_as_mesos_reports_them() {
    let n_agents = 4;
    // Mesos waits 75 s by its defaults. It does not answer an agent that does not answer for 10 s.
    let pings = ["--agent_ping_timeout=2secs", "--max_agent_ping_timeouts=5"];
    let mesos = cluster(n_agents, &pings);
    let federation = Federation::start_over(&[("east", Some(mesos.zk()))]).unwrap();
    let marks = Marks::new(&federation).unwrap();
    until_health(&federation, "east", "HEALTH_HEALTHY", RETURNED);
    let service = federation.submit(&marks.service("service", 8)).unwrap();
    federation.all_running(&service, 8).unwrap();

    let killed = [0, 1].map(MesosMember::Agent);
    for agent in killed {
        mesos.hold(agent, Server::kill).unwrap();
    }
    wait::until("Mesos to report both", PATIENCE, || {
        let metrics = pair::of_master(&mesos, "/metrics/snapshot")?;
        let unreachable = metrics["master/slaves_unreachable"].as_f64();
        Ok((unreachable >= Some(2.0)).then_some(()))
    })
    .unwrap();
    let reported = Instant::now();
    let mut last = Value::Null;
    let waited = wait::until("the cluster to be degraded by them", DETECTED, || {
        last = row(&federation, "east")?;
        let mut causes = last["healthCauses"].as_array().into_iter().flatten();
        let is_named = causes.any(|cause| cause["code"] == "agents-unreachable" && cause["count"] == 2);
        Ok((last["health"] == "HEALTH_DEGRADED" && is_named).then_some(()))
    });
    assert!(waited.is_ok(), "{last:#}");
    eprintln!("degraded {:.1} s after Mesos", reported.elapsed().as_secs_f64());
    let hosts = wait::until("both hosts to be out of reach", DETECTED, || {
        let (hosts, _) = federation.command(&["host", "list"])?;
        let all = hosts.as_array().cloned().unwrap_or_default();
        let away = all.iter().filter(|host| host["reachable"] != true);
        let mut names: Vec<String> = away
            .filter_map(|host| host["hostname"].as_str())
            .map(str::to_owned)
            .collect();
        names.sort();
        Ok((names.len() == 2).then_some(names))
    });
    let mut expected = killed.map(|agent| mesos.host(agent).unwrap());
    expected.sort();
    assert_eq!(hosts.unwrap(), expected);

    for agent in killed {
        mesos.release(agent, Server::start_again).unwrap();
    }
    mesos.wait_for_agents(n_agents).unwrap();
    until_health(&federation, "east", "HEALTH_HEALTHY", RETURNED);
    federation.all_running(&service, 8).unwrap();
    assert_eq!(marks.begun("service"), 8, "the tasks of both agents lived on");
    assert_eq!(marks.twice(), Vec::<String>::new());
}
