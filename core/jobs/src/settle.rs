//! What the end of a run means for its instance: met, tried again after a wait, or given up.

use echelon_core_model::failure::{CRASH_LOOP, Failure};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::instance::{Ended, InstanceRecord, Run};
use echelon_core_model::pause::Pause;
use echelon_core_model::rules::Restart;
use echelon_core_model::spec::{JobKind, Retry};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState, Timestamp};

/// Hosts that are avoided after failures there: more would leave small clusters without any.
const AVOIDED: usize = 3;
/// The same after failures of the platform, so that each of the tries that there are by default is on a host
/// of its own.
const AVOIDED_BY_PLATFORM: usize = 9;
/// Wait after the first run that ended by the platform; doubled with each in a row.
const PLATFORM_BACKOFF: Span = Span::seconds(1);
/// For so long after its wait a failed instance waits for a host that it does not avoid.
const WAIT_FOR_ANOTHER: Span = Span::seconds(30);
/// The longest wait after one.
pub const MOST_PLATFORM_BACKOFF: Span = Span::minutes(5);

/// How a group's failed runs are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The job's kind.
    pub kind: JobKind,
    /// The group's retries.
    pub retry: Retry,
    /// Its runs in a row that may end by the platform.
    pub platform_retry: u32,
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

    /// Whether the n-th run in a row that ended by the platform ends its instance. What runs for ever
    /// is tried without end, but for a member of a gang that cannot go on without it.
    fn gives_up_on_platform(&self, failures: u32) -> bool {
        let goes_on = self.runs_for_ever() && self.gang == OnMemberFailure::Member;
        !goes_on && failures >= self.platform_retry
    }

    /// The wait after the n-th failure in a row: doubled with each, bounded.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Span {
        let wait = doubled(self.retry.backoff, self.retry.max_backoff, failures);
        Span(wait.0.saturating_add(self.jitter_of(wait)))
    }

    /// The wait after the n-th run in a row that ended by the platform: doubled with each, at most
    /// `MOST_PLATFORM_BACKOFF`.
    #[must_use]
    pub fn platform_wait(&self, failures: u32) -> Span {
        let wait = doubled(PLATFORM_BACKOFF, MOST_PLATFORM_BACKOFF, failures);
        Span(wait.0.saturating_sub(self.jitter_of(wait)))
    }

    /// Up to a tenth of a wait.
    fn jitter_of(&self, wait: Span) -> u64 {
        self.jitter.checked_rem(wait.0 / 10).unwrap_or(0)
    }
}

/// The n-th of waits that double from the first to the longest.
fn doubled(first: Span, longest: Span, n: u32) -> Span {
    let doublings = n.saturating_sub(1).min(32);
    Span(first.0.saturating_mul(1u64 << doublings).min(longest.0))
}

/// What the end of a run is to its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndKind {
    /// Its goal is met.
    Met,
    /// It has failed by itself.
    OwnFailure,
    /// The platform could not run it, or lost it.
    PlatformFailure,
    /// It was stopped by us, or its host is gone: another one follows at once.
    Followed,
    /// A stale offer, a lost call or a kill by its host: another one follows after a short wait.
    Dropped,
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
    let (state, host, version) = (run.state, run.host.clone(), run.spec_version);
    let has_started = run.started_at.is_some();
    let was_well = ran(run) >= policy.healthy_after;
    let end = end_kind(run, policy);
    if was_well || (has_started && end != EndKind::PlatformFailure) || end == EndKind::OwnFailure {
        record.platform_failures = 0;
    }
    match end {
        EndKind::Met => record.ended = Some(Ended::Succeeded),
        EndKind::Followed => record.not_before = now,
        EndKind::OwnFailure => {
            record.failed_version = version;
            count(record, policy, now);
            if state != RunState::Succeeded {
                avoid(record, host, AVOIDED);
            }
        }
        EndKind::PlatformFailure => {
            count_platform(record, policy, now);
            avoid(record, host, AVOIDED_BY_PLATFORM);
        }
        // A short wait keeps a broken host from a hot loop.
        EndKind::Dropped => record.not_before = now.plus(policy.wait(1)),
    }
}

