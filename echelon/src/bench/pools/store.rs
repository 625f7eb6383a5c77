//! A storage that answers at once. Rows are made up when they are read and forgotten when they are written, so that the memory that
//! grows is the resource manager's.

use super::{entitled, shard};
use crate::bench::spec;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::bucket::{JOB_BUCKETS, job_bucket};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::control::Control;
use echelon_core_model::job::{Goal, Head};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::{ClusterChoice, JobKind, JobSpec, defaults};
use echelon_core_model::store::{Answer, Decided, Decision, Leadership, Op, OpResult, Query};
use echelon_core_model::{JobId, Timestamp, Version};
use std::collections::BTreeMap;

const FIRST_JOB: u128 = 1;

/// What is stored: of jobs only their sizes.
pub(super) struct Store {
    pools: PoolTree,
    clusters: Vec<Cluster>,
    leadership: Leadership,
    /// Instances by job.
    jobs: Vec<u32>,
    buckets: Vec<Vec<u32>>,
}

impl Store {
    /// Without jobs.
    pub(super) fn new(pools: PoolTree, clusters: Vec<Cluster>) -> Self {
        Self {
            pools,
            clusters,
            leadership: Leadership::default(),
            jobs: Vec::new(),
            buckets: vec![Vec::new(); usize::from(JOB_BUCKETS)],
        }
    }

    /// Stores a job.
    pub(super) fn add(&mut self, instances: u32) -> JobId {
        let n = self.jobs();
        self.jobs.push(instances);
        let id = id(n);
        if let Some(bucket) = self.buckets.get_mut(usize::from(job_bucket(id))) {
            bucket.push(n);
        }
        id
    }

    /// How many there are.
    pub(super) fn jobs(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn perform(&mut self, op: Op) -> OpResult {
        match op {
            Op::Read(query, _) => OpResult::Answer(self.read(&query)),
            Op::Decide(Decision::TakeEpoch { next, .. }) => {
                self.leadership = next;
                OpResult::Decided(Decided::Applied)
            }
            Op::Decide(_) => OpResult::Decided(Decided::Applied),
            Op::Commit(_) => OpResult::Committed,
        }
    }

    fn read(&self, query: &Query) -> Answer {
        match query {
            Query::Pools => Answer::Pools(self.pools.clone()),
            Query::Clusters => Answer::Clusters(self.clusters.clone()),
            Query::Control => Answer::Control(Control::default()),
            Query::ClusterStates => Answer::ClusterStates(Vec::new()),
            Query::Heartbeats => Answer::Heartbeats(Vec::new()),
            Query::Assignments(_) => Answer::Assignments(self.leadership.epoch, Vec::<Assignment>::new()),
            Query::ProgressBucket(_) => Answer::Progress(Vec::new()),
            Query::Heads(bucket) => {
                let jobs = self.buckets.get(usize::from(*bucket)).into_iter().flatten();
                Answer::Heads(jobs.map(|n| self.head(*n)).collect())
            }
            Query::Head(job) => Answer::Head(number(*job).map(|n| self.head(n))),
            Query::Spec(job, _) => Answer::Spec(number(*job).map(|n| self.spec(n))),
            _ => Answer::Leadership(self.leadership.clone()),
        }
    }

    fn instances(&self, n: u32) -> u32 {
        let at = usize::try_from(n).ok();
        at.and_then(|at| self.jobs.get(at)).copied().unwrap_or_default()
    }

    fn pool(&self, n: u32) -> String {
        entitled::leaf(n, u32::try_from(self.pools.pools.len()).unwrap_or(u32::MAX))
    }

    fn head(&self, n: u32) -> Head {
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
        }
    }

    fn spec(&self, n: u32) -> JobSpec {
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
