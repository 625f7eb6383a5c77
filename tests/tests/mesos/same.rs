//! Two clusters on one real Mesos, whose masters are named in two ways: one of them is refused by the id of the
//! master that leads.

use crate::pair::{self, DETECTED, RETURNED, at, row};
use crate::{Federation, Marks, N_AGENTS};
use echelon_tests::wait;
use serde_json::{Value, json};

fn is_refused(cluster: &Value) -> bool {
    let mut causes = cluster["healthCauses"].as_array().into_iter().flatten();
    causes.any(|cause| cause["code"] == "same-master")
}

#[test]
fn of_two_clusters_on_one_mesos_one_is_refused() {
    let mesos = pair::cluster(N_AGENTS, &[]);
    let leader = mesos.leader().unwrap().1.to_string();
    let federation = Federation::start_over(&[("east", Some(mesos.zk())), ("west", Some(&leader))]).unwrap();
    let marks = Marks::new(&federation).unwrap();
    let mut last = Vec::new();
    let waited = wait::until("one of both to be refused", RETURNED, || {
        last = vec![row(&federation, "east")?, row(&federation, "west")?];
        let is_known = last.iter().all(|cluster| cluster.get("capacity").is_some());
        Ok((is_known && last.iter().any(is_refused)).then_some(()))
    });
    assert!(waited.is_ok(), "{last:#?}");
    let refused: Vec<bool> = last.iter().map(is_refused).collect();
    let (well, other) = match refused.as_slice() {
        [false, true] => (0, "west"),
        [true, false] => (1, "east"),
        _ => panic!("{last:#?}"),
    };

    // It takes no work, and work that may go nowhere else waits.
    let mut anywhere = marks.batch("anywhere", 6, 0);
    anywhere["spec"]["clusters"] = json!({});
    let anywhere = federation.submit(&anywhere).unwrap();
    let mut only = marks.batch("only", 2, 0);
    only["spec"]["clusters"] = json!({"only": [other]});
    federation.submit(&only).unwrap();
    federation.wait_for(&anywhere, "JOB_STATE_SUCCEEDED").unwrap();
    assert_eq!(at(&federation, &anywhere)[well], 6);
    let status = federation.get("status").unwrap();
    let told = format!("{other} is degraded: its Mesos master is that of another cluster");
    assert!(status["alarms"].to_string().contains(&told), "{status:#}");
    // It is still so when the other one has had time to count its hosts.
    std::thread::sleep(DETECTED / 3);
    assert!(is_refused(&row(&federation, other).unwrap()));
    assert_eq!(marks.begun("only"), 0);
}
