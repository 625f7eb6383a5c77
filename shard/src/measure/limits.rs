//! What a shard holds back: mass actions beyond their limits, and replacements after a mass loss.

use echelon_core_shard::{Action, Shard};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::MetricError;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec};

/// The handles.
pub(super) struct Limits {
    limit: IntGaugeVec,
    held: IntCounterVec,
    before: [u64; Action::ALL.len()],
    loss: IntGauge,
    missing: IntGauge,
}

impl Limits {
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            limit: metrics.gauges(
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
            loss: metrics.gauge(
                "echelon_mass_loss",
                "1 while nothing is replaced on this cluster, since too many running tasks were lost at once.",
            )?,
            missing: metrics.gauge(
                "echelon_mass_loss_missing",
                "Tasks of that mass loss that are neither back nor ended; 0 when there is none.",
            )?,
        })
    }

    pub(super) fn look(&mut self, driver: &Shard) {
        for (action, before) in Action::ALL.into_iter().zip(&mut self.before) {
            let (limit, held) = driver.pace(action);
            let more = held.saturating_sub(std::mem::replace(before, held));
            self.limit.with_label_values(&[action.word()]).set(limit.into());
            self.held.with_label_values(&[action.word()]).inc_by(more);
        }
        let loss = driver.mass_loss();
        let missing = loss.map_or(0, |l| l.missing);
        self.loss.set(loss.is_some().into());
        self.missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
    }
}
