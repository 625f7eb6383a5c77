//! What came of a replay: how long jobs waited for their first and their last instance, and how much of what there was ran.

use crate::counts::Counts;
use crate::series::Level;
use crate::trace::{Job, Trace};
use echelon_core_model::resources::Kind;
use echelon_core_model::{Span, Timestamp};
use std::collections::BTreeMap;

/// The path under which all pools are counted together.
pub const ALL: &str = "/";

/// How long somebody waited. What never came is longer than anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// So long.
    For(Span),
    /// It did not come while anything happened.
    Never,
}

/// Waits of several jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waits {
    sorted: Vec<Wait>,
}

impl Waits {
    fn new(mut waits: Vec<Wait>) -> Self {
        waits.sort_unstable();
        Self { sorted: waits }
    }

    /// The wait that `p` of 100 jobs do not exceed; `None` without jobs.
    #[must_use]
    pub fn percentile(&self, p: usize) -> Option<Wait> {
        let at = self
            .sorted
            .len()
            .saturating_mul(p)
            .div_ceil(100)
            .saturating_sub(1);
        self.sorted.get(at).copied()
    }

    /// The mean of all waits; `None` without jobs, or where one never came.
    #[must_use]
    pub fn mean(&self) -> Option<Span> {
        let spans = self.sorted.iter().map(|wait| match wait {
            Wait::For(span) => Some(u128::from(span.0)),
            Wait::Never => None,
        });
        let sum: u128 = spans.sum::<Option<u128>>()?;
        let jobs = u128::try_from(self.sorted.len()).unwrap_or(u128::MAX);
        let mean = sum.checked_div(jobs)?;
        Some(Span(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The waits that came to an end, from the shortest to the longest.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        self.sorted.iter().filter_map(|wait| match wait {
            Wait::For(span) => Some(*span),
            Wait::Never => None,
        })
    }

    /// Jobs for which it did not come.
    #[must_use]
    pub fn never(&self) -> usize {
        self.sorted.iter().filter(|w| **w == Wait::Never).count()
    }

    /// All jobs.
    #[must_use]
    pub const fn jobs(&self) -> usize {
        self.sorted.len()
    }
}

/// What came of a pool's jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolOutcome {
    /// From submit to the first instance.
    pub first: Waits,
    /// From submit to the last instance.
    pub last: Waits,
    /// What ran of each kind, times the milliseconds that it ran.
    pub used: [u128; 4],
    /// Instances that were preempted; one that was preempted twice counts twice.
    pub preempted: u64,
    /// The milliseconds that these had run, together: they begin anew.
    pub lost: u128,
    /// What ran of each kind, by second; empty where nothing of a kind ever ran.
    pub amounts: [Vec<Level>; 4],
}

/// Work that was done up to the end of the trace, without what preempted instances had run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Instances times milliseconds.
    pub instances: u128,
    /// Amounts of each kind times milliseconds.
    pub done: [u128; 4],
    /// The most of that which demand and capacity allowed, whatever limits pools have.
    pub allowed: [u128; 4],
}

/// What came of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// By path of the pool that jobs name; all together under `/`.
    pub pools: BTreeMap<String, PoolOutcome>,
    /// What there was of each kind, times the milliseconds that it was there; nothing where that was not looked at.
    pub capacity: [u128; 4],
    /// What deciding cost.
    pub counts: Counts,
    /// What was done.
    pub work: Work,
}

impl Outcome {
    /// The waits that were recorded; `None` where the trace tells none.
    #[must_use]
    pub fn recorded(trace: &Trace) -> Option<Self> {
        let begun: Vec<Begun> = trace.jobs.iter().map(recorded).collect();
        let told = begun.iter().any(|b| b.first.is_some());
        told.then(|| {
            let mut out = Self::default();
            out.add_waits(trace, &begun);
            out
        })
    }

    /// Takes the waits of all jobs in, in the order of the trace.
    pub(crate) fn add_waits(&mut self, trace: &Trace, begun: &[Begun]) {
        let mut waits: BTreeMap<&str, (Vec<Wait>, Vec<Wait>)> = BTreeMap::new();
        for (job, begun) in trace.jobs.iter().zip(begun) {
            let wait =
                |at: Option<Timestamp>| at.map_or(Wait::Never, |at| Wait::For(at.since(job.submitted)));
            for path in [ALL, job.pool.as_str()] {
                let (first, last) = waits.entry(path).or_default();
                first.push(wait(begun.first));
                last.push(wait(begun.last));
            }
        }
        for (path, (first, last)) in waits {
            let pool = self.pools.entry(path.to_owned()).or_default();
            (pool.first, pool.last) = (Waits::new(first), Waits::new(last));
        }
    }
}

/// When a job's first and last instances began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begun {
    /// The first of all its groups.
    pub first: Option<Timestamp>,
    /// The last, once every one has begun.
    pub last: Option<Timestamp>,
}

fn recorded(job: &Job) -> Begun {
    let each = job.groups.iter();
    Begun {
        first: each.clone().filter_map(|g| g.first_started).min(),
        last: each
            .map(|g| g.last_started)
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max()),
    }
}

/// Adds up an amount over time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    now: [u64; 4],
    since: Timestamp,
    sum: [u128; 4],
}

impl Meter {
    /// From `at` on the amount is another one.
    pub fn change(&mut self, at: Timestamp, change: impl Fn(u64, Kind) -> u64) {
        let span = u128::from(at.since(self.since).0);
        self.since = at.max(self.since);
        for ((now, sum), kind) in self.now.iter_mut().zip(&mut self.sum).zip(Kind::ALL) {
            *sum += span * u128::from(*now);
            *now = change(*now, kind);
        }
    }

    /// The present amount of each kind.
    pub const fn amounts(&self) -> [u64; 4] {
        self.now
    }

    /// The sum up to `at`.
    pub fn sum(mut self, at: Timestamp) -> [u128; 4] {
        self.change(at, |now, _| now);
        self.sum
    }
}
