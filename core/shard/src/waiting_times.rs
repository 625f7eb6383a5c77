//! Since when each reason for waiting holds. Between two placements a reason may be absent for a moment, since
//! the offers that it is about were declined or are used by others. It goes on if it is there again soon and
//! nothing of the group has begun meanwhile.

use echelon_core_model::{ReasonCode, Span, Timestamp};
use std::collections::BTreeMap;

/// How long a reason may be absent and still go on.
const LONGEST_ABSENCE: Span = Span::seconds(10);

/// Since when each reason of a group holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingTimes(BTreeMap<ReasonCode, WaitingTime>);

#[derive(Debug, Clone, Copy)]
struct WaitingTime {
    since: Timestamp,
    /// When it held last.
    seen: Timestamp,
}

impl WaitingTimes {
    /// Notes a reason that holds now. Returns since when it does.
    pub(crate) fn note(&mut self, reason: ReasonCode, now: Timestamp) -> Timestamp {
        self.0.retain(|_, time| now.since(time.seen) <= LONGEST_ABSENCE);
        let new = WaitingTime {
            since: now,
            seen: now,
        };
        let time = self.0.entry(reason).or_insert(new);
        time.seen = now;
        time.since
    }

    /// Something of the group has begun: a reason that does not hold now begins again when it is back.
    pub(crate) fn has_begun(&mut self) {
        let last = self.0.values().map(|time| time.seen).max();
        self.0.retain(|_, time| Some(time.seen) == last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: ReasonCode = ReasonCode::HostResources;
    const OFFERS: ReasonCode = ReasonCode::AwaitingOffer;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(0).plus(Span::seconds(seconds))
    }

    fn noted(times: &mut WaitingTimes, reason: ReasonCode, seconds: u64) -> Timestamp {
        times.note(reason, at(seconds))
    }

    #[test]
    fn a_reason_goes_on_over_a_moment_without_it() {
        let mut times = WaitingTimes::default();
        assert_eq!(noted(&mut times, HOSTS, 0), at(0));
        for seconds in [4, 8, 10] {
            assert_eq!(noted(&mut times, OFFERS, seconds), at(4));
        }
        assert_eq!(noted(&mut times, HOSTS, 10), at(0));
        assert_eq!(noted(&mut times, OFFERS, 15), at(4));
    }

    #[test]
    fn a_reason_begins_again_after_long_without_it() {
        let mut times = WaitingTimes::default();
        noted(&mut times, HOSTS, 0);
        noted(&mut times, OFFERS, 5);
        assert_eq!(noted(&mut times, HOSTS, 11), at(11));
    }

    #[test]
    fn a_reason_begins_again_if_something_has_begun_without_it() {
        let mut times = WaitingTimes::default();
        noted(&mut times, HOSTS, 0);
        noted(&mut times, OFFERS, 2);
        times.has_begun();
        assert_eq!(noted(&mut times, OFFERS, 3), at(2), "it has held all the time");
        assert_eq!(noted(&mut times, HOSTS, 4), at(4));
    }
}
