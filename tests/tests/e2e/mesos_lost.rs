//! A cluster whose Mesos master is killed, or hangs, while another cluster is well: every sign tells it within a bounded
//! time, and work goes to the other cluster. Before, every sign said for minutes that all was well, and five of six new jobs
//! waited at the dead cluster.

use crate::federation::Federation;
use crate::marks::Marks;
use anyhow::Result;
use echelon_tests::wait;
use serde_json::{Value, json};
use std::time::Duration;

/// It is promised within 15 s.
const DETECTED: Duration = Duration::from_secs(45);
/// Ten seconds after that, what has not begun leaves; the rest is for a busy machine.
const MOVED: Duration = Duration::from_secs(90);
/// A hold of 15 s, after a new subscription with growing waits of at most 15 s.
const RETURNED: Duration = Duration::from_secs(120);

fn east(federation: &Federation) -> Result<Value> {
    let listed = federation.get("clusters")?;
    let all = listed["clusters"].as_array().cloned().unwrap_or_default();
    let east = all.into_iter().find(|cluster| cluster["displayName"] == "east");
    Ok(east.unwrap_or_default())
}

fn until_health(federation: &Federation, health: &str, within: Duration) {
    let mut last = Value::Null;
    let waited = wait::until(&format!("east to be {health}"), within, || {
        last = east(federation)?;
        Ok((last["health"] == health).then_some(()))
    });
    assert!(waited.is_ok(), "{last:#}");
}

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
        let listed = federation.get(&format!("{job}/instances")).unwrap();
        for instance in listed["instances"].as_array().into_iter().flatten() {
            assert_eq!(instance["cluster"], "west", "{instance:#}");
        }
    }
}

fn work_goes_on_elsewhere(break_master: impl Fn(&mut Federation), mend: impl Fn(&mut Federation)) {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();
    until_health(&federation, "HEALTH_HEALTHY", DETECTED);
    let service = federation.submit(&marks.service("service", 4)).unwrap();
    federation.all_running(&service, 4).unwrap();

    break_master(&mut federation);
    // Nothing can be known of it yet.
    let submit = |name: String| federation.submit(&short(&marks, &name)).unwrap();
    let early: Vec<String> = (0..4).map(|n| submit(format!("early-{n}"))).collect();
    until_health(&federation, "HEALTH_WITHOUT_MESOS", DETECTED);
    let late: Vec<String> = (0..6).map(|n| submit(format!("late-{n}"))).collect();
    ends_at_west(&federation, &late);
    ends_at_west(&federation, &early);

    let shown = east(&federation).unwrap();
    assert!(!shown["healthCauses"].as_array().unwrap().is_empty(), "{shown:#}");
    let status = federation.get("status").unwrap();
    let alarms = status["alarms"].as_array().unwrap();
    let told = |alarm: &Value| {
        alarm["summary"]
            .as_str()
            .is_some_and(|s| s.starts_with("east is without-mesos"))
    };
    assert!(alarms.iter().any(told), "{alarms:#?}");
    let (_, page) = federation.page("/clusters").unwrap();
    assert!(page.contains("without-mesos"), "{page}");
    let (_, metrics) = federation.page("/metrics").unwrap();
    let metric = metrics.lines().find(|line| {
        line.starts_with("echelon_cluster_health{")
            && line.contains(r#"cluster="east""#)
            && line.contains(r#"health="without-mesos""#)
    });
    assert!(metric.is_some_and(|line| line.ends_with(" 1")), "{metric:?}");
    let ready = |path: &str| federation.page(path).unwrap();
    let (code, named) = ready("/readyz");
    assert!(code == 200 && named.contains("cluster east"), "{code}: {named}");
    assert_eq!(ready("/readyz?cluster=east").0, 503);
    assert_eq!(ready("/readyz?cluster=west").0, 200);
    let (code, conditions) = federation.conditions("shard-east").unwrap();
    assert!(
        code == 503 && conditions.contains(&"mesos of east".to_owned()),
        "{code}: {conditions:?}"
    );
    let parts = federation.get(&service).unwrap()["parts"].clone();
    let part = parts
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["cluster"] == "east");
    assert_eq!(part.unwrap()["health"], "HEALTH_WITHOUT_MESOS", "{parts:#}");
    let job = federation.shown(&["job", "get", "service"]).unwrap();
    assert!(job.contains("2 at east unconfirmed for"), "{job}");

    mend(&mut federation);
    until_health(&federation, "HEALTH_HEALTHY", RETURNED);
    wait::until("east to be ready", DETECTED, || {
        Ok((federation.page("/readyz?cluster=east")?.0 == 200).then_some(()))
    })
    .unwrap();
    federation.all_running(&service, 4).unwrap();
    assert_eq!(
        marks.begun("service"),
        4,
        "nothing of the service was started again"
    );
    assert_eq!(
        marks.done("early") + marks.done("late"),
        20,
        "each instance is done once"
    );
    assert_eq!(marks.twice(), Vec::<String>::new());
}

#[test]
fn work_goes_on_elsewhere_while_a_master_is_dead() {
    work_goes_on_elsewhere(
        |federation| federation.kill("mesos-east").unwrap(),
        |federation| federation.start_again("mesos-east").unwrap(),
    );
}

#[test]
fn work_goes_on_elsewhere_while_a_master_hangs() {
    work_goes_on_elsewhere(
        |federation| federation.pause("mesos-east").unwrap(),
        |federation| federation.resume("mesos-east").unwrap(),
    );
}
