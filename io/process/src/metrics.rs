//! Metrics in Prometheus' conventions, all under `echelon_`. The constructors refuse what would break the conventions,
//! so a name in a dashboard can be trusted.
//!
//! A [`Metrics`] belongs to one role; where several roles share a process (`standalone`), each has its own with labels
//! that tell them apart, and [`exposition`] joins them family by family.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, TextEncoder,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use thiserror::Error;

/// Bounds, in seconds, for what takes between half a millisecond and ten seconds: requests, storage, Mesos calls,
/// loop turns. Doubling or nearly so, so that a quantile is known to about half its value.
pub const LATENCY_S: &[f64] = &[
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0,
];

/// Bounds, in seconds, for what people wait for: submit to running, moves, rollouts; from 50 ms to an hour.
pub const WAIT_S: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];

/// Why a metric was refused. Each is a mistake in the program, found at its start.
#[derive(Debug, Error)]
pub enum MetricError {
    /// The name breaks a convention.
    #[error("metric `{name}` {rule}")]
    Name {
        /// The name.
        name: String,
        /// The convention.
        rule: &'static str,
    },
    /// The name is taken, or name or labels are not Prometheus'.
    #[error("cannot register the metric `{name}`")]
    Register {
        /// The name.
        name: String,
        /// What Prometheus' library said.
        #[source]
        source: prometheus::Error,
    },
}

/// The metrics of one role. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: prometheus::Registry,
    uptime: Gauge,
    started: Instant,
}

impl Metrics {
    /// A set whose every sample carries `labels` (`role`, and for a shard `cluster`), with
    /// `echelon_build_info{version,commit}` and `echelon_process_uptime_seconds`.
    ///
    /// # Errors
    /// When a label's name is not Prometheus'.
    pub fn new(labels: &[(&str, &str)], version: &str, commit: &str) -> Result<Self, MetricError> {
        let labels: HashMap<String, String> =
            labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let failed = |source| MetricError::Register {
            name: "echelon_build_info".into(),
            source,
        };
        let registry = prometheus::Registry::new_custom(None, Some(labels)).map_err(failed)?;
        let uptime = Gauge::new(
            "echelon_process_uptime_seconds",
            "Seconds since this role began in its process.",
        );
        let metrics = Self {
            registry,
            uptime: uptime.map_err(failed)?,
            started: Instant::now(),
        };
        metrics.add("echelon_process_uptime_seconds", metrics.uptime.clone())?;
        let build = metrics.gauges(
            "echelon_build_info",
            "Always 1; the labels tell the version and the commit.",
            &["version", "commit"],
        )?;
        build.with_label_values(&[version, commit]).set(1);
        Ok(metrics)
    }

    /// A count that only grows; the name ends with `_total`.
    ///
    /// # Errors
    /// When the name breaks a convention or is taken.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, MetricError> {
        total(name)?;
        self.register(name, IntCounter::with_opts(opts(name, help)?))
    }

    /// Counts by labels.
    ///
    /// # Errors
    /// As [`Metrics::counter`].
    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, MetricError> {
        total(name)?;
        self.register(name, IntCounterVec::new(opts(name, help)?, labels))
    }

    /// A number that rises and falls.
    ///
    /// # Errors
    /// When the name breaks a convention or is taken.
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, MetricError> {
        not_total(name)?;
        self.register(name, IntGauge::with_opts(opts(name, help)?))
    }

    /// Numbers by labels.
    ///
    /// # Errors
    /// As [`Metrics::gauge`].
    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, MetricError> {
        not_total(name)?;
        self.register(name, IntGaugeVec::new(opts(name, help)?, labels))
    }

    /// Numbers by labels that need not be whole.
    ///
    /// # Errors
    /// As [`Metrics::gauge`].
    pub fn fractions(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, MetricError> {
        not_total(name)?;
        self.register(name, GaugeVec::new(opts(name, help)?, labels))
    }

    /// A distribution of times in seconds over [`LATENCY_S`] or [`WAIT_S`]; the name ends with `_seconds`.
    ///
    /// # Errors
    /// When the name breaks a convention or is taken.
    pub fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Result<Histogram, MetricError> {
        seconds(name)?;
        let opts = HistogramOpts::from(opts(name, help)?).buckets(bounds.to_vec());
        self.register(name, Histogram::with_opts(opts))
    }

    /// Distributions of times by labels.
    ///
    /// # Errors
    /// As [`Metrics::histogram`].
    pub fn histograms(
        &self,
        name: &str,
        help: &str,
        bounds: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, MetricError> {
        seconds(name)?;
        let opts = HistogramOpts::from(opts(name, help)?).buckets(bounds.to_vec());
        self.register(name, HistogramVec::new(opts, labels))
    }

    fn register<C: Collector + Clone + 'static>(
        &self,
        name: &str,
        made: prometheus::Result<C>,
    ) -> Result<C, MetricError> {
        self.add(
            name,
            made.map_err(|source| MetricError::Register {
                name: name.into(),
                source,
            })?,
        )
    }

    fn add<C: Collector + Clone + 'static>(&self, name: &str, collector: C) -> Result<C, MetricError> {
        let failed = |source| MetricError::Register {
            name: name.into(),
            source,
        };
        self.registry
            .register(Box::new(collector.clone()))
            .map_err(failed)?;
        Ok(collector)
    }

    fn gather(&self) -> Vec<MetricFamily> {
        self.uptime.set(self.started.elapsed().as_secs_f64());
        self.registry.gather()
    }
}

