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
    /// Revocable work has more of what is lent after a raise of such work than its pool may have.
    #[error("pool {pool} has {allocated} of lent room, above its limit of {limit} for it")]
    PoolRevocableLimit {
        /// The pool.
        pool: String,
        /// What is granted or active.
        allocated: Resources,
        /// Its limit.
        limit: Resources,
    },
    /// Controllers have more after a raise of one of them than their pool allows them.
    #[error("pool {pool} has {allocated} allocated to controllers, above its limit for them of {limit}")]
    PoolControllers {
        /// The pool.
        pool: String,
        /// What is granted to them or active.
        allocated: Resources,
        /// What they may have.
        limit: Resources,
    },
    /// More jobs of a pool have begun, or more instances are active, after one more has than may be.
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
    /// A number is assigned at a generation that it had elsewhere.
    #[error(
        "job {job}: group {group} numbers {numbers} are assigned again at a generation that {cluster} released"
    )]
    ReleasedAgain {
        /// The job.
        job: JobId,
        /// The group.
        group: GroupName,
        /// The numbers.
        numbers: String,
        /// Who released them.
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
    /// The sums that are kept are not those of the jobs.
    #[error("the sums that are kept over cycles are not those of all jobs")]
    Sums,
    /// What is kept of a job's sums is not what follows from what is known of it.
    #[error("job {job}: what is kept of its sums does not follow from what is known of it")]
    Entry {
        /// The job.
        job: JobId,
    },
    /// A sum that is kept is not that of the jobs.
    #[error("a sum that is kept of {of} is not that of its jobs")]
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
