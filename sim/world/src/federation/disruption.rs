//! Bounded disruption: each run that did not end by itself has a cause in the world. Either its host, the
//! Mesos or the site of its cluster was taken; or its user asked for it; or an operator wants the cluster
//! empty; or the time has come after which its job lets it be replaced elsewhere, so that it is stopped on
//! return; or it belongs to a gang of which another run ended for one of these.

use super::DesiredSpan;
use super::history::RunRecord;
use crate::client::{Asked, User};
use crate::world::World;
use echelon_core_gateway::change::Wish;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::{JobId, MemberId, Span, TaskId};

/// The invariant that is judged here.
const INVARIANT: u8 = 30;
/// What was asked for last before a run began may still end it so long after: the request was under way.
const UNDER_WAY: Span = Span::seconds(60);
/// A stop that was ordered for a drain may leave so long after the drain has ended.
const AFTER_DRAIN: Span = Span::seconds(30);
/// What was replaced is stopped within this time of its cluster's return.
pub(super) const SETTLED_WITHIN: Span = Span::seconds(120);
/// The runs of a gang end within this time of each other.
const WITH_GANG: Span = Span::seconds(120);
/// A process runs as much shorter than it should, as agents tell time.
const ABOUT: Span = Span::millis(250);

/// Why a run did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Its host was away, or is just back.
    Host,
    /// Its user ended its job.
    Asked,
    /// Its user asked for fewer instances, and this is one of those that are too many.
    Withdrawn,
    /// Its user asked for fresh runs.
    Restarted,
    /// An operator wants the cluster empty.
    Drained,
    /// It was replaced elsewhere, or may be.
    Replaced,
    /// Another run of its gang ended.
    Gang,
    /// It was being launched when its instance was asked back to begin elsewhere.
    SentOn,
}

impl World {
    /// The user of a job.
    pub(super) fn user_of(&self, job: JobId) -> Option<(usize, &User)> {
        let mut users = self.users.0.iter().enumerate();
        users.find(|(_, user)| user.job == Some(job))
    }

    /// A call that ends a task has reached a master.
    pub(crate) fn judge_stop(&mut self, task: &str) {
        if !self.federation.is_federated {
            return;
        }
        let Ok(MemberId {
            run: task,
            sidecar: None,
        }) = task.parse()
        else {
            return;
        };
        let runs = &self.federation.runs;
        let Some(run) = runs
            .get(&task)
            .filter(|run| run.ended.is_none() && run.killed.is_none())
        else {
            return;
        };
        let cause = self.end_cause(&task, run);
        match cause {
            Some(EndCause::Withdrawn) => {
                self.federation.withdrawn.insert(task.instance.clone());
            }
            Some(EndCause::Restarted) if self.may_be_withdrawn(&task, run) => self.judge_doubtful_stop(&task),
            Some(cause) => self.judge_availability(&task, cause),
            None => {
                let what = format!("{task} at c{} is stopped without a cause", run.cluster);
                self.break_rule(INVARIANT, what);
            }
        }
        self.note_disrupted(&task);
        let now = self.now;
        if let Some(run) = self.federation.runs.get_mut(&task) {
            run.killed = Some(now);
        }
    }

    fn note_disrupted(&mut self, task: &TaskId) {
        self.federation.figures.disrupted += 1;
        if let Some(run) = self.federation.runs.get_mut(task) {
            run.is_disrupted = true;
        }
    }

    /// A run has no process any more.
    pub(super) fn judge_gone(&mut self, task: &TaskId) {
        let Some(run) = self.federation.runs.get(task) else {
            return;
        };
        if run.killed.is_some() || self.ended_by_itself(task, run) {
            return;
        }
        if !self.facts.excused(&run.agent, self.now) {
            let what = format!("{task} at c{} is gone without a cause", run.cluster);
            self.break_rule(INVARIANT, what);
        }
        self.note_disrupted(task);
    }

    /// Whether a run has come to its own end: a batch job's process has run for as long as it says.
    pub(super) fn ended_by_itself(&self, task: &TaskId, run: &RunRecord) -> bool {
        let (Some(ran), Some(ended)) = (run.ran, run.ended) else {
            return false;
        };
        let runtime = self.user_of(task.instance.job).and_then(|(_, user)| {
            let env = &user.spec.groups.first()?.runtime.env;
            env.get("SIM_RUNTIME_MS")?.parse::<u64>().ok()
        });
        runtime.is_some_and(|runtime| ended.since(ran).0.saturating_add(ABOUT.0) >= runtime)
    }

