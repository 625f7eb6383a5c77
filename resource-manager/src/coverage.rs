//! How much of each cluster's work would find no capacity elsewhere if that cluster were lost: one cluster after another, each
//! about once a minute, computed by the thread that answers queries.

use crate::query::PictureQuery;
use echelon_core_model::ClusterId;
use echelon_core_model::spec::JobKind;
use echelon_core_resource_manager::{FederationFacts, LossCover};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::MetricError;
use prometheus::IntGaugeVec;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two looks at one cluster.
const ROUND: Duration = Duration::from_mins(1);

/// The gauge, shared with the thread that computes.
#[derive(Debug, Clone)]
pub(crate) struct CoverageGauge(IntGaugeVec);

/// Which cluster is looked at next.
pub(crate) struct Coverage {
    gauge: CoverageGauge,
    next_at: Option<Instant>,
    /// The one that was looked at last.
    last: Option<ClusterId>,
    /// The names under which figures are shown.
    shown: BTreeMap<ClusterId, String>,
}

impl CoverageGauge {
    /// Shows what would find no capacity.
    pub(crate) fn show(&self, cluster: &str, cover: &LossCover) {
        for kind in KINDS {
            let of_kind = cover.groups.values().filter(|group| group.kind == kind);
            let sum = of_kind.fold(0u64, |sum, group| sum.saturating_add(group.uncovered()));
            let sum = i64::try_from(sum).unwrap_or(i64::MAX);
            self.0.with_label_values(&[cluster, kind.word()]).set(sum);
        }
    }

    fn forget(&self, cluster: &str) {
        for kind in KINDS {
            // One that was never shown is no error.
            let _ = self.0.remove_label_values(&[cluster, kind.word()]);
        }
    }
}

/// The kinds of jobs that may be replaced.
const KINDS: [JobKind; 3] = [JobKind::Batch, JobKind::Service, JobKind::Stateful];

impl Coverage {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, MetricError> {
        let gauge = metrics.gauges(
            "echelon_resource_manager_uncovered_instances",
            "Instances that would find no capacity at other clusters if the cluster were lost now, also once preemptible work had given way; of jobs that let them be replaced.",
            &["cluster", "kind"],
        )?;
        Ok(Self {
            gauge: CoverageGauge(gauge),
            next_at: None,
            last: None,
            shown: BTreeMap::new(),
        })
    }

    /// The next look, if it is due. Where there is one cluster only, nothing could go elsewhere, so nothing is shown.
    pub(crate) fn next(&mut self, facts: &FederationFacts, now: Instant) -> Option<PictureQuery> {
        if self.next_at.is_some_and(|at| now < at) {
            return None;
        }
        let clusters: BTreeMap<&ClusterId, &str> = facts
            .clusters
            .iter()
            .filter_map(|(id, view)| {
                let row = view.row.as_ref().filter(|_| view.takes_grants())?;
                Some((id, row.name.as_str()))
            })
            .collect();
        let several = clusters.len() > 1;
        let gauge = &self.gauge;
        self.shown.retain(|id, name| {
            let stays = several && clusters.get(id) == Some(&name.as_str());
            if !stays {
                gauge.forget(name);
            }
            stays
        });
        let count = u32::try_from(clusters.len()).unwrap_or(u32::MAX).max(1);
        self.next_at = Some(now + ROUND / count);
        let mut after = clusters.iter().filter(|(id, _)| self.last.as_ref() < Some(**id));
        let (id, name) = after
            .next()
            .or_else(|| clusters.iter().next())
            .filter(|_| several)?;
        self.last = Some((*id).clone());
        self.shown.insert((*id).clone(), (*name).to_owned());
        Some(PictureQuery::LossCover {
            cluster: (*id).clone(),
            name: (*name).to_owned(),
            gauge: self.gauge.clone(),
        })
    }

    /// Shows nothing any more: another process leads.
    pub(crate) fn clear(&mut self) {
        for name in std::mem::take(&mut self.shown).into_values() {
            self.gauge.forget(&name);
        }
        (self.next_at, self.last) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{GroupName, JobId};
    use echelon_core_resource_manager::GroupCover;

    #[test]
    fn what_is_not_covered_is_shown_by_kind_until_it_is_cleared() {
        let metrics = Metrics::new(&[("role", "resource-manager")], "1", "2").unwrap();
        let mut coverage = Coverage::new(&metrics).unwrap();
        let group = |kind, instances, fits, after_preemption| GroupCover {
            kind,
            instances,
            fits,
            after_preemption,
        };
        let cover = LossCover {
            groups: BTreeMap::from([
                ((JobId(1), GroupName::new("a")), group(JobKind::Service, 9, 3, 2)),
                ((JobId(1), GroupName::new("b")), group(JobKind::Service, 1, 0, 0)),
                ((JobId(2), GroupName::new("a")), group(JobKind::Batch, 4, 4, 0)),
            ]),
            victims: 2,
        };
        coverage.gauge.show("west", &cover);
        let of = |kind: &str| coverage.gauge.0.with_label_values(&["west", kind]).get();
        assert_eq!((of("service"), of("batch"), of("stateful")), (5, 0, 0));
        coverage.shown.insert(ClusterId::new("west"), "west".to_owned());
        coverage.clear();
        assert!(
            coverage
                .next(&FederationFacts::default(), Instant::now())
                .is_none()
        );
    }
}
