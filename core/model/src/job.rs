//! A job as it is stored: its head (the wish, decided by any gateway) and its progress (what became of it, owned by the
//! resource manager).

use crate::few::Few;
use crate::id::{ClusterId, GroupName, JobId, PoolId, Version};
use crate::instance::Counts;
use crate::pool::PoolPaths;
use crate::reason::Reason;
use crate::restart::{RestartProgress, Restarts};
use crate::rollout::{PastRollout, Rollout, RolloutProgress};
use crate::schedule::{Origin, ScheduleState};
use crate::spec::JobKind;
use crate::spec_digest::SpecDigest;
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::fmt;

/// What the user wants of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Desired {
    /// Run it.
    #[default]
    Running,
    /// Stop it; its record stays.
    Stopped,
    /// Stop it; it is deleted once every cluster has confirmed, and its record goes when no create can be repeated any more.
    Deleted,
}

/// The goal of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Goal {
    /// What the user wants.
    pub desired: Desired,
    /// Number of restarts asked for so far.
    pub restarts: u32,
}

/// How a job ends by one of its rules, as soon as everything of it has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// The state that it comes to: succeeded, failed, or stopped where another job takes its place.
    pub state: JobState,
    /// Which rule, and its figures.
    pub reason: Reason,
}

/// The row that makes a job exist. Written only by compare-and-set on `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The job.
    pub job: JobId,
    /// Counts the writes of this row, from 1; the etag.
    pub version: Version,
    /// A void head bars a job id whose creator was overtaken: it never came to be.
    pub void: bool,
    /// What is wanted.
    pub goal: Goal,
    /// The spec version in force, from 1.
    pub spec_version: u32,
    /// For look-ups without reading the spec: its name.
    pub name: String,
    /// Its pool's path when this was written.
    pub pool: String,
    /// Its pool's id, which outlives renames and moves; `None` in rows that are older than this field: the path alone says it.
    pub pool_id: Option<PoolId>,
    /// For look-ups: its kind.
    pub kind: JobKind,
    /// For look-ups: its owner.
    pub owner: String,
    /// For look-ups: its labels.
    pub labels: BTreeMap<String, String>,
    /// For look-ups: wanted instances over all groups.
    pub instances: u64,
    /// When the head was last written.
    pub updated_at: Timestamp,
    /// The latest rollout; `None`: nothing of it was ever updated.
    pub rollout: Option<Rollout>,
    /// Rollouts before that one, latest last.
    pub past_rollouts: Vec<PastRollout>,
    /// Why it is to stop, where one of its rules says so and no user.
    pub verdict: Option<Box<Verdict>>,
    /// How far its schedule has come, for a template.
    pub schedule: Option<Box<ScheduleState>>,
    /// The template that it was made of.
    pub origin: Option<Box<Origin>>,
    /// Its restarts; `None`: none was asked for, or only of the whole job by what is older than this.
    pub restarts: Option<Box<Restarts>>,
    /// The digest of a version of its spec, of use while that version is the one in force.
    pub spec_digest: Option<SpecDigest>,
}

impl Head {
    /// The digest of the spec version in force, where the head has that.
    #[must_use]
    pub fn digest(&self) -> Option<[u8; 16]> {
        let digest = self.spec_digest.filter(|d| d.version == self.spec_version);
        digest.map(|d| d.sum)
    }
}

/// State of a job over all clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum JobState {
    /// Nothing of it runs yet.
    #[default]
    Waiting = 0,
    /// Something of it runs.
    Running = 1,
    /// It is being stopped.
    Stopping = 2,
    /// Every instance succeeded.
    Succeeded = 3,
    /// Every instance ended, some without success.
    Failed = 4,
    /// Stopped as asked.
    Stopped = 5,
    /// Deleted; the record is a tombstone.
    Deleted = 6,
}

impl JobState {
    /// All states, in order of number.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Running,
        Self::Stopping,
        Self::Succeeded,
        Self::Failed,
        Self::Stopped,
        Self::Deleted,
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
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Deleted => "deleted",
        }
    }

    /// Whether it takes no wish but delete.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Stopped | Self::Deleted
        )
    }
}

