//! Runs whose agent is known to be gone, which is more than silence: an operator has marked it, or another
//! agent is registered at its address.
//!
//! After the time that `on_gone` gives, such a run counts as ended. Nothing of it is awaited, here or under a
//! new leader, and its instance goes on like one whose run has ended.
//! `on_unreachable` goes on beside it, and gives a run up that may live.
//!
//! That an agent is gone is stored with the run. Only a sign of life of the run itself takes it back.
//!
//! How soon the executors of a replaced agent end is asked of the agent that is now at its address, and
//! stored with the run, too. A new leader asks again where that is not stored. While an answer may come
//! nothing is ended by the usual times.

use crate::Shard;
use crate::picture::{At, RunAt};
use echelon_core_model::gone::{AgentTimes, Gone, GoneCause};
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState};
use std::collections::BTreeSet;

/// While lost runs are withheld, the end of one is looked at again after this.
const LOOK_AGAIN: Span = Span::minutes(1);

impl Shard {
    /// Notes that the agent of a run is gone.
    /// The latest run has to be silent: what has ended needs no more evidence.
    pub(crate) fn note_gone(&mut self, run: RunAt, cause: GoneCause) {
        let is_new = |known: &Run| known.gone.as_ref().is_none_or(|gone| gone.cause < cause);
        let record = self.picture.record(run.0);
        if !record.is_some_and(|r| awaited(r).any(|known| names(known, run) && is_new(known))) {
            return;
        }
        let observed_at = self.own.observed;
        self.edit(run.0, |record| {
            if let Some(known) = found(record, run) {
                let times = known.gone.as_ref().map_or(AgentTimes::UNKNOWN, |gone| gone.times);
                known.gone = Some(Box::new(Gone {
                    cause,
                    observed_at,
                    times,
                }));
                if known.state == RunState::Unreachable && cause == GoneCause::Operator {
                    known.reason = ReasonCode::GoneByOperator.into();
                }
            }
        });
    }

    /// A run lives whose agent was taken for gone.
    pub(crate) fn forget_gone(&mut self, run: RunAt) {
        if self.picture.run(run).is_some_and(|known| known.gone.is_some()) {
            self.edit(run.0, |record| {
                if let Some(known) = found(record, run) {
                    known.gone = None;
                }
            });
        }
    }

    /// Has instances looked at that have something on agents which were just found to be replaced, or of
    /// which flags were just told.
    pub(crate) fn look_at_replaced(&mut self) {
        let replaced: BTreeSet<_> = self.hosts.take_replaced().into_iter().collect();
        if replaced.is_empty() {
            return;
        }
        for (number, group) in &self.picture.groups {
            let there = |r: &InstanceRecord| awaited(r).any(|run| replaced.contains(&run.host));
            let touched = group.records().filter(|(_, record)| there(record));
            self.picture.agenda.extend(touched.map(|(n, _)| (*number, n)));
        }
    }

    /// Notes which runs of an instance were on agents that were replaced, and how soon their executors end.
    /// Ends those whose agents were gone for long enough.
    pub(crate) fn tend_gone(&mut self, at: At) {
        for run in self.awaited_where(at, |known| self.hosts.is_replaced(&known.host)) {
            self.note_gone(run, GoneCause::Replaced);
            self.note_times(run);
        }
        for run in self.awaited_where(at, |known| known.gone.is_some()) {
            self.end_gone(run);
        }
    }

    /// Notes what the flags say at the address of a run's agent, once they are told.
    fn note_times(&mut self, run: RunAt) {
        let known = self.picture.run(run);
        let lacks = known.filter(|r| r.gone.as_ref().is_some_and(|g| g.times == AgentTimes::UNKNOWN));
        let Some(host) = lacks.map(|r| r.host.clone()) else {
            return;
        };
        let times = self.hosts.times_of_replaced(&host);
        if let Some(times) = times.filter(|times| *times != AgentTimes::UNKNOWN) {
            self.edit(run.0, |record| {
                if let Some(gone) = found(record, run).and_then(|known| known.gone.as_mut()) {
                    gone.times = times;
                }
            });
        }
    }

    /// Whether the agent at the address of a run's agent may still tell its flags to this leader.
    fn may_learn_times(&self, run: RunAt) -> bool {
        let known = self.picture.run(run);
        !self.hosts.has_listed() || known.is_some_and(|known| self.hosts.awaits_flags(&known.host))
    }

    fn awaited_where(&self, at: At, is_meant: impl Fn(&Run) -> bool) -> Vec<RunAt> {
        let record = self.picture.record(at);
        let runs = record.into_iter().flat_map(awaited).filter(|run| is_meant(run));
        runs.map(|run| (at, run.generation, run.number)).collect()
    }

    /// Ends a run whose agent is gone, or has it looked at when that is due.
    /// Nothing is due while the spec is not read, the cluster is not heard, or has not answered for the run in
    /// this leadership.
    fn end_gone(&mut self, run: RunAt) {
        let spec = self.picture.groups.get(&run.0.0).and_then(|g| g.spec.as_ref());
        let gone = self
            .picture
            .run(run)
            .and_then(|known| known.gone.as_deref())
            .copied();
        let (Some(spec), Some(gone), Some(observed)) = (spec, gone, self.observed()) else {
            return;
        };
        let Some(left) = gone.left(spec.on_gone, spec.kind, observed) else {
            return;
        };
        if left > Span::ZERO {
            self.picture.timers.insert((self.now.plus(left), run.0));
        } else if self.is_frozen() || self.reconcile.awaits_first(&run) {
            // Either has all of it looked at again when it is over.
        } else if gone.cause == GoneCause::Replaced && self.withholds()
            || gone.lacks_times(spec.on_gone) && self.may_learn_times(run)
        {
            self.picture.timers.insert((self.now.plus(LOOK_AGAIN), run.0));
        } else {
            let code = match gone.cause {
                GoneCause::Operator => ReasonCode::GoneByOperator,
                GoneCause::Replaced => ReasonCode::HostGone,
            };
            self.end_by_evidence(run, code);
        }
    }
}

/// The runs of an instance that nobody hears, or that were given up.
fn awaited(record: &InstanceRecord) -> impl Iterator<Item = &Run> {
    record
        .run
        .iter()
        .filter(|run| run.is_silent())
        .chain(&record.older)
}

fn names(known: &Run, run: RunAt) -> bool {
    (known.generation, known.number) == (run.1, run.2)
}

fn found(record: &mut InstanceRecord, run: RunAt) -> Option<&mut Run> {
    let mut all = record.run.iter_mut().chain(&mut record.older);
    all.find(|known| names(known, run))
}
