//! The jobs of a storage that answers at once. Rows are made up when they are read, so that the memory that grows is the resource
//! manager's.

use super::{entitled, shard};
use crate::bench::spec;
use echelon_core_model::bucket::{JOB_BUCKETS, job_bucket};
use echelon_core_model::job::{Goal, Head};
use echelon_core_model::spec::{ClusterChoice, JobKind, JobSpec, defaults};
use echelon_core_model::{JobId, Timestamp, Version};
use echelon_sim_replay::store::Jobs;
use std::collections::BTreeMap;

const FIRST_JOB: u128 = 1;

/// The sizes of all jobs.
pub(super) struct Sizes {
    pools: u32,
    /// Instances by job.
    jobs: Vec<u32>,
    buckets: Vec<Vec<u32>>,
}

impl Jobs for Sizes {
    fn heads(&self, bucket: u16) -> Vec<Head> {
        let jobs = self.buckets.get(usize::from(bucket)).into_iter().flatten();
        jobs.map(|n| self.head_of(*n)).collect()
    }

    fn head(&self, job: JobId) -> Option<Head> {
        number(job).map(|n| self.head_of(n))
    }

    fn spec(&self, job: JobId) -> Option<JobSpec> {
        number(job).map(|n| self.spec_of(n))
    }
}

impl Sizes {
    /// No jobs, of so many pools.
    pub(super) fn new(pools: u32) -> Self {
        Self {
            pools,
            jobs: Vec::new(),
            buckets: vec![Vec::new(); usize::from(JOB_BUCKETS)],
        }
    }

    /// Stores a job.
    pub(super) fn add(&mut self, instances: u32) -> JobId {
        let n = self.len();
        self.jobs.push(instances);
        let id = id(n);
        if let Some(bucket) = self.buckets.get_mut(usize::from(job_bucket(id))) {
            bucket.push(n);
        }
        id
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }

    fn instances(&self, n: u32) -> u32 {
        let at = usize::try_from(n).ok();
        at.and_then(|at| self.jobs.get(at)).copied().unwrap_or_default()
    }

    fn pool(&self, n: u32) -> String {
        entitled::leaf(n, self.pools)
    }

    fn head_of(&self, n: u32) -> Head {
        Head {
            job: id(n),
            version: Version(1),
            void: false,
            goal: Goal::default(),
            spec_version: 1,
            name: format!("job-{n}"),
            pool: self.pool(n),
            pool_id: None,
            kind: JobKind::Batch,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: u64::from(self.instances(n)),
            updated_at: Timestamp(0),
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
        }
    }

    fn spec_of(&self, n: u32) -> JobSpec {
        let mut spec = spec(self.instances(n));
        spec.name = format!("job-{n}");
        spec.pool = self.pool(n);
        spec.kind = JobKind::Batch;
        spec.clusters = ClusterChoice::default();
        for group in &mut spec.groups {
            group.retry = defaults::retry(JobKind::Batch);
            group.resources = shard::one();
        }
        spec
    }
}

fn id(n: u32) -> JobId {
    JobId(FIRST_JOB + u128::from(n))
}

fn number(job: JobId) -> Option<u32> {
    u32::try_from(job.0.checked_sub(FIRST_JOB)?).ok()
}
