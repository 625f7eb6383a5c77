//! What reaches a shard's driver and what it asks for: the whole of its contact with the world. The shell (`shard/`) and
//! the simulation feed `Event`s and carry out `Effect`s; neither decides anything.

use echelon_core_hosts as hosts;
use echelon_core_model::directive::{Directive, Report};
use echelon_core_model::log::Tails;
use echelon_core_model::store::{Op, OpId, OpResult, ShardKey, Stamp};
use echelon_core_model::{Epoch, GroupName, HostId, JobId, SidecarName, TaskId, VolumeId};
use echelon_core_placement as placement;
use std::fmt;

/// One stream of a resource manager, named by the shell; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// What happened. Any of them may come late, twice or never.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "an event lives for one step; a box would be one more allocation for each answer of storage"
)]
pub enum Event {
    /// Membership chose this process to lead the shard.
    Elected {
        /// The highest epoch that membership has ever seen for this shard, and the newest write of it that was told to be
        /// durable; 0 when it has seen none.
        published: Stamp,
    },
    /// Membership cannot tell whether this process still leads. Nothing is done until it can.
    Suspended,
    /// It still leads, in the same term.
    Resumed,
    /// Membership took the leadership away. Everything that is pending is dropped.
    Deposed,
    /// What became of an operation on storage.
    Storage(OpId, OpResult),
    /// What the cluster tells.
    Cluster(hosts::Event),
    /// A resource manager opened its stream.
    LinkOpened(LinkId),
    /// A directive of the resource manager at the other end of the stream.
    Directive(LinkId, Directive),
    /// The stream has ended.
    LinkClosed(LinkId),
    /// Placement has chosen hosts.
    Placed(placement::Answer),
    /// The logs of a run were read, as far as they could be.
    Tails(TaskId, Vec<Tails>),
    /// Whether a leading master of the cluster has answered its health endpoint.
    Probed(ProbeAnswer),
    /// Where a gateway can be reached, for the runs of drivers.
    Gateway(String),
    /// How many launches are still on their way to the cluster. Further ones are begun only while there is
    /// room.
    CallCredit(CallCredit),
    /// The moment that `next_wake` told has come.
    Wake,
}

/// The way of launches to the cluster, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCredit {
    /// Launches that were handed over and have not been taken in.
    pub under_way: usize,
    /// With more than this under way no launch is begun, unless it is alone.
    pub bound: usize,
}

/// What came of a question to the health endpoint of the cluster's masters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The leading master has answered.
    Answered,
    /// It has not, within the time for an answer.
    Missing,
}

/// The logs of which run are to be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedTails {
    /// The run.
    pub run: TaskId,
    /// What runs beside its main task; without any the run is one task.
    pub sidecars: Vec<SidecarName>,
    /// The host.
    pub host: HostId,
    /// Whose task it was.
    pub framework: String,
    /// The last bytes of each output.
    pub bytes: u64,
}

/// What is to be done. Any of them may be lost or done twice.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Do this on storage and answer with `Event::Storage`. The shell never retries by itself.
    Storage(OpId, Op),
    /// Tell the cluster.
    Cluster(hosts::Call),
    /// Send to the resource manager at the other end of a stream.
    Report(LinkId, Report),
    /// Read on from a stream: its opener is proven. Before, no more than its first message need be read.
    Admit(LinkId),
    /// End a stream, with what was sent over it before.
    Refuse {
        /// The stream.
        link: LinkId,
        /// Why, for people at both ends.
        why: String,
    },
    /// Choose hosts, on a worker thread, and answer with `Event::Placed`.
    Place(placement::Problem),
    /// Read the ends of the logs of a run that has ended and answer with `Event::Tails`.
    FetchTails(AskedTails),
    /// Publish the epoch in membership.
    Publish(Epoch),
    /// Tell membership that a write of ours is durable. Losing it proves less to the next leader, and nothing false.
    Mark(Stamp),
    /// Give the leadership up, with backoff before standing again. The driver is a follower from here on.
    StepDown {
        /// Why, for people.
        why: String,
    },
    /// Somebody should look.
    Alarm(Alarm),
}

