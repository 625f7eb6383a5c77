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

    fn card(file: &Path) -> PathBuf {
        PathBuf::from(format!("{}.card", file.display()))
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
            std::fs::copy(card(&file(folder.path())), card(&left)).unwrap();
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
            // The key of a bucket, by which its tag is kept, is shorter than that of a head.
            let keys = heads.iter().unwrap().map(|row| row.unwrap().0.value().to_vec());
            let broken: Vec<u8> = keys.max_by_key(Vec::len).unwrap();
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

    #[track_caller]
    fn refusal(file: &Path) -> String {
        match FileStore::open(file) {
            Ok(_) => panic!("{} was opened", file.display()),
            Err(error) => {
                assert!(!error.is_retryable(), "{}", error.chain());
                error.chain()
            }
        }
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::copy(from, to).unwrap();
        std::fs::copy(card(from), card(to)).unwrap();
    }

    /// Whatever is done to a file, it is either refused with its name and what to do, or everything is
    /// still there.
    #[tokio::test]
    async fn a_damaged_file_is_refused_or_whole() {
        const N: u64 = 20;
        let folder = tempfile::tempdir().unwrap();
        let whole = file(folder.path());
        let store = FileStore::open(&whole).unwrap();
        for n in 0..N {
            write(&store, n).await;
        }
        let killed = folder.path().join("killed.redb");
        copy(&whole, &killed);
        drop(store);
        let damages = damages(std::fs::metadata(&whole).unwrap().len());
        let damaged = folder.path().join("damaged.redb");
        let mut n_refused = 0;
        for from in [&whole, &killed] {
            for damage in &damages {
                copy(from, &damaged);
                let mut bytes = std::fs::read(&damaged).unwrap();
                let changes = damage.apply(&mut bytes);
                std::fs::write(&damaged, &bytes).unwrap();
                match FileStore::open(&damaged) {
                    Ok(store) => {
                        for n in 0..N {
                            assert_there(&store, n).await;
                        }
                        write(&store, N).await;
                        assert!(!matches!(damage, Damage::Cut(_)), "{damage:?} was opened");
                    }
                    Err(error) => {
                        let text = error.chain();
                        assert!(text.contains("damaged.redb"), "{damage:?}: {text}");
                        assert!(
                            text.contains("put the") && text.contains("`echelon storage accept`"),
                            "{damage:?}: {text}"
                        );
                        assert!(!error.is_retryable(), "{damage:?}: {text}");
                        assert!(changes, "{damage:?} changes nothing: {text}");
                        n_refused += 1;
                    }
                }
            }
        }
        // Much of a file is free pages and old copies of pages, where damage does no harm.
        assert!(
            n_refused > damages.len() / 2,
            "{n_refused} of {}",
            2 * damages.len()
        );
    }

    #[derive(Debug)]
    enum Damage {
        Cut(usize),
        Zero(usize),
        Flip(usize, u8),
        Swap(usize, usize),
    }

    const PAGE: usize = 4096;

    fn damages(length: u64) -> Vec<Damage> {
        let length = usize::try_from(length).unwrap();
        let pages = length / PAGE;
        let cuts = [
            1,
            2,
            9,
            64,
            200,
            319,
            PAGE - 1,
            PAGE,
            PAGE + 1,
            2 * PAGE,
            length / 2,
            length - PAGE,
            length - 1,
        ];
        let header = (0..320).map(|at| Damage::Flip(at, 1 << (at % 8)));
        let body =
            (1..pages).flat_map(|page| [0, 1, 9, 100, 2000].map(|at| Damage::Flip(page * PAGE + at, 0x40)));
        let zeros = (0..pages).map(|page| Damage::Zero(page * PAGE));
        let swaps = (2..pages).map(|page| Damage::Swap(page * PAGE, (page - 1) * PAGE));
        let cuts = cuts.into_iter().map(Damage::Cut);
        cuts.chain(header)
            .chain(body.step_by(7))
            .chain(zeros.step_by(3))
            .chain(swaps.step_by(11))
            .collect()
    }

    impl Damage {
        /// Whether anything is another than before.
        fn apply(&self, bytes: &mut Vec<u8>) -> bool {
            let before = bytes.clone();
            match *self {
                Self::Cut(length) => bytes.truncate(length),
                Self::Zero(at) => bytes[at..at + PAGE].fill(0),
                Self::Flip(at, bits) => bytes[at] ^= bits,
                Self::Swap(one, other) => {
                    let page = bytes[one..one + PAGE].to_vec();
                    bytes.copy_within(other..other + PAGE, one);
                    bytes[other..other + PAGE].copy_from_slice(&page);
                }
            }
            *bytes != before
        }
    }

    /// A file that is there but is not the one that was used last is refused, each with a word of its own.
    #[tokio::test]
    async fn a_file_that_does_not_belong_to_its_card_is_refused_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let (used, older, other) = (
            file(folder.path()),
            folder.path().join("older.redb"),
            folder.path().join("other.redb"),
        );
        drop(FileStore::open(&other).unwrap());
        let store = FileStore::open(&used).unwrap();
        write(&store, 1).await;
        copy(&used, &older);
        write(&store, 2).await;
        drop(store);
        let newest = std::fs::read(&used).unwrap();
        let said = std::fs::read(card(&used)).unwrap();
        type Change<'a> = Box<dyn Fn() + 'a>;
        let cases: [(&str, Change<'_>, bool); 6] = [
            (
                "is older than its card",
                Box::new(|| _ = std::fs::copy(&older, &used).unwrap()),
                true,
            ),
            (
                "is another storage",
                Box::new(|| _ = std::fs::copy(&other, &used).unwrap()),
                false,
            ),
            (
                "is missing or empty",
                Box::new(|| std::fs::remove_file(&used).unwrap()),
                false,
            ),
            (
                "is missing or empty",
                Box::new(|| std::fs::write(&used, "").unwrap()),
                false,
            ),
            (
                "has no card",
                Box::new(|| std::fs::remove_file(card(&used)).unwrap()),
                true,
            ),
            (
                "that cannot be read",
                Box::new(|| std::fs::write(card(&used), "x").unwrap()),
                true,
            ),
        ];
        for (expected, change, has_first) in cases {
            std::fs::write(&used, &newest).unwrap();
            std::fs::write(card(&used), &said).unwrap();
            change();
            let before = std::fs::read(&used).ok();
            let text = refusal(&used);
            assert!(
                text.contains(expected) && text.contains("`echelon storage accept`"),
                "{text}"
            );
            assert!(text.contains("echelon.redb"), "{text}");
            // Nothing becomes better by trying again, and nothing is made.
            assert_eq!(refusal(&used), text);
            assert_eq!(
                std::fs::read(&used).ok().is_some(),
                before.is_some(),
                "{expected}"
            );
            let store = FileStore::accept(&used).unwrap();
            assert!(!FileStore::is_new(&used), "{expected}: it was accepted");
            if has_first {
                assert_there(&store, 1).await;
            }
            write(&store, 3).await;
            drop(store);
            assert_there(&FileStore::open(&used).unwrap(), 3).await;
        }
    }

    #[tokio::test]
    async fn a_file_is_new_until_it_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        assert!(!FileStore::is_new(&path));
        drop(FileStore::open(&path).unwrap());
        assert!(FileStore::is_new(&path));
        // Nothing was acknowledged, so nothing is lost with it.
        std::fs::remove_file(&path).unwrap();
        let store = FileStore::open(&path).unwrap();
        write(&store, 1).await;
        assert!(!FileStore::is_new(&path));
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_a_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let inside = file(folder.path());
        assert!(refusal(folder.path()).contains("is a folder"));
        assert!(refusal(&inside.join("x/y")).contains("has no folder"));
        std::fs::write(&inside, "hello".repeat(1000)).unwrap();
        assert!(refusal(&inside).contains("is no storage file"));
        assert!(refusal(&inside.join("below")).contains("has no folder"));
    }
}
