//! Two clusters on one Mesos. They would count the same hosts twice, so one of them takes no work until its master is
//! another one. Clusters are compared by the master that their shards report, and not by how its address is spelled.
//!
//! The cluster that was there first keeps its master: of two, one that is still joining, or whose master has just
//! become that of the other, is refused. After a failover of a shared master both report the new one, but not at one
//! moment. So a refusal holds for a minute after the last time that both had the same.

use crate::facts::cluster::ClusterView;
use echelon_core_model::health::{Health, HealthCause, MasterId};
use echelon_core_model::{ClusterId, Span, Timestamp};
use std::collections::BTreeMap;

/// How long a refusal holds after the last time that two masters were the same one.
const HOLDS: Span = Span::seconds(60);

/// What is remembered of a cluster's master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MasterRecord {
    /// The last one that was not another cluster's.
    own: Option<MasterId>,
    /// Until when the cluster is refused.
    refused_until: Option<Timestamp>,
}

impl MasterRecord {
    /// Whether the cluster is refused.
    pub(crate) fn is_refused(&self, now: Timestamp) -> bool {
        self.refused_until.is_some_and(|until| now < until)
    }
}

/// The master that a shard reported last.
fn reported(view: &ClusterView) -> Option<MasterId> {
    let sent = view.signs.as_ref().and_then(|(signs, _)| signs.master);
    let stored = view.heartbeat.as_ref().and_then(|(row, _)| row.signs.master);
    sent.or(stored)
}

/// Whether it was refused before, by this leader or by an earlier one.
fn was_refused(view: &ClusterView) -> bool {
    let causes = view.state.iter().flat_map(|state| &state.health.causes);
    view.master.refused_until.is_some() || causes.into_iter().any(|cause| *cause == HealthCause::SameMaster)
}

/// The claim of a cluster to its master; of two with the same one the larger claim counts.
type MasterClaim = (bool, bool, bool, std::cmp::Reverse<ClusterId>);

fn claim(id: &ClusterId, view: &ClusterView, master: MasterId) -> MasterClaim {
    (
        !was_refused(view),
        view.health() != Health::Joining,
        view.master.own == Some(master),
        std::cmp::Reverse(id.clone()),
    )
}

/// Finds the clusters that have another one's master, and notes what is to be remembered. Returns those that were
/// not refused before, each with the cluster that has its master.
pub(crate) fn refuse_same(
    clusters: &mut BTreeMap<ClusterId, ClusterView>,
    now: Timestamp,
) -> Vec<(ClusterId, ClusterId)> {
    let mut holders: BTreeMap<MasterId, (MasterClaim, ClusterId)> = BTreeMap::new();
    let present = clusters.iter().filter(|(_, view)| view.is_present());
    for (id, view, master) in present.filter_map(|(id, view)| Some((id, view, reported(view)?))) {
        let claim = claim(id, view, master);
        if holders.get(&master).is_none_or(|(other, _)| *other < claim) {
            holders.insert(master, (claim, id.clone()));
        }
    }
    let mut refused = Vec::new();
    for (id, view) in clusters.iter_mut().filter(|(_, view)| view.is_present()) {
        let Some(master) = reported(view) else {
            continue;
        };
        match holders.get(&master) {
            Some((_, holder)) if holder != id => {
                if !was_refused(view) {
                    refused.push((id.clone(), holder.clone()));
                }
                view.master.refused_until = Some(now.plus(HOLDS));
            }
            _ if view.master.is_refused(now) => {}
            // An earlier leader has refused it: it may not have reported its present master yet.
            _ if was_refused(view) && view.master.refused_until.is_none() => {
                view.master.refused_until = Some(now.plus(HOLDS));
            }
            _ => {
                view.master = MasterRecord {
                    own: Some(master),
                    refused_until: None,
                };
            }
        }
    }
    refused
}
