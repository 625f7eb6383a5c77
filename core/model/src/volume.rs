//! Persistent volumes: disk of a host that outlives runs. What a group asks for, what an instance holds, what hosts have, and
//! what is wanted of those that nobody holds. A volume is never destroyed without a stored wish.

use crate::id::{HostId, InstanceId, TaskId, VolumeId};
use crate::time::{Span, Timestamp};
use std::fmt;
use std::sync::Arc;

/// What becomes of a volume when its instance is over for good: its job was stopped or deleted, or it was scaled away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Reclaim {
    /// It stays on its host, to be adopted or destroyed by command.
    #[default]
    Keep,
    /// It is destroyed with all that is in it.
    Delete,
}

impl Reclaim {
    /// The word of job files and API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
        }
    }
}

impl fmt::Display for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The volume that each instance of a group has. But for `replace_after` it never changes in the life of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersistentVolume {
    /// Where runs see it: a path within the sandbox, or with an image an absolute one.
    pub path: String,
    /// In MiB.
    pub size: u64,
    /// What becomes of it in the end.
    pub reclaim: Reclaim,
    /// When nothing was heard of its host for so long, its instance begins anew with an empty one; `None`: by command only.
    pub replace_after: Option<Span>,
}

/// The volume of an instance. The instance runs where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldVolume {
    /// Which.
    pub id: VolumeId,
    /// The host's Mesos agent when it was last used; an agent that comes back with another id brings its volumes along.
    pub host: HostId,
    /// The host's name, for people.
    pub hostname: Arc<str>,
    /// In MiB.
    pub size: u64,
    /// A run may have written to it. Until then the instance may turn to another host with a new one.
    pub used: bool,
}

/// A volume as its host was last seen to have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostVolume {
    /// Which.
    pub id: VolumeId,
    /// In MiB.
    pub size: u64,
    /// Where runs see it.
    pub path: String,
    /// When it was last seen, in an offer or in use.
    pub seen_at: Timestamp,
}

/// What is wanted of a volume beside being used by the instance for which it was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeWish {
    /// It is to be destroyed with all that is in it.
    Destroy,
    /// An instance is to have it in place of its own.
    Adopt(InstanceId),
    /// The instance that holds it is to have a new one in its place, since its host is gone for good. That holds once: when the host is back
    /// before there is a new one, it is void, however long the host is away the next time.
    GiveUp {
        /// The instance.
        instance: InstanceId,
        /// When it was asked: later than all that was asked before of the cluster's volumes. 0: nobody said.
        asked_at: Timestamp,
    },
}

impl VolumeWish {
    /// The instance that is to give a volume up.
    #[must_use]
    pub const fn given_up_by(&self) -> Option<&InstanceId> {
        match self {
            Self::GiveUp { instance, .. } => Some(instance),
            Self::Destroy | Self::Adopt(_) => None,
        }
    }

    /// Bytes that it takes with its volume's id where it is stored, about: never less than it really does.
    #[must_use]
    pub fn stored_size(&self, id: &VolumeId) -> usize {
        let group = match self {
            Self::Destroy => None,
            Self::Adopt(instance) | Self::GiveUp { instance, .. } => Some(instance.group.as_str().len() + 40),
        };
        id.as_str().len() + 16 + group.unwrap_or_default()
    }
}

impl VolumeId {
    /// The volume that is made with a run.
    #[must_use]
    pub fn of(run: &TaskId) -> Self {
        Self::new(run.to_string())
    }

    /// The instance for which it was made; `None` where the naming is not ours.
    #[must_use]
    pub fn maker(&self) -> Option<InstanceId> {
        self.as_str().parse::<TaskId>().ok().map(|run| run.instance)
    }
}
