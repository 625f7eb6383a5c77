//! Queries, answered in a thread of their own. It has a snapshot of the driver's picture, which is brought up to date on demand and at
//! most once a second, so the thread that decides spends next to nothing on any query.

use crate::coverage::CoverageGauge;
use echelon_core_model::cluster::ClusterQuestion;
use echelon_core_model::job::Progress;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{ClusterId, JobId, Timestamp};
use echelon_core_resource_manager::{
    ClusterWork, JobQuestion, PictureSnapshot, Plan, PoolFigures, ResourceManager, SnapshotPart,
    cluster_work, figures, loss_cover, plan, unstored_progress,
};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How old a snapshot may be that answers.
const AGE: Duration = Duration::from_secs(1);

/// A query, and where its answer goes. `None`: this process does not lead, ask again.
pub(crate) enum PictureQuery {
    /// What would become of a job.
    Plan(Box<JobSpec>, oneshot::Sender<Option<Box<Plan>>>),
    /// How the pools stand, or would stand under another tree.
    Figures(Option<PoolTree>, oneshot::Sender<Option<Box<PoolFigures>>>),
    /// What a cluster holds, and what would become of it.
    ClusterWork(ClusterQuestion, oneshot::Sender<Option<Box<ClusterWork>>>),
    /// What a loss of a cluster would leave without capacity. The answer goes to a gauge.
    LossCover {
        /// The cluster.
        cluster: ClusterId,
        /// Its name.
        name: String,
        /// Where the answer is shown.
        gauge: CoverageGauge,
    },
    /// Why a job waits for admission. The answer is computed from what is sent, in another thread.
    Explain(JobId, oneshot::Sender<Option<Box<JobQuestion>>>),
    /// What became of jobs of which storage has no progress, and when that is asked.
    Unstored(Vec<JobId>, Timestamp, oneshot::Sender<Option<Box<[Progress]>>>),
}

enum SnapshotWork {
    Part(Box<SnapshotPart>),
    Queries(Vec<PictureQuery>),
}

/// The queries that wait for a snapshot, and the thread that answers them.
pub(crate) struct QueryThread {
    waiting: Vec<PictureQuery>,
    thread: mpsc::Sender<SnapshotWork>,
    /// When the snapshot was last complete; `None`: never in this leadership, or it is being brought up to date.
    complete: Option<Instant>,
}

impl QueryThread {
    /// The thread ends when this is dropped.
    pub(crate) fn new() -> Self {
        let (thread, work) = mpsc::channel();
        std::thread::spawn(move || answer_all(&work));
        Self {
            waiting: Vec::new(),
            thread,
            complete: None,
        }
    }

    /// Takes a query in. It is answered after the next turn.
    pub(crate) fn add(&mut self, query: PictureQuery) {
        self.waiting.push(query);
    }

    /// Whether some query waits.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands the queries to their thread, with what has changed since the last time. That may take several turns: each has a part
    /// of some thousand jobs at most.
    pub(crate) fn hand_over(&mut self, driver: &mut ResourceManager, now: Instant) {
        if driver.leading().is_none() || driver.is_suspended() {
            self.complete = None;
            for query in self.waiting.drain(..) {
                query.refuse();
            }
            return;
        }
        if self.waiting.is_empty() {
            return;
        }
        let is_young = |at: Instant| now.duration_since(at) < AGE;
        if !self.complete.is_some_and(is_young) {
            let part = driver.snapshot_part();
            self.complete = part.is_last().then_some(now);
            self.hand(SnapshotWork::Part(Box::new(part)));
        }
        if self.complete.is_some() {
            let queries = std::mem::take(&mut self.waiting);
            self.hand(SnapshotWork::Queries(queries));
        }
    }

    fn hand(&self, work: SnapshotWork) {
        // It ends with the process only. Otherwise its callers see that nothing answers.
        if self.thread.send(work).is_err() {
            tracing::error!("the thread that answers queries has ended");
        }
    }
}

impl PictureQuery {
    fn answer(self, snapshot: &PictureSnapshot) {
        let picture = snapshot.picture();
        // The caller may be gone.
        match self {
            Self::Plan(spec, answer) => drop(answer.send(Some(Box::new(plan(picture, &spec))))),
            Self::Figures(tree, answer) => drop(answer.send(Some(Box::new(figures(picture, tree))))),
            Self::ClusterWork(question, answer) => {
                drop(answer.send(Some(Box::new(cluster_work(picture, &question)))));
            }
            Self::LossCover { cluster, name, gauge } => gauge.show(&name, &loss_cover(picture, &cluster)),
            Self::Explain(job, answer) => drop(answer.send(Some(Box::new(JobQuestion::new(picture, job))))),
            Self::Unstored(jobs, now, answer) => {
                let rows = unstored_progress(picture, &jobs, now);
                drop(answer.send(Some(rows.into_boxed_slice())));
            }
        }
    }

    fn refuse(self) {
        match self {
            Self::Plan(_, answer) => drop(answer.send(None)),
            Self::Figures(_, answer) => drop(answer.send(None)),
            Self::ClusterWork(_, answer) => drop(answer.send(None)),
            Self::LossCover { .. } => {}
            Self::Explain(_, answer) => drop(answer.send(None)),
            Self::Unstored(_, _, answer) => drop(answer.send(None)),
        }
    }
}

fn answer_all(work: &mpsc::Receiver<SnapshotWork>) {
    let mut snapshot = PictureSnapshot::default();
    while let Ok(next) = work.recv() {
        match next {
            SnapshotWork::Part(part) => snapshot.take(*part),
            SnapshotWork::Queries(queries) => queries.into_iter().for_each(|query| query.answer(&snapshot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_resource_manager::Config;

    #[test]
    fn a_process_that_does_not_lead_answers_nothing() {
        let mut driver = ResourceManager::new(Config::new("one", 7));
        let mut queries = QueryThread::new();
        let (answer, mut answered) = oneshot::channel();
        queries.add(PictureQuery::Figures(None, answer));
        assert!(queries.is_waiting());
        queries.hand_over(&mut driver, Instant::now());
        assert!(!queries.is_waiting());
        assert_eq!(answered.try_recv().unwrap(), None);
    }
}
