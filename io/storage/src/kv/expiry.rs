//! Rows that go by themselves: deletions after a day, plans of requests after a day, events after thirty. Each write
//! sweeps a few that are due, so nothing grows for ever and nothing needs a timer.

use super::codec::{Stored, key};
use super::{EXPIRY, KvMut};
use crate::StoreError;
use crate::layout::Table;
use crate::rows::RowKey;
use echelon_core_model::Timestamp;
use std::ops::Bound;

/// Rows swept by one write: more than one write can plan on average, few enough not to be felt.
const SWEPT: usize = 64;

/// Plans that a row goes after a while, unless it is written again until then.
pub(super) fn plan<K: KvMut>(
    kv: &mut K,
    at: &RowKey,
    number: i64,
    (now, keep_ms): (Timestamp, u64),
) -> Result<(), StoreError> {
    let due = now.0.saturating_add(keep_ms).to_be_bytes();
    let place = Table::ALL.iter().position(|t| *t == at.table);
    let place = place.and_then(|i| u8::try_from(i).ok()).unwrap_or(u8::MAX);
    let entry = [due.as_slice(), &[place], &key(&at.cells)].concat();
    kv.put(EXPIRY, &entry, &number.to_be_bytes())
}

/// Removes some rows that are due.
pub(super) fn sweep<K: KvMut>(kv: &mut K, now: Timestamp) -> Result<(), StoreError> {
    let end = now.0.to_be_bytes();
    let mut due = Vec::new();
    let range = (Bound::Unbounded, Bound::Excluded(end.as_slice()));
    kv.range(EXPIRY, range, &mut |entry, number| {
        due.push((entry.to_vec(), number.to_vec()));
        Ok(due.len() < SWEPT)
    })?;
    for (entry, number) in due {
        if let Some((table, row)) = target(&entry)
            && let Some(bytes) = kv.get(table.name(), row)?
            && Stored::of_bytes(&bytes)?.number.to_be_bytes() == number.as_slice()
        {
            kv.remove(table.name(), row)?;
        }
        kv.remove(EXPIRY, &entry)?;
    }
    Ok(())
}

fn target(entry: &[u8]) -> Option<(Table, &[u8])> {
    let (place, row) = entry.get(8..)?.split_first()?;
    Some((*Table::ALL.get(usize::from(*place))?, row))
}
