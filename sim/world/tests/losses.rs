//! Mass losses: most hosts of a cluster are lost together, and its next master does not know them. The shard
//! replaces nothing until an operator, to whom the loss is shown, accepts it.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn losing() -> Options {
    Options {
        shards: 2,
        managers: 2,
        hosts: 5,
        jobs: 3,
        lasting: 24,
        faulty: Span::minutes(4),
        settle: Span::minutes(8),
        faults: FaultRates {
            losses: 1,
            ..FaultRates::default()
        },
        ..Options::calm()
    }
}

#[test]
fn all_that_is_wanted_runs_after_accepted_losses() {
    let mut accepted = 0;
    for seed in 1..=20 {
        let outcome = World::play(seed, losing());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        accepted += outcome.accepted;
    }
    assert!(accepted >= 10, "{accepted} losses in 20 worlds were accepted");
}

#[test]
fn and_in_worlds_where_processes_fail_too() {
    let mut accepted = 0;
    for seed in 1..=20 {
        let options = Options {
            faults: FaultRates {
                crashes: 4,
                pauses: 2,
                blips: 4,
                links: 2,
                streams: 2,
                storage: 20,
                calls: 20,
                ..losing().faults
            },
            ..losing()
        };
        let outcome = World::play(seed, options);
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        accepted += outcome.accepted;
    }
    assert!(accepted >= 10, "{accepted} losses in 20 worlds were accepted");
}
