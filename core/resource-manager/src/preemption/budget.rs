//! How many instances may be preempted in each minute: a part of the fleet, or a fixed number.

use crate::config::Preemption;
use echelon_core_model::Timestamp;

/// Milliseconds of a minute: what an instance counts.
const WHOLE: i64 = 60_000;
/// A burst is this part of what a minute allows.
const BURSTS: u64 = 6;

/// Instances that may still be preempted. It is filled as time passes, up to a burst.
/// A report of what was taken lowers it.
/// A gang, or a unit that needs more than a burst, may take more than there is when the budget is full.
/// Then nothing else is preempted until that is made up for.
/// The budget of a new leader is empty: however often leaders change, no more is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreemptionBudget {
    /// In instances times [`WHOLE`].
    left: i64,
    filled_at: Option<Timestamp>,
    limit: u64,
}

impl PreemptionBudget {
    /// Fills it for the time that has passed. `active`: instances of the whole federation.
    pub(crate) fn fill(&mut self, rules: &Preemption, active: u64, now: Timestamp) {
        self.limit = rules.a_minute(active);
        let passed = self.filled_at.map_or(0, |at| now.since(at).0);
        self.filled_at = Some(self.filled_at.map_or(now, |at| at.max(now)));
        let more = i64::try_from(self.limit.saturating_mul(passed)).unwrap_or(i64::MAX);
        let most = i64::try_from(self.burst())
            .unwrap_or(i64::MAX)
            .saturating_mul(WHOLE);
        self.left = self.left.saturating_add(more).min(most);
    }

    /// Notes how many instances a shard has taken.
    pub(crate) fn spend(&mut self, taken: u64) {
        let taken = i64::try_from(taken).unwrap_or(i64::MAX).saturating_mul(WHOLE);
        self.left = self.left.saturating_sub(taken);
    }

    /// How many may be taken now.
    pub(crate) fn left(&self) -> u64 {
        u64::try_from(self.left / WHOLE).unwrap_or_default()
    }

    /// Most that may be taken at once.
    pub(crate) fn burst(&self) -> u64 {
        (self.limit / BURSTS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use echelon_core_model::Amount;
    use echelon_core_model::Span;

    fn rules(a_minute: Amount) -> Preemption {
        Preemption {
            a_minute,
            ..Config::new("one", 1).preemption
        }
    }

    #[test]
    fn the_limit_is_a_part_of_the_fleet_and_never_less_than_the_least() {
        let part = rules(Amount::Percent(10));
        let limits = [0, 5_999, 6_010, 100_000].map(|active| part.a_minute(active));
        assert_eq!(limits, [600, 600, 601, 10_000]);
        assert_eq!(rules(Amount::Count(7)).a_minute(100_000), 7);
        // No limit means that nothing is ever preempted: that is a switch of its own.
        assert_eq!(rules(Amount::Count(0)).a_minute(100_000), 1);
    }

    #[test]
    fn a_minute_gives_its_limit_and_a_burst_at_most() {
        let (rules, start) = (rules(Amount::Count(600)), Timestamp(1_000_000));
        let mut budget = PreemptionBudget::default();
        budget.fill(&rules, 0, start);
        assert_eq!(
            (budget.left(), budget.burst()),
            (0, 100),
            "a new leader's is empty"
        );
        let mut taken = 0;
        for second in 1..=120 {
            budget.fill(&rules, 0, start.plus(Span::seconds(second)));
            taken += budget.left();
            budget.spend(budget.left());
        }
        assert_eq!(taken, 1_200);
        budget.fill(&rules, 0, start.plus(Span::minutes(60)));
        assert_eq!(budget.left(), 100);
    }

    #[test]
    fn a_debt_is_made_up_for_before_anything_else_is_taken() {
        let (rules, start) = (rules(Amount::Count(60)), Timestamp(1_000_000));
        let mut budget = PreemptionBudget::default();
        budget.fill(&rules, 0, start);
        budget.fill(&rules, 0, start.plus(Span::minutes(1)));
        budget.spend(70);
        budget.fill(&rules, 0, start.plus(Span::seconds(119)));
        assert_eq!(budget.left(), 0);
        budget.fill(&rules, 0, start.plus(Span::seconds(121)));
        assert_eq!(budget.left(), 1);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_twice() {
        let (rules, start) = (rules(Amount::Count(60)), Timestamp(1_000_000));
        let mut budget = PreemptionBudget::default();
        budget.fill(&rules, 0, start);
        budget.fill(&rules, 0, start.plus(Span::seconds(5)));
        budget.fill(&rules, 0, start);
        budget.fill(&rules, 0, start.plus(Span::seconds(5)));
        assert_eq!(budget.left(), 5);
    }
}
