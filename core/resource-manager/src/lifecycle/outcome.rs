//! Whether a job has ended, and how.

use crate::facts::FederationFacts;
use crate::facts::group_reports::has_confirmed;
use crate::facts::job::JobView;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{ClusterId, JobId, RangeSet, Reason, ReasonCode};

/// How a job would end now, before its head is confirmed; `None` while it goes on.
#[must_use]
pub fn outcome(facts: &FederationFacts, id: JobId, job: &JobView) -> Option<(JobState, Reason)> {
    let desired = job.desired();
    let verdict = job.head.as_ref().and_then(|h| h.rare.verdict.as_deref());
    let verdict = verdict.filter(|_| desired == Desired::Stopped);
    if desired != Desired::Deleted
        && verdict.is_none()
        && let Some(state) = completed(facts, id, job)
    {
        let code = match state {
            JobState::Succeeded => ReasonCode::Succeeded,
            _ => ReasonCode::RetriesExhausted,
        };
        return Some((state, Reason::new(code)));
    }
    if desired == Desired::Running
        || !awaited(facts, id, job).is_empty()
        || (job.durable != job.decided && !job.is_refused())
    {
        return None;
    }
    Some(match (desired, verdict) {
        (Desired::Deleted, _) => (JobState::Deleted, Reason::new(ReasonCode::DeleteRequested)),
        (_, Some(verdict)) => (verdict.state, verdict.reason.clone()),
        (_, None) => (JobState::Stopped, Reason::new(ReasonCode::StopRequested)),
    })
}

/// Clusters that have not confirmed a stop or delete.
#[must_use]
pub fn awaited(facts: &FederationFacts, id: JobId, job: &JobView) -> Vec<ClusterId> {
    if job.desired() == Desired::Running {
        return Vec::new();
    }
    let holders = job.durable.holders.keys();
    holders
        .filter(|c| !has_confirmed(facts, id, job, c))
        .cloned()
        .collect()
}

/// Whether every instance of a batch job has met its goal or given up, as every holder reports.
fn completed(facts: &FederationFacts, id: JobId, job: &JobView) -> Option<JobState> {
    let spec = job.spec.as_deref().filter(|s| s.kind == JobKind::Batch)?;
    let settled = job.durable == job.decided && job.next_head.is_none();
    if !settled || spec.instances() == 0 {
        return None;
    }
    let mut succeeded = 0;
    for group in &spec.groups {
        if job.durable.assigned(&group.name).count() != u64::from(group.instances) {
            return None;
        }
    }
    for (key, ranges) in &job.slices() {
        let report = facts.report(id, key)?;
        let assigned: RangeSet = ranges.iter().map(|r| r.range).collect();
        let ended = report.succeeded + report.failed;
        let leaving = ranges.iter().any(|r| r.releasing.is_some());
        // What was stopped has neither met its goal nor given up.
        if leaving
            || report.stopped > 0
            || report.held != assigned
            || ended != assigned.count()
            || report.live > 0
        {
            return None;
        }
        if spec.group(&key.group).is_some_and(|g| spec.waits_for(g)) {
            succeeded += report.succeeded;
        }
    }
    Some(if succeeded >= spec.rules.completion.needed(spec.counted()) {
        JobState::Succeeded
    } else {
        JobState::Failed
    })
}
