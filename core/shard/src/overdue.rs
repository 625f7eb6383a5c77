//! Runs that stay too long between two states: the cluster is asked about each by itself, without waiting for the next complete
//! reconciliation. An update that was sent once may be lost (Mesos rule R93), and after a master failover nothing announces an
//! agent that is back (R117). Each is asked at growing intervals; the questions go out in the paced batches of all others.

use crate::Shard;
use crate::loss::lost_at;
use crate::picture::{At, RunAt};
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::time::Span;
use echelon_core_model::{Generation, RunNumber, RunState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A run's state, when it is asked about next, and how often it was.
#[derive(Debug, Clone, Copy)]
struct Watched {
    state: RunState,
    due: Timestamp,
    times: u32,
}

/// Who is asked about when.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    due: BTreeSet<(Timestamp, RunAt)>,
    of: BTreeMap<RunAt, Watched>,
}

impl Overdue {
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The runs of an instance that are watched.
    pub(crate) fn watched(&self, at: At) -> Vec<RunAt> {
        let first = (at, Generation(0), RunNumber(0));
        let runs = self.of.range(first..).map(|(run, _)| *run);
        runs.take_while(|(here, ..)| *here == at).collect()
    }

    /// Watches no runs of an instance but these.
    fn forget_others(&mut self, at: At, but: &[RunAt]) {
        for run in self.watched(at) {
            if !but.contains(&run) {
                self.forget(run);
            }
        }
    }

    fn watch(&mut self, run: RunAt, state: RunState, due: Timestamp) {
        if self.of.get(&run).is_some_and(|w| w.state == state) {
            return;
        }
        self.forget(run);
        self.put(run, Watched { state, due, times: 0 });
    }

    fn put(&mut self, run: RunAt, watched: Watched) {
        self.due.insert((watched.due, run));
        self.of.insert(run, watched);
    }

    fn forget(&mut self, run: RunAt) {
        if let Some(was) = self.of.remove(&run) {
            self.due.remove(&(was.due, run));
        }
    }

    fn take_due(&mut self, now: Timestamp) -> Option<(RunAt, Watched)> {
        let (_, run) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        let was = self.of.get(&run).copied()?;
        self.forget(run);
        Some((run, was))
    }
}

/// Whether a run should not stay as it is for long. What waits for its patience to end does, too: its host may be back.
fn is_between(record: &InstanceRecord, run: &Run) -> bool {
    match run.state {
        RunState::Launching | RunState::Starting | RunState::Stopping | RunState::Unreachable => true,
        RunState::Lost => record.run.as_ref() != Some(run) || lost_at(record).is_some(),
        // What is told of a pod's members one by one may be told of some only.
        _ => run.has_silent_member() && !run.state.is_ended(),
    }
}

impl Shard {
    /// The runs of an instance that are between two states.
    pub(crate) fn between(&self, at: At) -> Vec<RunAt> {
        let Some(record) = self.picture.record(at) else {
            return Vec::new();
        };
        let runs = record.run.iter().chain(&record.older);
        let runs = runs.filter(|run| is_between(record, run));
        let runs = runs.map(|run| (at, run.generation, run.number));
        runs.filter(|of| !self.credit.is_unsent(of)).collect()
    }

    /// Keeps in mind which runs of an instance are between two states. One that has left the record is not watched any more.
    pub(crate) fn watch_runs(&mut self, at: At) {
        let due = self.now.plus(self.config.timing.overdue);
        let between = self.between(at);
        self.overdue.forget_others(at, &between);
        for of in between {
            if let Some(state) = self.picture.run(of).map(|run| run.state) {
                self.overdue.watch(of, state, due);
            }
        }
    }

    /// Asks about every run that has been between two states for too long.
    pub(crate) fn chase_overdue(&mut self) {
        if !self.contact.subscribed {
            return;
        }
        while let Some((of, was)) = self.overdue.take_due(self.now) {
            let record = self.picture.record(of.0);
            let run = record.zip(self.picture.run(of));
            let Some(state) = run
                .filter(|(r, run)| is_between(r, run))
                .map(|(_, run)| run.state)
            else {
                continue;
            };
            let times = if state == was.state {
                was.times.saturating_add(1)
            } else {
                0
            };
            let first = self.config.timing.overdue.0;
            let wait = first.saturating_mul(1 << times.min(8));
            let wait = Span(wait.min(self.config.timing.reconcile_every.0));
            let due = self.now.plus(wait);
            self.overdue.put(of, Watched { state, due, times });
            self.reconcile_soon(of);
        }
    }
}
