//! The contract on the storage that the simulation and the drivers' tests stand on, so that what they prove holds on the
//! real ones.
#![cfg(test)]

use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Op, OpResult, Query, Reading};
use echelon_core_testkit::store::ModelStore;
use echelon_io_storage::contract::{Case, Faults};
use echelon_io_storage::faulty::{Fault, FaultyStore};
use echelon_io_storage::{Durability, Status, Store, StoreError, check};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Model(Mutex<ModelStore>);

impl Model {
    fn done(&self, op: Op) -> Result<OpResult, StoreError> {
        check(&op)?;
        Ok(self.0.lock().unwrap().perform(op))
    }
}

#[async_trait]
impl Store for Model {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        match self.done(Op::Read(query, consistency))? {
            OpResult::Answer(answer) => Ok(answer.into()),
            OpResult::Partial(answer, unread) => Ok(Reading { answer, unread }),
            OpResult::Unread(row) => Err(StoreError::Unread(row)),
            other => panic!("{other:?}"),
        }
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        match self.done(Op::Decide(decision))? {
            OpResult::Decided(decided) => Ok(decided),
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        match self.done(Op::Commit(batch))? {
            OpResult::Committed => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    async fn status(&self) -> Result<Status, StoreError> {
        Ok(Status {
            place: "model".to_owned(),
            level: 1,
            known: 1,
        })
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.status().await
    }

    async fn durability(&self) -> Durability {
        let findings = Vec::new();
        Durability { findings }
    }
}

struct Lossy(Arc<FaultyStore<Model>>);

#[async_trait]
impl Faults for Lossy {
    async fn lose_answers(&self) {
        for _ in 0..100 {
            self.0.plan(0, |_| true, Fault::LoseAnswer);
        }
    }

    async fn answer(&self) {
        self.0.clear();
    }
}

async fn fresh() -> Case {
    let store = FaultyStore::new(Model::default());
    Case {
        store: Arc::clone(&store) as Arc<dyn Store>,
        faults: Arc::new(Lossy(store)),
        keep: Box::new(()),
    }
}

echelon_io_storage::storage_contract!(fresh);
