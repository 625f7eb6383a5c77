use super::*;
use proptest::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// A pool with a number in it.
fn pool(id: &str, path: &str, n: u64) -> Pool {
    Pool {
        max_jobs: n,
        ..Pool::new(PoolId::new(id), path)
    }
}

fn tree(version: u64, pools: impl IntoIterator<Item = Pool>) -> PoolTree {
    PoolTree {
        version: Version(version),
        pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
    }
}

fn parts(tree: &PoolTree) -> TreeParts {
    TreeParts::of(tree, Version(tree.version.0 - 1))
}

/// `n` pools, one of which has another number than the others.
fn many(version: u64, n: usize, other: usize) -> PoolTree {
    let one = |i: usize| pool(&format!("id{i}"), &format!("/p{i}"), u64::from(i == other));
    tree(version, (0..n).map(one))
}

#[test]
fn a_change_of_one_pool_of_10_000_is_one_part() {
    let (before, after) = (many(1, 10_000, 10_000), many(2, 10_000, 77));
    let first = PoolIndex::default().replaced_by(&parts(&before));
    let second = first.replaced_by(&parts(&after));
    let written: Vec<PartName> = second.beside(&first).collect();
    let expected = (part_of(&PoolId::new("id77")), 2);
    assert_eq!(
        written.iter().map(|n| (n.part, n.version)).collect::<Vec<_>>(),
        [expected]
    );
    assert_eq!(first.beside(&second).count(), 1, "and replaces one");
    assert_eq!(first.parts().count(), usize::from(PARTS));
}

