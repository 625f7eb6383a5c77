//! Whoever waits in the end, waits for a reason that is true: a bound of a pool is reached, or no host has room. Told by what runs, not
//! by what the resource manager makes of it.

use crate::division::DivisionBounds;
use crate::mesos::ClusterWorld;
use crate::shares::CORES;
use crate::world::World;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::{Head, Progress, Waiting};
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{ClusterId, MemberId, ReasonCode, TaskId};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// What is wrong with why instances of a job wait, of which so many should run and do not.
    pub(crate) fn untrue(
        &self,
        (head, spec): (&Head, &JobSpec),
        progress: &Progress,
        short: u64,
    ) -> Option<String> {
        let told = progress.waiting.iter().filter(|w| {
            let code = w.reason.code;
            code != ReasonCode::MaxRunning && !code.withholds()
        });
        let told: Vec<&Waiting> = told.collect();
        let n: u64 = told.iter().map(|w| w.count).sum();
        if n < short {
            return Some(format!("{short} are missing and {n} wait"));
        }
        let untrue = told.into_iter().find(|w| !self.is_true(head, spec, w))?;
        Some(format!(
            "{} wait for what is not so: {}",
            untrue.count, untrue.reason
        ))
    }

    fn is_true(&self, head: &Head, spec: &JobSpec, waiting: &Waiting) -> bool {
        let code = waiting.reason.code;
        if code == ReasonCode::AfterJob {
            return self.waits_for_others(spec);
        }
        let tree = self.tree();
        let paths = PoolPaths::of(&tree);
        let runs = self.runs_of_pools(&tree);
        // A gang waits for all of itself.
        let n = spec.gang.as_ref().map_or(1, |_| spec.instances());
        let cpus = spec.group(&waiting.group).map_or(0, |g| g.room().cpus);
        let mut pools = tree.lineage(paths.of_job(head));
        let reached = pools.any(|pool| {
            let runs = runs.get(&pool.path).copied().unwrap_or_default();
            runs.is_reached(code, pool, n, cpus)
        });
        let is_for_room = matches!(
            code,
            ReasonCode::NoClusterCapacity
                | ReasonCode::PoolEntitlement
                | ReasonCode::PoolClusterHeld
                | ReasonCode::GangTooLarge
                | ReasonCode::CapacityHold
                | ReasonCode::GangBlocked
        );
        // A host that is to be empty, and cannot be, is no place for what has left it.
        let is_kept_away = code == ReasonCode::HostVolume && self.waits_for_a_held_host(waiting);
        reached
            || is_kept_away
            || (is_bound_to_hosts(spec, code, is_for_room) && self.is_some_host_full(spec))
            || ((is_for_room || code.layer() == Layer::Placement) && !self.has_room(head, spec, n))
    }

    /// Whether a cluster that the job may use has room for so many instances: each takes a core, so that what a cluster
    /// has left some host has. A cluster that gets no more by the job's rules of division has none for it.
    fn has_room(&self, head: &Head, spec: &JobSpec, n: u64) -> bool {
        let division = self.division(head, spec);
        let taken = self.taken(spec).into_iter().zip(&self.clusters).enumerate();
        let mut left = taken
            .filter(|(cluster, _)| division.as_ref().is_none_or(|bounds| bounds.takes(*cluster)))
            .map(|(_, of)| of)
            .filter(|(_, cluster)| self.is_open_to(spec, &cluster.id))
            .map(|(taken, cluster)| {
                let hosts = u64::try_from(cluster.mesos.agent_ids().count()).unwrap_or(u64::MAX);
                let there = self.cores(spec).saturating_mul(hosts);
                let kept = self.kept_for_volumes(&cluster.id, &taken, self.cores(spec));
                let used = taken.values().sum::<u64>().saturating_add(kept);
                there.saturating_sub(used)
            });
        left.any(|left| left >= n)
    }

    /// How a job's rules of division bound what clusters get; `None`: it has no such rules.
    fn division(&self, head: &Head, spec: &JobSpec) -> Option<DivisionBounds> {
        let wanted = || self.wanted(head.job, head.spec_version);
        let of = || DivisionBounds::of(&spec.clusters, wanted(), self.live_by_cluster(head.job));
        spec.clusters.bounds_clusters().then(of)
    }

    /// Whether a cluster takes new work of a job.
    fn is_open_to(&self, spec: &JobSpec, cluster: &ClusterId) -> bool {
        let Answer::Clusters(rows) = self.store.read(&Query::Clusters) else {
            return true;
        };
        let row = rows.iter().find(|row| row.id == *cluster);
        row.is_some_and(|row| {
            row.desired_state == DesiredState::Active && spec.clusters.allows(row.identity())
        })
    }

    /// Instances that are granted and wait for the host of their volume, which is full: nothing is stopped for them
    /// there (docs/next.md), and what they are granted is of use to no other.
    fn kept_for_volumes(&self, cluster: &ClusterId, taken: &BTreeMap<String, u64>, cores: u64) -> u64 {
        if !taken.values().any(|n| *n >= cores) {
            return 0;
        }
        let jobs = self.users.0.iter().filter_map(|user| user.job);
        let waiting = jobs.filter_map(|job| self.progress(job)).flat_map(|p| p.waiting);
        let kept = waiting
            .filter(|w| w.reason.code == ReasonCode::HostVolume && w.cluster.as_ref() == Some(cluster));
        kept.map(|w| w.count).sum()
    }

    /// Whether a host has room for no instance, or may have none: what others hold is not looked at.
    fn is_some_host_full(&self, spec: &JobSpec) -> bool {
        let taken = self.taken(spec);
        let mut counts = taken.iter().flat_map(BTreeMap::values);
        self.options.others > 0 || counts.any(|n| *n >= self.cores(spec))
    }

    /// What a host has for jobs like this one.
    const fn cores(&self, spec: &JobSpec) -> u64 {
        if spec.revocable { self.options.lent } else { CORES }
    }

    /// Instances on each host of each cluster that take the same room as those of a job.
    fn taken(&self, spec: &JobSpec) -> Vec<BTreeMap<String, u64>> {
        let is_alike = |run: &TaskId| {
            let of = self.head_and_spec(run.instance.job);
            of.is_some_and(|(_, s)| s.revocable == spec.revocable)
        };
        let of_cluster = |c: &ClusterWorld| {
            let mut runs: BTreeSet<(String, TaskId)> = BTreeSet::new();
            for (agent, task) in c.mesos.live_tasks() {
                if let Ok(MemberId { run, .. }) = task.as_str().parse() {
                    runs.insert((agent.as_str().to_owned(), run));
                }
            }
            let mut taken: BTreeMap<String, u64> = BTreeMap::new();
            for (agent, _) in runs.into_iter().filter(|(_, run)| is_alike(run)) {
                *taken.entry(agent).or_default() += 1;
            }
            taken
        };
        self.clusters.iter().map(of_cluster).collect()
    }
}

/// Whether instances can be on one host only: those with volumes, and daemons, which have no other one left.
fn is_bound_to_hosts(spec: &JobSpec, code: ReasonCode, is_for_room: bool) -> bool {
    let is_of_daemon = spec.kind == JobKind::Daemon && (is_for_room || code.layer() == Layer::Placement);
    code == ReasonCode::HostVolume || is_of_daemon
}
