//! Blocks and slice rows. What has moved to the archive was written there before it was deleted from its bucket, so
//! whoever looks into the bucket first and into the archive second misses nothing.

use super::{AT_ONCE, decoded, one, some, value};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, RowKey, Rows, Scan};
use echelon_core_model::instance::{Block, BlockKey, SliceRow};
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
        let at = RowKey::new(Table::Instances, cells);
        let taken = if row.key.last() == Some(&Cell::Number(SliceRow::BLOCK.into())) {
            value(&at, &row.value).map(|slice| slices.push(slice))
        } else {
            value(&at, &row.value).map(|block| blocks.push(block))
        };
        unread.extend(taken.err());
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
    let wanted = (*numbers.start()..=last).map(|number| {
        let key = BlockKey {
            job,
            group: group.clone(),
            number,
        };
        let at = keys::block(cluster, &key);
        async move { found_at(number, one::<R, Block>(rows, &at, C).await) }
    });
    let found: Vec<(u32, Found)> = stream::iter(wanted).buffered(AT_ONCE).try_collect().await?;
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
            Found::Unread(row) => unread.push(row),
            Found::Absent => blocks.extend(archived.remove(&n)),
        }
    }
    Ok(Answer::Blocks(blocks, slice.into_iter().collect()))
}

/// What is at the place of a block.
enum Found {
    There(Block),
    Unread(UnreadRow),
    Absent,
}

fn found_at(number: u32, block: Result<Option<Block>, StoreError>) -> Result<(u32, Found), StoreError> {
    let found = match block {
        Ok(Some(block)) => Found::There(block),
        Ok(None) => Found::Absent,
        Err(StoreError::Unread(row)) => Found::Unread(*row),
        Err(error) => return Err(error),
    };
    Ok((number, found))
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
