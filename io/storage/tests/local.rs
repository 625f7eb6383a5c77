//! The contract on `memory:` and `file:`, and what only a file can do.

use async_trait::async_trait;
use echelon_io_storage::contract::{Case, Faults};
use echelon_io_storage::faulty::{Fault, FaultyStore};
use echelon_io_storage::{FileStore, MemoryStore, Store};
use std::sync::Arc;

/// Loses answers on the way out of a store that always gives them.
struct Lossy<S>(Arc<FaultyStore<S>>);

#[async_trait]
impl<S: Store + 'static> Faults for Lossy<S> {
    async fn lose_answers(&self) {
        for _ in 0..100 {
            self.0.plan(0, |_| true, Fault::LoseAnswer);
        }
    }

    async fn answer(&self) {
        self.0.clear();
    }
}

fn case<S: Store + 'static>(store: S, keep: impl Send + Sync + 'static) -> Case {
    let store = FaultyStore::new(store);
    Case {
        store: Arc::clone(&store) as Arc<dyn Store>,
        faults: Arc::new(Lossy(store)),
        keep: Box::new(keep),
    }
}

mod memory {
    use super::*;

    async fn fresh() -> Case {
        case(MemoryStore::new(), ())
    }

    echelon_io_storage::storage_contract!(fresh);
}

mod file {
    use super::*;

    async fn fresh() -> Case {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(&folder.path().join("echelon.redb")).unwrap();
        case(store, folder)
    }

    echelon_io_storage::storage_contract!(fresh);
}
