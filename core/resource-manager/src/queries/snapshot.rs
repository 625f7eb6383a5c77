//! A snapshot of the picture, for queries in another thread. It follows the picture by what has changed, some
//! thousand jobs at a time, so that the thread that decides never copies all jobs. Jobs and reports are
//! shared. Sums follow from facts, and are computed by the snapshot's own thread.

use crate::admission::LastAdmission;
use crate::demand::{self, ClosedClusters};
use crate::facts::FederationFacts;
#[cfg(test)]
use crate::facts::cluster::ClusterView;
use crate::facts::cluster::JobReports;
use crate::facts::ended::{EndedJob, EndedJobs};
use crate::facts::job::JobView;
use crate::facts::jobs::Jobs;
use crate::facts::known::Specs;
use crate::manager::ResourceManager;
use crate::picture::Picture;
use crate::preemption::requests::PreemptionRequests;
use echelon_core_model::{ClusterId, JobId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most jobs and reports of one part, once the snapshot has all jobs.
const AT_ONCE: usize = if cfg!(test) { 7 } else { 1_000 };

/// The same while it gets all jobs for the first time, or nearly all.
const AT_FIRST: usize = if cfg!(test) { 9 } else { 5_000 };

/// While so many jobs are left, parts are large.
const MANY: usize = 10 * AT_ONCE;

/// What has changed since the part before.
#[derive(Debug)]
pub struct SnapshotPart {
    /// It is the first one: what the snapshot had before is of another leadership.
    is_first: bool,
    jobs: Vec<(JobId, Option<Arc<JobView>>)>,
    ended: Vec<(JobId, Option<EndedJob>)>,
    reports: Vec<(ClusterId, JobReports)>,
    /// All that does not grow with jobs. It is there if the snapshot has everything with this part.
    rest: Option<Box<SnapshotRest>>,
}

/// What does not grow with jobs.
#[derive(Debug)]
struct SnapshotRest {
    /// Without jobs, jobs that have ended, and reports.
    facts: FederationFacts,
    closed: ClosedClusters,
    admission: LastAdmission,
    preemption: PreemptionRequests,
    revision: u64,
}

/// The picture as it was at one moment.
#[derive(Debug, Default)]
pub struct PictureSnapshot(Picture);

impl SnapshotPart {
    /// Whether the snapshot is one of one moment with this part.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.rest.is_some()
    }
}

impl ResourceManager {
    /// The next part of a snapshot. It has at most some thousand jobs. A snapshot that has taken a part that
    /// `is_last` is the picture of the moment in which that part was made.
    pub fn snapshot_part(&mut self) -> SnapshotPart {
        let Picture {
            facts,
            demand,
            division: _,
            admission,
            preemption,
            revision,
        } = &mut self.picture;
        let is_first = !facts.jobs.is_followed();
        let is_large = is_first || facts.jobs.unsent() > MANY;
        let most = if is_large { AT_FIRST } else { AT_ONCE };
        let jobs = facts.jobs.take_unsent(most);
        let mut left = most.saturating_sub(jobs.len());
        let ended = facts.ended.take_unsent(left);
        left = left.saturating_sub(ended.len());
        let mut reports = Vec::new();
        for (id, view) in &mut facts.clusters {
            let some = view.take_unsent(left);
            left = left.saturating_sub(some.len());
            reports.extend(some.into_iter().map(|of| (id.clone(), of)));
        }
        let is_last = facts.jobs.is_sent()
            && facts.ended.is_sent()
            && facts.clusters.values().all(|view| view.unsent.is_empty());
        let rest = is_last.then(|| {
            Box::new(SnapshotRest {
                facts: without_jobs(facts),
                closed: Arc::clone(demand.closed()),
                admission: admission.clone(),
                preemption: preemption.clone(),
                revision: *revision,
            })
        });
        SnapshotPart {
            is_first,
            jobs,
            ended,
            reports,
            rest,
        }
    }
}

