//! What became of a job: its counts, why instances wait, and whether it has ended. A job ends only on reports
//! of every holder, and after its head was read at SERIAL.
//! So a request that came before the end is never overlooked.

pub(crate) mod refused;
pub(crate) mod waiting;

use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::facts::known::KnownProgress;
use crate::lifecycle::outcome::{awaited, outcome};
use crate::lifecycle::{restarts, rollouts};
use crate::picture::Picture;
use crate::progress::waiting::withheld;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::{ClusterHealth, Health};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, JobState, Progress};
use echelon_core_model::{Few, GroupName, JobId, RunState, Span, Timestamp};

/// A shard with a new leader reports within this time. Until then its last report is the best that is known.
const REPORT_WITHIN: Span = Span::seconds(60);

/// Clusters that have a part of a job and have not reported to this leader what they have of it. One that was
/// removed for good has none left and reports no more.
fn unheard<'a>(
    facts: &'a FederationFacts,
    job: &'a JobView,
) -> impl Iterator<Item = Option<&'a ClusterView>> {
    let views = job.durable.holders.keys().map(|c| facts.clusters.get(c));
    views.filter(|view| view.is_none_or(|v| !v.is_heard() && v.desired_state() != DesiredState::Removed))
}

/// Whether a job's stored row stands for now: an earlier leader has written it, and this one waits for the
/// report of a holder. It waits for a holder until that counts as out of reach.
#[must_use]
pub fn row_stands(facts: &FederationFacts, job: &JobView) -> bool {
    let is_awaited = |view: Option<&ClusterView>| {
        let health = view.and_then(|v| v.state.as_ref()).map(|s| &s.health);
        let is_away = |of: &&ClusterHealth| {
            matches!(of.health, Health::CutOff | Health::Lost) && of.waited >= REPORT_WITHIN
        };
        health.filter(is_away).is_none()
    };
    let row = job.progress.as_ref().and_then(|known| known.row.as_ref());
    row.is_some_and(|row| row.written_at.is_none()) && unheard(facts, job).any(is_awaited)
}

/// Whether there is more to store of a job than its head and its spec say. Of a job that has never been
/// bound and only waits nothing is stored, however many such jobs there are: why it waits is computed on demand.
/// That it is starved is stored, so that preemption counts on under the next leader.
#[must_use]
pub(crate) fn needs_row(job: &JobView, row: &Progress) -> bool {
    let Progress {
        job: _,
        state,
        since: _,
        reason,
        ended_version: _,
        groups: _,
        waiting: _,
        awaited,
        created_at: _,
        starved,
        rollout,
        released,
        keep_until: _,
        restart,
        crash_looping: _,
    } = row;
    let only_waits = *state == JobState::Waiting && job.durable.is_nothing();
    let has_more = reason.is_some() || !awaited.is_empty() || starved.is_some() || released.is_some();
    !only_waits || has_more || rollout.is_some() || restart.is_some()
}

