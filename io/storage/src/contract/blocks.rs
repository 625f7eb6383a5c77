//! Blocks, their buckets, ranges and archive.

use super::Case;
use super::facts::{block, host_of, job, key, main_group, shard};
use echelon_core_model::bucket::BLOCK_BUCKETS;
use echelon_core_model::instance::{Block, SliceRow};
use echelon_core_model::store::{Answer, Query, Write};
use echelon_core_model::{ClusterId, GroupName, JobId};
use std::ops::RangeInclusive;

/// Asks for blocks of the default group.
pub(super) fn group_blocks(cluster: &str, job: JobId, numbers: RangeInclusive<u32>) -> Query {
    Query::GroupBlocks {
        cluster: ClusterId::new(cluster),
        job,
        group: main_group(),
        first: *numbers.start(),
        last: *numbers.end(),
    }
}

async fn blocks(case: &Case, query: Query) -> Vec<Block> {
    match case.read(query).await {
        Answer::Blocks(blocks, _) => blocks,
        other => panic!("{other:?}"),
    }
}

fn numbers(blocks: &[Block]) -> Vec<u32> {
    blocks.iter().map(|b| b.key.number).collect()
}

/// Every block and slice row is in its bucket and in no other.
pub async fn a_bucket_holds_its_blocks_and_slices(case: &Case) {
    let c1 = shard("c1");
    let slices: Vec<SliceRow> = (0..5).map(|n| SliceRow::new(job(n), main_group())).collect();
    let written: Vec<Block> = (0..300).map(|n| block(job(n % 5), (n / 5) as u32, "h")).collect();
    let writes = written.iter().cloned().map(Write::Block);
    let writes = writes.chain(slices.iter().cloned().map(Write::Slice));
    case.commits(&c1, (1, 1), writes.collect()).await;
    let (mut read, mut read_slices) = (0, 0);
    for bucket in 0..BLOCK_BUCKETS {
        let Answer::Blocks(blocks, slices) =
            case.read(Query::BlockBucket(ClusterId::new("c1"), bucket)).await
        else {
            panic!("blocks")
        };
        assert!(
            blocks
                .iter()
                .all(|b| b.key.bucket() == bucket && written.contains(b))
        );
        assert!(slices.iter().all(|s| s.bucket() == bucket));
        read += blocks.len();
        read_slices += slices.len();
    }
    assert_eq!((read, read_slices), (300, 5));
}

/// A range gives what is there, in order, of this group alone.
pub async fn blocks_of_a_group_are_ranges(case: &Case) {
    let c1 = shard("c1");
    let mut other = block(job(1), 3, "other group");
    other.key.group = GroupName::new("main-2");
    let mut writes: Vec<Write> = (0..100)
        .filter(|n| n % 3 != 0)
        .map(|n| Write::Block(block(job(1), n, "h")))
        .collect();
    writes.push(Write::Block(other));
    writes.push(Write::Block(block(job(2), 3, "other job")));
    case.commits(&c1, (1, 1), writes).await;
    for (asked, expected) in [
        (0..=5, vec![1, 2, 4, 5]),
        (3..=3, vec![]),
        (97..=400, vec![97, 98]),
        (14..=17, vec![14, 16, 17]),
        (29..=34, vec![29, 31, 32, 34]),
    ] {
        let found = blocks(case, group_blocks("c1", job(1), asked.clone())).await;
        assert_eq!(numbers(&found), expected, "{asked:?}");
    }
}

/// Archived blocks are found by range, and are in no bucket that a new leader loads.
pub async fn archived_blocks_are_found_and_not_loaded(case: &Case) {
    let c1 = shard("c1");
    let put = (0..6).map(|n| Write::Block(block(job(1), n, "live")));
    case.commits(&c1, (1, 1), put.collect()).await;
    let archive = (2..5).map(|n| Write::Archive(block(job(1), n, "archived")));
    case.commits(&c1, (1, 2), archive.collect()).await;
    let found = blocks(case, group_blocks("c1", job(1), 0..=5)).await;
    assert!(
        found.iter().all(|b| host_of(b) == "live"),
        "until it is deleted the block counts"
    );
    let remove = (2..5).map(|n| Write::RemoveBlock(key(job(1), n)));
    case.commits(&c1, (1, 3), remove.collect()).await;
    for (asked, expected) in [
        (
            0..=5,
            vec!["live", "live", "archived", "archived", "archived", "live"],
        ),
        (3..=3, vec!["archived"]),
        (4..=9, vec!["archived", "live"]),
    ] {
        let found = blocks(case, group_blocks("c1", job(1), asked.clone())).await;
        let hosts: Vec<String> = found.iter().map(host_of).collect();
        assert_eq!(hosts, expected, "{asked:?}");
    }
    for number in 0..6 {
        let bucket = Query::BlockBucket(ClusterId::new("c1"), key(job(1), number).bucket());
        let there = blocks(case, bucket).await.iter().any(|b| b.key.number == number);
        assert_eq!(there, !(2..5).contains(&number), "block {number}");
    }
}

/// Two clusters' blocks of one instance are two facts.
pub async fn clusters_do_not_share_blocks(case: &Case) {
    for cluster in ["c1", "c2"] {
        let put = vec![Write::Block(block(job(1), 0, cluster))];
        case.commits(&shard(cluster), (1, 1), put).await;
    }
    let gone = vec![
        Write::RemoveBlock(key(job(1), 0)),
        Write::Archive(block(job(1), 0, "c2, archived")),
    ];
    case.commits(&shard("c2"), (9, 1), gone).await;
    for (cluster, host) in [("c1", "c1"), ("c2", "c2, archived")] {
        let found = blocks(case, group_blocks(cluster, job(1), 0..=0)).await;
        assert_eq!(found.iter().map(host_of).collect::<Vec<_>>(), [host]);
    }
}

/// A batch of some megabytes, as a seal of full buckets makes it.
pub async fn large_batches_are_taken(case: &Case) {
    let long = "h".repeat(20_000);
    let many = (0..300).map(|n| Write::Block(block(job(n), 0, &long)));
    // Two hundred blocks of one bucket are more than one partition's atomic batch.
    let bucket = key(job(1), 0).bucket();
    let same = (0..).filter(|n| key(job(1), *n).bucket() == bucket).take(100);
    let same: Vec<u32> = same.collect();
    let writes = many.chain(same.iter().map(|n| Write::Block(block(job(1), *n, &long))));
    case.commits(&shard("c1"), (1, 1), writes.collect()).await;
    let found = blocks(case, Query::BlockBucket(ClusterId::new("c1"), bucket)).await;
    let of_job = found.iter().filter(|b| b.key.job == job(1));
    assert_eq!(of_job.map(|b| b.key.number).collect::<Vec<_>>(), same);
    assert!(found.iter().all(|b| host_of(b) == long));
}
