//! What the cluster says of a task, applied to the run that it names. A state is left only along the table of
//! `RunState::may_become`, so what is late, repeated or contradicts a known end changes nothing (Mesos rule R102).

use crate::pod;
use crate::settle::{Policy, settle};
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::{Generation, Reason, ReasonCode, RunNumber, RunState, SidecarName, Timestamp};

/// What a cluster says of a task, in the words of a run's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Told {
    /// It is there and being prepared.
    Preparing,
    /// Its command runs.
    Running,
    /// It is there and told to end.
    Ending,
    /// Ended with status 0.
    Succeeded,
    /// Ended otherwise.
    Failed,
    /// Ended because it was told to.
    Killed,
    /// Refused as invalid; never ran.
    Invalid,
    /// Never reached its host; never ran.
    Dropped,
    /// Certainly not there any more.
    Gone,
    /// Nobody can tell: it may live.
    Silent,
}

impl Told {
    /// Whether it proves that nothing of the task is left.
    #[must_use]
    pub const fn is_proof_of_death(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Killed | Self::Invalid | Self::Dropped | Self::Gone
        )
    }

    /// Whether the task is there, was there, or may be. That it is gone proves nothing: it may never have come to be.
    #[must_use]
    pub const fn may_have_run(self) -> bool {
        !matches!(self, Self::Invalid | Self::Dropped | Self::Gone)
    }

    /// Whether it proves that the task is there.
    #[must_use]
    pub const fn is_proof_of_life(self) -> bool {
        matches!(self, Self::Preparing | Self::Running | Self::Ending)
    }
}

/// Of which task of a run a cluster speaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whom {
    /// Of all that there are.
    All,
    /// Of the main task: the only one, where the run is no pod.
    Main,
    /// Of this sidecar.
    Sidecar(SidecarName),
}

/// What a cluster says, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Of whom.
    pub of: Whom,
    /// What.
    pub told: Told,
    /// Why, for an end or silence.
    pub reason: Reason,
    /// Exit status, when it is known.
    pub exit_code: Option<i32>,
    /// What its health check says, when told.
    pub healthy: Option<bool>,
    /// What its readiness probe says, when told.
    pub ready: Option<bool>,
    /// The fault of the platform by which it ended, where the platform ended it.
    pub fault: Option<PlatformCause>,
    /// When it happened, by the clock of whoever tells it.
    pub at: Option<Timestamp>,
}

impl News {
    /// When a run came into the state that this tells. It is never before its last state, nor in the future by our
    /// clock. News without a time is dated now.
    pub(crate) fn happened(&self, run: &Run, now: Timestamp) -> Timestamp {
        self.at.unwrap_or(now).max(run.since).min(now)
    }
}

/// What became of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing changed.
    Nothing,
    /// The latest run is in another state now.
    Latest,
    /// Something is known of an older pod's member; the pod may live on.
    Older,
    /// An older run is known dead and no longer kept.
    OlderEnded(Box<Run>),
    /// An older run that was given up lives; the caller settles it.
    OlderAlive,
    /// The record does not know such a run.
    Unknown,
}

/// Applies news of run (`generation`, `number`) to the record, and what its end means for the instance. Without a policy the end is
/// noted as unsettled: what it means is decided when the policy is known.
pub fn hear(
    record: &mut InstanceRecord,
    of: (Generation, RunNumber),
    news: &News,
    policy: Option<&Policy>,
    now: Timestamp,
) -> Heard {
    let is_it = |r: &Run| (r.generation, r.number) == of;
    if let Some(run) = record.run.as_mut().filter(|r| is_it(r)) {
        let was_over = run.state.is_ended();
        let mut applied = apply(run, news, now);
        if was_over && !run.state.is_ended() {
            run.forget_availability();
            note_own_probes(run, news);
        }
        // An adopted run is available from the first update on that shows it well.
        applied |= news.told == Told::Running && run.is_available() && run.available_at.is_none();
        if applied {
            run.note_availability(now);
        }
        let reached = match news.told {
            Told::Silent => run.state == RunState::Unreachable,
            told => told.may_have_run(),
        };
        let unused = record.volume.as_mut().filter(|v| reached && !v.used);
        let bound = unused.map(|volume| volume.used = true);
        if !applied {
            return bound.map_or(Heard::Nothing, |()| Heard::Latest);
        }
        record.unsettled = record.run.as_ref().is_some_and(|r| r.state.is_ended());
        if let Some(policy) = policy {
            settle(record, policy);
        }
        return Heard::Latest;
    }
    let Some(at) = record.older.iter().position(is_it) else {
        return Heard::Unknown;
    };
    let pod = record.older.get_mut(at).filter(|r| !r.members.is_empty());
    let noted = pod.is_some_and(|run| pod::apply_older(run, news, now));
    if news.told.is_proof_of_death() && record.older.get(at).is_some_and(pod::is_over) {
        let mut run = record.older.remove(at);
        apply(&mut run, news, now);
        keep_number(record, &run);
        return Heard::OlderEnded(Box::new(run));
    }
    let given_up = record.older.get(at).is_some_and(|r| r.state == RunState::Lost);
    if given_up && news.told.is_proof_of_life() {
        Heard::OlderAlive
    } else if noted {
        Heard::Older
    } else {
        Heard::Nothing
    }
}