#[test]
fn parts_never_change() {
    // The numbers of parts are stored.
    assert_eq!(
        ["a", "b", "id77"].map(|id| part_of(&PoolId::new(id))),
        [192, 233, 35]
    );
    assert_eq!(digest(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    assert_eq!(digest(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
}

#[test]
fn an_index_reads_back_and_half_of_one_is_none() {
    let first = PoolIndex::default().replaced_in_steps(&parts(&many(1, 300, 0)), &BTreeSet::new());
    let second = first.replaced_in_steps(&parts(&many(2, 300, 1)), &BTreeSet::new());
    for index in [PoolIndex::default(), first, second] {
        let bytes = index.to_bytes();
        assert_eq!(PoolIndex::of_bytes(&bytes), Some(index));
        // It may end after any pair of versions with parts left behind.
        let short = bytes.get(..bytes.len() - 1).unwrap();
        assert_eq!(PoolIndex::of_bytes(short), None);
    }
    assert_eq!(PoolIndex::of_bytes(&[]), None);
    let mut twice = PoolIndex::default()
        .replaced_by(&parts(&many(1, 1, 0)))
        .to_bytes();
    twice[13] = 2;
    let again = twice[14..40].to_vec();
    twice.extend(again);
    assert_eq!(PoolIndex::of_bytes(&twice), None, "a part that is there twice");
}

#[test]
fn the_list_of_what_is_left_behind_stays_short() {
    let mut index = PoolIndex::default();
    let mut longest = 0;
    for version in 1..1_500_u64 {
        // Every 300th change is one of all pools.
        let n = usize::try_from(version).unwrap();
        let mut next = many(version, 600, n % 600);
        let round = version / 300;
        next.pools.values_mut().for_each(|p| p.max_instances = round);
        let due = index.due();
        index = index.replaced_in_steps(&parts(&next), &due);
        longest = longest.max(index.left.len());
    }
    assert!(longest <= 2 * usize::from(PARTS), "{longest}");
    assert!(index.to_bytes().len() < 16 * 1024);
}

/// Rows that are written one by one. Before each step it is the others' turn.
#[derive(Default)]
struct Steps(Mutex<Stored>);

#[derive(Default)]
struct Stored {
    index: PoolIndex,
    parts: BTreeMap<PartName, Vec<u8>>,
    deleted: BTreeSet<PartName>,
}

/// Waits until it is polled again.
async fn turn() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Steps {
    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap()
    }

    /// Every part that the index names is there, with what its digest says.
    fn check(&self) -> Result<(), TestCaseError> {
        let stored = self.stored();
        for name in stored.index.parts() {
            let bytes = stored.parts.get(&name).map(|bytes| digest(bytes));
            prop_assert_eq!(bytes, Some(name.digest), "{:?}", name);
        }
        Ok(())
    }
}

#[async_trait]
impl PartRows for Steps {
    async fn index(&self) -> Result<PoolIndex, StoreError> {
        turn().await;
        Ok(self.stored().index.clone())
    }

    async fn write(&self, name: PartName, bytes: &[u8]) -> Result<(), StoreError> {
        // Of those at once some are written before others.
        for _ in 0..=name.digest % 3 {
            turn().await;
        }
        let mut stored = self.stored();
        // By its stamp a deletion stays.
        if !stored.deleted.contains(&name) {
            stored.parts.insert(name, bytes.to_vec());
        }
        Ok(())
    }

    async fn written_by(&self, version: i64) -> Result<Vec<PartName>, StoreError> {
        turn().await;
        let stored = self.stored();
        Ok(stored
            .parts
            .keys()
            .filter(|n| n.version == version)
            .copied()
            .collect())
    }

    async fn delete(&self, name: PartName) -> Result<(), StoreError> {
        turn().await;
        let mut stored = self.stored();
        stored.parts.remove(&name);
        stored.deleted.insert(name);
        Ok(())
    }

    async fn set(&self, change: &Change) -> Result<bool, StoreError> {
        turn().await;
        let mut stored = self.stored();
        let (_, bytes) = change.to.as_ref().unwrap();
        let applies = change.expected.unwrap_or_default() == stored.index.version;
        if applies {
            stored.index = PoolIndex::of_bytes(bytes).unwrap();
        }
        Ok(applies)
    }
}

type Writing<'a> = Pin<Box<dyn Future<Output = Result<Verdict, StoreError>> + Send + 'a>>;

/// A writer that changes some pools of what it finds, until it is stopped.
async fn change(store: &Steps, seed: u64) -> Result<Verdict, StoreError> {
    let before = store.index().await?;
    let version = u64::try_from(before.version).unwrap() + 1;
    let all = (0..40_u64).map(|n| pool(&format!("id{n}"), &format!("/p{n}"), (seed >> (n % 7)) & 3));
    put(store, &parts(&tree(version, all))).await
}

fn poll(writing: &mut Writing<'_>) -> Poll<Result<Verdict, StoreError>> {
    writing.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Three writers take steps in any order, and any of them may crash between two steps: no part that the
    /// stored index names is ever missing, and what is left behind goes in the end.
    #[test]
    fn no_part_that_an_index_names_is_ever_deleted(
        steps in prop::collection::vec((0..3_usize, any::<u64>(), 0..100_u32), 200..1_500),
    ) {
        let store = Steps::default();
        let mut writers: [Option<Writing<'_>>; 3] = [None, None, None];
        for (number, seed, luck) in steps {
            let writer = &mut writers[number];
            if luck == 0 {
                // It crashes.
                *writer = None;
                continue;
            }
            let writing = writer.get_or_insert_with(|| Box::pin(change(&store, seed)));
            if poll(writing).is_ready() {
                *writer = None;
            }
            store.check()?;
        }
        writers = [None, None, None];
        for seed in 0..3 * VERSIONS_KEPT.unsigned_abs() {
            let mut last: Writing<'_> = Box::pin(change(&store, seed % 4));
            while poll(&mut last).is_pending() {
                store.check()?;
            }
        }
        drop(writers);
        let stored = store.stored();
        let kept = stored.index.version - VERSIONS_KEPT;
        let orphans = stored.parts.keys().filter(|n| n.version < kept && !stored.index.names(**n));
        let listed = |n: &&PartName| stored.index.left.contains_key(&n.version);
        prop_assert_eq!(orphans.filter(|n| !listed(n)).count(), 0);
        // The list is processed: what is due is deleted with the next change.
        prop_assert!(stored.index.left.values().all(|at| *at >= kept));
    }
}

/// An answer that is lost is settled by the same decision again.
#[test]
fn what_was_set_before_a_crash_holds_when_it_is_put_again() {
    let store = Steps::default();
    let new = parts(&many(1, 3, 0));
    let run = |tree: &TreeParts| {
        let mut writing: Writing<'_> = Box::pin(put(&store, tree));
        loop {
            if let Poll::Ready(done) = poll(&mut writing) {
                return done.unwrap();
            }
        }
    };
    assert_eq!(run(&new), Verdict::Holds);
    assert_eq!(run(&new), Verdict::Holds);
    assert_eq!(run(&parts(&many(1, 3, 1))), Verdict::Taken);
}
