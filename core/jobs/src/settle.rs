//! What the end of a run means for its instance: met, tried again after a wait, or given up.

use echelon_core_model::failure::Failure;
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::instance::{Ended, InstanceRecord, Run};
use echelon_core_model::pause::Pause;
use echelon_core_model::rules::Restart;
use echelon_core_model::spec::{JobKind, Retry};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState, Timestamp};

/// Hosts that are avoided after failures there: more would leave small clusters without any.
const AVOIDED: usize = 3;

/// How a group's failed runs are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The job's kind.
    pub kind: JobKind,
    /// The group's retries.
    pub retry: Retry,
    /// What follows the end of a run of a batch job.
    pub restart: Restart,
    /// What follows the failure of a member, where it is a gang.
    pub gang: OnMemberFailure,
    /// A service's run as long as this forgives earlier failures.
    pub healthy_after: Span,
    /// Random; spreads retries by up to a tenth of their wait.
    pub jitter: u64,
}

impl Policy {
    /// Whether another run follows whatever one ends with.
    const fn runs_for_ever(&self) -> bool {
        self.kind.runs_for_ever() || matches!(self.restart, Restart::Always)
    }

    /// Whether a failed run ends its instance, if that is the n-th in a row. With an instance that gave up a gang cannot go on as a
    /// whole, so there even what runs for ever gives up.
    fn gives_up(&self, failures: u32, exit_code: Option<i32>) -> bool {
        let hopeless = exit_code.is_some_and(|code| self.retry.no_retry_exit_codes.contains(code));
        let tried = self.restart == Restart::Never || failures >= self.retry.limit;
        match self.gang {
            OnMemberFailure::Member => !self.runs_for_ever() && (hopeless || tried),
            OnMemberFailure::Gang => hopeless || tried,
            OnMemberFailure::Job => true,
        }
    }

    /// The wait after the n-th failure in a row: doubled with each, bounded.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Span {
        let doublings = failures.saturating_sub(1).min(32);
        let wait = self.retry.backoff.0.saturating_mul(1u64 << doublings);
        let wait = wait.min(self.retry.max_backoff.0);
        let tenth = wait / 10;
        Span(wait.saturating_add(self.jitter.checked_rem(tenth).unwrap_or(0)))
    }
}

/// Draws the consequence of the latest run's end, if that is still to be done. Waits count from that end, however late it is settled.
pub fn settle(record: &mut InstanceRecord, policy: &Policy) {
    if !std::mem::take(&mut record.unsettled) {
        return;
    }
    let Some(run) = record.run.as_ref().filter(|r| r.state.is_ended()) else {
        return;
    };
    let now = run.ended_at.unwrap_or(run.since);
    let met = run.state == RunState::Succeeded && !policy.runs_for_ever();
    let failed = match run.state {
        RunState::Failed => true,
        RunState::Succeeded => policy.runs_for_ever(),
        // Refused, not dropped on the way: the same launch would be refused again.
        RunState::Rejected => matches!(
            run.reason.code,
            ReasonCode::LaunchInvalid | ReasonCode::LaunchUnauthorized
        ),
        _ => false,
    };
    let stopping = run.stopping.as_ref().map(|s| s.reason.code);
    // What we stopped because it did not start has failed; what else we stopped is nobody's fault.
    let late = stopping == Some(ReasonCode::StartDeadline);
    let (failed, wished) = (failed || late, stopping.is_some() && !late);
    let (state, host) = (run.state, run.host.clone());
    if met {
        record.ended = Some(Ended::Succeeded);
    } else if wished || state == RunState::Lost {
        record.not_before = now;
    } else if failed {
        record.failed_version = record.run.as_ref().map_or(0, |r| r.spec_version);
        count(record, policy, now);
        if state != RunState::Succeeded {
            avoid(record, host);
        }
    } else {
        // Not its fault: dropped on the way, or killed by its host. A short wait keeps a broken host from a hot loop.
        record.not_before = now.plus(policy.wait(1));
    }
}

fn count(record: &mut InstanceRecord, policy: &Policy, now: Timestamp) {
    let of_gang = record.run.as_ref().map(|r| r.gang_try).filter(|n| *n > 0);
    if of_gang.is_none()
        && policy.runs_for_ever()
        && record
            .run
            .as_ref()
            .is_some_and(|r| ran(r) >= policy.healthy_after)
    {
        forgive(record);
    }
    record.failure = record.run.as_ref().map(|run| {
        Box::new(Failure {
            at: run.ended_at.unwrap_or(now),
            reason: run.reason.clone(),
            exit_code: run.exit_code,
        })
    });
    // All failures of one try of a gang are one.
    record.attempts = of_gang.unwrap_or_else(|| record.attempts.saturating_add(1));
    let exit_code = record.run.as_ref().and_then(|r| r.exit_code);
    if policy.gives_up(record.attempts, exit_code) {
        record.ended = Some(Ended::Failed);
    } else {
        record.not_before = now.plus(policy.wait(record.attempts));
    }
}

/// Forgets earlier failures: it has run well since for long enough.
pub fn forgive(record: &mut InstanceRecord) {
    record.attempts = 0;
    record.failure = None;
    record.avoid.clear();
}

/// When earlier failures of an instance that runs for ever are forgiven, if it is available until then; `None`: it is not, or has none.
#[must_use]
pub fn forgiven_at(
    record: &InstanceRecord,
    healthy_after: Span,
    pause: &Pause,
    now: Timestamp,
) -> Option<Timestamp> {
    let run = record.run.as_ref().filter(|_| record.attempts > 0)?;
    Some(pause.due(run.available_since()?, healthy_after, now))
}

fn ran(run: &Run) -> Span {
    match (run.started_at, run.ended_at) {
        (Some(start), Some(end)) => end.since(start),
        _ => Span::ZERO,
    }
}

fn avoid(record: &mut InstanceRecord, host: HostId) {
    record.avoid.retain(|h| *h != host);
    record.avoid.push(host);
    if record.avoid.len() > AVOIDED {
        record.avoid.remove(0);
    }
}
