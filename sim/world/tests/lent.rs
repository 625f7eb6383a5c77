//! Work that runs on what hosts lend: it is ended when they want it back, begins again when they lend again, and what it takes is
//! judged after each step by the invariants.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_core_testkit::build::JobBuilder;
use echelon_sim_world::{FaultRates, Options, World};

/// A host that lends now two cores, now one, now none.
fn moody() -> Options {
    Options {
        clusters: 1,
        hosts: 1,
        lent: 2,
        jobs: 0,
        detailed: true,
        faults: FaultRates {
            estimates: 12,
            ..FaultRates::default()
        },
        ..Options::calm()
    }
}

#[test]
fn what_is_preempted_uses_up_no_retry_and_runs_again_when_room_is_lent() {
    let (mut preempted, mut again) = (0, 0);
    for seed in 1..=8 {
        let job = JobBuilder::service("lent", 2).retry_limit(1).revocable();
        let lines = World::walk(seed, moody(), job.build());
        let end = lines.iter().position(|l| l.contains("CONTAINER_PREEMPTED"));
        let after = lines.iter().skip(end.unwrap_or(usize::MAX));
        preempted += usize::from(end.is_some());
        again += after.filter(|l| l.contains("calls Accept")).count();
        let used_up = lines.iter().any(|l| l.contains("RetriesExhausted"));
        assert!(!used_up, "seed {seed}: {}", lines.join("\n"));
    }
    assert!(
        preempted > 0 && again > 0,
        "{preempted} preempted, {again} begun again"
    );
}

#[test]
fn in_the_end_all_that_is_wanted_runs() {
    let options = Options {
        jobs: 3,
        hosts: 3,
        lent: 4,
        settle: Span::minutes(8),
        ..moody()
    };
    for seed in 1..=10 {
        let outcome = World::play(seed, options.clone());
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
    }
}
