//! What became of offers, as counters that go on over leaderships: the driver counts anew in each.

use echelon_core_hosts::Tally;
use echelon_io_process::Metrics;
use echelon_io_process::metrics::MetricError;
use prometheus::IntCounter;

/// The handles.
pub(super) struct Offers {
    received: IntCounter,
    accepted: IntCounter,
    declined: IntCounter,
    rescinded: IntCounter,
    void: IntCounter,
    unused_ms: IntCounter,
    seen: Tally,
}

impl Offers {
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        let ended = metrics.counters(
            "echelon_shard_offers_total",
            "Offers that ended, by outcome: accepted by us, declined by us, rescinded by Mesos, void with their subscription.",
            &["outcome"],
        )?;
        let of = |outcome| ended.with_label_values(&[outcome]);
        Ok(Self {
            received: metrics.counter(
                "echelon_shard_offers_received_total",
                "Offers received; less those that ended it is those that are open.",
            )?,
            accepted: of("accepted"),
            declined: of("declined"),
            rescinded: of("rescinded"),
            void: of("void"),
            unused_ms: metrics.counter(
                "echelon_shard_unused_offer_milliseconds_total",
                "How long offers were held that were not accepted, in sum.",
            )?,
            seen: Tally::default(),
        })
    }

    /// Counts what is new.
    pub(super) fn look(&mut self, tally: Tally) {
        let seen = std::mem::replace(&mut self.seen, tally);
        // A new leadership counts from nothing.
        let seen = if tally.received < seen.received {
            Tally::default()
        } else {
            seen
        };
        for (counter, now, before) in [
            (&self.received, tally.received, seen.received),
            (&self.accepted, tally.accepted, seen.accepted),
            (&self.declined, tally.declined, seen.declined),
            (&self.rescinded, tally.rescinded, seen.rescinded),
            (&self.void, tally.void, seen.void),
            (&self.unused_ms, tally.held_unused.0, seen.held_unused.0),
        ] {
            counter.inc_by(now.saturating_sub(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::time::Span;

    #[test]
    fn a_new_leadership_adds_to_the_old_one() {
        let mut offers = Offers::new(&Metrics::new(&[], "test", "test").unwrap()).unwrap();
        let tally = |received, declined, ms| Tally {
            received,
            declined,
            held_unused: Span(ms),
            ..Tally::default()
        };
        for told in [
            tally(5, 3, 100),
            tally(7, 7, 150),
            tally(7, 7, 150),
            Tally::default(),
            tally(2, 1, 20),
        ] {
            offers.look(told);
        }
        let counted = [&offers.received, &offers.declined, &offers.unused_ms].map(IntCounter::get);
        assert_eq!(counted, [9, 8, 170]);
    }
}
