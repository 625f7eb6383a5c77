//! Where each fact lies: tables, keys and value bytes. The one place that maps the model to rows; every backend uses it.
//! Decided and owned facts never share a table, and owned tables of two leaderships never share a partition.

mod check;
mod decision;
pub(crate) mod keys;
mod limits;
mod pieces;
pub(crate) mod pools;
mod table;
mod write;

pub(crate) use check::{check_batch, check_decision};
pub(crate) use decision::{AssignmentRows, Change, Plan, Verdict, judge};
pub(crate) use limits::BATCH_BYTES;
pub(crate) use pieces::{Joined, Pieces, join};
pub(crate) use table::{CellKind, Column, DELETION_KEEP_MS, Ownership, Table};
pub(crate) use write::{Becomes, RowWrite};
