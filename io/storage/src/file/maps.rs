//! The file's tables as ordered maps, for reading in a snapshot and for writing in a transaction; its level.

use super::card::Identity;
use crate::kv::{EXPIRY, Kv, KvMut, Visit};
use crate::layout::Table;
use crate::{LEVEL, StoreError};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction,
};
use std::ops::Bound;

type Map = TableDefinition<'static, &'static [u8], &'static [u8]>;

const META: TableDefinition<'static, &'static str, u32> = TableDefinition::new("meta");

const fn map(table: &'static str) -> Map {
    TableDefinition::new(table)
}

fn failed(table: &'static str, source: impl Into<redb::Error>) -> StoreError {
    StoreError::undone(format!("table {table} of the file"), source.into())
}

const IDENTITY: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("identity");

/// The level of a file; `None`: it was not set up.
pub(super) fn level(file: &Database) -> Result<Option<u32>, redb::Error> {
    match file.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get("schema")?.map(|n| n.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets an empty file up.
pub(super) fn prepare(file: &Database, id: &str) -> Result<(), redb::Error> {
    let transaction = begin(file)?;
    transaction.open_table(META)?.insert("schema", LEVEL)?;
    put_identity(&transaction, id, 0)?;
    for table in Table::ALL.map(Table::name).into_iter().chain([EXPIRY]) {
        transaction.open_table(map(table))?;
    }
    transaction.commit()?;
    Ok(())
}

/// A transaction whose commit is on the disk when it returns.
pub(super) fn begin(file: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = file.begin_write()?;
    // A killed process then costs the next start a millisecond instead of a walk through the file.
    transaction.set_quick_repair(true);
    transaction.set_durability(redb::Durability::Immediate)?;
    Ok(transaction)
}

/// Which storage a file is, and how often it was written; `None`: it does not say it.
pub(super) fn identity(file: &Database) -> Result<Option<Identity>, redb::Error> {
    let table = match file.begin_read()?.open_table(IDENTITY) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (id, writes) = (table.get("id")?, table.get("writes")?);
    Ok(id.zip(writes).and_then(|(id, writes)| {
        Some(Identity {
            id: String::from_utf8(id.value().to_vec()).ok()?,
            writes: u64::from_be_bytes(writes.value().try_into().ok()?),
        })
    }))
}

fn put_identity(transaction: &WriteTransaction, id: &str, writes: u64) -> Result<(), redb::Error> {
    transaction.open_table(IDENTITY)?.insert("id", id.as_bytes())?;
    put_writes(transaction, writes)
}

/// Writes how often the file was written, this transaction included.
pub(super) fn put_writes(transaction: &WriteTransaction, writes: u64) -> Result<(), redb::Error> {
    let bytes = writes.to_be_bytes();
    transaction
        .open_table(IDENTITY)?
        .insert("writes", bytes.as_slice())?;
    Ok(())
}

/// Counts a write that changes nothing else: the file is no new one then.
pub(super) fn count_write(file: &Database) -> Result<(), redb::Error> {
    let Some(found) = identity(file)? else {
        return Ok(());
    };
    let transaction = begin(file)?;
    put_writes(&transaction, found.writes.saturating_add(1))?;
    transaction.commit()?;
    Ok(())
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
