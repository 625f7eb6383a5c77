//! Keeping the ends of the logs of runs that have ended. Each run whose end is stored waits here for its turn (those that failed
//! come first), is read through its host's agent, and is stored with the list of its job's kept runs. Bytes a second, reads at a
//! time and runs of a job are bounded; who finds no place in the line is not kept, and the shard's own row tells when that was.
//!
//! Nothing else waits for any of this: a log that is not kept costs no run anything.

use crate::Shard;
use crate::config::LogLimits;
use crate::effects::Then;
use crate::group::Wish;
use crate::keep_read::Budget;
use crate::picture::At;
use echelon_core_model::instance::Run;
use echelon_core_model::job::Desired;
use echelon_core_model::log::{KeptRun, KeptRuns, LogGap, NoTail, Tails};
use echelon_core_model::time::Span;
use echelon_core_model::{ClusterId, HostId, JobId, RunState, SidecarName, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Runs that may wait. With full outputs and the usual rate that is four minutes, and sandboxes stay for longer.
const WAITING: usize = 2_000;
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
    pub(crate) const fn job(&self) -> JobId {
        self.run.instance.job
    }

    /// Each of its tasks; the first is the main one.
    pub(crate) fn members(&self) -> impl Iterator<Item = Option<SidecarName>> + '_ {
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
pub(crate) struct Trying {
    pub(crate) ended: Ended,
    pub(crate) tries: u32,
}

/// What was read and is not stored yet.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) ended: Ended,
    pub(crate) at: Timestamp,
    /// Something was read.
    pub(crate) any: bool,
    /// Those of its tasks that are not stored yet.
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
    pub(crate) known: BTreeSet<TaskId>,
    /// Runs of jobs whose list is not read yet.
    pub(crate) unread: BTreeMap<JobId, Vec<Trying>>,
    pub(crate) reading: BTreeSet<JobId>,
    /// In order of their turn; those that succeeded come last.
    pub(crate) waiting: BTreeMap<(bool, u64), Trying>,
    /// Whose agent did not answer, by when it is asked again.
    pub(crate) later: BTreeMap<(Timestamp, u64), Trying>,
    pub(crate) flying: BTreeMap<TaskId, (Timestamp, Trying)>,
    pub(crate) gathered: VecDeque<Gathered>,
    pub(crate) store_at: Option<Timestamp>,
    /// Runs and bytes that are being stored.
    pub(crate) storing: Option<(u64, u64)>,
    /// What is kept of each job.
    pub(crate) lists: BTreeMap<JobId, KeptRuns>,
    /// Deleted jobs: nothing is kept of them.
    pub(crate) leaving: BTreeSet<JobId>,
    pub(crate) turn: u64,
    pub(crate) budget: Budget,
    gaps_at: Option<Timestamp>,
}

impl Keeping {
    pub(crate) fn enqueue(&mut self, trying: Trying) {
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

    /// Takes all runs of a job off their way. What was stored of one that is stored in part is listed, so that it is found again.
    pub(crate) fn drop_job(&mut self, job: JobId, cluster: &ClusterId) {
        let other = |trying: &Trying| trying.ended.job() != job;
        self.unread.remove(&job);
        self.waiting.retain(|_, trying| other(trying));
        self.later.retain(|_, trying| other(trying));
        self.flying.retain(|_, (_, trying)| other(trying));
        self.known.retain(|run| run.instance.job != job);
        let (gone, stay) = std::mem::take(&mut self.gathered)
            .into_iter()
            .partition::<VecDeque<_>, _>(|gathered| gathered.ended.job() == job);
        self.gathered = stay;
        if gone.is_empty() {
            return;
        }
        let list = self.lists.entry(job);
        let list = list.or_insert_with(|| KeptRuns::new(job, cluster.clone()));
        list.runs
            .extend(gone.iter().map(|gathered| gathered.ended.kept()));
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
        let stays = |l: &&KeptRuns| !self.leaving.contains(&l.job);
        let mut lists = self.lists.values().filter(stays);
        if let Some(list) = lists.find(|l| l.runs.len() > limits.runs_per_job) {
            out.push(format!("{} runs kept of job {}", list.runs.len(), list.job));
        }
        out
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
        // Of a group that is gone nothing is kept any more: the rest of its job was, or was removed.
        let group = self.picture.group(ended.job(), &ended.run.instance.group);
        let is_deleted = |wish: &Wish| wish.goal.desired == Desired::Deleted;
        if group.is_none_or(|g| g.wish.as_ref().is_some_and(is_deleted))
            || self.keeping.known.contains(&ended.run)
        {
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
