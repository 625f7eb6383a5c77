//! When a cluster counts as lost for a job, and when this leader doubts what it observes (law 10).
//!
//! What runs at a cluster that is cut off or without Mesos may begin elsewhere once that silence has lasted as
//! long as the job's `on_cluster_loss` says, or an operator has declared the cluster lost. Three things make this leader
//! doubt itself rather than the clusters. As long as one of them holds, silences are not counted and nothing is
//! replaced:
//!
//! | doubt | why |
//! | --- | --- |
//! | more than half of the clusters, and at least two, are silent | it is more probable that this leader is cut off |
//! | heartbeats could not be read for as long as makes a cluster silent | nothing shows whether they change |
//! | this process paused a short while ago | messages that came meanwhile are not taken in yet |
//!
//! That a leader is new is no doubt of its own: it judges no cluster as cut off before it has seen that for itself
//! for 8 s, and replaces nothing at one before it has seen that for a minute.
//!
//! A doubt holds for at most `doubt_at_most` of one silence, an hour unless the configuration says otherwise, so that work
//! of lost clusters is not held back for ever where no operator declares anything.

use crate::config::Config;
use crate::facts::cluster::ClusterView;
use crate::facts::health::HealthEvidence;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::{ClusterHealth, Declaration, Health, NewWork};
use echelon_core_model::spec::{JobKind, JobSpec, OnSilence};
use echelon_core_model::{Span, Timestamp};
use std::fmt;

/// A pause of this process that is longer casts doubt on what it observes.
const LONGEST_PAUSE: Span = Span::seconds(2);
/// For how long a pause does.
const AFTER_PAUSE: Span = Span::seconds(30);
/// Fewer silent clusters cast no doubt on this leader.
const FEWEST_SILENT: usize = 2;
/// Clusters that an alarm names.
const MOST_NAMED: usize = 5;

/// Why this leader doubts its own observation of silent clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// So many of so many clusters are silent.
    MostSilent {
        /// Silent.
        silent: usize,
        /// Known.
        of: usize,
    },
    /// Heartbeats were not read for too long.
    HeartbeatsUnread,
    /// This process has paused.
    Paused,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MostSilent { silent, of } => {
                write!(
                    f,
                    "{silent} of {of} clusters are cut off or without Mesos at once"
                )
            }
            Self::HeartbeatsUnread => f.write_str("the resource manager cannot read heartbeats in storage"),
            Self::Paused => f.write_str("the resource manager was paused a short while ago"),
        }
    }
}

/// What this leader observes of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SelfObservation {
    /// When it last looked at all clusters; none: not yet.
    pub(crate) looked_at: Option<Timestamp>,
    /// When it last found that it had paused.
    pub(crate) paused_at: Option<Timestamp>,
    /// When heartbeats were last read; none: not yet.
    pub(crate) heartbeats_read_at: Option<Timestamp>,
}

impl SelfObservation {
    /// Notes that it looks at all clusters again, which it does `every` so often.
    pub(crate) fn look(&mut self, every: Span, now: Timestamp) {
        let late = |at: Timestamp| now.since(at).0 > every.0.saturating_add(LONGEST_PAUSE.0);
        if self.looked_at.is_some_and(late) {
            self.paused_at = Some(now);
        }
        self.looked_at = Some(now);
    }
}

/// Why this leader doubts itself, if it does.
pub(crate) fn doubt<'a>(
    of: SelfObservation,
    evidence: impl Iterator<Item = &'a HealthEvidence>,
    config: &Config,
    now: Timestamp,
) -> Option<Doubt> {
    if of.paused_at.is_some_and(|at| now.since(at) < AFTER_PAUSE) {
        return Some(Doubt::Paused);
    }
    let is_old = |at: Timestamp| now.since(at) >= config.silent_after;
    if of.heartbeats_read_at.is_none_or(is_old) {
        return Some(Doubt::HeartbeatsUnread);
    }
    let (mut silent, mut known) = (0, 0);
    for one in evidence {
        let is_silent = matches!(one, HealthEvidence::Bad(health, _) if health.is_silence());
        silent += usize::from(is_silent);
        known += usize::from(*one != HealthEvidence::NoReport);
    }
    let are_most = silent >= FEWEST_SILENT && silent * 2 > known;
    are_most.then_some(Doubt::MostSilent { silent, of: known })
}

