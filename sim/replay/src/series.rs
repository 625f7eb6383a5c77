//! An amount by second.

use echelon_core_model::Timestamp;

/// The least and the largest value that an amount had within a second, equal in all seconds up to the next
/// entry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The first second, from the beginning of the trace.
    pub second: u64,
    /// The least value.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

/// Follows an amount. A value counts in a second if it held for at least a millisecond of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Series {
    value: u64,
    /// Up to when values are taken in.
    since: u64,
    /// The second that is not over yet, with what was there of it.
    open: Option<Level>,
    levels: Vec<Level>,
}

impl Series {
    /// The amount is `value` from `at` on, counted from the beginning of the trace.
    pub fn set(&mut self, at: Timestamp, value: u64) {
        self.hold(at.0);
        self.value = value;
    }

    /// The present value holds up to `end`.
    fn hold(&mut self, end: u64) {
        if end <= self.since {
            return;
        }
        let (first, last) = (self.since / 1000, (end - 1) / 1000);
        self.since = end;
        self.take(first);
        if last > first {
            self.take(first + 1);
            self.take(last);
        }
    }

    /// The present value was there in a second; of the seconds before it all is known.
    fn take(&mut self, second: u64) {
        let value = self.value;
        let new = Level {
            second,
            least: value,
            most: value,
        };
        match &mut self.open {
            Some(open) if open.second == second => {
                open.least = open.least.min(value);
                open.most = open.most.max(value);
            }
            open => {
                let over = open.replace(new);
                self.close(over);
            }
        }
    }

    fn close(&mut self, level: Option<Level>) {
        let Some(level) = level else { return };
        let same = |last: &Level| (last.least, last.most) == (level.least, level.most);
        if !self.levels.last().is_some_and(same) {
            self.levels.push(level);
        }
    }

    /// All levels up to `until`, without the seconds in which it was 0 before it was ever more.
    #[must_use]
    pub fn levels(mut self, until: Timestamp) -> Vec<Level> {
        self.hold(until.0);
        let open = self.open.take();
        self.close(open);
        let nothing = |l: &Level| l.most == 0;
        if self.levels.iter().all(nothing) {
            return Vec::new();
        }
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(changes: &[(u64, u64)], until: u64) -> Vec<(u64, u64, u64)> {
        let mut series = Series::default();
        changes.iter().for_each(|(at, v)| series.set(Timestamp(*at), *v));
        let all = series.levels(Timestamp(until));
        all.iter().map(|l| (l.second, l.least, l.most)).collect()
    }

    #[test]
    fn a_value_counts_in_each_second_that_it_touches() {
        assert_eq!(
            levels(&[(500, 4), (3_000, 6), (5_001, 0)], 9_000),
            [(0, 0, 4), (1, 4, 4), (3, 6, 6), (5, 0, 6), (6, 0, 0)]
        );
    }

    #[test]
    fn a_value_that_held_for_no_time_does_not_count() {
        assert_eq!(levels(&[(0, 4), (1_500, 3), (1_500, 4)], 4_000), [(0, 4, 4)]);
        assert_eq!(levels(&[(0, 0), (700, 9), (700, 0)], 4_000), []);
    }

    #[test]
    fn what_comes_after_the_end_is_left_out() {
        assert_eq!(levels(&[(0, 2), (2_000, 5)], 2_000), [(0, 2, 2)]);
    }
}
