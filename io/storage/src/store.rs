//! The trait: what the system needs of a storage, and what every backend promises.

use crate::{Durability, Status, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Op, OpResult, Query, Reading};

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
/// - What is refused (too large, not the owner's, out of range) has no effect. The refusal names every such row and says why.
#[async_trait]
pub trait Store: Send + Sync {
    /// Reads facts. Of several rows those that cannot be understood are named beside the others.
    ///
    /// # Errors
    /// The storage cannot be reached, or the only row cannot be understood. Absence is an answer, never an error.
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError>;

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

    /// Which level is there.
    ///
    /// # Errors
    /// The storage cannot be reached.
    async fn status(&self) -> Result<Status, StoreError>;

    /// Sets an empty storage up at this build's level; nothing where that was done. To be repeated after any failure.
    ///
    /// # Errors
    /// The storage cannot be reached, or is of another level.
    async fn migrate(&self) -> Result<Status, StoreError>;

    /// What an acknowledged write survives, as far as the storage says.
    async fn durability(&self) -> Durability;

    /// Whether it answers: reads one small row, as a role reads what it decides on. A row that cannot be
    /// read is an answer.
    ///
    /// # Errors
    /// Why it does not answer, for people.
    async fn answers(&self) -> Result<(), String> {
        match self.read(Query::Control, Consistency::Quorum).await {
            Err(error) if error.is_retryable() => Err(error.chain()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Carries out what a driver asks for.
    async fn perform(&self, op: Op) -> OpResult {
        let done = match op {
            Op::Read(query, consistency) => self.read(query, consistency).await.map(result_of),
            Op::Decide(decision) => self.decide(decision).await.map(OpResult::Decided),
            Op::Commit(batch) => self.commit(batch).await.map(|()| OpResult::Committed),
        };
        done.unwrap_or_else(|error| match error {
            StoreError::Unread(row) => OpResult::Unread(row),
            error => OpResult::Failed(error.into_failure()),
        })
    }
}

fn result_of(reading: Reading) -> OpResult {
    let Reading { answer, unread } = reading;
    if unread.is_empty() {
        OpResult::Answer(answer)
    } else {
        OpResult::Partial(answer, unread)
    }
}
