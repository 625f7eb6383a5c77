//! Reads of jobs: one with its spec and its clusters' freshness, or a page of many without.

use crate::ask;
use crate::error::ApiError;
use crate::lookup;
use crate::page::{self, First, Page, PageRequest};
use crate::port::Facts;
use crate::progress;
use crate::resource::JobRef;
use crate::rollouts;
use crate::schedules;
use crate::view::{Federation, JobView, state};
use echelon_core_model::job::{Head, JobFilter, Progress};
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{JobId, Timestamp};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::fmt;

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
    let known = progress::of_job(facts, head.job).await?;
    let assignment = ask::assignment(facts, head.job).await?;
    let federation = Federation::read(facts).await?;
    let paths = ask::paths_of(facts, &head).await?;
    let due = schedules::upcoming(&head, spec.as_ref(), now);
    let progress = known.shown(&head, spec.as_ref(), &federation, now);
    let view = JobView {
        due,
        ..JobView::new(head, spec, Some(progress), &federation).in_tree(&paths)
    };
    Ok(view.with_parts(&assignment, &federation, now))
}

/// A page of jobs in storage's order, for whoever reads all pages.
///
/// # Errors
/// A wrong page token or size, or storage.
pub async fn all_jobs<F: Facts>(
    facts: &F,
    filter: JobFilter,
    page: PageRequest,
) -> Result<Page<JobView>, ApiError> {
    let limit = page.limit()?;
    let asked = format!("all jobs {filter:?}");
    let after = page.place(&asked, |p| p.parse::<JobId>().ok())?;
    let (filter, paths) = placed(facts, filter).await?;
    let (rows, unread) = rows(facts, &filter, after, limit.saturating_add(1)).await?;
    let mut cut = page::cut(rows, limit, &asked, |(head, _)| head.job.to_string());
    cut.unread = unread.into_iter().collect();
    shown(facts, cut, &paths).await
}

/// A page of jobs: those that have not ended first, then the others, in each half the newest first. All jobs that pass
/// are looked at for each page, and counted; only a page of them is kept. What changes during the look may be seen as it
/// was or as it is; a job that ends between two pages may be on both, and none is missed.
///
/// # Errors
/// A wrong page token or size, or storage.
pub async fn list_jobs<F: Facts>(
    facts: &F,
    filter: JobFilter,
    page: PageRequest,
) -> Result<Page<JobView>, ApiError> {
    let limit = page.limit()?;
    let asked = format!("jobs {filter:?}");
    let from = page.place(&asked, Order::read)?;
    let (filter, paths) = placed(facts, filter).await?;
    let mut first = First::page(limit);
    let (mut after, mut unread) = (None, BTreeSet::new());
    loop {
        let (rows, not_understood) = rows(facts, &filter, after, SCAN).await?;
        unread.extend(not_understood);
        let is_last = rows.len() < usize::try_from(SCAN).unwrap_or(usize::MAX);
        after = rows.last().map(|(head, _)| head.job);
        for (head, progress) in rows {
            let order = Order::of(&head, progress.as_ref());
            let wanted = from.is_none_or(|from| order > from);
            first.look(
                Ordered {
                    order,
                    row: (head, progress),
                },
                wanted,
            );
        }
        if is_last {
            break;
        }
    }
    let cut = first.cut(limit, &asked, |found| found.order.to_string());
    let cut = Page {
        items: cut.items.into_iter().map(|found| found.row).collect(),
        next: cut.next,
        total: cut.total,
        unread: unread.into_iter().collect(),
    };
    shown(facts, cut, &paths).await
}

/// Rows read at once where all are looked at.
const SCAN: u32 = 1000;

type Row = (Head, Option<Progress>);

/// Where a job stands in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    ended: bool,
    /// Ids are ordered by time of creation.
    newest: Reverse<JobId>,
}

impl Order {
    fn of(head: &Head, progress: Option<&Progress>) -> Self {
        Self {
            ended: state(progress).is_ended(),
            newest: Reverse(head.job),
        }
    }

    fn read(position: &str) -> Option<Self> {
        let (half, job) = position.split_once(' ')?;
        let ended = match half {
            "ended" => true,
            "unended" => false,
            _ => return None,
        };
        Some(Self {
            ended,
            newest: Reverse(job.parse().ok()?),
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = if self.ended { "ended" } else { "unended" };
        write!(f, "{half} {}", self.newest.0)
    }
}

/// A row in its place; the place alone decides the order.
struct Ordered {
    order: Order,
    row: Row,
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

/// The filter with where pools are, which a caller need not say.
async fn placed<F: Facts>(facts: &F, mut filter: JobFilter) -> Result<(JobFilter, PoolPaths), ApiError> {
    filter.paths = PoolPaths::of(&ask::shown_pools(facts).await?);
    let paths = filter.paths.clone();
    Ok((filter, paths))
}

/// Rows after a job, and those of their buckets that cannot be understood.
async fn rows<F: Facts>(
    facts: &F,
    filter: &JobFilter,
    after: Option<JobId>,
    limit: u32,
) -> Result<(Vec<Row>, BTreeSet<String>), ApiError> {
    let filter = filter.clone();
    let query = Query::Jobs { filter, after, limit };
    match ask::read_some(facts, query, Consistency::Quorum, "the jobs").await? {
        (Answer::Jobs(rows), unread) => Ok((rows, unread.iter().map(ToString::to_string).collect())),
        _ => Err(ask::broken_conflict("the jobs")),
    }
}

async fn shown<F: Facts>(facts: &F, rows: Page<Row>, paths: &PoolPaths) -> Result<Page<JobView>, ApiError> {
    let federation = Federation::read(facts).await?;
    let unsaid = rows.items.iter().filter(|(_, stored)| stored.is_none());
    let unsaid: Vec<JobId> = unsaid.map(|(head, _)| head.job).collect();
    let mut said = progress::of_page(facts, unsaid).await;
    let view = |(head, stored): Row| {
        let progress = stored.or_else(|| said.remove(&head.job));
        JobView::new(head, None, progress, &federation).in_tree(paths)
    };
    Ok(Page {
        items: rows.items.into_iter().map(view).collect(),
        next: rows.next,
        total: rows.total,
        unread: rows.unread,
    })
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
