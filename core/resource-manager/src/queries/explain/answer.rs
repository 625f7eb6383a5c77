//! What an explanation says: blockers, holders, the place in the queue, and changes that were verified.

use echelon_core_model::resources::Kind;
use echelon_core_model::{ClusterId, GroupName, HostPoolName, Reason, Resources};
use echelon_core_pools::tree::PoolQuantity;
use std::fmt;

/// Most fixes that one answer states.
pub const MOST_FIXES: usize = 3;
/// Most pools that are named as holders.
pub const MOST_HOLDERS: usize = 3;
/// Most blockers that are listed.
pub const MOST_BLOCKERS: usize = 32;

/// Why instances of a job wait for admission, and what would admit all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobExplanation {
    /// Instances that wait and are not granted.
    pub waiting: u64,
    /// The job's place in the queue of its pool. `None`: it has none.
    pub place: Option<QueuePlace>,
    /// What is in the way, in the order in which admission asks.
    pub blockers: Vec<AdmissionBlocker>,
    /// How many blockers are left out.
    pub more_blockers: u64,
    /// The pools that have most of what is lacking, the largest first.
    pub holders: Vec<CapacityHolder>,
    /// How many more pools have some of it.
    pub more_holders: u64,
    /// What would admit everything that waits.
    pub outcome: FixOutcome,
    /// Admissions that were tried on the copy.
    pub trials: u32,
}

impl JobExplanation {
    /// That nothing waits.
    pub(crate) const fn nothing_waits() -> Self {
        Self {
            waiting: 0,
            place: None,
            blockers: Vec::new(),
            more_blockers: 0,
            holders: Vec::new(),
            more_holders: 0,
            outcome: FixOutcome::NothingWaits,
            trials: 0,
        }
    }
}

/// A job's place in the queue of its pool: by priority, then age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// Other jobs of the pool that go first.
    pub jobs_ahead: u64,
    /// How many instances of them, or gangs, wait.
    pub units_ahead: u64,
    /// Units of all jobs that wait in the pool, this job's included.
    pub units: u64,
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionBlocker {
    /// The group that waits.
    pub group: GroupName,
    /// What, where, and how much of it is needed for all instances that wait.
    pub reason: Reason,
    /// Instances that wait for it.
    pub instances: u64,
}

/// A pool that has some of what is lacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityHolder {
    /// Its path.
    pub pool: String,
    /// What its work has there.
    pub used: Resources,
    /// What a static pool has reserved beside that and does not use.
    pub unused_reservation: Resources,
}

/// What would admit everything that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixOutcome {
    /// Nothing of the job waits for admission.
    NothingWaits,
    /// No change of demand or capacity helps while this holds.
    Barred(Reason),
    /// All of it is admitted as things are.
    Admitted,
    /// All of it is admitted when preemption has stopped what other pools have beyond their own.
    AfterPreemption,
    /// Each of these admits all of it, and was verified. The smallest comes first.
    Fixes(Vec<VerifiedFix>),
    /// No combination of changes that was tried admits all of it.
    NoneFound,
}

/// Changes that together admit everything that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedFix {
    /// All of them are needed.
    pub changes: Vec<FixChange>,
    /// Whether one unit less of each was tried and does not suffice. False: the work for one answer was used
    /// up before.
    pub is_least: bool,
    /// Whether preemption has to stop instances of other pools afterwards.
    pub needs_preemption: bool,
}

/// A bound on a number of things in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolCount {
    /// Jobs of which something has begun.
    Jobs,
    /// Active instances.
    Instances,
}

impl PoolCount {
    /// Its name in files and in the API.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Jobs => "max_jobs",
            Self::Instances => "max_instances",
        }
    }
}

/// Hosts that a cluster would need beside those that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedHosts {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Instances of each group for which they have capacity.
    pub groups: Vec<(GroupName, u64)>,
    /// What they have together.
    pub amount: Resources,
    /// The least that each of them has.
    pub host: Resources,
    /// The host pool in which they are; `None`: any.
    pub host_pool: Option<HostPoolName>,
    /// Whether they have it as revocable capacity.
    pub revocable: bool,
}

