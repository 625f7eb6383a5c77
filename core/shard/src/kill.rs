//! Kills: sent only for runs whose wish to end is durable, or for strangers that the rule of evidence condemns; repeated with
//! backoff until the cluster says that they are dead (Mesos rule R88), at a bounded rate (law 8).

use crate::Shard;
use crate::effects::Then;
use crate::event::Effect;
use crate::pace::Action;
use crate::picture::{At, RunAt};
use echelon_core_hosts::Call;
use echelon_core_jobs::stop_run;
use echelon_core_model::spec::defaults;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Reason, RunState, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Longest wait between two kills of one task.
const LONGEST: Span = Span::minutes(1);

/// Whom to kill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A run that is stored as stopping.
    Run(RunAt),
    /// A task without a run, condemned by evidence.
    Stranger(TaskId),
}

/// Kills that are due, and how often each was sent.
#[derive(Debug, Default)]
pub(crate) struct Kills {
    due: BTreeSet<(Timestamp, Target)>,
    /// How often, and when next.
    tries: BTreeMap<Target, (u32, Timestamp)>,
}

impl Kills {
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// All that is to be killed.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.tries.keys()
    }

    /// Begins to kill at a moment, unless that has begun.
    pub(crate) fn start(&mut self, target: Target, at: Timestamp) {
        if !self.tries.contains_key(&target) {
            self.tries.insert(target.clone(), (0, at));
            self.due.insert((at, target));
        }
    }

    /// Forgets how often a target was killed: something else of it is to be killed now.
    pub(crate) fn restart(&mut self, target: &Target) {
        if let Some((_, due)) = self.tries.remove(target) {
            self.due.remove(&(due, target.clone()));
        }
    }

    fn again(&mut self, target: Target, first: Span, now: Timestamp) {
        let (tries, due) = self.tries.entry(target.clone()).or_default();
        let wait = first.0.saturating_mul(1 << (*tries).min(8)).min(LONGEST.0);
        *tries = tries.saturating_add(1);
        *due = now.plus(Span(wait));
        self.due.insert((*due, target));
    }
}

impl Shard {
    /// Marks the latest run as stopping, and kills it once that is durable.
    pub(crate) fn stop(&mut self, at: At, reason: Reason) {
        let (grace, now) = (self.grace(at.0), self.now);
        let stopped = self.edit(at, |r| stop_run(r, reason, grace, now));
        let run = self.picture.record(at).and_then(|r| r.run.as_ref());
        let run = run.map(|r| (at, r.generation, r.number));
        if let (Some(true), Some(run)) = (stopped, run) {
            self.kill_when_stored(run);
        }
    }

    /// From SIGTERM to SIGKILL for a group.
    pub(crate) fn grace(&self, group: u32) -> Span {
        let group = self.picture.groups.get(&group);
        group
            .and_then(|g| g.group_spec())
            .map_or(defaults::GRACE, |s| s.grace)
    }

    /// When a stopping run gets its first kill: who found it among the endpoints is given time to leave.
    pub(crate) fn kill_at(&self, run: RunAt) -> Timestamp {
        let group = self.picture.groups.get(&run.0.0);
        let drain = group.and_then(|g| g.group_spec()).map_or(Span::ZERO, |s| s.drain);
        let found = self.picture.run(run).filter(|r| r.available_at.is_some());
        let since = found.and_then(|r| r.stopping.as_ref()).map(|s| s.since);
        since.map_or(self.now, |since| since.plus(drain).max(self.now))
    }

    /// Kills a stopping run as soon as everything written about its instance is durable.
    pub(crate) fn kill_when_stored(&mut self, run: RunAt) {
        let (at, ..) = run;
        let Some(lane) = self.picture.groups.get_mut(&at.0).map(|g| g.cell(at.1).lane) else {
            return;
        };
        let point = self.journal.point(lane);
        self.journal.when_durable([point], Then::Kill(run));
    }

    /// Sends the kills that are due, as many as may be sent now.
    pub(crate) fn send_kills(&mut self) {
        if !self.may_act() || !self.contact.subscribed || !self.may_kill() {
            return;
        }
        while self.kills.next_due().is_some_and(|at| at <= self.now)
            && self.paces.take(Action::Kill, self.now)
            && let Some((_, target)) = self.kills.due.pop_first()
        {
            let calls = self.kills_of(&target);
            if calls.is_empty() {
                self.kills.tries.remove(&target);
                continue;
            }
            self.paces.spend(Action::Kill, calls.len() - 1);
            self.out.extend(calls.into_iter().map(Effect::Cluster));
            let first = self.config.timing.kill_retry;
            self.kills.again(target, first, self.now);
        }
    }

    /// The calls that kill a target, if it is still to be killed. Of a pod the main task is killed first, and its executor kills
    /// the others when that is dead (R83), so that they see its end; by themselves only where it is dead already.
    fn kills_of(&self, target: &Target) -> Vec<Call> {
        match target {
            Target::Run(at) => self.kills_of_run(*at).unwrap_or_default(),
            Target::Stranger(task) => {
                let Some((host, members)) = self.strangers.condemned(task) else {
                    return Vec::new();
                };
                let all = members.iter();
                all.map(|m| kill(m.to_string(), host.clone(), defaults::GRACE))
                    .collect()
            }
        }
    }

    fn kills_of_run(&self, at: RunAt) -> Option<Vec<Call>> {
        let run = self.picture.run(at).filter(|r| r.state == RunState::Stopping)?;
        let wished = run.stopping.as_ref().map(|wish| wish.grace);
        // A member has brought its pod's end.
        let grace = wished.or_else(|| run.ending.as_ref().map(|_| self.grace(at.0.0)))?;
        let tasks = run.tasks(self.picture.task(at)?.instance);
        let main = tasks.iter().any(|t| t.sidecar.is_none());
        let first = tasks.into_iter().filter(|t| !main || t.sidecar.is_none());
        Some(
            first
                .map(|t| kill(t.to_string(), Some(run.host.clone()), grace))
                .collect(),
        )
    }
}

const fn kill(task: String, host: Option<HostId>, grace: Span) -> Call {
    Call::Kill { task, host, grace }
}
