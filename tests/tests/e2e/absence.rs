//! What every sign says while the membership servers, or all resource managers, are away, and after they
//! came back.

use crate::federation::Federation;
use crate::marks::Marks;
use echelon_tests::wait;
use serde_json::Value;
use std::time::Duration;

/// Silence is told after 3 s; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const LEADERS: [&str; 3] = ["resource-manager", "shard-east", "shard-west"];

/// Waits until a process answers `/readyz` with this status and names, or does not name, the membership.
fn until_ready(federation: &Federation, process: &str, status: u16, away: bool) {
    let what = format!("{process} to answer {status}");
    wait::until(&what, PATIENCE, || {
        let (found, conditions) = federation.conditions(process)?;
        let named = conditions.iter().any(|name| name == "membership");
        Ok((found == status && named == away).then_some(()))
    })
    .unwrap();
}

/// Waits until the status is as expected.
fn until_status(federation: &Federation, what: &str, expected: impl Fn(&Value) -> bool) {
    let mut last = Value::Null;
    let waited = wait::until(what, PATIENCE, || {
        last = federation.get("status")?;
        Ok(expected(&last).then_some(()))
    });
    assert!(waited.is_ok(), "{what}: {last:#}");
}

fn role<'a>(status: &'a Value, role: &str) -> Vec<&'a Value> {
    let all = status["roles"].as_array().into_iter().flatten();
    all.filter(|shown| shown["role"] == role).collect()
}

/// Whether every leader of a role answers, and leads.
fn lead(status: &Value, name: &str, n_roles: usize) -> bool {
    let roles = role(status, name);
    let leads = |shown: &&Value| {
        let process = &shown["processes"][0];
        shown["absentSince"].is_null()
            && process["standing"] == "STANDING_LEADER"
            && process["membership"]["reach"] == "REACH_CONNECTED"
            && process["storage"]["reach"] == "REACH_CONNECTED"
            && process["build"]
                .as_str()
                .is_some_and(|build| build.contains("(commit "))
    };
    roles.len() == n_roles && roles.iter().all(leads)
}

fn all_lead(status: &Value) -> bool {
    lead(status, "resource-manager", 1) && lead(status, "shard", 2)
}

/// The health of each cluster, how many of these are unconfirmed, and what is said beside the list.
fn health(federation: &Federation) -> (Vec<String>, usize, String) {
    let (clusters, beside) = federation.command(&["cluster", "list"]).unwrap();
    let all = clusters.as_array().unwrap();
    let health = all
        .iter()
        .map(|cluster| cluster["health"].as_str().unwrap_or_default().to_owned());
    let unconfirmed = all
        .iter()
        .filter(|cluster| cluster["health_unconfirmed_since"].is_string());
    (health.collect(), unconfirmed.count(), beside)
}

#[test]
fn every_sign_tells_what_is_away() {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();
    until_status(&federation, "all roles to lead", all_lead);
    let job = federation.submit(&marks.service("service", 2)).unwrap();
    federation.all_running(&job, 2).unwrap();

    federation.silence_membership(true);
    for leader in LEADERS {
        until_ready(&federation, leader, 503, true);
    }
    until_ready(&federation, "gateway", 200, true);
    until_status(
        &federation,
        "the alarm about ZooKeeper and the absent leaders",
        |status| {
            let alarms = status["alarms"].as_array().into_iter().flatten();
            let told: Vec<&str> = alarms.filter_map(|alarm| alarm["summary"].as_str()).collect();
            let zookeeper = told.iter().any(|said| {
                said.starts_with("ZooKeeper does not answer")
                    && said.contains("shard east")
                    && said.contains("gateway")
            });
            zookeeper
                && told
                    .iter()
                    .any(|said| said.contains("no leader of resource-manager answers"))
        },
    );
    let (_, unconfirmed, beside) = health(&federation);
    assert_eq!(unconfirmed, 2);
    assert!(beside.contains("resource-manager since"), "{beside}");
    assert!(federation.get(&job).unwrap()["staleSince"].is_string());

    federation.silence_membership(false);
    for process in LEADERS.into_iter().chain(["gateway"]) {
        until_ready(&federation, process, 200, false);
    }
    until_status(&federation, "all roles to lead again", all_lead);
    assert!(federation.get(&job).unwrap()["staleSince"].is_null());

    federation.kill("resource-manager").unwrap();
    until_status(&federation, "the absent resource manager", |status| {
        let manager = role(status, "resource-manager");
        let absent = manager.iter().any(|shown| shown["absentSince"].is_string());
        absent && lead(status, "shard", 2)
    });
    let (_, unconfirmed, beside) = health(&federation);
    assert_eq!(unconfirmed, 2);
    assert!(beside.contains("resource-manager since"), "{beside}");
    federation.start_again("resource-manager").unwrap();
    until_status(&federation, "the resource manager to lead again", all_lead);
    wait::until("clusters to be healthy", PATIENCE, || {
        let (found, unconfirmed, beside) = health(&federation);
        Ok((found == ["healthy", "healthy"] && unconfirmed == 0 && beside.is_empty()).then_some(()))
    })
    .unwrap();
}
