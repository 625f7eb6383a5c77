//! Rollouts: how the instances of a job go from what they run to what its spec says now. What is wanted of one is in the job's head,
//! and so is that it goes back; how far it is, is in the job's progress.

mod state;

pub use state::{RolloutState, TRANSITIONS};

use crate::amount::Amount;
use crate::job::Head;
use crate::reason::{Reason, ReasonCode};
use crate::time::{Span, Timestamp};

/// What follows when too many instances fail with the new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OnFailure {
    /// Everything goes back to the version before.
    #[default]
    RollBack,
    /// Nothing more is updated until somebody decides.
    Pause,
    /// The rollout goes on.
    Continue,
}

impl OnFailure {
    /// The word of job files and API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RollBack => "roll_back",
            Self::Pause => "pause",
            Self::Continue => "continue",
        }
    }
}

/// How a job that runs for ever is brought to a new version. Amounts are of each group by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdatePolicy {
    /// Most instances of a group that are replaced at once; `None`: as many as `max_unavailable` and `max_surge` allow.
    pub batch: Option<Amount>,
    /// Most instances of a group beyond its number that run while a rollout is under way.
    pub max_surge: Amount,
    /// A replaced instance counts as available when it has been running, ready and healthy for so long.
    pub min_healthy: Span,
    /// An updated instance that is not available so long after its launch has failed.
    pub healthy_within: Span,
    /// So many instances are updated first; the others wait until these are accepted.
    pub canaries: Amount,
    /// Canaries are accepted as soon as they are available; otherwise by command.
    pub auto_promote: bool,
    /// Most instances of the job that may fail with the new version.
    pub max_failures: Amount,
    /// What follows when more do.
    pub on_failure: OnFailure,
}

impl UpdatePolicy {
    /// What is not said in a job.
    pub const DEFAULT: Self = Self {
        batch: None,
        max_surge: Amount::Count(0),
        min_healthy: Span::seconds(5),
        healthy_within: Span::minutes(5),
        canaries: Amount::Count(0),
        auto_promote: false,
        max_failures: Amount::Percent(5),
        on_failure: OnFailure::RollBack,
    };
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A rollout as it is wanted: part of the head, decided by whoever changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rollout {
    /// Counts the rollouts of the job, from 1.
    pub number: u32,
    /// The spec version of which everything was when the first of the rollouts began that followed each other since: what an
    /// automatic rollback goes back to.
    pub base: u32,
    /// When it was asked for.
    pub since: Timestamp,
    /// Why nothing more is updated at the moment.
    pub held: Option<ReasonCode>,
    /// Its canaries are accepted.
    pub promoted: bool,
    /// Why it goes back to an earlier version, if it does.
    pub back: Option<ReasonCode>,
    /// So many failed instances were accepted: who lets it go on knows of them.
    pub forgiven: u64,
}

/// What became of a rollout: part of the progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RolloutProgress {
    /// Which.
    pub number: u32,
    /// How far it is.
    pub state: RolloutState,
    /// Since when.
    pub since: Timestamp,
    /// Instances that run what is wanted and are available.
    pub updated: u64,
    /// Instances of which a run of what is wanted has failed.
    pub failed: u64,
    /// Why it does not go on, or where it goes.
    pub reason: Option<Reason>,
}

/// A rollout that is over, or was superseded: kept in the head, latest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PastRollout {
    /// As it was wanted last.
    pub wish: Rollout,
    /// The spec version that it went to.
    pub spec_version: u32,
    /// How far it was when the next one began.
    pub state: RolloutState,
}

/// So many past rollouts are kept.
const PAST_ROLLOUTS: usize = 10;

impl Rollout {
    /// The next rollout of a job, from `base` on.
    #[must_use]
    pub const fn after(before: Option<&Self>, base: u32, since: Timestamp) -> Self {
        let number = match before {
            Some(rollout) => rollout.number,
            None => 0,
        };
        Self {
            number: number.saturating_add(1),
            base,
            since,
            held: None,
            promoted: false,
            back: None,
            forgiven: 0,
        }
    }

    /// The rollout that takes this one back.
    #[must_use]
    pub const fn going_back(&self, why: ReasonCode, since: Timestamp) -> Self {
        let next = Self::after(Some(self), self.base, since);
        Self {
            back: Some(why),
            ..next
        }
    }

    /// Whether something more comes of it, as far as is known.
    #[must_use]
    pub fn is_under_way(&self, known: Option<&RolloutProgress>) -> bool {
        let known = known.filter(|p| p.number == self.number);
        known.is_none_or(|p| !p.state.is_over())
    }
}

impl Head {
    /// Puts the next rollout, which goes to that spec version, in the place of the present one, which is kept with what is known of
    /// it.
    pub fn begin_rollout(&mut self, next: Rollout, spec_version: u32, known: Option<&RolloutProgress>) {
        let past = self.rollout.replace(next).map(|wish| PastRollout {
            wish,
            spec_version: self.spec_version,
            state: known
                .filter(|p| p.number == wish.number)
                .map_or(RolloutState::Running, |p| p.state),
        });
        self.spec_version = spec_version;
        self.past_rollouts.extend(past);
        let old = self.past_rollouts.len().saturating_sub(PAST_ROLLOUTS);
        self.past_rollouts.drain(..old);
    }
}
