//! What the driver's errors mean for a caller: whether an operation may have taken effect. When in doubt, it may.

use super::url::Place;
use crate::{LEVEL, StoreError};
use echelon_core_model::store::TroubleKind;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Read,
    Write,
}

/// A statement could not be prepared: nothing was done. Most often its table is not there.
pub(super) fn preparing(place: &Place, text: &str, error: PrepareError) -> StoreError {
    let missing = matches!(
        &error,
        PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(DbError::Invalid, _)
        }
    );
    if missing {
        return StoreError::Level {
            place: place.to_string(),
            found: 0,
            known: LEVEL,
        };
    }
    StoreError::undone(format!("preparing `{text}`"), error)
}

/// A statement failed.
pub(super) fn executing(attempt: Attempt, text: &str, error: ExecutionError) -> StoreError {
    let what = format!("`{}`", text.replace("{ks}.", ""));
    let kind = kind(&error);
    let failed = if attempt == Attempt::Read || never_sent(&error) {
        StoreError::undone(what, error)
    } else {
        StoreError::unknown(what, error)
    };
    failed.of_kind(kind)
}

/// What is wrong, as far as the error tells.
const fn kind(error: &ExecutionError) -> TroubleKind {
    match error {
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => TroubleKind::CutOff,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Overloaded, _)) => {
            TroubleKind::Overloaded
        }
        ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId) => {
            TroubleKind::Overloaded
        }
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::SyntaxError | DbError::Invalid,
            _,
        )) => TroubleKind::Schema,
        _ => TroubleKind::NoAnswer,
    }
}

/// Whether no node can have carried it out. `Unavailable` is not among them: a transaction may meet it in its last phase,
/// when it is decided already.
fn never_sent(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => true,
        ExecutionError::LastAttemptError(attempt) => matches!(
            attempt,
            RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(
                    DbError::SyntaxError
                        | DbError::Invalid
                        | DbError::Unauthorized
                        | DbError::AuthenticationError
                        | DbError::IsBootstrapping
                        | DbError::Overloaded,
                    _
                )
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::WriteType;
    use std::time::Duration;

    #[test]
    fn only_what_was_never_carried_out_is_told_so() {
        let db = |error| ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()));
        let timeout = DbError::WriteTimeout {
            consistency: scylla::statement::Consistency::Quorum,
            received: 1,
            required: 2,
            write_type: WriteType::Cas,
        };
        let unavailable = DbError::Unavailable {
            consistency: scylla::statement::Consistency::Quorum,
            required: 2,
            alive: 1,
        };
        for (error, may_be_done) in [
            (ExecutionError::EmptyPlan, false),
            (ExecutionError::RequestTimeout(Duration::from_secs(4)), true),
            (db(timeout), true),
            (db(unavailable), true),
            (db(DbError::Overloaded), false),
            (db(DbError::Invalid), false),
            (db(DbError::ServerError), true),
        ] {
            let shown = error.to_string();
            assert!(
                !executing(Attempt::Read, "x", error.clone()).may_be_done(),
                "{shown}"
            );
            let write = executing(Attempt::Write, "x", error);
            assert_eq!(write.may_be_done(), may_be_done, "{shown}");
            assert!(write.is_retryable());
        }
    }
}
