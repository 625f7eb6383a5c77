//! Dividing instances over clusters within the capacity that these have.
//!
//! A division is a sequence: which cluster instance `k` gets depends on those before it only. So one more
//! instance never takes one from any cluster, and the same input gives the same division. The functions here
//! compute the end of that sequence at once; a property compares them with the sequence.

/// A cluster before the division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Instances that it has.
    pub have: u64,
    /// How many more it has capacity for now.
    pub room: u64,
    /// Its weight, at least 1, where instances are divided by weight.
    pub weight: u32,
}

/// Which cluster comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitOrder {
    /// The first one that has capacity.
    First,
    /// The one with the least `(have + 1/2) / weight` that has capacity; of equals the first.
    ByWeight,
}

/// How a group is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitRule {
    /// Which cluster comes next.
    pub order: SplitOrder,
    /// Instances of the whole group.
    pub instances: u64,
    /// On so many clusters at least. Instances are held back rather than put on fewer.
    pub least_places: u64,
    /// Most instances on one cluster, with those that it has.
    pub most_on_one: u64,
}

/// Adds at most `n` instances.
#[must_use]
pub fn add(places: &[Place], n: u64, rule: SplitRule) -> Vec<u64> {
    let mut open: Vec<Place> = places.iter().map(|p| capped(*p, rule.most_on_one)).collect();
    let first = add_first_ones(&mut open, n, rule);
    let total = |open: &[Place]| open.iter().map(|p| p.have).fold(0, u64::saturating_add);
    let without = rule.least_places.saturating_sub(used(&open));
    // Each cluster that is still to be used gets at least one.
    let most = rule
        .instances
        .saturating_sub(without)
        .saturating_sub(total(&open));
    let left = if without > 0 {
        (n - first).min(most)
    } else {
        n - first
    };
    let added = match rule.order {
        SplitOrder::First => add_in_order(&open, left),
        SplitOrder::ByWeight => add_by_weight(&open, left),
    };
    let all = places.iter().zip(&open).zip(added);
    all.map(|((before, after), added)| after.have - before.have + added)
        .collect()
}

fn capped(place: Place, most: u64) -> Place {
    Place {
        room: place.room.min(most.saturating_sub(place.have)),
        ..place
    }
}

fn used(places: &[Place]) -> u64 {
    let used = places.iter().filter(|p| p.have > 0).count();
    u64::try_from(used).unwrap_or(u64::MAX)
}

/// Gives one to each of the next clusters that have none, until enough clusters are used.
fn add_first_ones(open: &mut [Place], n: u64, rule: SplitRule) -> u64 {
    let mut given = 0;
    while given < n && used(open) < rule.least_places {
        let unused = open.iter_mut().filter(|p| p.have == 0 && p.room > 0);
        let next = match rule.order {
            SplitOrder::First => unused.into_iter().next(),
            // Of equals the first.
            SplitOrder::ByWeight => unused.min_by_key(|p| std::cmp::Reverse(p.weight)),
        };
        let Some(place) = next else {
            break;
        };
        place.have += 1;
        place.room -= 1;
        given += 1;
    }
    given
}

/// Adds to the first place as far as it has capacity, then to the next.
fn add_in_order(places: &[Place], n: u64) -> Vec<u64> {
    let mut left = n;
    let take = places.iter().map(|p| {
        let take = p.room.min(left);
        left -= take;
        take
    });
    take.collect()
}

/// Parts of one of the level to which places are filled.
const STEPS: u128 = 1 << 32;

