//! When a leader that cannot do what its role needs gives way: after a while, to a candidate that can, and ever more rarely, so
//! that two processes do not pass a leadership to and fro.

use std::time::Duration;
use tokio::time::Instant;

/// A leader that had no contact for this long gives way. A candidate that had some within this time is able.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// After the first time, it does not give way again for this long; doubled each time.
const FIRST_RECESS: Duration = Duration::from_secs(60);
const LONGEST_RECESS: Duration = Duration::from_secs(3600);

/// How a process has fared as a leader.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Since when it has led without contact.
    without: Option<Instant>,
    not_before: Option<Instant>,
    recess: Duration,
}

impl Default for Handover {
    fn default() -> Self {
        Self {
            without: None,
            not_before: None,
            recess: FIRST_RECESS,
        }
    }
}

impl Handover {
    /// Takes in whether the process leads and has contact; whether it should look for one that is able.
    pub(crate) fn is_due(&mut self, leads: bool, able: bool, now: Instant) -> bool {
        if !leads || able {
            self.without = None;
            if able && self.not_before.is_some_and(|at| now >= at + self.recess) {
                *self = Self::default();
            }
            return false;
        }
        let since = *self.without.get_or_insert(now);
        now >= since + PATIENCE && self.not_before.is_none_or(|at| now >= at)
    }

    /// It gave way.
    pub(crate) fn gave_way(&mut self, now: Instant) {
        self.without = None;
        self.not_before = Some(now + self.recess);
        self.recess = (self.recess * 2).min(LONGEST_RECESS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_a_leader_that_was_long_without_contact_gives_way() {
        let start = Instant::now();
        let mut handover = Handover::default();
        // (at, leads, able, due)
        let table = [
            (0, true, false, false),
            (9, true, false, false),
            (10, true, false, true),
            (11, true, true, false),
            (12, true, false, false),
            (21, true, false, false),
            (22, true, false, true),
            (23, false, false, false),
            (24, true, false, false),
        ];
        for (at, leads, able, due) in table {
            assert_eq!(handover.is_due(leads, able, start + s(at)), due, "at {at}");
        }
    }

    #[test]
    fn it_gives_way_ever_more_rarely_and_contact_forgives() {
        let start = Instant::now();
        let mut handover = Handover::default();
        let (mut now, mut gave_way) = (0, Vec::new());
        while gave_way.len() < 4 {
            if handover.is_due(true, false, start + s(now)) {
                handover.gave_way(start + s(now));
                gave_way.push(now);
            }
            now += 1;
        }
        let waits: Vec<u64> = gave_way.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!((gave_way[0], waits), (10, vec![60, 120, 240]));
        // Long enough after the last recess it is as at the beginning.
        now += 480 + 960;
        assert!(!handover.is_due(true, true, start + s(now)));
        assert!(!handover.is_due(true, false, start + s(now)));
        assert!(handover.is_due(true, false, start + s(now + 10)));
    }
}
