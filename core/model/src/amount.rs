//! A number of instances that may be said as a part of all.

use std::fmt;

/// A number of instances, or a part of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// So many in a hundred, 0 to 100.
    Percent(u32),
}

impl Amount {
    /// Of that many instances, rounded down.
    #[must_use]
    pub fn of(self, instances: u32) -> u32 {
        u32::try_from(self.of_many(instances.into())).unwrap_or(u32::MAX)
    }

    /// The same of all instances of a job.
    #[must_use]
    pub fn of_many(self, instances: u64) -> u64 {
        match self {
            Self::Count(n) => n.into(),
            Self::Percent(p) => instances.saturating_mul(p.min(100).into()) / 100,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Percent(p) => write!(f, "{p}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_rounded_down_and_never_beyond_all() {
        assert_eq!(Amount::Percent(5).of(19), 0);
        assert_eq!(Amount::Percent(5).of(20), 1);
        assert_eq!(Amount::Percent(100).of(u32::MAX), u32::MAX);
        assert_eq!(Amount::Percent(300).of(4), 4);
        assert_eq!(Amount::Count(7).of(4), 7);
    }
}
