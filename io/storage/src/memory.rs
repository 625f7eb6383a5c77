//! `memory:`: rows in this process, gone with it.

use crate::kv::{self, Kv, KvMut, KvRows, Visit, ready};
use crate::layout::{check_batch, check_decision};
use crate::read::read;
use crate::{Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Answer, Batch, Consistency, Decided, Decision, Query};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The schema of `memory:` and `file:`.
pub(crate) const SCHEMA: u32 = 1;

/// A storage in memory.
#[derive(Default)]
pub struct MemoryStore {
    maps: Mutex<Maps>,
}

#[derive(Default)]
struct Maps(BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>);

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A panic elsewhere leaves whole rows behind, so the maps are still good.
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine's clock: it only says when deletions may be forgotten and requests and events end.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Kv for Maps {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(table).and_then(|map| map.get(key)).cloned())
    }

    fn range(
        &self,
        table: &'static str,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        if nothing_between(from, to) {
            return Ok(());
        }
        for (key, value) in self
            .0
            .get(table)
            .into_iter()
            .flat_map(|m| m.range::<[u8], _>((from, to)))
        {
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

/// Whether a range is empty by its bounds alone, which `BTreeMap` would panic on.
fn nothing_between(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
    }
}

impl KvMut for Maps {
    fn put(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0
            .entry(table)
            .or_default()
            .insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), StoreError> {
        if let Some(map) = self.0.get_mut(table) {
            map.remove(key);
        }
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Answer, StoreError> {
        let maps = self.maps();
        ready(read(&KvRows(&*maps), &query, consistency))
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        let plan = check_decision(&decision)?;
        kv::decide(&mut *self.maps(), &decision, &plan, now())
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let rows = check_batch(&batch)?;
        kv::commit(&mut *self.maps(), batch.stamp, &rows, now())
    }

    async fn status(&self) -> Result<Status, StoreError> {
        Ok(Status {
            place: "memory:".to_owned(),
            version: SCHEMA,
            latest: SCHEMA,
        })
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.status().await
    }
}
