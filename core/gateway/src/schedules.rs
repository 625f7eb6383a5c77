//! Schedules: pauses one, lets it go on, and makes a job of a template by command. What is due by itself the resource manager makes.

use crate::change::{self, Change};
use crate::create::{CreateJob, create_job};
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::view::JobView;
use echelon_core_model::bucket::fnv1a;
use echelon_core_model::job::Head;
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::schedule::{Origin, ScheduleState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::timetable::Timetable;
use echelon_core_model::{JobId, Timestamp};

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;
/// Due times that are told in advance.
pub const TOLD: usize = 5;

/// What is wanted of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// Make nothing more by itself.
    Pause,
    /// Go on. What was due meanwhile does not count as missed.
    Resume,
}

/// Pauses a schedule, or lets it go on.
///
/// # Errors
/// No such job, no template, an old etag, a job that has ended, or storage.
pub async fn steer<F: Facts>(
    facts: &F,
    change: Change,
    wish: Steer,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        check_template(&at.head, &at.spec)?;
        let state = state_of(&at.head);
        let paused = wish == Steer::Pause;
        if state.paused == paused {
            return change::view(facts, at).await;
        }
        let state = ScheduleState {
            paused,
            handled: if paused {
                state.handled
            } else {
                state.handled.max(now)
            },
            ..state
        };
        let head = Head {
            schedule: Some(Box::new(state)),
            ..at.head.clone()
        };
        if let Some(done) = change::put(facts, &change, at, head, now).await? {
            return change::view(facts, done).await;
        }
    }
    Err(change::contention(&change.job))
}

/// What makes a job by command differ from others.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// Unique to this wish: repeated, it makes no second job.
    pub request_id: String,
    /// 128 random bits.
    pub chance: u128,
}

/// Makes a job of a template now, whatever its schedule says and whatever of it runs.
///
/// # Errors
/// No such job, no template, an old etag, a template that has ended, or storage.
pub async fn trigger_job<F: Facts>(
    facts: &F,
    change: Change,
    trigger: Trigger,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    let at = change::present(facts, &change).await?;
    change::check_alive(&at)?;
    check_template(&at.head, &at.spec)?;
    let template = at.head.job;
    let name = triggered_name(&at.spec.name, &trigger.request_id);
    let mut spec = at.spec.child(name, &[]);
    // Where its pool is now, and not where it was when the template was submitted.
    let paths = crate::ask::paths_of(facts, &at.head).await?;
    paths.of_job(&at.head).clone_into(&mut spec.pool);
    let request = CreateJob {
        named: NamedFields::all_of(&spec),
        spec,
        violations: Vec::new(),
        // No larger than the template's.
        bytes: 0,
        hash: triggered_hash(template),
        request_id: trigger.request_id,
        origin: Some(Origin {
            template,
            due: now,
            replaces: Vec::new(),
        }),
    };
    create_job(facts, request, trigger.chance, now).await
}

/// The same for every try of a request, so that each finds the name that an earlier one took.
fn triggered_name(template: &str, request: &str) -> String {
    let hash = fnv1a(request.as_bytes());
    format!("{template}-now-{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

fn triggered_hash(template: JobId) -> u64 {
    let mut content = b"trigger ".to_vec();
    content.extend(template.0.to_be_bytes());
    fnv1a(&content)
}

fn state_of(head: &Head) -> ScheduleState {
    let stored = head.schedule.as_deref().cloned();
    stored.unwrap_or_else(|| ScheduleState::from(head.job.created_at()))
}

fn check_template(head: &Head, spec: &JobSpec) -> Result<(), ApiError> {
    if spec.is_template() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::NotATemplate,
        format!(
            "job `{}` has no schedule; it was submitted to run once",
            head.name
        ),
    ))
}

/// A changed timetable begins when it is changed: what it would have made due before does not count as missed.
pub(crate) fn settle(head: &mut Head, before: &JobSpec, after: &JobSpec, now: Timestamp) {
    let times = |s: &JobSpec| {
        let schedule = s.rules.schedule.as_ref();
        schedule.map(|s| (s.cron.clone(), s.time_zone.clone()))
    };
    if after.is_template() && times(before) != times(after) {
        let state = state_of(head);
        head.schedule = Some(Box::new(ScheduleState {
            handled: state.handled.max(now),
            ..state
        }));
    }
}

/// When a template is due next, if by itself.
#[must_use]
pub fn upcoming(head: &Head, spec: Option<&JobSpec>, now: Timestamp) -> Vec<Timestamp> {
    let state = state_of(head);
    let schedule = spec.and_then(|s| s.rules.schedule.as_ref());
    let table = schedule.and_then(|s| Timetable::of(s).ok());
    match table.filter(|_| !state.paused) {
        Some(table) => table.upcoming(state.handled.max(now), TOLD),
        None => Vec::new(),
    }
}

#[cfg(test)]
#[path = "schedules_tests.rs"]
mod tests;
