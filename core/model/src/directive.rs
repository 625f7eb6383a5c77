//! What the resource manager and a shard say to each other over their one stream. Every message carries the sender's
//! epoch and a sequence; older ones are dropped. All of it is soft: losing a message loses time, never work.

use crate::assignment::AssignedRange;
use crate::claim::{Claim, ClaimReport};
use crate::class::{ClassDigest, ClassFit, InstanceClass};
use crate::drain::Drains;
use crate::forgotten::ForgottenHosts;
use crate::health::ShardSigns;
use crate::host_pool::HostMoves;
use crate::id::{ClusterId, Epoch, Generation, GroupName, HostPoolName, JobId, Version, VolumeId};
use crate::instance::Counts;
use crate::job::Goal;
use crate::range::RangeSet;
use crate::reason::Reason;
use crate::resources::Resources;
use crate::restart::GroupRestarts;
use crate::rollout::Rollout;
use crate::sharing::Sharing;
use crate::starts::StartCounts;
use crate::store::Leadership;
use crate::time::{Span, Timestamp};
use crate::volume::VolumeWish;
use std::collections::BTreeMap;

/// How many instances of a slice may be active: absolute, numbered, for one generation, renewed. Expiry forbids raising
/// the number of active instances and never stops anything; only a smaller grant of the current epoch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The resource manager's epoch.
    pub epoch: Epoch,
    /// Grows within the epoch; a smaller one is late and dropped.
    pub number: u64,
    /// Most active instances.
    pub active: u64,
    /// How long it allows raising, from its arrival.
    pub lease: Span,
    /// The changes of the shard that `active` takes into account. Those that it made since change the grant.
    pub known: OwnChanges,
}

/// What a shard has changed of a slice by itself, beside its grants, in all. Both numbers only grow, so of two
/// the larger one is the newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OwnChanges {
    /// Instances that it has preempted.
    pub preempted: u64,
    /// Instances that it has taken over beyond the grant, after storage was resumed.
    pub taken_over: u64,
}

impl OwnChanges {
    /// What an amount is worth that takes `known` into account: what was preempted since lowers it, and what
    /// was taken over since raises it.
    #[must_use]
    pub const fn since(self, known: Self, amount: u64) -> u64 {
        let stays = amount.saturating_sub(self.preempted.saturating_sub(known.preempted));
        stays.saturating_add(self.taken_over.saturating_sub(known.taken_over))
    }

    /// The newer of both.
    #[must_use]
    pub fn newer(self, other: Self) -> Self {
        Self {
            preempted: self.preempted.max(other.preempted),
            taken_over: self.taken_over.max(other.taken_over),
        }
    }
}

/// From the resource manager to a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// Grows within the epoch and stream.
    pub sequence: u64,
    /// What is ordered.
    pub order: Order,
}

/// What a directive orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The leadership that the stream's opener took, as it is stored: the first order of a stream. Before it
    /// is compared with storage nothing of the stream is obeyed.
    Hello(Leadership),
    /// Begin a full report now.
    Report,
    /// What is wanted of these groups at this cluster. A group that is not named keeps what it has (law 1).
    Slices(Vec<SliceOrder>),
    /// The job has ended, or its tombstone is gone: its blocks may go to the archive once nothing of it runs.
    Archive(JobId),
    /// An operator accepts the mass loss of this number, and every earlier one: what is missing may be replaced.
    AcceptLoss(u64),
    /// What operators want of volumes. A volume that is not named keeps what it has (law 1).
    Volumes(BTreeMap<VolumeId, VolumeWish>),
    /// The hosts that are to be empty: all of them, as of a version. An older one changes nothing.
    Drains(Drains),
    /// Hosts that never return: what was silent there when an operator said so has ended.
    ForgetHosts(ForgottenHosts),
    /// The hosts that are to be in a certain host pool: all of them, as of a version. An older one changes nothing.
    HostMoves(HostMoves),
    /// Whether kills are switched off, as of a version of the switches. An older one changes nothing.
    Kills {
        /// The version.
        version: Version,
        /// Nothing is to be killed.
        off: bool,
    },
    /// All claims at this cluster. Room held for one that is not named is free again.
    Claims {
        /// The claims.
        claims: Vec<Claim>,
        /// How long room is held for them, from the arrival of this order.
        lease: Span,
    },
    /// The classes of which the shard is to report how many instances fit: these and no others.
    Classes(NamedClasses),
    /// The cluster is removed for good and nothing is assigned to it. The shard moves all that it has to the
    /// archive and has Mesos remove its framework, once nothing of it runs.
    TearDown,
}

