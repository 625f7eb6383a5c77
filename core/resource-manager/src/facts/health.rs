//! The health of each cluster. It is judged here and nowhere else, in two steps: what the evidence shows now,
//! and what that makes of the health before.
//!
//! Times are those of this leader's own clock, and ages are those that a shard has measured by its own. What
//! counts is when this leader saw a change. So another machine's clock cannot make a cluster silent, and a
//! leader that was away begins to wait again (law 6).
//!
//! | evidence | health | at the latest after the fault |
//! | --- | --- | --- |
//! | the stream is silent for 8 s, heartbeats change | degraded | 10 s |
//! | the stream and the heartbeats are silent for 8 s | cut off | 13 s |
//! | not subscribed for less than 8 s | degraded | 2 s |
//! | not subscribed for 8 s, or two questions and 8 s without an answer or event | without Mesos | 14 s |
//! | agents are listed, and none is active | without agents | 2 s after Mesos' report |
//! | more than 5 % of the agents, and at least 2, are unreachable | degraded | 2 s after Mesos' report |
//! | a commit has waited for storage for 2 s | degraded | 4 s |
//! | half of the starts fail by the platform, until a fifth does | degraded | 8 s after the tenth start |
//! | cut off or without Mesos for 15 min in sum, or declared lost | lost | |
//!
//! Bad evidence counts at once. Good evidence after a bad state counts after a hold that doubles with each
//! return to a bad state, so a cluster that flaps takes no new work. While this leader doubts itself
//! (`facts/loss.rs`), silences go on and are not counted.

use crate::config::Config;
use crate::facts::cluster::ClusterView;
use crate::facts::loss::Doubt;
use echelon_core_model::cluster::{ClusterState, ReportedCapacity};
use echelon_core_model::health::{
    ClusterHealth, Declaration, DeclaredHealth, Health, HealthCause, ShardSigns,
};
use echelon_core_model::{ClusterId, Span, Timestamp};

/// A commit that waits longer for storage shows that storage is slow.
const SLOW_COMMIT: Span = Span::seconds(2);
/// Agents out of reach count from this many on.
const FEWEST_UNREACHABLE: u32 = 2;
/// One in so many agents may be out of reach.
const ONE_IN: u64 = 20;
/// A step between two judgements that is longer was a pause of this process. It is not counted as waited.
const LONGEST_STEP: Span = Span::seconds(5);

/// What the evidence shows of a cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthEvidence {
    /// Not enough is known yet.
    Unknown,
    /// Its shard has never sent a full report.
    NoReport,
    /// It is in a state that is none of a healthy cluster. There is at least one cause.
    Bad(Health, Vec<HealthCause>),
    /// It can start work. The causes say what is wrong all the same.
    Good(Vec<HealthCause>),
}

/// What a judgement rests on beside the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgementBasis {
    /// Now.
    pub now: Timestamp,
    /// The time since this leader last judged it; none: it has not yet.
    pub step: Option<Span>,
    /// Why this leader doubts its own observation of silent clusters, if it does.
    pub doubt: Option<Doubt>,
    /// What an operator has declared of a silence.
    pub declared: Option<DeclaredHealth>,
    /// When its last heartbeat was written, by its shard's clock.
    pub heartbeat_at: Option<Timestamp>,
}

impl JudgementBasis {
    /// The time since the last judgement, without a pause of this process.
    #[must_use]
    pub fn measured(self) -> Span {
        self.step.filter(|step| *step <= LONGEST_STEP).unwrap_or_default()
    }
}

