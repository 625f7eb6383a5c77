//! What the resource manager tells in numbers. Never by job: labels have few values.

use echelon_core_model::{Epoch, Timestamp};
use echelon_core_resource_manager::ResourceManager;
use echelon_io_process::Metrics;
use echelon_io_process::metrics::{LATENCY_S, MetricError};
use prometheus::{Histogram, IntCounter, IntGauge};

/// The handles.
pub(crate) struct Measures {
    /// One turn of the loop.
    pub(crate) turn: Histogram,
    /// Alarms raised.
    pub(crate) alarms: IntCounter,
    leading: IntGauge,
    epoch: IntGauge,
}

impl Measures {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            turn: metrics.histogram(
                "echelon_loop_turn_seconds",
                "How long one turn of the role's loop took, from its events to the last effect handed on.",
                LATENCY_S,
            )?,
            alarms: metrics.counter(
                "echelon_alarms_total",
                "Alarms that an operator must look at; the log tells each.",
            )?,
            leading: metrics.gauge("echelon_leading", "1 while this process leads its role.")?,
            epoch: metrics.gauge(
                "echelon_epoch",
                "Epoch of this process's leadership; 0 while it does not lead.",
            )?,
        })
    }

    /// The leadership has begun or ended.
    pub(crate) fn leads(&self, epoch: Option<Epoch>) {
        self.leading.set(epoch.is_some().into());
        self.epoch
            .set(i64::try_from(epoch.unwrap_or_default().0).unwrap_or(i64::MAX));
    }

    /// Looks at the driver, from time to time.
    pub(crate) fn look(&mut self, _driver: &ResourceManager, _now: Timestamp) {}
}
