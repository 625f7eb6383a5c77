//! Restarts of a job, or of some of its instances, with a bound on how many are down for it at once. One compare-and-set on the head: it
//! answers at once, and a newer restart takes in what it shares with those before.

use crate::change::{self, Change, Present};
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::update::wrong_group;
use crate::view::JobView;
use echelon_core_model::job::{Goal, Head};
use echelon_core_model::restart::{RESTART_RANGES, RestartPart, Restarts, all_numbers};
use echelon_core_model::spec::GroupSpec;
use echelon_core_model::{GroupName, RangeSet, Timestamp};

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;

/// Which runs are to be replaced, and how fast.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restart {
    /// The group; `None`: all of them, or the only one where `numbers` are given.
    pub group: Option<GroupName>,
    /// Its instances; `None`: all of them.
    pub numbers: Option<RangeSet>,
    /// Most instances of a group that are down for it at once; `None`: as many as `max_unavailable`.
    pub batch: Option<u32>,
}

/// Has runs replaced, within `max_unavailable`.
///
/// # Errors
/// No such job, group or instance, an old etag, a job that has ended or is on its way out, too many parts, or storage.
pub async fn restart_job<F: Facts>(
    facts: &F,
    change: Change,
    restart: &Restart,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    if restart.batch == Some(0) {
        return Err(ApiError::field("batch", "must be at least 1"));
    }
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        let head = restarted(&at, restart, now)?;
        if let Some(done) = change::put(facts, &change, at, head, now).await? {
            return change::view(facts, done).await;
        }
    }
    Err(change::contention(&change.job))
}

/// The head after a restart.
fn restarted(at: &Present, restart: &Restart, now: Timestamp) -> Result<Head, ApiError> {
    if at.spec.is_template() {
        return Err(ApiError::new(
            ErrorReason::IsATemplate,
            format!(
                "job `{name}` runs nothing itself: jobs are made of it by its schedule; restart one of these (`echelon job list`), or make one \
                 now (`echelon job trigger {name}`)",
                name = at.head.name
            ),
        ));
    }
    let version = at.head.version.next();
    let Some((group, numbers)) = part(at, restart)? else {
        let goal = Goal {
            restarts: at.head.goal.restarts.saturating_add(1),
            ..at.head.goal
        };
        return Ok(Head {
            goal,
            restarts: Some(Box::new(Restarts::of_all(version, now, restart.batch))),
            ..at.head.clone()
        });
    };
    let part = RestartPart {
        version,
        group,
        numbers,
    };
    let restarts = open(at).and(part, now, restart.batch);
    if restarts.ranges() > RESTART_RANGES {
        return Err(ApiError::new(
            ErrorReason::FieldInvalid,
            format!(
                "restarts of parts of job `{}` that are not over would name {} ranges of instances, more than {RESTART_RANGES}; \
                 wait until they are over (`echelon job get`), or restart a whole group",
                at.head.name,
                restarts.ranges()
            ),
        ));
    }
    Ok(Head {
        restarts: Some(Box::new(restarts)),
        ..at.head.clone()
    })
}

/// The restarts of which something may be left to do.
fn open(at: &Present) -> Restarts {
    let Some(known) = at.head.restarts.as_deref() else {
        return Restarts::default();
    };
    let progress = at.progress.as_ref().and_then(|p| p.restart);
    let over = progress.is_some_and(|p| p.version == known.version && p.done_at.is_some());
    if over { Restarts::default() } else { known.clone() }
}

/// The part of a job that is meant; `None`: all of it.
fn part(at: &Present, restart: &Restart) -> Result<Option<(GroupName, RangeSet)>, ApiError> {
    let groups = at.spec.groups.as_slice();
    let wrong = || wrong_group(restart.group.as_ref(), groups.iter().map(|g| &g.name));
    let group = match (&restart.group, &restart.numbers, groups) {
        (None, None, _) => return Ok(None),
        (None, Some(_), [only]) => only,
        (None, Some(_), _) => return Err(wrong()),
        (Some(name), ..) => groups.iter().find(|g| g.name == *name).ok_or_else(wrong)?,
    };
    let numbers = match &restart.numbers {
        None => all_numbers(),
        Some(numbers) => checked(group, &at.spec.numbers(group), numbers)?,
    };
    Ok(Some((group.name.clone(), numbers)))
}

/// Those that are named, if the group has them all.
fn checked(group: &GroupSpec, all: &RangeSet, numbers: &RangeSet) -> Result<RangeSet, ApiError> {
    let beyond = numbers.minus(all);
    if let Some(first) = beyond.ranges().first() {
        let problem = match all.ranges().last() {
            Some(last) => format!(
                "group {} has instances 0 to {}, and no {}",
                group.name, last.last, first.first
            ),
            None => format!("group {} has no instances", group.name),
        };
        return Err(ApiError::field("instances", problem));
    }
    if numbers.is_empty() {
        return Err(ApiError::field("instances", "must name at least one"));
    }
    Ok(numbers.clone())
}

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;
