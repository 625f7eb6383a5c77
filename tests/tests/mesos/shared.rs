//! A Mesos that Echelon has not for itself: limits of quota, other frameworks, and operators who plan maintenance.

use crate::other::{Other, operate};
use crate::pair::row;
use crate::{N_AGENTS, PATIENCE, ROLE, SUCCEEDED, World};
use anyhow::Context;
use echelon_tests::servers::MesosMember;
use echelon_tests::wait;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// A list of agents is 15 s old while instances wait, else a minute; three times that.
const LISTED: Duration = Duration::from_secs(180);

impl World {
    /// Waits until the command that explains a job shows all of these.
    fn explained(&self, job: &str, words: &[&str]) {
        let mut last = String::new();
        let waited = wait::until(&format!("{words:?}"), LISTED, || {
            last = self.federation.shown(&["job", "explain", job])?;
            Ok(words.iter().all(|word| last.contains(word)).then_some(()))
        });
        waited.with_context(|| last).unwrap();
    }

    /// Waits until the cluster has this capacity.
    fn cpus_milli(&self, wanted: usize) {
        let mut last = Value::Null;
        let waited = wait::until(&format!("{wanted} milli cores"), LISTED, || {
            last = row(&self.federation, "east")?["capacity"]["cpusMilli"].clone();
            Ok((last == json!(wanted.to_string())).then_some(()))
        });
        waited.with_context(|| last.to_string()).unwrap();
    }

    /// A job of one instance that needs more than the half of an agent that is reserved for us.
    fn submit_large(&self, name: &str) -> String {
        let mut job = self.marks.batch(name, 1, 0);
        job["spec"]["groups"][0]["resources"] = json!({"cpusMilli": "7000", "memoryMib": "100"});
        self.federation.submit(&job).unwrap()
    }

    fn limit(&self, limits: &Value) {
        let configs = json!([{"role": ROLE, "limits": limits}]);
        let quota = json!({"force": true, "quota_configs": configs});
        let call = json!({"type": "UPDATE_QUOTA", "update_quota": quota});
        operate(self.mesos.leader().unwrap().1, &call).unwrap();
    }
}

#[test]
fn a_limit_of_quota_bounds_the_capacity_and_is_the_reason_of_what_waits_for_more() {
    let world = World::start();
    let each = usize::from(N_AGENTS);
    world.cpus_milli(8000 * each);
    world.limit(&json!({"cpus": {"value": 1}}));
    // what is reserved for the role is beyond any limit
    world.cpus_milli(4000 * each);
    let job = world.submit_large("large");
    world.explained(
        "large",
        &[
            "quota lets this role have no more: cpus needs 7, has at most 4",
            ROLE,
        ],
    );
    assert_eq!(world.marks.begun("large"), 0);
    world.limit(&json!({}));
    world.federation.wait_for(&job, SUCCEEDED).unwrap();
    world.cpus_milli(8000 * each);
    assert_eq!((world.marks.begun("large"), world.marks.done("large")), (1, 1));
}

#[test]
fn what_other_frameworks_are_offered_or_use_is_the_reason_of_what_waits_for_it() {
    let world = World::start();
    world.cpus_milli(8000 * usize::from(N_AGENTS));
    let master = world.mesos.leader().unwrap().1;
    let mut other = Other::subscribe(master, "analytics").unwrap();
    let all = 4000.0 * f64::from(N_AGENTS);
    wait::until("offers of all that is not reserved", PATIENCE, || {
        other.read()?;
        Ok((other.cpus_milli() >= all).then_some(()))
    })
    .unwrap();
    let job = world.submit_large("large");
    world.explained(
        "large",
        &[
            "hold offers of what hosts have",
            "role analytics is offered 8 cpus",
        ],
    );

    other.use_all().unwrap();
    world.explained("large", &["use what hosts have", "role analytics uses 8 cpus"]);
    assert_eq!(world.marks.begun("large"), 0);
    other.tear_down().unwrap();
    world.federation.wait_for(&job, SUCCEEDED).unwrap();
    assert_eq!((world.marks.begun("large"), world.marks.done("large")), (1, 1));
}

#[test]
fn a_window_of_maintenance_is_shown_and_is_gone_when_it_is_cancelled() {
    let world = World::start();
    let host = world.mesos.host(MesosMember::Agent(0)).unwrap();
    let path = format!("clusters/east/hosts/{host}");
    let shown = |wanted: bool| {
        let mut last = Value::Null;
        let waited = wait::until(&format!("a window: {wanted}"), LISTED, || {
            last = world.federation.get(&path)?;
            Ok((last["maintenance"].is_object() == wanted).then_some(()))
        });
        waited.with_context(|| last.to_string()).unwrap();
    };
    let schedule = |windows: Value| {
        let schedule = json!({"schedule": {"windows": windows}});
        let call = json!({"type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": schedule});
        operate(world.mesos.leader().unwrap().1, &call).unwrap();
    };
    wait::until("the host", PATIENCE, || Ok(world.federation.get(&path).ok())).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let start = (now + Duration::from_secs(7200)).as_nanos().to_string();
    let start: u64 = start.parse().unwrap();
    schedule(json!([{
        "machine_ids": [{"hostname": host, "ip": host}],
        "unavailability": {"start": {"nanoseconds": start}, "duration": {"nanoseconds": 7_200_000_000_000_u64}},
    }]));
    shown(true);
    schedule(json!([]));
    shown(false);
}
