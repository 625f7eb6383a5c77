//! The changes that may help, as large as may be: the search takes out those that are not needed and makes
//! the others as small as they can be.

use crate::demand::host_limits::HostLimits;
use crate::demand::request::{PoolRef, pool_of};
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::queries::explain::answer::{AddedHosts, FixChange, PoolCount};
use crate::queries::explain::trial::{Trial, TrialResult};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::health::NewWork;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::resources::Kind;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::tree::{MAX_QUANTITY, PoolQuantity};
use echelon_core_pools::{Left, Side};
use std::collections::BTreeMap;

/// Most clusters that are tried for one kind of change.
const MOST_CLUSTERS: usize = 4;
/// Added hosts are looked for up to so many times what waits: other pools get their shares of them.
const MOST_TIMES: u64 = 4_096;
/// The largest share that is tried.
const MOST_SHARE: u64 = 1 << 32;

/// The changes that may help.
#[derive(Debug, Default)]
pub(crate) struct Levers {
    /// Bounds of the job itself and of its pools.
    pub(crate) own: Vec<FixChange>,
    /// The share of its pool, and of each above.
    pub(crate) shares: Vec<FixChange>,
    /// The reservation of its pool.
    pub(crate) reservation: Vec<FixChange>,
    /// Lower reservations of static pools that do not use all of theirs.
    pub(crate) unreserved: Vec<FixChange>,
    /// Clusters that could take new work again.
    pub(crate) active: Vec<FixChange>,
    /// Clusters that the job may not use.
    pub(crate) allowed: Vec<FixChange>,
    /// Hosts, by cluster.
    pub(crate) hosts: Vec<FixChange>,
    /// Smaller requests of groups of which no host can hold an instance.
    pub(crate) lower: Vec<FixChange>,
    /// What quantities are now, and where their least value may be.
    pub(crate) hints: Hints,
    /// How many pools, clusters and waiting requests one trial looks at.
    pub(crate) size: usize,
}

/// What the search for the least value starts from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    /// Instances that are not admitted, by group.
    pub(crate) lacking: BTreeMap<GroupName, u64>,
    /// What they ask for in sum.
    pub(crate) need: Resources,
    /// The smallest of each kind that one of them asks for.
    pub(crate) step: Resources,
    /// By pool: what it has in ordinary capacity, and what it leaves.
    pub(crate) pools: BTreeMap<String, (Resources, Option<Left>)>,
    /// By group: instances that are granted, or admitted as things are, and those that are not.
    pub(crate) running: BTreeMap<GroupName, u64>,
}

/// Kinds of which something is asked for, and which a pool bounds.
fn bounded(of: Resources, need: Resources) -> Vec<(Kind, u64)> {
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|k| need.get(*k) > 0 && of.get(*k) < u64::MAX);
    kinds.map(|k| (k, u64::MAX)).collect()
}

impl Levers {
    pub(crate) fn of(trial: &Trial, result: &TrialResult, lacking: &BTreeMap<GroupName, u64>) -> Self {
        let mut out = Self::default();
        let Some(spec) = trial.spec() else { return out };
        let groups = || spec.groups.iter().filter(|g| lacking.contains_key(&g.name));
        let side = if spec.revocable {
            Side::Revocable
        } else {
            Side::Ordinary
        };
        let of = |g: &GroupSpec| g.room().times(lacking.get(&g.name).copied().unwrap_or_default());
        out.hints.need = groups().map(of).fold(Resources::ZERO, Resources::plus);
        let step = groups().map(GroupSpec::room).reduce(Resources::min_each);
        out.hints.step = step.unwrap_or_default();
        out.hints.lacking = lacking.clone();
        let queue = trial.ledger.queue().pools();
        let lines: usize = queue.map(|(_, lines)| lines.likenesses().count()).sum();
        out.size = lines.saturating_add(trial.facts.hierarchy.len());
        out.size = out.size.saturating_add(trial.facts.clusters.len());
        for group in groups() {
            let admitted = result.admitted.get(&group.name).copied().unwrap_or_default();
            let runs = trial.allocated(&group.name).saturating_add(admitted);
            out.hints.running.insert(group.name.clone(), runs);
            if group.max_running.is_some_and(|most| most < group.instances) {
                out.own.push(FixChange::RaiseMaxRunning {
                    group: group.name.clone(),
                    to: group.instances,
                });
            }
        }
        match pool_of(&trial.facts, &spec.pool) {
            PoolRef::Unknown(pool) => out.own.push(FixChange::CreatePool { pool }),
            PoolRef::Known(pool) => out.add_pools(trial, (result, side), &spec, pool),
        }
        out.add_clusters(trial, &spec, lacking);
        out.add_lower(trial, &spec, lacking);
        out
    }

