//! Manners: beside fifty other frameworks ours gets its work placed, holds what it does not use for less than a second on
//! average, and revives seldom. Everything is deterministic, so the bounds are asserted.
#![cfg(test)]

use echelon_core_model::Span;
use echelon_sim_world::{Options, World};

/// A cluster of 200 cores, three quarters of them taken by others whose tasks come and go.
fn crowded() -> Options {
    Options {
        clusters: 1,
        hosts: 50,
        others: 50,
        jobs: 6,
        instances: 12,
        // What is updated finds room anew each time, and others are quick.
        settle: Span::minutes(12),
        ..Options::calm()
    }
}

#[test]
fn beside_fifty_others_everything_is_placed_and_nothing_is_hoarded() {
    for seed in 2..=4 {
        let outcome = World::play(seed, crowded());
        // Invariant 3: what is wanted and fits runs in the end.
        assert_eq!(outcome.broken, [], "seed {seed}: {}", outcome.tail.join("\n"));
        // Each job has succeeded or runs; of the latter the instances count too.
        assert!(outcome.fulfilled >= 6, "seed {seed}: {}", outcome.fulfilled);
        let manners = &outcome.manners[0];
        let offers = manners.offers;
        assert!(
            offers.accepted > 5 && offers.unused() > 20,
            "seed {seed}: {offers:?}"
        );
        let mean_ms = offers.held_unused.0 / offers.unused();
        assert!(mean_ms < 1000, "seed {seed}: {mean_ms} ms, {offers:?}");
        assert_eq!(
            manners.open_offers, 0,
            "seed {seed}: an idle framework holds nothing"
        );
        let mut gaps = manners.revived.windows(2).map(|w| w[1].since(w[0]));
        assert!(
            gaps.all(|gap| gap >= Span(4_990)),
            "seed {seed}: {:?}",
            manners.revived
        );
    }
}