/// The classes whose instances wait, or may come, where a shard places them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedClasses {
    /// At most `MAX_CLASSES`, by digest.
    pub classes: BTreeMap<ClassDigest, InstanceClass>,
    /// How many more there are.
    pub left_out: u32,
}

/// How many instances of each class fit on a cluster's hosts. Replaces all that was reported before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassFits {
    /// Grows within a shard leader's epoch when hosts come or go, or when their size, attributes, ports or host pools change.
    pub revision: u64,
    /// Each class that was asked about.
    pub fits: BTreeMap<ClassDigest, ClassFit>,
    /// How many more classes there are of which it was not asked.
    pub left_out: u32,
}

/// What is wanted of a group at a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceOrder {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The head that this was decided from.
    pub head_version: Version,
    /// The goal in that head.
    pub goal: Goal,
    /// The spec version in that head.
    pub spec_version: u32,
    /// Every range of the group that the assignment gives to this cluster, stored before this was sent. May be empty:
    /// then the order asks for confirmation that nothing runs.
    pub ranges: Vec<AssignedRange>,
    /// Grants by generation.
    pub grants: Vec<(Generation, Grant)>,
    /// This cluster's part of the group's `max_unavailable`.
    pub max_unavailable: u32,
    /// The number of that part: it carries the epoch and grows; a part with a smaller one is late and dropped.
    pub part_number: u64,
    /// The rollout in that head.
    pub rollout: Option<Rollout>,
    /// Only instances with smaller numbers are updated for now.
    pub update_below: u32,
    /// Restarts of parts of the group, in that head.
    pub restarts: GroupRestarts,
}

/// From a shard to the resource manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard leader's epoch.
    pub epoch: Epoch,
    /// Grows within the epoch.
    pub sequence: u64,
    /// What is told.
    pub part: ReportPart,
}

/// A part of what a shard tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportPart {
    /// A full report begins; until its end the stored picture holds.
    FullStart,
    /// These slices, as they are now.
    Slices(Vec<SliceReport>),
    /// The full report is complete.
    FullEnd,
    /// The cluster's hosts in sum.
    Capacity(Box<Capacity>),
    /// All claims of which the shard knows.
    Claims(Vec<ClaimReport>),
    /// Of these jobs nothing is stored here but what is in the archive.
    Archived(Vec<JobId>),
    /// What was found since storage was resumed. It is told when the cluster has listed all its tasks, and when it changes.
    Found(Found),
    /// How many instances of each class fit. It is reported when it changes, at most once a second.
    Fits(ClassFits),
    /// What the shard observes of itself and its cluster.
    Signs(ShardSigns),
    /// How many starts were begun of late, and how many failed. It is reported when it changes, at most every five
    /// seconds.
    Starts(StartCounts),
    /// The directive was refused: the shard obeys a newer resource manager.
    Superseded(Epoch),
}

/// Instances that run in a cluster and that storage does not assign to it at their generation, since an older storage was put
/// back and resumed. A list is told as one or more parts and replaces the list before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// This is the first part of a list.
    pub begins: bool,
    /// This is the last part of a list.
    pub ends: bool,
    /// What runs.
    pub slices: Vec<FoundSlice>,
}

/// Instances of one group that were found at one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSlice {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The generation.
    pub generation: Generation,
    /// The numbers.
    pub numbers: RangeSet,
}

/// Room of some hosts of a cluster, in sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// All of it.
    pub total: Resources,
    /// Taken by our tasks.
    pub used: Resources,
    /// The most of each kind on one host, whoever holds it now.
    pub largest_host: Resources,
}

impl Part {
    /// Adds a host's room.
    pub fn add(&mut self, host: Resources) {
        self.total = self.total.plus(host);
        self.largest_host = self.largest_host.max_each(host);
    }
}

/// A cluster's hosts in sum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capacity {
    /// All that hosts have for us, without what others hold. Of hosts that take nothing new, what our tasks
    /// hold there: the total and every part below leave out the rest of them.
    pub total: Resources,
    /// Taken by our tasks, on all hosts.
    pub used: Resources,
    /// That rest: what hosts that take nothing new have beyond what our tasks hold there.
    pub closed: Resources,
    /// Largest free room of each kind on one host.
    pub largest_free: Resources,
    /// Largest capacity of each kind on one host, whoever holds it now: what never fits is said at submit (law 11).
    pub largest_host: Resources,
    /// The part that is for work that asks for no GPUs: without the hosts that are kept for others.
    pub without_gpus: Part,
    /// What these hosts lend beside that, for revocable work.
    pub slack: Part,
    /// All hosts by their host pools; empty when all of them are in `default`.
    pub host_pools: BTreeMap<HostPoolName, Part>,
    /// Hosts seen.
    pub hosts: u32,
    /// The number of the mass loss for which replacements wait.
    pub loss: Option<u64>,
    /// How it is shared with other frameworks. What they hold and what quota forbids is in no sum.
    pub sharing: Sharing,
}

