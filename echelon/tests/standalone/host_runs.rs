//! What runs on a host, over all jobs, and what of a cluster is unreachable, as commands show it.

use super::{Standalone, work};

const JOB: &str = "pool: /default\nkind: service\ninstances: 3\nclusters: {spread: even}\ncommand: exec sleep 1000\n\
                   resources: {cpus: 0.1, memory: 32MiB}\n";

#[test]
fn hosts_show_what_runs_there_over_all_jobs() {
    let folder = work();
    let standalone = Standalone::start(folder.path());
    for name in ["one", "two"] {
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, format!("name: {name}\n{JOB}")).unwrap();
        standalone.printed(&["job", "run", file.to_str().unwrap()]);
    }
    let mut running: Vec<String> = ["one", "two"]
        .iter()
        .flat_map(|name| standalone.running(name, 3))
        .collect();
    running.sort();

    let hosts = standalone.printed(&["host", "list", "-o", "name"]);
    let mut listed = Vec::new();
    for host in hosts.lines() {
        let runs = standalone.printed(&["job", "instances", "--host", host, "-o", "json"]);
        let runs: Vec<serde_json::Value> = serde_json::from_str(&runs).unwrap();
        let shown = standalone.printed(&["host", "get", host]);
        for run in &runs {
            let job = run["job"].as_str().unwrap();
            assert!(["one", "two"].contains(&job), "{run}");
            assert!(shown.contains(job) && shown.contains("running"), "{shown}");
            listed.push(run["run"]["task_id"].to_string());
        }
        if runs.is_empty() {
            assert!(shown.contains("runs: nothing"), "{shown}");
        }
        if runs.len() > 1 {
            let cut = standalone.echelon(&["job", "instances", "--host", host, "--limit", "1"]);
            let said = String::from_utf8_lossy(&cut.stderr);
            assert!(said.contains("there are more"), "{said}");
        }
    }
    listed.sort();
    assert_eq!(listed, running, "each running task is on one host");

    let cluster = standalone.printed(&["cluster", "get", "east"]);
    for words in ["unreachable hosts: none", "unreachable instances: nothing"] {
        assert!(cluster.contains(words), "{cluster}");
    }
    let both = standalone.echelon(&["job", "instances", "one", "--host", "east/h"]);
    assert_eq!(both.status.code(), Some(2));
    let neither = standalone.echelon(&["job", "instances"]);
    assert_eq!(neither.status.code(), Some(2));
    for name in ["one", "two"] {
        standalone.printed(&["job", "stop", name, "--wait"]);
    }
}
