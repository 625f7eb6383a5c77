//! The text of each statement, made from a table's columns, and the values it binds.

use super::client::Values;
use crate::layout::{Column, Ownership, Table};
use crate::rows::{Cell, Scan};
use scylla::value::CqlValue;

/// A cell as a bound value.
pub(super) fn bound(cell: &Cell) -> Option<CqlValue> {
    Some(match cell {
        Cell::Number(n) => CqlValue::BigInt(*n),
        Cell::Text(text) => CqlValue::Text(text.clone()),
        Cell::Bytes(bytes) => CqlValue::Blob(bytes.clone()),
    })
}

pub(super) fn bound_all(cells: &[Cell]) -> Values {
    cells.iter().map(bound).collect()
}

fn all_columns(table: Table) -> impl Iterator<Item = &'static Column> {
    let columns = table.columns();
    columns.partition.iter().chain(columns.key)
}

fn names(columns: &[Column]) -> String {
    let quoted: Vec<String> = columns.iter().map(|c| format!("\"{}\"", c.name)).collect();
    quoted.join(", ")
}

fn places(n: usize) -> String {
    vec!["?"; n].join(", ")
}

/// `"a" = ? AND "b" = ?` over some columns.
fn equal<'a>(columns: impl Iterator<Item = &'a Column>) -> String {
    let parts: Vec<String> = columns.map(|c| format!("\"{}\" = ?", c.name)).collect();
    parts.join(" AND ")
}

fn from(table: Table) -> String {
    format!("{{ks}}.{}", table.name())
}

/// One row's value.
pub(super) fn select_row(table: Table) -> String {
    format!(
        "SELECT value FROM {} WHERE {}",
        from(table),
        equal(all_columns(table))
    )
}

/// Key columns and value of a scan's rows, with the values that it binds.
pub(super) fn select_rows(scan: &Scan) -> (String, Values) {
    let columns = scan.table.columns();
    let key = if scan.partition.is_empty() {
        &[]
    } else {
        columns.key
    };
    let selected = if key.is_empty() {
        String::new()
    } else {
        format!("{}, ", names(key))
    };
    let mut text = format!("SELECT {selected}value FROM {}", from(scan.table));
    let mut values = bound_all(&scan.partition);
    if !scan.partition.is_empty() {
        text += &format!(" WHERE {}", equal(columns.partition.iter()));
    }
    for (operator, bound) in [(">", &scan.after), ("<=", &scan.up_to)] {
        if let Some(cells) = bound {
            text += &format!(" AND ({}) {operator} ({})", names(key), places(cells.len()));
            values.extend(bound_all(cells));
        }
    }
    if let Some(limit) = scan.limit {
        text += " LIMIT ?";
        values.push(Some(CqlValue::Int(i32::try_from(limit).unwrap_or(i32::MAX))));
    }
    (text, values)
}

/// The keys of a partition's rows within it, without their values: partition.
pub(super) fn select_keys(table: Table) -> String {
    let columns = table.columns();
    let (keys, partition) = (names(columns.key), equal(columns.partition.iter()));
    format!("SELECT {keys} FROM {} WHERE {partition}", from(table))
}

/// A partition of assignments with the epoch and number of its last write.
pub(super) fn select_assignments() -> String {
    let table = from(Table::Assignments);
    format!("SELECT epoch, written, \"job\", piece, value FROM {table} WHERE \"part\" = ?")
}

/// An owned row: key, value, timestamp.
pub(super) fn write_row(table: Table) -> String {
    let columns: Vec<Column> = all_columns(table).copied().collect();
    let (into, names, places) = (from(table), names(&columns), places(columns.len()));
    format!("INSERT INTO {into} ({names}, value) VALUES ({places}, ?) USING TIMESTAMP ?")
}

/// The deletion of an owned row: timestamp, key.
pub(super) fn delete_row(table: Table) -> String {
    let key = equal(all_columns(table));
    format!("DELETE FROM {} USING TIMESTAMP ? WHERE {key}", from(table))
}

/// The deletion of all rows of a partition up to a timestamp: what is written later with an older one stays hidden, as long as
/// the deletion is kept. Timestamp, partition.
pub(super) fn hide_partition(table: Table) -> String {
    let partition = equal(table.columns().partition.iter());
    format!("DELETE FROM {} USING TIMESTAMP ? WHERE {partition}", from(table))
}

