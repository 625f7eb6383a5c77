//! What must be in the end, when faults have stopped and everything had time to come to rest: every user has what was acknowledged.

use crate::client::Asked;
use crate::drains::still_drained;
use crate::invariants::Broken;
use crate::world::World;
use echelon_core_gateway::change::Wish;
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::job::{Desired, Head, JobState, Progress};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::volume::Reclaim;
use echelon_core_model::{JobId, MemberId, ReasonCode, RunState, TaskId, VolumeId};
use echelon_core_resource_manager::unstored_progress;
use std::collections::BTreeSet;

/// Milliseconds by which a run's deadline may be off.
const ABOUT: i64 = 1000;

impl World {
    /// When faults have stopped and everything had time to come to rest.
    pub(crate) fn judge_end(&mut self) {
        if !self.broken.is_empty() {
            return;
        }
        let wrong: Vec<Broken> = (0..self.users.0.len())
            .filter_map(|n| self.judge_user(n))
            .collect();
        self.broken.extend(wrong);
        let wrong: Vec<Broken> = self
            .clusters
            .iter()
            .filter_map(|c| self.judge_members(c).or_else(|| still_drained(c)))
            .collect();
        self.broken.extend(wrong);
        self.broken.extend(self.judge_host_pools());
        self.judge_sets();
        let unfair = self.judge_shares();
        self.broken.extend(unfair);
        let left = self.judge_tree();
        self.broken.extend(left);
        let lost = self.judge_logs();
        self.broken.extend(lost);
        let under_pressure = self.judge_pressure();
        self.broken.extend(under_pressure);
    }

    /// A pool that an operator has made pools below takes no jobs, and says so.
    fn takes_no_jobs(&self, pool: &str) -> bool {
        self.tree().children(pool).next().is_some()
    }

    fn judge_user(&self, n: usize) -> Option<Broken> {
        let user = self.users.0.get(n)?;
        let lost = |invariant, what: String| {
            Some(Broken {
                invariant,
                what: format!("user{n}: {what}"),
            })
        };
        let Some(job) = user.job else {
            if self.takes_no_jobs(&user.spec.pool) || self.awaits_nothing_that_is(user) {
                return None;
            }
            return lost(
                3,
                "the job was never taken, although faults have stopped".to_owned(),
            );
        };
        let deleted = user.acknowledged.contains(&Asked::Goal(Wish::Delete));
        let stopped = user.acknowledged.contains(&Asked::Goal(Wish::Stop));
        let progress = self.progress(job);
        let state = progress.as_ref().map(|p| p.state);
        let Some(head) = self.head(job) else {
            // A deleted one, too: no world lasts as long as a create may be repeated.
            return lost(2, format!("job {job} was acknowledged and is gone"));
        };
        if deleted && state == Some(JobState::Deleted) && self.live_instances(job) == 0 {
            return self.judge_reclaimed(&user.spec, job);
        }
        if deleted {
            let awaited = progress.map(|p| p.awaited);
            let what = format!("job {job} was deleted and is still {state:?}; awaited {awaited:?}");
            return lost(3, what);
        }
        if stopped && head.goal.desired != Desired::Stopped {
            return lost(2, format!("the stop of {job} was acknowledged and is lost"));
        }
        let broken = self.judge_daemon(job, &head);
        let broken = broken.or_else(|| self.judge_rollout(job, &head));
        let broken = broken.or_else(|| self.judge_restarts(job, &head));
        let broken = broken.or_else(|| self.judge_rules(job, &head, state?));
        if broken.is_some() {
            return broken;
        }
        let live = self.live_instances(job);
        let wanted = self.wanted(job, head.spec_version);
        match (state, stopped) {
            (Some(s), _) if s.is_ended() && may_end(&user.spec, &head, s) && live == 0 => None,
            (Some(JobState::Running), false) if live == wanted => None,
            (Some(JobState::Running | JobState::Waiting), false) if self.options.pressure => {
                self.judge_demand(n)
            }
            // What each pool has is judged.
            (Some(JobState::Running | JobState::Waiting), false) if self.options.pools > 1 => None,
            (_, false) if wanted == 0 && live == 0 => None,
            (Some(JobState::Running | JobState::Waiting), false) if live < wanted => {
                let progress = progress?;
                let short = self.unended_of(&progress, &head, wanted).saturating_sub(live);
                let (_, spec) = self.head_and_spec(job)?;
                let what = self.untrue((&head, &spec), &progress, short)?;
                lost(
                    3,
                    format!("job {job} has {live} of {wanted} instances live: {what}"),
                )
            }
            _ => {
                let waiting = progress.map(|p| p.waiting).unwrap_or_default();
                let why = waiting
                    .iter()
                    .map(|w| format!("{} wait since {}: {}", w.count, w.since.0, w.reason));
                let why: Vec<String> = why.collect();
                lost(
                    3,
                    format!("job {job} is {state:?} with {live} of {wanted} instances live; {why:?}"),
                )
            }
        }
    }

