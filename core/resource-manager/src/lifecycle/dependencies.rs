//! The dependencies of a job: other jobs that it waits for. As long as it waits it has no cluster and no
//! grant, so no shard gets orders about it. Once all of them are met, that is stored before anything follows
//! from it, and stays so whatever becomes of the other jobs later.

use crate::facts::FederationFacts;
use crate::facts::ended::has_begun;
use crate::facts::job::JobView;
use crate::facts::known::KnownProgress;
use crate::lifecycle::schedules::scheduled;
use echelon_core_model::job::{JobState, Waiting};
use echelon_core_model::rules::{After, Condition};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};
use std::collections::BTreeSet;

/// Most other jobs that a reason names.
const NAMED: usize = 3;

/// How a dependency stands to what is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stands {
    /// It has come to that.
    Met,
    /// It may still.
    Open,
    /// It never will.
    Failed,
}

/// How all dependencies of a job stand: the worst of them, and which one that is.
/// `gone` are jobs that are no longer in storage.
#[must_use]
pub fn stands<'a>(
    facts: &FederationFacts,
    gone: &BTreeSet<JobId>,
    spec: &'a JobSpec,
) -> (Stands, Option<&'a After>) {
    let each = spec.rules.after.iter().map(|a| (of_one(facts, gone, a), Some(a)));
    each.max_by_key(|(stands, _)| *stands)
        .unwrap_or((Stands::Met, None))
}

fn of_one(facts: &FederationFacts, gone: &BTreeSet<JobId>, after: &After) -> Stands {
    let Some(id) = after.id else {
        return Stands::Failed;
    };
    if let Some(ended) = facts.ended.get(&id) {
        return came_to(ended.state, ended.begun, after.condition);
    }
    match facts.jobs.get(&id) {
        // A record that went is the end of a deleted job, and what it came to is not known any more.
        None if gone.contains(&id) => came_to(JobState::Deleted, false, after.condition),
        None => Stands::Open,
        Some(job) => {
            let state = state_of(job);
            let counts = job.progress.as_ref().map(KnownProgress::counts);
            came_to(state, counts.is_some_and(has_begun), after.condition)
        }
    }
}

fn state_of(job: &JobView) -> JobState {
    job.progress
        .as_ref()
        .map(KnownProgress::state)
        .unwrap_or_default()
}

/// What a state means for a condition; of an ended job also whether anything of it had begun.
const fn came_to(state: JobState, begun: bool, condition: Condition) -> Stands {
    match (condition, state) {
        (_, JobState::Succeeded)
        | (Condition::Started, JobState::Running)
        | (Condition::Ended, JobState::Failed | JobState::Stopped | JobState::Deleted) => Stands::Met,
        (_, JobState::Waiting | JobState::Running | JobState::Stopping) => Stands::Open,
        (Condition::Started, JobState::Failed | JobState::Stopped) if begun => Stands::Met,
        (_, JobState::Failed | JobState::Stopped | JobState::Deleted) => Stands::Failed,
    }
}

/// Why all instances of a job wait that is not released.
pub fn waiting(facts: &FederationFacts, job: &JobView, now: Timestamp) -> Vec<Waiting> {
    let Some(spec) = job.spec.as_deref().filter(|_| job.is_held()) else {
        return Vec::new();
    };
    if spec.is_template() {
        return scheduled(job, spec, now);
    }
    let nobody = BTreeSet::new();
    let open = spec
        .rules
        .after
        .iter()
        .filter(|a| of_one(facts, &nobody, a) != Stands::Met);
    let words: Vec<String> = open.take(NAMED).map(|a| told(facts, a)).collect();
    let reason = Reason::new(ReasonCode::AfterJob).at(words.join("; "));
    all_waiting(spec, &reason, now)
}

/// All instances of a spec wait for the same.
pub(crate) fn all_waiting(spec: &JobSpec, reason: &Reason, now: Timestamp) -> Vec<Waiting> {
    let of_group = |(name, count): (_, u32)| Waiting {
        group: name,
        cluster: None,
        reason: reason.clone(),
        count: count.into(),
        since: now,
    };
    let groups = spec.groups.iter().filter(|g| g.instances > 0);
    groups.map(|g| of_group((g.name.clone(), g.instances))).collect()
}

/// A dependency as text.
pub(crate) fn told(facts: &FederationFacts, after: &After) -> String {
    let job = after.id.and_then(|id| facts.jobs.get(&id));
    let ended = after.id.and_then(|id| facts.ended.get(&id));
    let state = job.map(state_of).or(ended.map(|e| e.state));
    let state = state.map_or("gone", JobState::word);
    format!("{} is {state}, must have {}", after.job, after.condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_says_whether_a_condition_is_met_may_be_or_never_will() {
        use Condition::{Ended, Started, Succeeded};
        use Stands::{Failed, Met, Open};
        let table = [
            (JobState::Waiting, false, [Open, Open, Open]),
            (JobState::Running, true, [Open, Open, Met]),
            (JobState::Stopping, true, [Open, Open, Open]),
            (JobState::Succeeded, true, [Met, Met, Met]),
            (JobState::Failed, true, [Failed, Met, Met]),
            (JobState::Failed, false, [Failed, Met, Failed]),
            (JobState::Stopped, true, [Failed, Met, Met]),
            (JobState::Stopped, false, [Failed, Met, Failed]),
            (JobState::Deleted, true, [Failed, Met, Failed]),
        ];
        for (state, begun, expected) in table {
            let said = [Succeeded, Ended, Started].map(|c| came_to(state, begun, c));
            assert_eq!(said, expected, "{state}, begun: {begun}");
        }
    }
}
