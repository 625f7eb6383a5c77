//! Takers that stand while single ones of them change: kept by weight, and those of one weight by the most that they can have, so
//! that the level is found without a look at each. Those of one weight have their k-th units at the same turn, so a level costs as
//! much as there are weights. All start with nothing. The answer is that of `fill::level`. Used by `standing`.

use crate::fill::{Level, Taker, Turn, divided};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Takers by their index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Takers {
    by_weight: BTreeMap<u64, Equals>,
    /// The most that all can have together.
    wanted: u128,
    weight: u128,
}

/// Takers of one weight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Equals {
    /// The most that each can have and its index, sorted.
    members: Vec<(u64, usize)>,
    /// Sums of the former: of the first, of the first two, and so on.
    sums: Vec<u128>,
}

impl Takers {
    /// Those of an order. One that can take nothing counts nothing. `O(n log n)`.
    pub fn new(takers: impl Iterator<Item = Taker>) -> Self {
        let mut out = Self::default();
        for (index, taker) in takers.enumerate().filter(|(_, t)| t.is_open()) {
            let equals = out.by_weight.entry(taker.weight).or_default();
            equals.members.push((taker.most, index));
            out.wanted += u128::from(taker.most);
            out.weight += u128::from(taker.weight);
        }
        for equals in out.by_weight.values_mut() {
            equals.members.sort_unstable();
            let running = |sum: &mut u128, (most, _): &(u64, usize)| {
                *sum += u128::from(*most);
                Some(*sum)
            };
            equals.sums = equals.members.iter().scan(0, running).collect();
        }
        out
    }

    /// The most that all can have together.
    #[must_use]
    pub const fn wanted(&self) -> u128 {
        self.wanted
    }

    /// Another taker in the place of one. `O(n)` moves of numbers among those of its weight, and no more than that.
    pub fn replace(&mut self, index: usize, before: Taker, after: Taker) {
        if before == after {
            return;
        }
        if before.is_open()
            && let Some(equals) = self.by_weight.get_mut(&before.weight)
            && equals.remove(before.most, index)
        {
            self.wanted -= u128::from(before.most);
            self.weight -= u128::from(before.weight);
            if equals.members.is_empty() {
                self.by_weight.remove(&before.weight);
            }
        }
        if after.is_open() {
            let equals = self.by_weight.entry(after.weight).or_default();
            equals.insert(after.most, index);
            self.wanted += u128::from(after.most);
            self.weight += u128::from(after.weight);
        }
    }

    /// Up to where `amount` units go. `O(weights log n)`, and a pass over those whose turn the last unit is.
    #[must_use]
    pub fn level(&self, amount: u64) -> Level {
        if self.wanted <= u128::from(amount) {
            return Level::Full;
        }
        if amount == 0 {
            return Level::Nothing;
        }
        let reached = self.reached(amount);
        let taken: u128 = reached.iter().map(|(turn, equals)| equals.units(turn.unit)).sum();
        let left = u64::try_from(u128::from(amount).saturating_sub(taken)).unwrap_or(u64::MAX);
        let last = if left == 0 {
            latest(&reached)
        } else {
            self.last_units(left, &reached)
        };
        last.map_or(Level::Nothing, |(turn, i)| Level::Until(turn, i))
    }

    /// The whole turns, by weight, at the level that would use up everything if units could be divided. Each pass takes out those
    /// who have their most at the level of the pass before, and what the others would have rises; so passes end when one takes out
    /// nobody, and are few.
    fn reached(&self, amount: u64) -> Vec<(Turn, &Equals)> {
        let (mut inside, mut open) = (u128::from(amount), self.weight);
        loop {
            let whole = |weight: &u64| Turn {
                unit: divided(inside.saturating_mul(u128::from(*weight)), open).0,
                weight: *weight,
            };
            let reached = self
                .by_weight
                .iter()
                .map(|(weight, equals)| (whole(weight), equals));
            let reached: Vec<(Turn, &Equals)> = reached.collect();
            let (mut had, mut weight) = (0, 0);
            for (turn, equals) in &reached {
                let (n, sum) = equals.up_to(turn.unit);
                had += sum;
                weight += u128::from(turn.weight) * n as u128;
            }
            let still_open = self.weight.saturating_sub(weight);
            if still_open >= open {
                return reached;
            }
            (inside, open) = (u128::from(amount).saturating_sub(had), still_open);
        }
    }

    /// Gives out what the whole turns leave, to all who have the same turn at once, and tells whose was the last unit.
    fn last_units(&self, mut left: u64, reached: &[(Turn, &Equals)]) -> Option<(Turn, usize)> {
        let following = |turn: &Turn| Turn {
            unit: turn.unit.saturating_add(1),
            weight: turn.weight,
        };
        let mut next: BinaryHeap<Reverse<Turn>> =
            reached.iter().map(|(turn, _)| Reverse(following(turn))).collect();
        let mut tied: Vec<Turn> = Vec::new();
        while let Some(Reverse(turn)) = next.pop() {
            tied.clear();
            tied.push(turn);
            while let Some(Reverse(same)) = next.peek().filter(|t| t.0 == turn) {
                tied.push(*same);
                next.pop();
            }
            let n: usize = tied.iter().map(|t| self.at(t).len()).sum();
            if n as u64 >= left {
                return self.nth(left, &tied);
            }
            left -= n as u64;
            let rest = tied.iter().filter(|t| !self.at(t).is_empty());
            next.extend(rest.map(|t| Reverse(following(t))));
        }
        None
    }

