//! Clocks of processes. Each is set wrong by a constant time of its own, and goes too fast or too slow by a
//! constant rate of its own. So two processes show different times, and measure different spans. The time of
//! the world is the true one.

use crate::dice::Die;
use crate::world::BEGIN;
use echelon_core_model::{Span, Timestamp};

/// Millionths of one.
const ONE: u64 = 1_000_000;
/// The most by which a clock is too fast or too slow: 1 %. Start leases and fences are reckoned for that.
const MOST_WRONG: u64 = ONE / 100;

/// The most by which a clock is ahead or behind at first.
const MOST_APART: Span = Span::seconds(10);

/// The clock of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// What it shows when the world begins.
    at_first: Timestamp,
    /// By how many millionths of a second it goes on in a second of the world.
    rate: u64,
}

impl Clock {
    /// One that shows the time of the world.
    pub const TRUE: Self = Self {
        at_first: BEGIN,
        rate: ONE,
    };

    /// One of which it is drawn how wrong it is.
    pub(crate) fn drawn(die: &mut Die) -> Self {
        let rate = ONE - MOST_WRONG + die.below(2 * MOST_WRONG + 1);
        let ahead = die.span(Span::ZERO, Span(2 * MOST_APART.0 + 1));
        let at_first = Timestamp(BEGIN.0 - MOST_APART.0).plus(ahead);
        Self { at_first, rate }
    }

    /// What it shows at a moment of the world.
    pub fn shown(self, moment: Timestamp) -> Timestamp {
        let product = u128::from(moment.since(BEGIN).0) * u128::from(self.rate);
        self.at_first.plus(span(product / u128::from(ONE)))
    }

    /// The first moment of the world at which it shows no less than this.
    pub fn moment(self, shown: Timestamp) -> Timestamp {
        let product = u128::from(shown.since(self.at_first).0) * u128::from(ONE);
        BEGIN.plus(span(product.div_ceil(u128::from(self.rate))))
    }
}

fn span(millis: u128) -> Span {
    Span(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_moment_when_it_has_come_and_not_before() {
        let behind = Timestamp(BEGIN.0 - MOST_APART.0);
        let ahead = BEGIN.plus(MOST_APART);
        for at_first in [behind, BEGIN, ahead] {
            for rate in [ONE - MOST_WRONG, ONE - 7, ONE, ONE + MOST_WRONG] {
                let clock = Clock { at_first, rate };
                for millis in [0, 1, 99, 100, 101, 123_457, 3_600_000] {
                    let shown = at_first.plus(Span(millis));
                    let moment = clock.moment(shown);
                    assert!(clock.shown(moment) >= shown, "{clock:?} {millis}");
                    let before = Timestamp(moment.0 - 1);
                    assert!(millis == 0 || clock.shown(before) < shown, "{clock:?} {millis}");
                }
            }
        }
    }
}
