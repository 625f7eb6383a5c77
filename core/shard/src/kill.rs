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
    tries: BTreeMap<Target, u32>,
}

impl Kills {
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Begins to kill, unless that has begun.
    pub(crate) fn start(&mut self, target: Target, now: Timestamp) {
        if !self.tries.contains_key(&target) {
            self.tries.insert(target.clone(), 0);
            self.due.insert((now, target));
        }
    }

    fn again(&mut self, target: Target, first: Span, now: Timestamp) {
        let tries = self.tries.entry(target.clone()).or_default();
        let wait = first.0.saturating_mul(1 << (*tries).min(8)).min(LONGEST.0);
        *tries = tries.saturating_add(1);
        self.due.insert((now.plus(Span(wait)), target));
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
        if !self.may_act() || !self.contact.subscribed {
            return;
        }
        while self.kills.next_due().is_some_and(|at| at <= self.now)
            && self.paces.take(Action::Kill, self.now)
            && let Some((_, target)) = self.kills.due.pop_first()
        {
            match self.kill_of(&target) {
                Some(call) => {
                    self.out.push(Effect::Cluster(call));
                    let first = self.config.timing.kill_retry;
                    self.kills.again(target, first, self.now);
                }
                None => {
                    self.kills.tries.remove(&target);
                }
            }
        }
    }

    /// The call that kills a target, if it is still to be killed.
    fn kill_of(&self, target: &Target) -> Option<Call> {
        match target {
            Target::Run(at) => {
                let run = self.picture.run(*at).filter(|r| r.state == RunState::Stopping)?;
                let wish = run.stopping.as_ref()?;
                Some(kill(
                    self.picture.task(*at)?.to_string(),
                    Some(run.host.clone()),
                    wish.grace,
                ))
            }
            Target::Stranger(task) => {
                let host = self.strangers.condemned(task)?;
                Some(kill(task.to_string(), host.clone(), defaults::GRACE))
            }
        }
    }
}

const fn kill(task: String, host: Option<HostId>, grace: Span) -> Call {
    Call::Kill { task, host, grace }
}
