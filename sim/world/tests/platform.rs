//! Agents that drop every task for a while, as one with a full disk does: what is wanted runs in the end, on other hosts or
//! there again, and no job fails for it.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn dropping() -> Options {
    Options {
        shards: 2,
        managers: 2,
        jobs: 4,
        faulty: Span::minutes(4),
        settle: Span::minutes(8),
        faults: FaultRates {
            starts: 6,
            ..FaultRates::default()
        },
        ..Options::calm()
    }
}

#[test]
fn all_that_is_wanted_runs_although_agents_drop_tasks_for_a_while() {
    let mut dropped = 0;
    for seed in 1..=20 {
        let outcome = World::play(seed, dropping());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        dropped += outcome.dropped;
    }
    // Each instance fails at a host once or twice, and not each second.
    assert!((20..2_000).contains(&dropped), "{dropped} tasks were dropped");
}

#[test]
fn and_in_worlds_where_processes_fail_too() {
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
                ..dropping().faults
            },
            ..dropping()
        };
        let outcome = World::play(seed, options);
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
    }
}
