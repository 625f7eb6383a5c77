//! Giving out whole units one at a time, always to the one with the least (given + 1) / weight: the rule behind every fair
//! division here, computed in closed form. Sweep over the moments at which takers begin and cease to take, then give out the last
//! fewer-than-n units; nothing iterates until it looks stable, nothing divides by zero.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// One who may get units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taker {
    /// How much of each unit's turn it has; 0 takes nothing.
    pub weight: u64,
    /// Units that it has already and keeps.
    pub start: u64,
    /// Most units that it can have, no less than `start`.
    pub most: u64,
}

impl Taker {
    /// One that has nothing yet.
    #[must_use]
    pub const fn new(weight: u64, most: u64) -> Self {
        Self {
            weight,
            start: 0,
            most,
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.weight > 0 && self.start < self.most
    }
}

/// When a taker gets a unit: its k-th one at k / weight.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Which of its units.
    pub unit: u64,
    /// Its weight, above 0.
    pub weight: u64,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.unit, other.weight).cmp(&product(other.unit, self.weight))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn {}

/// Up to where units were given out. With it what each taker has can be told, or proven, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nobody got anything beyond its start.
    Nothing,
    /// Every unit with an earlier turn was given, and of those with this turn the ones of takers up to this index.
    Until(Turn, usize),
    /// Everybody has the most that it can have.
    Full,
}

impl Level {
    /// What the taker of an index has.
    #[must_use]
    pub fn units(&self, index: usize, taker: &Taker) -> u64 {
        match self {
            _ if !taker.is_open() => taker.start,
            Self::Nothing => taker.start,
            Self::Full => taker.most,
            Self::Until(turn, last) => {
                let reached = u128::from(turn.unit) * u128::from(taker.weight);
                let (whole, over) = divided(reached, u128::from(turn.weight));
                let units = if over == 0 && index > *last {
                    whole.saturating_sub(1)
                } else {
                    whole
                };
                units.clamp(taker.start, taker.most)
            }
        }
    }
}

/// Quotient, at most the largest number, and rest; nothing and the whole for a divisor of 0. Numbers of the usual size are
/// divided by one instruction instead of a hundred.
pub(crate) fn divided(dividend: u128, divisor: u128) -> (u64, u128) {
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (_, Ok(0)) => (0, dividend),
        (Ok(a), Ok(b)) => (a / b, u128::from(a % b)),
        _ => {
            let whole = dividend / divisor;
            (u64::try_from(whole).unwrap_or(u64::MAX), dividend % divisor)
        }
    }
}

/// Gives out `amount` units beyond what the takers have; the answer is what each has then, in their order. Of several whose turn
/// it is the first one gets the unit. No unit is left while somebody with a weight can take it. `O(n log n)`.
#[must_use]
pub fn fill(amount: u64, takers: &[Taker]) -> Vec<u64> {
    let level = level(amount, takers);
    let each = takers.iter().enumerate();
    each.map(|(i, taker)| level.units(i, taker)).collect()
}

/// Up to where `amount` units, beyond what the takers have, go. `O(n log n)`.
#[must_use]
pub fn level(amount: u64, takers: &[Taker]) -> Level {
    let open = takers.iter().filter(|t| t.is_open());
    let wanted = open.fold(0u128, |sum, t| sum + u128::from(t.most - t.start));
    if wanted <= u128::from(amount) {
        return Level::Full;
    }
    if amount == 0 {
        return Level::Nothing;
    }
    Sweep::until(amount, takers).last_units(amount, takers)
}

/// A moment of the sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Opens,
    Closes,
}

/// Who takes at the level that would use up everything if units could be divided.
struct Sweep {
    /// Units of those who take: what they start with and what is left for them.
    inside: u128,
    /// Their weight.
    weight: u128,
}

impl Sweep {
    fn until(amount: u64, takers: &[Taker]) -> Self {
        let mut sweep = Self {
            inside: u128::from(amount),
            weight: 0,
        };
        let mut changes: Vec<(Turn, Change, usize)> = Vec::with_capacity(takers.len());
        for (i, taker) in takers.iter().enumerate().filter(|(_, t)| t.is_open()) {
            let turn = |unit| Turn {
                unit,
                weight: taker.weight,
            };
            changes.push((turn(taker.most), Change::Closes, i));
            if taker.start == 0 {
                sweep.weight += u128::from(taker.weight);
            } else {
                changes.push((turn(taker.start), Change::Opens, i));
            }
        }
        changes.sort_unstable();
        for (turn, change, i) in changes {
            let Some(taker) = takers.get(i) else { continue };
            let needed = u128::from(turn.unit).saturating_mul(sweep.weight);
            if needed > sweep.inside.saturating_mul(u128::from(turn.weight)) {
                break;
            }
            let weight = u128::from(taker.weight);
            match change {
                Change::Opens => {
                    sweep.inside += u128::from(taker.start);
                    sweep.weight += weight;
                }
                // It has its most, which is the same as if it had never been there.
                Change::Closes => {
                    sweep.inside -= u128::from(taker.most);
                    sweep.weight -= weight;
                }
            }
        }
        sweep
    }

