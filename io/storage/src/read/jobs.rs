//! Jobs by pool, state, owner, label and name: all buckets in order, some at once, until the page is full. This is for
//! people's questions; the resource manager reads buckets.

use super::{AT_ONCE, all};
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Rows, Scan};
use echelon_core_model::JobId;
use echelon_core_model::bucket::{JOB_BUCKETS, job_bucket};
use echelon_core_model::job::{Head, JobFilter, JobState, Progress};
use echelon_core_model::store::{Answer, Consistency, UnreadRow};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Which jobs are asked for.
pub(super) struct Page<'a> {
    pub filter: &'a JobFilter,
    pub after: Option<JobId>,
    pub limit: u32,
}

/// A page of jobs after one. A job of which a row cannot be understood is named and left out.
pub(super) async fn page<R: Rows>(
    rows: &R,
    page: Page<'_>,
    c: Consistency,
    unread: &mut Vec<UnreadRow>,
) -> Result<Answer, StoreError> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let after = page.after.map(|job| (job_bucket(job), job));
    let from = after.map_or(0, |(bucket, _)| bucket);
    let buckets = (from..JOB_BUCKETS).map(|bucket| of_bucket(rows, bucket, c));
    let mut buckets = stream::iter(buckets).buffered(AT_ONCE);
    let mut jobs = Vec::new();
    let is_next = |job: JobId| Some((job_bucket(job), job)) > after;
    while jobs.len() < limit
        && let Some(bucket) = buckets.try_next().await?
    {
        unread.extend(
            bucket
                .unread
                .into_iter()
                .filter(|row| row.subject.job().is_some_and(is_next)),
        );
        let next = bucket.jobs.into_iter().filter(|(head, progress)| {
            let state = progress.as_ref().map_or(JobState::Waiting, |p| p.state);
            is_next(head.job) && page.filter.passes(head, state)
        });
        jobs.extend(next.take(limit - jobs.len()));
    }
    Ok(Answer::Jobs(jobs))
}

/// The jobs of a bucket.
#[derive(Default)]
struct Bucket {
    jobs: Vec<(Head, Option<Progress>)>,
    unread: Vec<UnreadRow>,
}

async fn of_bucket<R: Rows>(rows: &R, bucket: u16, c: Consistency) -> Result<Bucket, StoreError> {
    let partition = |table| Scan::partition(table, [keys::bucket(bucket)]);
    let mut out = Bucket::default();
    let heads: Vec<Head> = all(rows, &partition(Table::Heads), c, &mut out.unread).await?;
    if heads.is_empty() {
        return Ok(out);
    }
    let mut unread = Vec::new();
    let progress = &partition(Table::Progress);
    let progress: Vec<Progress> = all(rows, progress, Consistency::Quorum, &mut unread).await?;
    let unknown: BTreeSet<JobId> = unread.iter().filter_map(|row| row.subject.job()).collect();
    out.unread.extend(unread);
    let mut progress: BTreeMap<JobId, Progress> = progress.into_iter().map(|p| (p.job, p)).collect();
    let known = heads.into_iter().filter(|head| !unknown.contains(&head.job));
    let joined = known.map(|head| {
        let of_job = progress.remove(&head.job);
        (head, of_job)
    });
    out.jobs = joined.collect();
    Ok(out)
}
