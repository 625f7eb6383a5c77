//! Blocks and slice rows. What has moved to the archive was written there before it was deleted from its bucket, so
//! whoever looks into the bucket first and into the archive second misses nothing.

use super::{AT_ONCE, decoded, one, value};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, RowKey, Rows, Scan};
use echelon_core_model::instance::{Block, BlockKey, SliceRow};
use echelon_core_model::store::{Answer, Consistency};
use echelon_core_model::{ClusterId, GroupName, JobId};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const C: Consistency = Consistency::Quorum;

/// All of a bucket.
pub(super) async fn bucket<R: Rows>(rows: &R, cluster: &ClusterId, n: u16) -> Result<Answer, StoreError> {
    let partition = keys::instances(cluster, n);
    let scan = Scan::partition(Table::Instances, partition.clone());
    let (mut blocks, mut slices) = (Vec::new(), Vec::new());
    for row in rows.scan(&scan, C).await? {
        let cells = partition.iter().chain(&row.key).cloned();
        let at = RowKey::new(Table::Instances, cells).to_string();
        if row.key.last() == Some(&Cell::Number(SliceRow::BLOCK.into())) {
            slices.push(value(Table::Instances, &at, &row.value)?);
        } else {
            blocks.push(value(Table::Instances, &at, &row.value)?);
        }
    }
    Ok(Answer::Blocks(blocks, slices))
}

/// Blocks of a group, and its slice row.
pub(super) async fn group<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    (job, group): (JobId, &GroupName),
    numbers: RangeInclusive<u32>,
) -> Result<Answer, StoreError> {
    let slice: Option<SliceRow> = one(rows, &keys::slice(cluster, job, group), C).await?;
    let last = (*numbers.end()).min(SliceRow::BLOCK - 1);
    let wanted = (*numbers.start()..=last).map(|number| {
        let key = BlockKey {
            job,
            group: group.clone(),
            number,
        };
        let at = keys::block(cluster, &key);
        async move { Ok((number, one::<R, Block>(rows, &at, C).await?)) }
    });
    let found: Vec<(u32, Option<Block>)> = stream::iter(wanted).buffered(AT_ONCE).try_collect().await?;
    let absent: Vec<u32> = found
        .iter()
        .filter(|(_, b)| b.is_none())
        .map(|(n, _)| *n)
        .collect();
    let mut archived = BTreeMap::new();
    if let (Some(first), Some(last)) = (absent.first(), absent.last()) {
        archived = archive(rows, cluster, (job, group), *first..=*last).await?;
    }
    let blocks = found
        .into_iter()
        .filter_map(|(n, block)| block.or_else(|| archived.remove(&n)))
        .collect();
    Ok(Answer::Blocks(blocks, slice.into_iter().collect()))
}

async fn archive<R: Rows>(
    rows: &R,
    cluster: &ClusterId,
    (job, group): (JobId, &GroupName),
    numbers: RangeInclusive<u32>,
) -> Result<BTreeMap<u32, Block>, StoreError> {
    let partition = keys::archive(cluster, job);
    let key = |n: i64| Some(vec![Cell::Text(group.to_string()), Cell::Number(n)]);
    let mut scan = Scan::partition(Table::Archive, partition.clone());
    scan.after = key(i64::from(*numbers.start()) - 1);
    scan.up_to = key((*numbers.end()).into());
    let blocks: Vec<Block> = decoded(Table::Archive, &partition, &rows.scan(&scan, C).await?)?;
    Ok(blocks.into_iter().map(|b| (b.key.number, b)).collect())
}
