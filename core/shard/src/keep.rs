//! Keeping the ends of the logs of runs that have ended. Each run whose end is stored waits here for its turn (those that failed
//! come first), is read through its host's agent, and is stored with the list of its job's kept runs. Bytes a second, reads at a
//! time and runs of a job are bounded; who finds no place in the line is not kept, and the shard's own row tells when that was.
//!
//! Nothing else waits for any of this: a log that is not kept costs no run anything.

use crate::Shard;
use crate::config::LogLimits;
use crate::effects::Then;
use crate::event::{AskedTails, Effect};
use crate::picture::At;
use crate::purpose::Purpose;
use echelon_core_model::instance::Run;
use echelon_core_model::job::Desired;
use echelon_core_model::log::{KeptRun, KeptRuns, LogGap, NoTail, Tails};
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, JobId, RunState, SidecarName, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Runs that may wait. With full outputs and the usual rate that is four minutes, and sandboxes stay for longer.
const WAITING: usize = 2_000;
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
/// Runs in the lists that are kept in memory beyond those that are needed now: about 10 MiB.
const LISTED: usize = 50_000;
/// A new leader tries again to keep what ended so recently.
const RECENT: Span = Span::minutes(10);
/// Gaps are stored at most this often.
const GAP_EVERY: Span = Span::seconds(1);

/// A run that has ended, with what is needed to read its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) run: TaskId,
    pub(crate) sidecars: Vec<SidecarName>,
    pub(crate) host: HostId,
    pub(crate) hostname: Arc<str>,
    pub(crate) failed: bool,
    pub(crate) at: Timestamp,
}

impl Ended {
    const fn job(&self) -> JobId {
        self.run.instance.job
    }

    /// Each of its tasks; the first is the main one.
    fn members(&self) -> impl Iterator<Item = Option<SidecarName>> + '_ {
        std::iter::once(None).chain(self.sidecars.iter().cloned().map(Some))
    }

    pub(crate) fn kept(&self) -> KeptRun {
        KeptRun {
            run: self.run.clone(),
            sidecars: self.sidecars.clone(),
            failed: self.failed,
        }
    }
}

/// A run on its way, and how often its agent was asked in vain.
#[derive(Debug)]
struct Trying {
    ended: Ended,
    tries: u32,
}

/// What was read and is not stored yet.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) ended: Ended,
    pub(crate) at: Timestamp,
    pub(crate) tails: Vec<Tails>,
}

/// What became of the logs of ended runs, since this process began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Runs of which something was kept.
    pub kept: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Runs that were not, since too many ended at once.
    pub crowded: u64,
    /// Outputs that could not be read, by reason.
    pub missing: BTreeMap<NoTail, u64>,
}

/// All runs on their way into storage.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pub(crate) stats: LogStats,
    /// Every run in one of the stages below.
    known: BTreeSet<TaskId>,
    /// Runs of jobs whose list is not read yet.
    unread: BTreeMap<JobId, Vec<Trying>>,
    reading: BTreeSet<JobId>,
    /// In order of their turn; those that succeeded come last.
    waiting: BTreeMap<(bool, u64), Trying>,
    /// Whose agent did not answer, by when it is asked again.
    later: BTreeMap<(Timestamp, u64), Trying>,
    flying: BTreeMap<TaskId, (Timestamp, Trying)>,
    pub(crate) gathered: VecDeque<Gathered>,
    pub(crate) store_at: Option<Timestamp>,
    /// Runs and bytes that are being stored.
    pub(crate) storing: Option<(u64, u64)>,
    /// What is kept of each job.
    pub(crate) lists: BTreeMap<JobId, KeptRuns>,
    /// Deleted jobs: nothing is kept of them.
    pub(crate) leaving: BTreeSet<JobId>,
    turn: u64,
    budget: Budget,
    gaps_at: Option<Timestamp>,
}

impl Keeping {
    fn enqueue(&mut self, trying: Trying) {
        self.turn += 1;
        self.waiting.insert((!trying.ended.failed, self.turn), trying);
    }

