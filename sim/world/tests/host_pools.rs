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

#[test]
fn hosts_move_and_come_back_whatever_goes_wrong() {
    let mut changed = 0;
    for seed in 1..=40 {
        let outcome = World::play(seed, moved());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        changed += outcome.moved;
    }
    assert!(changed > 0, "no host ever moved");
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
    for seed in 1..=10 {
        let outcome = World::play(seed, options.clone());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
    }
}
