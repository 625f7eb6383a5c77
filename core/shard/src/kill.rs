//! Kills: sent only for runs whose wish to end is durable, or for strangers that the rule of evidence condemns; repeated with
//! backoff until the cluster says that they are dead (Mesos rule R88), at a bounded rate (law 8).

use crate::Shard;
use crate::effects::Then;
use crate::event::Effect;
use crate::pace::Action;
use crate::picture::{At, RunAt};
use echelon_core_hosts::Call;
use echelon_core_jobs::stop_run;
use echelon_core_model::instance::Run;
use echelon_core_model::spec::{GroupSpec, defaults};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, InstanceNumber, Reason, RunState, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// So long a stop waits for the job's spec, which says how much time its runs have to end.
const SPEC_PATIENCE: Span = Span::seconds(30);
/// The longest grace that a spec may ask for: what a run has whose spec cannot be read.
const LONGEST_GRACE: Span = Span::minutes(24 * 60);
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

    /// Sends the first kill of a target at another moment.
    fn postpone(&mut self, target: &Target, at: Timestamp) {
        if let Some((0, due)) = self.tries.get_mut(target) {
            self.due.remove(&(*due, target.clone()));
            *due = at;
            self.due.insert((at, target.clone()));
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
    /// Marks the latest run as stopping, and kills it once that is durable. While its grace is not known nothing is marked: it is looked
    /// at again when the spec is read, or has been awaited for too long.
    pub(crate) fn stop(&mut self, at: At, reason: Reason) {
        let now = self.now;
        let Some(grace) = self.grace(at) else {
            self.picture.timers.insert((self.spec_due(at.0), at));
            return;
        };
        let stopped = self.edit(at, |r| stop_run(r, reason, grace, now));
        let run = self.picture.record(at).and_then(|r| r.run.as_ref());
        let run = run.map(|r| (at, r.generation, r.number));
        if let (Some(true), Some(run)) = (stopped, run) {
            self.kill_when_stored(run);
        }
    }

    /// Until when a stop waits for a group's spec.
    fn spec_due(&self, number: u32) -> Timestamp {
        let group = self.picture.groups.get(&number);
        group.map_or(self.now, |g| g.spec_since.plus(SPEC_PATIENCE))
    }

    /// What says how an instance ends: its group in the spec in force, or else in the one that its run was made of; `None`: neither is
    /// read.
    fn ending_spec(&self, at: At) -> Option<&GroupSpec> {
        let group = self.picture.groups.get(&at.0)?;
        group.group_spec().or_else(|| {
            let run = group.record(at.1)?.run.as_ref()?;
            let spec = self.picture.specs.get(&(group.job(), run.spec_version))?;
            spec.group(group.name())
        })
    }

    /// From SIGTERM to SIGKILL for an instance; `None` while that is not known. When it was awaited for too long it is the longest.
    pub(crate) fn grace(&self, at: At) -> Option<Span> {
        let known = self.ending_spec(at).map(|s| s.grace);
        known.or_else(|| (self.now >= self.spec_due(at.0)).then_some(LONGEST_GRACE))
    }

    /// When a stopping run gets its first kill. Clients that found it among the endpoints are given time to
    /// leave. How much time follows from the spec, which is awaited for a while if it is not read.
    pub(crate) fn kill_at(&self, run: RunAt) -> Timestamp {
        let found = self.picture.run(run).filter(|r| r.available_at.is_some());
        let Some(stopping) = found.and_then(|r| r.stopping.as_ref()) else {
            return self.now;
        };
        let drained = match self.ending_spec(run.0) {
            Some(spec) => self.picture.pause.due(stopping.since, spec.drain, self.now),
            None => self.spec_due(run.0.0),
        };
        drained.max(self.now)
    }

    /// The spec of a group is read: first kills come when it says, and runs that were given up are asked about, which may have been
    /// found alive while it was not known how to end them.
    pub(crate) fn end_by_spec(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let at = |n: InstanceNumber, run: &Run| ((number, n), run.generation, run.number);
        let mut stopping: Vec<RunAt> = Vec::new();
        let mut lost: Vec<RunAt> = Vec::new();
        for (n, record) in group.records() {
            let latest = record.run.iter().filter(|r| r.state == RunState::Stopping);
            stopping.extend(latest.map(|run| at(n, run)));
            let older = record.older.iter().filter(|r| r.state == RunState::Lost);
            lost.extend(older.map(|run| at(n, run)));
        }
        for run in stopping {
            let at = self.kill_at(run);
            self.kills.postpone(&Target::Run(run), at);
        }
        lost.into_iter().for_each(|run| self.reconcile_soon(run));
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
                let grace = self.grace_aside(task).unwrap_or(defaults::GRACE);
                let all = members.iter();
                all.map(|m| kill(m.to_string(), host.clone(), grace)).collect()
            }
        }
    }

    fn kills_of_run(&self, at: RunAt) -> Option<Vec<Call>> {
        let run = self.picture.run(at).filter(|r| r.state == RunState::Stopping)?;
        let wished = run.stopping.as_ref().map(|wish| wish.grace);
        // A member has brought its pod's end.
        let grace = wished.or_else(|| {
            run.ending.as_ref()?;
            Some(self.grace(at.0).unwrap_or(LONGEST_GRACE))
        })?;
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
