//! A cluster is lost for some minutes and returns: what runs there is replaced by the policy of its job, in time, and each
//! instance runs once after the return.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

fn calm() -> Options {
    Options {
        jobs: 0,
        shards: 2,
        managers: 2,
        clusters: 3,
        faulty: Span::minutes(12),
        ..Options::calm()
    }
}

fn play(seeds: std::ops::RangeInclusive<u64>, options: &Options) -> u64 {
    let mut replaced = 0;
    for seed in seeds {
        let end = World::lost(seed, options.clone());
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        replaced += end.replaced;
    }
    replaced
}

#[test]
fn what_runs_at_a_lost_cluster_is_replaced_and_runs_once_after_its_return() {
    let replaced = play(1..=30, &calm());
    assert!(replaced >= 30, "{replaced} instances were replaced");
}

#[test]
fn whatever_else_goes_wrong_meanwhile() {
    let options = Options {
        faults: FaultRates::of_echelon(),
        ..calm()
    };
    let replaced = play(1..=20, &options);
    assert!(replaced > 0, "nothing was replaced");
}
