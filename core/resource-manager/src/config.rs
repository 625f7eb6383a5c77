//! Timings and bounds of a resource manager. The tested program is the shipped one: tests change only the
//! values here.

use echelon_core_model::store::REQUEST_IDS_KEPT;
use echelon_core_model::{Amount, Span};

/// A cycle runs at least this often, for what only time changes.
pub(crate) const FULL_CYCLE: Span = Span::seconds(1);

/// What the shell chooses. There is no `Default`: holder and seed must be its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// A text unique to this process, stored with the epoch that it takes.
    pub holder: String,
    /// Start of the random stream that jitters backoffs.
    pub seed: u64,
    /// The own epoch is read again every third of this; not confirmed for all of it: step down.
    pub lease: Span,
    /// How long a grant allows raising: after that nothing new begins.
    pub grant_lease: Span,
    /// Grants are renewed, and orders repeated, this often.
    pub renew: Span,
    /// Time for each cycle, on average.
    pub cycle: Span,
    /// All buckets of heads are read again within this.
    pub heads_within: Span,
    /// Pools and clusters are read again this often.
    pub reread: Span,
    /// A stream without a report for half of this is asked for a full one. A stream without a report, a
    /// heartbeat without a change or a shard without a subscription for all of it counts as silent.
    pub silent_after: Span,
    /// Heartbeats are read again this often.
    pub heartbeats: Span,
    /// A cluster that has been cut off or without Mesos for this long is lost.
    pub lost_after: Span,
    /// For how much of one silence this leader may doubt its own observation; `None`: for all of it.
    pub doubt_at_most: Option<Span>,
    /// The capacity of a cluster that is silent or without agents counts in full for this long.
    pub counts_for: Span,
    /// Starts are forbidden at a cluster of which this leader has seen no sign for this long. It is longer than the
    /// start lease of a shard and what may be under way, also with clocks whose rates differ by 2 %.
    pub start_ban_after: Span,
    /// Most jobs of which blocks of one silent cluster are read at a time.
    pub unbegun_reads: usize,
    /// Waiting instances that a cluster cannot place for this long go elsewhere.
    pub spill_after: Span,
    /// How capacity is made for work that is entitled to it.
    pub preemption: Preemption,
    /// Shortest time between two writes of one job's progress. That it has ended is written at once.
    pub progress_every: Span,
    /// How long after its creation the head of a deleted job stays, so that a repeated create does not make
    /// the job again.
    pub tombstones: Span,
    /// Live jobs that each cycle looks at by cursor, though nothing of them has changed.
    pub turns: usize,
    /// Most jobs that one cycle admits. The others have their turn in the next one, in the same order.
    pub admitted_at_once: usize,
    /// With more queues than this, what a cycle does once a second is spread over three cycles.
    pub queues_at_once: usize,
    /// Most instances that leave draining clusters in one cycle.
    pub drain_batch: u64,
    /// Most reads and raises under way while recovering.
    pub reads_at_once: usize,
    /// First wait before a failed operation is repeated; doubles up to `max_backoff`.
    pub backoff: Span,
    /// Longest wait before a failed operation is repeated.
    pub max_backoff: Span,
}

impl Config {
    /// The shipped timings.
    #[must_use]
    pub fn new(holder: impl Into<String>, seed: u64) -> Self {
        Self {
            holder: holder.into(),
            seed,
            lease: Span::seconds(10),
            grant_lease: Span::minutes(10),
            renew: Span::seconds(10),
            cycle: Span::millis(50),
            heads_within: Span::seconds(60),
            reread: Span::seconds(5),
            silent_after: Span::seconds(8),
            heartbeats: Span::seconds(2),
            lost_after: Span::minutes(15),
            doubt_at_most: Some(Span::minutes(60)),
            counts_for: Span::minutes(5),
            start_ban_after: Span::seconds(60),
            unbegun_reads: 16,
            spill_after: Span::seconds(10),
            preemption: Preemption {
                after: Span::seconds(30),
                a_minute: Amount::Percent(10),
                at_least: 600,
                unanswered: 16,
                open: 1_024,
                patience: Span::minutes(10),
            },
            progress_every: Span::millis(250),
            // The hour is for clocks that differ: gateways make ids, storage forgets requests, and this
            // process decides.
            tombstones: Span(REQUEST_IDS_KEPT.0 + Span::minutes(60).0),
            turns: 100,
            admitted_at_once: 500,
            queues_at_once: 1_000,
            drain_batch: 200,
            reads_at_once: 32,
            backoff: Span::millis(100),
            max_backoff: Span::seconds(5),
        }
    }
}

/// The bounds of preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// How long an equivalence class of requests must starve before capacity is made for it.
    pub after: Span,
    /// Most instances that are preempted in a minute, of all that are active in the federation.
    pub a_minute: Amount,
    /// The least bound for a minute when `a_minute` is a percentage.
    pub at_least: u64,
    /// Most preemption requests at one cluster that its shard has not answered.
    pub unanswered: usize,
    /// Most preemption requests at one cluster.
    pub open: usize,
    /// How long a preemption request stays open.
    pub patience: Span,
}

impl Preemption {
    /// Most instances that are preempted in a minute while this many are active.
    #[must_use]
    pub fn a_minute(&self, active: u64) -> u64 {
        match self.a_minute {
            Amount::Count(n) => u64::from(n).max(1),
            Amount::Percent(_) => self.a_minute.of_many(active).max(self.at_least).max(1),
        }
    }
}