/// The doubt as far as it still holds for the present silence of a cluster.
pub(crate) fn doubt_about(health: &ClusterHealth, doubt: Option<Doubt>, config: &Config) -> Option<Doubt> {
    let is_spent = config.doubt_at_most.is_some_and(|most| health.doubted >= most);
    doubt.filter(|_| !is_spent)
}

/// How much of a cluster's hosts counts as capacity of the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountedCapacity {
    /// All that its shard has reported.
    #[default]
    Full,
    /// Only as much as is assigned there.
    Assigned,
}

impl CountedCapacity {
    /// What counts next. Only what is assigned counts once the cluster has been silent or without agents for some time,
    /// is lost, or something was given up there (`ResourceManager::note_given_up`). All counts when the cluster
    /// is healthy again, after its hold, so that capacity which comes and goes is not divided back and forth.
    pub(crate) fn next(self, health: &ClusterHealth, full_for: Span) -> Self {
        let after = |span: Span| {
            if span >= full_for { Self::Assigned } else { self }
        };
        match health.health {
            Health::Lost => Self::Assigned,
            Health::CutOff | Health::WithoutMesos => {
                after(Span(health.waited.0.saturating_add(health.doubted.0)))
            }
            Health::WithoutAgents => after(health.as_of.since(health.since)),
            Health::Recovering => self,
            // Its stream may be silent while heartbeats are read again.
            Health::Degraded if health.new_work() != NewWork::Taken => self,
            Health::Degraded | Health::Joining | Health::Healthy => Self::Full,
        }
    }
}

/// That nothing of silent clusters is replaced for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// Why.
    pub doubt: Doubt,
    /// The names of the silent clusters, all of them.
    pub clusters: Vec<String>,
    /// For how long at most one of them was not counted.
    pub doubted: Span,
    /// How long that may be; none: for ever.
    pub at_most: Option<Span>,
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<&str> = self
            .clusters
            .iter()
            .take(MOST_NAMED)
            .map(String::as_str)
            .collect();
        let more = self.clusters.len().saturating_sub(named.len());
        write!(
            f,
            "nothing of silent clusters is replaced, since {}: {}",
            self.doubt,
            named.join(", ")
        )?;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        write!(f, "; not counted for {}", self.doubted)?;
        match self.at_most {
            Some(most) => write!(f, " of at most {most}"),
            None => f.write_str(", until this ends"),
        }
    }
}

impl ClusterView {
    /// What an operator has declared of its present silence.
    fn declared(&self) -> Option<Declaration> {
        let declared = self.row.as_ref()?.declared?;
        let health = &self.state.as_ref()?.health;
        let is_present = health.health.is_silence() && declared.silence == health.silence;
        is_present.then_some(declared.as_what)
    }

    /// Whether an operator has declared it lost in its present silence.
    pub(crate) fn is_declared_lost(&self) -> bool {
        self.declared().is_some_and(Declaration::is_loss)
    }

    /// Whether it is being removed without its shard. That holds as long as the silence that operators named.
    pub(crate) fn is_removed_as_lost(&self) -> bool {
        let is_removing = self.desired_state() == DesiredState::Removing;
        is_removing && self.declared() == Some(Declaration::NeverReturns)
    }

    /// Whether what runs of a job there may begin elsewhere, since the cluster is silent and lost to the job.
    pub(crate) fn is_lost_to(&self, spec: &JobSpec) -> bool {
        let health = self.state.as_ref().map(|state| &state.health);
        let Some(health) = health.filter(|health| health.health.is_silence()) else {
            return false;
        };
        let OnSilence::Replace(after) = spec.on_cluster_loss else {
            return false;
        };
        let has_waited = self.doubt.is_none() && health.waited >= after;
        // A daemon belongs to the hosts of its cluster.
        spec.kind != JobKind::Daemon && (has_waited || self.is_declared_lost())
    }
}

#[cfg(test)]
mod tests;
