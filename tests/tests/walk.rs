//! The walk of one job through the whole federation, in one process, on the model store, with a virtual Mesos: every message
//! and every call from submit to the end, as a golden text. It is the newcomer's first page of what happens.
#![cfg(test)]

use echelon_core_testkit::build::JobBuilder;
use echelon_sim_world::{Options, World};

/// What recurs whatever jobs there are.
const RECURRING: [&str; 5] = ["Capacity(", "Heartbeat", "Elected", "FullStart", "Slices([])"];

#[test]
fn one_job_from_submit_to_its_end() {
    let job = JobBuilder::batch("hello", 2)
        .env("SIM_RUNTIME_MS", "1000")
        .build();
    let options = Options {
        clusters: 1,
        hosts: 1,
        jobs: 0,
        detailed: true,
        ..Options::calm()
    };
    let trace = World::walk(1, options, job);
    let lines: Vec<&str> = trace
        .iter()
        .map(|line| line.split_once("s ").map_or(line.as_str(), |(_, text)| text))
        .filter(|line| !RECURRING.iter().any(|word| line.contains(word)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
