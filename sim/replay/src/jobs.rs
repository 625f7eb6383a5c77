//! The jobs of a trace as storage has them: those that were submitted, and what became of the wishes for them.

use crate::store::Jobs;
use crate::trace::{Job, Trace};
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::cluster_choice::{ClusterChoice, Spread};
use echelon_core_model::gang::Gang;
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::defaults::START_WITHIN;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::volume::{PersistentVolume, Reclaim};
use echelon_core_model::{GroupName, JobId, Timestamp, Version};
use std::collections::BTreeMap;

/// The id of a job by its number in the trace: older ones have smaller ids.
pub fn id(n: usize) -> JobId {
    JobId(u128::try_from(n).unwrap_or(u128::MAX).saturating_add(1))
}

/// The number of a job.
pub fn number(id: JobId) -> usize {
    usize::try_from(id.0.saturating_sub(1)).unwrap_or(usize::MAX)
}

/// The jobs that were submitted.
pub struct Submitted<'a> {
    trace: &'a Trace,
    /// Version and wish of each, in order of number.
    heads: Vec<(u64, Desired)>,
}

impl<'a> Submitted<'a> {
    /// None yet.
    pub const fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            heads: Vec::new(),
        }
    }

    /// The next job of the trace is submitted.
    pub fn submit(&mut self) {
        self.heads.push((1, Desired::Running));
    }

    /// A job is stopped.
    pub fn stop(&mut self, n: usize) {
        if let Some(head) = self.heads.get_mut(n) {
            *head = (head.0 + 1, Desired::Stopped);
        }
    }
}

impl Jobs for Submitted<'_> {
    fn heads(&self, bucket: u16) -> Vec<Head> {
        let of_bucket = (0..self.heads.len()).map(id).filter(|j| job_bucket(*j) == bucket);
        of_bucket.filter_map(|job| self.head(job)).collect()
    }

    fn head(&self, job: JobId) -> Option<Head> {
        let n = number(job);
        let (version, desired) = *self.heads.get(n)?;
        let job = self.trace.jobs.get(n)?;
        Some(Head {
            job: id(n),
            version: Version(version),
            void: false,
            goal: Goal { desired, restarts: 0 },
            spec_version: 1,
            name: String::new(),
            pool: job.pool.clone(),
            pool_id: None,
            kind: job.kind(),
            owner: job.owner.clone(),
            labels: BTreeMap::new(),
            instances: job.groups.iter().map(|g| u64::from(g.instances)).sum(),
            updated_at: Timestamp(0),
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
            spec_digest: None,
        })
    }

    fn spec(&self, job: JobId) -> Option<JobSpec> {
        self.trace.jobs.get(number(job)).map(spec)
    }
}

fn spec(job: &Job) -> JobSpec {
    let kind = job.kind();
    let group = |group: &crate::trace::Group| {
        let usual = GroupSpec::new(GroupName::new(group.name.as_str()), kind);
        GroupSpec {
            instances: group.instances,
            max_running: group.max_running,
            max_unavailable: group.max_unavailable.unwrap_or(usual.max_unavailable),
            resources: group.shape.minus(group.held()),
            volume: group.volume.map(|volume| PersistentVolume {
                path: "data".to_owned(),
                size: volume.mebibytes,
                reclaim: if volume.is_kept {
                    Reclaim::Keep
                } else {
                    Reclaim::Delete
                },
                replace_after: None,
            }),
            siting: Siting {
                host_pool: group.host_pool.clone(),
                ..usual.siting.clone()
            },
            ..usual
        }
    };
    JobSpec {
        pool: job.pool.clone(),
        owner: job.owner.clone(),
        priority: job.priority,
        clusters: Box::new(ClusterChoice {
            only: job.clusters.clone(),
            spread: if job.spread { Spread::Even } else { Spread::None },
            ..ClusterChoice::default()
        }),
        revocable: job.revocable,
        preemptible: job.preemptible,
        controller: job.controller,
        gang: job.gang.then(|| Gang::new(START_WITHIN)),
        groups: job.groups.iter().map(group).collect(),
        ..JobSpec::new("", kind)
    }
}