/// The column that guards a decided table's rows.
pub(super) fn guard(table: Table) -> Option<&'static str> {
    match table.columns().ownership {
        Ownership::Decided { guard } => guard,
        Ownership::Owned { .. } => None,
    }
}

/// The column that tags a partition with each write of one of its rows.
const fn tag(table: Table) -> Option<&'static str> {
    match table {
        Table::Heads => Some("tag"),
        _ => None,
    }
}

/// The tags of some buckets of heads: the buckets.
pub(super) fn select_head_tags(buckets: usize) -> String {
    let (table, places) = (from(Table::Heads), places(buckets));
    format!("SELECT DISTINCT \"bucket\", tag FROM {table} WHERE \"bucket\" IN ({places})")
}

/// The epoch and number of the last write to a partition of assignments: partition.
pub(super) fn select_last_write() -> String {
    let table = from(Table::Assignments);
    format!("SELECT DISTINCT \"part\", epoch, written FROM {table} WHERE \"part\" = ?")
}

/// A decided row that is not there yet: key, value, and the guard and the tag where the table has them.
pub(super) fn insert(table: Table, keep_ms: Option<u64>) -> String {
    let columns: Vec<Column> = all_columns(table).copied().collect();
    let (into, names, places) = (from(table), names(&columns), places(columns.len()));
    let (guard, guarded) = guard(table).map_or((String::new(), ""), |g| (format!(", {g}"), ", ?"));
    let (tag, tagged) = tag(table).map_or((String::new(), ""), |m| (format!(", {m}"), ", ?"));
    let ttl = keep_ms.map_or_else(String::new, |ms| format!(" USING TTL {}", ms / 1000));
    format!(
        "INSERT INTO {into} ({names}, value{guard}{tag}) VALUES ({places}, ?{guarded}{tagged}) IF NOT EXISTS{ttl}"
    )
}

/// A decided row that is there: value, new guard, the tag where the table has one, key, old guard.
pub(super) fn update(table: Table, guard: &str) -> String {
    let (into, key) = (from(table), equal(all_columns(table)));
    let tag = tag(table).map_or_else(String::new, |m| format!(", {m} = ?"));
    format!("UPDATE {into} SET value = ?, {guard} = ?{tag} WHERE {key} IF {guard} = ?")
}

/// The deletion of a decided row: key, old guard.
pub(super) fn delete(table: Table, guard: &str) -> String {
    let (of, key) = (from(table), equal(all_columns(table)));
    format!("DELETE FROM {of} WHERE {key} IF {guard} = ?")
}

/// Raises a partition's epoch, with no write in it yet: new, partition, old.
pub(super) fn raise_epoch() -> String {
    let table = from(Table::Assignments);
    format!("UPDATE {table} SET epoch = ?, written = 0 WHERE \"part\" = ? IF epoch = ?")
}

/// Counts a write of an epoch: its number, partition, epoch, the number before.
pub(super) fn count_write() -> String {
    let table = from(Table::Assignments);
    format!("UPDATE {table} SET written = ? WHERE \"part\" = ? IF epoch = ? AND written = ?")
}

/// A row of an assignment within a conditional batch: key, value.
pub(super) fn put_assignment() -> String {
    let table = from(Table::Assignments);
    format!("INSERT INTO {table} (\"part\", \"job\", piece, value) VALUES (?, ?, ?, ?)")
}

/// A further row of a decided value within a conditional batch: key, value, guard.
pub(super) fn put_piece(table: Table) -> String {
    let columns: Vec<Column> = all_columns(table).copied().collect();
    let (into, names, places) = (from(table), names(&columns), places(columns.len()));
    let (guard, guarded) = guard(table).map_or((String::new(), ""), |g| (format!(", {g}"), ", ?"));
    format!("INSERT INTO {into} ({names}, value{guard}) VALUES ({places}, ?{guarded})")
}

/// The removal of all rows of an assignment within a conditional batch: partition, job.
pub(super) fn remove_assignment() -> String {
    let table = from(Table::Assignments);
    format!("DELETE FROM {table} WHERE \"part\" = ? AND \"job\" = ?")
}