/// What the end of a run is to its instance.
fn end_kind(run: &Run, policy: &Policy) -> EndKind {
    let stopping = run.stopping.as_ref().map(|s| s.reason.code);
    // What we stopped because it did not start has failed; what else we stopped is nobody's fault.
    let late = stopping == Some(ReasonCode::StartDeadline);
    // Where the command may run only once, a run that began is its try, whatever ends it.
    let is_try = policy.restart == Restart::Never && run.started_at.is_some();
    let by_platform = run.fault.is_some() && !is_try;
    if run.state == RunState::Succeeded && !policy.runs_for_ever() {
        EndKind::Met
    } else if stopping.is_some() && !late {
        EndKind::Followed
    } else if late && run.state != RunState::Lost {
        EndKind::OwnFailure
    } else {
        match run.state {
            RunState::Failed | RunState::Rejected | RunState::Lost if by_platform => EndKind::PlatformFailure,
            RunState::Lost => EndKind::Followed,
            RunState::Failed | RunState::Succeeded => EndKind::OwnFailure,
            // Refused, not dropped on the way: the same launch would be refused again.
            RunState::Rejected if is_refused(run.reason.code) => EndKind::OwnFailure,
            _ => EndKind::Dropped,
        }
    }
}

/// Whether Mesos has refused a launch for what it asks.
const fn is_refused(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::LaunchInvalid | ReasonCode::LaunchUnauthorized)
}

/// Counts a run that ended by the platform: its instance is tried again after a wait, or given up.
fn count_platform(record: &mut InstanceRecord, policy: &Policy, now: Timestamp) {
    record.failure = failure(record, now);
    record.platform_failures = record.platform_failures.saturating_add(1);
    let failures = u32::from(record.platform_failures);
    // Of a version that fails again and again a rollout is not to go on, whoever is to blame.
    if failures >= CRASH_LOOP {
        record.failed_version = record.run.as_ref().map_or(0, |r| r.spec_version);
    }
    if policy.gives_up_on_platform(failures) {
        record.ended = Some(Ended::Failed);
    } else {
        record.not_before = now.plus(policy.platform_wait(failures));
    }
}

/// How its latest run ended.
fn failure(record: &InstanceRecord, now: Timestamp) -> Option<Box<Failure>> {
    record.run.as_ref().map(|run| {
        Box::new(Failure {
            at: run.ended_at.unwrap_or(now),
            reason: run.reason.clone(),
            exit_code: run.exit_code,
        })
    })
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
    record.failure = failure(record, now);
    // All failures of one try of a gang are one.
    record.attempts = of_gang.unwrap_or_else(|| record.attempts.saturating_add(1));
    let exit_code = record.run.as_ref().and_then(|r| r.exit_code);
    if policy.gives_up(record.attempts, exit_code) {
        record.ended = Some(Ended::Failed);
    } else {
        record.not_before = now.plus(policy.wait(record.attempts));
    }
}

/// Whether a host that an instance avoids is still too early for it, where another one has room: it may have to be
/// asked for first.
#[must_use]
pub fn awaits_another_host(record: &InstanceRecord, now: Timestamp) -> bool {
    now < record.not_before.plus(WAIT_FOR_ANOTHER)
}

/// Forgets earlier failures: it has run well since for long enough.
pub fn forgive(record: &mut InstanceRecord) {
    record.attempts = 0;
    record.platform_failures = 0;
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
    let has_failed = record.attempts > 0 || record.platform_failures > 0;
    let run = record.run.as_ref().filter(|_| has_failed)?;
    Some(pause.due(run.available_since()?, healthy_after, now))
}

fn ran(run: &Run) -> Span {
    match (run.started_at, run.ended_at) {
        (Some(start), Some(end)) => end.since(start),
        _ => Span::ZERO,
    }
}

/// Notes a host to avoid; of more than so many the oldest are forgotten.
fn avoid(record: &mut InstanceRecord, host: HostId, most: usize) {
    record.avoid.retain(|h| *h != host);
    record.avoid.push(host);
    let surplus = record.avoid.len().saturating_sub(most);
    record.avoid.drain(..surplus);
}
