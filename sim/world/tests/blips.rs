//! Blips of the membership servers: leaders stand still and go on.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

/// One resource manager and one shard process of each of two clusters lead once each, whatever blips there are.
#[test]
fn a_blip_shorter_than_the_lease_costs_no_leadership() {
    let calm = Options {
        shards: 2,
        managers: 2,
        ..Options::calm()
    };
    // The first three of four blips are shorter than a lease.
    let blips = FaultRates {
        blips: 3,
        ..FaultRates::default()
    };
    for seed in 1..=20 {
        let outcome = World::play(
            seed,
            Options {
                faults: blips,
                ..calm.clone()
            },
        );
        let tail = outcome.tail.join("\n");
        assert_eq!(outcome.broken, [], "seed {seed}: {tail}");
        assert_eq!(outcome.leaderships, 3, "seed {seed}: {tail}");
    }
}

/// Longer ones pass the leadership on, and nothing breaks.
#[test]
fn blips_of_any_length_break_nothing() {
    let mut leaderships = 0;
    for seed in 1..=20 {
        let outcome = World::play(
            seed,
            Options {
                shards: 2,
                managers: 2,
                faulty: Span::minutes(3),
                faults: FaultRates {
                    blips: 24,
                    storage: 20,
                    ..FaultRates::default()
                },
                ..Options::calm()
            },
        );
        let tail = outcome.tail.join("\n");
        assert_eq!(outcome.broken, [], "seed {seed}: {tail}");
        leaderships += outcome.leaderships;
    }
    assert!(leaderships > 60, "{leaderships}");
}
