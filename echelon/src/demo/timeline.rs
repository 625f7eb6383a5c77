//! The timeline of a scenario in plain lines: seconds since its start, what each cluster has, and what just
//! happened.

use echelon_cli::output;
use std::fmt;
use std::time::{Duration, Instant};

/// What is shown of the clusters changes at most this often.
const APART: Duration = Duration::from_secs(1);
/// Where nothing changes it is shown again after this time.
const AGAIN: Duration = Duration::from_secs(10);

/// A cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterMoment {
    pub(super) name: String,
    /// Its health, in the word of the API.
    pub(super) health: String,
    /// Instances of services that live there.
    pub(super) services: usize,
    /// The same of batch work.
    pub(super) batch: usize,
}

impl fmt::Display for ClusterMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            health,
            services,
            batch,
        } = self;
        write!(f, "{name} {health:<10} service {services:>2} batch {batch:>2}")
    }
}

/// The lines.
#[derive(Debug)]
pub(super) struct Timeline {
    began: Instant,
    shown: Vec<ClusterMoment>,
    shown_at: Option<Instant>,
}

impl Timeline {
    /// One that begins now.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            shown: Vec::new(),
            shown_at: None,
        }
    }

    /// The time since its start.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows what has just happened.
    pub(super) fn note(&self, what: impl fmt::Display) {
        output::line(format_args!("{} {what}", self.seconds()));
    }

    /// Shows the clusters, if that is due.
    pub(super) fn show(&mut self, clusters: Vec<ClusterMoment>) {
        let wait = if clusters == self.shown { AGAIN } else { APART };
        if self.shown_at.is_none_or(|at| at.elapsed() >= wait) {
            self.show_now(clusters);
        }
    }

    /// Shows the clusters as they are when a step has come, if they were not shown so.
    pub(super) fn show_step(&mut self, clusters: Vec<ClusterMoment>) {
        if clusters != self.shown {
            self.show_now(clusters);
        }
    }

    fn show_now(&mut self, clusters: Vec<ClusterMoment>) {
        let line: Vec<String> = clusters.iter().map(ToString::to_string).collect();
        output::line(format_args!("{} {}", self.seconds(), line.join(" | ")));
        self.shown = clusters;
        self.shown_at = Some(Instant::now());
    }

    fn seconds(&self) -> String {
        format!("{:>5.1} s", self.elapsed().as_secs_f64())
    }
}
