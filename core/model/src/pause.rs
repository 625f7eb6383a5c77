//! The time between two leaders. Moments are stored as the clock of their writer told them, and whoever leads next has another
//! clock. The mark of the leader before ([`Mark`](crate::store::Mark)) says what its clock told last, so that a span which began under it
//! goes on where it stopped: the time in between adds nothing, and it does not matter what the two clocks say.

use crate::time::{Span, Timestamp};

/// What the clock of the leader before told last, and what ours told when we took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    from: Timestamp,
    until: Timestamp,
}

impl Pause {
    /// The pause that ends now, after a mark of the moment `from`.
    #[must_use]
    pub const fn new(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until }
    }

    /// The moment of our clock from which a span is counted that began at the stored moment `at`. Moments of our own stay what they are.
    ///
    /// Where our clock is behind, a moment that lies ahead of it is of the leader before. One that lies behind it is taken for our own
    /// from then on: so a span that is longer than the clocks are apart may last up to twice as long, and none ends early.
    #[must_use]
    pub fn counted_from(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        if self.until >= self.from {
            if at >= self.until {
                return at;
            }
            // What was stored after the mark, or by others meanwhile, counts from when we took over.
            return Timestamp(self.until.0.saturating_sub(self.from.since(at).0));
        }
        if at <= now {
            return at;
        }
        Timestamp(at.0.saturating_sub(self.from.since(self.until).0)).min(now)
    }

    /// When a span ends that began at the stored moment `at`.
    #[must_use]
    pub fn due(&self, at: Timestamp, span: Span, now: Timestamp) -> Timestamp {
        self.counted_from(at, now).plus(span)
    }

    /// The moment of our clock for one that was to come by the clock of the leader before.
    #[must_use]
    pub fn to_come(&self, at: Timestamp) -> Timestamp {
        self.until.plus(at.since(self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(n: u64) -> Timestamp {
        Timestamp(n * 60_000)
    }

    #[test]
    fn a_span_goes_on_where_it_stopped_whatever_the_next_clock_says() {
        // The mark is of minute 120; the next leader is an hour ahead, right, or behind by an hour.
        for until in [180, 121, 60] {
            let pause = Pause::new(minutes(120), minutes(until));
            // It began ten minutes before the mark: of 15 minutes 5 are left.
            let left = Span::minutes(5);
            let began = minutes(110);
            let due = pause.due(began, Span::minutes(15), minutes(until));
            assert_eq!(due, minutes(until).plus(left), "{until}");
            // The same when it is looked at later.
            let later = minutes(until).plus(Span::minutes(4));
            assert_eq!(pause.due(began, Span::minutes(15), later), due, "{until}");
            // Our own moments stay what they are.
            assert_eq!(pause.counted_from(later, later), later);
        }
    }

    #[test]
    fn what_was_stored_between_two_leaders_counts_from_the_takeover() {
        let pause = Pause::new(minutes(120), minutes(180));
        for at in [120, 150, 180] {
            assert_eq!(pause.counted_from(minutes(at), minutes(181)), minutes(180));
        }
    }

    #[test]
    fn no_span_ends_early_and_none_lasts_more_than_twice_as_long() {
        for ahead in [0, 1, 59, 61, 240] {
            for until in [0_u64, 30, 90, 100, 119, 120, 121, 300] {
                let pause = Pause::new(minutes(120), minutes(until));
                for began in 0..=120_u64 {
                    let span = Span::minutes(ahead);
                    let ran = 120 - began;
                    let left = ahead.saturating_sub(ran);
                    // The first minute of our clock at which it is due.
                    let due =
                        (until..).find(|now| pause.due(minutes(began), span, minutes(*now)) <= minutes(*now));
                    let waited = due.unwrap_or(u64::MAX) - until;
                    assert!(
                        waited >= left,
                        "{until} {began} {ahead}: {waited}, {left} were left"
                    );
                    let most = if until >= 120 { left } else { 2 * ahead };
                    assert!(waited <= most.max(left), "{until} {began} {ahead}: {waited}");
                }
            }
        }
    }

    #[test]
    fn what_was_to_come_comes_as_much_later() {
        let pause = Pause::new(minutes(120), minutes(180));
        assert_eq!(pause.to_come(minutes(125)), minutes(185));
        assert_eq!(pause.to_come(minutes(100)), minutes(180));
    }
}
