//! What a user asks for: the specification of a job. Immutable; every change makes a new version.

use crate::amount::Amount;
use crate::cluster_choice::ClusterChoice;
use crate::gang::Gang;
use crate::id::GroupName;
use crate::overrides::Override;
use crate::pod::Sidecar;
use crate::range::RangeSet;
use crate::resources::Resources;
use crate::rollout::UpdatePolicy;
use crate::rules::{ExitCodes, Restart, Rules};
use crate::runtime::Runtime;
use crate::siting::{Constraint, Siting};
use crate::time::Span;
use crate::volume::PersistentVolume;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// Most instances a group may have.
pub const MAX_INSTANCES: u32 = 10_000_000;
/// How long instances at a silent cluster may wait there before they are replaced. Nothing is replaced before the cluster is
/// barred from starting what leaves it, which takes more than a minute.
pub const CLUSTER_LOSS_WAITS: RangeInclusive<Span> = Span::minutes(2)..=Span::minutes(365 * 24 * 60);
/// Largest stored spec, in bytes of its row.
pub const MAX_SPEC_BYTES: usize = 256 * 1024;

/// Kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Every instance runs to success, or until its retries are used up.
    Batch,
    /// Every instance runs until it is stopped or scaled away.
    Service,
    /// As a service, and each instance keeps its persistent volume, and so its host, from run to run.
    Stateful,
    /// As a service, with one instance on each host that its constraints let: how many these are, clusters tell.
    Daemon,
}

impl JobKind {
    /// The word of job files and API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Service => "service",
            Self::Stateful => "stateful",
            Self::Daemon => "daemon",
        }
    }
}

impl JobKind {
    /// Whether an instance runs until it is stopped, whatever its runs end with.
    #[must_use]
    pub const fn runs_for_ever(self) -> bool {
        matches!(self, Self::Service | Self::Stateful | Self::Daemon)
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What to do when the host, or the cluster, of a run stays silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnSilence {
    /// Give the run up after this long and start another.
    Replace(Span),
    /// Wait until it is known what became of it.
    Wait,
}

/// As job files and commands write it: `wait`, or `replace after 15m`.
impl fmt::Display for OnSilence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("wait"),
            Self::Replace(Span::ZERO) => f.write_str("replace after 0s"),
            Self::Replace(after) => write!(f, "replace after {after}"),
        }
    }
}

/// How often and how soon a failed run is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retry {
    /// Failed runs after which an instance has failed; services are restarted for ever.
    pub limit: u32,
    /// Wait before the first retry; doubles with each.
    pub backoff: Span,
    /// Longest wait.
    pub max_backoff: Span,
    /// Exit statuses after which an instance has failed at once.
    pub no_retry_exit_codes: ExitCodes,
}

/// One resource shape and its instances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSpec {
    /// Its name within the job.
    pub name: GroupName,
    /// Wanted instances, 1 to `MAX_INSTANCES` (a service may be scaled to 0); of a daemon 0, since its hosts are counted.
    pub instances: u32,
    /// Most instances that may be active at once; `None`: all.
    pub max_running: Option<u32>,
    /// What each run's task is made of; of a pod, the main task.
    pub runtime: Runtime,
    /// What some instances run in place of that.
    pub overrides: Vec<Override>,
    /// Room of that task. What a whole instance takes is `room()`.
    pub resources: Resources,
    /// The volume that each instance keeps from run to run.
    pub volume: Option<PersistentVolume>,
    /// What runs beside it: with any, the instance is a pod.
    pub sidecars: Vec<Sidecar>,
    /// Rules about hosts.
    pub constraints: Vec<Constraint>,
    /// What its instances want of each other and of other jobs, and where they would best be.
    pub siting: Siting,
    /// Retries of failed runs.
    pub retry: Retry,
    /// Starts in a row that may fail by the platform, after which an instance has failed; one that runs for
    /// ever is tried again without end.
    pub platform_retry: u32,
    /// What follows the end of a run, for jobs of kind batch.
    pub restart: Restart,
    /// From when an available run is to end, and is among the endpoints no more, to SIGTERM.
    pub drain: Span,
    /// From SIGTERM to SIGKILL.
    pub grace: Span,
    /// Longest run; `None`: unbounded.
    pub max_run: Option<Span>,
    /// Longest that a run may be on its way to its host, and be prepared there; then it has failed. `None`: unbounded.
    pub max_start: Option<Span>,
    /// Most instances that voluntary disruptions (rollout, restart, drain) may make unavailable at once: see `most_unavailable`.
    pub max_unavailable: Amount,
    /// The spec version that first had these runs: whoever stores a spec sets it, nobody asks for it. 0: not known.
    pub revision: u32,
}

