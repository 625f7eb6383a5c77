//! The input of a resource manager. Any event may come late, twice or never.

use echelon_core_model::directive::Report;
use echelon_core_model::store::{OpId, OpResult, Stamp};
use echelon_core_model::{ClusterId, JobId};

/// A stream to a shard's leader. Never used again after it has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Something that happened.
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Membership made this process the leader.
    Elected {
        /// The highest epoch of resource managers that membership has ever seen, and the newest of its writes
        /// that was reported durable.
        published: Stamp,
    },
    /// Membership does not know whether this process still leads. Nothing is done until it does.
    Suspended,
    /// It still leads, in the same term.
    Resumed,
    /// Membership took the leadership away.
    Deposed,
    /// An operation on storage has a result.
    Storage(OpId, OpResult),
    /// A stream to a shard's leader is open.
    ShardOpened {
        /// The cluster.
        cluster: ClusterId,
        /// The stream.
        link: LinkId,
    },
    /// A shard sent a report.
    Report(LinkId, Report),
    /// Something came over a stream that cannot be understood.
    Unreadable {
        /// The stream.
        link: LinkId,
        /// What is wrong with it.
        why: String,
    },
    /// A stream has closed.
    ShardClosed {
        /// The stream.
        link: LinkId,
    },
    /// Some gateway wrote the head of this job.
    Hint(JobId),
    /// Some gateway wrote pools or clusters.
    PoolsHint,
    /// The time of `next_wake` has come.
    Wake,
}
