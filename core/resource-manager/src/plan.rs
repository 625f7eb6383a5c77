//! What would become of a job if it were submitted now: the same functions as the cycle, on the same picture, committing
//! nothing.

use echelon_core_model::{ClusterId, GroupName, Reason, Resources};

/// Correlates a question with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanToken(pub u64);

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
    /// The clusters that it would go to, the home first.
    pub clusters: Vec<ClusterShare>,
    /// The clusters that it cannot go to.
    pub dropped: Vec<Dropped>,
    /// Why the others would wait: the counts sum to `instances - could_start`.
    pub waiting: Vec<(Reason, u64)>,
}

/// A cluster's part of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShare {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Instances assigned to it.
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
