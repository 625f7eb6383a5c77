//! Rules that something known or decided breaks.

use crate::facts::slice::SliceKey;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, GroupName, JobId};
use echelon_core_pools::certificate;
use thiserror::Error;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Broken {
    /// Ranges overlap, or a holder is unknown.
    #[error("job {job}: {problem}")]
    Assignment {
        /// The job.
        job: JobId,
        /// What is wrong.
        problem: String,
    },
    /// More is allocated after a raise than a pool may have.
    #[error("pool {pool} has {allocated} allocated after a raise, above its limit of {limit}")]
    PoolLimit {
        /// The pool.
        pool: String,
        /// What is granted or active.
        allocated: Resources,
        /// Its limit.
        limit: Resources,
    },
    /// Work that is not preemptible has more after a raise of such work than its pool has reserved.
    #[error(
        "pool {pool} has {allocated} allocated that is not preemptible, above its reservation of {reservation}"
    )]
    PoolReservation {
        /// The pool.
        pool: String,
        /// What is granted or active of such work.
        allocated: Resources,
        /// Its reservation.
        reservation: Resources,
    },
    /// Revocable work has more revocable capacity after a raise of such work than its pool may have.
    #[error("pool {pool} has {allocated} of revocable capacity, above its limit of {limit}")]
    PoolRevocableLimit {
        /// The pool.
        pool: String,
        /// What is granted or active.
        allocated: Resources,
        /// Its limit.
        limit: Resources,
    },
    /// Controllers have more after a raise of a controller than their pool allows.
    #[error("pool {pool} has {allocated} allocated to controllers, above its limit for them of {limit}")]
    PoolControllers {
        /// The pool.
        pool: String,
        /// What is granted to them or active.
        allocated: Resources,
        /// What they may have.
        limit: Resources,
    },
    /// After a raise, more jobs of a pool have begun, or more instances are active, than the pool may have.
    #[error("pool {pool} has {have} {what} after a raise, above its most of {most}")]
    PoolNumbers {
        /// The pool.
        pool: String,
        /// What is counted.
        what: &'static str,
        /// How many there are.
        have: u64,
        /// How many there may be.
        most: u64,
    },
    /// An index is assigned again at a generation that it had at another cluster.
    #[error(
        "job {job}: group {group} numbers {numbers} are assigned again at a generation that {cluster} released"
    )]
    ReleasedAgain {
        /// The job.
        job: JobId,
        /// The group.
        group: GroupName,
        /// The indexes.
        numbers: String,
        /// The cluster that released them.
        cluster: ClusterId,
    },
    /// A grant for a slice that the assignment does not have.
    #[error("job {job}: a grant for {slice:?}, which is not assigned")]
    UnknownGrant {
        /// The job.
        job: JobId,
        /// The slice.
        slice: SliceKey,
    },
    /// More may be active than the group's `max_running`.
    #[error("job {job}: group {group} has {granted} granted, above its most of {most}")]
    MaxRunning {
        /// The job.
        job: JobId,
        /// The group.
        group: GroupName,
        /// What is granted.
        granted: u64,
        /// Its most.
        most: u64,
    },
    /// The ledger's sums are not those of all jobs.
    #[error("the sums of the ledger differ from the sums over all jobs")]
    Sums,
    /// The ledger's entry of a job does not follow from the facts about the job.
    #[error("job {job}: its entry in the ledger does not follow from the facts")]
    Entry {
        /// The job.
        job: JobId,
    },
    /// One of the ledger's sums is not that of its jobs.
    #[error("the ledger's sum of {of} differs from the sum over its jobs")]
    Sum {
        /// Of what.
        of: String,
    },
    /// Pools are entitled to something else than max-min fairness gives them.
    #[error("unfair: {0}")]
    Unfair(certificate::Unfair),
    /// Instances wait without a reason, or are counted twice.
    #[error("job {job}: {told} of {waiting} waiting instances have a reason")]
    Unexplained {
        /// The job.
        job: JobId,
        /// Instances under a reason.
        told: u64,
        /// Instances that wait.
        waiting: u64,
    },
}
