//! The whole path over a real Mesos: masters that elect and agents that run processes, from the folder that
//! `ECHELON_TEST_MESOS` names. What the simulated Mesos gets wrong shows here.
#![cfg(test)]

#[path = "e2e/federation.rs"]
#[expect(dead_code, reason = "the suite over simulated clusters uses more of it")]
mod federation;
#[path = "mesos/life.rs"]
mod life;
#[path = "mesos/loss.rs"]
mod loss;
#[path = "e2e/marks.rs"]
mod marks;
#[path = "mesos/other.rs"]
mod other;
#[path = "mesos/pair.rs"]
mod pair;
#[path = "mesos/platform.rs"]
mod platform;
#[path = "mesos/reserved.rs"]
mod reserved;
#[path = "mesos/same.rs"]
mod same;
#[path = "mesos/shared.rs"]
mod shared;

use std::time::Duration;

use echelon_tests::servers::{Mesos, MesosMember, MesosPrograms, ZooKeeper};
use echelon_tests::wait;
use federation::Federation;
use marks::Marks;
use serde_json::Value;

const N_AGENTS: u8 = 2;

/// The role in `deploy/config/shard.toml`.
const ROLE: &str = "echelon";

/// Agents of an unoptimised build start some dozens of tasks a second.
const PATIENCE: Duration = Duration::from_secs(240);

const SUCCEEDED: &str = "JOB_STATE_SUCCEEDED";

/// A real cluster with Echelon over it.
struct World {
    federation: Federation,
    marks: Marks,
    mesos: Mesos,
}

impl World {
    fn start() -> Self {
        let programs = MesosPrograms::find().unwrap();
        let zookeeper = ZooKeeper::shared().unwrap();
        // the tests of this binary share one ZooKeeper
        let name = uuid::Uuid::new_v4().simple().to_string();
        let mesos = Mesos::start(&programs, &zookeeper.contact_points(), &name, ROLE, N_AGENTS).unwrap();
        let federation = Federation::start_over(&[("east", Some(mesos.zk()))]).unwrap();
        let marks = Marks::new(&federation).unwrap();
        Self {
            federation,
            marks,
            mesos,
        }
    }

    /// A job of so many instances ends, and each of them has run once.
    fn runs_once(&self, name: &str, instances: u32) {
        let job = self
            .federation
            .submit(&self.marks.batch(name, instances, 0))
            .unwrap();
        self.federation.wait_for(&job, SUCCEEDED).unwrap();
        let n_instances = usize::try_from(instances).unwrap();
        assert_eq!(
            (self.marks.begun(name), self.marks.done(name)),
            (n_instances, n_instances)
        );
    }
}

/// A service of which each instance fails the first time and runs from the second on.
fn fails_once(marks: &Marks, name: &str, instances: u32) -> Value {
    let end = "rmdir \"$me.lock\"; test $(wc -l < \"$me.begun\") -gt 1 && exec sleep 100000; exit 1";
    marks.job(name, ("JOB_KIND_SERVICE", instances), end)
}

#[test]
fn jobs_end_once_services_are_restarted_and_a_killed_shard_runs_nothing_twice() {
    let mut world = World::start();
    world.runs_once("first", 6);

    let service = fails_once(&world.marks, "service", 3);
    let service = world.federation.submit(&service).unwrap();
    world.federation.all_running(&service, 3).unwrap();
    wait::until("second starts", PATIENCE, || {
        Ok((world.marks.begun("service") == 6).then_some(()))
    })
    .unwrap();
    let before = world.federation.all_running(&service, 3).unwrap();

    let short = world
        .federation
        .submit(&world.marks.batch("short", 300, 1))
        .unwrap();
    wait::until("some of 300 tasks", PATIENCE, || {
        Ok((world.marks.done("short") > 50).then_some(()))
    })
    .unwrap();
    world.federation.kill("shard-east").unwrap();
    let done = world.marks.done("short");
    assert!(done < 300, "all tasks had ended before the kill: {done}");
    world.federation.start_again("shard-east").unwrap();
    world.federation.wait_for(&short, SUCCEEDED).unwrap();
    assert_eq!(
        (world.marks.begun("short"), world.marks.done("short")),
        (300, 300)
    );

    assert_eq!(world.federation.all_running(&service, 3).unwrap(), before);
    assert_eq!(
        world.marks.begun("service"),
        6,
        "the kill of a shard restarted a service"
    );
    assert_eq!(world.marks.twice(), Vec::<String>::new());
}

#[test]
fn tasks_outlive_the_kill_of_an_agent_and_of_the_leading_master() {
    let world = World::start();
    let service = world
        .federation
        .submit(&world.marks.service("service", 8))
        .unwrap();
    let before = world.federation.all_running(&service, 8).unwrap();

    let agent = MesosMember::Agent(0);
    world.mesos.hold(agent, |server| server.kill()).unwrap();
    world.runs_once("without-an-agent", 4);
    world.mesos.release(agent, |server| server.start_again()).unwrap();
    world.mesos.wait_for_agents(N_AGENTS).unwrap();
    world.runs_once("with-the-agent", 4);

    let (leader, _) = world.mesos.leader().unwrap();
    world.mesos.hold(leader, |server| server.kill()).unwrap();
    let (next, _) = world.mesos.leader().unwrap();
    assert_ne!(leader, next);
    world.mesos.wait_for_agents(N_AGENTS).unwrap();
    world.runs_once("under-the-next-master", 4);
    world
        .mesos
        .release(leader, |server| server.start_again())
        .unwrap();

    assert_eq!(world.federation.all_running(&service, 8).unwrap(), before);
    assert_eq!(world.marks.begun("service"), 8, "a service was started again");
    assert_eq!(world.marks.twice(), Vec::<String>::new());
}
