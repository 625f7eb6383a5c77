//! No act of ours makes more of a service unavailable than its `max_unavailable` allows, over all clusters.
//! It is judged when a run is told to end that serves and is to be followed by another one.

use super::disruption::EndCause;
use super::history::RunRecord;
use crate::client::Asked;
use crate::world::World;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{InstanceId, JobId, Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that is judged here.
const INVARIANT: u8 = 31;
/// At the latest after this time the loss of a host is known: the time that Mesos gives to agents, and 15 s.
const MISSED_AFTER: Span = Span::seconds(75 + 15);

impl World {
    /// How many instances a user wants, at least, of all that it has asked for.
    fn fewest_wanted(&self, job: JobId) -> u32 {
        let Some((user, of)) = self.user_of(job) else {
            return 0;
        };
        let first = of.spec.groups.first().map_or(0, |group| group.instances);
        let asks = self.federation.asks.iter().filter(|ask| ask.user == user);
        let counts = asks.filter_map(|ask| match ask.asked {
            Asked::Scale(count) => Some(count),
            Asked::Goal(_) => Some(0),
            _ => None,
        });
        counts.min().map_or(first, |least| least.min(first))
    }

    /// Whether others may know by now that a run serves no more. What a fault has taken is missed only then;
    /// what we stop is missed at once.
    fn is_known_of(&self, of: (&TaskId, &RunRecord)) -> bool {
        let (task, run) = of;
        let is_ours = run.killed.is_some() || self.federation.runs.serves(task);
        is_ours
            || run
                .ended
                .is_none_or(|ended| self.now.since(ended) >= MISSED_AFTER)
    }

    /// A run is told to end, for this cause.
    pub(super) fn judge_availability(&mut self, task: &TaskId, cause: EndCause) {
        if let Some(what) = self.missing_too_many(task, cause) {
            self.break_rule(INVARIANT, what);
        }
    }

    /// A run is told to end by a restart, or since its instance is one too many. It was a restart if the instance
    /// begins again.
    pub(super) fn judge_doubtful_stop(&mut self, task: &TaskId) {
        if let Some(what) = self.missing_too_many(task, EndCause::Restarted) {
            self.federation.doubtful.insert(task.instance.clone(), what);
        }
        self.federation.withdrawn.insert(task.instance.clone());
    }

    /// An instance begins. If it was taken for one too many, it was not.
    pub(super) fn judge_begun_again(&mut self, instance: &InstanceId) {
        self.federation.withdrawn.remove(instance);
        if let Some(what) = self.federation.doubtful.remove(instance) {
            self.break_rule(INVARIANT, what);
        }
    }

    /// What is wrong with ending a run for a cause, if more are unavailable by it than may be.
    fn missing_too_many(&mut self, task: &TaskId, cause: EndCause) -> Option<String> {
        let is_voluntary = matches!(cause, EndCause::Restarted | EndCause::Drained);
        let runs = &self.federation.runs;
        let (_, user) = self.user_of(task.instance.job)?;
        // What did not serve is no loss.
        if !is_voluntary || user.spec.kind != JobKind::Service || !runs.serves(task) {
            return None;
        }
        let group = user.spec.groups.first()?;
        let wanted = self.fewest_wanted(task.instance.job);
        let of_job = |instance: &InstanceId| instance.job == task.instance.job;
        let serving: BTreeSet<&InstanceId> = runs
            .live()
            .filter(|(other, _)| *other != task && runs.serves(other))
            .map(|(other, _)| &other.instance)
            .filter(|instance| of_job(instance))
            .collect();
        // Another run of it serves: this one was replaced.
        if serving.contains(&task.instance) {
            return None;
        }
        // An instance that has never run is not made unavailable by anything.
        let mut last: BTreeMap<&InstanceId, (&TaskId, &RunRecord)> = BTreeMap::new();
        for (other, run) in runs
            .of_job(task.instance.job)
            .filter(|(_, run)| run.ran.is_some())
        {
            let newest = last.entry(&other.instance).or_insert((other, run));
            if run.began >= newest.1.began {
                *newest = (other, run);
            }
        }
        let has_run: BTreeSet<&InstanceId> = last
            .into_iter()
            .filter(|(instance, of)| self.is_known_of(*of) && !self.federation.withdrawn.contains(*instance))
            .map(|(instance, _)| instance)
            .collect();
        let most = group.most_unavailable(wanted);
        let expected = has_run.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let down = expected.saturating_sub(serving.len());
        let is_broken = u32::try_from(down).unwrap_or(u32::MAX) > most;
        let missing = has_run.difference(&serving).map(ToString::to_string);
        let missing: Vec<String> = missing.collect();
        let what = format!(
            "{task} is stopped ({cause:?}), which makes {down} of {wanted} unavailable, of at most {most}: {missing:?}"
        );
        self.federation.figures.voluntary += 1;
        is_broken.then_some(what)
    }
}