/// The specification of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSpec {
    /// Unique among jobs that have not ended.
    pub name: String,
    /// Path of its pool: `/default`.
    pub pool: String,
    /// Its kind.
    pub kind: JobKind,
    /// Who owns it; empty when not said.
    pub owner: String,
    /// Labels for look-ups.
    pub labels: BTreeMap<String, String>,
    /// Higher goes first within the pool.
    pub priority: u32,
    /// Which clusters it may use.
    pub clusters: Box<ClusterChoice>,
    /// It may be killed at any time, and so runs on room that hosts lend: their processors' slack.
    pub revocable: bool,
    /// It may be stopped for others; what may not runs within the reservations of its pools only.
    pub preemptible: bool,
    /// It starts other jobs and waits for them; pools bound what such jobs have together.
    pub controller: bool,
    /// Whether its instances begin together.
    pub gang: Option<Gang>,
    /// How it ends, and what it waits for.
    pub rules: Box<Rules>,
    /// When a host falls silent.
    pub on_unreachable: OnSilence,
    /// When the agent of a run is known to be gone; `None`: as its kind and that knowledge say, see `gone`.
    pub on_gone: Option<OnSilence>,
    /// When a cluster falls silent.
    pub on_cluster_loss: OnSilence,
    /// How a change of what its instances run is brought to those that run; of use where they run for ever.
    pub update: UpdatePolicy,
    /// Its groups, at least one, with different names.
    pub groups: Vec<GroupSpec>,
}

impl JobSpec {
    /// A job without groups, with all defaults of its kind.
    #[must_use]
    pub fn new(name: &str, kind: JobKind) -> Self {
        Self {
            name: name.to_owned(),
            pool: defaults::POOL.to_owned(),
            kind,
            owner: String::new(),
            labels: BTreeMap::new(),
            priority: 0,
            clusters: Box::default(),
            revocable: false,
            preemptible: true,
            controller: false,
            gang: None,
            rules: Box::default(),
            on_unreachable: defaults::on_unreachable(kind),
            on_gone: None,
            on_cluster_loss: defaults::on_cluster_loss(kind),
            update: UpdatePolicy::DEFAULT,
            groups: Vec::new(),
        }
    }

    /// Its place among others where they wait for quota or hosts, higher first: what belongs on every host goes before all that could be
    /// elsewhere, so that its room is set aside before others are placed.
    #[must_use]
    pub const fn precedence(&self) -> u32 {
        match self.kind {
            JobKind::Daemon => u32::MAX,
            JobKind::Batch | JobKind::Service | JobKind::Stateful => self.priority,
        }
    }

    /// The group of that name.
    #[must_use]
    pub fn group(&self, name: &GroupName) -> Option<&GroupSpec> {
        self.groups.iter().find(|g| g.name == *name)
    }

    /// Whether the job waits for the instances of a group: not for what runs for ever and, with a driver, for the driver alone.
    #[must_use]
    pub fn waits_for(&self, group: &GroupSpec) -> bool {
        let drives = self.rules.driver.as_ref().is_none_or(|d| *d == group.name);
        drives && !group.runs_for_ever(self.kind)
    }

