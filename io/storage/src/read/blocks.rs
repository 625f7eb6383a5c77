//! Blocks and slice rows. What has moved to the archive was written there before it was deleted from its bucket, so
//! whoever looks into the bucket first and into the archive second misses nothing.

use super::{AT_ONCE, decoded, some, value};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, RowKey, Rows, Scan};
use echelon_core_model::bucket::{BLOCKS_A_RUN, block_bucket};
use echelon_core_model::instance::{Block, SliceRow};
use echelon_core_model::store::{Answer, Consistency, UnreadRow};
use echelon_core_model::{ClusterId, GroupName, JobId};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const C: Consistency = Consistency::Quorum;

/// All of a bucket.
pub(super) async fn bucket<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    n: u16,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let partition = keys::instances(cluster, n);
    let scan = Scan::partition(Table::Instances, partition.clone());
    let (mut blocks, mut slices) = (Vec::new(), Vec::new());
    for row in rows.scan(&scan, C).await? {
        let cells = partition.iter().chain(&row.key).cloned();
        if keys::is_noted_events(&row.key) {
            continue;
        }
        let at = RowKey::new(Table::Instances, cells);
        let taken = if row.key.last() == Some(&Cell::Number(SliceRow::BLOCK.into())) {
            value(&at, &row.value).map(|slice| slices.push(slice))
        } else {
            value(&at, &row.value).map(|block| blocks.push(block))
        };
        unread.extend(taken.err().map(|row| *row));
    }
    Ok(Answer::Blocks(blocks, slices))
}

/// Blocks of a group, and its slice row.
pub(super) async fn group<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    (job, group): (JobId, &GroupName),
    numbers: RangeInclusive<u32>,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let slice: Option<SliceRow> = some(rows, &keys::slice(cluster, job, group), C, unread).await?;
    let last = (*numbers.end()).min(SliceRow::BLOCK - 1);
    let wanted = runs(*numbers.start()..=last).map(|part| run(rows, cluster, (job, group), part));
    let mut found: Vec<(u32, Found)> = Vec::new();
    let mut read = stream::iter(wanted).buffered(AT_ONCE);
    while let Some((bad, some)) = read.try_next().await? {
        unread.extend(bad);
        found.extend(some);
    }
    let absent: Vec<u32> = found
        .iter()
        .filter(|(_, b)| matches!(b, Found::Absent))
        .map(|(n, _)| *n)
        .collect();
    let mut archived = BTreeMap::new();
    if let (Some(first), Some(last)) = (absent.first(), absent.last()) {
        archived = archive(rows, cluster, (job, group), *first..=*last, unread).await?;
    }
    let mut blocks = Vec::with_capacity(found.len());
    for (n, found) in found {
        match found {
            Found::There(block) => blocks.push(block),
            Found::Unread => {}
            Found::Absent => blocks.extend(archived.remove(&n)),
        }
    }
    Ok(Answer::Blocks(blocks, slice.into_iter().collect()))
}

/// Block numbers cut where the bucket changes: what one read gives.
fn runs(numbers: RangeInclusive<u32>) -> impl Iterator<Item = RangeInclusive<u32>> {
    let (first, last) = numbers.into_inner();
    let runs = if first <= last {
        first / BLOCKS_A_RUN..=last / BLOCKS_A_RUN
    } else {
        RangeInclusive::new(1, 0)
    };
    runs.map(move |run| {
        let begin = run * BLOCKS_A_RUN;
        first.max(begin)..=last.min(begin.saturating_add(BLOCKS_A_RUN - 1))
    })
}

/// What is at the place of a block.
enum Found {
    There(Block),
    /// A row that cannot be understood.
    Unread,
    Absent,
}

/// Blocks of one bucket, by number, and the rows among them that cannot be understood.
async fn run<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    (job, group): (JobId, &GroupName),
    numbers: RangeInclusive<u32>,
) -> Result<(Vec<UnreadRow>, Vec<(u32, Found)>), StoreError> {
    let partition = keys::instances(cluster, block_bucket(job, group, *numbers.start()));
    let key = |n: i64| {
        let job = Cell::Bytes(job.0.to_be_bytes().to_vec());
        Some(vec![job, Cell::Text(group.to_string()), Cell::Number(n)])
    };
    let mut scan = Scan::partition(Table::Instances, partition.clone());
    scan.after = key(i64::from(*numbers.start()) - 1);
    scan.up_to = key((*numbers.end()).into());
    let mut unread = Vec::new();
    let mut there: BTreeMap<u32, Found> = BTreeMap::new();
    for row in rows.scan(&scan, C).await? {
        let at = RowKey::new(Table::Instances, partition.iter().chain(&row.key).cloned());
        let number = match row.key.last() {
            Some(Cell::Number(n)) => u32::try_from(*n).ok(),
            _ => None,
        };
        let found = match value(&at, &row.value) {
            Ok(block) => Found::There(block),
            Err(row) => {
                unread.push(*row);
                Found::Unread
            }
        };
        there.extend(number.map(|n| (n, found)));
    }
    let found = numbers.map(|n| (n, there.remove(&n).unwrap_or(Found::Absent)));
    Ok((unread, found.collect()))
}

async fn archive<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    (job, group): (JobId, &GroupName),
    numbers: RangeInclusive<u32>,
    unread: &mut Vec<UnreadRow>,
) -> Result<BTreeMap<u32, Block>, StoreError> {
    let partition = keys::archive(cluster, job);
    let key = |n: i64| Some(vec![Cell::Text(group.to_string()), Cell::Number(n)]);
    let mut scan = Scan::partition(Table::Archive, partition.clone());
    scan.after = key(i64::from(*numbers.start()) - 1);
    scan.up_to = key((*numbers.end()).into());
    let found = rows.scan(&scan, C).await?;
    let blocks: Vec<Block> = decoded(Table::Archive, &partition, &found, unread);
    Ok(blocks.into_iter().map(|b| (b.key.number, b)).collect())
}
