//! What a shard holds back: mass actions beyond their limits, replacements after a mass loss, and all that waits for
//! a resource manager.

use crate::host_manager::{LAUNCH_BYTES, OTHER_CALL_BYTES};
use crate::links::REPORT_BYTES;
use echelon_core_shard::{Action, Shard};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::MetricError;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec};
use std::time::Duration;

/// The word of metrics for requests for what was refused: their limit is a gap, not a share.
const REVIVE: &str = "revive";

/// The handles.
pub(super) struct Limits {
    limit: GaugeVec,
    held: IntCounterVec,
    before: [u64; Action::ALL.len()],
    revivals_before: u64,
    loss: IntGauge,
    missing: IntGauge,
    kills_off: IntGauge,
    no_manager: IntGauge,
    calls: IntGaugeVec,
    reports: IntGaugeVec,
}

impl Limits {
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            limit: metrics.fractions(
                "echelon_shard_rate_limit",
                "How many of a mass action may be done a second.",
                &["action"],
            )?,
            held: metrics.counters(
                "echelon_shard_rate_held_total",
                "Times that the limit of a mass action made something wait, at most ten a second.",
                &["action"],
            )?,
            before: Default::default(),
            revivals_before: 0,
            loss: metrics.gauge(
                "echelon_mass_loss",
                "1 while nothing is replaced on this cluster, since too many running tasks were lost at once.",
            )?,
            missing: metrics.gauge(
                "echelon_mass_loss_missing",
                "Tasks of that mass loss that are neither back nor ended; 0 when there is none.",
            )?,
            kills_off: metrics.gauge(
                "echelon_shard_kills_off",
                "1 while this shard knows that kills are switched off, and kills nothing.",
            )?,
            no_manager: metrics.gauge(
                "echelon_shard_no_resource_manager_seconds",
                "For how many seconds this shard has heard no resource manager; 0 while it hears one.",
            )?,
            calls: metrics.gauges(
                "echelon_mesos_call_bytes",
                "Bytes of calls to Mesos, of launches and of others: under way, and the limit.",
                &["calls", "amount"],
            )?,
            reports: metrics.gauges(
                "echelon_shard_report_bytes",
                "Bytes of reports to resource managers that were not read: under way over all streams, and the limit of one.",
                &["amount"],
            )?,
        })
    }

    /// What is under way to Mesos and to resource managers.
    pub(super) fn tell_ways_out(&self, calls: (usize, usize), reports: usize) {
        let gauge = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
        let (launches, others) = calls;
        for (of, amount, bytes) in [
            ("launch", "under_way", launches),
            ("launch", "limit", LAUNCH_BYTES),
            ("other", "under_way", others),
            ("other", "limit", OTHER_CALL_BYTES),
        ] {
            self.calls.with_label_values(&[of, amount]).set(gauge(bytes));
        }
        for (amount, bytes) in [("under_way", reports), ("limit", REPORT_BYTES)] {
            self.reports.with_label_values(&[amount]).set(gauge(bytes));
        }
    }

    pub(super) fn look(&mut self, driver: &Shard) {
        for (action, before) in Action::ALL.into_iter().zip(&mut self.before) {
            let (limit, held) = driver.pace(action);
            let more = held.saturating_sub(std::mem::replace(before, held));
            self.limit.with_label_values(&[action.word()]).set(limit.into());
            self.held.with_label_values(&[action.word()]).inc_by(more);
        }
        let (gap, held) = driver.revivals();
        let more = held.saturating_sub(std::mem::replace(&mut self.revivals_before, held));
        let gap = Duration::from_millis(gap.0.max(1)).as_secs_f64();
        self.limit.with_label_values(&[REVIVE]).set(1.0 / gap);
        self.held.with_label_values(&[REVIVE]).inc_by(more);
        self.kills_off.set((driver.kills_off() == Some(true)).into());
        let silent = driver.no_manager_for().0 / 1000;
        self.no_manager.set(i64::try_from(silent).unwrap_or(i64::MAX));
        let loss = driver.mass_loss();
        let missing = loss.map_or(0, |l| l.missing);
        self.loss.set(loss.is_some().into());
        self.missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
    }
}
