//! A cluster whose shard is dead while its Mesos and its tasks live. An operator declares it lost: what may be replaced runs
//! at the other cluster, what waits for its cluster stays, and when the shard is back each instance runs once. Or it never
//! returns, and is removed without its shard.

use crate::federation::Federation;
use crate::marks::Marks;
use anyhow::{Context, Result};
use echelon_tests::wait;
use serde_json::{Value, json};
use std::time::Duration;

/// Health is promised within 15 s, and its end after a hold of 15 s.
const SEEN: Duration = Duration::from_secs(90);
/// Starts are forbidden after about 70 s of silence. The rest is one cycle and the launch.
const REPLACED: Duration = Duration::from_secs(270);
const SETTLED: Duration = Duration::from_secs(180);
/// What a service instance does until it is asked to end.
const UNTIL_ASKED: &str = "trap 'echo done >> \"$me.done\"; exit 0' TERM; while :; do sleep 0.1; done";

fn until_health(federation: &Federation, cluster: &str, health: &str) {
    let mut last = Value::Null;
    let waited = wait::until(&format!("{cluster} to be {health}"), SEEN, || {
        last = federation.get(&format!("clusters/{cluster}"))?;
        Ok((last["health"] == health).then_some(()))
    });
    waited.with_context(|| format!("{last:#}")).unwrap();
}

fn instances(federation: &Federation, job: &str) -> Result<Vec<Value>> {
    let listed = federation.get(&format!("{job}/instances"))?;
    Ok(listed["instances"].as_array().cloned().unwrap_or_default())
}

/// How many instances run at a cluster.
fn running_at(federation: &Federation, job: &str, cluster: &str) -> Result<usize> {
    let all = instances(federation, job)?.into_iter();
    let there = all.filter(|i| i["cluster"] == cluster && i["run"]["state"] == "RUN_STATE_RUNNING");
    Ok(there.count())
}

/// A service that is replaced, or waits, when its cluster is silent.
fn service(marks: &Marks, name: &str, on_cluster_loss: &Value) -> Value {
    let mut job = marks.job(name, ("JOB_KIND_SERVICE", 4), UNTIL_ASKED);
    job["spec"]["onClusterLoss"] = on_cluster_loss.clone();
    job
}

#[test]
fn a_cluster_that_is_declared_lost_is_replaced_and_runs_nothing_twice_after_its_return() {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();
    for cluster in ["east", "west"] {
        until_health(&federation, cluster, "HEALTH_HEALTHY");
    }
    // Declared later than any time of the test, so only the operator's word can be the cause.
    let replaced = json!({"replaceAfter": "3600s"});
    let moving = federation.submit(&service(&marks, "moving", &replaced)).unwrap();
    let waiting = federation
        .submit(&service(&marks, "waiting", &json!({"wait": {}})))
        .unwrap();
    for job in [&moving, &waiting] {
        federation.all_running(job, 4).unwrap();
        assert_eq!(running_at(&federation, job, "west").unwrap(), 2);
    }
    let too_early = federation
        .command(&["cluster", "declare-lost", "west"])
        .unwrap_err();
    assert!(too_early.to_string().contains("is not cut off"), "{too_early}");

    federation.kill("shard-west").unwrap();
    until_health(&federation, "west", "HEALTH_CUT_OFF");
    let silence = federation.get("clusters/west").unwrap()["silence"].clone();
    let other = federation.command(&["cluster", "declare-lost", "west", "--silence", "4711"]);
    let other = other.unwrap_err().to_string();
    assert!(other.contains("in silence 4711"), "{other}");
    let (lost, _) = federation.command(&["cluster", "declare-lost", "west"]).unwrap();
    // The command shows numbers as numbers, the gateway as texts.
    let number = lost["silence"].as_u64().map(|number| json!(number.to_string()));
    assert_eq!(
        (number.as_ref(), &lost["declared_lost"]),
        (Some(&silence), &json!(true)),
        "{lost:#}"
    );
    until_health(&federation, "west", "HEALTH_LOST");
    wait::until("what may be replaced to run at east", REPLACED, || {
        // Until it is taken over there, an instance is shown as its former cluster has stored it.
        let is_replaced = marks.begun("moving") >= 6;
        Ok((is_replaced && running_at(&federation, &moving, "east")? == 4).then_some(()))
    })
    .unwrap();
    assert_eq!(marks.begun("moving"), 6, "two of four were replaced");
    assert_eq!(marks.done("moving"), 0, "those of the lost cluster go on");

    federation.start_again("shard-west").unwrap();
    wait::until("the older runs to be stopped", SETTLED, || {
        Ok((marks.done("moving") == 2).then_some(()))
    })
    .unwrap();
    until_health(&federation, "west", "HEALTH_HEALTHY");
    assert_eq!(running_at(&federation, &moving, "east").unwrap(), 4);
    assert_eq!((marks.begun("moving"), marks.done("moving")), (6, 2));
    // What waits for its cluster was not touched.
    federation.all_running(&waiting, 4).unwrap();
    assert_eq!(running_at(&federation, &waiting, "west").unwrap(), 2);
    assert_eq!((marks.begun("waiting"), marks.done("waiting")), (4, 0));
    let shown = federation.get("clusters/west").unwrap();
    assert_eq!(shown.get("declaredLost"), None, "{shown:#}");
}

#[test]
fn a_cluster_that_never_returns_is_removed_without_its_shard() {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();
    for cluster in ["east", "west"] {
        until_health(&federation, cluster, "HEALTH_HEALTHY");
    }
    let waiting = service(&marks, "waiting", &json!({"wait": {}}));
    let waiting = federation.submit(&waiting).unwrap();
    federation.all_running(&waiting, 4).unwrap();
    assert_eq!(running_at(&federation, &waiting, "west").unwrap(), 2);

    federation.kill("shard-west").unwrap();
    until_health(&federation, "west", "HEALTH_CUT_OFF");
    let refused = |args: &[&str]| federation.command(args).unwrap_err().to_string();
    let remove = ["cluster", "remove", "west", "--lost"];
    let undeclared = refused(&remove);
    assert!(undeclared.contains("declare-lost"), "{undeclared}");
    federation.command(&["cluster", "declare-lost", "west"]).unwrap();
    until_health(&federation, "west", "HEALTH_LOST");
    let unaccepted = refused(&remove);
    let names_both = unaccepted.contains("--accept-loss-of 2") && unaccepted.contains("waiting/main: 2");
    assert!(names_both, "{unaccepted}");

    let accepted = [&remove[..], &["--accept-loss-of", "2"]].concat();
    federation.command(&accepted).unwrap();
    wait::until(
        "it to be removed, and its instances to run at east",
        REPLACED,
        || {
            let row = federation.get("clusters/west")?;
            let is_removed = row["desiredState"] == "CLUSTER_DESIRED_STATE_REMOVED";
            let has_begun = marks.begun("waiting") >= 6;
            Ok((is_removed && has_begun && running_at(&federation, &waiting, "east")? == 4).then_some(()))
        },
    )
    .unwrap();
    // A shard that comes back all the same finds that it was removed. It never gets ready, and begins nothing.
    let unready = format!("{:#}", federation.start_again("shard-west").unwrap_err());
    assert!(unready.contains("was removed for good"), "{unready}");
    assert_eq!((marks.begun("waiting"), marks.done("waiting")), (6, 0));
    assert_eq!(running_at(&federation, &waiting, "east").unwrap(), 4);
}
