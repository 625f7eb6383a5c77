//! What may be asked of storage - reads, decisions and commits - and what became of it.

use super::{
    Changes, Event, EventDay, EventEnd, EventPlace, Leadership, Mark, NameHolder, OpFailure, PlannedRequest,
    Role, ShardKey, ShardRow, Stamp, UnreadRow,
};
use crate::assignment::{Assignment, AssignmentPiece};
use crate::cluster::{Cluster, ClusterState, Heartbeat, Host};
use crate::control::Control;
use crate::id::{ClusterId, Epoch, GroupName, HostId, JobId, RequestId, Version};
use crate::instance::{Block, BlockKey, SliceRow};
use crate::job::{Head, JobFilter, Progress};
use crate::log::{KeptLog, KeptRuns};
use crate::pod::MemberId;
use crate::pool::PoolTree;
use crate::spec::JobSpec;
use crate::start_ban::StartBans;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Decided: one head -> `Answer::Head`.
    Head(JobId),
    /// Decided: all heads of a job bucket -> `Answer::Heads`.
    Heads(u16),
    /// Decided: one spec version -> `Answer::Spec`.
    Spec(JobId, u32),
    /// Decided: who holds a name -> `Answer::Name`.
    Name(String),
    /// Decided: what was planned for a request -> `Answer::Request`.
    Request(RequestId),
    /// Decided: the pool tree -> `Answer::Pools`.
    Pools,
    /// Decided: one assignment, from among those of ended jobs where it has moved there -> `Answer::Assignments` (none or one).
    Assignment(JobId),
    /// Decided: a partition of assignments with the stamp of its last write, without those of ended jobs that have moved
    /// -> `Answer::Assignments`.
    Assignments(u16),
    /// Decided: how far a partition of assignments and the heads of its jobs are -> `Answer::Changes`. It
    /// costs the same whatever lies there.
    Changes(u16),
    /// Decided: all clusters -> `Answer::Clusters`.
    Clusters,
    /// Decided: the switches -> `Answer::Control`.
    Control,
    /// Decided: where shards may begin nothing new -> `Answer::StartBans`.
    StartBans,
    /// Decided: who leads -> `Answer::Leadership`.
    Leadership(Role),
    /// Owned by its role: how new storage is, as its leaders have stored it -> `Answer::Mark`.
    Mark(Role),
    /// Owned by the resource manager: progress of one job -> `Answer::Progress` (none or one).
    Progress(JobId),
    /// Owned by the resource manager: progress of a bucket -> `Answer::Progress`.
    ProgressBucket(u16),
    /// Owned by the resource manager: contact of all clusters -> `Answer::ClusterStates`.
    ClusterStates,
    /// Owned by a shard: what it remembers of itself -> `Answer::Shard`.
    Shard(ClusterId),
    /// Owned by a shard: all blocks and slice rows of a bucket, not the archive -> `Answer::Blocks`.
    BlockBucket(ClusterId, u16),
    /// Owned by a shard: blocks `first..=last` of a group and its slice row, from the archive where they have moved there
    /// -> `Answer::Blocks`.
    GroupBlocks {
        /// The cluster.
        cluster: ClusterId,
        /// The job.
        job: JobId,
        /// The group.
        group: GroupName,
        /// First block number.
        first: u32,
        /// Last block number.
        last: u32,
    },
    /// Owned by shards: signs of life of all -> `Answer::Heartbeats`.
    Heartbeats,
    /// Owned by a shard: its hosts after one, at most `limit`, by id -> `Answer::Hosts`.
    Hosts {
        /// The cluster.
        cluster: ClusterId,
        /// Begin after this host.
        after: Option<HostId>,
        /// At most this many.
        limit: u32,
    },
    /// Owned by their writer: events of a job and a day in the order of their places, after one, at most `limit`
    /// -> `Answer::Events`. Some of them may not hold: [`EventEnd`] says which do.
    Events {
        /// Which.
        of: EventDay,
        /// Only those of a lane.
        lane: Option<u16>,
        /// Begin after this one.
        after: Option<EventPlace>,
        /// At most this many.
        limit: u32,
    },
    /// Owned by a writer: up to where its events hold in a lane, by epoch -> `Answer::EventEnds`.
    EventEnds(Role, u16),
    /// Owned by shards: which runs of a job are kept the ends of the logs, by cluster -> `Answer::KeptRuns`.
    KeptRuns(JobId),
    /// Owned by a shard: the end of the logs of one task -> `Answer::KeptLog`.
    KeptLog(ClusterId, MemberId),
    /// Heads with their progress that pass a filter, in order of (bucket, job id), at most `limit` -> `Answer::Jobs`.
    Jobs {
        /// What must hold.
        filter: JobFilter,
        /// Begin after this job.
        after: Option<JobId>,
        /// At most this many.
        limit: u32,
    },
}