/// Adds each instance to the place with the least `(have + 1/2) / weight` that has capacity.
///
/// At a level `t` every place has what it had before, or `t * weight` instances, rounded to the nearest
/// number, if that is more and it has capacity. The highest level that needs no more than `n` is found by
/// bisection. Fewer instances than places are left then; these are added one by one.
fn add_by_weight(places: &[Place], n: u64) -> Vec<u64> {
    let at = |level: u128| -> Vec<u64> {
        let added = places.iter().map(|p| {
            let level = level
                .saturating_mul(u128::from(p.weight))
                .saturating_add(STEPS / 2)
                / STEPS;
            let level = u64::try_from(level).unwrap_or(u64::MAX);
            level.saturating_sub(p.have).min(p.room)
        });
        added.collect()
    };
    let sum = |added: &[u64]| added.iter().map(|n| u128::from(*n)).sum::<u128>();
    let (mut low, mut high) = (0u128, u128::from(u64::MAX) * STEPS);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if sum(&at(middle)) <= u128::from(n) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut out = at(low);
    let mut left = u128::from(n).saturating_sub(sum(&out));
    while left > 0 {
        let with_capacity = places.iter().zip(&mut out).filter(|(p, given)| **given < p.room);
        // Compared without division: (2 a + 1) / w is less than (2 b + 1) / v.
        let next = with_capacity.min_by(|(a, given_a), (b, given_b)| {
            let odd = |p: &Place, given: u64| 2 * (u128::from(p.have) + u128::from(given)) + 1;
            let left = odd(a, **given_a) * u128::from(b.weight);
            left.cmp(&(odd(b, **given_b) * u128::from(a.weight)))
        });
        let Some((_, given)) = next else {
            break;
        };
        *given += 1;
        left -= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = Vec<Place>> {
        let place =
            (0u64..12, 0u64..12, 1u32..6).prop_map(|(have, room, weight)| Place { have, room, weight });
        proptest::collection::vec(place, 1..6)
    }

    fn rules() -> impl Strategy<Value = SplitRule> {
        let order = prop_oneof![Just(SplitOrder::First), Just(SplitOrder::ByWeight)];
        (order, 0u64..90, 0u64..6, 1u64..40).prop_map(|(order, instances, least_places, most_on_one)| {
            SplitRule {
                order,
                instances,
                least_places,
                most_on_one,
            }
        })
    }

    /// The rule as it is written: the place of the next instance, from what places have.
    fn next(places: &[Place], given: &[u64], rule: SplitRule) -> Option<usize> {
        let have = |i: usize| places[i].have + given[i];
        let takes = |i: &usize| given[*i] < places[*i].room && have(*i) < rule.most_on_one;
        let used = u64::try_from((0..places.len()).filter(|i| have(*i) > 0).count()).unwrap();
        let open: Vec<usize> = (0..places.len()).filter(takes).collect();
        let order = |i: &usize| {
            // Weights are below 6, so 60 is a common multiple.
            let by_weight = (2 * have(*i) + 1) * (60 / u64::from(places[*i].weight));
            (rule.order == SplitOrder::ByWeight).then_some(by_weight)
        };
        let unused = open.iter().copied().filter(|i| have(*i) == 0).min_by_key(order);
        if used < rule.least_places {
            if let Some(place) = unused {
                return Some(place);
            }
            let total: u64 = (0..places.len()).map(have).sum();
            if total + (rule.least_places - used) >= rule.instances {
                return None;
            }
        }
        open.into_iter().min_by_key(order)
    }

    fn one_at_a_time(places: &[Place], n: u64, rule: SplitRule) -> Vec<u64> {
        let mut given = vec![0u64; places.len()];
        for _ in 0..n {
            let Some(place) = next(places, &given, rule) else {
                break;
            };
            given[place] += 1;
        }
        given
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_division_is_the_end_of_the_sequence(places in places(), n in 0u64..60, rule in rules()) {
            prop_assert_eq!(add(&places, n, rule), one_at_a_time(&places, n, rule));
        }

        #[test]
        fn one_more_takes_none_away(places in places(), n in 0u64..60, rule in rules()) {
            let (less, more) = (add(&places, n, rule), add(&places, n + 1, rule));
            prop_assert!(less.iter().zip(&more).all(|(a, b)| a <= b));
            prop_assert!(less.iter().sum::<u64>() <= n);
        }

        #[test]
        fn all_is_given_that_has_capacity(places in places(), n in 0u64..60, order in rules()) {
            let rule = plain(order.order, n);
            let capacity: u64 = places.iter().map(|p| p.room).sum();
            prop_assert_eq!(add(&places, n, rule).iter().sum::<u64>(), n.min(capacity));
        }
    }

    fn plain(order: SplitOrder, instances: u64) -> SplitRule {
        SplitRule {
            order,
            instances,
            least_places: 1,
            most_on_one: u64::MAX,
        }
    }

    const fn place(have: u64, room: u64, weight: u32) -> Place {
        Place { have, room, weight }
    }

    #[test]
    fn eight_over_two_is_four_each() {
        let two = [place(0, 100, 1); 2];
        assert_eq!(add(&two, 8, plain(SplitOrder::ByWeight, 8)), [4, 4]);
        assert_eq!(add(&two, 8, plain(SplitOrder::First, 8)), [8, 0]);
    }

    #[test]
    fn weights_divide_in_proportion() {
        let three = [place(0, 100, 3), place(0, 100, 1), place(0, 100, 1)];
        assert_eq!(add(&three, 10, plain(SplitOrder::ByWeight, 10)), [6, 2, 2]);
        assert_eq!(add(&three, 1, plain(SplitOrder::ByWeight, 10)), [1, 0, 0]);
    }

    #[test]
    fn instances_are_held_back_for_the_clusters_that_are_to_be_used() {
        let rule = SplitRule {
            least_places: 3,
            ..plain(SplitOrder::First, 10)
        };
        let full = [place(0, 100, 1), place(0, 100, 1), place(0, 0, 1)];
        assert_eq!(add(&full, 10, rule), [8, 1, 0], "one waits for the third");
        let all = [place(0, 100, 1); 3];
        assert_eq!(add(&all, 10, rule), [8, 1, 1]);
    }

    #[test]
    fn no_cluster_gets_more_than_its_share() {
        let rule = SplitRule {
            most_on_one: 4,
            ..plain(SplitOrder::First, 10)
        };
        assert_eq!(add(&[place(1, 100, 1), place(0, 100, 1)], 10, rule), [3, 4]);
    }

    #[test]
    fn ten_million_are_split_at_once() {
        let third = place(0, 5_000_000, 1);
        let rule = plain(SplitOrder::ByWeight, 10_000_000);
        assert_eq!(
            add(&[third, third, third], 10_000_000, rule),
            [3_333_334, 3_333_333, 3_333_333]
        );
        assert_eq!(add(&[], 5, rule), Vec::<u64>::new());
        let heaviest = [
            place(u64::MAX / 4, u64::MAX / 4, 1_000_000),
            place(0, u64::MAX / 4, 1),
        ];
        let added = add(&heaviest, 1_000, plain(SplitOrder::ByWeight, u64::MAX));
        assert_eq!(added.iter().sum::<u64>(), 1_000);
    }
}
