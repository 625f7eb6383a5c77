//! A copy of the facts on which changes are tried: it is changed, demand, division and admission are computed
//! by the functions of the cycle, and it is changed back.

use crate::admission::RequestedCapacity;
use crate::assignment::ranges::without_last;
use crate::demand::host_limits::ever_at;
use crate::demand::ledger::Ledger;
use crate::demand::slices::lines;
use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::queries::explain::answer::{AddedHosts, FixChange, PoolCount};
use crate::queries::trial_admission::{TrialAdmission, TrialClaimant};
use echelon_core_model::assignment::Assignment;
use echelon_core_model::class::{ClassDigest, InstanceClass};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::cluster_choice::Spread;
use echelon_core_model::directive::Capacity;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{ClusterId, GroupName, HostPoolName, JobId, Kind, PoolId, Resources, Version};
use echelon_core_pools::hierarchy::Hierarchy;
use echelon_core_pools::tree::{PoolQuantity, new_problems};
use echelon_core_pools::{Holds, Rooms};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The copy.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) facts: FederationFacts,
    pub(crate) ledger: Ledger,
    pub(crate) holds: Holds,
    pub(crate) withheld: RequestedCapacity,
    pub(crate) job: JobId,
}

/// What an admission on the copy gave.
pub(crate) struct TrialResult {
    /// Instances of each group of the job that were admitted.
    pub(crate) admitted: BTreeMap<GroupName, u64>,
    /// What is left then.
    pub(crate) rooms: Rooms,
}

/// What a cluster had before a change.
struct SavedCluster {
    id: ClusterId,
    row: Option<Cluster>,
    capacity: Option<Capacity>,
    ever: Arc<BTreeMap<ClassDigest, u64>>,
}

/// The tree before a change.
struct SavedTree {
    pools: Arc<PoolTree>,
    hierarchy: Arc<Hierarchy>,
    by_shares: Arc<Hierarchy>,
    structure: Version,
}

/// What changes it back.
#[derive(Default)]
pub(crate) struct Undo {
    tree: Option<SavedTree>,
    clusters: Vec<SavedCluster>,
    spec: Option<Arc<JobSpec>>,
}

impl Trial {
    /// Takes indexes that were bound ahead and have no grant back from clusters: that is what happens to them
    /// when they can begin elsewhere. Gangs, and jobs with volumes, stay where they are.
    pub(crate) fn unbind(&mut self) {
        let Some((job, spec)) = self.job_and_spec() else {
            return;
        };
        if spec.kind != JobKind::Batch || spec.gang.is_some() {
            return;
        }
        let mut assignment = Assignment::clone(&job.decided);
        for line in lines(&self.facts, self.job, job) {
            let ahead = line.count.startable().saturating_sub(line.allocated);
            if let Some(ranges) = assignment.groups.get_mut(&line.key.group) {
                without_last(ranges, ahead, |r| {
                    let is_of = r.cluster == line.key.cluster && r.generation == line.key.generation;
                    is_of && r.releasing.is_none()
                });
            }
        }
        let assignment = Arc::new(assignment);
        if let Some(job) = self.facts.jobs.get_mut(&self.job) {
            job.durable = assignment.into();
            job.decided = job.durable.clone();
        }
    }

    /// The job's spec as it is in the copy.
    pub(crate) fn spec(&self) -> Option<Arc<JobSpec>> {
        self.facts.jobs.get(&self.job)?.spec.clone()
    }

    /// Instances of each group that are wanted, have not ended and are not granted.
    pub(crate) fn waiting(&self) -> BTreeMap<GroupName, u64> {
        let Some((job, spec)) = self.job_and_spec() else {
            return BTreeMap::new();
        };
        let lines = lines(&self.facts, self.job, job);
        let of_group = |name: &GroupName| {
            let lines = lines.iter().filter(|l| l.key.group == *name);
            let settled = lines.map(|l| l.count.ended.saturating_add(l.allocated));
            job.wanted(name)
                .saturating_sub(settled.fold(0, u64::saturating_add))
        };
        let groups = spec.groups.iter().map(|g| (g.name.clone(), of_group(&g.name)));
        groups.filter(|(_, n)| *n > 0).collect()
    }

