//! Giving out whole units one at a time, always to the one with the least (given + 1) / weight: the rule behind every fair
//! division here, computed in closed form. Level by sorting, then the last fewer-than-n units; nothing iterates until it looks
//! stable, nothing divides by zero.

/// One who may get units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taker {
    /// How much of each unit's turn it has; 0 takes nothing.
    pub weight: u64,
    /// Most units it can take.
    pub most: u64,
}

/// Gives out `amount` units; the answer has one number for each taker, in their order. Of several with the same least fraction
/// the first one gets the unit. No unit is left while somebody with a weight can take it. `O(n^2)` at worst, n being few.
#[must_use]
pub fn fill(amount: u64, takers: &[Taker]) -> Vec<u64> {
    let mut given = vec![0u64; takers.len()];
    let mut open = by_saturation(takers);
    let (mut left, mut weight) = (u128::from(amount), total_weight(takers, &open));
    // Who is full at the common level left / weight takes all it can; that only raises the level for the others.
    while let Some((i, taker)) = open.first().and_then(|i| Some((*i, takers.get(*i)?))) {
        if u128::from(taker.most).saturating_mul(weight) > left.saturating_mul(u128::from(taker.weight)) {
            break;
        }
        set(&mut given, i, taker.most);
        left -= u128::from(taker.most);
        weight -= u128::from(taker.weight);
        open.remove(0);
    }
    let level = left;
    for i in &open {
        let Some(taker) = takers.get(*i) else { continue };
        let whole = u64::try_from(level * u128::from(taker.weight) / weight).unwrap_or(u64::MAX);
        set(&mut given, *i, whole);
        left -= u128::from(whole);
    }
    open.sort_unstable();
    while left > 0 {
        let Some(i) = neediest(takers, &given, &open) else {
            break;
        };
        let more = given.get(i).map_or(0, |g| g + 1);
        set(&mut given, i, more);
        left -= 1;
    }
    given
}

fn set(given: &mut [u64], i: usize, units: u64) {
    if let Some(slot) = given.get_mut(i) {
        *slot = units;
    }
}

/// Takers with a weight, the one that is full at the lowest level first.
fn by_saturation(takers: &[Taker]) -> Vec<usize> {
    let mut order: Vec<(usize, &Taker)> = takers.iter().enumerate().filter(|(_, t)| t.weight > 0).collect();
    order.sort_by(|(i, a), (j, b)| {
        let left = u128::from(a.most) * u128::from(b.weight);
        left.cmp(&(u128::from(b.most) * u128::from(a.weight)))
            .then(i.cmp(j))
    });
    order.into_iter().map(|(i, _)| i).collect()
}

fn total_weight(takers: &[Taker], open: &[usize]) -> u128 {
    open.iter()
        .filter_map(|i| takers.get(*i))
        .map(|t| u128::from(t.weight))
        .sum()
}

fn neediest(takers: &[Taker], given: &[u64], open: &[usize]) -> Option<usize> {
    let can = open
        .iter()
        .filter_map(|i| Some((*i, takers.get(*i)?, *given.get(*i)?)));
    can.filter(|(_, t, g)| *g < t.most)
        .min_by(|(_, a, g), (_, b, h)| {
            let left = (u128::from(*g) + 1) * u128::from(b.weight);
            left.cmp(&((u128::from(*h) + 1) * u128::from(a.weight)))
        })
        .map(|(i, _, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as it is told, unit by unit.
    fn one_at_a_time(amount: u64, takers: &[Taker]) -> Vec<u64> {
        let mut given = vec![0u64; takers.len()];
        let all: Vec<usize> = (0..takers.len()).filter(|i| takers[*i].weight > 0).collect();
        for _ in 0..amount {
            match neediest(takers, &given, &all) {
                Some(i) => given[i] += 1,
                None => break,
            }
        }
        given
    }

    fn takers() -> impl Strategy<Value = Vec<Taker>> {
        let taker = (0u64..6, 0u64..30).prop_map(|(weight, most)| Taker { weight, most });
        proptest::collection::vec(taker, 0..7)
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_rule(amount in 0u64..120, takers in takers()) {
            prop_assert_eq!(fill(amount, &takers), one_at_a_time(amount, &takers));
        }

        #[test]
        fn one_unit_more_takes_none_away(amount in 0u64..120, takers in takers()) {
            let (less, more) = (fill(amount, &takers), fill(amount + 1, &takers));
            prop_assert!(less.iter().zip(&more).all(|(a, b)| a <= b), "{:?} {:?}", less, more);
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let huge = Taker {
            weight: u64::MAX,
            most: u64::MAX,
        };
        assert_eq!(fill(u64::MAX, &[huge, huge]), [u64::MAX / 2 + 1, u64::MAX / 2]);
    }
}
