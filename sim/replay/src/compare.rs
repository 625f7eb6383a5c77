//! Whether a change of how the resource manager decides may stand: the figures of a run after it against
//! those before it.

use crate::figures::{Figures, PoolFigures};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// What ran of each pool and kind, in each second: within what ran in the other run in that second or in
    /// one beside it, since a grant may come later by its own time, which is less than a second.
    Amounts,
    /// Mean wait of each pool for the first instance: at most 1.02 times as long, and 100 ms. Unlike the median it does
    /// not depend on whose turn it is, as long as the same instances end at the same time.
    FirstMean,
    /// The same of the median.
    FirstMedian,
    /// The same of the wait that 99 of 100 jobs do not exceed.
    First99,
    /// Mean wait of each pool for the last instance, by the same rule.
    LastMean,
    /// The same of the median.
    LastMedian,
    /// The same of the wait that 99 of 100 jobs do not exceed.
    Last99,
    /// Preemptions: not more.
    Preemptions,
    /// Instance-milliseconds of work done: at least 99.8 %.
    Instances,
    /// The same in thousandths of cores.
    Cpus,
    /// Slices ordered and reported: at most a third.
    Messages,
    /// Conditional writes: at most 1.2 times as many, or 0.01 for each start.
    ConditionalWrites,
}

/// One criterion: both figures, and what the later one may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// What is compared.
    pub measure: Measure,
    /// The pool, where it is compared by pool: the worst one.
    pub pool: Option<String>,
    /// The figure before; `None`: it never came. Of amounts: the nearest one that ran.
    pub before: Option<u64>,
    /// The figure after.
    pub after: Option<u64>,
    /// The bound of the figure after; `None`: there is none.
    pub bound: Option<u64>,
    /// How many comparisons missed the bound, and of how many: pools, or seconds of pools.
    pub missed: (u64, u64),
}

impl Criterion {
    /// Whether it is met everywhere.
    #[must_use]
    pub const fn is_met(&self) -> bool {
        self.missed.0 == 0
    }
}

/// Two runs of one demand, criterion by criterion.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// All criteria, in the order of `Measure`.
    pub criteria: Vec<Criterion>,
    /// The largest difference of what ran, where there is any.
    pub difference: Option<Difference>,
}

/// Where what ran of a pool differs most, beyond what a grant's time explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The pool.
    pub pool: String,
    /// The kind.
    pub kind: String,
    /// The second of the trace.
    pub second: u64,
    /// The nearest amount that ran before around that second.
    pub before: u64,
    /// The amount that ran after in that second.
    pub after: u64,
}

impl Difference {
    /// How large it is.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.before.abs_diff(self.after)
    }
}

/// Why two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotComparable {
    /// They are of different demands.
    #[error(
        "the saved figures are of demand {before} with seed {before_seed}, and these of {after} with seed {after_seed}"
    )]
    OtherDemand {
        /// The demand before.
        before: String,
        /// Its seed.
        before_seed: u64,
        /// The demand after.
        after: String,
        /// Its seed.
        after_seed: u64,
    },
}

/// A figure of both runs.
#[derive(Debug, Clone, Copy)]
struct Both {
    before: u64,
    after: u64,
}

impl Both {
    fn of(before: &Figures, after: &Figures, figure: impl Fn(&Figures) -> u64) -> Self {
        Self {
            before: figure(before),
            after: figure(after),
        }
    }
}

