//! Which job is meant. A name means the job that holds it; where that one never came to be, the latest that had it.

use crate::ask;
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::resource::JobRef;
use echelon_core_model::JobId;
use echelon_core_model::job::{Head, JobFilter};
use echelon_core_model::store::{Answer, Consistency, Query};

/// Heads read at once when a name's holder never came to be.
const SCAN: u32 = 500;

/// That storage knows no such job.
#[must_use]
pub fn not_found(job: &JobRef) -> ApiError {
    ApiError::new(
        ErrorReason::JobNotFound,
        format!("there is no job `{job}`; `echelon job list` shows what there is"),
    )
}

/// The head of the job that is meant.
///
/// # Errors
/// `JobNotFound` when storage says that there is none; `StorageUnavailable` when it says nothing.
pub async fn job<F: Facts>(facts: &F, job: &JobRef) -> Result<Head, ApiError> {
    let name = match job {
        JobRef::Id(id) => return present(ask::head(facts, *id).await?, job),
        JobRef::Name(name) => name,
    };
    let Some(holder) = ask::name(facts, name).await? else {
        return Err(not_found(job));
    };
    match ask::head(facts, holder.job).await? {
        Some(head) if !head.void => Ok(head),
        // Its creator has not come to the head yet, or never will: an earlier job of that name is meant.
        _ => present(latest_of_name(facts, name).await?, job),
    }
}

/// The names of jobs, in order. One whose head is gone or cannot be read has none.
pub async fn names<F: Facts>(facts: &F, jobs: &[JobId]) -> Vec<Option<String>> {
    let mut out = Vec::with_capacity(jobs.len());
    for id in jobs {
        let head = ask::head(facts, *id).await.ok().flatten();
        out.push(head.map(|head| head.name));
    }
    out
}

/// The same at SERIAL, to decide by.
///
/// # Errors
/// As [`job`].
pub async fn settled<F: Facts>(facts: &F, wanted: &JobRef) -> Result<Head, ApiError> {
    let id = match wanted {
        JobRef::Id(id) => *id,
        JobRef::Name(_) => job(facts, wanted).await?.job,
    };
    present(ask::settled_head(facts, id).await?, wanted)
}

fn present(head: Option<Head>, job: &JobRef) -> Result<Head, ApiError> {
    head.filter(|h| !h.void).ok_or_else(|| not_found(job))
}

async fn latest_of_name<F: Facts>(facts: &F, name: &str) -> Result<Option<Head>, ApiError> {
    let filter = JobFilter {
        name_prefix: Some(name.to_owned()),
        show_deleted: true,
        ..JobFilter::default()
    };
    let mut best: Option<Head> = None;
    let mut unread = Vec::new();
    let mut after: Option<JobId> = None;
    loop {
        let query = Query::Jobs {
            filter: filter.clone(),
            after,
            limit: SCAN,
        };
        let what = "the job of that name";
        let read = ask::read_some(facts, query, Consistency::Quorum, what).await?;
        let (Answer::Jobs(rows), rest) = read else {
            return Err(ask::broken_conflict(what));
        };
        unread.extend(rest);
        let full = rows.len() >= usize::try_from(SCAN).unwrap_or(usize::MAX);
        after = rows.last().map(|(head, _)| head.job);
        for (head, _) in rows.into_iter().filter(|(h, _)| h.name == name && !h.void) {
            if best.as_ref().is_none_or(|b| b.job < head.job) {
                best = Some(head);
            }
        }
        if !full {
            // A row that cannot be understood may be of that name.
            let unknown = best.is_none() && !unread.is_empty();
            return if unknown {
                Err(ask::unreadable("the job of that name", &unread))
            } else {
                Ok(best)
            };
        }
    }
}
