//! The gateway's metrics.

use echelon_io_process::metrics::{LATENCY_S, MetricError, Metrics};
use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};
use std::time::Duration;
use tonic::Code;

/// The gateway's metrics.
#[derive(Clone)]
pub(crate) struct Telemetry {
    requests: IntCounterVec,
    seconds: HistogramVec,
    /// Streams open at the moment.
    pub(crate) streams: IntGauge,
    /// Whether kills are switched off.
    pub(crate) kills_off: IntGauge,
    /// Whether no leader of a role answers.
    pub(crate) leader_absent: IntGaugeVec,
    hints: IntCounterVec,
    refused: IntCounterVec,
}

impl Telemetry {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            requests: metrics.counters(
                "echelon_gateway_requests_total",
                "Requests answered, by method and gRPC code.",
                &["method", "code"],
            )?,
            seconds: metrics.histograms(
                "echelon_gateway_request_seconds",
                "Time from a request to its answer, by method; for streams, to their first answer.",
                LATENCY_S,
                &["method"],
            )?,
            streams: metrics.gauge(
                "echelon_gateway_streams",
                "Watches, logs and live pages that are open.",
            )?,
            kills_off: metrics.gauge(
                "echelon_gateway_kills_off",
                "1 while kills are switched off on all clusters (`echelon control show`).",
            )?,
            leader_absent: metrics.gauges(
                "echelon_gateway_leader_absent",
                "1 while no leader of a role has answered this gateway for 3 s; `of` is resource-manager, or shard and its cluster.",
                &["of"],
            )?,
            hints: metrics.counters(
                "echelon_gateway_hints_total",
                "Hints to the resource manager, by outcome; a lost one costs at most a round.",
                &["outcome"],
            )?,
            refused: metrics.counters(
                "echelon_gateway_refused_total",
                "HTTP requests refused before they reached a method, by reason.",
                &["reason"],
            )?,
        })
    }

    pub(crate) fn request(&self, method: &str, code: Code, took: Duration) {
        let code = format!("{code:?}");
        self.requests.with_label_values(&[method, &code]).inc();
        self.seconds
            .with_label_values(&[method])
            .observe(took.as_secs_f64());
    }

    pub(crate) fn hint(&self, outcome: &str) {
        self.hints.with_label_values(&[outcome]).inc();
    }

    pub(crate) fn refused(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }
}