    fn add_pools(&mut self, trial: &Trial, at: (&TrialResult, Side), spec: &JobSpec, leaf: PoolIdx) {
        let (result, side) = at;
        let hierarchy = &trial.facts.hierarchy;
        let need = self.hints.need;
        let set = |pool: &str, quantity, to: Vec<(Kind, u64)>| {
            (!to.is_empty()).then(|| FixChange::SetQuantity {
                pool: pool.to_owned(),
                quantity,
                to,
            })
        };
        let chain = std::iter::once(leaf).chain(hierarchy.above(leaf));
        for i in chain.filter(|i| *i != ROOT) {
            let Some(pool) = hierarchy.pool(i) else { continue };
            let path = pool.path.as_str();
            let left = result.rooms.left_at(i, side);
            self.hints
                .pools
                .insert(path.to_owned(), (result.rooms.taken(i).0, left));
            self.own
                .extend(set(path, PoolQuantity::Limit, bounded(pool.limit, need)));
            if spec.revocable {
                let to = bounded(pool.revocable_limit.with(Kind::Gpus, u64::MAX), need);
                self.own.extend(set(path, PoolQuantity::RevocableLimit, to));
            }
            if spec.controller {
                let to = bounded(pool.controller_limit, need);
                self.own.extend(set(path, PoolQuantity::ControllerLimit, to));
            }
            let counts = [
                (PoolCount::Jobs, pool.max_jobs),
                (PoolCount::Instances, pool.max_instances),
            ];
            let counts = counts.into_iter().filter(|(_, most)| *most < u64::MAX);
            self.own.extend(counts.map(|(count, _)| FixChange::RaiseCount {
                pool: path.to_owned(),
                count,
                to: MAX_QUANTITY,
            }));
            let kinds = Kind::ALL.into_iter().filter(|k| need.get(*k) > 0);
            let shares = kinds.clone().map(|k| (k, MOST_SHARE)).collect();
            self.shares.extend(set(path, PoolQuantity::Share, shares));
            if i == leaf {
                let demand = trial.ledger.of_known(i).map(|of| of.sums()).unwrap_or_default();
                let all = demand.ordinary.demand.plus(need).plus(result.rooms.taken(i).0);
                let to = kinds.map(|k| (k, all.get(k).min(MAX_QUANTITY)));
                let to = to.filter(|(k, n)| *n > pool.reservation.get(*k)).collect();
                let change = set(path, PoolQuantity::Reservation, to);
                if spec.preemptible {
                    self.reservation.extend(change);
                } else {
                    self.own.extend(change);
                }
            }
        }
        self.add_unreserved(trial, leaf);
    }

    /// Static pools that reserve more than they use.
    fn add_unreserved(&mut self, trial: &Trial, own: PoolIdx) {
        let hierarchy = &trial.facts.hierarchy;
        let need = self.hints.need;
        let mut all: Vec<(u64, FixChange)> = Vec::new();
        for i in hierarchy.indexes().filter(|i| hierarchy.is_leaf(*i) && *i != own) {
            let Some(pool) = hierarchy.pool(i) else { continue };
            let used = trial
                .ledger
                .of_known(i)
                .map(|of| of.sums().ordinary.demand)
                .unwrap_or_default();
            let unused = pool.kept().minus(used);
            let kinds = Kind::ALL.into_iter();
            let kinds = kinds.filter(|k| need.get(*k) > 0 && unused.get(*k) > 0);
            let to: Vec<(Kind, u64)> = kinds.map(|k| (k, used.get(k))).collect();
            let Some((first, _)) = to.first() else { continue };
            let change = FixChange::SetQuantity {
                pool: pool.path.clone(),
                quantity: PoolQuantity::Reservation,
                to: to.clone(),
            };
            all.push((unused.get(*first), change));
        }
        all.sort_by_key(|(unused, _)| std::cmp::Reverse(*unused));
        self.unreserved = all
            .into_iter()
            .take(MOST_CLUSTERS)
            .map(|(_, change)| change)
            .collect();
    }

