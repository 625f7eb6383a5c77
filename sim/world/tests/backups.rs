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

/// Users submit jobs and change their minds before the backup is taken, after it and while all is frozen.
fn with_users() -> Options {
    Options {
        jobs: 5,
        hosts: 5,
        ..put_back()
    }
}

/// `ECHELON_FIRST_SEED` and `ECHELON_SEEDS` choose others.
#[expect(clippy::disallowed_methods, reason = "a person chooses the seeds")]
fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("ECHELON_FIRST_SEED").unwrap_or(*seeds.start());
    let count = number("ECHELON_SEEDS").unwrap_or(seeds.count() as u64);
    let mut broken = Vec::new();
    for seed in first..first + count {
        let detailed = count == 1;
        let outcome = World::play(
            seed,
            Options {
                detailed,
                ..options.clone()
            },
        );
        assert!(outcome.resumed == 1 || !outcome.broken.is_empty(), "seed {seed}");
        if !outcome.broken.is_empty() {
            broken.push((seed, outcome.broken, outcome.tail.join("\n")));
        }
    }
    let told: Vec<String> = broken
        .iter()
        .map(|(seed, b, _)| format!("seed {seed}: {b:?}"))
        .collect();
    let tail = broken.first().map_or("", |(_, _, tail)| tail);
    assert!(told.is_empty(), "{tail}\n{}", told.join("\n"));
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

#[test]
fn what_users_ask_for_after_the_backup_is_lost_and_nothing_runs_twice() {
    play(1..=20, &with_users());
}

#[test]
fn and_where_users_and_faults_are_many() {
    let options = Options {
        faults: FaultRates {
            crashes: 3,
            blips: 3,
            streams: 2,
            storage: 10,
            calls: 10,
            ..put_back().faults
        },
        ..with_users()
    };
    play(1..=21, &options);
}
