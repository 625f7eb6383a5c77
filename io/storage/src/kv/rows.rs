//! Rows read from ordered maps.

use super::codec::{self, Stored, cells, key};
use super::{Kv, Visit};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Row, RowKey, Rows, Scan};
use async_trait::async_trait;
use echelon_core_model::store::{Consistency, Stamp};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Rows of a snapshot. Reads are done when they return; nothing here waits.
pub(crate) struct KvRows<'a, K>(pub &'a K);

/// The value of a future over [`KvRows`], which never waits for anything (a stream of futures may ask to be polled again).
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

impl<K: Kv> KvRows<'_, K> {
    pub(super) fn stored(&self, at: &RowKey) -> Result<Option<Stored>, StoreError> {
        let bytes = self.0.get(at.table.name(), &key(&at.cells))?;
        bytes.map(|bytes| Stored::of_bytes(&bytes)).transpose()
    }

    /// The keys within a partition, its own excluded, whose number is at most `number`; deletions too.
    pub(super) fn older(&self, partition: &RowKey, number: i64) -> Result<Vec<Vec<u8>>, StoreError> {
        let prefix = key(&partition.cells);
        let end = after_all(&prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut out = Vec::new();
        let mut take = |found: &[u8], bytes: &[u8]| -> Result<bool, StoreError> {
            if Stored::of_bytes(bytes)?.number <= number {
                out.push(found.to_vec());
            }
            Ok(true)
        };
        let range = (Bound::Excluded(prefix.as_slice()), to);
        self.0.range(partition.table.name(), range, &mut take)?;
        Ok(out)
    }

    fn rows(&self, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let prefix = key(&scan.partition);
        let within = |key_cells: &[crate::rows::Cell]| [prefix.clone(), key(key_cells)].concat();
        let from = scan.after.as_deref().map_or_else(|| prefix.clone(), within);
        let up_to = scan.up_to.as_deref().map(within);
        let end = after_all(&prefix);
        let to = match (&up_to, &end) {
            (Some(key), _) => Bound::Included(key.as_slice()),
            (None, Some(end)) => Bound::Excluded(end.as_slice()),
            (None, None) => Bound::Unbounded,
        };
        let columns = scan.table.columns();
        let whole = scan.partition.is_empty();
        let mut rows = Vec::new();
        let mut take = |found: &[u8], bytes: &[u8]| -> Result<bool, StoreError> {
            if scan
                .limit
                .is_some_and(|limit| rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX))
            {
                return Ok(false);
            }
            if let Some(value) = Stored::of_bytes(bytes)?.value {
                let key = if whole {
                    Some(Vec::new())
                } else {
                    cells(columns.key, found.get(prefix.len()..).unwrap_or_default())
                };
                let wrong = || StoreError::undone("reading a key", "it has not the columns of its table");
                rows.push(Row {
                    key: key.ok_or_else(wrong)?,
                    value,
                });
            }
            Ok(true)
        };
        let take: &mut Visit<'_> = &mut take;
        // The key that equals the start is the one read last, or the partition's own.
        let from = if whole {
            Bound::Unbounded
        } else if scan.after.is_some() || !columns.key.is_empty() {
            Bound::Excluded(from.as_slice())
        } else {
            Bound::Included(from.as_slice())
        };
        self.0.range(scan.table.name(), (from, to), take)?;
        Ok(rows)
    }
}

/// The first key after all that begin with a prefix; `None` when there is none.
fn after_all(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix.get(..=kept)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[async_trait]
impl<K: Kv> Rows for KvRows<'_, K> {
    async fn row(&self, at: &RowKey, _: Consistency) -> Result<Option<Row>, StoreError> {
        let value = self.stored(at)?.and_then(|stored| stored.value);
        let n = at.partition().len();
        Ok(value.map(|value| Row {
            key: at.cells.get(n..).unwrap_or_default().to_vec(),
            value,
        }))
    }

    async fn scan(&self, scan: &Scan, _: Consistency) -> Result<Vec<Row>, StoreError> {
        self.rows(scan)
    }

    async fn assignments(&self, partition: u16, _: Consistency) -> Result<(Stamp, Vec<Row>), StoreError> {
        let last = self.stored(&keys::assignments(partition))?;
        let scan = Scan::partition(Table::Assignments, [keys::bucket(partition)]);
        Ok((
            last.map_or(Ok(Stamp::default()), |row| codec::last_write(partition, &row))?,
            self.rows(&scan)?,
        ))
    }

    async fn last_write(&self, partition: u16, _: Consistency) -> Result<Stamp, StoreError> {
        let last = self.stored(&keys::assignments(partition))?;
        last.map_or(Ok(Stamp::default()), |row| codec::last_write(partition, &row))
    }

    async fn head_tags(&self, buckets: &[u16], _: Consistency) -> Result<BTreeMap<u16, i64>, StoreError> {
        let mut tags = BTreeMap::new();
        for bucket in buckets {
            let tag = self.stored(&keys::heads(*bucket))?;
            tags.extend(tag.map(|row| (*bucket, row.number)));
        }
        Ok(tags)
    }
}
