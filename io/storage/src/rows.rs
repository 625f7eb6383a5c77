//! Rows as every backend sees them: a table, cells that name the row, a number that guards it and a value. The number is
//! the version that a decision compares, or the stamp of an owned write.

use crate::StoreError;
use crate::layout::Table;
use async_trait::async_trait;
use echelon_core_model::store::{Consistency, Stamp};
use std::collections::BTreeMap;
use std::fmt;

/// A part of a row's key. Cells of one column are of one kind and order as the backends order them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cell {
    /// A signed number.
    Number(i64),
    /// A text, ordered by its bytes.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Names one row: the cells of its partition, then those of its key within it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowKey {
    pub table: Table,
    pub cells: Vec<Cell>,
}

impl RowKey {
    pub fn new(table: Table, cells: impl IntoIterator<Item = Cell>) -> Self {
        let cells = cells.into_iter().collect();
        Self { table, cells }
    }

    /// The cells of its partition.
    pub fn partition(&self) -> &[Cell] {
        let n = self.table.columns().partition.len();
        self.cells.get(..n).unwrap_or(&self.cells)
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, cell) in self.cells.iter().enumerate() {
            let slash = if i == 0 { "" } else { "/" };
            match cell {
                Cell::Number(n) => write!(f, "{slash}{n}")?,
                Cell::Text(text) => write!(f, "{slash}{text}")?,
                Cell::Bytes(bytes) => {
                    f.write_str(slash)?;
                    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
                }
            }
        }
        Ok(())
    }
}

/// A row that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its cells within its partition.
    pub key: Vec<Cell>,
    pub value: Vec<u8>,
}

/// Rows of one partition in the order of their keys; of the whole table where `partition` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub table: Table,
    pub partition: Vec<Cell>,
    /// Only rows whose key comes after this one.
    pub after: Option<Vec<Cell>>,
    /// Only rows up to this key, itself included.
    pub up_to: Option<Vec<Cell>>,
    pub limit: Option<u32>,
}

impl Scan {
    /// All rows of a partition.
    pub fn partition(table: Table, partition: impl IntoIterator<Item = Cell>) -> Self {
        Self {
            table,
            partition: partition.into_iter().collect(),
            after: None,
            up_to: None,
            limit: None,
        }
    }
}

/// What `read` needs of a backend.
#[async_trait]
pub(crate) trait Rows: Sync {
    /// One row, if it is there.
    async fn row(&self, at: &RowKey, consistency: Consistency) -> Result<Option<Row>, StoreError>;

    /// Rows in order.
    async fn scan(&self, scan: &Scan, consistency: Consistency) -> Result<Vec<Row>, StoreError>;

    /// A partition of assignments with the stamp of its last write, as they were at one moment.
    async fn assignments(
        &self,
        partition: u16,
        consistency: Consistency,
    ) -> Result<(Stamp, Vec<Row>), StoreError>;

    /// The stamp of the last write to a partition of assignments.
    async fn last_write(&self, partition: u16, consistency: Consistency) -> Result<Stamp, StoreError>;

    /// The tags of buckets of heads, of those that have one.
    async fn head_tags(
        &self,
        buckets: &[u16],
        consistency: Consistency,
    ) -> Result<BTreeMap<u16, i64>, StoreError>;
}