/// Every way of a job from one state to another, and what takes it there.
pub const TRANSITIONS: &[(JobState, JobState, &str)] = {
    use JobState::{Deleted, Failed, Running, Stopped, Stopping, Succeeded, Waiting};
    &[
        (Waiting, Running, "something of it has begun"),
        (
            Waiting,
            Stopping,
            "it is to be stopped or deleted, and a cluster has yet to confirm that nothing runs",
        ),
        (
            Waiting,
            Succeeded,
            "all of it has ended well since it was last looked at",
        ),
        (
            Waiting,
            Failed,
            "all of it has ended since it was last looked at, some without success",
        ),
        (Waiting, Stopped, "it was stopped before anything of it began"),
        (Waiting, Deleted, "it was deleted before anything of it began"),
        (
            Running,
            Waiting,
            "all of it that ran was taken back or moved, and nothing of it has ended",
        ),
        (Running, Stopping, "it is to be stopped or deleted"),
        (Running, Succeeded, "every instance has ended well"),
        (Running, Failed, "every instance has ended, some without success"),
        (
            Running,
            Stopped,
            "it was stopped, and every cluster had confirmed when it was looked at",
        ),
        (
            Running,
            Deleted,
            "it was deleted, and every cluster had confirmed when it was looked at",
        ),
        (
            Stopping,
            Waiting,
            "a newer wish wants it to run, and nothing of it does",
        ),
        (
            Stopping,
            Running,
            "a newer wish wants it to run, and something of it does",
        ),
        (
            Stopping,
            Succeeded,
            "every instance had ended well before it could be stopped",
        ),
        (
            Stopping,
            Failed,
            "every instance had ended before it could be stopped, some without success",
        ),
        (
            Stopping,
            Stopped,
            "every cluster that ever held a part has confirmed that nothing runs",
        ),
        (Stopping, Deleted, "the same of a job that is to be deleted"),
        (
            Succeeded,
            Stopping,
            "it is to be deleted, and a cluster has yet to confirm that nothing runs",
        ),
        (Succeeded, Deleted, "it was deleted after its end"),
        (
            Failed,
            Stopping,
            "it is to be deleted, and a cluster has yet to confirm that nothing runs",
        ),
        (Failed, Deleted, "it was deleted after its end"),
        (
            Stopped,
            Stopping,
            "it is to be deleted, and a cluster has yet to confirm that nothing runs",
        ),
        (Stopped, Deleted, "it was deleted after its end"),
    ]
};

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many instances of a group wait for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The group.
    pub group: GroupName,
    /// The cluster that was asked, when one was.
    pub cluster: Option<ClusterId>,
    /// Why.
    pub reason: Reason,
    /// How many instances.
    pub count: u64,
    /// Since when this reason holds.
    pub since: Timestamp,
}

/// What became of a job: written by the resource manager's leader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Progress {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: JobState,
    /// Since when.
    pub since: Timestamp,
    /// Why, for a job that has ended, or that a rule brings to its end.
    pub reason: Option<Reason>,
    /// The head version that was seen when it ended; a later wish was too late.
    pub ended_version: Option<Version>,
    /// Instances by state, over all clusters, for each group.
    pub groups: Few<GroupName, Counts>,
    /// Why instances wait.
    pub waiting: Vec<Waiting>,
    /// Clusters whose confirmation a stop or delete still awaits.
    pub awaited: Vec<ClusterId>,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// Since when something of it waits in vain that would fit inside what its pool is entitled to, wherever it waited.
    pub starved: Option<Timestamp>,
    /// What became of its latest rollout.
    pub rollout: Option<RolloutProgress>,
    /// When what it was submitted to wait for was met; it holds from then on, whatever becomes of the other jobs.
    pub released: Option<Timestamp>,
    /// Until when the record of an ended job stays.
    pub keep_until: Option<Timestamp>,
    /// What became of its latest restart.
    pub restart: Option<RestartProgress>,
    /// Instances that fail again and again, those that run at the moment included.
    pub crash_looping: u64,
}

impl Progress {
    /// That of a job of which nothing is known but that it has waited since then.
    #[must_use]
    pub const fn waiting(job: JobId, since: Timestamp) -> Self {
        Self {
            job,
            state: JobState::Waiting,
            since,
            reason: None,
            ended_version: None,
            groups: Few::new(),
            waiting: Vec::new(),
            awaited: Vec::new(),
            created_at: since,
            starved: None,
            rollout: None,
            released: None,
            keep_until: None,
            restart: None,
            crash_looping: 0,
        }
    }
}

/// Filters of a job list; all that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Path of the pool; jobs of pools below it count too.
    pub pool: Option<String>,
    /// Where pools are, for `pool`: a job is where its pool is now.
    pub paths: PoolPaths,
    /// Only jobs whose pool is found by its path alone.
    pub by_path_alone: bool,
    /// Any of these states; all when empty.
    pub states: Vec<JobState>,
    /// Exact owner.
    pub owner: Option<String>,
    /// Labels with their values.
    pub labels: BTreeMap<String, String>,
    /// Start of the name.
    pub name_prefix: Option<String>,
    /// Deleted jobs too, of which only the tombstone is left. Who asks for the state `deleted` need not say so.
    pub show_deleted: bool,
}

impl JobFilter {
    /// Whether a job passes. A job without progress is waiting.
    #[must_use]
    pub fn passes(&self, head: &Head, state: JobState) -> bool {
        let Self {
            pool,
            paths,
            by_path_alone,
            states,
            owner,
            labels,
            name_prefix,
            show_deleted,
        } = self;
        let hidden = state == JobState::Deleted && !show_deleted && states.is_empty();
        let below = |path: &String| {
            let of = paths.of_job(head);
            of == path
                || of
                    .strip_prefix(path.trim_end_matches('/'))
                    .is_some_and(|r| r.starts_with('/'))
        };
        !head.void
            && !hidden
            && pool.as_ref().is_none_or(below)
            && (!by_path_alone || !paths.know(head))
            && (states.is_empty() || states.contains(&state))
            && owner.as_ref().is_none_or(|o| head.owner == *o)
            && labels.iter().all(|(k, v)| head.labels.get(k) == Some(v))
            && name_prefix
                .as_ref()
                .is_none_or(|p| head.name.starts_with(p.as_str()))
    }
}
