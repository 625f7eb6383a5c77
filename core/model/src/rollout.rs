//! Rollouts: how the instances of a job go from what they run to what its spec says now. What is wanted of one is in the job's head,
//! and so is that it goes back; how far it is, is in the job's progress.

use crate::job::Head;
use crate::reason::{Reason, ReasonCode};
use crate::spec::{GroupSpec, JobSpec};
use crate::time::{Span, Timestamp};
use std::fmt;

/// A number of instances, or a part of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// So many in a hundred, 0 to 100.
    Percent(u32),
}

impl Amount {
    /// Of that many instances, rounded down.
    #[must_use]
    pub fn of(self, instances: u32) -> u32 {
        u32::try_from(self.of_many(instances.into())).unwrap_or(u32::MAX)
    }

    /// The same of all instances of a job.
    #[must_use]
    pub fn of_many(self, instances: u64) -> u64 {
        match self {
            Self::Count(n) => n.into(),
            Self::Percent(p) => instances.saturating_mul(p.min(100).into()) / 100,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Percent(p) => write!(f, "{p}%"),
        }
    }
}

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

/// How far a rollout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum RolloutState {
    /// Instances are being updated.
    #[default]
    Running = 0,
    /// Only its canaries are updated: they wait to be accepted.
    Canary = 1,
    /// Nothing more is updated until somebody decides.
    Paused = 2,
    /// Instances go back to an earlier version.
    RollingBack = 3,
    /// Every instance runs the new version.
    Done = 4,
    /// Every instance runs the earlier version again.
    RolledBack = 5,
}

impl RolloutState {
    /// All states, in order of number.
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Canary,
        Self::Paused,
        Self::RollingBack,
        Self::Done,
        Self::RolledBack,
    ];

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The state of a stored number.
    #[must_use]
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n)).copied()
    }

    /// The word of API and command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Canary => "canary",
            Self::Paused => "paused",
            Self::RollingBack => "rolling-back",
            Self::Done => "done",
            Self::RolledBack => "rolled-back",
        }
    }

    /// Whether a rollout may go from `self` to `next`: whether that is a row of [`TRANSITIONS`].
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to, _)| (*from, *to) == (self, next))
    }

    /// Whether nothing more comes of it.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::RolledBack)
    }
}

/// Every way of a rollout from one state to another, and what takes it there. What is over stays so: the next wish is another rollout.
pub const TRANSITIONS: &[(RolloutState, RolloutState, &str)] = {
    use RolloutState::{Canary, Done, Paused, RolledBack, RollingBack, Running};
    &[
        (Running, Canary, "its canaries are good, and wait to be accepted"),
        (
            Running,
            Paused,
            "it is held by command, or by failures where `on_failure` is `pause`",
        ),
        (Running, Done, "every instance runs the new version and is good"),
        (
            Canary,
            Running,
            "the canaries are accepted, or one of them is not good any more",
        ),
        (Canary, Paused, "it is held by command, or by failures"),
        (Paused, Running, "it goes on by command"),
        (Paused, Canary, "it goes on by command, and its canaries are good"),
        (
            Paused,
            Done,
            "what was under way when it was held has made the last instance good",
        ),
        (Paused, RollingBack, "a rollback goes on by command"),
        (
            Paused,
            RolledBack,
            "what was under way when a rollback was held has made the last instance good",
        ),
        (RollingBack, Paused, "a rollback is held by command"),
        (
            RollingBack,
            RolledBack,
            "every instance runs the earlier version again and is good",
        ),
    ]
};

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
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

    /// How it is kept when another one begins. What became of it counts where that is about it.
    #[must_use]
    pub fn past(&self, spec_version: u32, of: Option<&RolloutProgress>) -> PastRollout {
        let known = of.filter(|p| p.number == self.number);
        PastRollout {
            wish: *self,
            spec_version,
            state: known.map_or(RolloutState::Running, |p| p.state),
        }
    }
}

impl Head {
    /// Keeps no more past rollouts than are of use.
    pub fn forget_old_rollouts(&mut self) {
        let old = self.past_rollouts.len().saturating_sub(PAST_ROLLOUTS);
        self.past_rollouts.drain(..old);
    }
}

impl GroupSpec {
    /// Whether runs made from `self` are as good as runs made from `other`: what differs is only how many there are and how they are
    /// looked after.
    #[must_use]
    pub fn runs_as(&self, other: &Self) -> bool {
        let same = Self {
            instances: self.instances,
            max_running: self.max_running,
            retry: self.retry,
            drain: self.drain,
            max_unavailable: self.max_unavailable,
            revision: self.revision,
            ..other.clone()
        };
        same == *self
    }

