//! Storing the logs that were read: in batches that storage takes, each with the lists that say what is kept.

use crate::Shard;
use crate::keep::Gathered;
use crate::purpose::Purpose;
use echelon_core_model::JobId;
use echelon_core_model::log::{KeptLog, KeptRun, KeptRuns};
use echelon_core_model::store::Write;
use std::collections::BTreeSet;

/// Bytes of one batch, about: storage takes 1 MiB. Only what is larger by itself makes a larger one: a list, or the outputs of one task.
const BATCH: u64 = 512 * 1024;
/// What a row takes beside what was read, about; and so does a removal.
const ROW: u64 = 200;

/// A batch that is being filled.
#[derive(Default)]
struct Filling {
    writes: Vec<Write>,
    /// Jobs whose lists go with it.
    jobs: BTreeSet<JobId>,
    /// What all of it takes, about.
    size: u64,
    /// Runs of which all is stored with it, and something was read.
    runs: u64,
    /// Bytes that were read.
    read: u64,
}

impl Filling {
    const fn takes(&self, more: u64) -> bool {
        self.size == 0 || self.size.saturating_add(more) <= BATCH
    }

    fn log(&mut self, log: KeptLog) {
        self.read += log.tails.len();
        self.size += log.tails.len() + ROW;
        self.writes.push(Write::Log(log));
    }

    fn remove(&mut self, run: &KeptRun) {
        self.size += removal(run);
        self.writes.extend(run.tasks().map(Write::RemoveLog));
    }

    /// What a job's list adds that goes with it.
    fn list_size(&self, list: Option<&KeptRuns>, job: JobId) -> u64 {
        let whole = list.filter(|_| !self.jobs.contains(&job));
        whole.map_or(0, KeptRuns::stored_size)
    }
}

fn removal(run: &KeptRun) -> u64 {
    let tasks = run.sidecars.len() + 1;
    u64::try_from(tasks).unwrap_or(u64::MAX).saturating_mul(ROW)
}

impl Shard {
    /// Stores what was gathered, one batch at a time.
    pub(crate) fn store_logs(&mut self) {
        let keeping = &mut self.keeping;
        if keeping.storing.is_some() || keeping.store_at.is_none_or(|at| at > self.now) {
            return;
        }
        keeping.store_at = None;
        let batch = self.fill();
        if batch.writes.is_empty() {
            return;
        }
        self.keeping.storing = Some((batch.runs, batch.read));
        self.commit_as(Purpose::Logs, batch.writes);
    }

    /// A batch is durable; what was gathered meanwhile is next.
    pub(crate) fn on_logs_stored(&mut self) {
        let (runs, bytes) = self.keeping.storing.take().unwrap_or_default();
        self.keeping.stats.kept += runs;
        self.keeping.stats.bytes += bytes;
        if !self.keeping.gathered.is_empty() || !self.keeping.leaving.is_empty() {
            self.keeping.store_at.get_or_insert(self.now);
        }
    }

    fn fill(&mut self) -> Filling {
        let mut batch = Filling::default();
        while let Some(next) = self.keeping.gathered.front_mut() {
            let job = next.ended.job();
            if let Some(tails) = next.tails.pop_if(|tails| batch.takes(tails.len() + ROW)) {
                batch.log(KeptLog {
                    run: next.ended.run.clone(),
                    at: next.at,
                    hostname: next.ended.hostname.clone(),
                    tails,
                });
                continue;
            }
            let list = batch.list_size(self.keeping.lists.get(&job), job) + next.ended.kept().stored_size();
            if !next.tails.is_empty() || !batch.takes(list) {
                break;
            }
            if let Some(gathered) = self.keeping.gathered.pop_front() {
                batch.size += list;
                self.list(&gathered, &mut batch);
            }
        }
        self.forget_deleted(&mut batch);
        let lists = batch.jobs.iter().filter_map(|job| self.keeping.lists.get(job));
        batch.writes.extend(lists.cloned().map(Write::KeptRuns));
        batch
    }

    /// All of a run is stored: it is listed, in place of others where the list is full.
    fn list(&mut self, gathered: &Gathered, batch: &mut Filling) {
        let job = gathered.ended.job();
        self.keeping.over(&gathered.ended.run);
        let cluster = &self.config.cluster;
        let list = self.keeping.lists.entry(job);
        let list = list.or_insert_with(|| KeptRuns::new(job, cluster.clone()));
        let displaced = list.add(gathered.ended.kept(), self.config.timing.logs.runs_per_job);
        displaced.iter().for_each(|run| batch.remove(run));
        batch.jobs.insert(job);
        batch.runs += u64::from(gathered.any);
    }

    /// A deleted job leaves: what is on its way is dropped, and what was kept is removed as soon as it is known what that is.
    pub(crate) fn forget_logs(&mut self, job: JobId) {
        if self.config.timing.logs.keep_bytes > 0 {
            self.keeping.drop_job(job, &self.config.cluster);
            self.keeping.leaving.insert(job);
            self.keeping.store_at.get_or_insert(self.now);
        }
    }

    fn forget_deleted(&mut self, batch: &mut Filling) {
        let keeping = &mut self.keeping;
        let known = keeping.leaving.iter().copied();
        let known: Vec<JobId> = known.filter(|job| keeping.lists.contains_key(job)).collect();
        for job in known {
            let Some(list) = keeping.lists.get_mut(&job).filter(|list| !list.runs.is_empty()) else {
                keeping.leaving.remove(&job);
                continue;
            };
            let size = batch.list_size(Some(list), job);
            if !batch.takes(size) {
                return;
            }
            batch.size += size;
            batch.jobs.insert(job);
            while let Some(run) = list.runs.pop_if(|run| batch.takes(removal(run))) {
                batch.remove(&run);
            }
            if list.runs.is_empty() {
                keeping.leaving.remove(&job);
            }
        }
    }
}
