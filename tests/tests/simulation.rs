//! The whole federation in virtual time: a thousand seeds of a small world in which everything goes wrong. A failing seed
//! is printed as the command that replays it, with the last lines of what happened.
//!
//! `ECHELON_SEED=17` plays that seed alone; `ECHELON_SEEDS=100000` plays more, from `ECHELON_FIRST_SEED` on.
#![cfg(test)]

use echelon_sim_world::{Options, Outcome, World};
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS_IN_CI: u64 = 1000;
const CONTESTED_IN_CI: u64 = 150;
const WITH_DAEMONS_IN_CI: u64 = 150;
const UNDER_PRESSURE_IN_CI: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

fn told(name: &str, seed: u64, outcome: &Outcome) -> String {
    let broken: Vec<String> = outcome.broken.iter().map(ToString::to_string).collect();
    format!(
        "{}\n\nseed {seed} breaks:\n  {}\nreplay it with\n  ECHELON_SEED={seed} cargo test -p echelon-tests --test simulation {name}\n",
        outcome.tail.join("\n"),
        broken.join("\n  "),
    )
}

/// Plays seeds on every core and stops at the first that breaks something.
fn play(first: u64, count: u64, options: &Options) -> Option<(u64, Outcome)> {
    let next = AtomicU64::new(first);
    let end = first + count;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return None;
                        }
                        let outcome = World::play(seed, options.clone());
                        if !outcome.broken.is_empty() {
                            next.store(end, Ordering::Relaxed);
                            return Some((seed, outcome));
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|w| w.join().expect("a worker that does not panic"))
            .min_by_key(|(seed, _)| *seed)
    })
}

/// One seed in all detail where `ECHELON_SEED` asks for it, else `count` seeds.
fn chosen(count: u64, options: Options) -> Option<(u64, Outcome)> {
    match number("ECHELON_SEED") {
        Some(seed) => play(
            seed,
            1,
            &Options {
                detailed: true,
                ..options
            },
        ),
        None => play(number("ECHELON_FIRST_SEED").unwrap_or(1), count, &options),
    }
}

#[test]
fn calm_worlds_come_to_a_good_end() {
    if let Some((seed, outcome)) = chosen(20, Options::calm()) {
        panic!("{}", told("calm", seed, &outcome));
    }
}

#[test]
fn storms_break_nothing() {
    let count = number("ECHELON_SEEDS").unwrap_or(SEEDS_IN_CI);
    if let Some((seed, outcome)) = chosen(count, Options::stormy()) {
        panic!("{}", told("storms", seed, &outcome));
    }
}

#[test]
fn daemons_are_on_every_host_in_the_end() {
    let count = number("ECHELON_SEEDS").unwrap_or(WITH_DAEMONS_IN_CI);
    if let Some((seed, outcome)) = chosen(count, Options::with_daemons()) {
        panic!("{}", told("daemons", seed, &outcome));
    }
}

#[test]
fn pools_that_want_more_than_there_is_have_their_parts_in_the_end() {
    let count = number("ECHELON_SEEDS").unwrap_or(CONTESTED_IN_CI);
    if let Some((seed, outcome)) = chosen(count, Options::contested()) {
        panic!("{}", told("pools_that_want", seed, &outcome));
    }
}

#[test]
fn nested_pools_under_pressure_are_fair_and_lose_nothing() {
    let count = number("ECHELON_SEEDS").unwrap_or(UNDER_PRESSURE_IN_CI);
    if let Some((seed, outcome)) = chosen(count, Options::under_pressure()) {
        panic!("{}", told("nested_pools", seed, &outcome));
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let (a, b) = (
        World::play(7, Options::stormy()),
        World::play(7, Options::stormy()),
    );
    assert_eq!((a.hash, a.steps), (b.hash, b.steps));
    assert_ne!(a.hash, World::play(8, Options::stormy()).hash);
}
