//! Time as a value: milliseconds since the Unix epoch, and spans of milliseconds. Only a shell's clock makes a
//! `Timestamp`; everything that decides gets it as an argument.

use std::fmt;

/// A moment, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Timestamp {
    /// The moment `span` later; saturates at the end of time.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long ago `earlier` was; zero when it lies in the future (clocks of two machines may differ).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole seconds.
    #[must_use]
    pub const fn seconds(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }

    /// A span of milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n)
    }

    /// A span of whole minutes.
    #[must_use]
    pub const fn minutes(n: u64) -> Self {
        Self::seconds(n.saturating_mul(60))
    }

    /// For people, in its largest unit: `12s`, `5m`, `3h`, `2d`.
    #[must_use]
    pub fn rounded(self) -> String {
        match self.0 / 1000 {
            s if s < 60 => format!("{s}s"),
            s if s < 3600 => format!("{}m", s / 60),
            s if s < 86_400 => format!("{}h", s / 3600),
            s => format!("{}d", s / 86_400),
        }
    }
}

/// In UTC, to the second: `2026-11-22T23:59:59Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400_000, self.0 / 1000 % 86_400);
        // Years begin in March here, so that a leap day is the last one; eras have 400 of them (Hinnant, "chrono-compatible
        // low-level date algorithms").
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let date = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let year = era * 400 + year + later;
        write!(
            f,
            "{year}-{month:02}-{date:02}T{hour:02}:{minute:02}:{:02}Z",
            second % 60
        )
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms < 1000 => write!(f, "{ms}ms"),
            ms if ms % 1000 != 0 => write!(f, "{}.{:03}s", ms / 1000, ms % 1000),
            ms if ms % 60_000 != 0 => write!(f, "{}s", ms / 1000),
            ms if ms % 3_600_000 != 0 => write!(f, "{}m", ms / 60_000),
            ms => write!(f, "{}h", ms / 3_600_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (1_764_547_201, "2025-12-01T00:00:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(seconds * 1000 + 999).to_string(), text);
        }
    }

    #[test]
    fn spans_read_as_people_write_them() {
        for (ms, text) in [
            (5, "5ms"),
            (1500, "1.500s"),
            (30_000, "30s"),
            (300_000, "5m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(Span(ms).to_string(), text);
        }
    }

    #[test]
    fn a_future_moment_is_zero_ago() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Span::ZERO);
        assert_eq!(Timestamp(u64::MAX).plus(Span(1)), Timestamp(u64::MAX));
    }
}
