//! Resource managers that are dead for longer than grants hold: what is reserved begins without them, and no more.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{FaultRates, Options, World};

/// Cores that each pool has reserved, of 24.
const RESERVED: u64 = 6;

fn abandoned() -> Options {
    Options {
        shards: 2,
        pools: 2,
        jobs: 0,
        reserved: RESERVED,
        lease: Span::seconds(60),
        faulty: Span::minutes(5),
        ..Options::calm()
    }
}

#[test]
fn reserved_work_begins_inside_its_parts_when_resource_managers_are_dead() {
    for seed in 1..=10 {
        let end = World::abandoned(seed, abandoned());
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        assert_eq!(
            (end.before, end.alone, end.after),
            (0, RESERVED, 24),
            "seed {seed}: {tail}"
        );
    }
}

#[test]
fn and_stays_inside_them_whatever_else_goes_wrong() {
    let mut begun = 0;
    for seed in 1..=40 {
        let options = Options {
            faults: FaultRates {
                crashes: 4,
                pauses: 2,
                links: 2,
                streams: 2,
                storage: 20,
                calls: 20,
                ..FaultRates::default()
            },
            ..abandoned()
        };
        let end = World::abandoned(seed, options);
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        begun += u64::from(end.alone > end.before);
    }
    assert!(begun > 20, "{begun} of 40 worlds began anything alone");
}
