//! Claims: room that a starved group is promised at one cluster, to be made by preemption. The resource manager names the
//! claimant and whose instances may be taken; the shard chooses them on real hosts, holds the room and tells what it has. Soft as
//! grants are: a claim that is lost is made again, and room that dies already is found before anything more is taken.

use crate::id::{Epoch, Generation, GroupName, JobId};

/// Names a claim; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// The epoch of the resource manager that made it.
    pub epoch: Epoch,
    /// Grows within the epoch.
    pub number: u64,
}

/// What a shard is to make room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub id: ClaimId,
    /// The claimant's job.
    pub job: JobId,
    /// Its group.
    pub group: GroupName,
    /// The generation of its slice at this cluster.
    pub generation: Generation,
    /// The claimant's pool, for people.
    pub pool: String,
    /// For how many instances of the group room is wanted.
    pub count: u64,
    /// Most instances that may be taken.
    pub most: u64,
    /// Whose instances may be taken; those to be taken first come first.
    pub victims: Vec<Victim>,
}

/// A slice of which instances may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The generation.
    pub generation: Generation,
    /// Most of its instances that may be taken.
    pub most: u64,
    /// Instances of a smaller class are worth less: any number of them is taken rather than one of a larger class.
    pub class: u32,
}

/// What a shard has done about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimReport {
    /// The claim.
    pub id: ClaimId,
    /// The claimant's job.
    pub job: JobId,
    /// Its group.
    pub group: GroupName,
    /// The generation.
    pub generation: Generation,
    /// For how many instances room is held that nobody of the group was launched into yet. Some of it may still be in use by what
    /// is being stopped.
    pub open: u64,
    /// Instances that were taken for it.
    pub taken: u64,
}
