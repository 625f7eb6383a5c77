//! A cluster settles when its shard is known to obey this leader: what it has is counted by reports and
//! grants from then on, and no longer by all that an older leader may have granted. Its jobs settle some at a
//! time, so that no step takes longer for a cluster that has very many.

use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use echelon_core_model::{ClusterId, JobId};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Most jobs that settle at once.
pub(crate) const SETTLED: usize = if cfg!(test) { 5 } else { 500 };

/// How far a cluster has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Settling {
    /// It is not known yet that its shard obeys this leader.
    #[default]
    Unknown,
    /// That is known, and jobs up to this one are settled.
    UpTo(JobId),
    /// All jobs are settled.
    All,
}

impl ClusterView {
    /// Whether its shard is known to obey this leader, so its grants are those of this leader alone.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settling == Settling::All
    }

    /// Whether what it has of a job is counted by reports and grants.
    pub(crate) fn is_settled_for(&self, job: JobId) -> bool {
        match self.settling {
            Settling::Unknown => false,
            Settling::UpTo(last) => job <= last,
            Settling::All => true,
        }
    }

    /// Its shard has obeyed this leader. Whether that was not known yet.
    pub(crate) fn begin_to_settle(&mut self) -> bool {
        let is_new = self.settling == Settling::Unknown;
        if is_new {
            self.settling = Settling::UpTo(JobId(0));
        }
        is_new
    }
}

/// A cluster of which not all jobs are settled.
pub(crate) fn next_cluster(facts: &FederationFacts) -> Option<ClusterId> {
    let settles = |view: &ClusterView| matches!(view.settling, Settling::UpTo(_));
    let mut clusters = facts.clusters.iter();
    clusters.find(|(_, view)| settles(view)).map(|(id, _)| id.clone())
}

/// Settles the next jobs of a cluster. Returns the jobs to look at: after the last of them all that it has.
/// `unstored` are the jobs that may have something there that is not stored yet.
pub(crate) fn settle_next(
    facts: &mut FederationFacts,
    cluster: &ClusterId,
    unstored: &BTreeSet<JobId>,
) -> BTreeSet<JobId> {
    let before = facts.clusters.get(cluster).map(|view| view.settling);
    let Some(Settling::UpTo(last)) = before else {
        return BTreeSet::new();
    };
    let held = facts.jobs.held_by(cluster, last).map(|(id, _)| id);
    let mut next: BTreeSet<JobId> = held.take(SETTLED).collect();
    let end = next.last().copied().filter(|_| next.len() == SETTLED);
    let until = end.map_or(Unbounded, Included);
    next.extend(unstored.range((Excluded(last), until)));
    if let Some(view) = facts.clusters.get_mut(cluster) {
        view.settling = end.map_or(Settling::All, Settling::UpTo);
    }
    next.iter().for_each(|id| facts.jobs.touch_all(*id));
    if end.is_none() && last != JobId(0) {
        next.extend(facts.jobs.held_by(cluster, JobId(0)).map(|(id, _)| id));
    }
    next
}

/// It is not known any more that a cluster's shard obeys this leader.
pub(crate) fn unsettle(facts: &mut FederationFacts, cluster: &ClusterId, unstored: &BTreeSet<JobId>) {
    let view = facts.clusters.get_mut(cluster);
    let Some(view) = view.filter(|view| view.settling != Settling::Unknown) else {
        return;
    };
    view.settling = Settling::Unknown;
    let held = facts.jobs.held_by(cluster, JobId(0)).map(|(id, _)| id);
    let all: Vec<JobId> = held.chain(unstored.iter().copied()).collect();
    all.into_iter().for_each(|id| facts.jobs.touch_all(id));
}
