//! A storage that answers at once, for whoever steps a resource manager by himself. Of jobs it asks whoever knows them; what else the
//! resource manager writes it never has to read again, as it never fails.

use echelon_core_model::cluster::Cluster;
use echelon_core_model::control::Control;
use echelon_core_model::job::Head;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::start_ban::StartBans;
use echelon_core_model::store::{Answer, Decided, Decision, Leadership, Op, OpResult, Query, Stamp};
use echelon_core_model::{ClusterId, JobId};

/// Who knows the jobs that are stored.
pub trait Jobs {
    /// The heads of a job bucket.
    fn heads(&self, bucket: u16) -> Vec<Head>;
    /// A job's head.
    fn head(&self, job: JobId) -> Option<Head>;
    /// A job's spec; each has one version.
    fn spec(&self, job: JobId) -> Option<JobSpec>;
}

/// What is stored.
#[derive(Debug)]
pub struct Store<J> {
    /// The jobs.
    pub jobs: J,
    tree: PoolTree,
    clusters: Vec<Cluster>,
    leadership: Leadership,
}

impl<J: Jobs> Store<J> {
    /// These pools, clusters and jobs, and nobody who leads.
    pub fn new(tree: PoolTree, clusters: Vec<Cluster>, jobs: J) -> Self {
        Self {
            jobs,
            tree,
            clusters,
            leadership: Leadership::default(),
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

    fn raised(&self) -> Stamp {
        Stamp {
            epoch: self.leadership.epoch,
            sequence: 0,
        }
    }

    fn read(&self, query: &Query) -> Answer {
        match query {
            Query::Pools => Answer::Pools(self.tree.clone()),
            Query::Clusters => Answer::Clusters(self.clusters.clone()),
            Query::Control => Answer::Control(Control::default()),
            Query::StartBans => Answer::StartBans(StartBans::default()),
            Query::Mark(_) => Answer::Mark(None),
            Query::ClusterStates => Answer::ClusterStates(Vec::new()),
            Query::Heartbeats => Answer::Heartbeats(Vec::new()),
            Query::Assignments(_) => Answer::Assignments(self.raised(), Vec::new()),
            Query::ProgressBucket(_) => Answer::Progress(Vec::new()),
            Query::Heads(bucket) => Answer::Heads(self.jobs.heads(*bucket)),
            Query::Head(job) => Answer::Head(self.jobs.head(*job)),
            Query::Spec(job, _) => Answer::Spec(self.jobs.spec(*job)),
            _ => Answer::Leadership(self.leadership.clone()),
        }
    }
}

/// The row of a cluster of this name and id that takes work.
#[must_use]
pub fn cluster(name: &str) -> Cluster {
    Cluster::new(ClusterId::new(name), name)
}