    /// What a taker has when only whole turns up to the level are given.
    fn whole(&self, taker: &Taker) -> u64 {
        let reached = self.inside.saturating_mul(u128::from(taker.weight));
        divided(reached, self.weight).0.clamp(taker.start, taker.most)
    }

    /// Gives out what the whole turns leave, fewer units than there are takers, and tells whose was the last.
    fn last_units(&self, amount: u64, takers: &[Taker]) -> Level {
        let mut left = amount;
        let mut last: Option<(Turn, usize)> = None;
        let mut next = Vec::with_capacity(takers.len());
        for (i, taker) in takers.iter().enumerate().filter(|(_, t)| t.is_open()) {
            let whole = self.whole(taker);
            let turn = |unit| Turn {
                unit,
                weight: taker.weight,
            };
            if whole > taker.start {
                last = last.max(Some((turn(whole), i)));
            }
            if whole < taker.most {
                next.push(Reverse((turn(whole.saturating_add(1)), i)));
            }
            left = left.saturating_sub(whole - taker.start);
        }
        let mut next = BinaryHeap::from(next);
        while left > 0
            && let Some(Reverse((turn, i))) = next.pop()
        {
            last = Some((turn, i));
            left -= 1;
            if let Some(taker) = takers.get(i).filter(|t| turn.unit < t.most) {
                next.push(Reverse((
                    Turn {
                        unit: turn.unit + 1,
                        weight: taker.weight,
                    },
                    i,
                )));
            }
        }
        last.map_or(Level::Nothing, |(turn, i)| Level::Until(turn, i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as it is told, unit by unit.
    fn one_at_a_time(amount: u64, takers: &[Taker]) -> Vec<u64> {
        let mut has: Vec<u64> = takers.iter().map(|t| t.start).collect();
        for _ in 0..amount {
            let open = (0..takers.len()).filter(|i| takers[*i].weight > 0 && has[*i] < takers[*i].most);
            let turn = |i: &usize| Turn {
                unit: has[*i] + 1,
                weight: takers[*i].weight,
            };
            let Some(i) = open.min_by(|a, b| turn(a).cmp(&turn(b)).then(a.cmp(b))) else {
                break;
            };
            has[i] += 1;
        }
        has
    }

    fn takers() -> impl Strategy<Value = Vec<Taker>> {
        let taker = (0u64..6, 0u64..12, 0u64..30).prop_map(|(weight, start, more)| Taker {
            weight,
            start: start.saturating_sub(5),
            most: start.saturating_sub(5) + more,
        });
        proptest::collection::vec(taker, 0..7)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        #[test]
        fn the_closed_form_is_the_rule(amount in 0u64..160, takers in takers()) {
            prop_assert_eq!(fill(amount, &takers), one_at_a_time(amount, &takers));
        }

        #[test]
        fn one_unit_more_takes_none_away(amount in 0u64..160, takers in takers()) {
            let (less, more) = (fill(amount, &takers), fill(amount + 1, &takers));
            prop_assert!(less.iter().zip(&more).all(|(a, b)| a <= b), "{:?} {:?}", less, more);
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let huge = Taker::new(u64::MAX, u64::MAX);
        assert_eq!(fill(u64::MAX, &[huge, huge]), [u64::MAX / 2 + 1, u64::MAX / 2]);
    }

    #[test]
    fn a_heavy_taker_may_get_several_of_the_last_units() {
        let (light, heavy) = (Taker::new(1, 9), Taker::new(10, 99));
        assert_eq!(fill(9, &[light, light, heavy]), [0, 0, 9]);
        assert_eq!(fill(13, &[light, light, heavy]), [1, 1, 11]);
    }

    #[test]
    fn what_a_taker_has_holds_it_back_until_the_others_have_caught_up() {
        let ahead = Taker {
            weight: 1,
            start: 5,
            most: 9,
        };
        assert_eq!(fill(4, &[ahead, Taker::new(1, 9)]), [5, 4]);
        assert_eq!(fill(7, &[ahead, Taker::new(1, 9)]), [6, 6]);
    }
}