fn without_jobs(facts: &FederationFacts) -> FederationFacts {
    let clusters = facts.clusters.iter();
    FederationFacts {
        clusters: clusters
            .map(|(id, view)| (id.clone(), view.without_reports()))
            .collect(),
        control: facts.control.clone(),
        pools: Arc::clone(&facts.pools),
        structure: facts.structure,
        hierarchy: Arc::clone(&facts.hierarchy),
        by_shares: Arc::clone(&facts.by_shares),
        revalued: BTreeSet::new(),
        jobs: Jobs::default(),
        ended: EndedJobs::default(),
        specs: Specs::default(),
        pause: facts.pause,
        homes: Arc::clone(&facts.homes),
        host_pools: facts.host_pools.clone(),
        awaiting: facts.awaiting.clone(),
    }
}

impl PictureSnapshot {
    /// What queries look at.
    #[must_use]
    pub const fn picture(&self) -> &Picture {
        &self.0
    }

    /// Whether it has the very jobs and reports that a picture has.
    #[cfg(test)]
    pub(crate) fn shares(&self, picture: &Picture) -> bool {
        let (mine, other) = (&self.0.facts, &picture.facts);
        let jobs = mine.jobs.values().zip(other.jobs.values());
        let mut clusters = mine.clusters.iter().zip(&other.clusters);
        let same_reports =
            |((a, mine), (b, other)): ((&ClusterId, &ClusterView), (&ClusterId, &ClusterView))| {
                let reports = mine.reports.iter().zip(&other.reports);
                let mut reports = reports.map(|((a, mine), (b, other))| a == b && Arc::ptr_eq(mine, other));
                let same_count = mine.reports.len() == other.reports.len();
                a == b && same_count && reports.all(|same| same) && mine.words == other.words
            };
        mine.jobs.keys().eq(other.jobs.keys())
            && jobs.fold(true, |all, (a, b)| all && std::ptr::eq(a, b))
            && mine.ended.iter().eq(other.ended.iter())
            && mine.clusters.len() == other.clusters.len()
            && clusters.all(same_reports)
    }

    /// Takes the next part. Parts are taken in the order in which they were made.
    pub fn take(&mut self, part: SnapshotPart) {
        let SnapshotPart {
            is_first,
            jobs,
            ended,
            reports,
            rest,
        } = part;
        if is_first {
            self.0 = Picture::default();
        }
        let facts = &mut self.0.facts;
        for (id, job) in jobs {
            facts.jobs.take_over(id, job);
        }
        for (id, job) in ended {
            match job {
                Some(job) => facts.ended.insert(id, job),
                None => facts.ended.remove(&id),
            }
        }
        for (cluster, of) in reports {
            facts.jobs.touch(of.job);
            facts.clusters.entry(cluster).or_default().take_over(of);
        }
        if let Some(rest) = rest {
            self.settle(*rest);
        }
    }

    /// All is there: sums follow.
    fn settle(&mut self, rest: SnapshotRest) {
        let Picture {
            facts,
            demand,
            admission,
            preemption,
            revision,
            division: _,
        } = &mut self.0;
        let mut before = std::mem::replace(facts, rest.facts);
        for (id, view) in &mut facts.clusters {
            let known = before
                .clusters
                .get_mut(id)
                .map(std::mem::take)
                .unwrap_or_default();
            view.reports = known.reports;
            view.words = known.words;
        }
        facts.jobs = std::mem::take(&mut before.jobs);
        facts.ended = std::mem::take(&mut before.ended);
        if !Arc::ptr_eq(&facts.hierarchy, &before.hierarchy) {
            demand.count_all_again();
        }
        // The sums are those of these facts: nothing else is asked of what has changed.
        let _: BTreeSet<JobId> = demand::refresh(facts, demand);
        demand.count_pools(facts);
        demand.set_closed(rest.closed);
        *admission = rest.admission;
        *preemption = rest.preemption;
        *revision = rest.revision;
    }
}