    /// Instances of a group that are granted or active.
    pub(crate) fn allocated(&self, group: &GroupName) -> u64 {
        let Some((job, _)) = self.job_and_spec() else {
            return 0;
        };
        let lines = lines(&self.facts, self.job, job);
        let of_group = lines.iter().filter(|l| l.key.group == *group);
        of_group.map(|l| l.allocated).fold(0, u64::saturating_add)
    }

    fn job_and_spec(&self) -> Option<(&crate::facts::job::JobView, &JobSpec)> {
        let job = self.facts.jobs.get(&self.job)?;
        Some((job, job.running_spec()?))
    }

    /// Demand, division and admission on the copy. With `after_preemption`, what other pools have beyond
    /// their own and may be stopped is free.
    pub(crate) fn admit(&self, after_preemption: bool) -> TrialResult {
        let trial = TrialAdmission {
            facts: &self.facts,
            ledger: &self.ledger,
            holds: &self.holds,
            withheld: &self.withheld.capacity,
        };
        let (router, first) = (trial.router(), trial.entitled());
        let done = if after_preemption {
            let claimant: Vec<TrialClaimant> = self.claimant().into_iter().collect();
            trial.admit_into(&router, trial.freed_for(&claimant, &first))
        } else {
            trial.admit(&router, &first)
        };
        let mut admitted: BTreeMap<GroupName, u64> = BTreeMap::new();
        for admission in done.admissions.iter().filter(|a| a.job == self.job) {
            let sum = admitted.entry(admission.group.clone()).or_default();
            let held = trial.on_hosts(&router, admission).into_values();
            *sum = held.fold(*sum, u64::saturating_add);
        }
        TrialResult {
            admitted,
            rooms: done.rooms,
        }
    }

    /// What capacity would be made for. `None`: the job's pool is not known.
    fn claimant(&self) -> Option<TrialClaimant> {
        let spec = self.spec()?;
        let groups = spec.groups.iter().map(|g| g.room().kinds());
        Some(TrialClaimant {
            pool: self.facts.hierarchy.find(&spec.pool)?,
            needed: groups.fold(Resources::ZERO, Resources::max_each),
        })
    }

    /// Makes all changes. `None`: one of them is not possible, and nothing is changed.
    pub(crate) fn apply(&mut self, changes: &[FixChange]) -> Option<Undo> {
        let mut undo = Undo::default();
        let done = changes
            .iter()
            .all(|change| self.apply_one(change, &mut undo).is_some());
        let valid = done && self.take_tree(changes, &mut undo).is_some();
        if !valid {
            self.undo(undo);
            return None;
        }
        self.settle();
        Some(undo)
    }

