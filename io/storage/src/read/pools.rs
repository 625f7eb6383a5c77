//! The pool tree, from its index and its parts. A reader keeps the last tree that it read: it reads the index
//! again, and of the parts only those that are others.

use super::{AT_ONCE, value};
use crate::StoreError;
use crate::layout::keys;
use crate::layout::pools::{PartName, PoolIndex, assemble};
use crate::rows::{RowKey, Rows};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::store::{Consistency, UnreadRow};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a part may be missing: it was deleted after the index was read, or will never be there.
const TRIES: usize = 3;

/// The last tree that was read, with its index.
#[derive(Default)]
pub(crate) struct TreeCache(Mutex<Arc<(PoolIndex, PoolTree)>>);

impl TreeCache {
    fn get(&self) -> Arc<(PoolIndex, PoolTree)> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, read: Arc<(PoolIndex, PoolTree)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }
}

/// The index; that of the empty tree where none was ever set.
pub(crate) async fn index<R: Rows>(rows: &R, c: Consistency) -> Result<PoolIndex, StoreError> {
    let at = keys::pool_index();
    let Some(row) = rows.row(&at, c).await? else {
        return Ok(PoolIndex::default());
    };
    PoolIndex::of_bytes(&row.value).ok_or_else(|| {
        StoreError::Unread(Box::new(UnreadRow {
            table: at.table.name(),
            key: at.to_string(),
            subject: keys::subject(&at),
            bytes: row.value,
            why: "it is no index of a pool tree".to_owned(),
        }))
    })
}

/// The tree, as one index names it.
pub(crate) async fn tree<R: Rows>(
    rows: &R,
    cache: &TreeCache,
    c: Consistency,
) -> Result<PoolTree, StoreError> {
    let mut missing = None;
    for _ in 0..TRIES {
        let index = index(rows, c).await?;
        let known = cache.get();
        if index == known.0 {
            return Ok(known.1.clone());
        }
        let changed: Vec<PartName> = index.beside(&known.0).collect();
        let read = stream::iter(changed)
            .map(|name| async move { Ok::<_, StoreError>((name, part(rows, name).await?)) })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<_>>();
        let mut parts = BTreeMap::new();
        missing = None;
        for (name, found) in read.await? {
            match found {
                Some(pools) => drop(parts.insert(name.part, pools)),
                None => missing = Some(name),
            }
        }
        if missing.is_some() {
            continue;
        }
        let tree = assemble(&index, &known.1, &parts).map_err(|found| {
            let why = format!("its parts have {found} pools, its index counts {}", index.pools);
            unread(&keys::pool_index(), why)
        })?;
        let read = Arc::new((index, tree));
        cache.set(Arc::clone(&read));
        return Ok(read.1.clone());
    }
    Err(missing.map_or_else(
        || StoreError::undone("reading the pool tree", "its index kept changing"),
        |name: PartName| {
            let PartName { part, version, .. } = name;
            let why = format!("the index names part {part} of version {version}, and it is not there");
            unread(&name.key(), why)
        },
    ))
}

/// A row of the tree that is damaged or missing.
fn unread(at: &RowKey, why: String) -> StoreError {
    StoreError::Unread(Box::new(UnreadRow {
        table: at.table.name(),
        key: at.to_string(),
        subject: keys::subject(at),
        bytes: Vec::new(),
        why,
    }))
}

/// A part, if it is there. Parts are never changed, so that a majority says all.
async fn part<R: Rows>(rows: &R, name: PartName) -> Result<Option<PoolTree>, StoreError> {
    let at = name.key();
    let row = rows.row(&at, Consistency::Quorum).await?;
    row.map(|row| value(&at, &row.value))
        .transpose()
        .map_err(StoreError::Unread)
}