    /// The version that runs are made from, in a spec of that version. 0 is of specs that are older than revisions: their runs
    /// count as made from whatever is wanted.
    #[must_use]
    pub const fn runs_of(&self, spec_version: u32) -> u32 {
        if self.revision == 0 {
            spec_version
        } else {
            self.revision
        }
    }

    /// The same numbers and care with the runs of another version.
    #[must_use]
    pub fn with_runs_of(&self, other: &Self, other_version: u32) -> Self {
        Self {
            instances: self.instances,
            max_running: self.max_running,
            retry: self.retry,
            drain: self.drain,
            max_unavailable: self.max_unavailable,
            revision: other.runs_of(other_version),
            ..other.clone()
        }
    }
}

impl JobSpec {
    /// The same job with the runs of an earlier version: what a rollback puts into force. Groups that the earlier one did not have stay.
    #[must_use]
    pub fn with_runs_of(&self, earlier: &Self, version: u32) -> Self {
        let groups = self.groups.iter().map(|g| match earlier.group(&g.name) {
            Some(of) => g.with_runs_of(of, version),
            None => g.clone(),
        });
        Self {
            groups: groups.collect(),
            ..self.clone()
        }
    }

    /// Gives groups that are new in this version, and run what `earlier` ran, the revision of that: what was never replaced stays.
    pub fn settle_as(&mut self, earlier: &Self, earlier_version: u32, version: u32) {
        for group in self.groups.iter_mut().filter(|g| g.revision == version) {
            let of = earlier.group(&group.name).filter(|of| of.runs_as(group));
            group.revision = of.map_or(version, |of| of.runs_of(earlier_version));
        }
    }

    /// Gives each group its revision, for a spec that follows `before` as this version. True when running instances are to be
    /// replaced.
    pub fn settle_revisions(&mut self, before: Option<&Self>, version: u32) -> bool {
        let mut replaces = false;
        for group in &mut self.groups {
            let known = before.and_then(|b| b.group(&group.name));
            let same = known.filter(|k| k.runs_as(group));
            replaces |= known.is_some() && same.is_none();
            group.revision = same.map_or(version, |k| k.revision);
        }
        replaces && self.kind.runs_for_ever()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GroupName;
    use crate::runtime::Runtime;
    use crate::spec::JobKind;

    fn group(command: &str, instances: u32) -> GroupSpec {
        GroupSpec {
            instances,
            runtime: Runtime::shell(command),
            ..GroupSpec::new(GroupName::new("main"), JobKind::Service)
        }
    }

    fn job(group: GroupSpec) -> JobSpec {
        JobSpec {
            groups: vec![group],
            ..JobSpec::new("web", JobKind::Service)
        }
    }

    #[test]
    fn parts_are_rounded_down_and_never_beyond_all() {
        assert_eq!(Amount::Percent(5).of(19), 0);
        assert_eq!(Amount::Percent(5).of(20), 1);
        assert_eq!(Amount::Percent(100).of(u32::MAX), u32::MAX);
        assert_eq!(Amount::Percent(300).of(4), 4);
        assert_eq!(Amount::Count(7).of(4), 7);
    }

    #[test]
    fn scale_is_not_an_update() {
        let first = group("a", 3);
        assert!(first.runs_as(&group("a", 30)));
        assert!(!first.runs_as(&group("b", 3)));
    }

    #[test]
    fn a_revision_is_the_version_that_first_had_the_runs() {
        let mut first = job(group("a", 3));
        assert!(!first.settle_revisions(None, 1), "there is nothing to replace");
        let mut scaled = job(group("a", 5));
        assert!(!scaled.settle_revisions(Some(&first), 2));
        assert_eq!(scaled.groups[0].revision, 1);
        let mut updated = job(group("b", 5));
        assert!(updated.settle_revisions(Some(&scaled), 3));
        assert_eq!(updated.groups[0].revision, 3);
        let back = updated.with_runs_of(&first, 1);
        assert_eq!((back.groups[0].revision, back.groups[0].instances), (1, 5));
        assert!(back.groups[0].runs_as(&first.groups[0]));
    }

    #[test]
    fn a_change_that_follows_a_rollback_has_a_revision_of_its_own() {
        let mut first = job(group("a", 3));
        first.settle_revisions(None, 1);
        let mut updated = job(group("b", 3));
        updated.settle_revisions(Some(&first), 2);
        let back = updated.with_runs_of(&first, 1);
        let mut again = job(group("b", 3));
        assert!(again.settle_revisions(Some(&back), 4));
        assert_eq!(again.groups[0].revision, 4);
    }

    #[test]
    fn what_is_over_stays_so_and_all_else_can_end() {
        for from in RolloutState::ALL {
            assert_eq!(RolloutState::from_number(from.number()), Some(from));
            let leads_on = TRANSITIONS.iter().any(|(of, _, _)| *of == from);
            assert_eq!(leads_on, !from.is_over(), "{from}");
        }
    }
}
