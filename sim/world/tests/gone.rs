//! An agent that an operator marks as gone, and one that is replaced at its address: no two runs of an
//! instance live at once, and all comes back within the promised time, by the flags of agents and by
//! `on_gone`.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};
use std::collections::BTreeSet;

fn calm() -> Options {
    Options {
        jobs: 0,
        shards: 2,
        managers: 2,
        clusters: 1,
        hosts: 6,
        faulty: Span::minutes(12),
        ..Options::calm()
    }
}

/// Plays these seeds: how many instances were replaced, and how long executors waited for their agents.
fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) -> (u64, BTreeSet<Span>) {
    let (mut replaced, mut recoveries) = (0, BTreeSet::new());
    for seed in seeds {
        let end = World::gone(seed, options.clone());
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}, {:?}: {tail}", end.recovery);
        replaced += end.replaced;
        recoveries.extend(end.recovery);
    }
    (replaced, recoveries)
}

#[test]
fn what_ran_on_agents_that_are_gone_comes_back_in_time_and_never_twice() {
    let (replaced, recoveries) = play(1..=24, &calm());
    assert!(replaced >= 72, "{replaced} instances were replaced");
    assert!(recoveries.len() >= 4, "{recoveries:?}");
}

#[test]
fn whatever_else_goes_wrong_meanwhile() {
    let options = Options {
        faults: FaultRates::of_echelon(),
        ..calm()
    };
    let (replaced, _) = play(1..=20, &options);
    assert!(replaced > 0, "nothing was replaced");
}
