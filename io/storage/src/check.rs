//! What no storage takes, for whoever stands in for one.

use crate::StoreError;
use crate::layout::{check_batch, check_decision};
use echelon_core_model::store::Op;

/// Checks an operation as every backend does before it begins.
///
/// # Errors
/// `StoreError::Refused`: too large, out of range, not the owner's.
pub fn check(op: &Op) -> Result<(), StoreError> {
    match op {
        Op::Read(..) => Ok(()),
        Op::Decide(decision) => check_decision(decision).map(drop),
        Op::Commit(batch) => check_batch(batch).map(drop),
    }
}
