//! Recordings of a real Mesos master are played into the simulated one: the same calls and the same ends of tasks at the
//! same times. Every answer, update and offer must be the same, but for ids and times that differ from run to run.
//!
//! What a recording does not tell is left open: when batches of offers are due (all phases of the interval are tried), and
//! how events of different kinds mix.
#![cfg(test)]
#![allow(
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
];

/// Batches come every 250 ms in the recordings; a step of 10 ms is finer than anything that depends on it.
const PHASES: std::ops::Range<u64> = 0..25;

#[test]
fn the_simulated_master_does_what_the_real_one_did() {
    let (mut n_compared, mut failures) = (0, Vec::new());
    for name in SCENARIOS {
        for encoding in ["protobuf", "json"] {
            let outcome = best(&format!("{name}.{encoding}"));
            n_compared += outcome.n_compared;
            println!("{name}.{encoding}: {} compared", outcome.n_compared);
            if !outcome.differences.is_empty() {
                failures.push(format!(
                    "{name}.{encoding}:\n  {}",
                    outcome.differences.join("\n  ")
                ));
            }
        }
    }
    println!(
        "{} recordings, {n_compared} answers and events compared",
        SCENARIOS.len() * 2
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        n_compared > 800,
        "only {n_compared} answers and events were compared"
    );
}

fn best(name: &str) -> Outcome {
    let recording = Recording::read(name);
    let mut outcomes = Vec::new();
    for phase in PHASES {
        let outcome = play(&recording, phase * 10);
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
