//! Counts what a port refuses by cause, and tells it in the log once a minute at most.

use crate::metrics::{MetricError, Metrics};
use prometheus::IntCounterVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often refusals are logged.
pub(super) const LOG_EVERY: Duration = Duration::from_secs(60);

/// Why a connection was closed, or a request or stream refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCause {
    /// The head of a request was not whole in time.
    Head,
    /// The body of a request stopped.
    Body,
    /// There was no request for long.
    Idle,
    /// The peer took nothing of its answer for long.
    Unread,
    /// The longest idle connection made room for a new one.
    Displaced,
    /// A new connection came when there were as many as may be, none of them idle.
    Full,
    /// A connection asked for more streams at once than it may have.
    Streams,
}

impl RefusalCause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Head,
        Self::Body,
        Self::Idle,
        Self::Unread,
        Self::Displaced,
        Self::Full,
        Self::Streams,
    ];

    /// As the metric names it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Body => "body",
            Self::Idle => "idle",
            Self::Unread => "unread",
            Self::Displaced => "displaced",
            Self::Full => "full",
            Self::Streams => "streams",
        }
    }

    /// As the log says it; what is usual is not logged.
    const fn told(self) -> Option<&'static str> {
        match self {
            Self::Idle => None,
            Self::Head => Some("closed over a request head that was not whole in time"),
            Self::Body => Some("refused over a request body that stopped"),
            Self::Unread => Some("closed over an answer that was not read"),
            Self::Displaced => Some("closed as the longest idle to make room"),
            Self::Full => Some("refused as all connections are in use"),
            Self::Streams => Some("streams refused as their connection has too many"),
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// Counts refusals. Clones share the counts.
#[derive(Debug, Clone)]
pub struct ConnectionRefusals {
    counter: Option<IntCounterVec>,
    untold: Arc<[AtomicU64; RefusalCause::ALL.len()]>,
}

impl ConnectionRefusals {
    /// Counts in `echelon_connections_refused_total` of a role.
    ///
    /// # Errors
    /// The metric is taken: a mistake in the program.
    pub fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Self::named(metrics, "echelon_connections_refused_total")
    }

    /// Counts under another name, for a further port of the same role.
    ///
    /// # Errors
    /// As [`ConnectionRefusals::new`].
    pub fn named(metrics: &Metrics, name: &str) -> Result<Self, MetricError> {
        let help = "Connections that were closed and requests and streams that were refused, by cause (docs/limits.md).";
        let counter = metrics.counters(name, help, &["cause"])?;
        for cause in RefusalCause::ALL {
            counter.with_label_values(&[cause.word()]);
        }
        Ok(Self {
            counter: Some(counter),
            ..Self::unmeasured()
        })
    }

    /// Only logs.
    #[must_use]
    pub fn unmeasured() -> Self {
        Self {
            counter: None,
            untold: Arc::default(),
        }
    }

    pub(super) fn add(&self, cause: RefusalCause, times: u64) {
        if let Some(counter) = &self.counter {
            counter.with_label_values(&[cause.word()]).inc_by(times);
        }
        if let Some(untold) = self.untold.get(cause.index()) {
            untold.fetch_add(times, Ordering::Relaxed);
        }
    }

    /// Logs what was refused since the last time, in one line.
    pub(super) fn tell(&self, port: &str) {
        let counts = RefusalCause::ALL.map(|cause| {
            let untold = self.untold.get(cause.index());
            (cause, untold.map_or(0, |n| n.swap(0, Ordering::Relaxed)))
        });
        if let Some(line) = summary(&counts) {
            tracing::warn!(port, "{line} (docs/limits.md)");
        }
    }
}

/// One line about refusals; `None` when there were none.
fn summary(counts: &[(RefusalCause, u64)]) -> Option<String> {
    let some = counts.iter().filter(|(_, n)| *n > 0);
    let parts: Vec<String> = some
        .filter_map(|(cause, n)| Some(format!("{n} {}", cause.told()?)))
        .collect();
    (!parts.is_empty()).then(|| format!("in the last minute: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_refusals_is_one_line_and_quiet_ones_are_none() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[(RefusalCause::Idle, 7), (RefusalCause::Head, 0)]), None);
        let line = summary(&[(RefusalCause::Head, 2), (RefusalCause::Full, 40_000)]);
        assert_eq!(
            line.as_deref(),
            Some(
                "in the last minute: 2 closed over a request head that was not whole in time; 40000 refused as all connections are in use"
            )
        );
    }

    #[test]
    fn each_cause_has_its_own_count() {
        let metrics = Metrics::new(&[("role", "x")], "1", "abc").unwrap();
        let refusals = ConnectionRefusals::new(&metrics).unwrap();
        for (i, cause) in RefusalCause::ALL.into_iter().enumerate() {
            refusals.add(cause, u64::try_from(i).unwrap());
        }
        let told = crate::metrics::exposition(&[metrics]);
        for (i, cause) in RefusalCause::ALL.into_iter().enumerate() {
            let line = format!(
                r#"echelon_connections_refused_total{{cause="{}",role="x"}} {i}"#,
                cause.word()
            );
            assert!(told.contains(&line), "{told}");
        }
    }
}
