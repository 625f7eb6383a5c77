//! The health of all clusters beside the state of this process: a notice of each in `/readyz`, and metrics.
//! It is read from storage, where the resource manager has put it, and never computed here.
//! A gateway stays ready whatever a cluster's health is. One dead cluster must not take all gateways out of a
//! balancer.

use crate::context::Gateway;
use echelon_core_gateway::view::Federation;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::{ClusterHealth, Health, HealthCause};
use echelon_core_model::{ClusterId, Timestamp};
use echelon_io_process::Readiness;
use echelon_io_process::health::Condition;
use echelon_io_process::metrics::{MetricError, Metrics};
use prometheus::IntGaugeVec;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two reads; also the longest time for one.
const READ_EVERY: Duration = Duration::from_secs(2);

/// The metrics of clusters, labelled by their names.
#[derive(Clone)]
pub(crate) struct ClusterMetrics {
    health: IntGaugeVec,
    silence: IntGaugeVec,
    unconfirmed: IntGaugeVec,
    starts_failed: IntGaugeVec,
}

impl ClusterMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        Ok(Self {
            health: metrics.gauges(
                "echelon_cluster_health",
                "1 for the present health of a cluster as the resource manager has stored it, 0 for the others.",
                &["cluster", "health"],
            )?,
            silence: metrics.gauges(
                "echelon_cluster_silence_seconds",
                "How long a cluster has been cut off or without Mesos, as resource managers have measured it; 0 while it is neither.",
                &["cluster"],
            )?,
            unconfirmed: metrics.gauges(
                "echelon_cluster_health_unconfirmed_seconds",
                "For how long no resource manager has confirmed the health of a cluster; 0 while one does.",
                &["cluster"],
            )?,
            starts_failed: metrics.gauges(
                "echelon_cluster_starts_failed_percent",
                "The median share of starts that fail by the platform, while a cluster is degraded by that; 0 while it is not.",
                &["cluster"],
            )?,
        })
    }

    fn set(&self, cluster: &str, observed: &ClusterHealth, unconfirmed_for: u64) {
        for health in Health::ALL {
            let is_present = health == observed.health;
            self.health
                .with_label_values(&[cluster, health.word()])
                .set(is_present.into());
        }
        let waited = if observed.health.is_silence() {
            observed.waited.0 / 1_000
        } else {
            0
        };
        let seconds = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.silence.with_label_values(&[cluster]).set(seconds(waited));
        self.unconfirmed
            .with_label_values(&[cluster])
            .set(seconds(unconfirmed_for));
        self.starts_failed
            .with_label_values(&[cluster])
            .set(starts_failed(observed).into());
    }

    fn forget(&self, cluster: &str) {
        // Labels that were never set are not there.
        for health in Health::ALL {
            let _ = self.health.remove_label_values(&[cluster, health.word()]);
        }
        let _ = self.silence.remove_label_values(&[cluster]);
        let _ = self.unconfirmed.remove_label_values(&[cluster]);
        let _ = self.starts_failed.remove_label_values(&[cluster]);
    }
}

/// The share of starts that fail, in percent; 0: that is no cause of the health.
fn starts_failed(observed: &ClusterHealth) -> u32 {
    let share = |cause: &HealthCause| match cause {
        HealthCause::StartsFail { percent, .. } => Some(*percent),
        _ => None,
    };
    observed.causes.iter().find_map(share).unwrap_or(0)
}

/// A cluster that is shown.
struct ShownCluster {
    name: String,
    notice: Condition,
}

