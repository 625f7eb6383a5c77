//! The trait: what the system needs of a storage, and what every backend promises.

use crate::StoreError;
use async_trait::async_trait;
use echelon_core_model::store::{
    Answer, Batch, Consistency, Decided, Decision, Op, OpFailure, OpResult, Query,
};

/// Which schema a storage has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it is, as the URL says, without anything secret.
    pub place: String,
    /// The last migration that was carried out; 0: none.
    pub version: u32,
    /// The last migration that this build knows.
    pub latest: u32,
}

impl Status {
    /// Whether it has the schema that this build works on.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.version == self.latest
    }
}

/// A storage. Every backend promises:
/// - A decision is a compare-and-set. It is idempotent by content: if what it would write is there, the answer is
///   `Applied`, so an unknown outcome is settled by the same decision again. A conflict carries what is there.
/// - Of two owned writes to a row the larger stamp stays, in whatever order they arrive, deletes included; so once a newer
///   epoch has written a row, no older write to it is ever visible. Whether the older writer is told differs by backend.
///   The same write again is harmless.
/// - Once a newer epoch has sealed a bucket of blocks, no older write is ever visible in it, before or after, also where
///   nobody had written. A seal is seen no earlier than what is written back in the same batch.
/// - Writes of a batch that share a partition become visible together (in Cassandra, above 1 MiB: piece by piece, in
///   their order). Of two writes of one batch to one row the last counts.
/// - What was answered is durable, and seen by every later read; a decided fact by every later read at `Serial`.
/// - What is refused (too large, not the owner's, out of range) has no effect and says why.
#[async_trait]
pub trait Store: Send + Sync {
    /// Reads facts.
    ///
    /// # Errors
    /// The storage cannot be reached, or a row cannot be understood: the error names it. Absence is an answer, never an error.
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Answer, StoreError>;

    /// Decides something by compare-and-set.
    ///
    /// # Errors
    /// Refused, or the outcome is unknown (`may_be_done`): the same decision again settles it.
    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError>;

    /// Commits an owner's facts.
    ///
    /// # Errors
    /// Refused, or the outcome is unknown: the same batch again is harmless.
    async fn commit(&self, batch: Batch) -> Result<(), StoreError>;

    /// Which schema is there.
    ///
    /// # Errors
    /// The storage cannot be reached.
    async fn status(&self) -> Result<Status, StoreError>;

    /// Carries out the migrations that are missing, in order. To be repeated after any failure.
    ///
    /// # Errors
    /// The storage cannot be reached, or was written by a newer build.
    async fn migrate(&self) -> Result<Status, StoreError>;

    /// Carries out what a driver asks for.
    async fn perform(&self, op: Op) -> OpResult {
        let done = match op {
            Op::Read(query, consistency) => self.read(query, consistency).await.map(OpResult::Answer),
            Op::Decide(decision) => self.decide(decision).await.map(OpResult::Decided),
            Op::Commit(batch) => self.commit(batch).await.map(|()| OpResult::Committed),
        };
        done.unwrap_or_else(|error| {
            OpResult::Failed(OpFailure {
                may_be_done: error.may_be_done(),
                why: error.chain(),
            })
        })
    }
}
