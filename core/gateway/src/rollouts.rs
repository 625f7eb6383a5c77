//! Steers the rollout of a job: holds it, lets it go on, accepts its canaries, takes it back, or goes to an earlier version. Each is
//! one compare-and-set on the head, so it answers at once and a newer wish wins.

use crate::change::{self, Change, Present};
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::view::JobView;
use crate::{ask, update};
use echelon_core_model::job::Head;
use echelon_core_model::rollout::{Rollout, RolloutProgress};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{ReasonCode, Timestamp};

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;

/// What is wanted of a rollout that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// Update nothing more.
    Pause,
    /// Go on. If it was held for what has failed, that is accepted.
    Resume,
    /// Accept the canaries.
    Promote,
    /// Take it back.
    Abort,
}

/// The rollout of a job, while it is under way.
#[must_use]
pub fn under_way(at: &Present) -> Option<&Rollout> {
    let rollout = at.head.rollout.as_ref()?;
    rollout.is_under_way(known(at)).then_some(rollout)
}

/// The rollout that follows the present one, which is over or superseded, and what is kept of that.
pub(crate) fn next(at: &Present, now: Timestamp) -> Rollout {
    let base = under_way(at).map_or(at.head.spec_version, |r| r.base);
    Rollout::after(at.head.rollout.as_ref(), base, now)
}

/// What became of the latest rollout so far.
pub(crate) fn known(at: &Present) -> Option<&RolloutProgress> {
    at.progress.as_ref()?.rollout.as_ref()
}

/// Steers the rollout that is under way.
///
/// # Errors
/// No such job, no rollout under way, an old etag, or storage.
pub async fn steer<F: Facts>(
    facts: &F,
    change: Change,
    wish: Steer,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        let rollout = *under_way(&at).ok_or_else(|| no_rollout(&at))?;
        let done = if wish == Steer::Abort {
            if rollout.back.is_some() {
                return change::view(facts, at).await;
            }
            let back = rollout.going_back(ReasonCode::RolloutAborted, now);
            go_back(facts, &change, at, (rollout.base, back), now).await?
        } else {
            let steered = steered(&at, &rollout, wish);
            if steered == rollout {
                return change::view(facts, at).await;
            }
            let head = Head {
                rollout: Some(steered),
                ..at.head.clone()
            };
            change::put(facts, &change, at, head, now).await?
        };
        if let Some(done) = done {
            return change::view(facts, done).await;
        }
    }
    Err(change::contention(&change.job))
}

fn steered(at: &Present, rollout: &Rollout, wish: Steer) -> Rollout {
    match wish {
        Steer::Pause => Rollout {
            held: rollout.held.or(Some(ReasonCode::RolloutPaused)),
            ..*rollout
        },
        Steer::Resume => {
            let failed = known(at)
                .filter(|p| p.number == rollout.number && rollout.held == Some(ReasonCode::RolloutFailures));
            Rollout {
                held: None,
                forgiven: failed.map_or(rollout.forgiven, |p| p.failed),
                ..*rollout
            }
        }
        Steer::Promote => Rollout {
            promoted: true,
            ..*rollout
        },
        Steer::Abort => *rollout,
    }
}

fn no_rollout(at: &Present) -> ApiError {
    let name = &at.head.name;
    let last = match &at.head.rollout {
        Some(r) => format!("its last one, number {}, is over", r.number),
        None => "nothing of it was ever updated".to_owned(),
    };
    ApiError::new(
        ErrorReason::NoRollout,
        format!("job `{name}` has no rollout under way: {last}"),
    )
}

/// Brings a job back to the runs of an earlier version; without one to that from before its last rollout. How many instances there
/// are, and how they are looked after, stays as it is.
///
/// # Errors
/// No such job or version, an old etag, or storage.
pub async fn roll_back_job<F: Facts>(
    facts: &F,
    change: Change,
    version: Option<u32>,
    now: Timestamp,
) -> Result<JobView, ApiError> {
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        let version = match version.or(at.head.rollout.map(|r| r.base)) {
            Some(version) => version,
            None => return Err(no_rollout(&at)),
        };
        let back = Rollout {
            back: Some(ReasonCode::RolloutRollback),
            ..next(&at, now)
        };
        if let Some(done) = go_back(facts, &change, at, (version, back), now).await? {
            return change::view(facts, done).await;
        }
    }
    Err(change::contention(&change.job))
}

/// Puts the runs of an earlier version into force by a rollout; `None` when another change came first. What is so already stays.
async fn go_back<F: Facts>(
    facts: &F,
    change: &Change,
    at: Present,
    (version, rollout): (u32, Rollout),
    now: Timestamp,
) -> Result<Option<Present>, ApiError> {
    let earlier = kept(facts, &at.head, version).await?;
    let spec = at.spec.with_runs_of(&earlier, version);
    if spec == at.spec {
        return Ok(Some(at));
    }
    let (version, spec) = update::put_spec(facts, &at, spec, |_, _| {}).await?;
    let mut head = at.head.clone();
    if spec.kind.runs_for_ever() {
        head.begin_rollout(rollout, version, known(&at));
    }
    head.spec_version = version;
    let at = Present { spec, ..at };
    change::put(facts, change, at, head, now).await
}

/// An earlier spec version of a job.
///
/// # Errors
/// It is not kept, or never was; or storage.
pub async fn kept<F: Facts>(facts: &F, head: &Head, version: u32) -> Result<JobSpec, ApiError> {
    let known = (1..=head.spec_version).contains(&version);
    let spec = if known {
        ask::spec(facts, head.job, version).await?
    } else {
        None
    };
    spec.ok_or_else(|| {
        ApiError::field(
            "spec_version",
            format!(
                "job `{}` has no version {version}; it has 1 to {}",
                head.name, head.spec_version
            ),
        )
    })
}

#[cfg(test)]
#[path = "rollouts_tests.rs"]
mod tests;
