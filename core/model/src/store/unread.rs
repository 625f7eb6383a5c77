//! Rows that are there and cannot be understood. Absence is another answer: nothing may be concluded from such a row.

use super::{Answer, ShardKey};
use crate::id::JobId;
use crate::instance::{BlockKey, SliceRow};
use std::fmt;

/// What a row is about, as its key says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowSubject {
    /// A job as a whole: its head, assignment, progress, spec.
    Job(JobId),
    /// A block of instances that is not in the archive, or at block number [`SliceRow::BLOCK`] a slice row.
    Block(BlockKey),
    /// A row of what a shard remembers of itself.
    Shard(ShardKey),
    /// Something else: a host, a cluster, a leadership.
    Other,
}

impl RowSubject {
    /// The job that it is about.
    #[must_use]
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::Job(job) => Some(*job),
            Self::Block(key) => Some(key.job),
            Self::Shard(_) | Self::Other => None,
        }
    }
}

/// A row that is there and cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadRow {
    /// The table.
    pub table: &'static str,
    /// The row's key, for people.
    pub key: String,
    /// What it is about.
    pub subject: RowSubject,
    /// Its value as it is stored.
    pub bytes: Vec<u8>,
    /// Why it cannot be understood.
    pub why: String,
}

impl UnreadRow {
    /// Whether it is a slice row.
    #[must_use]
    pub fn is_slice_row(&self) -> bool {
        matches!(&self.subject, RowSubject::Block(key) if key.number == SliceRow::BLOCK)
    }
}

/// Rows that cannot be understood, in a sentence: the first, and how many more there are.
#[must_use]
pub fn rows_told(rows: &[UnreadRow]) -> String {
    match rows {
        [] => "no row".to_owned(),
        [row] => row.to_string(),
        [row, more @ ..] => format!("{row} (and {} more)", more.len()),
    }
}

impl fmt::Display for UnreadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, key, why, .. } = self;
        write!(
            f,
            "row {key} of table {table} cannot be read ({why}); was it written by a newer build?"
        )
    }
}

/// What was read, and what was found there and could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What could be read.
    pub answer: Answer,
    /// The rows that would belong to the answer.
    pub unread: Vec<UnreadRow>,
}

impl From<Answer> for Reading {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            unread: Vec::new(),
        }
    }
}