/// The progress row as it should be now.
#[must_use]
pub fn progress(picture: &Picture, id: JobId, job: &JobView, now: Timestamp) -> Option<Progress> {
    let head = job.head.as_ref()?;
    let groups = counts(&picture.facts, id, job);
    let confirmed = job.rare.confirmed == Some(head.version) && job.next_head.is_none();
    let end = outcome(&picture.facts, id, job).filter(|_| confirmed);
    let live: u64 = groups.values().map(Counts::live).sum();
    // What a silent holder has of it was begun, if anything was.
    let stands = job.progress.as_ref().map(KnownProgress::state) == Some(JobState::Running);
    let begun =
        has_begun(&picture.facts, id, job) || (stands && unheard(&picture.facts, job).next().is_some());
    let state = match (&end, head.goal.desired) {
        (Some((state, _)), _) => *state,
        (None, Desired::Stopped | Desired::Deleted) => JobState::Stopping,
        (None, Desired::Running) if live > 0 || begun => JobState::Running,
        (None, Desired::Running) => JobState::Waiting,
    };
    let before = job.progress.as_ref();
    let entered = entered_at(&picture.facts, id, job, state, now);
    let kept = before.and_then(|p| p.row.as_ref()?.keep_until);
    let keep = job
        .spec
        .as_ref()
        .and_then(|s| s.rules.keep)
        .filter(|_| end.is_some());
    // Before everything has stopped, why it does is known.
    let ruled = head.rare.verdict.as_ref().map(|v| v.reason.clone());
    let ruled = ruled.filter(|_| head.goal.desired == Desired::Stopped);
    Some(Progress {
        job: id,
        state,
        since: before
            .filter(|p| p.state() == state)
            .map_or(entered, KnownProgress::since),
        ended_version: end.as_ref().map(|_| head.version),
        reason: end.map(|(_, reason)| reason).or(ruled),
        groups,
        waiting: if head.goal.desired == Desired::Running {
            waiting::waiting(picture, id, job, now)
        } else {
            withheld(&picture.facts, id, job)
        },
        awaited: awaited(&picture.facts, id, job),
        created_at: before.map_or_else(|| id.created_at().min(now), |p| p.created_at),
        starved: picture.preemption.starved.since(id),
        rollout: rollouts::progress(&picture.facts, id, job, now),
        restart: restarts::progress(&picture.facts, id, job, now),
        released: job.rare.release.at(),
        keep_until: kept.or(keep.map(|span| now.plus(span))),
        crash_looping: crash_looping(&picture.facts, id, job),
    })
}

/// When a job came into a state, by what shards report and by the head.
/// So a leader that was away then does not date it by its own return.
fn entered_at(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    state: JobState,
    now: Timestamp,
) -> Timestamp {
    let before = job.progress.as_ref();
    let asked = job.head.as_ref().and_then(|h| h.rare.stopped_at);
    let slices = job.slices();
    let reports = slices.keys().filter_map(|key| facts.report(id, key));
    let at = match state {
        JobState::Waiting => before.is_none().then(|| id.created_at()),
        JobState::Running if before.is_none_or(|p| p.state() == JobState::Waiting) => {
            reports.filter_map(|r| r.first_begun).min()
        }
        JobState::Running => None,
        JobState::Stopping => asked,
        JobState::Succeeded | JobState::Failed | JobState::Stopped | JobState::Deleted => {
            asked.max(reports.filter_map(|r| r.last_ended).max())
        }
    };
    // A state begins neither before the one ahead of it nor in the future. A state without a date began now.
    let at = at.unwrap_or(now);
    before.map_or(at, |p| at.max(p.since())).min(now)
}

/// Instances of a job that is to run that fail again and again, whether they wait or run at this moment.
fn crash_looping(facts: &FederationFacts, id: JobId, job: &JobView) -> u64 {
    if job.desired() != Desired::Running {
        return 0;
    }
    let groups = job.groups();
    let views = job.durable.holders.keys().filter_map(|c| facts.clusters.get(c));
    let words = views.flat_map(|v| groups.iter().filter_map(move |g| v.words.get(&(id, g.clone()))));
    words.map(|w| w.crash_looping).sum()
}

/// Whether any instance has ever begun: between two runs, or just before its end, a job is not waiting.
fn has_begun(facts: &FederationFacts, id: JobId, job: &JobView) -> bool {
    let slices = job.slices();
    let mut reports = slices.keys().filter_map(|k| facts.report(id, k));
    reports.any(|r| r.active + r.succeeded + r.failed > 0)
}

/// Instances by state. Those that no shard has reported yet are pending; an ended job keeps its last counts.
fn counts(facts: &FederationFacts, id: JobId, job: &JobView) -> Few<GroupName, Counts> {
    let Some(spec) = &job.spec else {
        let row = job.progress.as_ref().and_then(|p| p.row.as_ref());
        return row.map(|row| row.groups.clone()).unwrap_or_default();
    };
    let mut out: Few<GroupName, Counts> = spec
        .groups
        .iter()
        .map(|g| (g.name.clone(), Counts::default()))
        .collect();
    for key in job.slices().keys() {
        if let Some(report) = facts.report(id, key) {
            out.get_or_default(key.group.clone()).merge(&report.counts);
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
