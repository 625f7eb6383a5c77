//! A store with a bound on the bytes of writes that are under way, so that a storage that is slow costs a
//! bounded amount of memory. Writes wait in the order in which they came.

use crate::{Durability, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{
    Batch, Consistency, Decided, Decision, Query, Reading, Role, Stamp, TroubleKind, Write,
};
use echelon_io_credit::{Credit, HeldCredit};
use echelon_proto::convert::{spec, wire_bytes};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Bytes of writes that a process has under way: twenty of the largest batches.
pub const WRITE_BYTES: usize = 16 << 20;

/// A write of no more than this is counted and does not wait: signs of life, epochs and marks go out while
/// large writes wait. Their senders have few of them at a time.
const SMALL: usize = 16 * 1024;

/// A row of a decision that is bounded, with its key: a head, a cluster, an epoch.
const ROW: usize = 4 * 1024;

/// A pool with its key.
const POOL: usize = 512;

/// A write that waits, by what makes it the same write when it is repeated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum WriteName {
    Batch(Role, Stamp),
    Assignments(u16, Stamp),
}

/// A store whose writes are bounded.
pub struct Bounded<S> {
    store: S,
    credit: Credit,
    /// Writes that wait for their turn. The same one again is answered at once, and does not wait beside it.
    waiting: Mutex<BTreeSet<WriteName>>,
}

/// A place among those that wait; left when it is dropped.
struct Place<'a> {
    waiting: &'a Mutex<BTreeSet<WriteName>>,
    name: WriteName,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&self.name);
    }
}

impl<S> Bounded<S> {
    /// Bounds a store. Clones of the credit tell what is under way.
    pub const fn new(store: S, credit: Credit) -> Self {
        Self {
            store,
            credit,
            waiting: Mutex::new(BTreeSet::new()),
        }
    }

    /// Waits for room.
    async fn room(&self, bytes: usize, name: Option<WriteName>) -> Result<HeldCredit, StoreError> {
        if bytes <= SMALL {
            return Ok(self.credit.take(bytes));
        }
        let place = name.map(|name| self.place(name)).transpose()?;
        let held = self.credit.wait_for(bytes).await;
        drop(place);
        Ok(held)
    }

    fn place(&self, name: WriteName) -> Result<Place<'_>, StoreError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.insert(name.clone()) {
            return Err(StoreError::Unavailable {
                what: "a write".to_owned(),
                may_be_done: true,
                kind: TroubleKind::Overloaded,
                source: "the same write waits already: storage is slower than what is to be written".into(),
            });
        }
        Ok(Place {
            waiting: &self.waiting,
            name,
        })
    }
}

/// The bytes that a batch takes.
fn batch_bytes(batch: &Batch) -> usize {
    batch.writes.iter().map(Write::weight).sum()
}

/// The bytes that a decision takes, with its name where it is repeated by drivers.
fn decision_bytes(decision: &Decision) -> (usize, Option<WriteName>) {
    match decision {
        Decision::PutSpec { spec, .. } => (ROW + wire_bytes(&spec::spec(spec)), None),
        Decision::PutPools { tree, .. } => (ROW + tree.pools.len() * POOL, None),
        Decision::PutAssignments {
            partition,
            stamp,
            put,
            remove,
        } => {
            let rows = put.iter().map(|assignment| ROW + assignment.weight());
            let bytes = rows.sum::<usize>() + remove.len() * ROW;
            (bytes, Some(WriteName::Assignments(*partition, *stamp)))
        }
        _ => (ROW, None),
    }
}

