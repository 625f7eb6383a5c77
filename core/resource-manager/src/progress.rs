//! What became of a job: its counts, why instances wait, and whether it has ended. A job ends only on what every holder has said,
//! and after its head was read at SERIAL, so a wish that came before the end is never overlooked.

use crate::control::withheld;
use crate::orders::has_confirmed;
use crate::picture::{ClusterView, JobView, Picture};
use crate::waiting::waiting;
use crate::{restarts, rollouts};
use echelon_core_model::cluster::Contact;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, JobState, Progress};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{
    ClusterId, Few, GroupName, JobId, RangeSet, Reason, ReasonCode, RunState, Timestamp,
};

/// How a job would end now, before its head is confirmed; `None` while it goes on.
#[must_use]
pub fn outcome(picture: &Picture, id: JobId, job: &JobView) -> Option<(JobState, Reason)> {
    let desired = job.desired();
    let verdict = job.head.as_ref().and_then(|h| h.verdict.as_deref());
    let verdict = verdict.filter(|_| desired == Desired::Stopped);
    if desired != Desired::Deleted
        && verdict.is_none()
        && let Some(state) = completed(picture, id, job)
    {
        let code = match state {
            JobState::Succeeded => ReasonCode::Succeeded,
            _ => ReasonCode::RetriesExhausted,
        };
        return Some((state, Reason::new(code)));
    }
    if desired == Desired::Running
        || !awaited(picture, id, job).is_empty()
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
pub fn awaited(picture: &Picture, id: JobId, job: &JobView) -> Vec<ClusterId> {
    if job.desired() == Desired::Running {
        return Vec::new();
    }
    let holders = job.durable.holders.keys();
    holders
        .filter(|c| !has_confirmed(picture, id, job, c))
        .cloned()
        .collect()
}

/// Whether every instance of a batch job has met its goal or given up, on the word of every holder.
fn completed(picture: &Picture, id: JobId, job: &JobView) -> Option<JobState> {
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
    for (key, ranges) in job.slices() {
        let report = picture.report(id, &key)?;
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

/// Clusters that hold a part of a job and have not told this leader what they have of it.
fn unheard<'a>(picture: &'a Picture, job: &'a JobView) -> impl Iterator<Item = Option<&'a ClusterView>> {
    let views = job.durable.holders.keys().map(|c| picture.clusters.get(c));
    views.filter(|view| view.is_none_or(|v| !v.is_heard()))
}

/// Whether a job's stored row stands for now: an earlier leader has written it, and a holder was not heard by this one. A holder is
/// awaited until it counts as out of reach.
#[must_use]
pub fn row_stands(picture: &Picture, job: &JobView) -> bool {
    let is_awaited = |view: Option<&ClusterView>| {
        let contact = view.map_or(Contact::Joining, ClusterView::contact);
        contact != Contact::Unreachable
    };
    let is_theirs = job.progress.is_some() && job.written_at == Timestamp(0);
    is_theirs && unheard(picture, job).any(is_awaited)
}

/// The progress row as it should be now.
#[must_use]
pub fn progress(picture: &Picture, id: JobId, job: &JobView, now: Timestamp) -> Option<Progress> {
    let head = job.head.as_ref()?;
    let groups = counts(picture, id, job);
    let confirmed = job.confirmed == Some(head.version) && job.next_head.is_none();
    let end = outcome(picture, id, job).filter(|_| confirmed);
    let live: u64 = groups.values().map(Counts::live).sum();
    // What a silent holder has of it was begun, if anything was.
    let stands = job.progress.as_deref().map(|p| p.state) == Some(JobState::Running);
    let begun = has_begun(picture, id, job) || (stands && unheard(picture, job).next().is_some());
    let state = match (&end, head.goal.desired) {
        (Some((state, _)), _) => *state,
        (None, Desired::Stopped | Desired::Deleted) => JobState::Stopping,
        (None, Desired::Running) if live > 0 || begun => JobState::Running,
        (None, Desired::Running) => JobState::Waiting,
    };
    let before = job.progress.as_deref();
    let entered = entered_at(picture, id, job, state, now);
    let kept = before.and_then(|p| p.keep_until);
    let keep = job
        .spec
        .as_ref()
        .and_then(|s| s.rules.keep)
        .filter(|_| end.is_some());
    // Before everything has stopped, why it does is known.
    let ruled = head.verdict.as_ref().map(|v| v.reason.clone());
    let ruled = ruled.filter(|_| head.goal.desired == Desired::Stopped);
    Some(Progress {
        job: id,
        state,
        since: before.filter(|p| p.state == state).map_or(entered, |p| p.since),
        ended_version: end.as_ref().map(|_| head.version),
        reason: end.map(|(_, reason)| reason).or(ruled),
        groups,
        waiting: if head.goal.desired == Desired::Running {
            waiting(picture, id, job, now)
        } else {
            withheld(picture, id, job)
        },
        awaited: awaited(picture, id, job),
        created_at: before.map_or_else(|| id.created_at().min(now), |p| p.created_at),
        starved: picture.claims.starved.since(id),
        rollout: rollouts::progress(picture, id, job, now),
        restart: restarts::progress(picture, id, job, now),
        released: job.release.at(),
        keep_until: kept.or(keep.map(|span| now.plus(span))),
        crash_looping: crash_looping(picture, id, job),
    })
}

/// When a job came into a state: by what shards and the head say, so that a leader that was away then does not
/// date it by its own return.
fn entered_at(picture: &Picture, id: JobId, job: &JobView, state: JobState, now: Timestamp) -> Timestamp {
    let before = job.progress.as_deref();
    let asked = job.head.as_ref().map(|h| (h.goal.desired, h.updated_at));
    let asked = asked.and_then(|(desired, at)| (desired != Desired::Running).then_some(at));
    let slices = job.slices();
    let reports = slices.keys().filter_map(|key| picture.report(id, key));
    let at = match state {
        JobState::Waiting => before.is_none().then(|| id.created_at()),
        JobState::Running if before.is_none_or(|p| p.state == JobState::Waiting) => {
            reports.filter_map(|r| r.first_begun).min()
        }
        JobState::Running => None,
        JobState::Stopping => asked,
        JobState::Succeeded | JobState::Failed | JobState::Stopped | JobState::Deleted => {
            asked.max(reports.filter_map(|r| r.last_ended).max())
        }
    };
    // A state begins neither before the one ahead of it nor in the future. What nobody has dated began now.
    let at = at.unwrap_or(now);
    before.map_or(at, |p| at.max(p.since)).min(now)
}

/// Instances of a job that is to run that fail again and again, whether they wait or run at this moment.
fn crash_looping(picture: &Picture, id: JobId, job: &JobView) -> u64 {
    if job.desired() != Desired::Running {
        return 0;
    }
    let groups = job.groups();
    let views = job.durable.holders.keys().filter_map(|c| picture.clusters.get(c));
    let words = views.flat_map(|v| groups.iter().filter_map(move |g| v.words.get(&(id, g.clone()))));
    words.map(|w| w.crash_looping).sum()
}

/// Whether any instance has ever begun: between two runs, or just before its end, a job is not waiting.
fn has_begun(picture: &Picture, id: JobId, job: &JobView) -> bool {
    let slices = job.slices();
    let mut reports = slices.keys().filter_map(|k| picture.report(id, k));
    reports.any(|r| r.active + r.succeeded + r.failed > 0)
}

/// Instances by state. What no shard has said anything of yet is pending; an ended job keeps what it ended with.
fn counts(picture: &Picture, id: JobId, job: &JobView) -> Few<GroupName, Counts> {
    let Some(spec) = &job.spec else {
        return job
            .progress
            .as_ref()
            .map(|p| p.groups.clone())
            .unwrap_or_default();
    };
    let mut out: Few<GroupName, Counts> = spec
        .groups
        .iter()
        .map(|g| (g.name.clone(), Counts::default()))
        .collect();
    for key in job.slices().into_keys() {
        if let Some(report) = picture.report(id, &key) {
            out.get_or_default(key.group).merge(&report.counts);
        }
    }
    for group in &spec.groups {
        if let Some(counts) = out.get_mut(&group.name) {
            let unsaid = u64::from(group.instances).saturating_sub(counts.total());
            counts.add(RunState::Pending, unsaid);
        }
    }
    out
}
