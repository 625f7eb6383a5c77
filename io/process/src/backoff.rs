//! How long a shell waits before it tries an outside party again: exponential with full jitter, so that many processes
//! that lost the same server do not come back to it at once.
//!
//! The random source is an argument; what a job's restarts wait is decided in `core/jobs`, not here.

use rand::Rng;
use std::time::Duration;

/// Bounds of the waits. Wait n is drawn evenly from zero to `first * 2^n`, at most `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the first wait.
    pub first: Duration,
    /// Upper bound of every wait.
    pub max: Duration,
}

impl Backoff {
    /// An endless row of waits. Start a new row after a success.
    pub fn waits<R: Rng>(self, mut random: R) -> impl Iterator<Item = Duration> {
        let mut bound = self.first.min(self.max);
        std::iter::from_fn(move || {
            let wait = bound.mul_f64(random.random_range(0.0..=1.0));
            bound = bound.saturating_mul(2).min(self.max);
            Some(wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_secs(5),
    };

    #[test]
    fn waits_stay_below_a_doubling_bound() {
        for seed in 0..200 {
            let waits = BACKOFF.waits(SmallRng::seed_from_u64(seed)).take(70);
            for (n, wait) in (0u32..).zip(waits) {
                let bound = Duration::from_millis(100)
                    .saturating_mul(2u32.saturating_pow(n))
                    .min(BACKOFF.max);
                assert!(
                    wait <= bound,
                    "seed {seed}: wait {n} is {wait:?}, bound {bound:?}"
                );
            }
        }
    }

    #[test]
    fn waits_use_the_whole_range() {
        let tenth: Vec<_> = (0..200)
            .filter_map(|seed| BACKOFF.waits(SmallRng::seed_from_u64(seed)).nth(9))
            .collect();
        assert!(
            tenth.iter().any(|w| *w < Duration::from_secs(1))
                && tenth.iter().any(|w| *w > Duration::from_secs(4))
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        let row = |seed| {
            BACKOFF
                .waits(SmallRng::seed_from_u64(seed))
                .take(9)
                .collect::<Vec<_>>()
        };
        assert_eq!(row(7), row(7));
        assert_ne!(row(7), row(8));
    }
}
