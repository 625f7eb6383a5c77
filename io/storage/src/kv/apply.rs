//! Decisions and batches applied to ordered maps. The caller makes each call atomic.

use super::codec::{Stored, key};
use super::{KvMut, KvRows, expiry, ready};
use crate::StoreError;
use crate::layout::pools::{self, TreeParts};
use crate::layout::{self, Becomes, Change, Plan, RowWrite, Table, Verdict, judge};
use crate::read::{TreeCache, index, present};
use crate::rows::RowKey;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Consistency, Decided, Decision, Stamp};
use std::collections::BTreeMap;

/// Carries out a decision that `layout::check_decision` has passed as `plan`.
pub(crate) fn decide<K: KvMut>(
    kv: &mut K,
    decision: &Decision,
    plan: &Plan,
    now: Timestamp,
) -> Result<Decided, StoreError> {
    expiry::sweep(kv, now)?;
    let there = |kv: &K| {
        let trees = TreeCache::default();
        ready(present(&KvRows(kv), decision, Consistency::Serial, &trees))
    };
    // A pool tree is judged by its index, and read whole only where another has put it.
    let (verdict, read) = match plan {
        Plan::Pools(tree) => (tree.judge(&ready(index(&KvRows(kv), Consistency::Serial))?), None),
        _ => {
            let there = there(kv)?;
            (judge(decision, &there), Some(there))
        }
    };
    match verdict {
        Verdict::Holds => Ok(Decided::Applied),
        Verdict::Taken => Ok(Decided::Conflict(Box::new(read.map_or_else(|| there(kv), Ok)?))),
        Verdict::Open => {
            write(kv, plan, now)?;
            Ok(Decided::Applied)
        }
    }
}

fn write<K: KvMut>(kv: &mut K, plan: &Plan, now: Timestamp) -> Result<(), StoreError> {
    match plan {
        Plan::Row(change) => set(kv, change, now),
        Plan::Pieces(pieces) => {
            for row in KvRows(kv).older(&pieces.all, i64::MAX)? {
                kv.remove(pieces.all.table.name(), &row)?;
            }
            for (at, value) in &pieces.rows {
                put(kv, at, pieces.version, Some(value))?;
            }
            Ok(())
        }
        Plan::Pools(tree) => put_pools(kv, tree, now),
        Plan::Raise { partition, epoch, .. } => put(kv, partition, *epoch, Some(&[])),
        Plan::Assign {
            partition,
            epoch,
            number,
            put: rows,
            remove,
        } => {
            put(kv, partition, *epoch, Some(&number.to_be_bytes()))?;
            let replaced = rows.iter().map(|rows| &rows.all);
            for all in replaced.chain(remove) {
                for row in KvRows(kv).older(all, i64::MAX)? {
                    kv.remove(all.table.name(), &row)?;
                }
            }
            for (at, value) in rows.iter().flat_map(|rows| &rows.pieces) {
                put(kv, at, *epoch, Some(value))?;
            }
            Ok(())
        }
    }
}

/// One transaction: what is replaced goes at once.
fn put_pools<K: KvMut>(kv: &mut K, tree: &TreeParts, now: Timestamp) -> Result<(), StoreError> {
    let before = ready(index(&KvRows(kv), Consistency::Serial))?;
    let next = before.replaced_by(tree);
    for name in next.beside(&before) {
        put(kv, &name.key(), pools::WRITTEN, Some(tree.bytes(name.part)))?;
    }
    for name in before.beside(&next) {
        let at = name.key();
        kv.remove(at.table.name(), &key(&at.cells))?;
    }
    set(kv, &next.change(before.version), now)
}

fn put<K: KvMut>(kv: &mut K, at: &RowKey, number: i64, value: Option<&[u8]>) -> Result<(), StoreError> {
    let stored = Stored {
        number,
        value: value.map(<[u8]>::to_vec),
    };
    kv.put(at.table.name(), &key(&at.cells), &stored.to_bytes())
}

fn set<K: KvMut>(kv: &mut K, change: &Change, now: Timestamp) -> Result<(), StoreError> {
    let Some((number, value)) = &change.to else {
        return kv.remove(change.at.table.name(), &key(&change.at.cells));
    };
    put(kv, &change.at, *number, Some(value))?;
    if let Some(tag) = change.tag {
        let partition = RowKey::new(change.at.table, change.at.partition().iter().cloned());
        put(kv, &partition, tag, None)?;
    }
    match change.keep_ms {
        Some(ms) => expiry::plan(kv, &change.at, *number, (now, ms)),
        None => Ok(()),
    }
}

/// Commits rows that `layout::check_batch` has passed.
pub(crate) fn commit<K: KvMut>(
    kv: &mut K,
    stamp: Stamp,
    rows: &[RowWrite],
    now: Timestamp,
) -> Result<(), StoreError> {
    expiry::sweep(kv, now)?;
    let mut floors: BTreeMap<RowKey, i64> = BTreeMap::new();
    for row in rows {
        let value = match &row.becomes {
            Becomes::Value(value) => Some(value.as_slice()),
            Becomes::Nothing => None,
            Becomes::Sealed => {
                seal(kv, &row.at, stamp.hides())?;
                continue;
            }
        };
        if stamp.packed() <= floor(kv, &mut floors, &row.at)? {
            continue;
        }
        let stamp = stamp.packed();
        let there = KvRows(kv).stored(&row.at)?;
        if there.is_some_and(|there| !replaces(stamp, value, &there)) {
            continue;
        }
        put(kv, &row.at, stamp, value)?;
        let keep = match value {
            None => Some(layout::DELETION_KEEP_MS),
            Some(_) => row.keep_ms(),
        };
        if let Some(ms) = keep {
            expiry::plan(kv, &row.at, stamp, (now, ms))?;
        }
    }
    Ok(())
}

/// Up to which stamp a row's partition hides everything; each partition is looked up once a batch.
fn floor<K: KvMut>(kv: &K, known: &mut BTreeMap<RowKey, i64>, at: &RowKey) -> Result<i64, StoreError> {
    // Only buckets of blocks, hosts, and what shards remember of themselves are ever sealed.
    if !matches!(at.table, Table::Instances | Table::Shards | Table::Hosts) {
        return Ok(i64::MIN);
    }
    let partition = RowKey::new(at.table, at.partition().iter().cloned());
    if let Some(floor) = known.get(&partition) {
        return Ok(*floor);
    }
    let sealed = KvRows(kv).stored(&partition)?;
    let floor = sealed.map_or(i64::MIN, |row| row.number);
    known.insert(partition, floor);
    Ok(floor)
}

/// Removes what a seal hides, deletions included, and keeps at the partition's own key up to where it hides: for ever, since
/// it is one small row a bucket. A seal of an older epoch changes nothing.
fn seal<K: KvMut>(kv: &mut K, partition: &RowKey, hides: i64) -> Result<(), StoreError> {
    let there = KvRows(kv).stored(partition)?;
    if there.is_some_and(|row| row.number >= hides) {
        return Ok(());
    }
    for row in KvRows(kv).older(partition, hides)? {
        kv.remove(partition.table.name(), &row)?;
    }
    put(kv, partition, hides, Some(&[]))
}

/// Whether a write replaces what is there. A stamp is used once, so equal ones mean the same write again; should they not,
/// every backend decides as Cassandra does: a deletion wins, then the larger value.
fn replaces(stamp: i64, value: Option<&[u8]>, there: &Stored) -> bool {
    match stamp.cmp(&there.number) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => match (&there.value, value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new > old.as_slice(),
        },
    }
}
