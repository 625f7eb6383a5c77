//! Operators put a backup of storage back. Everything freezes until they resume it, and nothing runs twice.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn put_back() -> Options {
    Options {
        shards: 2,
        managers: 2,
        hosts: 4,
        jobs: 0,
        lasting: 12,
        faulty: Span::minutes(4),
        settle: Span::minutes(8),
        faults: FaultRates {
            backups: 1,
            ..FaultRates::default()
        },
        ..Options::calm()
    }
}

fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) {
    for seed in seeds {
        let outcome = World::play(seed, options.clone());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        assert_eq!(outcome.resumed, 1, "seed {seed}");
    }
}

#[test]
fn a_backup_that_is_put_back_freezes_all_and_doubles_nothing() {
    play(1..=20, &put_back());
}

#[test]
fn and_where_processes_fail_too() {
    let options = Options {
        faults: FaultRates {
            crashes: 3,
            blips: 3,
            streams: 2,
            storage: 10,
            calls: 10,
            ..put_back().faults
        },
        ..put_back()
    };
    play(1..=20, &options);
}