/// Compares a run with one before a change.
///
/// # Errors
/// See `NotComparable`.
pub fn compare(before: &Figures, after: &Figures) -> Result<Comparison, NotComparable> {
    if (&before.demand, before.seed) != (&after.demand, after.seed) {
        return Err(NotComparable::OtherDemand {
            before: before.demand.clone(),
            before_seed: before.seed,
            after: after.demand.clone(),
            after_seed: after.seed,
        });
    }
    let (amounts, difference) = amounts(before, after);
    let both = |figure: fn(&Figures) -> u64| Both::of(before, after, figure);
    // A kind of which nothing ran has no entry.
    let cpus = both(|f| f.work.get("cpus").map_or(0, |sum| *sum));
    let messages = both(|f| f.orders.saturating_add(f.reports));
    let preemptions = both(|f| f.preemptions);
    let writes = both(|f| f.conditional_writes);
    let most_writes = times(writes.before, 120).max(after.starts / 100);
    let criteria = vec![
        amounts,
        waits(Measure::FirstMean, before, after, |p| p.first_mean_ms),
        waits(Measure::FirstMedian, before, after, |p| p.first_median_ms),
        waits(Measure::First99, before, after, |p| p.first_p99_ms),
        waits(Measure::LastMean, before, after, |p| p.last_mean_ms),
        waits(Measure::LastMedian, before, after, |p| p.last_median_ms),
        waits(Measure::Last99, before, after, |p| p.last_p99_ms),
        at_most(Measure::Preemptions, preemptions, preemptions.before),
        work(Measure::Instances, both(|f| f.work_instance_ms)),
        work(Measure::Cpus, cpus),
        at_most(Measure::Messages, messages, messages.before / 3),
        at_most(Measure::ConditionalWrites, writes, most_writes),
    ];
    Ok(Comparison { criteria, difference })
}

/// So many hundredths of a number.
fn times(n: u64, hundredths: u64) -> u64 {
    let product = u128::from(n) * u128::from(hundredths) / 100;
    u64::try_from(product).unwrap_or(u64::MAX)
}

fn at_most(measure: Measure, both: Both, bound: u64) -> Criterion {
    Criterion {
        measure,
        pool: None,
        before: Some(both.before),
        after: Some(both.after),
        bound: Some(bound),
        missed: (u64::from(both.after > bound), 1),
    }
}

fn work(measure: Measure, both: Both) -> Criterion {
    // At most two thousandths less, whole ones: the difference never leaves the range of a `u64`.
    let least = both.before - both.before / 500;
    Criterion {
        measure,
        pool: None,
        before: Some(both.before),
        after: Some(both.after),
        bound: Some(least),
        missed: (u64::from(both.after < least), 1),
    }
}

/// Waits of each pool with jobs; the one that is farthest beyond its bound is named.
fn waits(
    measure: Measure,
    before: &Figures,
    after: &Figures,
    of: impl Fn(&PoolFigures) -> Option<u64>,
) -> Criterion {
    let mut worst: Option<(i128, Criterion)> = None;
    let mut missed = (0, 0);
    for (path, old) in before.pools.iter().filter(|(_, pool)| pool.jobs > 0) {
        let (old, new) = (of(old), after.pools.get(path).and_then(&of));
        let bound = old.map(|ms| times(ms, 102).saturating_add(100));
        // What never came before may come at any time; what never comes is beyond every bound.
        let beyond = match (new, bound) {
            (_, None) => i128::MIN,
            (None, Some(_)) => i128::MAX,
            (Some(new), Some(bound)) => i128::from(new) - i128::from(bound),
        };
        missed.1 += 1;
        missed.0 += u64::from(beyond > 0);
        if worst.as_ref().is_none_or(|(most, _)| beyond > *most) {
            let criterion = Criterion {
                measure,
                pool: Some(path.clone()),
                before: old,
                after: new,
                bound,
                missed: (0, 0),
            };
            worst = Some((beyond, criterion));
        }
    }
    let none = Criterion {
        measure,
        pool: None,
        before: None,
        after: None,
        bound: None,
        missed: (0, 0),
    };
    Criterion {
        missed,
        ..worst.map_or(none, |(_, criterion)| criterion)
    }
}

/// An amount by second, of which each entry holds up to the next one's second.
type Levels = [(u64, u64, u64)];

/// The least and the most of some seconds.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    /// The value of the range that is nearest to one.
    fn nearest(self, value: u64) -> u64 {
        value.clamp(self.least, self.most.max(self.least))
    }
}

/// A cursor over levels: what an amount was in a second.
struct Cursor<'a> {
    levels: &'a Levels,
    at: usize,
}

impl<'a> Cursor<'a> {
    const fn new(levels: &'a Levels) -> Self {
        Self { levels, at: 0 }
    }