    /// Why something ends a run now.
    fn end_cause(&self, task: &TaskId, run: &RunRecord) -> Option<EndCause> {
        if self.facts.excused(&run.agent, self.now) {
            return Some(EndCause::Host);
        }
        if self.is_replaceable(task, run) {
            return Some(EndCause::Replaced);
        }
        if self.federation.desired.iter().any(|span| self.empties(span, run)) {
            return Some(EndCause::Drained);
        }
        if let Some(cause) = self.asked_end(task, run) {
            return Some(cause);
        }
        // What could not begin for ten seconds goes elsewhere. The order may cross its launch.
        if run.ran.is_none() {
            return Some(EndCause::SentOn);
        }
        self.is_of_broken_gang(task).then_some(EndCause::Gang)
    }

    fn asked_end(&self, task: &TaskId, run: &RunRecord) -> Option<EndCause> {
        let (user, _) = self.user_of(task.instance.job)?;
        let asks = self.federation.asks.iter().filter(|ask| ask.user == user);
        let mut asks = asks.filter(|ask| run.began <= ask.repeated_at.plus(UNDER_WAY));
        asks.find_map(|ask| match ask.asked {
            Asked::Goal(Wish::Stop | Wish::Delete) => Some(EndCause::Asked),
            Asked::Scale(count) => self.is_too_many(task, count).then_some(EndCause::Withdrawn),
            Asked::Restart(_) => Some(EndCause::Restarted),
            _ => None,
        })
    }

    /// Whether a run may also be ended since its user asked for fewer instances.
    fn may_be_withdrawn(&self, task: &TaskId, run: &RunRecord) -> bool {
        let user = self.user_of(task.instance.job).map(|(user, _)| user);
        let asks = self.federation.asks.iter().filter(|ask| Some(ask.user) == user);
        let mut asks = asks.filter(|ask| run.began <= ask.repeated_at.plus(UNDER_WAY));
        asks.any(|ask| matches!(ask.asked, Asked::Scale(count) if self.is_too_many(task, count)))
    }

    /// Whether an instance may be one of those that a job has too many, since it is to have so many. Any of
    /// them may be withdrawn, but no more than that.
    fn is_too_many(&self, task: &TaskId, count: u32) -> bool {
        let withdrawn = self.federation.withdrawn.iter();
        let withdrawn = withdrawn.filter(|one| one.job == task.instance.job && **one != task.instance);
        let first = self
            .user_of(task.instance.job)
            .map_or(0, |(_, user)| user.spec.instances());
        let others = u64::try_from(withdrawn.count()).unwrap_or(u64::MAX);
        others.saturating_add(u64::from(count)) < first
    }

    /// Whether an operator wants the cluster of a run empty, or did a moment ago.
    fn empties(&self, span: &DesiredSpan, run: &RunRecord) -> bool {
        let lasts = span.until.is_none_or(|until| self.now.since(until) < AFTER_DRAIN);
        span.cluster == run.cluster && span.desired.moves_work_off() && lasts
    }

    /// Whether the cluster of a run is lost to its job, or was, and a replacement may have begun.
    fn is_replaceable(&self, task: &TaskId, run: &RunRecord) -> bool {
        self.user_of(task.instance.job)
            .is_some_and(|(_, user)| match user.spec.on_cluster_loss {
                OnSilence::Replace(after) => self.was_lost_for(run.cluster, after),
                OnSilence::Wait => false,
            })
    }

    /// Whether a cluster has been silent for so long, and is not back for long.
    pub(crate) fn was_lost_for(&self, cluster: usize, after: Span) -> bool {
        let course = self.federation.courses.get(cluster);
        course.is_some_and(|course| course.was_silent_for(after, SETTLED_WITHIN, self.now))
    }

    /// Whether a run belongs to a gang of which another run did not end by itself a short while ago.
    fn is_of_broken_gang(&self, task: &TaskId) -> bool {
        let gang = self.user_of(task.instance.job);
        if !gang.is_some_and(|(_, user)| user.spec.gang.is_some() && user.spec.kind == JobKind::Batch) {
            return false;
        }
        let mut runs = self.federation.runs.of_job(task.instance.job);
        runs.any(|(other, run)| {
            let at = run.killed.into_iter().chain(run.ended).min();
            let is_recent = at.is_some_and(|at| self.now.since(at) < WITH_GANG);
            other != task && run.is_disrupted && is_recent
        })
    }
}
