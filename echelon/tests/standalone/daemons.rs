//! A daemon is on each host of each cluster, and on one that joins later; with it gone from a host nothing else of it moves.

use super::{Standalone, example};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Hosts on which the daemon runs, once there are so many.
fn hosts(standalone: &Standalone, n: usize) -> BTreeSet<String> {
    let deadline = Instant::now() + Duration::from_secs(150);
    loop {
        let listed = standalone.instances("lookout");
        let running = listed.iter().filter(|i| i["state"] == "running");
        let hosts: Vec<String> = running.map(|i| i["run"]["hostname"].to_string()).collect();
        let different: BTreeSet<String> = hosts.iter().cloned().collect();
        assert_eq!(different.len(), hosts.len(), "two on one host: {hosts:?}");
        if different.len() == n && listed.len() == n {
            return different;
        }
        assert!(Instant::now() < deadline, "{listed:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asks the simulated master of a cluster for a fault.
fn ask(standalone: &Standalone, cluster: &str, fault: &str) {
    let told = standalone.printed(&["cluster", "get", cluster, "-o", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let master = told["mesos_address"].as_str().unwrap_or_else(|| panic!("{told}"));
    let address = master.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /sim/v1/faults HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{fault}",
        fault.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
}

fn clusters(standalone: &Standalone) -> Vec<String> {
    let listed = standalone.printed(&["cluster", "list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let listed = listed.get("clusters").unwrap_or(&listed).clone();
    let names = listed.as_array().unwrap().iter();
    names
        .map(|c| {
            c["display_name"]
                .as_str()
                .unwrap_or_else(|| panic!("{c}"))
                .to_owned()
        })
        .collect()
}

#[test]
fn a_daemon_is_on_every_host_and_on_one_that_joins_later() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("daemon"), "--wait"]);
    let listed = standalone.printed(&["host", "list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let n = listed.get("hosts").unwrap_or(&listed).as_array().unwrap().len();
    let before = hosts(&standalone, n);
    let cluster = clusters(&standalone).remove(0);
    ask(
        &standalone,
        &cluster,
        r#"{"fault": "agent_joined", "hostname": "late-host"}"#,
    );
    let after = hosts(&standalone, n + 1);
    assert!(after.is_superset(&before));
    ask(
        &standalone,
        &cluster,
        r#"{"fault": "agent_lost", "agent": "late-host"}"#,
    );
    let refused = standalone.echelon(&["job", "scale", "lookout", "3"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("on each host"), "{why}");
    // Its tasks would outlive the test.
    standalone.printed(&["job", "delete", "lookout"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while standalone
        .instances("lookout")
        .iter()
        .any(|i| i["state"] == "running")
    {
        assert!(Instant::now() < deadline, "it runs on");
        std::thread::sleep(Duration::from_millis(100));
    }
}
