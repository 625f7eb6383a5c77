//! What of a cluster's work would begin elsewhere if the cluster were lost now: at once, and once preemptible work has
//! given way. Demand, division, admission and what preemption may take are computed by the functions of the
//! cycle, on a copy of the facts in which the cluster is lost and what its jobs let be replaced is bound nowhere.
//!
//! Two things make the answer careful. What would be stopped within a claimant's own pool, where a pool allows
//! that, is not counted. And the work waits in the queue like any other, so what comes before it goes first.

use crate::assignment::ranges::without_last;
use crate::demand::ledger::Ledger;
use crate::demand::request::unit_of;
use crate::demand::slices::lines;
use crate::facts::FederationFacts;
use crate::facts::loss::CountedCapacity;
use crate::picture::Picture;
use crate::preemption::claimants::withheld;
use crate::preemption::victims::instances_that_free;
use crate::queries::trial_admission::{TrialAdmission, TrialAdmitted, TrialClaimant};
use echelon_core_model::assignment::Assignment;
use echelon_core_model::health::Health;
use echelon_core_model::spec::{JobKind, JobSpec, OnSilence};
use echelon_core_model::{ClusterId, GroupName, JobId, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Admission, Rooms, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What would become of the work that a cluster loses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LossCover {
    /// By job and group.
    pub groups: BTreeMap<(JobId, GroupName), GroupCover>,
    /// About how many instances of other work would be stopped for it.
    pub victims: u64,
}

/// What would become of a group's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCover {
    /// The kind of its job.
    pub kind: JobKind,
    /// Instances that have not ended and may be replaced.
    pub instances: u64,
    /// Of these, those for which other clusters have capacity now.
    pub fits: u64,
    /// Of the others, those for which there is capacity once preemptible work has given way.
    pub after_preemption: u64,
}

impl GroupCover {
    /// Instances for which no other cluster has capacity, even then.
    #[must_use]
    pub const fn uncovered(&self) -> u64 {
        self.instances
            .saturating_sub(self.fits)
            .saturating_sub(self.after_preemption)
    }
}

/// Whether what runs of a job may begin elsewhere when its cluster is lost.
pub(crate) fn is_replaceable(spec: &JobSpec) -> bool {
    spec.kind != JobKind::Daemon && matches!(spec.on_cluster_loss, OnSilence::Replace(_))
}

/// What would begin elsewhere. `O(jobs + jobs there x clusters)`.
#[must_use]
pub fn loss_cover(picture: &Picture, cluster: &ClusterId) -> LossCover {
    let mut facts = picture.facts.clone();
    let displaced = lose(&mut facts, cluster);
    if displaced.is_empty() {
        return LossCover::default();
    }
    let mut ledger = picture.demand.ledger.clone();
    let changed = facts.take_changed();
    let _changes = ledger.refresh(&facts, changed);
    let withheld = withheld(&facts, &ledger, &picture.preemption);
    let trial = TrialAdmission {
        facts: &facts,
        ledger: &ledger,
        holds: &picture.admission.holds,
        withheld: &withheld.capacity,
    };
    let (router, first) = (trial.router(), trial.entitled());
    let cover = Cover {
        facts: &facts,
        ledger: &ledger,
        displaced: &displaced,
    };
    let now = trial.admit(&router, &first);
    let fits = cover.begun(&now, |admission| trial.on_hosts(&router, admission));
    let claimants = cover.claimants(&fits);
    let freed = trial.freed_for(&claimants, &first);
    let surplus: BTreeSet<(ClusterId, PoolIdx)> = freed.freed.keys().cloned().collect();
    let rooms = trial.rooms(&first);
    let then = trial.admit_into(&router, freed);
    let begun = cover.begun(&then, |admission| trial.on_hosts(&router, admission));
    let groups = displaced.iter().map(|(key, of)| {
        let sum = |all: &Placed| all.get(key).map_or(0, |at| at.values().sum::<u64>());
        let fits = sum(&fits).min(of.instances);
        let then = sum(&begun).min(of.instances);
        let covered = GroupCover {
            fits,
            after_preemption: then.saturating_sub(fits),
            ..*of
        };
        (key.clone(), covered)
    });
    LossCover {
        groups: groups.collect(),
        victims: cover.victims(&begun, &rooms, &surplus),
    }
}

type Displaced = BTreeMap<(JobId, GroupName), GroupCover>;
/// How many of each group begin at each cluster.
type Placed = BTreeMap<(JobId, GroupName), BTreeMap<ClusterId, u64>>;

