//! Worlds of 2 to 6 clusters that are cut off, lose their Mesos or all machines, are drained, added and
//! removed, while partitions divide sites, leaders die and users change their jobs. Judges read what agents ran
//! (`sim/world/src/federation.rs`).
//!
//! `ECHELON_SEED=17` plays that seed alone, in all detail; `ECHELON_SEEDS=2000` plays more, from
//! `ECHELON_FIRST_SEED` on.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, FederationFigures, Options, World};

/// Worlds of each change, in all tests together.
const SEEDS: u64 = 200;
/// Tests that divide them, so that they are played side by side.
const PARTS: u64 = 2;

#[expect(clippy::disallowed_methods, reason = "a person chooses the seeds")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// In each second world operations of storage and calls to Mesos get lost, too.
fn options(seed: u64) -> Options {
    let faults = if seed.is_multiple_of(2) {
        FaultRates::default()
    } else {
        FaultRates {
            storage: 10,
            calls: 10,
            links: 1,
            streams: 1,
            ..FaultRates::default()
        }
    };
    Options {
        faults,
        ..Options::of_many_clusters()
    }
}

fn add(sum: &mut FederationFigures, of: FederationFigures) {
    sum.moved += of.moved;
    sum.disrupted += of.disrupted;
    sum.voluntary += of.voluntary;
    sum.health += of.health;
    sum.unhealthy += of.unhealthy;
    sum.unheard += of.unheard;
    sum.partitions += of.partitions;
    sum.added += of.added;
    sum.removed += of.removed;
}

/// Plays a part of the seeds.
fn play(part: u64) {
    let mut sum = FederationFigures::default();
    let single = number("ECHELON_SEED");
    let count = if single.is_some() {
        1
    } else {
        number("ECHELON_SEEDS").unwrap_or(SEEDS)
    };
    let first = single.or(number("ECHELON_FIRST_SEED")).unwrap_or(1);
    let seeds = (first..first + count).filter(|seed| seed / 2 % PARTS == part);
    for seed in seeds {
        let options = Options {
            detailed: single.is_some(),
            ..options(seed)
        };
        let end = World::federated(seed, options);
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        add(&mut sum, end.figures);
    }
    // What is judged has happened.
    if count >= SEEDS {
        let has_all = [
            sum.moved,
            sum.disrupted,
            sum.voluntary,
            sum.unhealthy,
            sum.unheard,
            sum.partitions,
            sum.added,
            sum.removed,
        ];
        assert!(has_all.iter().all(|n| *n >= 5), "{sum:?}");
    }
}

#[test]
fn many_clusters_keep_their_promises_in_half_of_the_worlds() {
    play(0);
}

#[test]
fn many_clusters_keep_their_promises_in_the_other_half() {
    play(1);
}

#[test]
fn the_same_seed_is_the_same_history() {
    let play = |seed| {
        World::federated(
            seed,
            Options {
                settle: Span::minutes(1),
                ..options(seed)
            },
        )
    };
    assert_eq!(play(7).outcome.hash, play(7).outcome.hash);
}
