//! Storage in the field's terms: what is read, decided and committed, as data. Backends are in `io/storage`; the
//! simulation has its own. Two kinds of facts that never share a table (section 7): decided ones are written only by
//! compare-and-set, owned ones only by one leader, each write stamped `epoch << 40 | sequence`.

mod changes;
mod event;
mod failure;
mod mark;
mod op;
mod shard_rows;
mod unread;

pub use changes::Changes;
pub use event::{Event, EventDay, EventEnd, EventPlace, event_day};
pub use failure::{OpFailure, Refusal, RefusedRow, RefusedWhy, Trouble, TroubleKind};
pub use mark::{Evidence, Mark};
pub use op::{Answer, Batch, Consistency, Decided, Decision, Op, OpId, OpResult, Query, RawKey, Write};
pub use shard_rows::ShardKey;
pub use unread::{Reading, RowSubject, UnreadRow, rows_told};

use crate::cluster::MassLoss;
use crate::drain::Drains;
use crate::host_pool::HostMoves;
use crate::id::{ClusterId, Epoch, HostId, HostPoolName, JobId, Version, VolumeId};
use crate::log::LogGap;
use crate::time::{Span, Timestamp};
use crate::volume::VolumeWish;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Who owns facts, and who may lead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The global resource manager.
    ResourceManager,
    /// The shard of a cluster.
    Shard(ClusterId),
}

/// When an owned write was made, in its owner's own order: the larger stamp wins, always. Also which write of an assignment partition
/// was the last: the next one has `next()`, and no other is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// The owner's epoch.
    pub epoch: Epoch,
    /// Never repeats within an epoch; a retry of the same bytes carries the same one.
    pub sequence: u64,
}

impl Stamp {
    /// The stamp of two stored numbers, if there can be one: an epoch below `Epoch::END` (0: none yet), a
    /// sequence below 2^40.
    #[must_use]
    pub fn of_stored(epoch: i64, sequence: i64) -> Option<Self> {
        let epoch = u64::try_from(epoch).ok().filter(|e| *e < Epoch::END)?;
        let sequence = u64::try_from(sequence).ok().filter(|s| *s < 1 << 40)?;
        Some(Self {
            epoch: Epoch(epoch),
            sequence,
        })
    }

    /// The stored timestamp: `epoch << 40 | sequence`, positive in 64 signed bits while the epoch is below `Epoch::END`.
    #[must_use]
    pub fn packed(self) -> i64 {
        let sequence = self.sequence.min((1 << 40) - 1);
        i64::try_from(self.epoch.0.min(Epoch::END - 1) << 40 | sequence).unwrap_or(i64::MAX)
    }

    /// The stamp of a stored timestamp.
    #[must_use]
    pub const fn of_packed(packed: u64) -> Self {
        Self {
            epoch: Epoch(packed >> 40),
            sequence: packed & ((1 << 40) - 1),
        }
    }

    /// The one after it, of the same epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            epoch: self.epoch,
            sequence: self.sequence + 1,
        }
    }

    /// The largest timestamp of all older epochs: what a seal of this write's epoch hides, up to and including it.
    #[must_use]
    pub fn hides(self) -> i64 {
        let first = Self { sequence: 0, ..self };
        first.packed() - 1
    }
}

/// Who leads, and at which epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leadership {
    /// The epoch; 0 before the first leader.
    pub epoch: Epoch,
    /// A text unique to the process that took it.
    pub holder: String,
    /// Drawn when it was taken: a process that says it took the leadership, or was told by the one that did. 0 before the
    /// first leader.
    pub proof: u64,
    /// The epoch that an operator stored when the storage was resumed last, which each leader hands on; 0:
    /// never.
    pub resumed: Epoch,
}

impl Leadership {
    /// The one that a process takes, where storage was never resumed. The proof follows from the process'
    /// seed, which is drawn at its start, and tells nothing of it.
    #[must_use]
    pub fn taken(epoch: Epoch, holder: &str, seed: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, epoch.0, holder).hash(&mut hasher);
        Self {
            epoch,
            holder: holder.to_owned(),
            proof: hasher.finish().max(1),
            resumed: Epoch(0),
        }
    }
}

/// Who holds a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameHolder {
    /// The job.
    pub job: JobId,
    /// Counts the holders, from 1.
    pub version: Version,
}

/// Largest assignment of one job, in all its rows: they are written at once, and a write has at most 1 MiB.
pub const MAX_ASSIGNMENT_BYTES: usize = 1008 * 1024;

/// How long storage keeps what was planned for a request id.
pub const REQUEST_IDS_KEPT: Span = Span::minutes(24 * 60);

/// What was planned for a request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRequest {
    /// The job id that it makes.
    pub job: JobId,
    /// Hash of the request's content.
    pub hash: u64,
    /// When it was planned; kept for [`REQUEST_IDS_KEPT`].
    pub at: Timestamp,
}

/// What a shard must remember of itself. It is stored in rows, by [`ShardKey`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardRow {
    /// The Mesos framework id, once registered.
    pub framework: Option<String>,
    /// The largest resource-manager epoch obeyed.
    pub obeyed: Epoch,
    /// The resumed epoch for which the runs that the cluster lists were taken over; 0: none.
    pub adopted: Epoch,
    /// The number of the last mass loss; 0 before the first.
    pub last_loss: u64,
    /// The mass loss for which replacements wait.
    pub loss: Option<MassLoss>,
    /// What is wanted of volumes: those to be destroyed until they are, those that were adopted, and those that were given up until there
    /// is another.
    pub volumes: BTreeMap<VolumeId, VolumeWish>,
    /// What was asked up to then of volumes to give up was heard, and holds no second time.
    pub wishes_heard: Timestamp,
    /// Hosts that are to be empty, as last heard.
    pub drains: Drains,
    /// Hosts that are to go to another host pool, as last heard.
    pub moves: HostMoves,
    /// The host pools of hosts, by name. Those that are left out are in `default`.
    pub host_pools: BTreeMap<String, HostPoolName>,
    /// Agents that Mesos was asked to drain and not yet to offer again.
    pub drained_agents: BTreeSet<HostId>,
    /// Times in which more runs ended than their logs could be kept, latest last.
    pub log_gaps: Vec<LogGap>,
    /// For how long its leaders have heard the cluster, in sum. Time without contact adds nothing, whichever side
    /// was away.
    pub observed: Span,
    /// Mesos is asked to remove the framework, or was: the cluster is removed for good.
    pub tears_down: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_order_by_epoch_then_sequence() {
        let stamp = |epoch, sequence| {
            Stamp {
                epoch: Epoch(epoch),
                sequence,
            }
            .packed()
        };
        assert!(stamp(1, u64::MAX) < stamp(2, 0));
        assert!(stamp(2, 0) < stamp(2, 1));
        assert!(stamp(Epoch::END - 1, u64::MAX) > 0);
    }

    #[test]
    fn a_seal_hides_all_older_epochs_and_nothing_of_its_own() {
        let stamp = |epoch, sequence| Stamp {
            epoch: Epoch(epoch),
            sequence,
        };
        let hides = stamp(3, 77).hides();
        assert!(stamp(2, u64::MAX).packed() <= hides);
        assert!(hides < stamp(3, 0).packed());
    }
}
