//! The life of a cluster by an operator's commands: its work leaves, it is removed, and a cluster of its name is added
//! again, on the same Mesos.

use crate::federation::Federation;
use crate::marks::Marks;
use anyhow::{Context, Result};
use echelon_tests::wait;
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
/// What a service instance does until it is asked to end.
const UNTIL_ASKED: &str = "trap 'rmdir \"$me.lock\"; exit 0' TERM; while :; do sleep 0.1; done";

fn named(federation: &Federation, id: &str) -> Result<Value> {
    federation.get(&format!("clusters/{id}"))
}

fn until_healthy(federation: &Federation, ids: &[&str]) {
    for id in ids {
        let mut last = Value::Null;
        let waited = wait::until(&format!("{id} to be healthy"), PATIENCE, || {
            last = named(federation, id)?;
            Ok((last["health"] == "HEALTH_HEALTHY").then_some(()))
        });
        waited.with_context(|| format!("{last:#}")).unwrap();
    }
}

/// How many instances of a job are at each of two clusters.
fn at(federation: &Federation, job: &str) -> [usize; 2] {
    let listed = federation.get(&format!("{job}/instances")).unwrap();
    let all = listed["instances"].as_array().cloned().unwrap_or_default();
    ["east", "west"].map(|name| all.iter().filter(|instance| instance["cluster"] == name).count())
}

#[test]
fn a_cluster_is_drained_removed_and_added_again() {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();
    until_healthy(&federation, &["east", "west"]);
    let service = marks.job("service", ("JOB_KIND_SERVICE", 6), UNTIL_ASKED);
    let service = federation.submit(&service).unwrap();
    federation.all_running(&service, 6).unwrap();
    assert_eq!(at(&federation, &service), [3, 3]);
    let ended = federation.submit(&marks.batch("ended", 4, 0)).unwrap();
    federation.wait_for(&ended, "JOB_STATE_SUCCEEDED").unwrap();
    // Half of it has ended at each cluster while the other half goes on.
    let mixed = "trap 'rmdir \"$me.lock\"; exit 1' TERM; n=0; case $me in *[01]) n=400;; esac; \
        while [ $n -lt 400 ]; do sleep 0.1; n=$((n+1)); done; rmdir \"$me.lock\"; echo done >> \"$me.done\"";
    let mixed = federation
        .submit(&marks.job("mixed", ("JOB_KIND_BATCH", 4), mixed))
        .unwrap();
    federation.all_begun(&mixed, 4).unwrap();

    let (plan, _) = federation
        .command(&["cluster", "drain", "west", "--plan"])
        .unwrap();
    let groups = plan["work"]["groups"].as_array().unwrap();
    let moves = groups.iter().find(|group| group["job"] == "service");
    let moves = moves.with_context(|| format!("{plan:#}")).unwrap();
    assert_eq!(
        (&moves["departure"], &moves["instances"], &moves["movable"]),
        (&json!("moves"), &json!(3), &json!(3)),
        "{plan:#}"
    );
    let refused = federation.command(&["cluster", "remove", "west"]).unwrap_err();
    assert!(
        refused.to_string().contains("echelon cluster drain west --wait"),
        "{refused}"
    );
    assert_eq!(
        named(&federation, "west").unwrap()["desiredState"],
        "CLUSTER_DESIRED_STATE_ACTIVE"
    );

    let (_, said) = federation
        .command(&["cluster", "drain", "west", "--wait"])
        .unwrap();
    assert!(said.contains("cluster west is drained"), "{said}");
    federation.all_running(&service, 6).unwrap();
    assert_eq!(at(&federation, &service), [6, 0]);
    let (_, said) = federation
        .command(&["cluster", "remove", "west", "--wait"])
        .unwrap();
    assert!(said.contains("cluster west is removed"), "{said}");
    let removed = named(&federation, "west").unwrap();
    assert_eq!(removed["desiredState"], "CLUSTER_DESIRED_STATE_REMOVED");
    for gone in ["heartbeatTime", "capacity", "shardAddress", "mesosAddress"] {
        assert_eq!(removed.get(gone), None, "{removed:#}");
    }

    // A cluster of this name is another one, with the same hosts.
    federation.command(&["cluster", "add", "west"]).unwrap();
    federation.kill("shard-west").unwrap();
    federation.start_again("shard-west").unwrap();
    until_healthy(&federation, &["west-2"]);
    let mut last = marks.batch("last", 3, 0);
    last["spec"]["clusters"] = json!({"only": ["west"]});
    let last = federation.submit(&last).unwrap();
    federation.wait_for(&last, "JOB_STATE_SUCCEEDED").unwrap();
    federation.wait_for(&mixed, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(
        (marks.done("mixed"), marks.done("ended"), marks.done("last")),
        (4, 4, 3)
    );
    assert_eq!(marks.twice(), Vec::<String>::new());
    assert_eq!(marks.begun("service"), 9, "three of six have moved");
    // The history of an ended job is still there.
    let listed = federation.get(&format!("{ended}/instances")).unwrap();
    assert_eq!(
        listed["instances"].as_array().map(Vec::len),
        Some(4),
        "{listed:#}"
    );
}
