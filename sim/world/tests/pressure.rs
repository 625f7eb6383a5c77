//! Nested pools that want more than there is, mixed shapes and kinds of work, and clusters that join, drain, are
//! cordoned and are lost: what is stopped is needed, and in the end the trees are fair.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

/// Nothing fails but clusters and shares.
fn quiet() -> Options {
    Options {
        shards: 1,
        managers: 1,
        faults: FaultRates {
            joins: 1,
            wishes: 3,
            outages: 1,
            shares: 3,
            ..FaultRates::default()
        },
        settle: Span::minutes(20),
        ..Options::under_pressure()
    }
}

#[test]
fn clusters_and_shares_that_change_leave_nested_trees_fair() {
    let mut preempted = 0;
    for seed in 1..=40 {
        let outcome = World::play(seed, quiet());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        preempted += outcome.preempted;
    }
    assert!(preempted >= 20, "{preempted} runs were preempted in 40 worlds");
}
