//! Changes the wish of a job: stop, delete, and what `restart`, `update` and `scale` share. One compare-and-set on the head;
//! without an etag it is tried again on what another change left.

use crate::ask;
use crate::error::{ApiError, ErrorReason};
use crate::lookup;
use crate::port::Facts;
use crate::resource::JobRef;
use crate::view::{Federation, JobView, state};
use echelon_core_model::job::{Desired, Goal, Head, Progress};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Decided, Decision};
use echelon_core_model::{Timestamp, Version};

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;

/// A change of goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Stop it; its record stays.
    Stop,
    /// Stop it and remove its record.
    Delete,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which job.
    pub job: JobRef,
    /// Only if it still has this etag; empty: whatever it has.
    pub etag: String,
}

/// A job as a change finds it.
#[derive(Debug, Clone)]
pub struct Present {
    /// Its head, settled.
    pub head: Head,
    /// What became of it.
    pub progress: Option<Progress>,
    /// The spec in force.
    pub spec: JobSpec,
}

/// Reads the job to be changed and checks the etag.
///
/// # Errors
/// No such job, an old etag, or storage.
pub async fn present<F: Facts>(facts: &F, change: &Change) -> Result<Present, ApiError> {
    let head = lookup::settled(facts, &change.job).await?;
    check_etag(&change.etag, head.version, &format!("job `{}`", change.job))?;
    let progress = ask::progress(facts, head.job).await?;
    let spec = ask::spec(facts, head.job, head.spec_version)
        .await?
        .ok_or_else(|| ask::broken_conflict("the spec of a job that exists"))?;
    Ok(Present { head, progress, spec })
}

/// Whether an etag, if one was given, is that of `version`.
///
/// # Errors
/// `EtagStale` when it is not.
pub fn check_etag(etag: &str, version: Version, what: &str) -> Result<(), ApiError> {
    if etag.is_empty() || etag.trim_matches('"') == version.to_string() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::EtagStale,
        format!(
            "{what} has changed: its etag is `{version}`, not `{etag}`; read it again and decide again, or leave the etag out"
        ),
    ))
}

/// Refuses a wish other than delete for a job that has ended, or is on its way out.
///
/// # Errors
/// `JobEnded`, `JobDeleted`, `JobStopping`.
pub fn check_alive(at: &Present) -> Result<(), ApiError> {
    let name = &at.head.name;
    let ended = state(at.progress.as_ref());
    let (reason, message) = match at.head.goal.desired {
        Desired::Deleted => (
            ErrorReason::JobDeleted,
            format!("job `{name}` is deleted; create a new one"),
        ),
        _ if ended.is_ended() => (
            ErrorReason::JobEnded,
            format!("job `{name}` has ended ({ended}) and takes no wish but delete; create a new one"),
        ),
        Desired::Stopped => (
            ErrorReason::JobStopping,
            format!("job `{name}` is being stopped; create a new one under that name once it has ended"),
        ),
        Desired::Running => return Ok(()),
    };
    Err(ApiError::new(reason, message))
}

/// Stops or deletes.
///
/// # Errors
/// No such job, an old etag, a state that does not allow it, or storage.
pub async fn change_goal<F: Facts>(
    facts: &F,
    change: Change,
    wish: Wish,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    for _ in 0..TRIES {
        let at = present(facts, &change).await?;
        let Some(goal) = next_goal(&at, wish)? else {
            return view(facts, at).await;
        };
        let head = Head {
            goal,
            ..at.head.clone()
        };
        if let Some(done) = put(facts, &change, at, head, now).await? {
            return view(facts, done).await;
        }
    }
    Err(contention(&change.job))
}

/// The goal after a wish, `None` when it is the wish already.
fn next_goal(at: &Present, wish: Wish) -> Result<Option<Goal>, ApiError> {
    let goal = at.head.goal;
    let to = |desired| Ok(Some(Goal { desired, ..goal }));
    match wish {
        Wish::Delete if goal.desired == Desired::Deleted => Ok(None),
        Wish::Delete => to(Desired::Deleted),
        // To stop what is being stopped is no conflict; to stop what has ended is.
        Wish::Stop if goal.desired == Desired::Stopped && !state(at.progress.as_ref()).is_ended() => Ok(None),
        Wish::Stop => check_alive(at).and_then(|()| to(Desired::Stopped)),
    }
}

/// Puts a changed head; `None` when another change came first and no etag was given.
///
/// # Errors
/// `EtagStale` when one came first, or storage.
pub async fn put<F: Facts>(
    facts: &F,
    change: &Change,
    at: Present,
    mut head: Head,
    now: Timestamp,
) -> Result<Option<Present>, ApiError> {
    head.version = at.head.version.next();
    head.updated_at = now;
    let decision = Decision::PutHead {
        head: head.clone(),
        expected: Some(at.head.version),
    };
    match ask::decide(facts, decision, "the job").await? {
        Decided::Applied => Ok(Some(Present { head, ..at })),
        Decided::Conflict(_) if change.etag.is_empty() => Ok(None),
        Decided::Conflict(_) => Err(ApiError::new(
            ErrorReason::EtagStale,
            format!(
                "job `{}` was changed by another meanwhile; read it again and decide again",
                change.job
            ),
        )),
    }
}

/// That others change the same job all the time.
#[must_use]
pub fn contention(job: &JobRef) -> ApiError {
    ApiError::new(
        ErrorReason::Contention,
        format!("others change job `{job}` all the time; nothing was changed, try again"),
    )
}

/// The answer to a change.
///
/// # Errors
/// Storage.
pub async fn view<F: Facts>(facts: &F, at: Present) -> Result<JobView, ApiError> {
    let federation = Federation::read(facts).await?;
    let paths = ask::paths_of(facts, &at.head).await?;
    Ok(JobView::new(at.head, Some(at.spec), at.progress, &federation).in_tree(&paths))
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