    /// Fewest instances that a group may have: those that a driver scales may be none, as those of a service.
    #[must_use]
    pub fn least_instances(&self, group: &GroupName) -> u32 {
        let driven = self.rules.driver.as_ref().is_some_and(|d| d != group);
        u32::from(!(driven || self.kind.runs_for_ever()))
    }

    /// The numbers that a group's instances may have: the lowest, without those that were withdrawn.
    #[must_use]
    pub fn numbers(&self, group: &GroupSpec) -> RangeSet {
        let withdrawn = self.rules.withdrawn(&group.name);
        let more = u32::try_from(withdrawn.count()).unwrap_or(u32::MAX);
        let all = RangeSet::below(group.instances.saturating_add(more));
        all.minus(&withdrawn).lowest(group.instances.into())
    }

    /// Instances that the job waits for.
    #[must_use]
    pub fn counted(&self) -> u64 {
        let counted = self.groups.iter().filter(|g| self.waits_for(g));
        counted.map(|g| u64::from(g.instances)).sum()
    }

    /// Wanted instances over all groups.
    #[must_use]
    pub fn instances(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.instances)).sum()
    }
}

impl GroupSpec {
    /// One instance that runs nothing and takes nothing, with all defaults of its job's kind.
    #[must_use]
    pub fn new(name: GroupName, kind: JobKind) -> Self {
        Self {
            name,
            instances: 1,
            max_running: None,
            runtime: Runtime::default(),
            overrides: Vec::new(),
            resources: Resources::ZERO,
            volume: None,
            sidecars: Vec::new(),
            constraints: Vec::new(),
            siting: defaults::siting(kind),
            retry: defaults::retry(kind),
            platform_retry: defaults::platform_retry(kind),
            restart: Restart::OnFailure,
            drain: Span::ZERO,
            grace: defaults::GRACE,
            max_run: None,
            max_start: None,
            max_unavailable: defaults::MAX_UNAVAILABLE,
            revision: 0,
        }
    }

    /// The longest that an instance of the group can take, with all of its tries: from the beginning of the last of them at most as
    /// long, too. `None`: for ever.
    #[must_use]
    pub fn lasts(&self, kind: JobKind) -> Option<Span> {
        let run = self.max_run.filter(|_| !self.runs_for_ever(kind))?;
        let limit = if self.restart == Restart::Never {
            1
        } else {
            self.retry.limit
        };
        let tries = u64::from(limit.max(1));
        let each = run.0.saturating_add(self.grace.0);
        let waits = self.retry.max_backoff.0.saturating_mul(tries - 1);
        Some(Span(each.saturating_mul(tries).saturating_add(waits)))
    }

    /// Whether an instance runs until it is stopped, whatever its runs end with.
    #[must_use]
    pub fn runs_for_ever(&self, kind: JobKind) -> bool {
        kind.runs_for_ever() || self.restart == Restart::Always
    }

    /// The number that `max_unavailable` is of so many wanted instances. A part is rounded down, and is at least one: else nothing of a
    /// small group could ever be restarted. Whoever asks says how many are wanted, without those that a rollout adds for a while.
    #[must_use]
    pub fn most_unavailable(&self, wanted: u32) -> u32 {
        match self.max_unavailable {
            Amount::Count(n) => n,
            part @ Amount::Percent(_) => part.of(wanted).max(1),
        }
    }

    /// Instances that may be active at once.
    #[must_use]
    pub fn most_active(&self) -> u32 {
        self.max_running.map_or(self.instances, |m| m.min(self.instances))
    }
}

/// Defaults of what a job file leaves out. One place, shown by `echelon job plan`.
pub mod defaults {
    use super::{OnSilence, Retry, Siting};
    use crate::amount::Amount;
    use crate::host_pool::HostPoolChoice;
    use crate::rules::ExitCodes;
    use crate::spec::JobKind;
    use crate::time::Span;

