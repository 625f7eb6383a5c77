//! What can go wrong with a storage, told apart by what the caller may conclude.

use crate::FileProblem;
use crate::layout::Table;
use echelon_core_model::Epoch;
use echelon_core_model::store::{
    OpFailure, Refusal, RefusedRow, RowSubject, Stamp, Trouble, TroubleKind, UnreadRow,
};
use echelon_proto::convert::{FieldError, FieldProblem};
use std::error::Error;
use std::path::PathBuf;
use thiserror::Error;

/// Why an operation has no answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The caller asked for what no storage takes. Nothing was done; asking again is of no use.
    #[error("storage refuses {0}")]
    Refused(Refusal),
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
    /// The storage's file is not used as it is. An operator has to act first.
    #[error("the storage file {} {problem}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: FileProblem,
    },
    /// The storage did not answer, or could not do it.
    #[error("storage: {what} failed")]
    Unavailable {
        /// What was tried.
        what: String,
        /// Whether it may have taken effect, or may still.
        may_be_done: bool,
        /// What is wrong with the storage.
        kind: TroubleKind,
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
    /// A refusal of one row.
    pub(crate) fn refused(row: RefusedRow) -> Self {
        Self::Refused(Refusal { rows: vec![row] })
    }

    /// A failure after which nothing was done.
    pub(crate) fn undone(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::failed(what.into(), false, source.into())
    }

    /// A failure after which it is not known what was done.
    pub(crate) fn unknown(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::failed(what.into(), true, source.into())
    }

    fn failed(what: String, may_be_done: bool, source: Box<dyn Error + Send + Sync>) -> Self {
        let kind = if is_full(&*source) {
            TroubleKind::Full
        } else {
            TroubleKind::NoAnswer
        };
        Self::Unavailable {
            what,
            may_be_done,
            kind,
            source,
        }
    }

    /// The same failure where it is known that nothing was done, whatever became of this step.
    pub(crate) fn into_undone(mut self) -> Self {
        if let Self::Unavailable { may_be_done, .. } = &mut self {
            *may_be_done = false;
        }
        self
    }

    /// The same failure of another kind, where the backend knows better.
    pub(crate) fn of_kind(mut self, better: TroubleKind) -> Self {
        if let Self::Unavailable { kind, .. } = &mut self {
            *kind = better;
        }
        self
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

    /// What a driver is told.
    #[must_use]
    pub fn into_failure(self) -> OpFailure {
        let text = self.chain();
        match self {
            Self::Refused(refusal) => OpFailure::Refused(refusal),
            Self::Unavailable {
                may_be_done: true,
                kind,
                ..
            } => OpFailure::Unknown(Trouble { kind, text }),
            Self::Unavailable { kind, .. } => OpFailure::not_done(kind, text),
            Self::Unread(_) | Self::Level { .. } | Self::File { .. } => {
                OpFailure::not_done(TroubleKind::Schema, text)
            }
            Self::Url { .. } => OpFailure::not_done(TroubleKind::CutOff, text),
        }
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

/// Whether a disk without room is behind an error.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        let full = |e: &std::io::Error| {
            matches!(
                e.kind(),
                std::io::ErrorKind::StorageFull
                    | std::io::ErrorKind::QuotaExceeded
                    | std::io::ErrorKind::FileTooLarge
            )
        };
        if io.is_some_and(full) {
            return true;
        }
        if let Some(redb::Error::Io(io)) = error.downcast_ref()
            && full(io)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let kind = |error: StoreError| match error.into_failure() {
            OpFailure::NotDone(trouble) | OpFailure::Unknown(trouble) => trouble.kind,
            OpFailure::Refused(refusal) => panic!("{refusal}"),
        };
        for full in [StorageFull, QuotaExceeded, FileTooLarge] {
            let error = StoreError::undone("x", std::io::Error::from(full));
            assert_eq!(kind(error), TroubleKind::Full);
            let error = StoreError::unknown("x", redb::Error::Io(full.into()));
            assert_eq!(kind(error), TroubleKind::Full);
        }
        assert_eq!(kind(StoreError::unknown("x", "late")), TroubleKind::NoAnswer);
    }
}
