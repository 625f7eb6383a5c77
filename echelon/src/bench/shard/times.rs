//! How long steps took, the median and the worst: of millions of steps, in little memory.

use std::time::Duration;

/// Parts of each power of two: a median is told too large by a sixteenth at most.
const PARTS: u64 = 16;

/// Times of steps, by their length.
#[derive(Debug, Default)]
pub(super) struct Times {
    counts: Vec<u64>,
    /// How many steps.
    pub(super) steps: u64,
    /// All of them together.
    pub(super) sum: Duration,
    /// The longest one.
    pub(super) worst: Duration,
}

impl Times {
    /// A step took so long.
    pub(super) fn note(&mut self, took: Duration) {
        self.steps += 1;
        self.sum += took;
        self.worst = self.worst.max(took);
        let at = place(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    /// So many of a thousand steps took no longer than this.
    pub(super) fn within(&self, of_thousand: u64) -> Duration {
        let wanted = self.steps.saturating_mul(of_thousand).div_ceil(1000);
        let mut seen: u64 = 0;
        let mut sums = self.counts.iter().map(|count| {
            seen += count;
            seen
        });
        let at = sums.position(|seen| seen >= wanted).unwrap_or_default();
        Duration::from_nanos(end(at)).min(self.worst)
    }
}

/// The place of a length among the counts.
fn place(nanos: u64) -> usize {
    let place = if nanos < PARTS {
        nanos
    } else {
        let power = u64::from(nanos.ilog2());
        (power - 3) * PARTS + ((nanos >> (power - 4)) & (PARTS - 1))
    };
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The longest length that has a place.
fn end(place: usize) -> u64 {
    let place = u64::try_from(place).unwrap_or(u64::MAX);
    if place < PARTS {
        return place;
    }
    let (power, part) = (place / PARTS + 3, place % PARTS);
    ((PARTS + part + 1) << (power - 4)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_told_at_most_a_sixteenth_too_large() {
        for nanos in (0..100_000).chain((0..40).map(|power| (1u64 << power) + 12_345)) {
            let told = end(place(nanos));
            assert!(nanos <= told && told <= nanos + nanos / PARTS, "{nanos}: {told}");
        }
    }

    #[test]
    fn the_median_and_the_worst_are_of_all_steps() {
        let mut times = Times::default();
        for micros in 1..=1_000 {
            times.note(Duration::from_micros(micros));
        }
        let median = times.within(500).as_micros();
        assert!((500..=532).contains(&median), "{median}");
        assert_eq!(times.worst, Duration::from_millis(1));
        assert_eq!(times.within(1000), times.worst);
    }
}