/// The largest run number stays in the record, or it would be given out again.
fn keep_number(record: &mut InstanceRecord, dead: &Run) {
    let key = |r: &Run| (r.generation, r.number);
    if record
        .run
        .as_ref()
        .is_none_or(|r| r.state.is_ended() && key(r) < key(dead))
    {
        record.run = Some(dead.clone());
    }
}

/// The state that the news lead to, before it is asked whether the run may go there.
pub(crate) fn aim(state: RunState, told: Told) -> RunState {
    match told {
        Told::Preparing => RunState::Starting,
        Told::Running => RunState::Running,
        // It is at its executor, although nothing else was heard of it: storage may be older than that.
        Told::Ending if state == RunState::Launching => RunState::Starting,
        Told::Ending => state,
        Told::Succeeded => RunState::Succeeded,
        Told::Failed => RunState::Failed,
        Told::Killed => RunState::Killed,
        Told::Invalid | Told::Dropped if state.may_become(RunState::Rejected) => RunState::Rejected,
        Told::Gone if state == RunState::Launching => RunState::Rejected,
        Told::Gone if state == RunState::Stopping => RunState::Killed,
        Told::Invalid | Told::Dropped | Told::Gone => RunState::Lost,
        Told::Silent => RunState::Unreachable,
    }
}

/// Moves a run along and notes what its probes say. True when anything changed.
fn apply(run: &mut Run, news: &News, now: Timestamp) -> bool {
    if !run.members.is_empty() {
        return pod::apply(run, news, now);
    }
    let probed = !run.state.is_ended() && note_probes(run, news);
    advance(run, news, now) || probed
}

fn stopped_for(run: &Run) -> Option<Reason> {
    let stopping = run.stopping.as_ref().map(|s| &s.reason);
    let telling = |code| {
        matches!(
            code,
            ReasonCode::PoolPreempted | ReasonCode::StartDeadline | ReasonCode::GangRestart
        )
    };
    stopping.filter(|r| telling(r.code)).cloned()
}

/// What is not told stays as it was: the answer to a reconciliation tells little (R100).
pub(crate) fn note_probes(run: &mut Run, news: &News) -> bool {
    let (healthy, ready) = (news.healthy.or(run.healthy), news.ready.or(run.ready));
    let changed = (run.healthy, run.ready) != (healthy, ready);
    (run.healthy, run.ready) = (healthy, ready);
    changed
}

/// The same of news that may be about a sidecar, whose probes are its own.
fn note_own_probes(run: &mut Run, news: &News) {
    if !matches!(news.of, Whom::Sidecar(_)) {
        note_probes(run, news);
    }
}

fn advance(run: &mut Run, news: &News, now: Timestamp) -> bool {
    if run.state == RunState::Stopping && !news.told.is_proof_of_death() {
        return note_silence(run, news.told == Told::Silent, now);
    }
    let next = aim(run.state, news.told);
    if next == run.state || !run.state.may_become(next) {
        return false;
    }
    run.reason = match next {
        RunState::Starting => ReasonCode::Starting.into(),
        RunState::Running => ReasonCode::Running.into(),
        // Who has his room, or that it came too late, is worth more than that it was killed as asked.
        RunState::Killed => stopped_for(run).unwrap_or_else(|| news.reason.clone()),
        _ => news.reason.clone(),
    };
    run.state = next;
    run.since = news.happened(run, now);
    if next == RunState::Running && run.started_at.is_none() {
        run.started_at = Some(now);
    }
    run.ended_at = next.is_ended().then_some(now);
    run.exit_code = news.exit_code;
    run.fault = news.fault.filter(|_| next.is_ended());
    true
}

/// A stopping run keeps its state; since when its host is silent is kept in its reason, so that the wait survives us.
pub(crate) fn note_silence(run: &mut Run, is_silent: bool, now: Timestamp) -> bool {
    let was_silent = run.reason.code == ReasonCode::HostUnreachable;
    if was_silent == is_silent {
        return false;
    }
    run.since = now;
    run.reason = if is_silent {
        ReasonCode::HostUnreachable.into()
    } else {
        let wish = run.stopping.as_ref().map(|s| s.reason.clone());
        let wish = wish.or_else(|| run.ending.as_ref().map(|e| e.reason.clone()));
        wish.unwrap_or_else(|| ReasonCode::StopRequested.into())
    };
    true
}
