//! Resource managers that are dead for longer than grants hold (law 7).
//! Nothing new begins and nothing is stopped until one is back.
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
fn what_waits_begins_when_a_resource_manager_is_back_and_not_before() {
    for seed in 1..=10 {
        let end = World::abandoned(seed, abandoned());
        let tail = end.outcome.tail.join("\n");
        assert_eq!(end.outcome.broken, [], "seed {seed}: {tail}");
        let granted = end.granted;
        let lived = (end.before, end.meanwhile, granted);
        assert_eq!(lived, (0, 0, [2, 2]), "seed {seed}: {tail}");
        assert!(end.after > RESERVED, "seed {seed}: {} {tail}", end.after);
    }
}

#[test]
fn whatever_else_goes_wrong_meanwhile() {
    let mut unled = 0;
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
        assert!(
            end.led_meanwhile || end.meanwhile <= end.before,
            "seed {seed}: {end:?}"
        );
        unled += u64::from(!end.led_meanwhile);
    }
    assert!(unled >= 10, "in {unled} of 40 worlds no resource manager led");
}
