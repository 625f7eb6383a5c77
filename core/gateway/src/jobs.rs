//! Reads of jobs: one with its spec and its clusters' freshness, or a page of many without.

use crate::ask;
use crate::error::ApiError;
use crate::lookup;
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use crate::rollouts;
use crate::schedules;
use crate::view::{Federation, JobView};
use echelon_core_model::job::{Head, JobFilter};
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{JobId, Timestamp};

/// One job.
///
/// # Errors
/// No such job, or storage.
pub async fn get_job<F: Facts>(facts: &F, job: &JobRef, now: Timestamp) -> Result<JobView, ApiError> {
    let head = lookup::job(facts, job).await?;
    whole(facts, head, now).await
}

/// One job with an earlier version of its spec.
///
/// # Errors
/// No such job or version, or storage.
pub async fn get_job_at<F: Facts>(
    facts: &F,
    job: &JobRef,
    version: u32,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    let view = get_job(facts, job, now).await?;
    let spec = rollouts::kept(facts, &view.head, version).await?;
    Ok(JobView {
        spec: Some(spec),
        ..view
    })
}

/// All that there is to say of a job whose head was read.
///
/// # Errors
/// Storage.
pub async fn whole<F: Facts>(facts: &F, head: Head, now: Timestamp) -> Result<JobView, ApiError> {
    let spec = ask::spec(facts, head.job, head.spec_version).await?;
    let progress = ask::progress(facts, head.job).await?;
    let assignment = ask::assignment(facts, head.job).await?;
    let federation = Federation::read(facts).await?;
    let paths = ask::paths_of(facts, &head).await?;
    let due = schedules::upcoming(&head, spec.as_ref(), now);
    let view = JobView {
        due,
        ..JobView::new(head, spec, progress, &federation).in_tree(&paths)
    };
    Ok(view.with_parts(&assignment, &federation, now))
}

/// A page of jobs, in storage's order. Where pools are, the filter need not say.
///
/// # Errors
/// A wrong page token or size, or storage.
pub async fn list_jobs<F: Facts>(
    facts: &F,
    mut filter: JobFilter,
    page: PageRequest,
) -> Result<Page<JobView>, ApiError> {
    let limit = page.limit()?;
    let asked = format!("jobs {filter:?}");
    let after = match page.position(&asked)? {
        None => None,
        // The sum over the token holds, so it is ours.
        Some(position) => position.parse::<JobId>().ok(),
    };
    filter.paths = PoolPaths::of(&ask::shown_pools(facts).await?);
    let paths = filter.paths.clone();
    let query = Query::Jobs {
        filter,
        after,
        limit: limit.saturating_add(1),
    };
    let read = ask::read_some(facts, query, Consistency::Quorum, "the jobs").await?;
    let (Answer::Jobs(rows), unread) = read else {
        return Err(ask::broken_conflict("the jobs"));
    };
    let federation = Federation::read(facts).await?;
    let cut = page::cut(rows, limit, &asked, |(head, _)| head.job.to_string());
    let items = cut
        .items
        .into_iter()
        .map(|(head, progress)| JobView::new(head, None, progress, &federation).in_tree(&paths))
        .collect();
    Ok(Page {
        items,
        next: cut.next,
        unread: unread.iter().map(ToString::to_string).collect(),
    })
}
