//! What a resource manager requests from its shell. Any effect may be lost or performed twice.

use crate::event::LinkId;
use crate::facts::loss::HeldBack;
use echelon_core_model::directive::Directive;
use echelon_core_model::store::{Op, OpId, Stamp};
use echelon_core_model::{ClusterId, Epoch, JobId};
use std::fmt;

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "an effect is moved once, from where it is made to who performs it"
)]
pub enum Effect {
    /// Perform an operation on storage; answered by `Event::Storage`.
    Storage(OpId, Op),
    /// Send a directive down a stream.
    Send(LinkId, Directive),
    /// Keep one stream open to the leader of this cluster's shard, until `Unwatch` or until this process
    /// leads no more.
    Watch(ClusterId),
    /// The cluster has left.
    Unwatch(ClusterId),
    /// Publish the epoch in the membership.
    Publish(Epoch),
    /// Record in the membership that a write of ours is durable. If this is lost, less is proven to the next
    /// leader, and nothing false.
    Mark(Stamp),
    /// What is to be seen of a job has changed, and nothing of that was stored by us.
    Changed(JobId),
    /// Give the leadership up.
    StepDown {
        /// Why, for the log.
        why: String,
    },
    /// An operator must look.
    Alarm(Alarm),
}

/// What an operator must look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// Storage is behind what was there before: it was rolled back. Nothing is done until it is resumed.
    StorageRolledBack {
        /// What shows it.
        evidence: String,
    },
    /// A cluster reports the Mesos master of another one. It takes no work.
    SameMaster {
        /// The cluster.
        cluster: ClusterId,
        /// The one that has this master.
        other: ClusterId,
    },
    /// A shard reported something impossible. Its reports are ignored for a while. Other clusters are not
    /// affected.
    ShardSetAside {
        /// Its cluster.
        cluster: ClusterId,
        /// What it reported.
        why: String,
    },
    /// A job's head is gone although the job was not deleted. The job is kept.
    HeadMissing(JobId),
    /// Storage refuses a row for good.
    RowRefused {
        /// The job that is set aside for it; `None`: the row belongs to none, and is left out.
        job: Option<JobId>,
        /// Which row, and why.
        why: String,
    },
    /// Nothing new may begin at a cluster, since it has been cut off for long. What has not begun there moves.
    StartsForbidden {
        /// The cluster.
        cluster: ClusterId,
        /// The number of its silence.
        silence: u64,
    },
    /// Nothing of lost clusters is replaced for now, since the resource manager doubts its own observation.
    ReplacementHeldBack(HeldBack),
    /// A row cannot be understood. The job that it is about is set aside, or the read of it is made again.
    Unread(String),
    /// Sums over jobs are wrong: a fault of this program.
    Sums(String),
    /// A stored assignment breaks a rule. It is used as it was read.
    Broken(String),
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StorageRolledBack { evidence } => write!(
                f,
                "storage was rolled back: {evidence}; nothing is assigned or granted until `echelon storage resume`"
            ),
            Self::SameMaster { cluster, other } => write!(
                f,
                "the Mesos master of cluster {cluster} is that of cluster {other}: it takes no work; give each cluster a Mesos of its own, or remove one"
            ),
            Self::ShardSetAside { cluster, why } => write!(
                f,
                "the shard of cluster {cluster} is set aside: {why}; what runs there is kept, nothing new is granted there, and its shard is \
                 asked again in a minute: look at the log and the build of the process that leads it, and end it if another one should lead"
            ),
            Self::HeadMissing(job) => write!(
                f,
                "the head of job {job} is gone from storage although nobody deleted it; what runs of it is kept"
            ),
            Self::RowRefused { job: Some(job), why } => write!(
                f,
                "storage refuses a row of job {job}: {why}; what was stored last holds until the row is smaller: stop or delete the job, or make it smaller"
            ),
            Self::RowRefused { job: None, why } => {
                write!(
                    f,
                    "storage refuses a row, which is left out: {why}; please report this"
                )
            }
            Self::StartsForbidden { cluster, silence } => write!(
                f,
                "cluster {cluster} is cut off (silence {silence}): nothing new begins there until its heartbeat is read again, and what was \
                 granted there and has not begun goes to other clusters; see `echelon cluster list`"
            ),
            Self::ReplacementHeldBack(held_back) => write!(
                f,
                "{held_back}; a cluster that is lost is replaced after `echelon cluster declare-lost`"
            ),
            Self::Unread(row) => write!(
                f,
                "{row} Nothing of its job is assigned, granted or moved by this build, and what runs of it is kept: use the build that wrote it, or delete the row if it is damaged"
            ),
            Self::Sums(what) => write!(
                f,
                "{what}: what pools are entitled to may be wrong until another process leads; restart this one, and please report this"
            ),
            Self::Broken(what) => write!(f, "the stored assignments break a rule: {what}"),
        }
    }
}
