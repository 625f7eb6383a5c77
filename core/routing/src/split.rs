//! Dividing instances over clusters within the capacity that these have. Both ways are monotone: one more instance never
//! takes one from any cluster, and the same input gives the same split.

/// A cluster's part before and after: what it has, and how many more it has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Instances that it has.
    pub have: u64,
    /// How many more it has room for now.
    pub room: u64,
}

/// Adds at most `n` instances: to the first place as far as it has capacity, then to the next.
#[must_use]
pub fn add_in_order(places: &[Place], n: u64) -> Vec<u64> {
    let mut left = n;
    let take = places.iter().map(|p| {
        let take = p.room.min(left);
        left -= take;
        take
    });
    take.collect()
}

/// Adds at most `n` instances one at a time, each to the place that has the fewest and has capacity, the first of equals.
///
/// Raises the lowest places together, a step at a time. A step ends when a place is full, when the next higher one is
/// reached, or when nothing is left: `O(places^2)` steps, however many instances.
#[must_use]
pub fn add_evenly(places: &[Place], n: u64) -> Vec<u64> {
    let mut left = n;
    let mut out = vec![0u64; places.len()];
    while left > 0 {
        let at = |i: usize, out: &[u64]| -> Option<(u64, u64)> {
            let (p, given) = (places.get(i)?, out.get(i)?);
            Some((p.have.saturating_add(*given), p.room - given))
        };
        let open: Vec<(usize, u64, u64)> = (0..places.len())
            .filter_map(|i| at(i, &out).map(|(have, room)| (i, have, room)))
            .filter(|(_, _, room)| *room > 0)
            .collect();
        let Some(low) = open.iter().map(|(_, have, _)| *have).min() else {
            break;
        };
        let lowest: Vec<_> = open.iter().filter(|(_, have, _)| *have == low).collect();
        let next = open.iter().map(|(_, have, _)| *have).filter(|h| *h > low).min();
        let full = lowest.iter().map(|(_, _, room)| *room).min().unwrap_or(left);
        let count = u64::try_from(lowest.len()).unwrap_or(u64::MAX);
        let step = full.min(next.map_or(u64::MAX, |h| h - low)).min(left / count);
        // Fewer left than places: one each, in order.
        for (i, _, _) in lowest {
            let take = if step > 0 { step } else { left.min(1) };
            if let Some(slot) = out.get_mut(*i) {
                *slot += take;
            }
            left -= take;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = Vec<Place>> {
        let place = (0u64..12, 0u64..12).prop_map(|(have, room)| Place { have, room });
        proptest::collection::vec(place, 1..6)
    }

    fn one_at_a_time(places: &[Place], n: u64) -> Vec<u64> {
        let mut out = vec![0u64; places.len()];
        for _ in 0..n {
            let with_capacity = (0..places.len()).filter(|i| out[*i] < places[*i].room);
            let Some(best) = with_capacity.min_by_key(|i| places[*i].have + out[*i]) else {
                break;
            };
            out[best] += 1;
        }
        out
    }

    proptest! {
        #[test]
        fn the_even_split_is_the_rule(places in places(), n in 0u64..60) {
            prop_assert_eq!(add_evenly(&places, n), one_at_a_time(&places, n));
        }

        #[test]
        fn one_more_takes_none_away(places in places(), n in 0u64..60) {
            for split in [add_evenly, add_in_order] {
                let (less, more) = (split(&places, n), split(&places, n + 1));
                let capacity: u64 = places.iter().map(|p| p.room).sum();
                prop_assert_eq!(less.iter().sum::<u64>(), n.min(capacity));
                prop_assert!(less.iter().zip(&more).all(|(a, b)| a <= b));
            }
        }
    }

    #[test]
    fn eight_over_two_is_four_each() {
        let place = Place { have: 0, room: 100 };
        assert_eq!(add_evenly(&[place, place], 8), [4, 4]);
        assert_eq!(add_in_order(&[place, place], 8), [8, 0]);
    }

    #[test]
    fn ten_million_are_split_at_once() {
        let place = Place {
            have: 0,
            room: 5_000_000,
        };
        assert_eq!(
            add_evenly(&[place, place, place], 10_000_000),
            [3_333_334, 3_333_333, 3_333_333]
        );
        assert_eq!(add_evenly(&[], 5), Vec::<u64>::new());
    }
}