    /// Pool of a job file that names none.
    pub const POOL: &str = "/default";
    /// From SIGTERM to SIGKILL.
    pub const GRACE: Span = Span::seconds(10);
    /// Three failed runs end an instance: one accident and one coincidence are forgiven.
    pub const RETRY: Retry = Retry {
        limit: 3,
        backoff: Span::seconds(1),
        max_backoff: Span::minutes(5),
        no_retry_exit_codes: ExitCodes::NONE,
    };
    /// Starts in a row that fail by the platform, of ten hosts where there are as many: one broken host, or
    /// a rack of them, is no reason to give up, and what fails on ten is the job's.
    pub const PLATFORM_RETRY: u32 = 10;
    /// A silent host's runs are replaced after this (section 5).
    pub const ON_UNREACHABLE: OnSilence = OnSilence::Replace(Span::minutes(5));
    /// A daemon of a silent host can be nowhere else: it is given up when its host has been silent for long enough to be gone.
    pub const DAEMON_UNREACHABLE: OnSilence = OnSilence::Replace(Span::minutes(60));
    /// A silent host's runs are replaced after a while, but for those whose data is only there.
    #[must_use]
    pub const fn on_unreachable(kind: JobKind) -> OnSilence {
        match kind {
            JobKind::Stateful => OnSilence::Wait,
            JobKind::Batch | JobKind::Service => ON_UNREACHABLE,
            JobKind::Daemon => DAEMON_UNREACHABLE,
        }
    }

    /// The host pool of who names none; a daemon belongs on hosts of all of them.
    #[must_use]
    pub fn host_pool(kind: JobKind) -> HostPoolChoice {
        match kind {
            JobKind::Daemon => HostPoolChoice::Any,
            JobKind::Batch | JobKind::Service | JobKind::Stateful => HostPoolChoice::default(),
        }
    }

    /// No rules beside that.
    #[must_use]
    pub fn siting(kind: JobKind) -> Siting {
        Siting {
            host_pool: host_pool(kind),
            ..Siting::default()
        }
    }

    /// What runs at a cluster that is silent for so long begins elsewhere.
    pub const CLUSTER_LOSS: OnSilence = OnSilence::Replace(Span::minutes(15));
    /// A lost cluster's runs are replaced after a while, but for those whose data is only there, and those that belong to its
    /// hosts.
    #[must_use]
    pub const fn on_cluster_loss(kind: JobKind) -> OnSilence {
        match kind {
            JobKind::Stateful | JobKind::Daemon => OnSilence::Wait,
            JobKind::Batch | JobKind::Service => CLUSTER_LOSS,
        }
    }
    /// Restarts take one instance at a time.
    pub const MAX_UNAVAILABLE: Amount = Amount::Count(1);
    /// A probe asks at once: failures before the first success are forgiven for the grace.
    pub const PROBE_DELAY: Span = Span::ZERO;
    /// From one probe to the next.
    pub const PROBE_INTERVAL: Span = Span::seconds(10);
    /// Longest wait for a probe's answer.
    pub const PROBE_TIMEOUT: Span = Span::seconds(10);
    /// A part of a gang may run alone for as long.
    pub const START_WITHIN: Span = Span::minutes(5);
    /// Failed health checks do not count for this long after the start.
    pub const HEALTH_GRACE: Span = Span::seconds(30);
    /// Three in a row: one lost packet and one coincidence are forgiven.
    pub const HEALTH_FAILURES: u32 = 3;

    /// Starts in a row that fail by the platform, after which an instance of this kind has failed.
    #[must_use]
    pub const fn platform_retry(kind: JobKind) -> u32 {
        match kind {
            JobKind::Batch => PLATFORM_RETRY,
            JobKind::Service | JobKind::Stateful | JobKind::Daemon => u32::MAX,
        }
    }

    /// Failed runs after which an instance of this kind has failed.
    #[must_use]
    pub const fn retry(kind: JobKind) -> Retry {
        match kind {
            JobKind::Batch => RETRY,
            JobKind::Service | JobKind::Stateful | JobKind::Daemon => Retry {
                limit: u32::MAX,
                ..RETRY
            },
        }
    }
}