    fn add_clusters(&mut self, trial: &Trial, spec: &JobSpec, lacking: &BTreeMap<GroupName, u64>) {
        let home = trial.facts.jobs.get(&trial.job).map(JobView::home);
        let order = trial.facts.homes.order(home.unwrap_or_default());
        let known = |id: ClusterId| {
            let view = trial.facts.clusters.get(&id)?;
            Some((id, view, view.row.as_ref()?))
        };
        let all: Vec<(ClusterId, &ClusterView, &Cluster)> = order.into_iter().filter_map(known).collect();
        for (id, view, row) in all {
            let name = &row.name;
            if view.desired_state() == DesiredState::Removed
                || !view.takes_grants()
                || view.new_work() == NewWork::Refused
            {
                continue;
            }
            if !spec.clusters.allows(row.identity()) {
                self.allowed.push(FixChange::AllowCluster {
                    cluster: id.clone(),
                    name: name.clone(),
                });
            }
            if view.desired_state() != DesiredState::Active {
                self.active.push(FixChange::ActivateCluster {
                    cluster: id.clone(),
                    name: name.clone(),
                });
            }
            if view.capacity.is_some() {
                let hosts = hosts(spec, (&id, name), lacking);
                self.hosts.push(FixChange::AddHosts(hosts));
            }
        }
        self.active.truncate(MOST_CLUSTERS);
        self.allowed.truncate(MOST_CLUSTERS);
    }

    /// Smaller requests where no host can hold one instance.
    fn add_lower(&mut self, trial: &Trial, spec: &JobSpec, lacking: &BTreeMap<GroupName, u64>) {
        let limits = HostLimits::of(&trial.facts, &trial.ledger);
        for group in spec.groups.iter().filter(|g| lacking.contains_key(&g.name)) {
            let Some(largest) = limits.nearest(spec, group) else {
                continue;
            };
            let room = group.room();
            for kind in Kind::ALL {
                let over = room.get(kind).saturating_sub(largest.get(kind));
                let to = group.resources.get(kind).checked_sub(over).filter(|to| *to > 0);
                if let Some(to) = to.filter(|_| over > 0) {
                    self.lower.push(FixChange::LowerRequest {
                        group: group.name.clone(),
                        kind,
                        to,
                    });
                }
            }
        }
    }
}

fn hosts(spec: &JobSpec, cluster: (&ClusterId, &String), lacking: &BTreeMap<GroupName, u64>) -> AddedHosts {
    let (cluster, name) = cluster;
    let groups = lacking
        .iter()
        .map(|(g, n)| (g.clone(), n.saturating_mul(MOST_TIMES)));
    let first = lacking.keys().find_map(|g| spec.group(g));
    let host_pool = first.and_then(|g| match &g.siting.host_pool {
        HostPoolChoice::Any => None,
        HostPoolChoice::Only(name) => Some(name.clone()).filter(|name| !name.is_default()),
    });
    let out = AddedHosts {
        cluster: cluster.clone(),
        name: name.clone(),
        groups: groups.collect(),
        amount: Resources::ZERO,
        host: Resources::ZERO,
        host_pool,
        revocable: spec.revocable,
    };
    out.counted(spec)
}

impl AddedHosts {
    /// The same with what its instances come to.
    pub(crate) fn counted(self, spec: &JobSpec) -> Self {
        let rooms = self.groups.iter().filter(|(_, n)| *n > 0);
        let rooms = rooms.filter_map(|(name, n)| Some((spec.group(name)?.room(), *n)));
        let none = (Resources::ZERO, Resources::ZERO);
        let (amount, host) = rooms.fold(none, |(sum, largest), (room, n)| {
            (sum.plus(room.times(n)), largest.max_each(room))
        });
        Self { amount, host, ..self }
    }
}
