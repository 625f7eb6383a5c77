//! What happened, as far as it is demand: who wanted what when, for how long, and what there was.

use echelon_core_model::amount::Amount;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostPoolName, Resources, Span, Timestamp};

/// A trace of demand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// Up to when it tells what happened.
    pub until: Timestamp,
    /// What clusters had, in order of time.
    pub capacities: Vec<CapacityChange>,
    /// The jobs, in order of submit.
    pub jobs: Vec<Job>,
}

/// A cluster has so much from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityChange {
    /// From when on.
    pub at: Timestamp,
    /// The cluster's name.
    pub cluster: String,
    /// All that it has.
    pub capacity: ClusterCapacity,
}

/// What a cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterCapacity {
    /// The sum of its hosts, which are not known: it counts as one host that lends nothing and takes all
    /// work.
    Sum(Resources),
    /// Its hosts. Two classes differ in more than their count.
    Hosts(Vec<HostClass>),
}

/// Hosts that are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostClass {
    /// How many.
    pub count: u32,
    /// What one has. Where that includes GPUs, it is kept for work with GPUs.
    pub capacity: Resources,
    /// What one lends beside that, for revocable work.
    pub lent: Resources,
    /// Their host pool.
    pub pool: HostPoolName,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it was stopped or deleted, if it was.
    pub stopped: Option<Timestamp>,
    /// Path of its pool.
    pub pool: String,
    /// Who owns it.
    pub owner: String,
    /// Larger first.
    pub priority: u32,
    /// Its kind; `None`: not known. Then it is batch work if all of its instances end by themselves, stateful
    /// if any has a volume, and a service otherwise.
    pub kind: Option<JobKind>,
    /// All of its instances begin together on one cluster or not at all.
    pub gang: bool,
    /// It may be stopped for others.
    pub preemptible: bool,
    /// It starts other jobs and waits for them.
    pub controller: bool,
    /// Runs on what hosts lend.
    pub revocable: bool,
    /// Names of the clusters that it may use; all when empty.
    pub clusters: Vec<String>,
    /// Its instances are spread evenly over clusters.
    pub spread: bool,
    /// Its groups.
    pub groups: Vec<Group>,
}

/// Instances of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many.
    pub instances: u32,
    /// At most so many at once; all when it is `None`.
    pub max_running: Option<u32>,
    /// Most that may be stopped at once for others, where the job is a service; `None`: the product's
    /// default.
    pub max_unavailable: Option<Amount>,
    /// All that one takes, with its sidecars and its volume.
    pub shape: Resources,
    /// The hosts that it may use.
    pub host_pool: HostPoolChoice,
    /// The volume that each instance keeps, which binds it to its host once it has begun.
    pub volume: Option<Volume>,
    /// How long they run, in the order in which they begin; those that are not named run until their job is
    /// stopped.
    pub runs: Vec<Runs>,
    /// When the first one began, as it was recorded.
    pub first_started: Option<Timestamp>,
    /// When the last one began, as it was recorded; `None` while any had not.
    pub last_started: Option<Timestamp>,
}

/// A volume of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// The part of the shape that it takes, in MiB of disk.
    pub mebibytes: u64,
    /// It stays on its host when its job is stopped.
    pub is_kept: bool,
}

/// So many instances run so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// How many.
    pub count: u32,
    /// How long.
    pub span: Span,
}

impl ClusterCapacity {
    /// The sum of what all hosts have, without what they lend.
    #[must_use]
    pub fn sum(&self) -> Resources {
        match self {
            Self::Sum(sum) => *sum,
            Self::Hosts(classes) => {
                let each = classes.iter().map(|c| c.capacity.times(c.count.into()));
                each.fold(Resources::ZERO, Resources::plus)
            }
        }
    }
}

impl Job {
    /// A job of no groups of which nothing else is asked: preemptible, on any cluster, of no known kind.
    #[must_use]
    pub fn new(submitted: Timestamp, pool: impl Into<String>) -> Self {
        Self {
            submitted,
            stopped: None,
            pool: pool.into(),
            owner: String::new(),
            priority: 0,
            kind: None,
            gang: false,
            preemptible: true,
            controller: false,
            revocable: false,
            clusters: Vec::new(),
            spread: false,
            groups: Vec::new(),
        }
    }

    /// Its kind, as far as it is known or follows from what its instances do.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        let has_volume = || self.groups.iter().any(|g| g.volume.is_some());
        match self.kind {
            Some(kind) => kind,
            None if has_volume() => JobKind::Stateful,
            None if self.groups.iter().all(Group::ends) => JobKind::Batch,
            None => JobKind::Service,
        }
    }

    /// All of its instances.
    #[must_use]
    pub fn instances(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.instances)).sum()
    }
}

impl Group {
    /// Instances of this shape on hosts of the host pool `default` which run for these times.
    #[must_use]
    pub fn new(name: impl Into<String>, instances: u32, shape: Resources, runs: Vec<Runs>) -> Self {
        Self {
            name: name.into(),
            instances,
            max_running: None,
            max_unavailable: None,
            shape,
            host_pool: HostPoolChoice::default(),
            volume: None,
            runs,
            first_started: None,
            last_started: None,
        }
    }

    /// Whether all of its instances end by themselves.
    fn ends(&self) -> bool {
        let told: u64 = self.runs.iter().map(|r| u64::from(r.count)).sum();
        told >= u64::from(self.instances)
    }

    /// The part of the shape that an instance keeps while it does not run.
    pub(crate) fn held(&self) -> Resources {
        Resources {
            disk: self.volume.map_or(0, |v| v.mebibytes),
            ..Resources::ZERO
        }
    }
}
