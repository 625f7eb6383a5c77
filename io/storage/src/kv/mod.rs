//! Rows in ordered maps from bytes to bytes, one map a table: the interpreter that `memory:` and `file:` share. It is
//! plain code over a map: no clock (`now` is an argument), no threads, no I/O of its own.
//!
//! A row is `number (8 bytes) ++ flag (1 byte) ++ value`: the number is the guard of a decided row or the stamp of an
//! owned one; the flag tells a deletion, which an owned row keeps for a day, from a row that is there.

mod apply;
mod codec;
mod expiry;
mod rows;

pub(crate) use apply::{commit, decide};
pub(crate) use rows::{KvRows, ready};

use crate::StoreError;
use std::ops::Bound;

/// Rows that go by themselves, by the moment when they do. Not a table of `layout`: other backends have their own means.
pub(crate) const EXPIRY: &str = "expiry";

/// What a range gives each row to; `false` ends it.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, StoreError> + 'a;

/// Ordered maps, one a table.
pub(crate) trait Kv: Sync {
    /// A value.
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Values in order of their keys.
    fn range(
        &self,
        table: &'static str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;
}

/// Ordered maps that are written.
pub(crate) trait KvMut: Kv {
    /// Writes a value.
    fn put(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a value.
    fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), StoreError>;
}
