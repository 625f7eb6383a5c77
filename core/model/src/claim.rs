//! Claims: room that a starved group, or a whole gang, is promised at one cluster, to be made by preemption. The resource manager names the
//! claimant and whose instances may be taken; the shard chooses them on real hosts, holds the room and tells what it has. Soft as
//! grants are: a claim that is lost is made again, and room that dies already is found before anything more is taken.

use crate::id::{ClusterId, Epoch, Generation, GroupName, JobId};
use crate::resources::Resources;

/// Names a claim; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// The epoch of the resource manager that made it.
    pub epoch: Epoch,
    /// Grows within the epoch.
    pub number: u64,
}

/// Instances of one group that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPart {
    /// The group.
    pub group: GroupName,
    /// The generation of its slice at this cluster.
    pub generation: Generation,
    /// How many.
    pub count: u64,
}

/// What a shard is to make room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub id: ClaimId,
    /// The claimant's job.
    pub job: JobId,
    /// For how many instances of which group room is wanted: of one group, or of all groups of a gang, for which there is room
    /// for all of it, or nobody is stopped.
    pub parts: Vec<ClaimPart>,
    /// The cluster where the claimant waits. If capacity in a pool is wanted, it may be another one than the
    /// shard's.
    pub waits: ClusterId,
    /// The claimant's pool, for people.
    pub pool: String,
    /// Most instances that may be taken.
    pub most: u64,
    /// Whose instances may be taken; those to be taken first come first.
    pub victims: Vec<Victim>,
    /// Room is wanted in a pool and not on hosts: nobody of the claimant has to be known here, and nothing is held.
    pub quota: Option<Quota>,
    /// If no host has capacity for an instance, the capacity of one host is kept for it as work there ends.
    pub keeps_host: bool,
}

/// Room that is wanted in a pool whose limit is reached, wherever the hosts are on which it becomes free: the claimant may wait at
/// another cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// What the pool leaves already.
    pub left: Resources,
    /// What is of use only as a whole.
    pub unit: Resources,
    /// How many of these are wanted.
    pub count: u64,
}

/// A slice of which instances may be taken; of a gang all of every slice or nothing, and only when all of them are named.
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
    /// The claim as it was sent last, without victims: a new resource manager goes on with it.
    pub claim: Claim,
    /// For how many instances of each group room is held that nobody of the group was launched into yet. Some of it may still be
    /// in use by what is being stopped.
    pub open: Vec<ClaimPart>,
    /// Instances that were taken for it.
    pub taken: u64,
}

impl ClaimReport {
    /// Whether instances were stopped for capacity in a pool, which the resource manager keeps for it there.
    #[must_use]
    pub const fn keeps_quota(&self) -> bool {
        self.claim.quota.is_some() && self.taken > 0
    }

    /// Whether room is held for any instance.
    #[must_use]
    pub fn holds_room(&self) -> bool {
        self.open.iter().any(|part| part.count > 0)
    }

    /// For how many instances of a slice room is held.
    #[must_use]
    pub fn open_of(&self, group: &GroupName, generation: Generation) -> u64 {
        let of_slice = self
            .open
            .iter()
            .filter(|p| p.group == *group && p.generation == generation);
        of_slice.map(|p| p.count).sum()
    }
}
