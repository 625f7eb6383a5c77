//! Agents of a real Mesos that start nothing.

use crate::{N_AGENTS, PATIENCE, SUCCEEDED, World};
use anyhow::Context;
use echelon_tests::servers::{Executors, MesosMember};
use echelon_tests::wait;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

impl World {
    /// Puts a script in the place of an agent's executors. It notes the task and the agent of each start in a file.
    fn break_agent(&self, agent: usize, then: &str) -> PathBuf {
        let which = MesosMember::Agent(agent);
        let notes = self.federation.folder("notes").unwrap().join("starts");
        let host = self.mesos.host(which).unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$MESOS_EXECUTOR_ID {host}\" >> '{}'\n{then}\n",
            notes.display()
        );
        self.mesos
            .set_executors(which, &Executors::Script(script))
            .unwrap();
        notes
    }
}

#[test]
fn what_no_agent_starts_fails_after_its_tries_and_its_command_uses_none_of_its_own() {
    let world = World::start();
    let each = usize::from(N_AGENTS);
    let notes: Vec<PathBuf> = (0..each)
        .map(|agent| world.break_agent(agent, "exit 1"))
        .collect();
    let mut job = world.marks.batch("never", 1, 0);
    job["spec"]["groups"][0]["platformRetry"] = json!(2);
    job["spec"]["groups"][0]["retry"] = json!({"limit": 5});
    let job = world.federation.submit(&job).unwrap();
    world.federation.wait_for(&job, "JOB_STATE_FAILED").unwrap();
    let starts = fs::read_to_string(&notes[0]).unwrap();
    assert_eq!(starts.lines().count(), 2, "{starts}");
    let hosts: Vec<&str> = starts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_ne!(hosts[0], hosts[1], "another host comes next: {starts}");
    assert_eq!(world.marks.begun("never"), 0);
    let listed = world.federation.get(&format!("{job}/instances")).unwrap();
    let reason = &listed["instances"][0]["reason"]["code"];
    assert_eq!(reason, "EXECUTOR_FAILED", "{listed:#}");
}

#[test]
fn an_executor_that_does_not_register_is_the_hosts_fault_and_the_run_goes_elsewhere() {
    let world = World::start();
    let notes = world.break_agent(0, "exec sleep 1000");
    let n_instances = 4;
    let mut job = world.marks.batch("elsewhere", n_instances, 0);
    job["spec"]["groups"][0]["retry"] = json!({"limit": 1});
    job["spec"]["groups"][0]["strategy"] = json!("spread");
    let job = world.federation.submit(&job).unwrap();
    wait::until("a start at the agent that starts nothing", PATIENCE, || {
        Ok(notes.exists().then_some(()))
    })
    .unwrap();
    world
        .federation
        .wait_for(&job, SUCCEEDED)
        .with_context(|| {
            world
                .federation
                .shown(&["job", "instances", "elsewhere"])
                .unwrap()
        })
        .unwrap();
    let n_instances = usize::try_from(n_instances).unwrap();
    assert_eq!(
        (world.marks.begun("elsewhere"), world.marks.done("elsewhere")),
        (n_instances, n_instances)
    );
    let starts = fs::read_to_string(&notes).unwrap();
    let mut runs: Vec<&str> = starts.lines().collect();
    // of each instance one start at most
    runs.iter_mut()
        .for_each(|run| *run = run.rsplitn(3, '.').last().unwrap());
    let n_runs = runs.len();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), n_runs, "{starts}");
}