/// What an operator should know at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// Storage is behind the cluster or the membership: starts and kills are frozen.
    StorageRolledBack {
        /// What shows it.
        evidence: String,
    },
    /// The cluster gave another framework id than the stored one: starts and kills are frozen.
    ForeignFramework {
        /// The stored id.
        stored: String,
        /// The id that the cluster gave.
        given: String,
    },
    /// The cluster refuses the subscription.
    Refused {
        /// What it said.
        message: String,
    },
    /// The cluster has removed our framework, and all that ran with it.
    FrameworkRemoved {
        /// Its id.
        framework: String,
    },
    /// The cluster did not take over what is configured of our framework.
    FrameworkKept {
        /// What it said.
        why: String,
    },
    /// The cluster does not list its agents to us.
    AgentsUnlisted {
        /// What it said.
        why: String,
    },
    /// A task of our naming runs that no record explains. It is left alone and counts as used.
    Quarantined(TaskId),
    /// A volume that was to be destroyed is not awaited any more: its host does not come back, and too many others are awaited.
    VolumeLeft(VolumeId),
    /// More updates came than are held while state is read; they are dropped unacknowledged and come again.
    HeldQueueFull,
    /// Storage refuses a row for good.
    RowRefused {
        /// The group that is set aside for it; `None`: the row belongs to none, and is left out.
        group: Option<(JobId, GroupName)>,
        /// Which row, and why.
        why: String,
    },
    /// A row cannot be understood. What it is about is set aside, or the read of it is made again.
    Unread(String),
    /// A row of what the shard remembers of itself cannot be understood. It is set aside alone.
    OwnRowUnread {
        /// Which one.
        key: ShardKey,
        /// The row, and why.
        row: String,
    },
    /// A version of a job's spec is wanted and cannot be read: what depends on it waits.
    SpecUnread {
        /// The job.
        job: JobId,
        /// The version.
        version: u32,
    },
    /// Too many running tasks were answered gone or unknown at once: replacements wait.
    MassLoss {
        /// How many, so far.
        lost: u64,
        /// Of how many.
        running: u64,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StorageRolledBack { evidence } => write!(
                f,
                "storage is behind, a backup may have been put back: {evidence}; nothing is started or killed on this cluster until `echelon storage resume`"
            ),
            Self::ForeignFramework { stored, given } => write!(
                f,
                "subscribed as framework {stored} but Mesos gave {given}; nothing is started or killed: check the Mesos address of this cluster"
            ),
            Self::Refused { message } => write!(
                f,
                "Mesos refuses the subscription: {message}; nothing is started or stopped on this cluster, and it is tried again each minute in the same words"
            ),
            Self::FrameworkRemoved { framework } => write!(
                f,
                "Mesos has removed our framework {framework} and killed its tasks: an operator tore it down, or no shard was subscribed for its failover time-out; no new one is registered unless this cluster's shards are started with `--replace-framework {framework}`"
            ),
            Self::FrameworkKept { why } => write!(
                f,
                "Mesos did not take over what is configured of our framework: {why}; what it knows stays as it is"
            ),
            Self::AgentsUnlisted { why } => write!(
                f,
                "Mesos does not list its agents to us: {why}; of this cluster only what offers show is known, and no more is granted than that: check the principal and the secret for the operator API"
            ),
            Self::Quarantined(task) => write!(
                f,
                "task {task} has our naming but no record; it is left alone: look for its job, or kill it by hand"
            ),
            Self::MassLoss { lost, running } => write!(
                f,
                "Mesos does not know {lost} of {running} running tasks any more, within a minute; nothing is replaced until they come back or `echelon cluster accept-loss`: check the Mesos address of this cluster, its masters and its agents first"
            ),
            Self::RowRefused {
                group: Some((job, group)),
                why,
            } => write!(
                f,
                "storage refuses a row of group {group} of job {job}: {why}; nothing of the group is started, replaced or moved until the row is taken: make the group smaller, or stop or delete the job"
            ),
            Self::RowRefused { group: None, why } => {
                write!(f, "storage refuses a row, which is left out: {why}; please report this")
            }
            Self::VolumeLeft(id) => write!(
                f,
                "volume {id} was to be destroyed and its host does not come back; too many like it are awaited, and this one is not any more: should its host return, `echelon volume list` shows it and `echelon volume destroy` destroys it"
            ),
            Self::Unread(row) => write!(
                f,
                "{row} It is kept as it is, and nothing of its group is started, replaced or moved by this build: use the build that wrote it, stop the job, or delete the row if it is damaged"
            ),
            Self::OwnRowUnread { key, row } => write!(f, "{row} {}", meaning(key)),
            Self::SpecUnread { job, version } => write!(
                f,
                "version {version} of the spec of job {job} cannot be read; nothing of the job is started, and what has ended is not settled, until it can: check storage"
            ),
            Self::HeldQueueFull => f.write_str(
                "too many updates came while state was read; they were dropped unacknowledged and Mesos sends them again",
            ),
        }
    }
}

/// What it means that a row of a shard's own is unknown, and what helps.
fn meaning(key: &ShardKey) -> String {
    match key {
        ShardKey::Host(name) => format!(
            "Nothing is placed on host {name} and nothing has to leave it, until an operator says with `echelon host-pool move` in which host pool it is, or a build reads the row"
        ),
        ShardKey::Agent(id) => format!(
            "Mesos may have been asked to drain agent {id}, which is not offered again by this build: to have it offered, drain it with `echelon host drain --agent` and undo that"
        ),
        ShardKey::Volume(id) => format!(
            "What is wanted of volume {id} is unknown: it is neither destroyed nor given up until `echelon volume destroy` or `echelon volume adopt` says it again, or a build reads the row"
        ),
        ShardKey::Own => {
            "Nothing is started or stopped on this cluster without it: use the build that wrote it, or restore the row".to_owned()
        }
    }
}
