//! What a leader does about sums over jobs that are wrong: it counts them for a metric, and raises an alarm
//! for an operator.

use crate::effect::{Alarm, Effect};
use crate::manager::{Phase, ResourceManager};
use echelon_core_model::{Span, Timestamp};

/// Between two looks at the sums of some jobs.
const EVERY: Span = Span::millis(50);

/// What was ever found wrong with sums, by all leaderships of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SumFaults {
    /// Steps of a sum that did not match: it would have been below zero, or above the largest number.
    pub steps: u64,
    /// Sums, or what one job adds to them, that were not those of the jobs when they were checked. One
    /// that stays wrong counts each time.
    pub differences: u64,
    /// Steps of the present leadership that are counted above.
    seen: u64,
}

impl SumFaults {
    /// Another leadership begins with sums of its own.
    pub(crate) const fn begin_anew(&mut self) {
        self.seen = 0;
    }
}

impl ResourceManager {
    /// What was found wrong with sums.
    #[must_use]
    pub const fn sum_faults(&self) -> SumFaults {
        self.sum_faults
    }

    /// Checks the sums of some jobs, about as often as a cycle runs.
    pub(crate) fn audit(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.phase != Phase::Leading || now.since(self.timers.audit) < EVERY {
            return;
        }
        self.timers.audit = now;
        let found = self.picture.demand.ledger.audit(&self.picture.facts);
        let steps = self.picture.demand.ledger.sum_errors();
        let faults = &mut self.sum_faults;
        let new = steps.saturating_sub(faults.seen);
        faults.seen = steps;
        faults.steps = faults.steps.saturating_add(new);
        faults.differences = faults.differences.saturating_add(found.len() as u64);
        if new > 0 {
            let what = format!("{new} steps of sums over jobs did not match");
            out.push(Effect::Alarm(Alarm::Sums(what)));
        }
        if let Some(first) = found.first() {
            let what = format!("{} sums over jobs are wrong, the first one: {first}", found.len());
            out.push(Effect::Alarm(Alarm::Sums(what)));
        }
    }
}