    /// Changes everything back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        let Undo { tree, clusters, spec } = undo;
        if let Some(saved) = tree {
            self.facts.pools = saved.pools;
            self.facts.hierarchy = saved.hierarchy;
            self.facts.by_shares = saved.by_shares;
            self.facts.structure = saved.structure;
        }
        for saved in clusters.into_iter().rev() {
            if let Some(view) = self.facts.clusters.get_mut(&saved.id) {
                view.row = saved.row;
                view.capacity = saved.capacity;
                view.fits.ever = saved.ever;
            }
        }
        if let (Some(spec), Some(job)) = (spec, self.facts.jobs.get_mut(&self.job)) {
            job.spec = Some(spec);
        }
        self.settle();
    }

    /// Brings the sums up to date with the facts.
    pub(crate) fn settle(&mut self) {
        let changed = self.facts.take_changed();
        let _changes = self.ledger.refresh(&self.facts, changed);
    }

    fn apply_one(&mut self, change: &FixChange, undo: &mut Undo) -> Option<()> {
        match change {
            FixChange::CreatePool { .. } | FixChange::SetQuantity { .. } | FixChange::RaiseCount { .. } => {
                Some(())
            }
            FixChange::RaiseMaxRunning { group, to } => self.change_spec(undo, |spec| {
                let group = spec.groups.iter_mut().find(|g| g.name == *group)?;
                group.max_running = Some(*to);
                Some(())
            }),
            FixChange::AllowCluster { cluster: _, name } => self.change_spec(undo, |spec| {
                if !spec.clusters.only.is_empty() {
                    spec.clusters.only.push(name.clone());
                }
                if let Spread::Weights(weights) = &mut spec.clusters.spread {
                    weights.insert(name.clone(), 1);
                }
                Some(())
            }),
            FixChange::LowerRequest { group, kind, to } => self.change_spec(undo, |spec| {
                let group = spec.groups.iter_mut().find(|g| g.name == *group)?;
                group.resources = group.resources.with(*kind, *to);
                Some(())
            }),
            FixChange::ActivateCluster { cluster, .. } => {
                let view = self.open(cluster, undo)?;
                view.row.as_mut()?.desired_state = DesiredState::Active;
                Some(())
            }
            FixChange::AddHosts(hosts) => self.add_hosts(hosts, undo),
        }
    }

    fn change_spec(
        &mut self,
        undo: &mut Undo,
        change: impl FnOnce(&mut JobSpec) -> Option<()>,
    ) -> Option<()> {
        let job = self.facts.jobs.get_mut(&self.job)?;
        let before = job.spec.clone()?;
        let mut spec = JobSpec::clone(&before);
        change(&mut spec)?;
        job.spec = Some(Arc::new(spec));
        undo.spec.get_or_insert(before);
        Some(())
    }

    fn open(&mut self, cluster: &ClusterId, undo: &mut Undo) -> Option<&mut ClusterView> {
        let view = self.facts.clusters.get_mut(cluster)?;
        undo.clusters.push(SavedCluster {
            id: cluster.clone(),
            row: view.row.clone(),
            capacity: view.capacity.clone(),
            ever: Arc::clone(&view.fits.ever),
        });
        Some(view)
    }

    fn add_hosts(&mut self, hosts: &AddedHosts, undo: &mut Undo) -> Option<()> {
        let spec = self.spec()?;
        let mut held = Vec::new();
        for (name, n) in &hosts.groups {
            let group = spec.group(name)?;
            let class = InstanceClass::of(&spec, group).map(|c| c.digest());
            let before = ever_at(&self.facts, &self.ledger, &hosts.cluster, &spec, group);
            held.push((group.room(), class, *n, before == Some(0)));
        }
        let classes = self.ledger.all_classes();
        let kinds = self.facts.lent_kinds();
        let view = self.open(&hosts.cluster, undo)?;
        let capacity = view.capacity.as_mut()?;
        let ever = Arc::make_mut(&mut view.fits.ever);
        for (shape, own, n, is_first) in held {
            let lent = if hosts.revocable {
                shape.lent_part(kinds)
            } else {
                Resources::ZERO
            };
            add_capacity(capacity, (shape.minus(lent), lent), n, hosts.host_pool.as_ref());
            for (digest, class) in &classes {
                let more = if Some(*digest) == own {
                    n
                } else if class.is_plain() && !class.revocable && lets(class, hosts.host_pool.as_ref()) {
                    class.shape.count_in(shape).saturating_mul(n)
                } else {
                    0
                };
                if let Some(known) = ever.get_mut(digest) {
                    *known = known.saturating_add(more);
                }
            }
            // Where no host could hold one, the new hosts hold all that there are.
            if let Some(own) = own.filter(|_| is_first) {
                ever.entry(own).or_insert(n);
            }
        }
        Some(())
    }

    /// Changes the tree, if its rules allow that.
    fn take_tree(&mut self, changes: &[FixChange], undo: &mut Undo) -> Option<()> {
        let mut tree = PoolTree::clone(&self.facts.pools);
        let mut is_changed = false;
        for change in changes {
            is_changed |= change_tree(&mut tree, change)?;
        }
        if !is_changed {
            return Some(());
        }
        if !new_problems(&self.facts.pools, &tree).is_empty() {
            return None;
        }
        tree.version = tree.version.next();
        undo.tree = Some(SavedTree {
            pools: Arc::clone(&self.facts.pools),
            hierarchy: Arc::clone(&self.facts.hierarchy),
            by_shares: Arc::clone(&self.facts.by_shares),
            structure: self.facts.structure,
        });
        self.facts.set_pools(tree);
        Some(())
    }
}

