//! Mass losses: agents vanish while their master fails over, an operator accepts what was lost, and all of it runs again.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

#[test]
fn what_an_operator_accepts_runs_again_and_no_run_is_doubled() {
    let mut accepted = 0;
    for seed in 1..=30 {
        let outcome = World::play(
            seed,
            Options {
                clusters: 1,
                hosts: 4,
                jobs: 6,
                instances: 12,
                faulty: Span::minutes(8),
                settle: Span::minutes(8),
                faults: FaultRates {
                    agents: 24,
                    masters: 6,
                    crashes: 3,
                    ..FaultRates::default()
                },
                ..Options::calm()
            },
        );
        let tail = outcome.tail.join("\n");
        assert_eq!(outcome.broken, [], "seed {seed}: {tail}");
        accepted += outcome.accepted_losses;
    }
    assert!(accepted > 0, "no world had a mass loss");
}
