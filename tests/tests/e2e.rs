//! The whole path as separate processes, started from the files in `deploy/`, on a real Cassandra and ZooKeeper: a job ends,
//! and nothing is lost or run twice while each process in turn is killed and started again.
#![cfg(test)]

#[path = "e2e/absence.rs"]
mod absence;
#[path = "e2e/cluster_life.rs"]
mod cluster_life;
#[path = "e2e/cluster_lost.rs"]
mod cluster_lost;
#[path = "e2e/federation.rs"]
mod federation;
#[path = "e2e/marks.rs"]
mod marks;
#[path = "e2e/mesos_lost.rs"]
mod mesos_lost;

use federation::Federation;
use marks::Marks;
use serde_json::json;

#[test]
fn jobs_outlive_the_kill_of_every_process() {
    let mut federation = Federation::start().unwrap();
    let marks = Marks::new(&federation).unwrap();

    let first = federation.submit(&marks.batch("first", 6, 0)).unwrap();
    federation.wait_for(&first, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(marks.done("first"), 6);

    let service = federation.submit(&marks.service("service", 4)).unwrap();
    let before = federation.all_running(&service, 4).unwrap();
    let long = federation.submit(&marks.batch("long", 12, 30)).unwrap();
    federation.all_begun(&long, 12).unwrap();
    for name in federation.names() {
        federation.kill(&name).unwrap();
        federation.start_again(&name).unwrap();
    }
    // One that is submitted after all this runs as well.
    let last = federation.submit(&marks.batch("last", 4, 0)).unwrap();
    federation.wait_for(&long, "JOB_STATE_SUCCEEDED").unwrap();
    federation.wait_for(&last, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(marks.done("long"), 12, "each instance is done once");
    assert_eq!(
        marks.twice(),
        Vec::<String>::new(),
        "instances that ran twice at a time"
    );
    let after = federation.all_running(&service, 4).unwrap();
    assert_eq!(before, after, "the service's tasks were touched");
    assert_eq!(
        marks.begun("service"),
        4,
        "the service's commands were started again"
    );

    let wrong = federation
        .post("jobs", &json!({"spec": {"name": "Not A Name"}}))
        .unwrap();
    assert_eq!(wrong.0, 400, "{}", wrong.1);
}