    /// Volumes that go with their instances are gone, and others are there still.
    fn judge_reclaimed(&self, spec: &JobSpec, job: JobId) -> Option<Broken> {
        let reclaim = spec
            .groups
            .iter()
            .filter_map(|g| g.volume.as_ref())
            .map(|v| v.reclaim)
            .next()?;
        let all = self.clusters.iter().flat_map(|c| c.mesos.volumes());
        let of_job = |id: &str| VolumeId::new(id).maker().is_some_and(|i| i.job == job);
        let left = all.filter(|(_, id)| of_job(id)).count();
        (reclaim == Reclaim::Delete && left > 0).then(|| Broken {
            invariant: 3,
            what: format!("{left} volumes of {job}, which was deleted, are left"),
        })
    }

    pub(crate) fn head(&self, job: JobId) -> Option<Head> {
        match self.store.read(&Query::Head(job)) {
            Answer::Head(head) => head,
            _ => None,
        }
    }

    /// What became of a job, as a gateway shows it: the stored row, else what the resource manager's leader says.
    pub(crate) fn progress(&self, job: JobId) -> Option<Progress> {
        let stored = match self.store.read(&Query::Progress(job)) {
            Answer::Progress(rows) => rows.into_iter().next(),
            _ => None,
        };
        stored.or_else(|| {
            let managers = self.managers.iter().filter_map(|m| m.driver.as_ref());
            let leader = managers.max_by_key(|m| m.leading())?;
            leader.leading()?;
            unstored_progress(leader.picture(), &[job], self.now)
                .into_iter()
                .next()
        })
    }

    /// Of so many instances that should run those that have not ended.
    pub(crate) fn unended_of(&self, progress: &Progress, head: &Head, wanted: u64) -> u64 {
        let ended: u64 = progress
            .groups
            .values()
            .map(|counts| counts.total() - counts.live() - counts.get(RunState::Pending))
            .sum();
        if head.kind == JobKind::Daemon {
            return wanted;
        }
        wanted.min(head.instances.saturating_sub(ended))
    }

    /// Instances that should run at once.
    pub(crate) fn wanted(&self, job: JobId, version: u32) -> u64 {
        let Answer::Spec(Some(spec)) = self.store.read(&Query::Spec(job, version)) else {
            return 0;
        };
        if spec.kind == JobKind::Daemon {
            return self.hosts();
        }
        spec.groups.iter().map(|g| u64::from(g.most_active())).sum()
    }

    pub(crate) fn live_instances(&self, job: JobId) -> u64 {
        let tasks = self.clusters.iter().flat_map(|c| c.mesos.live_tasks());
        let runs = tasks.filter_map(|(_, t)| t.as_str().parse::<MemberId>().ok().map(|m| m.run));
        let ours: BTreeSet<TaskId> = runs.filter(|run| run.instance.job == job).collect();
        ours.len() as u64
    }

    /// Jobs that came to a good end, and instances that run.
    pub(crate) fn fulfilled(&self) -> u64 {
        self.users
            .0
            .iter()
            .filter_map(|u| u.job)
            .map(|job| 1 + self.live_instances(job))
            .sum()
    }
}

/// Whether the first failure of a member is that of its gang.
fn ends_at_once(spec: &JobSpec) -> bool {
    spec.gang
        .as_ref()
        .is_some_and(|g| g.on_failure == OnMemberFailure::Job)
}

/// Whether a job may have come to such an end: nothing fails but by its command's own doing or its deadline, and nobody stops what is
/// wanted.
fn may_end(spec: &JobSpec, head: &Head, state: JobState) -> bool {
    let desired = head.goal.desired;
    let rule = head.verdict.as_ref().map(|v| v.reason.code);
    let is_batch = spec.kind == JobKind::Batch;
    let fails = |task: &Runtime| task.env.contains_key("SIM_EXIT_CODE");
    let mut groups = spec.groups.iter();
    // How much longer a run of a group takes than it may.
    let late = |g: &GroupSpec| {
        let takes = g.runtime.env.get("SIM_RUNTIME_MS")?.parse::<i64>().ok()?;
        Some(takes.saturating_sub_unsigned(g.max_run?.0))
    };
    match state {
        JobState::Succeeded => is_batch && groups.all(|g| !fails(&g.runtime) && late(g) <= Some(ABOUT)),
        // Judged with the other rules.
        JobState::Failed if rule == Some(ReasonCode::DependencyFailed) => true,
        // A host that comes back without its tasks says that they have failed, and one such is enough.
        JobState::Failed if ends_at_once(spec) => true,
        JobState::Failed => {
            is_batch
                && groups.any(|g| {
                    let mut tasks = g.sidecars.iter().map(|s| &s.runtime).chain([&g.runtime]);
                    late(g) >= Some(-ABOUT) || tasks.any(fails)
                })
        }
        JobState::Stopped => desired != Desired::Running,
        _ => desired == Desired::Deleted,
    }
}
