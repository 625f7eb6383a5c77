//! Hosts that are moved to another host pool and back while everything else goes wrong.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

/// Storms in which operators move hosts in place of draining them.
fn moved() -> Options {
    let stormy = Options::stormy();
    Options {
        daemons: 250,
        bounded: 0,
        faults: FaultRates {
            moves: 5,
            drains: 0,
            ..stormy.faults
        },
        ..stormy
    }
}

/// `ECHELON_FIRST_SEED` and `ECHELON_SEEDS` choose others. How often a host changed its pool.
#[expect(clippy::disallowed_methods, reason = "a person chooses the seeds")]
fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) -> u64 {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("ECHELON_FIRST_SEED").unwrap_or(*seeds.start());
    let count = number("ECHELON_SEEDS").unwrap_or(seeds.count() as u64);
    let mut moved = 0;
    for seed in first..first + count {
        let options = Options {
            detailed: count == 1,
            ..options.clone()
        };
        let outcome = World::play(seed, options);
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        moved += outcome.moved;
    }
    moved
}

#[test]
fn hosts_move_and_come_back_whatever_goes_wrong() {
    assert!(play(1..=40, &moved()) > 0, "no host ever moved");
}

#[test]
fn hosts_move_in_a_calm_world() {
    let options = Options {
        jobs: 5,
        faults: FaultRates {
            moves: 4,
            ..FaultRates::default()
        },
        settle: Span::minutes(8),
        ..Options::calm()
    };
    play(1..=10, &options);
}