    /// Those who have a unit at a turn.
    fn at(&self, turn: &Turn) -> &[(u64, usize)] {
        let equals = self.by_weight.get(&turn.weight);
        equals.map_or(&[], |e| e.from(turn.unit))
    }

    /// The `n`-th by index, from 1, of those who have a unit at one of several turns that are the same.
    fn nth(&self, n: u64, tied: &[Turn]) -> Option<(Turn, usize)> {
        let members = |turn: &Turn| {
            let turn = *turn;
            self.at(&turn).iter().map(move |(_, index)| (*index, turn))
        };
        let mut all: Vec<(usize, Turn)> = tied.iter().flat_map(members).collect();
        let n = usize::try_from(n).ok()?.checked_sub(1)?;
        if n >= all.len() {
            return None;
        }
        let (_, (index, turn), _) = all.select_nth_unstable_by_key(n, |(index, _)| *index);
        Some((*turn, *index))
    }
}

/// The latest of the units that whole turns give.
fn latest(reached: &[(Turn, &Equals)]) -> Option<(Turn, usize)> {
    let given = reached.iter().filter_map(|(turn, equals)| {
        let unit = equals.largest().min(turn.unit);
        (unit > 0).then_some((Turn { unit, ..*turn }, *equals))
    });
    let given: Vec<(Turn, &Equals)> = given.collect();
    let turn = given.iter().map(|(turn, _)| *turn).max()?;
    let tied = given.into_iter().filter(|(t, _)| *t == turn);
    let last = tied.filter_map(|(t, equals)| Some((t, equals.from(t.unit).iter().map(|(_, i)| *i).max()?)));
    last.max_by_key(|(_, index)| *index)
}

impl Equals {
    /// Where those begin who can have more than so many units.
    fn end_of(&self, units: u64) -> usize {
        self.members.partition_point(|(most, _)| *most <= units)
    }

    /// How many can have no more than so many units, and what they can have together.
    fn up_to(&self, units: u64) -> (usize, u128) {
        let n = self.end_of(units);
        (n, self.sum(n))
    }

    fn sum(&self, n: usize) -> u128 {
        let before = n.checked_sub(1).and_then(|i| self.sums.get(i));
        before.copied().unwrap_or_default()
    }

    /// What they have when each has so many units, or its most.
    fn units(&self, each: u64) -> u128 {
        let (n, sum) = self.up_to(each);
        sum + (self.members.len() - n) as u128 * u128::from(each)
    }

    /// Those who can have a unit of this number, which is above 0.
    fn from(&self, unit: u64) -> &[(u64, usize)] {
        self.members
            .get(self.end_of(unit.saturating_sub(1))..)
            .unwrap_or_default()
    }

    fn largest(&self) -> u64 {
        self.members.last().map_or(0, |(most, _)| *most)
    }

    fn insert(&mut self, most: u64, index: usize) {
        let at = self.members.partition_point(|m| *m < (most, index));
        self.members.insert(at, (most, index));
        self.sums.insert(at, self.sum(at));
        for sum in self.sums.iter_mut().skip(at) {
            *sum += u128::from(most);
        }
    }

    /// Whether it was there.
    fn remove(&mut self, most: u64, index: usize) -> bool {
        let Ok(at) = self.members.binary_search(&(most, index)) else {
            return false;
        };
        self.members.remove(at);
        self.sums.remove(at);
        for sum in self.sums.iter_mut().skip(at) {
            *sum -= u128::from(most);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::level;
    use proptest::prelude::*;

    fn taker() -> impl Strategy<Value = Taker> {
        (0u64..6, 0u64..30).prop_map(|(weight, most)| Taker::new(weight, most))
    }

    fn same(takers: &[Taker], standing: &Takers) -> Result<(), TestCaseError> {
        prop_assert_eq!(standing, &Takers::new(takers.iter().copied()));
        for amount in (0..=standing.wanted()).filter_map(|n| u64::try_from(n).ok()) {
            let (told, expected) = (standing.level(amount), level(amount, takers));
            prop_assert_eq!(told, expected, "{} of {:?}", amount, takers);
            // Turns are equal by their ratio; a proof names the very unit.
            if let (Level::Until(a, _), Level::Until(b, _)) = (told, expected) {
                prop_assert_eq!(
                    (a.unit, a.weight),
                    (b.unit, b.weight),
                    "{} of {:?}",
                    amount,
                    takers
                );
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
        /// At every amount, after every change.
        #[test]
        fn the_level_is_that_of_the_full_computation(
            mut takers in proptest::collection::vec(taker(), 1..7),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), taker()), 0..4),
        ) {
            let mut standing = Takers::new(takers.iter().copied());
            same(&takers, &standing)?;
            for (at, taker) in changes {
                let i = at.index(takers.len());
                standing.replace(i, takers[i], taker);
                takers[i] = taker;
                same(&takers, &standing)?;
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let huge = [Taker::new(u64::MAX, u64::MAX); 3];
        let standing = Takers::new(huge.into_iter());
        for amount in [1, 2, u64::MAX - 1, u64::MAX] {
            assert_eq!(standing.level(amount), level(amount, &huge), "{amount}");
        }
    }
}