/// The text that Prometheus scrapes, of all given sets together. The media type is [`CONTENT_TYPE`].
#[must_use]
pub fn exposition<'a>(sets: impl IntoIterator<Item = &'a Metrics>) -> String {
    let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
    for family in sets.into_iter().flat_map(Metrics::gather) {
        match families.get_mut(family.name()) {
            // Two roles of one build agree on name and kind; were they not to, the first one's samples stand alone.
            Some(known) if known.get_field_type() == family.get_field_type() => {
                known.mut_metric().extend(family.get_metric().iter().cloned());
            }
            Some(_) => {}
            None => {
                families.insert(family.name().to_owned(), family);
            }
        }
    }
    let families: Vec<MetricFamily> = families.into_values().collect();
    let mut text = Vec::new();
    if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
        tracing::error!(%error, "cannot write metrics as text");
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Media type of [`exposition`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

fn opts(name: &str, help: &str) -> Result<Opts, MetricError> {
    rule(name, name.starts_with("echelon_"), "must begin with `echelon_`")?;
    rule(name, !help.trim().is_empty(), "needs a help text")?;
    Ok(Opts::new(name, help))
}

fn total(name: &str) -> Result<(), MetricError> {
    rule(
        name,
        name.ends_with("_total"),
        "counts, so its name must end with `_total`",
    )
}

fn not_total(name: &str) -> Result<(), MetricError> {
    rule(
        name,
        !name.ends_with("_total"),
        "is no counter, so its name must not end with `_total`",
    )
}

fn seconds(name: &str) -> Result<(), MetricError> {
    rule(
        name,
        name.ends_with("_seconds"),
        "measures time, so its name must end with `_seconds`",
    )
}

fn rule(name: &str, holds: bool, rule: &'static str) -> Result<(), MetricError> {
    if holds {
        Ok(())
    } else {
        Err(MetricError::Name {
            name: name.into(),
            rule,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(role: &str) -> Metrics {
        Metrics::new(&[("role", role)], "1.2.3", "abc").unwrap()
    }

    #[test]
    fn names_that_break_the_conventions_are_refused() {
        let m = of("shard");
        let refused: [(&str, Result<(), MetricError>); 8] = [
            ("no prefix", m.counter("jobs_total", "h").map(drop)),
            ("no help", m.gauge("echelon_jobs", " ").map(drop)),
            ("counter without total", m.counter("echelon_jobs", "h").map(drop)),
            (
                "gauge with total",
                m.gauges("echelon_jobs_total", "h", &["a"]).map(drop),
            ),
            (
                "time without seconds",
                m.histogram("echelon_wait_ms", "h", LATENCY_S).map(drop),
            ),
            ("bad character", m.gauge("echelon_jobs-a", "h").map(drop)),
            (
                "bad label",
                m.counters("echelon_a_total", "h", &["a-b"]).map(drop),
            ),
            (
                "taken",
                m.gauges("echelon_build_info", "h", &["version"]).map(drop),
            ),
        ];
        for (what, result) in refused {
            assert!(result.is_err(), "{what}");
        }
    }

    #[test]
    fn two_roles_in_one_process_share_families() {
        let (a, b) = (of("shard"), of("gateway"));
        for m in [&a, &b] {
            m.counters("echelon_calls_total", "Calls.", &["kind"])
                .unwrap()
                .with_label_values(&["k\n\"x"])
                .inc();
            m.histogram("echelon_turn_seconds", "Turns.", LATENCY_S)
                .unwrap()
                .observe(0.003);
        }
        let text = exposition([&a, &b]);
        assert_eq!(text.matches("# TYPE echelon_calls_total counter").count(), 1);
        assert!(
            text.contains(r#"echelon_calls_total{kind="k\n\"x",role="shard"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"echelon_calls_total{kind="k\n\"x",role="gateway"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"echelon_turn_seconds_bucket{role="shard",le="0.004"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"echelon_build_info{commit="abc",version="1.2.3",role="gateway"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"echelon_process_uptime_seconds{role="shard"} "#),
            "{text}"
        );
    }

    #[test]
    fn bounds_rise() {
        for bounds in [LATENCY_S, WAIT_S] {
            assert!(bounds.is_sorted() && bounds.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
