//! Every expression of every dashboard, evaluated on a real Prometheus that scrapes a working Echelon: each must give at
//! least one number.
#![cfg(test)]

use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{Role, command};
use echelon_tests::servers::Prometheus;
use echelon_tests::work::WorkFolder;
use std::path::{Path, PathBuf};

const JOB: &str = "name: probe\ninstances: 4\ncommand: echo hello\nresources: {cpus: 0.1, memory: 32MiB}\n";

fn dashboards() -> Vec<(PathBuf, serde_json::Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path, json)
    };
    files
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(read)
        .collect()
}

fn expressions(dashboard: &serde_json::Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_expression_of_every_dashboard_gives_a_number() {
    let work = WorkFolder::new("dashboards").unwrap();
    let net = LoopbackNet::take().unwrap();
    let listen = net.socket(1, 7070).to_string();
    let data = work.path().join("data");
    let standalone = Role::new("standalone")
        .args([
            "standalone",
            "--listen",
            &listen,
            "--data-dir",
            data.to_str().unwrap(),
        ])
        .ready_at(listen.parse::<std::net::SocketAddr>().unwrap());
    let _running = standalone.start(&work).unwrap();
    let job = work.path().join("job.yaml");
    std::fs::write(&job, JOB).unwrap();
    // It does not start with rules that it cannot read.
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/alerts.yaml");
    let prometheus = Prometheus::start(&[("echelon", &listen)], &[&rules]).unwrap();
    // Rates need two scrapes before and after something happened.
    prometheus.query_until_answered("up == 1").unwrap();
    let submitted = command()
        .unwrap()
        .args(["--address", &format!("http://{listen}"), "job", "run", "--wait"])
        .arg(&job)
        .status()
        .unwrap();
    assert!(submitted.success());
    let all = dashboards();
    assert!(!all.is_empty());
    let mut n_expressions = 0;
    for (path, dashboard) in &all {
        for expression in expressions(dashboard) {
            let samples = prometheus.query_until_answered(&expression);
            assert!(
                samples.is_ok_and(|s| !s.is_empty()),
                "{}: {expression}",
                path.display()
            );
            n_expressions += 1;
        }
    }
    println!("{} dashboards, {n_expressions} expressions evaluated", all.len());
}

/// Each alert about clusters fires, and stays quiet, as its own tests say.
#[test]
fn alerts_fire_and_stay_quiet() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/alerts_test.yaml");
    let ran = std::process::Command::new("promtool")
        .args(["test", "rules"])
        .arg(tests)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(ran.status.success(), "{}", said.concat());
}