/// Makes a cluster lost, and takes what may be replaced away from it. Returns how much that is.
fn lose(facts: &mut FederationFacts, cluster: &ClusterId) -> Displaced {
    if let Some(view) = facts.clusters.get_mut(cluster) {
        if let Some(state) = &mut view.state {
            state.health.health = Health::Lost;
        }
        view.counted = CountedCapacity::Assigned;
    }
    // A snapshot has no index of the jobs of a cluster.
    let bound = facts.jobs.iter().filter(|(_, job)| !job.is_unbound());
    let bound: Vec<JobId> = bound.map(|(id, _)| *id).collect();
    let mut displaced = Displaced::new();
    for id in bound {
        let job = facts.jobs.get(&id);
        let Some((job, spec)) = job.and_then(|job| Some((job, job.running_spec()?))) else {
            continue;
        };
        if !is_replaceable(spec) {
            continue;
        }
        let kind = spec.kind;
        let mut lines = lines(facts, id, job);
        lines.retain(|line| line.key.cluster == *cluster && line.count.unended() > 0);
        let mut assignment = Assignment::clone(&job.decided);
        for line in &lines {
            let unended = line.count.unended();
            if let Some(ranges) = assignment.groups.get_mut(&line.key.group) {
                without_last(ranges, unended, |r| {
                    (&r.cluster, r.generation) == (&line.key.cluster, line.key.generation)
                });
            }
            let of = displaced
                .entry((id, line.key.group.clone()))
                .or_insert(GroupCover {
                    kind,
                    instances: 0,
                    fits: 0,
                    after_preemption: 0,
                });
            of.instances = of.instances.saturating_add(unended);
        }
        if let Some(job) = facts.jobs.get_mut(&id).filter(|_| !lines.is_empty()) {
            for line in &lines {
                job.grants.remove(&line.key);
            }
            job.durable = Arc::new(assignment).into();
            job.decided = job.durable.clone();
        }
    }
    displaced
}

/// What the answer is made of.
struct Cover<'a> {
    facts: &'a FederationFacts,
    ledger: &'a Ledger,
    displaced: &'a Displaced,
}

impl Cover<'_> {
    /// Where instances of displaced groups begin, of all that was admitted.
    fn begun(
        &self,
        done: &TrialAdmitted,
        on_hosts: impl Fn(&Admission) -> BTreeMap<ClusterId, u64>,
    ) -> Placed {
        let mut out = Placed::new();
        for admission in &done.admissions {
            let key = (admission.job, admission.group.clone());
            if !self.displaced.contains_key(&key) {
                continue;
            }
            let at = out.entry(key).or_default();
            for (cluster, n) in on_hosts(admission) {
                let sum = at.entry(cluster).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        out
    }

    /// The pools of what does not begin at once, and what that needs.
    fn claimants(&self, fits: &Placed) -> Vec<TrialClaimant> {
        let mut needed: BTreeMap<PoolIdx, Resources> = BTreeMap::new();
        for (key, of) in self.displaced {
            let begun: u64 = fits.get(key).map_or(0, |at| at.values().sum());
            let Some((spec, group)) = self.facts.group(key.0, &key.1) else {
                continue;
            };
            let pool = self.facts.hierarchy.find(&spec.pool);
            if let Some(pool) = pool.filter(|_| begun < of.instances) {
                let kinds = needed.entry(pool).or_default();
                *kinds = kinds.max_each(group.room().kinds());
            }
        }
        let claimants = needed
            .into_iter()
            .map(|(pool, needed)| TrialClaimant { pool, needed });
        claimants.collect()
    }

    /// How many instances of other work would be stopped at all clusters: enough for what begins there beyond what is free
    /// in `rooms`. `surplus`: the clusters and pools that would lose some.
    fn victims(&self, begun: &Placed, rooms: &Rooms, surplus: &BTreeSet<(ClusterId, PoolIdx)>) -> u64 {
        let mut taken: BTreeMap<&ClusterId, TakenCapacity> = BTreeMap::new();
        for ((job, name), at) in begun {
            let Some((_, group)) = self.facts.group(*job, name) else {
                continue;
            };
            let unit = unit_of(self.facts, group);
            for (cluster, n) in at {
                let taken = taken.entry(cluster).or_default();
                taken.used = taken.used.plus(unit.shape.times(*n));
                let free = rooms.cluster(cluster, Side::Ordinary, unit);
                taken.free = taken.free.max_each(free);
            }
        }
        let counts = taken.into_iter().map(|(cluster, taken)| {
            let pools = surplus
                .iter()
                .filter(|(c, _)| c == cluster)
                .map(|(_, pool)| *pool);
            let lacking = taken.used.minus(taken.free);
            instances_that_free((self.facts, self.ledger), cluster, &pools.collect(), lacking)
        });
        counts.fold(0, u64::saturating_add)
    }
}

/// What begins at a cluster, and what is free there for it.
#[derive(Debug, Clone, Copy, Default)]
struct TakenCapacity {
    used: Resources,
    free: Resources,
}
