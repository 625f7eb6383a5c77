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
