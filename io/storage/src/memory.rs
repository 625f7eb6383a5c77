//! `memory:`: rows in this process, gone with it.

use crate::kv::{self, Kv, KvMut, KvRows, Visit, ready};
use crate::layout::{check_batch, check_decision};
use crate::read::{TreeCache, read};
use crate::{Durability, Finding, LEVEL, Standing, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::Timestamp;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query, Reading};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A storage in memory.
#[derive(Default)]
pub struct MemoryStore {
    maps: Mutex<Maps>,
    trees: TreeCache,
}

/// Rows by key, by table.
type Tables = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Default)]
struct Maps(Tables);

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
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        let maps = self.maps();
        ready(read(&KvRows(&*maps), &query, consistency, &self.trees))
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
        Ok(Status::new("memory:".to_owned(), LEVEL))
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.status().await
    }

    async fn durability(&self) -> Durability {
        let text = "everything is in this process's memory and lost with it";
        Durability {
            findings: vec![Finding::new("copies", Standing::Weak, text)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{batch, facts};
    use crate::kv::EXPIRY;
    use echelon_core_model::pool::PoolTree;
    use echelon_core_model::store::{PlannedRequest, Role, Write};
    use echelon_core_model::{RequestId, Span, Version};

    const HOUR: Span = Span::minutes(60);

    fn commit(maps: &mut Maps, owner: &Role, stamp: (u64, u64), write: Write, at: Timestamp) {
        let batch = batch(owner, stamp, vec![write]);
        let rows = check_batch(&batch).unwrap();
        kv::commit(maps, batch.stamp, &rows, at).unwrap();
    }

    fn rows(maps: &Maps, table: &str) -> usize {
        maps.0.get(table).map_or(0, BTreeMap::len)
    }

    fn later(hours: u64) -> Timestamp {
        Timestamp(1_000_000).plus(Span(HOUR.0 * hours))
    }

    #[test]
    fn deletions_are_kept_for_a_day() {
        let (mut maps, c1) = (Maps::default(), facts::shard("c1"));
        let host = |n| Write::Host(facts::host(n, 1));
        let gone = Write::RemoveHost(echelon_core_model::HostId::new("h"));
        commit(&mut maps, &c1, (1, 1), host("h"), later(0));
        commit(&mut maps, &c1, (1, 2), gone, later(0));
        commit(&mut maps, &c1, (1, 1), host("h"), later(23));
        assert_eq!(
            rows(&maps, "hosts"),
            1,
            "the deletion, which hides the late write"
        );
        commit(&mut maps, &c1, (1, 3), host("other"), later(25));
        assert_eq!((rows(&maps, "hosts"), rows(&maps, EXPIRY)), (1, 0));
    }

    #[test]
    fn what_was_written_again_after_its_deletion_stays() {
        let (mut maps, c1) = (Maps::default(), facts::shard("c1"));
        let gone = Write::RemoveHost(echelon_core_model::HostId::new("h"));
        commit(&mut maps, &c1, (1, 1), gone, later(0));
        commit(&mut maps, &c1, (1, 2), Write::Host(facts::host("h", 1)), later(1));
        commit(
            &mut maps,
            &c1,
            (1, 3),
            Write::Host(facts::host("other", 1)),
            later(30),
        );
        assert_eq!((rows(&maps, "hosts"), rows(&maps, EXPIRY)), (2, 0));
    }

    /// Counts what is written and removed.
    #[derive(Default)]
    struct Counted {
        maps: Maps,
        written: Vec<&'static str>,
        removed: Vec<&'static str>,
    }

    impl Kv for Counted {
        fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.maps.get(table, key)
        }

        fn range(
            &self,
            table: &'static str,
            range: (Bound<&[u8]>, Bound<&[u8]>),
            visit: &mut Visit<'_>,
        ) -> Result<(), StoreError> {
            self.maps.range(table, range, visit)
        }
    }

    impl KvMut for Counted {
        fn put(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
            self.written.push(table);
            self.maps.put(table, key, value)
        }

        fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), StoreError> {
            self.removed.push(table);
            self.maps.remove(table, key)
        }
    }

    fn put_tree<K: KvMut>(kv: &mut K, tree: &PoolTree) -> Decided {
        let expected = Version(tree.version.0 - 1);
        let tree = tree.clone();
        let decision = Decision::PutPools { tree, expected };
        let plan = check_decision(&decision).unwrap();
        kv::decide(kv, &decision, &plan, later(0)).unwrap()
    }

    #[test]
    fn a_change_of_one_pool_of_10_000_writes_two_rows() {
        let mut counted = Counted::default();
        let mut tree = facts::largest_tree(1);
        assert_eq!(put_tree(&mut counted, &tree), Decided::Applied);
        assert_eq!(counted.written.len(), 257, "all parts and the index");
        counted.written.clear();
        tree.version = Version(2);
        tree.pools.values_mut().nth(5_000).unwrap().max_jobs = 1;
        assert_eq!(put_tree(&mut counted, &tree), Decided::Applied);
        assert_eq!(counted.written, ["pool_parts", "pool_index"]);
        assert_eq!(counted.removed, ["pool_parts"], "what it replaces");
        assert_eq!(put_tree(&mut counted, &tree), Decided::Applied);
        assert_eq!(counted.written.len(), 2, "again it writes nothing");
        assert_eq!(rows(&counted.maps, "pool_parts"), 256);
    }

    /// A storage that was restored in part names what it has not.
    #[tokio::test]
    async fn a_tree_of_which_rows_are_missing_or_damaged_is_not_read() {
        let read = async |spoil: &dyn Fn(&mut Tables)| {
            let store = MemoryStore::new();
            put_tree(&mut *store.maps(), &facts::largest_tree(1));
            spoil(&mut store.maps().0);
            let error = store.read(Query::Pools, Consistency::Quorum).await.unwrap_err();
            error.chain()
        };
        let missing = read(&|maps| drop(maps.get_mut("pool_parts").unwrap().pop_first())).await;
        for told in [
            "the index names part 0 of version 1, and it is not there",
            "of table pool_parts",
        ] {
            assert!(missing.contains(told), "{missing}");
        }
        let spoil = |table: &'static str| {
            move |maps: &mut Tables| {
                let row = maps.get_mut(table).unwrap().values_mut().next().unwrap();
                row.truncate(row.len() - 1);
            }
        };
        for table in ["pool_parts", "pool_index"] {
            let damaged = read(&spoil(table)).await;
            assert!(damaged.contains(table), "{damaged}");
        }
    }

    #[test]
    fn requests_go_after_a_day_and_events_after_a_month() {
        let mut maps = Maps::default();
        let plan = |id: &str| Decision::PlanRequest {
            id: RequestId::new(id),
            planned: PlannedRequest {
                job: facts::job(1),
                hash: 1,
                at: later(0),
            },
        };
        let decide = |maps: &mut Maps, id: &str, at| {
            let decision = plan(id);
            let plan = check_decision(&decision).unwrap();
            kv::decide(maps, &decision, &plan, at).unwrap()
        };
        decide(&mut maps, "a", later(0));
        let event = Write::Event(facts::event(facts::job(1), 5, "x"));
        let batch = batch(&Role::ResourceManager, (1, 1), vec![event, Write::NoteEvents(0)]);
        kv::commit(&mut maps, batch.stamp, &check_batch(&batch).unwrap(), later(0)).unwrap();
        decide(&mut maps, "b", later(23));
        assert_eq!((rows(&maps, "requests"), rows(&maps, "events")), (2, 1));
        decide(&mut maps, "c", later(25));
        assert_eq!((rows(&maps, "requests"), rows(&maps, "events")), (2, 1));
        decide(&mut maps, "d", later(24 * 30 + 1));
        assert_eq!((rows(&maps, "requests"), rows(&maps, "events")), (1, 0));
    }
}
