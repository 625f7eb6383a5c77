//! Seals: once a newer epoch has sealed a bucket, no older write is ever visible in it, before or after, whether or not
//! anybody ever wrote there.

use super::Case;
use super::blocks::group_blocks;
use super::facts::{block, host_of, job, key, main_group, shard};
use echelon_core_model::bucket::BLOCK_BUCKETS;
use echelon_core_model::instance::{BlockKey, SliceRow};
use echelon_core_model::store::{Answer, Query, Write};
use echelon_core_model::{ClusterId, JobId};

fn bucket_of(job: JobId) -> u16 {
    key(job, 0).bucket()
}

async fn hosts_in(case: &Case, cluster: &str, bucket: u16) -> Vec<String> {
    let query = Query::BlockBucket(ClusterId::new(cluster), bucket);
    match case.read(query).await {
        Answer::Blocks(blocks, _) => blocks.iter().map(host_of).collect(),
        other => panic!("{other:?}"),
    }
}

async fn host_there(case: &Case, of: JobId) -> Option<String> {
    match case.read(group_blocks("c1", of, 0..=0)).await {
        Answer::Blocks(blocks, _) => blocks.first().map(host_of),
        other => panic!("{other:?}"),
    }
}

fn put(of: JobId, host: &str) -> Write {
    Write::Block(block(of, 0, host))
}

/// The older writer may be told; what it may not do is to be seen.
async fn late(case: &Case, stamp: (u64, u64), writes: Vec<Write>) {
    drop(case.store.commit(super::batch(&shard("c1"), stamp, writes)).await);
}

/// Blocks and slice rows of older epochs are gone with the seal, and what comes late never shows: not where nobody had
/// written before, not after a restart of the sealing, not by a deletion.
pub async fn a_sealed_bucket_hides_what_nobody_wrote_back(case: &Case) {
    let (c1, bucket) = (shard("c1"), bucket_of(job(1)));
    let slice = SliceRow::new(job(1), main_group());
    case.commits(&c1, (1, 1), vec![put(job(1), "old")]).await;
    case.commits(
        &c1,
        (2, 1),
        vec![Write::Seal(bucket), Write::Seal(slice.bucket())],
    )
    .await;
    assert_eq!(host_there(case, job(1)).await, None);
    for sequence in [2, (1 << 40) - 1] {
        let writes = vec![put(job(1), "late"), Write::Slice(slice.clone())];
        late(case, (1, sequence), writes).await;
    }
    let nothing = Answer::Blocks(Vec::new(), Vec::new());
    assert_eq!(case.read(group_blocks("c1", job(1), 0..=9)).await, nothing);
    assert_eq!(hosts_in(case, "c1", bucket).await, Vec::<String>::new());
    // A newer leader writes as it likes; what is older than it stays hidden, an older seal included.
    case.commits(&c1, (2, 2), vec![put(job(1), "new")]).await;
    late(case, (1, 7), vec![Write::Seal(bucket)]).await;
    late(case, (1, 8), vec![Write::RemoveBlock(key(job(1), 0))]).await;
    assert_eq!(host_there(case, job(1)).await.as_deref(), Some("new"));
}

/// A seal and what it keeps are one batch, in whatever order it names them; and the same batch again is harmless.
pub async fn a_seal_keeps_what_its_own_epoch_wrote(case: &Case) {
    let (c1, bucket) = (shard("c1"), bucket_of(job(1)));
    case.commits(&c1, (1, 1), vec![put(job(1), "old")]).await;
    let seal = vec![Write::Seal(bucket), put(job(1), "kept")];
    case.commits(&c1, (2, 1), seal.clone()).await;
    assert_eq!(host_there(case, job(1)).await.as_deref(), Some("kept"));
    case.commits(&c1, (2, 2), vec![put(job(1), "changed")]).await;
    case.commits(&c1, (2, 1), seal).await;
    assert_eq!(host_there(case, job(1)).await.as_deref(), Some("changed"));
    // What the next leader does not write back is gone, a deletion that it makes itself counts.
    case.commits(&c1, (3, 1), vec![put(job(1), "again"), Write::Seal(bucket)])
        .await;
    case.commits(&c1, (3, 2), vec![Write::RemoveBlock(key(job(1), 0))])
        .await;
    late(case, (2, 9), vec![put(job(1), "late")]).await;
    assert_eq!(host_there(case, job(1)).await, None);
    case.commits(&c1, (4, 1), vec![Write::Seal(bucket)]).await;
    assert_eq!(host_there(case, job(1)).await, None);
}

/// Other buckets, other clusters' buckets of the same number, and what has moved to the archive stay as they are.
pub async fn a_seal_touches_no_other_bucket_and_no_archive(case: &Case) {
    let bucket = bucket_of(job(1));
    let other = (2..).map(job).find(|j| bucket_of(*j) != bucket).expect("another");
    let same = (2..)
        .map(job)
        .find(|j| *j != other && bucket_of(*j) == bucket)
        .expect("one beside it");
    for cluster in ["c1", "c2"] {
        let writes = vec![put(job(1), cluster), put(other, cluster)];
        case.commits(&shard(cluster), (1, 1), writes).await;
    }
    let archived = vec![
        Write::Archive(block(same, 0, "archived")),
        Write::RemoveBlock(key(same, 0)),
    ];
    case.commits(&shard("c1"), (1, 2), archived).await;
    case.commits(&shard("c1"), (2, 1), vec![Write::Seal(bucket)])
        .await;
    assert_eq!(host_there(case, job(1)).await, None);
    assert_eq!(host_there(case, other).await.as_deref(), Some("c1"));
    assert_eq!(hosts_in(case, "c2", bucket).await, ["c2"]);
    assert_eq!(host_there(case, same).await.as_deref(), Some("archived"));
}

/// A full bucket is more than one atomic batch: whoever looks meanwhile, and whoever comes after a writer that died, finds
/// every block. The seal is named first and must not hide what is not yet written back.
pub async fn a_large_seal_loses_nothing(case: &Case) {
    let c1 = shard("c1");
    let long = "h".repeat(20_000);
    let bucket = bucket_of(job(1));
    let in_bucket = |n: &u32| key(job(1), *n).bucket() == bucket;
    let numbers: Vec<u32> = (0..).filter(in_bucket).take(100).collect();
    let blocks = || numbers.iter().map(|n| Write::Block(block(job(1), *n, &long)));
    case.commits(&c1, (1, 1), blocks().collect()).await;
    let first = super::batch(
        &c1,
        (2, 1),
        std::iter::once(Write::Seal(bucket)).chain(blocks()).collect(),
    );
    let sealing = tokio::spawn({
        let store = std::sync::Arc::clone(&case.store);
        async move { store.commit(first).await }
    });
    while !sealing.is_finished() {
        assert_eq!(hosts_in(case, "c1", bucket).await.len(), 100);
        tokio::task::yield_now().await;
    }
    sealing.await.expect("no panic").expect("sealed");
    assert_eq!(hosts_in(case, "c1", bucket).await.len(), 100);
    let unwritten = BlockKey {
        number: (numbers[99] + 1..).find(in_bucket).expect("one more"),
        ..key(job(1), 0)
    };
    late(
        case,
        (1, 9),
        vec![Write::Block(block(job(1), unwritten.number, "late"))],
    )
    .await;
    assert_eq!(hosts_in(case, "c1", bucket).await.len(), 100);
    // Only buckets that there are.
    let beyond = super::batch(&c1, (2, 9), vec![Write::Seal(BLOCK_BUCKETS)]);
    assert!(case.store.commit(beyond).await.is_err());
}
