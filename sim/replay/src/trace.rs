//! What happened, as far as it is demand: who wanted what when, for how long, and what there was.

use echelon_core_model::{Resources, Span, Timestamp};

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
    pub capacity: Resources,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it was stopped or deleted, if somebody did.
    pub stopped: Option<Timestamp>,
    /// Path of its pool.
    pub pool: String,
    /// Who owns it.
    pub owner: String,
    /// Larger first.
    pub priority: u32,
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
    /// Room of one.
    pub shape: Resources,
    /// How long they run, in the order in which they begin; those that are not named run until their job is stopped.
    pub runs: Vec<Runs>,
    /// When the first one began, as it was recorded.
    pub first_started: Option<Timestamp>,
    /// When the last one began, as it was recorded; `None` while any had not.
    pub last_started: Option<Timestamp>,
}

/// So many instances run so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// How many.
    pub count: u32,
    /// How long.
    pub span: Span,
}

impl Group {
    /// Whether all of its instances end by themselves.
    pub(crate) fn ends(&self) -> bool {
        let told: u64 = self.runs.iter().map(|r| u64::from(r.count)).sum();
        told >= u64::from(self.instances)
    }
}