/// What the evidence shows of a cluster now.
#[must_use]
pub fn evidence(
    cluster: &ClusterView,
    config: &Config,
    leading_since: Timestamp,
    now: Timestamp,
) -> HealthEvidence {
    let is_known = |state: &ClusterState| state.health.health != Health::Joining;
    if cluster.capacity.is_none() && !cluster.state.as_ref().is_some_and(is_known) {
        return HealthEvidence::NoReport;
    }
    let lately = |at: Timestamp| now.since(at) < config.silent_after;
    // A stream that has closed may be open again at once.
    let stream_speaks = cluster.heard_at.is_some_and(lately);
    let beat = cluster.heartbeat.as_ref().filter(|(_, seen)| lately(*seen));
    let signs = match (stream_speaks, cluster.signs, beat) {
        (true, Some((signs, at)), _) => Some(signs.later(now.since(at))),
        (false, _, Some((beat, seen))) => Some(beat.signs.later(now.since(*seen))),
        _ => None,
    };
    if !stream_speaks && beat.is_none() {
        // Law 6: what was seen before this leader led does not show how long the cluster was away.
        let last = cluster.heard_at.unwrap_or(leading_since).max(leading_since);
        return if lately(last) {
            HealthEvidence::Unknown
        } else {
            HealthEvidence::Bad(Health::CutOff, vec![HealthCause::ShardSilent])
        };
    }
    let Some(signs) = signs else {
        return HealthEvidence::Unknown;
    };
    let mut found = of_signs(&signs);
    if cluster.master.is_refused(now) {
        found = with(HealthCause::SameMaster, found);
    }
    if stream_speaks {
        let before = cluster.state.as_ref().map_or(&[][..], |s| &s.health.causes);
        // The shares of a new leader lack the clusters that have not reported to it yet.
        let starts_fail = if lately(leading_since) {
            before.iter().copied().find(HealthCause::is_of_starts)
        } else {
            cluster.starts.cause(before)
        };
        return with_starts(starts_fail, found);
    }
    // A new leader has opened no stream yet.
    if lately(leading_since) {
        return HealthEvidence::Unknown;
    }
    with(HealthCause::StreamSilent, found)
}

/// What a shard's own observations show.
fn of_signs(signs: &ShardSigns) -> HealthEvidence {
    if let Some(cause) = signs.without_mesos() {
        return HealthEvidence::Bad(Health::WithoutMesos, vec![cause]);
    }
    if signs.subscribed && signs.agents.is_some_and(|agents| agents.active == 0) {
        return HealthEvidence::Bad(Health::WithoutAgents, vec![HealthCause::NoAgents]);
    }
    let mut causes = Vec::new();
    if let Some(agents) = signs.agents {
        let (unreachable, of) = (
            agents.unreachable,
            agents.active.saturating_add(agents.unreachable),
        );
        let is_many = u64::from(unreachable).saturating_mul(ONE_IN) > u64::from(of);
        if unreachable >= FEWEST_UNREACHABLE && is_many {
            causes.push(HealthCause::AgentsUnreachable { unreachable, of });
        }
    }
    if signs.commit_age >= SLOW_COMMIT {
        causes.push(HealthCause::StorageSlow);
    }
    let mut found = HealthEvidence::Good(causes);
    if !signs.subscribed {
        found = with(HealthCause::MesosFailover, found);
    }
    if signs.frozen {
        found = with(HealthCause::ShardFrozen, found);
    }
    found
}

/// The same with a cause for which a cluster takes no new work, or hardly any, before the others.
fn with(cause: HealthCause, found: HealthEvidence) -> HealthEvidence {
    match found {
        HealthEvidence::Good(causes) => {
            let causes = std::iter::once(cause).chain(causes);
            HealthEvidence::Bad(Health::Degraded, causes.collect())
        }
        HealthEvidence::Bad(health, mut causes) => {
            causes.push(cause);
            HealthEvidence::Bad(health, causes)
        }
        HealthEvidence::Unknown | HealthEvidence::NoReport => found,
    }
}

/// The same with starts that fail. Where Mesos is away, nothing starts, and counts from before say nothing more.
fn with_starts(starts_fail: Option<HealthCause>, found: HealthEvidence) -> HealthEvidence {
    match (starts_fail, &found) {
        (Some(cause), HealthEvidence::Good(_) | HealthEvidence::Bad(Health::Degraded, _)) => {
            with(cause, found)
        }
        _ => found,
    }
}

/// What the evidence makes of the health before.
#[must_use]
pub fn judge(
    before: &ClusterHealth,
    evidence: HealthEvidence,
    config: &Config,
    at: JudgementBasis,
) -> ClusterHealth {
    let now = at.now;
    let confirmed = ClusterHealth {
        as_of: now,
        ..before.clone()
    };
    match evidence {
        HealthEvidence::Unknown => before.clone(),
        HealthEvidence::NoReport => turned(confirmed, Health::Joining, vec![HealthCause::NoReport], now),
        HealthEvidence::Bad(health, causes) => fallen(confirmed, (health, causes), config.lost_after, at),
        HealthEvidence::Good(causes) => risen(confirmed, causes, now),
    }
}