    /// The run that waits and is given up for one that failed: the latest that succeeded.
    fn give_way(&mut self) -> Option<Ended> {
        let (key, _) = self.waiting.last_key_value().filter(|((good, _), _)| *good)?;
        let key = *key;
        let ended = self.waiting.remove(&key)?.ended;
        self.known.remove(&ended.run);
        Some(ended)
    }

    /// The run is stored, or is not to be.
    pub(crate) fn over(&mut self, run: &TaskId) {
        self.known.remove(run);
    }

    /// Forgets lists that nobody needs now, where there are too many.
    pub(crate) fn forget_lists(&mut self) {
        let listed: usize = self.lists.values().map(|list| list.runs.len() + 1).sum();
        if listed > LISTED {
            let used: BTreeSet<JobId> = self.known.iter().map(|run| run.instance.job).collect();
            self.lists
                .retain(|job, _| used.contains(job) || self.leaving.contains(job));
        }
    }

    /// What is wrong with it; empty when nothing is.
    pub(crate) fn problems(&self, limits: &LogLimits) -> Vec<String> {
        let mut out = Vec::new();
        let unread: usize = self.unread.values().map(Vec::len).sum();
        let staged = unread + self.waiting.len() + self.later.len() + self.flying.len() + self.gathered.len();
        if staged != self.known.len() {
            out.push(format!("{} runs on their way, {staged} found", self.known.len()));
        }
        if staged > WAITING || self.flying.len() > limits.parallel {
            out.push(format!(
                "{staged} on their way, {} read at once",
                self.flying.len()
            ));
        }
        if let Some(list) = self.lists.values().find(|l| l.runs.len() > limits.runs_per_job) {
            out.push(format!("{} runs kept of job {}", list.runs.len(), list.job));
        }
        out
    }
}

/// Bytes that may be read now: a second's worth at most; what was taken beyond is made up for.
#[derive(Debug, Default)]
struct Budget {
    left: u64,
    debt: u64,
    at: Timestamp,
}

impl Budget {
    fn earn(&mut self, rate: u64, now: Timestamp) {
        let earned = rate.saturating_mul(now.since(self.at).0) / 1000;
        if earned > 0 {
            self.at = now;
            let paid = earned.min(self.debt);
            self.debt -= paid;
            self.left = (self.left + (earned - paid)).min(rate);
        }
    }

    fn spend(&mut self, bytes: u64) {
        let taken = bytes.min(self.left);
        self.left -= taken;
        self.debt += bytes - taken;
    }

    const fn is_free(&self) -> bool {
        self.left > 0 && self.debt == 0
    }

    /// When something may be read again.
    fn free_at(&self, rate: u64) -> Timestamp {
        let lacking = if self.is_free() { 0 } else { self.debt + 1 };
        self.at
            .plus(Span(lacking.saturating_mul(1000).div_ceil(rate.max(1))))
    }
}

impl Shard {
    /// A run of an instance has ended: as soon as that is stored, its logs are to be kept. Only of a run whose sandbox can be there.
    pub(crate) fn keep_log(&mut self, at: At, run: &Run) {
        if self.config.timing.logs.keep_bytes == 0 || !has_sandbox(run) {
            return;
        }
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let ended = ended(group.instance(at.1), run);
        self.keep_when_stored(at, ended);
    }

    fn keep_when_stored(&mut self, at: At, ended: Ended) {
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let point = self.journal.point(group.cell(at.1).lane);
        self.journal.when_durable([point], Then::KeepLog(Box::new(ended)));
    }

    /// The end is stored: the run gets in line.
    pub(crate) fn line_up(&mut self, ended: Ended) {
        let is_deleted = |g: &crate::group::Group| {
            let wish = g.wish.as_ref();
            wish.is_some_and(|w| w.goal.desired == Desired::Deleted)
        };
        let group = self.picture.group(ended.job(), &ended.run.instance.group);
        if group.is_some_and(is_deleted) || self.keeping.known.contains(&ended.run) {
            return;
        }
        if self.keeping.known.len() >= WAITING {
            let gone = if ended.failed {
                self.keeping.give_way()
            } else {
                None
            };
            let at = gone.as_ref().map_or(ended.at, |gone| gone.at);
            self.note_gap(at);
            if gone.is_none() {
                return;
            }
        }
        let trying = Trying { ended, tries: 0 };
        let (job, run) = (trying.ended.job(), trying.ended.run.clone());
        match self.keeping.lists.get(&job) {
            // A leader before us has kept it.
            Some(list) if list.has(&run) => return,
            Some(_) => self.keeping.enqueue(trying),
            None => self.keeping.unread.entry(job).or_default().push(trying),
        }
        self.keeping.known.insert(run);
    }

