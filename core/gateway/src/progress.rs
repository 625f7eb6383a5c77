//! What became of a job, for people: as it is stored, else as the resource manager's leader says.
//! Nothing is stored of a job that only waits.

use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use crate::view::Federation;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, Head, Progress, Waiting};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{JobId, Reason, ReasonCode, RunState, Timestamp};
use std::collections::BTreeMap;

/// What is known of a job's progress.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgressAnswer {
    /// It is stored, or the leader says it.
    Said(Box<Progress>),
    /// Nothing is stored, and the leader has not seen the job.
    Unseen,
    /// Nothing is stored, and no leader answered.
    NoAnswer,
}

/// What is known of one job's progress.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn of_job<F: Facts>(facts: &F, job: JobId) -> Result<ProgressAnswer, ApiError> {
    if let Some(stored) = ask::progress(facts, job).await? {
        return Ok(ProgressAnswer::Said(Box::new(stored)));
    }
    let Some(said) = facts.unstored(vec![job]).await else {
        return Ok(ProgressAnswer::NoAnswer);
    };
    let of_job = said.into_iter().find(|p| p.job == job).map(Box::new);
    Ok(of_job.map_or(ProgressAnswer::Unseen, ProgressAnswer::Said))
}

/// What the leader says of the jobs of a page of which nothing is stored. While no leader answers these jobs are
/// shown without any progress.
pub async fn of_page<F: Facts>(facts: &F, jobs: Vec<JobId>) -> BTreeMap<JobId, Progress> {
    if jobs.is_empty() {
        return BTreeMap::new();
    }
    match facts.unstored(jobs).await {
        Some(said) => said.into_iter().map(|row| (row.job, row)).collect(),
        None => BTreeMap::new(),
    }
}

impl ProgressAnswer {
    /// What is shown. A job of which nothing is said waits, and nothing of it is bound.
    #[must_use]
    pub fn shown(
        self,
        head: &Head,
        spec: Option<&JobSpec>,
        federation: &Federation,
        now: Timestamp,
    ) -> Progress {
        let no_answer = match self {
            Self::Said(progress) => return *progress,
            Self::Unseen => None,
            Self::NoAnswer => Some(now),
        };
        let made = head.job.created_at();
        let unheard = federation.no_manager_since(now).or(no_answer);
        let (reason, since) = match unheard {
            Some(since) => (Reason::new(ReasonCode::NoResourceManager), since.max(made)),
            None => (Reason::new(ReasonCode::Accepted), made),
        };
        let is_wanted = head.goal.desired == Desired::Running;
        let groups = spec.into_iter().flat_map(|spec| &spec.groups);
        let groups = groups.filter(|group| is_wanted && group.instances > 0);
        let pending = |group: &GroupSpec| {
            let mut counts = Counts::default();
            counts.add(RunState::Pending, group.instances.into());
            (group.name.clone(), counts)
        };
        let waits = |group: &GroupSpec| Waiting {
            group: group.name.clone(),
            cluster: None,
            reason: reason.clone(),
            count: group.instances.into(),
            since,
        };
        Progress {
            groups: groups.clone().map(pending).collect(),
            waiting: groups.map(waits).collect(),
            ..Progress::waiting(head.job, made)
        }
    }
}