impl Capacity {
    /// The same with at most so much of each kind in every sum.
    #[must_use]
    pub fn bounded(mut self, most: Resources) -> Self {
        let own = [&mut self.total, &mut self.used, &mut self.closed];
        let hosts = [&mut self.largest_free, &mut self.largest_host];
        let parts = [&mut self.without_gpus, &mut self.slack].into_iter();
        let parts = parts.chain(self.host_pools.values_mut());
        let parts = parts.flat_map(|p| [&mut p.total, &mut p.used, &mut p.largest_host]);
        for sum in own.into_iter().chain(hosts).chain(parts) {
            *sum = sum.min_each(most);
        }
        self
    }
}

/// Most ranges of numbers that a report names as returnable.
pub const RETURNABLE: usize = 16;

/// A slice as its shard sees it: the numbers of one group at one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceReport {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The generation.
    pub generation: Generation,
    /// The newest head that the shard acted on.
    pub head_version: Version,
    /// The newest grant that it obeyed.
    pub grant_number: u64,
    /// How many may be active by the grant in force, as far as one may begin now, whoever gave it.
    pub granted: u64,
    /// Numbers held: assigned here at this generation and not released.
    pub held: RangeSet,
    /// Numbers released for good, durable.
    pub released: RangeSet,
    /// Held numbers that are active: begun and not ended.
    pub active: u64,
    /// Held numbers that are not active, have not ended and may go elsewhere: what holds a volume stays with it.
    pub unstarted: u64,
    /// Of those that are active, how many have no run, are ready for the next one and may go elsewhere.
    pub between_runs: u64,
    /// What a mark by count can get back: the highest of those not started or between two runs.
    /// At most [`RETURNABLE`] ranges.
    pub returnable: RangeSet,
    /// Held numbers by state.
    pub counts: Counts,
    /// Held numbers whose goal is met: succeeded.
    pub succeeded: u64,
    /// Held numbers whose retries are used up.
    pub failed: u64,
    /// Held numbers that were stopped.
    pub stopped: u64,
    /// Runs of any number at this generation, released ones included, that Mesos may still have.
    pub live: u64,
    /// Why held numbers wait.
    pub waiting: Vec<(Reason, u64, Timestamp)>,
    /// Runs of the whole group, at any generation, that began before the last restart asked for.
    pub outdated: u64,
    /// The part of `max_unavailable` in force for the whole group: the one obeyed, or more while restarts that began under a
    /// larger one go on.
    pub max_unavailable: u32,
    /// The number of the part obeyed; 0 until one was given.
    pub part_number: u64,
    /// What the shard has changed of the slice beside its grants.
    pub own: OwnChanges,
    /// Of those that are active, how many are being stopped by preemption.
    pub preempting: u64,
    /// When the run of it began that began first, of those on record.
    pub first_begun: Option<Timestamp>,
    /// When the run of it began that began last, as far as any did.
    pub last_begun: Option<Timestamp>,
    /// When the run of it ended that ended last, of those on record.
    pub last_ended: Option<Timestamp>,
    /// The version that runs of the group are to be of, in the words of a run's; 0: not known yet.
    pub revision: u32,
    /// Held numbers whose run is of that version and available.
    pub updated: u64,
    /// Held numbers of which a run of that version has failed.
    pub update_failures: u64,
    /// Of a daemon's whole group: hosts on which one of it is or belongs. `None`: of other kinds, or not known yet.
    pub hosts: Option<u32>,
    /// Instances of the whole group that are still to be restarted, as that was asked for last, or were and are not good yet.
    pub restarting: u64,
    /// Instances of the whole group here that fail again and again, those that run at the moment included.
    pub crash_looping: u64,
    /// Active instances of the whole group here that are unavailable, or not available for long enough.
    pub unavailable: u64,
    /// The lowest number of the whole group here that is not brought to the version which is wanted, or not good yet.
    pub first_behind: Option<u32>,
}
