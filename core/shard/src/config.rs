//! What the shell must choose for a shard, and its timings. Timings have usual values; identity has none.

use crate::pace::Action;
use echelon_core_hosts as hosts;
use echelon_core_model::ClusterId;
use echelon_core_model::time::Span;

/// Who this shard is and how fast it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The cluster that it drives.
    pub cluster: ClusterId,
    /// The cluster's name, for people and `ECHELON_CLUSTER`.
    pub name: String,
    /// Unique to this process: tells in storage who took an epoch.
    pub holder: String,
    /// Where gateways and the resource manager reach this process, `host:port`.
    pub address: String,
    /// Seed of jitter.
    pub seed: u64,
    /// Spans and bounds.
    pub timing: Timing,
    /// Whether disk can be reserved for the framework's role: not for `*` (R133).
    pub reserves: bool,
    /// A framework id that an operator gives up: should it be the stored one and the cluster say that it was removed, a new
    /// one is registered. Nothing else ever replaces a stored id.
    pub replaced_framework: Option<String>,
}

/// Spans and bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// A leader that could not confirm its epoch, or commit, for this long gives up. It asks every third of it.
    pub lease: Span,
    /// Between two heartbeats in storage.
    pub heartbeat: Span,
    /// Nothing new begins unless a heartbeat is durable that was sent within this time. A resource manager moves what
    /// has not begun after a silence that is longer.
    pub start_lease: Span,
    /// Without a resource manager, goals and assignments are read again this often and may not be older for a start.
    pub reread: Span,
    /// How old the switch of kills, as it was read, may be when something is killed. It is read three times as often.
    pub control: Span,
    /// Between a failed storage operation and its repetition, doubled up to the lease.
    pub storage_retry: Span,
    /// How long transitions are gathered before a bucket is committed.
    pub commit_delay: Span,
    /// Changes are reported this long after those before, and at once where that is longer ago.
    pub report_apart: Span,
    /// What is observed of the cluster is reported this often, and when it changes.
    pub signs: Span,
    /// Between two such reports at least.
    pub signs_apart: Span,
    /// Between two reports of starts at least.
    pub starts_apart: Span,
    /// At most one capacity report in this time.
    pub capacity_delay: Span,
    /// After the launch call without any sign of the task: ask for it.
    pub launch_timeout: Span,
    /// In one state between others for this long: ask for it, and again after twice as long, up to `reconcile_every`.
    pub overdue: Span,
    /// Between two kills of one task, doubled up to a minute.
    pub kill_retry: Span,
    /// Between two reconciliations of what has not been answered, doubled up to `reconcile_every`.
    pub reconcile_retry: Span,
    /// Between two complete reconciliations (R107).
    pub reconcile_every: Span,
    /// A run as long as this forgives earlier failures.
    pub healthy_after: Span,
    /// A replacement waits so long for the host of its former run to offer the room that this has left.
    pub former_wait: Span,
    /// That room is held for it for so long.
    pub former_held: Span,
    /// Host rows are written this often.
    pub host_rows: Span,
    /// Buckets read at the same time.
    pub parallel_reads: usize,
    /// Cluster events held while state is read.
    pub held_events: usize,
    /// Tasks a reconcile call.
    pub reconcile_batch: usize,
    /// Instances a placement problem.
    pub place_batch: usize,
    /// How fast mass actions go.
    pub rates: Rates,
    /// How much may be lost at once before replacements wait.
    pub loss: LossLimit,
    /// How much is kept of what ended runs have written.
    pub logs: LogLimits,
    /// Times of the host manager.
    pub hosts: hosts::Config,
}

/// How many of each mass action at most, a second (law 8). At least one: what must not happen at all has a switch of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Runs begun.
    pub launches: u32,
    /// Lost runs given up for further ones.
    pub replacements: u32,
    /// Kills sent, repetitions included.
    pub kills: u32,
    /// Tasks that Mesos is asked about.
    pub reconciliations: u32,
}

impl Rates {
    /// The limit of an action.
    #[must_use]
    pub const fn of(&self, action: Action) -> u32 {
        match action {
            Action::Launch => self.launches,
            Action::Replace => self.replacements,
            Action::Kill => self.kills,
            Action::Reconcile => self.reconciliations,
        }
    }
}

impl Default for Rates {
    /// Above what one master takes without harm, and low enough that a wrong decision about a large cluster takes minutes, in which
    /// somebody can stop it: 100,000 tasks are killed in 20 s and replaced in 100. A question harms nothing: 100,000 in 5 s.
    fn default() -> Self {
        Self {
            launches: 20_000,
            replacements: 1_000,
            kills: 5_000,
            reconciliations: 20_000,
        }
    }
}

/// How much may be lost at once before replacements wait for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossLimit {
    /// More than this part of the tasks known to run, in percent.
    pub percent: u64,
    /// And no fewer tasks than this: on a small cluster one host is a large part.
    pub least: u64,
    /// Within this time.
    pub within: Span,
}

impl LossLimit {
    /// Whether so many of so many are more than the part that may be lost.
    #[must_use]
    pub const fn is_exceeded(&self, lost: u64, of: u64) -> bool {
        lost.saturating_mul(100) > of.saturating_mul(self.percent)
    }
}

/// How much is kept of what ended runs have written, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// The last bytes of each output of a run; 0: nothing is kept.
    pub keep_bytes: u64,
    /// Bytes a second of all runs. Each counts for 4 KiB at least.
    pub bytes_per_second: u64,
    /// Runs that are read at a time.
    pub parallel: usize,
    /// Runs of a job that are kept, at this cluster.
    pub runs_per_job: usize,
}

impl Default for LogLimits {
    /// 256 small runs a second, or 8 with full outputs; a job takes 128 MiB at most, beside sidecars.
    fn default() -> Self {
        Self {
            keep_bytes: 64 * 1024,
            bytes_per_second: 1024 * 1024,
            parallel: 8,
            runs_per_job: 1_000,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Span::seconds(10),
            heartbeat: Span::seconds(3),
            start_lease: Span::seconds(20),
            reread: Span::seconds(30),
            control: Span::seconds(30),
            storage_retry: Span::millis(200),
            commit_delay: Span::millis(5),
            report_apart: Span::millis(100),
            signs: Span::seconds(2),
            signs_apart: Span::millis(250),
            starts_apart: Span::seconds(5),
            capacity_delay: Span::seconds(1),
            launch_timeout: Span::seconds(30),
            overdue: Span::minutes(1),
            kill_retry: Span::seconds(5),
            reconcile_retry: Span::seconds(5),
            reconcile_every: Span::minutes(15),
            healthy_after: Span::minutes(5),
            // Mesos offers what has become free within its allocation interval, a second.
            former_wait: Span::seconds(3),
            former_held: Span::seconds(10),
            host_rows: Span::seconds(5),
            parallel_reads: 16,
            // About 20 MiB of offers and updates.
            held_events: 65_536,
            // With ten batches a second 100,000 tasks are asked for in five; a call is about 300 KiB.
            reconcile_batch: 2_000,
            place_batch: 2_000,
            rates: Rates::default(),
            loss: LossLimit {
                percent: 20,
                least: 5,
                within: Span::minutes(1),
            },
            logs: LogLimits::default(),
            hosts: hosts::Config::usual(),
        }
    }
}
