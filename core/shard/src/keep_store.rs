//! Storing the logs that were read: in batches that storage takes, each with the lists that say what is kept.

use crate::Shard;
use crate::keep::Gathered;
use crate::purpose::Purpose;
use echelon_core_model::JobId;
use echelon_core_model::log::{KeptLog, KeptRuns, Tails};
use echelon_core_model::store::{Batch, Op, Stamp, Write};
use std::collections::BTreeSet;

/// Bytes of one batch, about: below what Cassandra takes as one mutation, lists included.
const BATCH: u64 = 512 * 1024;
/// What a run takes in its job's list, about.
const LISTED: u64 = 100;
/// Deleted jobs of which everything is taken out in one batch.
const LEAVING: usize = 16;

impl Shard {
    /// Stores what was gathered, one batch at a time.
    pub(crate) fn store_logs(&mut self) {
        let keeping = &mut self.keeping;
        if keeping.storing.is_some() || keeping.store_at.is_none_or(|at| at > self.now) {
            return;
        }
        keeping.store_at = None;
        let writes = self.log_writes();
        if writes.is_empty() {
            return;
        }
        self.sequence += 1;
        let batch = Batch {
            owner: self.role(),
            stamp: Stamp {
                epoch: self.epoch,
                sequence: self.sequence,
            },
            writes,
        };
        self.keeping.storing = Some(read_in(&batch.writes));
        self.ask(Op::Commit(batch), Purpose::Logs);
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

    fn log_writes(&mut self) -> Vec<Write> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        while bytes < BATCH
            && let Some(gathered) = self.keeping.gathered.pop_front()
        {
            bytes += gathered.tails.iter().map(Tails::len).sum::<u64>() + LISTED;
            let job = gathered.ended.run.instance.job;
            if jobs.insert(job) {
                let listed = self.keeping.lists.get(&job).map_or(0, |list| list.runs.len());
                bytes += u64::try_from(listed).unwrap_or(u64::MAX).saturating_mul(LISTED);
            }
            self.keep(gathered, &mut writes);
        }
        self.forget_deleted(&mut jobs, &mut writes);
        let lists = jobs.iter().filter_map(|job| self.keeping.lists.get(job));
        writes.extend(lists.cloned().map(Write::KeptRuns));
        writes
    }

    /// Adds a run to its job's list, in place of others where that is full.
    fn keep(&mut self, gathered: Gathered, writes: &mut Vec<Write>) {
        let Gathered { ended, at, tails } = gathered;
        self.keeping.over(&ended.run);
        let job = ended.run.instance.job;
        let cluster = &self.config.cluster;
        let lists = &mut self.keeping.lists;
        let list = lists
            .entry(job)
            .or_insert_with(|| KeptRuns::new(job, cluster.clone()));
        let displaced = list.add(ended.kept(), self.config.timing.logs.runs_per_job);
        writes.extend(tails.into_iter().map(|tails| {
            Write::Log(KeptLog {
                run: ended.run.clone(),
                at,
                hostname: ended.hostname.clone(),
                tails,
            })
        }));
        let gone = displaced.iter().flat_map(|run| run.tasks());
        writes.extend(gone.map(Write::RemoveLog));
    }

    /// Of a job that is deleted nothing is kept.
    pub(crate) fn forget_logs(&mut self, job: JobId) {
        if self.config.timing.logs.keep_bytes > 0 && self.keeping.leaving.insert(job) {
            self.keeping.store_at.get_or_insert(self.now);
        }
    }

    fn forget_deleted(&mut self, jobs: &mut BTreeSet<JobId>, writes: &mut Vec<Write>) {
        let keeping = &mut self.keeping;
        let known = keeping
            .leaving
            .iter()
            .filter(|job| keeping.lists.contains_key(job));
        let known: Vec<JobId> = known.take(LEAVING).copied().collect();
        for job in known {
            keeping.leaving.remove(&job);
            let Some(list) = keeping.lists.get_mut(&job).filter(|list| !list.runs.is_empty()) else {
                continue;
            };
            for run in std::mem::take(&mut list.runs) {
                writes.extend(run.tasks().map(Write::RemoveLog));
            }
            jobs.insert(job);
        }
    }
}

/// Runs of which something was read, and bytes, of what is written.
fn read_in(writes: &[Write]) -> (u64, u64) {
    let logs = writes.iter().filter_map(|write| match write {
        Write::Log(log) => Some(log),
        _ => None,
    });
    let (mut runs, mut bytes) = (BTreeSet::new(), 0);
    for log in logs {
        bytes += log.tails.len();
        let tails = [&log.tails.stdout, &log.tails.stderr];
        if tails.iter().any(|tail| tail.missing().is_none()) {
            runs.insert(&log.run);
        }
    }
    (u64::try_from(runs.len()).unwrap_or(u64::MAX), bytes)
}
