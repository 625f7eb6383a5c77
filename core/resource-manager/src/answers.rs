//! Answers to questions of gateways.

use echelon_core_model::pool::PoolTree;
use echelon_core_model::{ClusterId, GroupName, Reason, Resources};
use echelon_core_pools::Held;
use echelon_core_pools::certificate::{Certificate, SecondLine};
use std::collections::BTreeMap;

/// What would become of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its pool.
    pub pool: PoolPlan,
    /// Its groups, in the job's order.
    pub groups: Vec<GroupPlan>,
}

/// How a pool stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Its path.
    pub path: String,
    /// `PoolNotFound` when it does not exist or has pools below it.
    pub problem: Option<Reason>,
    /// What it gets first.
    pub reservation: Resources,
    /// What it never exceeds.
    pub limit: Resources,
    /// What it is entitled to, this job's demand included.
    pub entitlement: Resources,
    /// What is granted or active in it.
    pub allocated: Resources,
}

/// What would become of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name.
    pub group: GroupName,
    /// Wanted instances.
    pub instances: u64,
    /// How many could be active now.
    pub could_start: u64,
    /// The clusters where they would begin.
    pub clusters: Vec<ClusterShare>,
    /// The clusters that it cannot go to.
    pub dropped: Vec<Dropped>,
    /// Why the others would wait: the counts sum to `instances - could_start`.
    pub waiting: Vec<(Reason, u64)>,
    /// Why no host of any cluster that it may use can ever hold one of it, as far as hosts are known now.
    pub fits_nowhere: Option<Reason>,
}

/// A cluster's share of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShare {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Instances that would begin there. Of a daemon: all that belong there.
    pub instances: u64,
}

/// A cluster that a group cannot go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Which filter dropped it, with numbers.
    pub reason: Reason,
}

/// How the pools stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFigures {
    /// The tree that these figures are about.
    pub tree: PoolTree,
    /// In ordinary capacity.
    pub ordinary: SideFigures,
    /// In revocable capacity.
    pub lent: SideFigures,
    /// Ordinary capacity that is not divided, since it may take nothing new and nothing runs there.
    pub closed: Resources,
    /// What of allocated ordinary capacity is counted apart.
    pub held: BTreeMap<String, Held>,
}

/// How the pools stand in the capacity of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFigures {
    /// What jobs could use of empty hosts, by the pool that they name.
    pub demand: BTreeMap<String, Resources>,
    /// What is granted to them or active.
    pub allocated: BTreeMap<String, Resources>,
    /// What round 0 gives each pool, with its proof.
    pub certificate: Certificate,
    /// What each pool keeps of that, and what it may use in the end. Empty when no pool lacks entitlement,
    /// because there is no second round then. Also empty under another tree: what each pool can use would
    /// depend on what would run.
    pub second: Vec<SecondLine>,
}
