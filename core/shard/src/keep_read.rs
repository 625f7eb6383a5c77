//! Reading the ends of logs from the agents of hosts, within the bytes that a second may take: first which runs of a job are kept already,
//! then the outputs of those that are not.

use crate::Shard;
use crate::event::{AskedTails, Effect};
use crate::keep::Gathered;
use crate::purpose::Purpose;
use echelon_core_model::log::{KeptRuns, NoTail, Tails};
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{JobId, SidecarName, TaskId, Timestamp};

/// What a run counts for at least: each costs two questions and a row.
const LEAST: u64 = 4 * 1024;
/// Lists of jobs that are read at a time.
const READS: usize = 16;
/// So often an agent that does not answer is asked for a run.
const TRIES: u32 = 3;
/// Between two such tries.
const RETRY: Span = Span::seconds(5);
/// A read that nobody answers for so long is lost.
const ANSWER: Span = Span::minutes(1);
/// What was read is gathered for so long before it is stored, since each time the job's list is written whole.
const GATHER: Span = Span::millis(500);

/// Bytes that may be read now: a second's worth at most; what was taken beyond is made up for.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    left: u64,
    debt: u64,
    at: Timestamp,
}

impl Budget {
    pub(crate) fn earn(&mut self, rate: u64, now: Timestamp) {
        let earned = rate.saturating_mul(now.since(self.at).0) / 1000;
        if earned > 0 {
            self.at = now;
            let paid = earned.min(self.debt);
            self.debt -= paid;
            self.left = (self.left + (earned - paid)).min(rate);
        }
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        let taken = bytes.min(self.left);
        self.left -= taken;
        self.debt += bytes - taken;
    }

    pub(crate) const fn is_free(&self) -> bool {
        self.left > 0 && self.debt == 0
    }

    /// When something may be read again.
    pub(crate) fn free_at(&self, rate: u64) -> Timestamp {
        let lacking = if self.is_free() { 0 } else { self.debt + 1 };
        self.at
            .plus(Span(lacking.saturating_mul(1000).div_ceil(rate.max(1))))
    }
}

impl Shard {
    pub(crate) fn read_lists(&mut self) {
        let keeping = &self.keeping;
        let wanted = keeping.unread.keys().chain(&keeping.leaving);
        let unasked = wanted.filter(|job| !keeping.reading.contains(job) && !keeping.lists.contains_key(job));
        let room = READS.saturating_sub(keeping.reading.len());
        let jobs: Vec<JobId> = unasked.take(room).copied().collect();
        for job in jobs {
            if self.keeping.reading.insert(job) {
                let read = Op::Read(Query::KeptRuns(job), Consistency::Quorum);
                self.ask(read, Purpose::KeptRuns(job));
            }
        }
    }

    /// What is kept of a job is known: its runs may be read, but for those that are in it.
    pub(crate) fn on_kept_runs(&mut self, job: JobId, lists: Vec<KeptRuns>) {
        self.keeping.reading.remove(&job);
        self.keeping.forget_lists();
        let ours = lists.into_iter().find(|list| list.cluster == self.config.cluster);
        let list = ours.unwrap_or_else(|| KeptRuns::new(job, self.config.cluster.clone()));
        for trying in self.keeping.unread.remove(&job).unwrap_or_default() {
            if list.has(&trying.ended.run) {
                self.keeping.over(&trying.ended.run);
            } else {
                self.keeping.enqueue(trying);
            }
        }
        self.keeping.lists.insert(job, list);
        if self.keeping.leaving.contains(&job) {
            self.keeping.store_at.get_or_insert(self.now);
        }
    }

    pub(crate) fn start_reads(&mut self) {
        let limits = self.config.timing.logs;
        let Some(framework) = self.own.framework.clone() else {
            return;
        };
        self.keeping.budget.earn(limits.bytes_per_second, self.now);
        while self.keeping.flying.len() < limits.parallel
            && self.keeping.budget.is_free()
            && let Some((_, trying)) = self.keeping.waiting.pop_first()
        {
            self.keeping.budget.spend(LEAST);
            self.out.push(Effect::FetchTails(AskedTails {
                run: trying.ended.run.clone(),
                sidecars: trying.ended.sidecars.clone(),
                host: trying.ended.host.clone(),
                framework: framework.clone(),
                bytes: limits.keep_bytes,
            }));
            let until = self.now.plus(ANSWER);
            let run = trying.ended.run.clone();
            self.keeping.flying.insert(run, (until, trying));
        }
    }

    /// Reads of which nothing was heard for long count as those of an agent that is silent.
    pub(crate) fn give_up_reads(&mut self) {
        let late = self
            .keeping
            .flying
            .iter()
            .filter(|(_, (until, _))| *until <= self.now);
        let late: Vec<TaskId> = late.map(|(run, _)| run.clone()).collect();
        for run in late {
            self.on_tails(&run, Vec::new());
        }
    }

    /// The logs of a run were read, or could not be.
    pub(crate) fn on_tails(&mut self, run: &TaskId, tails: Vec<Tails>) {
        let Some((_, mut trying)) = self.keeping.flying.remove(run) else {
            return;
        };
        let keep = self.config.timing.logs.keep_bytes;
        let mut of = |sidecar: Option<SidecarName>| {
            let told = tails.iter().find(|t| t.sidecar == sidecar).cloned();
            told.map_or_else(
                || Tails::missing(sidecar, NoTail::AgentSilent),
                |t| t.within(keep),
            )
        };
        let tails: Vec<Tails> = trying.ended.members().map(&mut of).collect();
        let all = || tails.iter().flat_map(|t| [&t.stdout, &t.stderr]);
        let in_vain = all().all(|tail| tail.missing().is_some_and(NoTail::may_pass));
        trying.tries += 1;
        if in_vain && trying.tries < TRIES {
            self.keeping.turn += 1;
            let at = self.now.plus(RETRY);
            self.keeping.later.insert((at, self.keeping.turn), trying);
            return;
        }
        let bytes: u64 = tails.iter().map(Tails::len).sum();
        self.keeping.budget.spend(bytes.saturating_sub(LEAST));
        let stats = &mut self.keeping.stats;
        for why in all().filter_map(|tail| tail.missing()) {
            *stats.missing.entry(why).or_default() += 1;
        }
        let any = all().any(|tail| tail.missing().is_none());
        self.keeping.gathered.push_back(Gathered {
            ended: trying.ended,
            at: self.now,
            any,
            tails,
        });
        let due = self.now.plus(GATHER);
        self.keeping.store_at.get_or_insert(due);
    }
}
