//! What can go wrong with a storage, told apart by what the caller may conclude.

use crate::layout::Table;
use echelon_core_model::Epoch;
use echelon_core_model::store::{RowSubject, Stamp, UnreadRow};
use echelon_proto::convert::{FieldError, FieldProblem};
use std::error::Error;
use thiserror::Error;

/// Why an operation has no answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The caller asked for what no storage takes. Nothing was done; asking again is of no use.
    #[error("{what} was refused: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// Why not, and what would be right.
        why: String,
    },
    /// A row is there but cannot be understood. Nothing may be concluded from it.
    #[error("{0} Nothing is decided on it")]
    Unread(Box<UnreadRow>),
    /// The storage is of another level than this build works on.
    #[error(
        "storage {place} is of level {found}, this build works on level {known}: {}",
        crate::level::advice(*found, *known)
    )]
    Level {
        /// Where.
        place: String,
        /// Its level; 0: it is not set up.
        found: u32,
        /// The level this build works on.
        known: u32,
    },
    /// The URL names no storage.
    #[error(
        "storage URL `{url}` {problem}; expected memory:, file:PATH or cassandra://HOST[:PORT],.../KEYSPACE?replication=N"
    )]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The storage did not answer, or could not do it.
    #[error("storage: {what} failed")]
    Unavailable {
        /// What was tried.
        what: String,
        /// Whether it may have taken effect, or may still.
        may_be_done: bool,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// The stamp of a partition of assignments, from its two stored numbers.
pub(crate) fn stored_stamp(partition: u16, epoch: i64, sequence: i64) -> Result<Stamp, StoreError> {
    let wrong = |field: &str, number: i64, end: u64| {
        let problem = FieldProblem::OutOfRange {
            number: number.into(),
            first: 0,
            last: i128::from(end) - 1,
        };
        StoreError::Unread(Box::new(UnreadRow {
            table: Table::Assignments.name(),
            key: partition.to_string(),
            subject: RowSubject::Other,
            bytes: Vec::new(),
            why: FieldError::new(field, problem).to_string(),
        }))
    };
    Stamp::of_stored(epoch, sequence).ok_or_else(|| {
        if Stamp::of_stored(epoch, 0).is_some() {
            wrong("sequence", sequence, 1 << 40)
        } else {
            wrong("epoch", epoch, Epoch::END)
        }
    })
}

impl StoreError {
    /// A refusal.
    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Refused {
            what: what.into(),
            why: why.into(),
        }
    }

    /// A failure after which nothing was done.
    pub(crate) fn undone(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable {
            what: what.into(),
            may_be_done: false,
            source: source.into(),
        }
    }

    /// A failure after which nobody knows.
    pub(crate) fn unknown(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable {
            what: what.into(),
            may_be_done: true,
            source: source.into(),
        }
    }

    /// Whether the operation may have taken effect, or may still.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        matches!(
            self,
            Self::Unavailable {
                may_be_done: true,
                ..
            }
        )
    }

    /// Whether the same operation may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Level { found: 0, .. })
    }

    /// The whole chain of causes in one line.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(inner) = cause {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            cause = inner.source();
        }
        text
    }
}
