//! A row of figures of a run, small enough to be kept and compared with that of another run of the same
//! demand.

use crate::counts::Counts;
use crate::outcome::{Outcome, PoolOutcome, Wait, Waits};
use echelon_core_model::resources::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The demand's name.
    pub demand: String,
    /// Its seed.
    pub seed: u64,
    /// What ran and what waited, by path of the pool; all together under `/`.
    pub pools: BTreeMap<String, PoolFigures>,
    /// Work that was done up to the end of the trace, without what was preempted: instances times
    /// milliseconds.
    pub work_instance_ms: u64,
    /// The same in amounts of each kind times milliseconds.
    pub work: BTreeMap<String, u64>,
    /// The most of that which demand and capacity allowed.
    pub allowed: BTreeMap<String, u64>,
    /// Instances that were preempted; one that was preempted twice counts twice.
    pub preemptions: u64,
    /// Instances that began, those that began again included.
    pub starts: u64,
    /// Conditional writes of assignments.
    pub conditional_writes: u64,
    /// Commits of owned rows.
    pub owned_commits: u64,
    /// Slices that were ordered.
    pub orders: u64,
    /// The directives that ordered them, and all others.
    pub directives: u64,
    /// Slices that were reported.
    pub reports: u64,
    /// The messages that reported them, and all others.
    pub messages: u64,
    /// Ranges that were marked to go to another cluster.
    pub moves: u64,
    /// Ranges that were marked to go to no cluster.
    pub returns: u64,
    /// The most instances that waited at once.
    pub peak_waiting: u64,
    /// The most things that the resource manager held, by its footprint.
    pub peak_held: u64,
}

/// The figures of a pool. A wait is in milliseconds; `None`: it never came, or there are no jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolFigures {
    /// Its jobs.
    pub jobs: u64,
    /// From submit to a job's first instance, the mean.
    pub first_mean_ms: Option<u64>,
    /// The same, the median.
    pub first_median_ms: Option<u64>,
    /// The same, the wait that 99 of 100 jobs do not exceed.
    pub first_p99_ms: Option<u64>,
    /// From submit to a job's last instance, the mean.
    pub last_mean_ms: Option<u64>,
    /// The same, the median.
    pub last_median_ms: Option<u64>,
    /// The same, the wait that 99 of 100 jobs do not exceed.
    pub last_p99_ms: Option<u64>,
    /// Of each kind that ran, by second: (second, least, most), each entry up to the next one's second.
    pub amounts: BTreeMap<String, Vec<(u64, u64, u64)>>,
}

impl Figures {
    /// Those of a run of a demand.
    #[must_use]
    pub fn new(demand: &str, seed: u64, outcome: &Outcome) -> Self {
        let Outcome {
            pools,
            capacity: _,
            counts,
            work,
        } = outcome;
        let Counts {
            starts,
            conditional_writes,
            owned_commits,
            directives,
            orders,
            messages,
            reports,
            moves,
            returns,
            peak_waiting,
            peak_held,
        } = *counts;
        let all = pools.get(crate::ALL);
        Self {
            demand: demand.to_owned(),
            seed,
            pools: pools
                .iter()
                .map(|(path, pool)| (path.clone(), of_pool(pool)))
                .collect(),
            work_instance_ms: fitted(work.instances),
            work: by_kind(work.done),
            allowed: by_kind(work.allowed),
            preemptions: all.map_or(0, |pool| pool.preempted),
            starts,
            conditional_writes,
            owned_commits,
            orders,
            directives,
            reports,
            messages,
            moves,
            returns,
            peak_waiting,
            peak_held,
        }
    }
}

fn of_pool(pool: &PoolOutcome) -> PoolFigures {
    let ms = |waits: &Waits, p| match waits.percentile(p) {
        Some(Wait::For(span)) => Some(span.0),
        Some(Wait::Never) | None => None,
    };
    let amounts = Kind::ALL.iter().zip(&pool.amounts);
    let amounts = amounts.filter(|(_, levels)| !levels.is_empty());
    PoolFigures {
        jobs: crate::counts::count(pool.first.jobs()),
        first_mean_ms: pool.first.mean().map(|mean| mean.0),
        first_median_ms: ms(&pool.first, 50),
        first_p99_ms: ms(&pool.first, 99),
        last_mean_ms: pool.last.mean().map(|mean| mean.0),
        last_median_ms: ms(&pool.last, 50),
        last_p99_ms: ms(&pool.last, 99),
        amounts: amounts
            .map(|(kind, levels)| {
                let levels = levels.iter().map(|l| (l.second, l.least, l.most));
                (kind.word().to_owned(), levels.collect())
            })
            .collect(),
    }
}

fn by_kind(amounts: [u128; 4]) -> BTreeMap<String, u64> {
    let all = Kind::ALL.into_iter().zip(amounts);
    let there = all.filter(|(_, amount)| *amount > 0);
    there
        .map(|(kind, amount)| (kind.word().to_owned(), fitted(amount)))
        .collect()
}

/// Sums of half a billion core years and more are cut.
fn fitted(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