/// A cluster in a bad state.
fn fallen(
    mut of: ClusterHealth,
    found: (Health, Vec<HealthCause>),
    lost_after: Span,
    at: JudgementBasis,
) -> ClusterHealth {
    let (health, causes) = found;
    let now = at.now;
    if !is_held_after(&of) && is_damped(health, &causes) {
        of.doublings = doublings(&of, now);
    }
    if !health.is_silence() {
        // It is back, and not well yet: the hold begins.
        if is_held_after(&of) && !is_damped(health, &causes) {
            of.returned_at = Some(now);
        }
        return turned(of, health, causes, now);
    }
    // A lost cluster stays lost while the same evidence stands.
    let is_same = of.health == health || (of.health == Health::Lost && of.causes == causes);
    // A leader that has read no heartbeat does not know whether the cluster was back.
    let is_other = at.heartbeat_at.is_some() && of.heartbeat_at != at.heartbeat_at;
    let was_back = health == Health::CutOff && is_other;
    let goes_on = is_same && !was_back;
    if !goes_on {
        of.silence = of.silence.saturating_add(1);
        (of.waited, of.doubted, of.heartbeat_at) = (Span::ZERO, Span::ZERO, at.heartbeat_at);
    }
    let measured = if goes_on { at.measured() } else { Span::ZERO };
    let declared = at.declared.filter(|declared| declared.silence == of.silence);
    let is_lost = match declared.map(|declared| declared.as_what) {
        Some(Declaration::Lost | Declaration::NeverReturns) => true,
        Some(Declaration::AliveUntil(until)) if now < until => false,
        _ => {
            let sum = if at.doubt.is_some() {
                &mut of.doubted
            } else {
                &mut of.waited
            };
            *sum = Span(sum.0.saturating_add(measured.0));
            of.waited >= lost_after
        }
    };
    let health = if is_lost { Health::Lost } else { health };
    turned(of, health, causes, now)
}

/// A cluster that can start work.
fn risen(mut of: ClusterHealth, causes: Vec<HealthCause>, now: Timestamp) -> ClusterHealth {
    if is_held_after(&of) {
        of.returned_at = Some(now);
    }
    // A leader before may have had a clock that is ahead.
    let returned_at = of.returned_at.map(|at| at.min(now));
    // Whatever came in between, a short failover of the master too: the hold ends by its time.
    let is_held = returned_at.is_some_and(|at| now.since(at) < of.hold());
    of.returned_at = returned_at;
    let health = if is_held {
        Health::Recovering
    } else if causes.is_empty() {
        Health::Healthy
    } else {
        Health::Degraded
    };
    turned(of, health, causes, now)
}

/// Whether the hold is due once a cluster comes out of this health.
fn is_held_after(of: &ClusterHealth) -> bool {
    is_damped(of.health, &of.causes)
}

/// Whether flapping into this health is damped. A failover of the master is short, and usual.
fn is_damped(health: Health, causes: &[HealthCause]) -> bool {
    match health {
        Health::WithoutMesos | Health::WithoutAgents | Health::CutOff | Health::Lost => true,
        Health::Degraded => {
            causes.contains(&HealthCause::StreamSilent) || causes.iter().any(HealthCause::is_of_starts)
        }
        Health::Joining | Health::Healthy | Health::Recovering => false,
    }
}

/// How often the next hold is doubled: once more for each return to a bad state soon after the last one, and
/// once less for each quiet time between them.
fn doublings(of: &ClusterHealth, now: Timestamp) -> u32 {
    let Some(returned_at) = of.returned_at else {
        return 0;
    };
    let quiet = now.since(returned_at).0 / ClusterHealth::QUIET.0;
    if quiet == 0 {
        return of.doublings.saturating_add(1).min(ClusterHealth::MOST_DOUBLINGS);
    }
    of.doublings
        .saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
}

fn turned(of: ClusterHealth, health: Health, causes: Vec<HealthCause>, now: Timestamp) -> ClusterHealth {
    ClusterHealth {
        since: if of.health == health { of.since } else { now },
        health,
        causes,
        ..of
    }
}

/// The row to store, when it differs from the stored one. Capacity is stored with it, for a leader without a
/// report of the shard.
#[must_use]
pub fn changed_state(id: &ClusterId, cluster: &ClusterView, health: ClusterHealth) -> Option<ClusterState> {
    let before = cluster.state.as_ref();
    let reported = cluster.capacity.as_ref().map(ReportedCapacity::from);
    let next = ClusterState {
        cluster: id.clone(),
        health,
        reported: reported.or_else(|| before.and_then(|s| s.reported.clone())),
    };
    (before != Some(&next)).then_some(next)
}

#[cfg(test)]
mod tests;
