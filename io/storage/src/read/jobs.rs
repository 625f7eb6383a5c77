//! Jobs by pool, state, owner, label and name: all buckets in order, some at once, until the page is full. This is for
//! people's questions; the resource manager reads buckets.

use super::{AT_ONCE, all};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Rows, Scan};
use echelon_core_model::JobId;
use echelon_core_model::bucket::{JOB_BUCKETS, job_bucket};
use echelon_core_model::job::{Head, JobFilter, JobState, Progress};
use echelon_core_model::store::{Answer, Consistency};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;

/// A page of jobs after one.
pub(super) async fn page<R: Rows>(
    rows: &R,
    filter: &JobFilter,
    after: Option<JobId>,
    limit: u32,
    c: Consistency,
) -> Result<Answer, StoreError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let after = after.map(|job| (job_bucket(job), job));
    let from = after.map_or(0, |(bucket, _)| bucket);
    let buckets = (from..JOB_BUCKETS).map(|bucket| of_bucket(rows, bucket, c));
    let mut buckets = stream::iter(buckets).buffered(AT_ONCE);
    let mut jobs = Vec::new();
    while jobs.len() < limit
        && let Some(bucket) = buckets.try_next().await?
    {
        let next = bucket.into_iter().filter(|(head, progress)| {
            let state = progress.as_ref().map_or(JobState::Waiting, |p| p.state);
            Some((job_bucket(head.job), head.job)) > after && filter.passes(head, state)
        });
        jobs.extend(next.take(limit - jobs.len()));
    }
    Ok(Answer::Jobs(jobs))
}

async fn of_bucket<R: Rows>(
    rows: &R,
    bucket: u16,
    c: Consistency,
) -> Result<Vec<(Head, Option<Progress>)>, StoreError> {
    let partition = |table| Scan::partition(table, [keys::bucket(bucket)]);
    let heads: Vec<Head> = all(rows, &partition(Table::Heads), c).await?;
    if heads.is_empty() {
        return Ok(Vec::new());
    }
    let progress: Vec<Progress> = all(rows, &partition(Table::Progress), Consistency::Quorum).await?;
    let mut progress: BTreeMap<JobId, Progress> = progress.into_iter().map(|p| (p.job, p)).collect();
    let joined = heads.into_iter().map(|head| {
        let of_job = progress.remove(&head.job);
        (head, of_job)
    });
    Ok(joined.collect())
}
