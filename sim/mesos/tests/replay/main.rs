//! Recordings of a real Mesos master are played into the simulated one: the same calls and the same ends of tasks at the
//! same times. Every answer, update and offer must be the same, but for ids and times that differ from run to run.
//!
//! What a recording does not tell is left open: when batches of offers are due (all phases of the interval are tried), and
//! how events of different kinds mix.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test reads recordings and says what it compared"
)]

mod compare;
mod outside;
mod player;
mod recording;
mod step;

use player::{Outcome, play};
use recording::Recording;

/// The scenarios whose behaviour is simulated.
const SCENARIOS: &[&str] = &[
    "launch-finish",
    "unacked-retry",
    "task-failed",
    "kill",
    "kill-unknown",
    "decline-suppress-revive",
    "filters-and-resubscribe",
    "reconcile",
    "agent-unreachable",
    "agent-unreachable-lost-task",
    "agent-disconnect-return",
    "agent-down-task-ends",
    "agent-gone-by-operator",
    "not-partition-aware",
    "no-checkpoint",
    "framework-failover",
    "framework-disconnect",
    "teardown",
    "subscribe-errors",
    "stale-offers",
    "subscribe-heartbeat",
    "reserve-volume",
    "shared-volume",
    "operation-feedback",
    "hazard-operation-ack-agent",
    "revocable",
    "quota",
    "maintenance",
    "agent-drain",
    "agent-leaves",
    "offer-timeout",
    "invalid-tasks",
    "kill-override",
    "update-framework",
    "merged-offers",
    "gpu",
    "health-check",
    "master-failover",
    "recovered-agent-timeout",
    "master-failover-agent-missing",
    "task-group",
    "task-group-failure",
    "hazard-same-id-in-group",
    "custom-executor",
    "executor-killed",
    "multi-role-offers",
];

/// The scenarios of headers, bytes and framing, which are played against the HTTP server in `io/mesos-sim`.
const OVER_HTTP: &[&str] = &["http-errors", "http-auth", "raw-stream"];

/// Batches come every 250 ms in the recordings; a step of 10 ms is finer than anything that depends on it.
const PHASES: std::ops::Range<u64> = 0..25;

/// A real master waits the interval after each batch, which itself takes up to some milliseconds.
const INTERVALS: [u64; 3] = [250, 251, 252];

#[test]
fn the_simulated_master_does_what_the_real_one_did() {
    let recordings: Vec<String> = Recording::names()
        .into_iter()
        .filter(|name| SCENARIOS.contains(&scenario(name)))
        .collect();
    let (mut n_compared, mut failures) = (0, Vec::new());
    for name in &recordings {
        let outcome = best(name);
        n_compared += outcome.n_compared;
        println!("{name}: {} compared", outcome.n_compared);
        if !outcome.differences.is_empty() {
            failures.push(format!("{name}:\n  {}", outcome.differences.join("\n  ")));
        }
    }
    println!("{} recordings, {n_compared} exchanges compared", recordings.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(n_compared > 1100, "only {n_compared} exchanges were compared");
}

#[test]
fn every_recording_is_played_somewhere() {
    let names = Recording::names();
    let known = || SCENARIOS.iter().chain(OVER_HTTP);
    for name in &names {
        assert!(
            known().any(|known| *known == scenario(name)),
            "{name} is in no list"
        );
    }
    for known in known() {
        assert!(
            names.iter().any(|name| scenario(name) == *known),
            "{known} has no recording"
        );
    }
}

/// A recording's name without the encoding that it was made in.
fn scenario(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn best(name: &str) -> Outcome {
    let recording = Recording::read(name);
    let mut outcomes = Vec::new();
    for (interval, phase) in INTERVALS
        .into_iter()
        .flat_map(|interval| PHASES.map(move |phase| (interval, phase)))
    {
        let outcome = play(&recording, phase * 10, interval);
        if outcome.differences.is_empty() {
            return outcome;
        }
        outcomes.push(outcome);
    }
    outcomes
        .into_iter()
        .min_by_key(|outcome| outcome.differences.len())
        .unwrap()
}