/// A change of demand or capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixChange {
    /// Create the pool that the job names, with those above it.
    CreatePool {
        /// Its path.
        pool: String,
    },
    /// Raise `max_running` of a group.
    RaiseMaxRunning {
        /// The group.
        group: GroupName,
        /// To so many.
        to: u32,
    },
    /// Set a quantity of a pool. Kinds that are not named stay.
    SetQuantity {
        /// The pool.
        pool: String,
        /// Which quantity.
        quantity: PoolQuantity,
        /// To so much of each kind.
        to: Vec<(Kind, u64)>,
    },
    /// Raise a bound on a number of things in a pool.
    RaiseCount {
        /// The pool.
        pool: String,
        /// Which bound.
        count: PoolCount,
        /// To so many.
        to: u64,
    },
    /// Let a cluster take new work again.
    ActivateCluster {
        /// The cluster.
        cluster: ClusterId,
        /// Its name.
        name: String,
    },
    /// Let the job use one more cluster (`clusters.only`).
    AllowCluster {
        /// The cluster.
        cluster: ClusterId,
        /// Its name.
        name: String,
    },
    /// Add hosts to a cluster.
    AddHosts(AddedHosts),
    /// Ask for less an instance.
    LowerRequest {
        /// The group.
        group: GroupName,
        /// The kind.
        kind: Kind,
        /// The main task's request of it.
        to: u64,
    },
}

fn quantities(to: &[(Kind, u64)]) -> String {
    let all = to.iter().map(|(kind, n)| {
        if *n == u64::MAX {
            format!("no bound of {kind}")
        } else {
            format!("{kind} {}", kind.show(*n))
        }
    });
    all.collect::<Vec<_>>().join(", ")
}

fn amounts(of: Resources) -> String {
    let kinds = Kind::ALL.into_iter().filter(|k| of.get(*k) > 0);
    let kinds: Vec<(Kind, u64)> = kinds.map(|k| (k, of.get(k))).collect();
    quantities(&kinds)
}

impl fmt::Display for AddedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster: _,
            name,
            groups,
            amount,
            host,
            host_pool,
            revocable,
        } = self;
        let kind = if *revocable {
            "revocable capacity on hosts"
        } else {
            "hosts"
        };
        write!(f, "add {kind} to cluster {name}: {}", amounts(*amount))?;
        let n = groups.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        write!(
            f,
            " together, for {n} more instances, at least {} each",
            amounts(*host)
        )?;
        match host_pool {
            Some(pool) => write!(f, ", in host pool {pool}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FixChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreatePool { pool } => write!(f, "create pool {pool}"),
            Self::RaiseMaxRunning { group, to } => write!(f, "raise max_running of group {group} to {to}"),
            Self::SetQuantity {
                pool,
                quantity: PoolQuantity::Share,
                to,
            } => {
                let shares: Vec<String> = to.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
                write!(f, "set the share of pool {pool} to {}", shares.join(", "))
            }
            Self::SetQuantity { pool, quantity, to } => {
                write!(
                    f,
                    "set the {} of pool {pool} to {}",
                    quantity.field(),
                    quantities(to)
                )
            }
            Self::RaiseCount { pool, count, to } => {
                write!(f, "raise {} of pool {pool} to {to}", count.field())
            }
            Self::ActivateCluster { cluster: _, name } => write!(f, "set cluster {name} active"),
            Self::AllowCluster { cluster: _, name } => {
                write!(f, "let the job use cluster {name} (`clusters.only`)")
            }
            Self::AddHosts(hosts) => hosts.fmt(f),
            Self::LowerRequest { group, kind, to } => {
                write!(
                    f,
                    "ask for {kind} {} or less an instance of group {group}",
                    kind.show(*to)
                )
            }
        }
    }
}

impl fmt::Display for VerifiedFix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            changes,
            is_least,
            needs_preemption,
        } = self;
        for (i, change) in changes.iter().enumerate() {
            let and = if i > 0 { ", and " } else { "" };
            write!(f, "{and}{change}")?;
        }
        if !is_least {
            f.write_str(" (less may suffice)")?;
        }
        if *needs_preemption {
            f.write_str("; then preemption stops work of other pools")?;
        }
        Ok(())
    }
}