#[async_trait]
impl<S: Store> Store for Bounded<S> {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        self.store.read(query, consistency).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        let (bytes, name) = decision_bytes(&decision);
        let _held = self.room(bytes, name).await?;
        self.store.decide(decision).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let name = WriteName::Batch(batch.owner.clone(), batch.stamp);
        let _held = self.room(batch_bytes(&batch), Some(name)).await?;
        self.store.commit(batch).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.store.status().await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.store.migrate().await
    }

    async fn durability(&self) -> Durability {
        self.store.durability().await
    }

    async fn answers(&self) -> Result<(), String> {
        self.store.answers().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use echelon_core_model::store::{RawKey, ShardKey};
    use echelon_core_model::{ClusterId, Epoch};
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    const ONE: usize = 300 * 1024;

    /// A store whose commits end when the test lets them.
    struct Slow {
        rest: MemoryStore,
        ends: Semaphore,
        /// Commits that have reached the store, in order.
        reached: Mutex<Vec<u64>>,
        done: Mutex<Vec<u64>>,
    }

    #[async_trait]
    impl Store for Slow {
        async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
            self.rest.read(query, consistency).await
        }

        async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
            self.rest.decide(decision).await
        }

        async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
            self.reached.lock().unwrap().push(batch.stamp.sequence);
            self.ends.acquire().await.unwrap().forget();
            self.done.lock().unwrap().push(batch.stamp.sequence);
            Ok(())
        }

        async fn status(&self) -> Result<Status, StoreError> {
            self.rest.status().await
        }

        async fn migrate(&self) -> Result<Status, StoreError> {
            self.rest.migrate().await
        }

        async fn durability(&self) -> Durability {
            self.rest.durability().await
        }
    }

    fn batch(sequence: u64, bytes: usize) -> Batch {
        Batch {
            owner: Role::Shard(ClusterId::new("c")),
            stamp: Stamp {
                epoch: Epoch(1),
                sequence,
            },
            writes: vec![Write::Raw(RawKey::Shard(ShardKey::Own), vec![0; bytes])],
        }
    }

    fn slow() -> (Arc<Slow>, Arc<Bounded<Arc<Slow>>>, Credit) {
        let store = Arc::new(Slow {
            rest: MemoryStore::new(),
            ends: Semaphore::new(0),
            reached: Mutex::default(),
            done: Mutex::default(),
        });
        let credit = Credit::new(1 << 20);
        let bounded = Arc::new(Bounded::new(Arc::clone(&store), credit.clone()));
        (store, bounded, credit)
    }

    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn large_writes_to_a_slow_store_wait_in_order_and_small_ones_go_on() {
        let (store, bounded, credit) = slow();
        let mut tasks = Vec::new();
        for sequence in 1..=100 {
            let bounded = Arc::clone(&bounded);
            tasks.push(tokio::spawn(
                async move { bounded.commit(batch(sequence, ONE)).await },
            ));
        }
        settle().await;
        assert_eq!(*store.reached.lock().unwrap(), [1, 2, 3], "what fits into 1 MiB");
        let small = tokio::spawn({
            let bounded = Arc::clone(&bounded);
            async move { bounded.commit(batch(101, 100)).await }
        });
        settle().await;
        assert_eq!(*store.reached.lock().unwrap(), [1, 2, 3, 101]);
        assert!(credit.under_way() <= credit.bound() + SMALL, "{credit:?}");
        for _ in 0..101 {
            store.ends.add_permits(1);
            settle().await;
            assert!(credit.under_way() <= credit.bound() + SMALL, "{credit:?}");
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        small.await.unwrap().unwrap();
        let mut expected: Vec<u64> = vec![1, 2, 3, 101];
        expected.extend(4..=100);
        assert_eq!(*store.done.lock().unwrap(), expected, "each once, in order");
        assert_eq!(credit.under_way(), 0);
    }

    #[tokio::test]
    async fn a_repetition_of_what_waits_is_not_kept_beside_it() {
        let (store, bounded, credit) = slow();
        let commit = |sequence| {
            let bounded = Arc::clone(&bounded);
            tokio::spawn(async move { bounded.commit(batch(sequence, 900 * 1024)).await })
        };
        let (first, second) = (commit(1), commit(2));
        settle().await;
        let again = commit(2).await.unwrap().unwrap_err();
        assert!(again.may_be_done() && again.is_retryable(), "{again:?}");
        store.ends.add_permits(2);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        assert_eq!(*store.done.lock().unwrap(), [1, 2]);
        // It does not wait any more, so it may come again.
        store.ends.add_permits(1);
        commit(2).await.unwrap().unwrap();
        assert_eq!(credit.under_way(), 0);
    }

    #[tokio::test]
    async fn a_write_that_is_larger_than_the_bound_goes_alone() {
        let (store, bounded, _credit) = slow();
        store.ends.add_permits(1);
        bounded.commit(batch(1, 2 << 20)).await.unwrap();
    }
}