    /// The range within a second. Seconds do not go back.
    fn in_second(&mut self, second: u64) -> Range {
        while self.levels.get(self.at).is_some_and(|(from, ..)| *from <= second) {
            self.at += 1;
        }
        let level = self.at.checked_sub(1).and_then(|at| self.levels.get(at));
        let (least, most) = level.map_or((0, 0), |(_, least, most)| (*least, *most));
        Range { least, most }
    }
}

/// The ranges of a second with those beside it, for all seconds of `0..end`.
fn around(levels: &Levels, end: u64) -> impl Iterator<Item = (Range, Range)> {
    let mut cursor = Cursor::new(levels);
    let first = cursor.in_second(0);
    let mut last = (first, first);
    (0..end).map(move |second| {
        let (before, now) = last;
        let next = cursor.in_second(second + 1);
        last = (now, next);
        let wide = Range {
            least: before.least.min(now.least).min(next.least),
            most: before.most.max(now.most).max(next.most),
        };
        (now, wide)
    })
}

fn amounts(before: &Figures, after: &Figures) -> (Criterion, Option<Difference>) {
    let keys = |figures: &Figures| {
        let pools = figures.pools.iter();
        let all = pools.flat_map(|(path, pool)| {
            let kinds = pool.amounts.keys();
            kinds.map(|kind| (path.clone(), kind.clone())).collect::<Vec<_>>()
        });
        all.collect::<BTreeSet<_>>()
    };
    let mut worst: Option<Difference> = None;
    let mut missed = (0, 0);
    for (pool, kind) in keys(before).union(&keys(after)) {
        let old = levels(before, pool, kind);
        let new = levels(after, pool, kind);
        let end = |levels: &Levels| levels.last().map_or(0, |(second, ..)| second + 1);
        let end = end(old).max(end(new));
        let both = around(old, end).zip(around(new, end));
        for (second, ((old, wide_old), (new, wide_new))) in (0u64..).zip(both) {
            missed.1 += 1;
            // Each run's extremes are to be near something that the other one had.
            let pairs = [
                (wide_old.nearest(new.least), new.least),
                (wide_old.nearest(new.most), new.most),
                (old.least, wide_new.nearest(old.least)),
                (old.most, wide_new.nearest(old.most)),
            ];
            let farthest = pairs.into_iter().max_by_key(|(a, b)| a.abs_diff(*b));
            let Some((a, b)) = farthest.filter(|(a, b)| a != b) else {
                continue;
            };
            missed.0 += 1;
            if worst.as_ref().is_none_or(|w| a.abs_diff(b) > w.size()) {
                worst = Some(Difference {
                    pool: pool.clone(),
                    kind: kind.clone(),
                    second,
                    before: a,
                    after: b,
                });
            }
        }
    }
    let criterion = Criterion {
        measure: Measure::Amounts,
        pool: worst.as_ref().map(|w| w.pool.clone()),
        before: worst.as_ref().map(|w| w.before),
        after: worst.as_ref().map(|w| w.after),
        bound: worst.as_ref().map(|w| w.before),
        missed,
    };
    (criterion, worst)
}

fn levels<'a>(figures: &'a Figures, pool: &str, kind: &str) -> &'a Levels {
    let pool = figures.pools.get(pool);
    pool.and_then(|p| p.amounts.get(kind)).map_or(&[], Vec::as_slice)
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amounts => "amounts by pool and second",
            Self::FirstMean => "wait for the first instance, mean, ms",
            Self::FirstMedian => "wait for the first instance, median, ms",
            Self::First99 => "wait for the first instance, 99th, ms",
            Self::LastMean => "wait for the last instance, mean, ms",
            Self::LastMedian => "wait for the last instance, median, ms",
            Self::Last99 => "wait for the last instance, 99th, ms",
            Self::Preemptions => "preemptions",
            Self::Instances => "work done, instance-ms",
            Self::Cpus => "work done, millicore-ms",
            Self::Messages => "slices ordered and reported",
            Self::ConditionalWrites => "conditional writes",
        })
    }
}

#[cfg(test)]
mod tests;
