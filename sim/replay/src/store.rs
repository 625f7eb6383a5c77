//! A storage that answers at once. Of jobs it knows the trace and which were submitted and stopped; what else the resource manager
//! writes it never has to read again, as it never fails.

use crate::trace::{Job, Trace};
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::cluster::{Cluster, Wish};
use echelon_core_model::control::Control;
use echelon_core_model::drain::Drains;
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{ClusterChoice, GroupSpec, JobKind, JobSpec, Spread, defaults};
use echelon_core_model::store::{Answer, Decided, Decision, Leadership, Op, OpResult, Query};
use echelon_core_model::{ClusterId, GroupName, JobId, Timestamp, Version};
use std::collections::BTreeMap;

/// The id of a job by its number in the trace: older ones have smaller ids.
pub fn id(n: usize) -> JobId {
    JobId(u128::try_from(n).unwrap_or(u128::MAX).saturating_add(1))
}

/// The number of a job.
pub fn number(id: JobId) -> usize {
    usize::try_from(id.0.saturating_sub(1)).unwrap_or(usize::MAX)
}

/// What is stored.
pub struct Store<'a> {
    trace: &'a Trace,
    tree: &'a PoolTree,
    clusters: Vec<Cluster>,
    leadership: Leadership,
    /// Version and wish of each job that was submitted, in order of number.
    heads: Vec<(u64, Desired)>,
}

impl<'a> Store<'a> {
    /// Without jobs.
    pub fn new(trace: &'a Trace, tree: &'a PoolTree, clusters: &[String]) -> Self {
        let cluster = |name: &String| Cluster {
            id: ClusterId::new(name.as_str()),
            name: name.clone(),
            version: Version(1),
            wish: Wish::Active,
            mesos: String::new(),
            labels: BTreeMap::new(),
            accepted_loss: 0,
            volumes: BTreeMap::new(),
            drains: Drains::default(),
        };
        Self {
            trace,
            tree,
            clusters: clusters.iter().map(cluster).collect(),
            leadership: Leadership::default(),
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

    /// Performs an operation.
    pub fn perform(&mut self, op: Op) -> OpResult {
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
            Query::Pools => Answer::Pools(self.tree.clone()),
            Query::Clusters => Answer::Clusters(self.clusters.clone()),
            Query::Control => Answer::Control(Control::default()),
            Query::ClusterStates => Answer::ClusterStates(Vec::new()),
            Query::Heartbeats => Answer::Heartbeats(Vec::new()),
            Query::Assignments(_) => Answer::Assignments(self.leadership.epoch, Vec::new()),
            Query::ProgressBucket(_) => Answer::Progress(Vec::new()),
            Query::Heads(bucket) => {
                let of_bucket = (0..self.heads.len()).filter(|n| job_bucket(id(*n)) == *bucket);
                Answer::Heads(of_bucket.filter_map(|n| self.head(n)).collect())
            }
            Query::Head(job) => Answer::Head(self.head(number(*job))),
            Query::Spec(job, _) => Answer::Spec(self.trace.jobs.get(number(*job)).map(spec)),
            _ => Answer::Leadership(self.leadership.clone()),
        }
    }

    fn head(&self, n: usize) -> Option<Head> {
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
            kind: kind(job),
            owner: job.owner.clone(),
            labels: BTreeMap::new(),
            instances: job.groups.iter().map(|g| u64::from(g.instances)).sum(),
            updated_at: Timestamp(0),
        })
    }
}

pub fn kind(job: &Job) -> JobKind {
    if job.groups.iter().all(crate::trace::Group::ends) {
        JobKind::Batch
    } else {
        JobKind::Service
    }
}

fn spec(job: &Job) -> JobSpec {
    let kind = kind(job);
    let group = |group: &crate::trace::Group| GroupSpec {
        name: GroupName::new(group.name.as_str()),
        instances: group.instances,
        max_running: group.max_running,
        runtime: Runtime::default(),
        resources: group.shape,
        volume: None,
        sidecars: Vec::new(),
        constraints: Vec::new(),
        retry: defaults::retry(kind),
        grace: defaults::GRACE,
        max_run: None,
        max_unavailable: defaults::MAX_UNAVAILABLE,
    };
    JobSpec {
        name: String::new(),
        pool: job.pool.clone(),
        kind,
        owner: job.owner.clone(),
        labels: BTreeMap::new(),
        priority: job.priority,
        clusters: ClusterChoice {
            only: job.clusters.clone(),
            spread: if job.spread { Spread::Even } else { Spread::None },
        },
        revocable: job.revocable,
        preemptible: true,
        controller: false,
        gang: None,
        on_unreachable: defaults::on_unreachable(kind),
        on_cluster_loss: defaults::on_cluster_loss(kind),
        groups: job.groups.iter().map(group).collect(),
    }
}
