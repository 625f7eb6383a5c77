//! The contract on `memory:` and `file:`, and what only a file can do.
#![cfg(test)]

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

mod only_a_file {
    use echelon_core_model::store::{Answer, Consistency, Decision, Query, Write};
    use echelon_core_model::{ClusterId, Version};
    use echelon_io_storage::contract::{batch, facts};
    use echelon_io_storage::{FileStore, LEVEL, Store, StoreError, open, open_checked};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    async fn write(store: &dyn Store, n: u64) {
        let head = facts::head(facts::job(n), 1);
        let expected = None;
        store.decide(Decision::PutHead { head, expected }).await.unwrap();
        let block = Write::Block(facts::block(facts::job(n), 0, &format!("h{n}")));
        store
            .commit(batch(&facts::shard("c1"), (1, n), vec![block]))
            .await
            .unwrap();
    }

    async fn assert_there(store: &dyn Store, n: u64) {
        let job = facts::job(n);
        let head = store.read(Query::Head(job), Consistency::Serial).await.unwrap();
        assert_eq!(head.answer, Answer::Head(Some(facts::head(job, 1))), "head {n}");
        let block = facts::block(job, 0, &format!("h{n}"));
        let bucket = Query::BlockBucket(ClusterId::new("c1"), block.key.bucket());
        let read = store.read(bucket, Consistency::Quorum).await.unwrap();
        let Answer::Blocks(blocks, _) = read.answer else {
            panic!("blocks")
        };
        assert!(blocks.contains(&block), "block {n}");
    }

    fn file(folder: &Path) -> PathBuf {
        folder.join("echelon.redb")
    }

    #[tokio::test]
    async fn a_file_opened_again_has_everything() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", file(folder.path()).display());
        for n in 0..5 {
            let store = open(&url).await.unwrap();
            write(&*store, n).await;
            for earlier in 0..=n {
                assert_there(&*store, earlier).await;
            }
        }
    }

    /// A process killed after an answer leaves the file as it is at that moment: nothing is closed or flushed.
    #[tokio::test]
    async fn a_file_that_was_never_closed_has_all_that_was_answered() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(&file(folder.path())).unwrap();
        for n in 0..20 {
            write(&store, n).await;
            let left = folder.path().join(format!("left-{n}.redb"));
            std::fs::copy(file(folder.path()), &left).unwrap();
            let reopened = FileStore::open(&left).unwrap();
            for earlier in 0..=n {
                assert_there(&reopened, earlier).await;
            }
            write(&reopened, 100 + n).await;
            assert_there(&reopened, 100 + n).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_many_write_at_once_is_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(FileStore::open(&file(folder.path())).unwrap());
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { write(&*store, n).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        drop(store);
        let store = FileStore::open(&file(folder.path())).unwrap();
        for n in 0..200 {
            assert_there(&store, n).await;
        }
    }

    #[tokio::test]
    async fn a_file_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(&file(folder.path())).unwrap();
        let error = FileStore::open(&file(folder.path())).err().unwrap();
        assert!(
            error.chain().contains("another process has it open"),
            "{}",
            error.chain()
        );
        drop(store);
        assert!(FileStore::open(&file(folder.path())).is_ok());
    }

    #[tokio::test]
    async fn a_file_of_another_level_is_refused_and_left_alone() {
        let meta = redb::TableDefinition::<&str, u32>::new("meta");
        for (level, said) in [
            (2, "an older build made it"),
            (LEVEL - 1, "an older build made it"),
            (LEVEL + 1, "a newer build made it"),
            (99, "a newer build made it"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("file:{}", file(folder.path()).display());
            drop(FileStore::open(&file(folder.path())).unwrap());
            let raw = redb::Database::open(file(folder.path())).unwrap();
            let transaction = raw.begin_write().unwrap();
            transaction
                .open_table(meta)
                .unwrap()
                .insert("schema", level)
                .unwrap();
            transaction.commit().unwrap();
            drop(raw);
            let error = open_checked(&url).await.err().unwrap();
            assert!(error.chain().contains(said), "{level}: {}", error.chain());
            let store = open(&url).await.unwrap();
            assert_eq!(store.status().await.unwrap().level, level);
            for refused in [
                store.migrate().await.err(),
                store.read(Query::Pools, Consistency::Quorum).await.err(),
            ] {
                let refused = refused.unwrap();
                assert!(
                    matches!(refused, StoreError::Level { found, .. } if found == level),
                    "{}",
                    refused.chain()
                );
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_such_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(file(folder.path()), "hello".repeat(1000)).unwrap();
        let error = FileStore::open(&file(folder.path())).err().unwrap();
        assert!(error.chain().contains("echelon.redb"), "{}", error.chain());
        assert!(FileStore::open(&folder.path().join("no/such/folder/f")).is_err());
    }

    /// A row that this build does not understand is an error of its readers alone.
    #[tokio::test]
    async fn a_row_that_cannot_be_read_is_named_and_hides_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(&file(folder.path())).unwrap();
        write(&store, 1).await;
        write(&store, 2).await;
        drop(store);
        let names = redb::TableDefinition::<&[u8], &[u8]>::new("heads");
        let raw = redb::Database::open(file(folder.path())).unwrap();
        let transaction = raw.begin_write().unwrap();
        {
            use redb::ReadableTable;
            let mut heads = transaction.open_table(names).unwrap();
            let broken: Vec<u8> = {
                let (key, _) = heads.first().unwrap().unwrap();
                key.value().to_vec()
            };
            heads
                .insert(broken.as_slice(), [0, 0, 0, 0, 0, 0, 0, 1, 1, 0xff].as_slice())
                .unwrap();
        }
        transaction.commit().unwrap();
        drop(raw);
        let store = FileStore::open(&file(folder.path())).unwrap();
        let mut outcomes = Vec::new();
        for n in [1, 2] {
            let head = facts::head(facts::job(n), 2);
            let expected = Some(Version(1));
            let change = store.decide(Decision::PutHead { head, expected }).await;
            outcomes.push(match change {
                Ok(_) => "changed",
                Err(StoreError::Unread(row)) if row.table == "heads" => "named",
                Err(other) => panic!("{}", other.chain()),
            });
        }
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["changed", "named"]);
    }
}
