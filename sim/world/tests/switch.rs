//! Kills that are switched off: what is stopped lives on, and ends when they are on again.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn switched() -> Options {
    Options {
        jobs: 6,
        faulty: Span::minutes(4),
        settle: Span::minutes(8),
        detailed: true,
        faults: FaultRates {
            switches: 3,
            ..FaultRates::default()
        },
        ..Options::calm()
    }
}

#[test]
fn what_is_to_end_waits_for_the_switch_and_ends_then() {
    let mut withheld = 0;
    for seed in 1..=20 {
        let outcome = World::play(seed, switched());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        withheld += outcome.withheld;
    }
    assert!(withheld > 0, "no shard ever had a reason to hold a kill back");
}