/// Reads and shows until the end. While storage does not answer, what was read last stays.
pub(crate) async fn keep(gateway: Gateway, readiness: Readiness, metrics: ClusterMetrics) {
    let mut shown = BTreeMap::new();
    let mut seen = None;
    let follow = async {
        loop {
            match tokio::time::timeout(READ_EVERY, Federation::read(&gateway.facts)).await {
                Ok(Ok(federation)) => {
                    show(&gateway, &readiness, (&metrics, &mut shown), &federation);
                    let now = Some(marks(&gateway, &federation));
                    if seen != now {
                        gateway.feeds.tell_shown();
                        seen = now;
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "the clusters cannot be read at the moment"),
                Err(_) => tracing::debug!("storage does not answer about clusters at the moment"),
            }
            tokio::time::sleep(READ_EVERY).await;
        }
    };
    tokio::select! {
        () = follow => {}
        () = gateway.stop.cancelled() => {}
    }
}

/// What jobs and endpoints show of a cluster beside what is stored of themselves: it changes without a commit.
#[derive(PartialEq)]
struct ClusterMark {
    id: ClusterId,
    health: Health,
    is_confirmed: bool,
    stale: Option<String>,
}

/// The marks of all clusters, and whether a resource manager answers.
fn marks(gateway: &Gateway, federation: &Federation) -> (bool, Vec<ClusterMark>) {
    let now = gateway.now();
    let marks = federation.clusters.keys().map(|id| {
        let part = federation.part(id, now);
        ClusterMark {
            id: id.clone(),
            health: part.health,
            is_confirmed: part.unconfirmed_since.is_none(),
            stale: part.stale_reason(),
        }
    });
    (gateway.leaders.manager_absent_since().is_none(), marks.collect())
}

fn show(
    gateway: &Gateway,
    readiness: &Readiness,
    to: (&ClusterMetrics, &mut BTreeMap<ClusterId, ShownCluster>),
    federation: &Federation,
) {
    let (metrics, shown) = to;
    let now = gateway.now();
    let is_present = |id: &ClusterId| {
        federation
            .clusters
            .get(id)
            .is_some_and(|cluster| cluster.desired_state != DesiredState::Removed)
    };
    shown.retain(|id, of| {
        let stays = is_present(id);
        if !stays {
            // It was removed: nothing is missing.
            of.notice.ready();
            metrics.forget(&of.name);
        }
        stays
    });
    let absent = gateway.leaders.manager_absent_since();
    for (id, cluster) in federation.clusters.iter().filter(|(id, _)| is_present(id)) {
        let joining = ClusterHealth::joining();
        let stored = federation.states.get(id).map(|state| &state.health);
        let unconfirmed = absent.or_else(|| federation.moments(id).unconfirmed_since(now));
        let observed = stored.unwrap_or(&joining);
        let of = shown.entry(id.clone()).or_insert_with(|| ShownCluster {
            name: cluster.name.clone(),
            notice: readiness.notice(&format!("cluster {}", cluster.name), "it was not read yet"),
        });
        match reason(observed, unconfirmed, now) {
            None => of.notice.ready(),
            Some(reason) => of.notice.not_ready(&reason),
        }
        let unconfirmed_for = unconfirmed.map_or(0, |since| now.since(since).0 / 1_000);
        metrics.set(&of.name, observed, unconfirmed_for);
    }
}

/// Why a cluster is not healthy; `None`: it is, and that is confirmed.
fn reason(observed: &ClusterHealth, unconfirmed: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let unconfirmed = unconfirmed.map(|since| format!("unconfirmed for {}", now.since(since)));
    match (observed.health, unconfirmed) {
        (Health::Healthy, None) => None,
        (_, None) => Some(observed.to_string()),
        (_, Some(unconfirmed)) => Some(format!("{observed}; {unconfirmed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::platform::PlatformCause;

    #[test]
    fn only_a_confirmed_healthy_cluster_holds_the_condition() {
        let of = |health, causes: &[HealthCause]| ClusterHealth {
            health,
            causes: causes.to_vec(),
            ..ClusterHealth::default()
        };
        let (healthy, now) = (of(Health::Healthy, &[]), Timestamp(60_000));
        assert_eq!(reason(&healthy, None, now), None);
        assert_eq!(
            reason(&healthy, Some(Timestamp(20_000)), now).unwrap(),
            "healthy; unconfirmed for 40s"
        );
        let hung = of(Health::WithoutMesos, &[HealthCause::MesosHung]);
        assert_eq!(
            reason(&hung, None, now).unwrap(),
            "without-mesos, the Mesos master does not answer"
        );
    }

    #[test]
    fn the_share_of_failed_starts_is_that_of_the_stored_cause() {
        let of = |causes: &[HealthCause]| ClusterHealth {
            health: Health::Degraded,
            causes: causes.to_vec(),
            ..ClusterHealth::default()
        };
        let starts_fail = HealthCause::StartsFail {
            percent: 62,
            by: PlatformCause::Agent,
        };
        assert_eq!(starts_failed(&of(&[HealthCause::StorageSlow, starts_fail])), 62);
        assert_eq!(starts_failed(&of(&[HealthCause::StorageSlow])), 0);
    }
}