/// How sure a read must be. Only decided tables know the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Consistency {
    /// For display: a majority's answer.
    #[default]
    Quorum,
    /// To settle something: sees every decision that was ever answered, and finishes those under way.
    Serial,
}

/// What was read. Each variant belongs to the queries that name it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A head, if there is one.
    Head(Option<Head>),
    /// Heads of a bucket.
    Heads(Vec<Head>),
    /// A spec version, if there is one.
    Spec(Option<JobSpec>),
    /// The holder of a name.
    Name(Option<NameHolder>),
    /// What was planned for a request.
    Request(Option<PlannedRequest>),
    /// The pool tree; version 0 when none was ever written.
    Pools(PoolTree),
    /// The stamp of the partition's last write (sequence 0: none of that epoch yet) and its assignments.
    Assignments(Stamp, Vec<Assignment>),
    /// How far a partition is.
    Changes(Changes),
    /// All clusters.
    Clusters(Vec<Cluster>),
    /// The switches; version 0 when none was ever set.
    Control(Control),
    /// Where nothing new may begin; without a cluster and of epoch 0 when that was never decided.
    StartBans(StartBans),
    /// Who leads.
    Leadership(Leadership),
    /// A role's mark, if there is one.
    Mark(Option<Mark>),
    /// Progress rows.
    Progress(Vec<Progress>),
    /// Contact of clusters.
    ClusterStates(Vec<ClusterState>),
    /// What a shard remembers.
    Shard(ShardRow),
    /// Blocks and slice rows.
    Blocks(Vec<Block>, Vec<SliceRow>),
    /// Signs of life.
    Heartbeats(Vec<Heartbeat>),
    /// Hosts.
    Hosts(Vec<Host>),
    /// Events with their places.
    Events(Vec<(EventPlace, Event)>),
    /// Ends of the events of a lane, at most one for each epoch.
    EventEnds(Vec<EventEnd>),
    /// Runs of which the ends of the logs are kept, by cluster.
    KeptRuns(Vec<KeptRuns>),
    /// The ends of the logs of a task, if they are kept.
    KeptLog(Option<KeptLog>),
    /// Heads with progress.
    Jobs(Vec<(Head, Option<Progress>)>),
}

/// A compare-and-set on a decided table. Every decision is idempotent by content: if what it would write is already
/// there, it answers `Applied`; so an unknown outcome is settled by the same decision again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Makes or changes a job; `expected` is the version that is replaced, `None`: insert if absent.
    PutHead {
        /// The new head.
        head: Head,
        /// The version that it replaces.
        expected: Option<Version>,
    },
    /// Removes a tombstone at a version.
    RemoveHead {
        /// The job.
        job: JobId,
        /// Its last version.
        expected: Version,
    },
    /// Writes an immutable spec version, if absent.
    PutSpec {
        /// The job.
        job: JobId,
        /// The version, from 1.
        version: u32,
        /// The spec.
        spec: JobSpec,
    },
    /// Gives a name to a job; `expected` is the holder's version that is replaced.
    TakeName {
        /// The name.
        name: String,
        /// The new holder.
        holder: NameHolder,
        /// The version that it replaces.
        expected: Option<Version>,
    },
    /// Plans a request, if absent.
    PlanRequest {
        /// The request id.
        id: RequestId,
        /// The plan.
        planned: PlannedRequest,
    },
    /// Replaces the tree of version `expected` with that of the next version.
    PutPools {
        /// The new tree.
        tree: PoolTree,
        /// The version that it replaces.
        expected: Version,
    },
    /// Adds or changes a cluster.
    PutCluster {
        /// The new row.
        cluster: Cluster,
        /// The version that it replaces.
        expected: Option<Version>,
    },
    /// Sets the switches.
    PutControl {
        /// The new row.
        control: Control,
        /// The version that it replaces (0: none yet).
        expected: Version,
    },
    /// Writes where shards may begin nothing new, if the row is still of the stamp that is replaced. A new leader
    /// writes it first as it is, under its own epoch.
    PutStartBans {
        /// The new row, of a larger stamp.
        bans: StartBans,
        /// The stamp that it replaces (epoch 0: there is no row yet).
        expected: Stamp,
    },
    /// Takes a leadership; `expected` is the epoch that is replaced (0: none yet).
    TakeEpoch {
        /// Of what.
        role: Role,
        /// The new leadership.
        next: Leadership,
        /// The epoch that it replaces.
        expected: Epoch,
    },
    /// Raises the epoch of an assignment partition: its stamp becomes the first of that epoch, of sequence 0.
    RaisePartition {
        /// The partition.
        partition: u16,
        /// The new epoch.
        epoch: Epoch,
        /// The epoch that it replaces (0: none yet).
        expected: Epoch,
    },
    /// Writes assignments of one partition, if its stamp is still the one before: same epoch, sequence one less. The epoch alone
    /// would let a late try of an older write of the same leader bring back what a newer one has replaced. At most 1 MiB.
    PutAssignments {
        /// The partition.
        partition: u16,
        /// The writer's epoch, and the number of this write to the partition within it, from 1.
        stamp: Stamp,
        /// Written whole.
        put: Vec<Assignment>,
        /// Removed: assignments of deleted jobs, and of ended jobs whose copy is durable.
        remove: Vec<JobId>,
    },
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// It holds.
    Applied,
    /// Something else is there: the present row, in the answer of the query that reads it.
    Conflict(Box<Answer>),
}

