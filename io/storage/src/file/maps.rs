//! The file's tables as ordered maps, for reading in a snapshot and for writing in a transaction; its level.

use crate::kv::{EXPIRY, Kv, KvMut, Visit};
use crate::layout::Table;
use crate::{LEVEL, StoreError};
use redb::{Database, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use std::ops::Bound;

type Map = TableDefinition<'static, &'static [u8], &'static [u8]>;

const META: TableDefinition<'static, &'static str, u32> = TableDefinition::new("meta");

const fn map(table: &'static str) -> Map {
    TableDefinition::new(table)
}

fn failed(table: &'static str, source: impl Into<redb::Error>) -> StoreError {
    StoreError::undone(format!("table {table} of the file"), source.into())
}

/// Sets an empty file up, and gives the level that is there then. A file of another level is left as it is.
pub(super) fn prepare(file: &Database) -> Result<u32, redb::Error> {
    let mut transaction = file.begin_write()?;
    transaction.set_quick_repair(true);
    let found = transaction.open_table(META)?.get("schema")?.map(|n| n.value());
    if let Some(found) = found {
        transaction.abort()?;
        return Ok(found);
    }
    transaction.open_table(META)?.insert("schema", LEVEL)?;
    for table in Table::ALL.map(Table::name).into_iter().chain([EXPIRY]) {
        transaction.open_table(map(table))?;
    }
    transaction.commit()?;
    Ok(LEVEL)
}

fn visit_all(
    table: &'static str,
    map: &impl ReadableTable<&'static [u8], &'static [u8]>,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    for row in map.range::<&[u8]>(range).map_err(|e| failed(table, e))? {
        let (key, value) = row.map_err(|e| failed(table, e))?;
        if !visit(key.value(), value.value())? {
            break;
        }
    }
    Ok(())
}

/// What was committed when it was taken.
pub(super) struct Snapshot(pub ReadTransaction);

impl Kv for Snapshot {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        let value = map.get(key).map_err(|e| failed(table, e))?;
        Ok(value.map(|v| v.value().to_vec()))
    }

    fn range(
        &self,
        table: &'static str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        visit_all(table, &map, range, visit)
    }
}

/// A transaction under way.
pub(super) struct Writing<'a>(pub &'a WriteTransaction);

impl Kv for Writing<'_> {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        let value = map.get(key).map_err(|e| failed(table, e))?;
        Ok(value.map(|v| v.value().to_vec()))
    }

    fn range(
        &self,
        table: &'static str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        visit_all(table, &map, range, visit)
    }
}

impl KvMut for Writing<'_> {
    fn put(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        map.insert(key, value).map_err(|e| failed(table, e))?;
        Ok(())
    }

    fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), StoreError> {
        let mut map = self.0.open_table(map(table)).map_err(|e| failed(table, e))?;
        map.remove(key).map_err(|e| failed(table, e))?;
        Ok(())
    }
}
