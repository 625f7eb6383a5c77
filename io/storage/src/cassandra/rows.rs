//! Rows read from the nodes.

use super::client::{Client, Kind, Values};
use super::statement::{
    bound_all, select_assignments, select_head_tags, select_keys, select_last_write, select_row, select_rows,
};
use crate::StoreError;
use crate::error::stored_stamp;
use crate::layout::{Table, keys};
use crate::rows::{Cell, Row, RowKey, Rows, Scan};
use async_trait::async_trait;
use echelon_core_model::store::{Consistency, Stamp};
use futures::TryStreamExt;
use scylla::value::{CqlValue, Row as CqlRow};
use std::collections::BTreeMap;
use std::error::Error;

/// Rows of one answer: blocks are large, so their pages have few.
const PAGE: i32 = 1000;
const BLOCK_PAGE: i32 = 512;
/// A read at SERIAL takes part in the transactions of others and may fail with them; it is made again this often.
const SERIAL_TRIES: usize = 4;

const fn kind(consistency: Consistency) -> Kind {
    match consistency {
        Consistency::Quorum => Kind::Read,
        Consistency::Serial => Kind::SerialRead,
    }
}

impl Client {
    /// All rows of a read, page by page.
    async fn pages(
        &self,
        (kind, page): (Kind, i32),
        text: &str,
        values: &Values,
    ) -> Result<Vec<Vec<Option<CqlValue>>>, StoreError> {
        let mut statement = self.prepared(kind, text).await?;
        statement.set_page_size(page);
        let tries = if kind == Kind::SerialRead { SERIAL_TRIES } else { 1 };
        let mut last = None;
        for _ in 0..tries {
            match self.once(&statement, values).await {
                Ok(rows) => return Ok(rows),
                Err(error) => last = Some(error),
            }
        }
        let cause = last.unwrap_or_else(|| "it was not tried".into());
        Err(StoreError::undone(
            format!("reading with `{}`", text.replace("{ks}.", "")),
            cause,
        ))
    }

    /// The keys of a partition's rows within it.
    pub async fn keys(&self, table: Table, partition: &[Cell]) -> Result<Vec<Vec<Cell>>, StoreError> {
        let found = self
            .pages((Kind::Read, PAGE), &select_keys(table), &bound_all(partition))
            .await?;
        let keys = found
            .into_iter()
            .map(|row| row.into_iter().map(cell).collect::<Option<Vec<_>>>());
        Ok(keys.flatten().collect())
    }

    async fn once(
        &self,
        statement: &scylla::statement::prepared::PreparedStatement,
        values: &Values,
    ) -> Result<Vec<Vec<Option<CqlValue>>>, Box<dyn Error + Send + Sync>> {
        let pager = self.session.execute_iter(statement.clone(), values).await?;
        let rows: Vec<CqlRow> = pager.rows_stream::<CqlRow>()?.try_collect().await?;
        Ok(rows.into_iter().map(|row| row.columns).collect())
    }
}

fn cell(value: Option<CqlValue>) -> Option<Cell> {
    match value? {
        CqlValue::BigInt(n) => Some(Cell::Number(n)),
        CqlValue::Text(text) => Some(Cell::Text(text)),
        CqlValue::Blob(bytes) => Some(Cell::Bytes(bytes)),
        _ => None,
    }
}

/// A number of a partition; 0 where it is not set yet.
const fn fixed(column: Option<&Option<CqlValue>>) -> i64 {
    match column {
        Some(Some(CqlValue::BigInt(n))) => *n,
        _ => 0,
    }
}

/// A row whose last column is its value; `None` where a partition has only static columns.
fn row(mut columns: Vec<Option<CqlValue>>) -> Option<Row> {
    let Some(Cell::Bytes(value)) = cell(columns.pop()?) else {
        return None;
    };
    let key = columns.into_iter().map(cell).collect::<Option<_>>()?;
    Some(Row { key, value })
}

#[async_trait]
impl Rows for Client {
    async fn row(&self, at: &RowKey, consistency: Consistency) -> Result<Option<Row>, StoreError> {
        let (text, values) = (select_row(at.table), bound_all(&at.cells));
        let found = self.pages((kind(consistency), PAGE), &text, &values).await?;
        Ok(found.into_iter().next().and_then(row))
    }

    async fn scan(&self, scan: &Scan, consistency: Consistency) -> Result<Vec<Row>, StoreError> {
        if scan.limit == Some(0) {
            return Ok(Vec::new());
        }
        let page = match scan.table {
            Table::Instances | Table::Archive => BLOCK_PAGE,
            _ => PAGE,
        };
        let (text, values) = select_rows(scan);
        let found = self.pages((kind(consistency), page), &text, &values).await?;
        Ok(found.into_iter().filter_map(row).collect())
    }

    async fn assignments(
        &self,
        partition: u16,
        consistency: Consistency,
    ) -> Result<(Stamp, Vec<Row>), StoreError> {
        let values = bound_all(&[keys::bucket(partition)]);
        let text = select_assignments();
        let found = self.pages((kind(consistency), PAGE), &text, &values).await?;
        let mut stamp = Stamp::default();
        let mut rows = Vec::new();
        for mut columns in found {
            let rest = columns.split_off(2);
            stamp = stored_stamp(partition, fixed(columns.first()), fixed(columns.get(1)))?;
            rows.extend(row(rest));
        }
        Ok((stamp, rows))
    }

    async fn last_write(&self, partition: u16, consistency: Consistency) -> Result<Stamp, StoreError> {
        let values = bound_all(&[keys::bucket(partition)]);
        let text = select_last_write();
        let found = self.pages((kind(consistency), PAGE), &text, &values).await?;
        let Some(columns) = found.first() else {
            return Ok(Stamp::default());
        };
        stored_stamp(partition, fixed(columns.get(1)), fixed(columns.get(2)))
    }

    async fn head_tags(
        &self,
        buckets: &[u16],
        consistency: Consistency,
    ) -> Result<BTreeMap<u16, i64>, StoreError> {
        let cells: Vec<Cell> = buckets.iter().map(|bucket| keys::bucket(*bucket)).collect();
        let text = select_head_tags(cells.len());
        let found = self
            .pages((kind(consistency), PAGE), &text, &bound_all(&cells))
            .await?;
        let tags = found.iter().filter_map(|columns| {
            let bucket = u16::try_from(fixed(columns.first())).ok()?;
            Some((bucket, fixed(columns.get(1))))
        });
        Ok(tags.collect())
    }
}
