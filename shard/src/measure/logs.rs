//! What became of the logs of runs that have ended.

use echelon_core_model::log::NoTail;
use echelon_core_shard::{LogStats, Shard};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::MetricError;
use prometheus::{IntCounter, IntCounterVec};

/// The word of metrics for runs that ended together with too many others.
const CROWDED: &str = "too_many";

/// The handles.
pub(super) struct KeptLogs {
    kept: IntCounter,
    bytes: IntCounter,
    missed: IntCounterVec,
    before: LogStats,
}

impl KeptLogs {
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            kept: metrics.counter(
                "echelon_shard_logs_kept_total",
                "Runs that have ended and the ends of whose logs are kept in storage.",
            )?,
            bytes: metrics.counter(
                "echelon_shard_logs_kept_bytes_total",
                "Bytes of logs that were stored to be kept.",
            )?,
            missed: metrics.counters(
                "echelon_shard_logs_missed_total",
                "Logs of ended runs that were not kept: runs that ended together with too many others, and outputs that could not be read, by reason.",
                &["reason"],
            )?,
            before: LogStats::default(),
        })
    }

    pub(super) fn look(&mut self, driver: &Shard) {
        let now = driver.log_stats();
        if *now == self.before {
            return;
        }
        let before = std::mem::replace(&mut self.before, now.clone());
        self.kept.inc_by(now.kept.saturating_sub(before.kept));
        self.bytes.inc_by(now.bytes.saturating_sub(before.bytes));
        let missed = |reason: &str, now: u64, before: u64| {
            let more = now.saturating_sub(before);
            self.missed.with_label_values(&[reason]).inc_by(more);
        };
        missed(CROWDED, now.crowded, before.crowded);
        let of = |stats: &LogStats, why: NoTail| stats.missing.get(&why).copied().unwrap_or_default();
        for why in NoTail::ALL {
            missed(why.word(), of(now, why), of(&before, why));
        }
    }
}