/// Writes of one owner that become visible together where they share a partition. Repeating a batch unchanged is harmless.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Whose facts they are.
    pub owner: Role,
    /// When, in the owner's order.
    pub stamp: Stamp,
    /// The writes.
    pub writes: Vec<Write>,
}

/// A write to an owned table.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Resource manager: progress of a job.
    Progress(Progress),
    /// Resource manager: forget a job's progress (its tombstone is gone).
    RemoveProgress(JobId),
    /// Resource manager: a row of the assignment of an ended job, and its place in the list of them.
    EndedAssignment(AssignmentPiece, u32),
    /// Resource manager: such a row is not needed any more.
    RemoveEndedAssignment(JobId, u32),
    /// Resource manager: contact of a cluster.
    ClusterState(ClusterState),
    /// Resource manager: forget what was observed of a cluster that is removed.
    RemoveClusterState(ClusterId),
    /// Shard: a row of what it remembers of itself.
    Shard(ShardKey, ShardRow),
    /// Shard: such a row is not needed any more.
    RemoveShard(ShardKey),
    /// Shard: nothing that an older epoch wrote, or still writes, is seen of what a shard remembers of
    /// itself.
    SealShard,
    /// Shard: a block of instances.
    Block(Block),
    /// Shard: a block has moved to the archive.
    RemoveBlock(BlockKey),
    /// Shard: a block in the archive.
    Archive(Block),
    /// Shard: a slice row.
    Slice(SliceRow),
    /// Shard: a slice row is not needed any more.
    RemoveSlice(JobId, GroupName),
    /// Shard: nothing that an older epoch ever wrote, or still writes, is seen in this bucket of blocks and slice rows. What is
    /// to stay was written back under this epoch before, or is in the same batch.
    Seal(u16),
    /// Shard: a row that it cannot understand, as it was read. It is written back before a seal that would hide it.
    Raw(RawKey, Vec<u8>),
    /// Shard: its sign of life.
    Heartbeat(Heartbeat),
    /// Shard: its sign of life is not shown any more.
    RemoveHeartbeat,
    /// Shard: a host.
    Host(Host),
    /// Shard: a host that is gone for good.
    RemoveHost(HostId),
    /// Shard: nothing that an older epoch wrote, or still writes, is seen of hosts.
    SealHosts,
    /// Shard: the ends of the logs of a task of a run that has ended.
    Log(KeptLog),
    /// Shard: the end of a task's logs is not kept any more.
    RemoveLog(MemberId),
    /// Shard: which runs of a job are kept the ends of the logs.
    KeptRuns(KeptRuns),
    /// Either: how new storage is.
    Mark(Mark),
    /// Either: something that happened. It is durable before what it tells of.
    Event(Event),
    /// Either: the batch has events of a lane, and no other batch of that lane is under way.
    /// For a shard this is written together with the blocks that the events tell of.
    NoteEvents(u16),
    /// Either: the events that an older epoch has written in a lane hold up to there.
    /// Its other events in that lane are never shown.
    CloseEvents(u16, Stamp),
}

/// Which row is written back as it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RawKey {
    /// A block, or at block number [`SliceRow::BLOCK`] a slice row.
    Block(BlockKey),
    /// A block on its way to the archive.
    Archive(BlockKey),
    /// A row of what the shard remembers of itself.
    Shard(ShardKey),
}

/// Correlates an operation with its result; unique within one driver's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// One operation on storage, as a driver asks for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Read something.
    Read(Query, Consistency),
    /// Decide something by compare-and-set.
    Decide(Decision),
    /// Commit owned facts.
    Commit(Batch),
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OpResult {
    /// Of a read.
    Answer(Answer),
    /// Of a read of several rows, some of which cannot be understood: the others, and these.
    Partial(Answer, Vec<UnreadRow>),
    /// Of a read of one row, which cannot be understood.
    Unread(Box<UnreadRow>),
    /// Of a decision.
    Decided(Decided),
    /// Of a commit: durable.
    Committed,
    /// It has no result, and the failure says what may be concluded.
    Failed(OpFailure),
}
