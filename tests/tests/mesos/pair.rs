//! Two real clusters with Echelon over them.

use crate::federation::Federation;
use crate::marks::Marks;
use crate::{N_AGENTS, ROLE};
use anyhow::{Context, Result};
use echelon_tests::servers::{Mesos, MesosPrograms, ZooKeeper};
use echelon_tests::{http, wait};
use serde_json::Value;
use std::time::{Duration, Instant};

/// It is promised within 15 s.
pub const DETECTED: Duration = Duration::from_secs(45);
/// A hold of 15 s, after an election and a new subscription with growing waits of at most 15 s.
pub const RETURNED: Duration = Duration::from_secs(180);
/// What a service instance does until it is asked to end.
pub const UNTIL_ASKED: &str =
    "trap 'rmdir \"$me.lock\"; echo done >> \"$me.done\"; exit 0' TERM; while :; do sleep 0.1; done";

pub struct Pair {
    pub federation: Federation,
    pub marks: Marks,
    pub east: Mesos,
    pub west: Mesos,
}

/// A real cluster of this many agents, of which no other one has the name.
pub fn cluster(n_agents: u8, master_args: &[&str]) -> Mesos {
    let programs = MesosPrograms::find().unwrap();
    // The tests of this binary share one ZooKeeper.
    let servers = ZooKeeper::shared().unwrap().contact_points();
    let name = uuid::Uuid::new_v4().simple().to_string();
    Mesos::start_with(&programs, &servers, &name, ROLE, n_agents, master_args).unwrap()
}

impl Pair {
    pub fn start() -> Self {
        let (east, west) = (cluster(N_AGENTS, &[]), cluster(N_AGENTS, &[]));
        let federation =
            Federation::start_over(&[("east", Some(east.zk())), ("west", Some(west.zk()))]).unwrap();
        let marks = Marks::new(&federation).unwrap();
        for name in ["east", "west"] {
            until_health(&federation, name, "HEALTH_HEALTHY", RETURNED);
        }
        Self {
            federation,
            marks,
            east,
            west,
        }
    }
}

pub fn row(federation: &Federation, cluster: &str) -> Result<Value> {
    federation.get(&format!("clusters/{cluster}"))
}

/// Waits for a health, and says how long that took.
pub fn until_health(federation: &Federation, cluster: &str, health: &str, within: Duration) -> Duration {
    let begun = Instant::now();
    let mut last = Value::Null;
    let waited = wait::until(&format!("{cluster} to be {health}"), within, || {
        last = row(federation, cluster)?;
        Ok((last["health"] == health).then_some(()))
    });
    waited.with_context(|| format!("{last:#}")).unwrap();
    let took = begun.elapsed();
    eprintln!("{cluster} was {health} after {:.1} s", took.as_secs_f64());
    took
}

/// How many instances of a job are at each of the two clusters.
pub fn at(federation: &Federation, job: &str) -> [usize; 2] {
    let listed = federation.get(&format!("{job}/instances")).unwrap();
    let all = listed["instances"].as_array().cloned().unwrap_or_default();
    ["east", "west"].map(|name| all.iter().filter(|instance| instance["cluster"] == name).count())
}

/// What the leading master answers at this path.
pub fn of_master(mesos: &Mesos, path: &str) -> Result<Value> {
    let leader = mesos.leader()?.1;
    let (status, body) = http::get(leader, path)?;
    anyhow::ensure!(status == 200, "{path}: {status}: {body}");
    Ok(serde_json::from_str(&body)?)
}