/// Whether a class may use hosts of a host pool.
fn lets(class: &InstanceClass, host_pool: Option<&HostPoolName>) -> bool {
    let usual = HostPoolName::default();
    match &class.host_pool {
        HostPoolChoice::Any => true,
        HostPoolChoice::Only(name) => *name == *host_pool.unwrap_or(&usual),
    }
}

/// Adds hosts of so much ordinary and revocable capacity each.
fn add_capacity(
    capacity: &mut Capacity,
    shape: (Resources, Resources),
    n: u64,
    host_pool: Option<&HostPoolName>,
) {
    let (ordinary, lent) = shape;
    let more = ordinary.times(n);
    let usual = HostPoolName::default();
    let name = host_pool.unwrap_or(&usual);
    if !capacity.host_pools.is_empty() || !name.is_default() {
        if capacity.host_pools.is_empty() {
            let all = echelon_core_model::directive::Part {
                total: capacity.total,
                used: capacity.used,
                largest_host: capacity.largest_host,
            };
            capacity.host_pools.insert(usual.clone(), all);
        }
        let part = capacity.host_pools.entry(name.clone()).or_default();
        part.total = part.total.plus(more);
        part.largest_host = part.largest_host.max_each(ordinary);
    }
    capacity.total = capacity.total.plus(more);
    capacity.largest_host = capacity.largest_host.max_each(ordinary);
    if ordinary.gpus == 0 {
        capacity.without_gpus.total = capacity.without_gpus.total.plus(more);
        capacity.without_gpus.largest_host = capacity.without_gpus.largest_host.max_each(ordinary);
    }
    capacity.slack.total = capacity.slack.total.plus(lent.times(n));
    capacity.slack.largest_host = capacity.slack.largest_host.max_each(lent);
    capacity.hosts = capacity
        .hosts
        .saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
}

/// Makes a change of pools. Returns whether it is one. `None`: there is no such pool.
fn change_tree(tree: &mut PoolTree, change: &FixChange) -> Option<bool> {
    match change {
        FixChange::CreatePool { pool } => {
            let ends = pool.match_indices('/').map(|(at, _)| at).skip(1);
            let ends: Vec<usize> = ends.chain([pool.len()]).collect();
            for path in ends.into_iter().filter_map(|end| pool.get(..end)) {
                let new = || Pool::new(PoolId::new(format!("new{path}")), path);
                tree.pools.entry(path.to_owned()).or_insert_with(new);
            }
        }
        FixChange::SetQuantity { pool, quantity, to } => {
            let pool = tree.pools.get_mut(pool)?;
            let set = |all: Resources, (kind, n): &(Kind, u64)| all.with(*kind, *n);
            let all = to.iter().fold(quantity.of(pool), set);
            quantity.set(pool, all);
            if *quantity == PoolQuantity::Reservation {
                let path = pool.path.clone();
                raise_above(tree, &path);
            }
        }
        FixChange::RaiseCount { pool, count, to } => {
            let pool = tree.pools.get_mut(pool)?;
            match count {
                PoolCount::Jobs => pool.max_jobs = *to,
                PoolCount::Instances => pool.max_instances = *to,
            }
        }
        _ => return Some(false),
    }
    Some(true)
}

/// Raises the reservations of the pools above one to what the pools below them reserve together.
fn raise_above(tree: &mut PoolTree, path: &str) {
    let mut at = PoolTree::parent(path).to_owned();
    while at != "/" {
        let below = tree.pools.values().filter(|p| PoolTree::parent(&p.path) == at);
        let sum = below.fold(Resources::ZERO, |sum, p| sum.plus(p.reservation));
        if let Some(pool) = tree.pools.get_mut(&at) {
            pool.reservation = pool.reservation.max_each(sum);
        }
        at = PoolTree::parent(&at).to_owned();
    }
}
