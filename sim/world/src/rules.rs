//! Jobs that end by rules of their own, and wait for others: drawn for users, and judged by what shards have stored of instances, not by
//! what the resource manager makes of it (invariants 18 and 19).

use crate::client::{Asked, User};
use crate::dice::Die;
use crate::invariants::Broken;
use crate::world::World;
use echelon_core_gateway::change::Wish;
use echelon_core_model::Amount;
use echelon_core_model::instance::Ended;
use echelon_core_model::job::{Desired, Head, JobState};
use echelon_core_model::rules::{After, Completion, Condition};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{GroupName, InstanceNumber, JobId, ReasonCode, TaskId};
use std::collections::BTreeSet;

/// Gives the job of the n-th user some rules. Who waits, waits for a job of an earlier user.
pub(crate) fn with_rules(mut spec: JobSpec, n: usize, die: &mut Die) -> JobSpec {
    if spec.kind == JobKind::Batch && die.chance(250) {
        spec.rules.completion = Completion::Successes(1 + die.below(spec.instances()));
    }
    if spec.kind == JobKind::Batch && die.chance(250) {
        spec.rules.max_failed = Some(if die.chance(500) {
            Amount::Count(u32::try_from(die.below(3)).unwrap_or(0))
        } else {
            Amount::Percent(25)
        });
    }
    if spec.gang.as_ref().is_some_and(|g| g.on_failure.is_of_all()) {
        spec.rules.max_failed = None;
    }
    if n > 0 && die.chance(200) {
        let condition = Condition::ALL.get(die.index(Condition::ALL.len()));
        spec.rules.after.push(After {
            job: format!("job{}", die.index(n)),
            id: None,
            condition: condition.copied().unwrap_or_default(),
        });
    }
    spec
}

/// Something of a job is launched before what the job waits for is met, or before that is stored.
pub(crate) fn launched_too_early(world: &World, task: &TaskId) -> Option<Broken> {
    let job = task.instance.job;
    let (_, spec) = world.head_and_spec(job)?;
    if spec.rules.after.is_empty() {
        return None;
    }
    let stored = world.progress(job).is_some_and(|p| p.released.is_some());
    let unmet = spec.rules.after.iter().find(|a| !world.was_met(a));
    let what = match (stored, unmet) {
        (true, None) => return None,
        (false, _) => format!("{task} is launched, and that {job} may begin is not stored"),
        (true, Some(a)) => format!("{task} is launched, and {} has not {}", a.job, a.condition),
    };
    Some(Broken { invariant: 19, what })
}

impl World {
    /// Whether a condition may have been met: of a job that was deleted since nobody can tell, nor of one that has begun once.
    fn was_met(&self, after: &After) -> bool {
        let Some(id) = after.id else { return false };
        let deleted = self.head(id).is_none_or(|h| h.goal.desired == Desired::Deleted);
        let state = self.progress(id).map(|p| p.state).unwrap_or_default();
        deleted
            || match after.condition {
                Condition::Succeeded => state == JobState::Succeeded,
                Condition::Ended => state.is_ended(),
                Condition::Started => true,
            }
    }

    /// Whether a job rightly waits for others: one of them may still come to what is wanted of it.
    pub(crate) fn waits_for_others(&self, spec: &JobSpec) -> bool {
        let state = |id| self.progress(id).map(|p| p.state).unwrap_or_default();
        spec.rules
            .after
            .iter()
            .filter_map(|a| Some((a, state(a.id?))))
            .any(|(a, state)| {
                let runs = state == JobState::Running && a.condition == Condition::Started;
                !state.is_ended() && !runs
            })
    }

    /// Whether a user's job could not be taken: what it waits for is deleted, or was never taken itself.
    pub(crate) fn awaits_nothing_that_is(&self, user: &User) -> bool {
        let named = |a: &After| self.users.0.iter().find(|u| u.spec.name == a.job);
        let is_gone = |u: &User| u.job.is_none() || u.acknowledged.contains(&Asked::Goal(Wish::Delete));
        user.spec.rules.after.iter().filter_map(named).any(is_gone)
    }

    /// What is wrong with the end of a job, or with that it has none, by its own rules.
    pub(crate) fn judge_rules(&self, job: JobId, head: &Head, state: JobState) -> Option<Broken> {
        let (_, spec) = self.head_and_spec(job)?;
        if spec.kind != JobKind::Batch {
            return None;
        }
        let (succeeded, failed) = (
            self.ended(job, &spec, Ended::Succeeded),
            self.ended(job, &spec, Ended::Failed),
        );
        let (of, rule) = (spec.counted(), head.verdict.as_ref().map(|v| v.reason.code));
        let needed = spec.rules.completion.needed(of);
        let enough = succeeded >= needed;
        let beyond_reach = spec.rules.completion != Completion::All && of.saturating_sub(failed) < needed;
        let too_many = spec.rules.max_failed.is_some_and(|m| failed > m.of_many(of)) || beyond_reach;
        let of_all = spec.gang.as_ref().is_some_and(|g| g.on_failure.is_of_all());
        let fallen = of_all && failed > 0;
        let wrong = match (state, rule) {
            (JobState::Succeeded, _) => !enough,
            (JobState::Failed, Some(ReasonCode::TooManyFailed)) => !too_many,
            (JobState::Failed, Some(ReasonCode::DependencyFailed)) => {
                spec.rules.after.iter().all(|a| self.has_succeeded(a))
            }
            (JobState::Failed, Some(ReasonCode::GangFailed)) => !fallen,
            (JobState::Running, _) => enough || too_many || fallen,
            _ => false,
        };
        wrong.then(|| Broken {
            invariant: 18,
            what: format!(
                "job {job} is {state} by {rule:?}, and of {of} instances {succeeded} succeeded and {failed} failed"
            ),
        })
    }

    fn has_succeeded(&self, after: &After) -> bool {
        let state = after.id.and_then(|id| self.progress(id)).map(|p| p.state);
        state == Some(JobState::Succeeded)
    }

    /// Instances of a job that ended so, as shards have stored it.
    fn ended(&self, job: JobId, spec: &JobSpec, how: Ended) -> u64 {
        let mut found: BTreeSet<(GroupName, InstanceNumber)> = BTreeSet::new();
        let groups = spec.groups.iter().filter(|g| !g.runs_for_ever(spec.kind));
        for (group, cluster) in groups.flat_map(|g| (0..self.clusters.len()).map(move |c| (g, c))) {
            let query = Query::GroupBlocks {
                cluster: self.cluster_id(cluster),
                job,
                group: group.name.clone(),
                first: 0,
                last: group.instances / echelon_core_model::bucket::BLOCK_SIZE,
            };
            if let Answer::Blocks(blocks, _) = self.store.read(&query) {
                let records = blocks.into_iter().flat_map(|b| b.instances);
                let ended = records.filter(|(_, r)| r.ended == Some(how));
                found.extend(ended.map(|(number, _)| (group.name.clone(), number)));
            }
        }
        found.len() as u64
    }
}