    fn note_gap(&mut self, at: Timestamp) {
        self.keeping.stats.crowded += 1;
        LogGap::note(&mut self.own.log_gaps, at);
        let due = self.now.plus(GAP_EVERY);
        self.keeping.gaps_at.get_or_insert(due);
    }

    /// What ended shortly before this leadership may not have been kept: the latest of these get in line.
    pub(crate) fn keep_recent_logs(&mut self) {
        if self.config.timing.logs.keep_bytes == 0 {
            return;
        }
        let since = Timestamp(self.now.0.saturating_sub(RECENT.0));
        let mut recent = Vec::new();
        for (number, group) in &self.picture.groups {
            let runs = group.records().filter_map(|(n, r)| Some((n, r.run.as_ref()?)));
            let late = runs.filter(|(_, run)| has_sandbox(run) && run.ended_at.is_some_and(|at| at >= since));
            recent.extend(late.map(|(n, run)| ((*number, n), ended(group.instance(n), run))));
        }
        recent.sort_by_key(|(_, ended)| std::cmp::Reverse(ended.at));
        recent.truncate(WAITING / 2);
        for (at, ended) in recent {
            self.keep_when_stored(at, ended);
        }
    }

    /// Reads and stores what its turn has come for.
    pub(crate) fn keep_logs(&mut self) {
        if !self.may_act() {
            return;
        }
        self.read_lists();
        self.give_up_reads();
        while let Some(entry) = self.keeping.later.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let trying = entry.remove();
            self.keeping.enqueue(trying);
        }
        self.start_reads();
        self.store_logs();
        if self.keeping.gaps_at.is_some_and(|at| at <= self.now) {
            self.keeping.gaps_at = None;
            self.write_own();
        }
    }

    fn read_lists(&mut self) {
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

    fn start_reads(&mut self) {
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
    fn give_up_reads(&mut self) {
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
        self.keeping.gathered.push_back(Gathered {
            ended: trying.ended,
            at: self.now,
            tails,
        });
        let due = self.now.plus(GATHER);
        self.keeping.store_at.get_or_insert(due);
    }

    /// When something of this is to be done.
    pub(crate) fn next_log(&self) -> Option<Timestamp> {
        let (keeping, limits) = (&self.keeping, &self.config.timing.logs);
        let lost = keeping.flying.values().map(|(until, _)| *until).min();
        let again = keeping.later.keys().next().map(|(at, _)| *at);
        let may_read = self.own.framework.is_some() && keeping.flying.len() < limits.parallel;
        let idle = may_read && !keeping.waiting.is_empty();
        let free = idle.then(|| keeping.budget.free_at(limits.bytes_per_second));
        let store = keeping.store_at.filter(|_| keeping.storing.is_none());
        [lost, again, free, store, keeping.gaps_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// What became of the logs of ended runs, since this process began.
    #[must_use]
    pub const fn log_stats(&self) -> &LogStats {
        &self.keeping.stats
    }
}

/// Whether a run can have written something that is still there: it was, and is not lost with its host.
const fn has_sandbox(run: &Run) -> bool {
    matches!(
        run.state,
        RunState::Succeeded | RunState::Failed | RunState::Killed
    )
}

fn ended(instance: echelon_core_model::InstanceId, run: &Run) -> Ended {
    Ended {
        run: run.task_id(instance),
        sidecars: run.members.iter().filter_map(|m| m.sidecar.clone()).collect(),
        host: run.host.clone(),
        hostname: Arc::clone(&run.hostname),
        failed: run.state != RunState::Succeeded,
        at: run.ended_at.unwrap_or(run.since),
    }
}
