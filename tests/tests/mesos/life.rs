//! The life of a real cluster by an operator's commands: its work leaves, it is removed, its Mesos knows nothing of
//! us any more, and a cluster of its name is added again on the same Mesos.

use crate::pair::{Pair, RETURNED, UNTIL_ASKED, at, of_master, row, until_health};
use crate::{N_AGENTS, PATIENCE};
use anyhow::{Context, Result};
use echelon_tests::servers::Mesos;
use echelon_tests::wait;
use serde_json::{Value, json};

/// The ids of the frameworks in one of the master's lists.
fn frameworks(mesos: &Mesos, list: &str) -> Result<Vec<String>> {
    let state = of_master(mesos, "/master/frameworks")?;
    let listed = state[list].as_array().cloned();
    let listed = listed.with_context(|| format!("no {list}: {state:#}"))?;
    let ids = listed.iter().filter_map(|framework| framework["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

fn only_framework(mesos: &Mesos) -> String {
    let all = frameworks(mesos, "frameworks").unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.concat()
}

/// Tasks that the master of a cluster knows and that have not ended.
fn live_tasks(mesos: &Mesos) -> Result<Vec<Value>> {
    let state = of_master(mesos, "/master/tasks?limit=1000")?;
    let all = state["tasks"].as_array().cloned().unwrap_or_default();
    let is_live = |task: &Value| {
        let live = ["TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"];
        task["state"].as_str().is_some_and(|state| live.contains(&state))
    };
    Ok(all.into_iter().filter(is_live).collect())
}

#[test]
fn a_drained_cluster_is_removed_from_its_mesos_and_added_again() {
    let Pair {
        west,
        east,
        marks,
        mut federation,
    } = Pair::start();
    let service = marks.job("service", ("JOB_KIND_SERVICE", 6), UNTIL_ASKED);
    let service = federation.submit(&service).unwrap();
    let mut daemon = marks.job("daemon", ("JOB_KIND_DAEMON", 0), UNTIL_ASKED);
    daemon["spec"]["groups"][0]["instances"] = Value::Null;
    daemon["spec"]["clusters"] = json!({});
    let daemon = federation.submit(&daemon).unwrap();
    federation.all_running(&service, 6).unwrap();
    let n_daemons = 2 * usize::from(N_AGENTS);
    federation.all_running(&daemon, n_daemons).unwrap();
    assert_eq!(at(&federation, &service), [3, 3]);
    let first = only_framework(&west);

    let (_, said) = federation
        .command(&["cluster", "drain", "west", "--wait"])
        .unwrap();
    assert!(said.contains("cluster west is drained"), "{said}");
    federation.all_running(&service, 6).unwrap();
    assert_eq!(at(&federation, &service), [6, 0]);
    wait::until("three to have ended and begun elsewhere", PATIENCE, || {
        Ok(((marks.begun("service"), marks.done("service")) == (9, 3)).then_some(()))
    })
    .unwrap();
    assert_eq!(
        marks.done("daemon"),
        0,
        "daemons stay until the cluster is removed"
    );

    let (_, said) = federation
        .command(&["cluster", "remove", "west", "--wait"])
        .unwrap();
    assert!(said.contains("cluster west is removed"), "{said}");
    let removed = row(&federation, "west").unwrap();
    assert_eq!(removed["desiredState"], "CLUSTER_DESIRED_STATE_REMOVED");
    assert_eq!(frameworks(&west, "frameworks").unwrap(), Vec::<String>::new());
    assert_eq!(
        frameworks(&west, "completed_frameworks").unwrap(),
        std::slice::from_ref(&first)
    );
    wait::until("all tasks at west to end", PATIENCE, || {
        Ok((live_tasks(&west)?.is_empty() && marks.done("daemon") == usize::from(N_AGENTS)).then_some(()))
    })
    .unwrap();
    // Those of the other cluster were not touched.
    assert_eq!(frameworks(&east, "frameworks").unwrap().len(), 1);
    assert_eq!((marks.begun("service"), marks.done("service")), (9, 3));

    // A cluster of this name is another one, with the same hosts, and another framework.
    federation.command(&["cluster", "add", "west"]).unwrap();
    federation.kill("shard-west").unwrap();
    federation.start_again("shard-west").unwrap();
    until_health(&federation, "west-2", "HEALTH_HEALTHY", RETURNED);
    let mut last = marks.batch("last", 3, 0);
    last["spec"]["clusters"] = json!({"only": ["west"]});
    let last = federation.submit(&last).unwrap();
    federation.wait_for(&last, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(marks.done("last"), 3);
    assert_ne!(only_framework(&west), first);
    // The daemon is on all hosts again.
    federation.all_running(&daemon, n_daemons).unwrap();
    assert_eq!(marks.begun("daemon"), n_daemons + usize::from(N_AGENTS));
    assert_eq!(marks.twice(), Vec::<String>::new());
}
