//! The start lease: work that was granted to a shard which is cut off, and has not begun, moves to another cluster, and
//! nothing ever begins at both. The shard returns before, about and after the minute, and leaders die meanwhile.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn calm() -> Options {
    Options {
        jobs: 0,
        shards: 2,
        managers: 2,
        faulty: Span::minutes(12),
        ..Options::calm()
    }
}

fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) -> (u64, u64) {
    let (mut moved, mut forbidden) = (0, 0);
    for seed in seeds {
        let end = World::silenced(seed, options.clone());
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        assert_eq!(end.living, 18, "seed {seed}: {tail}");
        moved += end.moved;
        forbidden += end.forbidden;
    }
    (moved, forbidden)
}

#[test]
fn what_has_not_begun_at_a_silent_shard_moves_and_begins_once() {
    let (moved, forbidden) = play(1..=40, &calm());
    assert!(forbidden >= 20, "starts were forbidden {forbidden} times");
    assert!(moved >= 20, "{moved} instances moved");
}

#[test]
fn whatever_else_goes_wrong_meanwhile() {
    let options = Options {
        faults: FaultRates {
            crashes: 3,
            pauses: 3,
            blips: 2,
            links: 2,
            streams: 2,
            storage: 20,
            calls: 20,
            ..FaultRates::default()
        },
        ..calm()
    };
    let (moved, _) = play(1..=40, &options);
    assert!(moved > 0, "nothing moved");
}
