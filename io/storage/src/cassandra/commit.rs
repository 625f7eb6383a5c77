//! Batches of owned facts: one unlogged batch a partition, atomic there, each row with its stamp.

use super::client::{Client, Kind, Values};
use super::failure::{Attempt, executing};
use super::statement::{bound_all, delete_row, hide_partition, write_row};
use crate::StoreError;
use crate::layout::{BATCH_BYTES, Becomes, RowWrite, Table, check_batch};
use crate::rows::Cell;
use echelon_core_model::store::{Batch, Stamp};
use futures::{StreamExt, TryStreamExt, stream};
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::statement::batch::{Batch as CqlBatch, BatchType};
use scylla::value::CqlValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Partitions written at the same time for one batch.
const AT_ONCE: usize = 32;
/// Room for key and statement of a row beside its value.
const ROW_BYTES: usize = 512;

/// Commits a batch. Partitions are written side by side, but events before what they tell of; a part above 1 MiB in pieces, one
/// after the other.
pub(super) async fn commit(client: &Client, batch: &Batch) -> Result<(), StoreError> {
    let rows = check_batch(batch)?;
    let stamp = batch.stamp;
    let mut turns: BTreeMap<u8, Partitions> = BTreeMap::new();
    for row in rows {
        let partition = (row.at.table, row.at.partition().to_vec());
        let turn = turns.entry(row.at.table.turn()).or_default();
        turn.entry(partition).or_default().push(row);
    }
    for partitions in turns.into_values() {
        let parts = partitions.into_values().map(|rows| async move {
            for piece in pieces(&rows) {
                write(client, stamp, piece).await?;
            }
            Ok(())
        });
        let done: Result<Vec<()>, StoreError> =
            stream::iter(parts).buffer_unordered(AT_ONCE).try_collect().await;
        done.map_err(|error| match error {
            // Other parts may be there.
            StoreError::Unavailable {
                what, kind, source, ..
            } => StoreError::unknown(what, source).of_kind(kind),
            other => other,
        })?;
    }
    Ok(())
}

/// Rows to write, by their partition.
type Partitions = BTreeMap<(Table, Vec<Cell>), Vec<RowWrite>>;

/// Pieces below the limit, in order.
fn pieces(rows: &[RowWrite]) -> Vec<&[RowWrite]> {
    let mut out = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|row| {
            bytes += row.bytes() + ROW_BYTES;
            bytes <= BATCH_BYTES
        });
        let n = fits.count().max(1);
        let (piece, left) = rest.split_at(n.min(rest.len()));
        out.push(piece);
        rest = left;
    }
    out
}

fn statement(stamp: Stamp, row: &RowWrite) -> (String, Values) {
    let mut values = bound_all(&row.at.cells);
    let own = Some(CqlValue::BigInt(stamp.packed()));
    match &row.becomes {
        Becomes::Value(value) => {
            values.push(Some(CqlValue::Blob(value.clone())));
            values.push(own);
            (write_row(row.at.table), values)
        }
        Becomes::Nothing => {
            values.insert(0, own);
            (delete_row(row.at.table), values)
        }
        Becomes::Sealed => {
            values.insert(0, Some(CqlValue::BigInt(stamp.hides())));
            (hide_partition(row.at.table), values)
        }
    }
}

async fn write(client: &Client, stamp: Stamp, rows: &[RowWrite]) -> Result<(), StoreError> {
    if let [row] = rows {
        let (text, values) = statement(stamp, row);
        client.execute(Kind::Stamped, &text, values).await?;
        return Ok(());
    }
    let mut batch = CqlBatch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    batch.set_retry_policy(Some(Arc::new(DefaultRetryPolicy::new())));
    let mut values = Vec::with_capacity(rows.len());
    for row in rows {
        let (text, bound) = statement(stamp, row);
        batch.append_statement(client.prepared(Kind::Stamped, &text).await?);
        values.push(bound);
    }
    let what = format!(
        "batch of {} rows of {}",
        rows.len(),
        rows.first().map_or("", |r| r.at.table.name())
    );
    let sent = client.session.batch(&batch, values).await;
    sent.map(drop).map_err(|e| executing(Attempt::Write, &what, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowKey;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_small_and_lose_nothing(sizes in proptest::collection::vec(0usize..500_000, 0..30)) {
            let rows: Vec<RowWrite> = sizes
                .iter()
                .map(|n| RowWrite { at: RowKey::new(Table::Hosts, []), place: 0, becomes: Becomes::Value(vec![0; *n]) })
                .collect();
            let pieces = pieces(&rows);
            let sum = |piece: &[RowWrite]| piece.iter().map(|r| r.bytes() + ROW_BYTES).sum::<usize>();
            prop_assert!(pieces.iter().all(|p| !p.is_empty() && sum(p) <= BATCH_BYTES));
            prop_assert_eq!(pieces.concat(), rows);
        }
    }
}
