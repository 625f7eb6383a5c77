//! A store that fails or stalls where a test says so, before or after the operation took effect.

use crate::{Durability, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Op, Query, Reading};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and was not done.
    Fail,
    /// It is done and its answer is lost.
    LoseAnswer,
    /// It waits until the test lets it go, then is done.
    StallBefore,
    /// It is done and its answer waits until the test lets it go.
    StallAfter,
}

type Choice = dyn Fn(&Op) -> bool + Send;

struct Planned {
    matching: Box<Choice>,
    /// Matching operations that pass first.
    pass: usize,
    fault: Fault,
}

/// Wraps a store. Without a plan every operation passes.
pub struct FaultyStore<S> {
    store: S,
    plan: Mutex<Vec<Planned>>,
    stalled: Notify,
    go: Notify,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store.
    pub fn new(store: S) -> Arc<Self> {
        Arc::new(Self {
            store,
            plan: Mutex::default(),
            stalled: Notify::new(),
            go: Notify::new(),
        })
    }

    /// Lets the `nth` operation from now (from 0) of those that match meet a fault, once.
    pub fn plan(&self, nth: usize, matching: impl Fn(&Op) -> bool + Send + 'static, fault: Fault) {
        self.planned().push(Planned {
            matching: Box::new(matching),
            pass: nth,
            fault,
        });
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        self.planned().clear();
    }

    /// Waits until an operation stalls.
    pub async fn stalled(&self) {
        self.stalled.notified().await;
    }

    /// Lets a stalled operation go on.
    pub fn let_go(&self) {
        self.go.notify_one();
    }

    /// The store inside, which has no faults.
    pub const fn inner(&self) -> &S {
        &self.store
    }

    fn planned(&self) -> std::sync::MutexGuard<'_, Vec<Planned>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that an operation meets. All plans that match count it.
    fn meets(&self, op: &Op) -> Option<Fault> {
        let mut plans = self.planned();
        let mut met = None;
        plans.retain_mut(|planned| {
            if !(planned.matching)(op) {
                return true;
            }
            match planned.pass.checked_sub(1) {
                Some(left) => planned.pass = left,
                None if met.is_none() => {
                    met = Some(planned.fault);
                    return false;
                }
                None => {}
            }
            true
        });
        met
    }

    async fn stall(&self) {
        self.stalled.notify_one();
        self.go.notified().await;
    }

    async fn before(&self, op: &Op) -> Result<Option<Fault>, StoreError> {
        let fault = self.meets(op);
        match fault {
            Some(Fault::Fail) => Err(StoreError::undone("the operation", "the test lets it fail")),
            Some(Fault::StallBefore) => {
                self.stall().await;
                Ok(fault)
            }
            _ => Ok(fault),
        }
    }

    async fn after<T>(&self, fault: Option<Fault>, done: Result<T, StoreError>) -> Result<T, StoreError> {
        match fault {
            Some(Fault::LoseAnswer) => Err(StoreError::unknown("the operation", "the test loses its answer")),
            Some(Fault::StallAfter) => {
                self.stall().await;
                done
            }
            _ => done,
        }
    }
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        let fault = self.before(&Op::Read(query.clone(), consistency)).await?;
        let done = self.store.read(query, consistency).await;
        self.after(fault, done).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        let fault = self.before(&Op::Decide(decision.clone())).await?;
        let done = self.store.decide(decision).await;
        self.after(fault, done).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let fault = self.before(&Op::Commit(batch.clone())).await?;
        let done = self.store.commit(batch).await;
        self.after(fault, done).await
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::contract::facts;
    use echelon_core_model::store::{Answer, OpResult};

    fn put(n: u64) -> Op {
        let head = facts::head(facts::job(n), 1);
        let expected = None;
        Op::Decide(Decision::PutHead { head, expected })
    }

    async fn there(store: &FaultyStore<MemoryStore>, n: u64) -> bool {
        let query = Query::Head(facts::job(n));
        let read = store.inner().read(query, Consistency::Serial).await.unwrap();
        matches!(read.answer, Answer::Head(Some(_)))
    }

    #[tokio::test]
    async fn the_nth_matching_operation_meets_the_fault_once() {
        let store = FaultyStore::new(MemoryStore::new());
        store.plan(1, |op| matches!(op, Op::Decide(_)), Fault::Fail);
        store.plan(2, |op| matches!(op, Op::Decide(_)), Fault::LoseAnswer);
        let read = || store.perform(Op::Read(Query::Clusters, Consistency::Quorum));
        assert_eq!(store.perform(put(0)).await, OpResult::Decided(Decided::Applied));
        assert!(matches!(read().await, OpResult::Answer(_)));
        for (n, may_be_done) in [(1, false), (2, true)] {
            let OpResult::Failed(failure) = store.perform(put(n)).await else {
                panic!("operation {n} met no fault")
            };
            assert_eq!(
                (failure.may_be_done(), there(&store, n).await),
                (may_be_done, may_be_done)
            );
        }
        assert_eq!(store.perform(put(3)).await, OpResult::Decided(Decided::Applied));
    }

    #[tokio::test]
    async fn a_stalled_operation_waits_before_or_after_its_effect() {
        for (fault, before) in [(Fault::StallBefore, false), (Fault::StallAfter, true)] {
            let store = FaultyStore::new(MemoryStore::new());
            store.plan(0, |_| true, fault);
            let asked = Arc::clone(&store);
            let task = tokio::spawn(async move { asked.perform(put(1)).await });
            store.stalled().await;
            assert_eq!(there(&store, 1).await, before, "{fault:?}");
            store.let_go();
            assert_eq!(task.await.unwrap(), OpResult::Decided(Decided::Applied));
            assert!(there(&store, 1).await);
        }
    }
}
