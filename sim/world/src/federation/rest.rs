//! What must be true as a run begins, and in the end: each instance that is to run does so, once, at a
//! cluster that its job may use, unless no host that it may use has room; and each result counts once.

use super::course::ClusterTruth;
use super::disruption::SETTLED_WITHIN;
use super::history::RunRecord;
use crate::client::{Asked, User};
use crate::division::DivisionBounds;
use crate::shares::CORES;
use crate::world::World;
use echelon_core_gateway::change::Wish;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::cluster_choice::ClusterIdentity;
use echelon_core_model::job::JobState;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{InstanceId, JobId, RunState, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The invariants that are judged here.
const ONCE: u8 = 1;
const RUNS: u8 = 3;
const COUNTS_ONCE: u8 = 26;

impl World {
    /// Whether a job may use a cluster by what its user says.
    fn may_use(&self, user: &User, cluster: usize) -> bool {
        let id = self.cluster_id(cluster);
        let labels = super::operators::labels_of(cluster);
        user.spec.clusters.allows(ClusterIdentity {
            id: &id,
            name: id.as_str(),
            labels: &labels,
        })
    }

    /// An agent has a run that it did not have before.
    pub(super) fn judge_begin(&mut self, task: &TaskId) {
        self.note_begun_for(task.instance.job);
        self.judge_begun_again(&task.instance);
        let Some((_, user)) = self.user_of(task.instance.job) else {
            return;
        };
        let Some(run) = self.federation.runs.get(task) else {
            return;
        };
        if !self.may_use(user, run.cluster) {
            let what = format!("{task} begins at c{}, which its job may not use", run.cluster);
            return self.break_rule(RUNS, what);
        }
        if let Some(done) = self.success_before(task, run) {
            let what = format!("{task} begins at c{} after {done} has succeeded", run.cluster);
            self.break_rule(COUNTS_ONCE, what);
        }
    }

    /// A run of the same instance that has come to its own end, at a cluster and a host that were there since
    /// then.
    fn success_before(&self, task: &TaskId, run: &RunRecord) -> Option<TaskId> {
        let user = self.user_of(task.instance.job).map(|(_, user)| user)?;
        if user.spec.kind != JobKind::Batch || user.spec.gang.is_some() {
            return None;
        }
        let others = self.federation.runs.of_instance(&task.instance);
        let done = others.into_iter().find(|(other, of)| {
            let Some(ended) = of.ended.filter(|_| self.ended_by_itself(other, of)) else {
                return false;
            };
            let is_told = run.began.since(ended) >= SETTLED_WITHIN;
            *other != task && is_told && self.was_there(of, ended)
        });
        done.map(|(other, _)| other.clone())
    }

    /// Whether others could learn at once what became of a run.
    fn was_there(&self, run: &RunRecord, ended: Timestamp) -> bool {
        let course = self.federation.courses.get(run.cluster);
        let was_silent =
            course.is_some_and(|course| course.was(ended, self.now, ClusterTruth::is_out_of_sight));
        !was_silent && !self.facts.was_away(&run.agent)
    }

    /// In the end: each instance that is to run does so once, and results count once.
    pub(super) fn judge_rest(&mut self) {
        for user in 0..self.users.0.len() {
            let wrong = self.users.0.get(user).and_then(|of| self.wrong_end(of));
            if let Some((invariant, what)) = wrong {
                self.break_rule(invariant, format!("user{user}: {what}"));
            }
        }
        let removed = (0..self.clusters.len())
            .filter(|cluster| self.federation.desired_of(*cluster) == DesiredState::Removed);
        let left = removed.flat_map(|cluster| {
            let live = self.federation.runs.live();
            live.filter(move |(_, run)| run.cluster == cluster)
        });
        let left: Vec<String> = left.map(|(task, _)| task.to_string()).collect();
        if !left.is_empty() {
            self.break_rule(RUNS, format!("{left:?} live at clusters that were removed"));
        }
    }

    /// How many instances a user wants in the end.
    pub(super) fn wanted_of(user: &User) -> u32 {
        let first = user.spec.groups.first().map_or(0, |group| group.instances);
        let last = user.acknowledged.iter().rev().find_map(|asked| match asked {
            Asked::Scale(count) => Some(*count),
            _ => None,
        });
        let is_stopped = user.acknowledged.contains(&Asked::Goal(Wish::Stop));
        if is_stopped { 0 } else { last.unwrap_or(first) }
    }

    fn wrong_end(&self, user: &User) -> Option<(u8, String)> {
        let Some(job) = user.job else {
            return Some((RUNS, "the job was never taken".to_owned()));
        };
        let mut live: BTreeMap<&InstanceId, Vec<&TaskId>> = BTreeMap::new();
        for (task, _) in self.federation.runs.live().filter(|(t, _)| t.instance.job == job) {
            live.entry(&task.instance).or_default().push(task);
        }
        if let Some((instance, runs)) = live.iter().find(|(_, runs)| runs.len() > 1) {
            return Some((ONCE, format!("{instance} has {} live runs: {runs:?}", runs.len())));
        }
        let wanted = Self::wanted_of(user);
        let numbers: BTreeSet<u32> = live.keys().map(|instance| instance.number.0).collect();
        let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        if count > wanted {
            return Some((
                RUNS,
                format!("{job} has runs of {numbers:?}, of {wanted} instances"),
            ));
        }
        if user.spec.kind == JobKind::Batch {
            return self.wrong_result(user, job, wanted, &numbers);
        }
        let fits = count < wanted && self.could_run(user, job, |_| true);
        fits.then(|| {
            (
                RUNS,
                format!("{job} has runs of {numbers:?}, of {wanted} instances, and room for one more"),
            )
        })
    }

    /// What is wrong with the end of a batch job: all of its instances have come to their own ends, and are
    /// counted once.
    fn wrong_result(
        &self,
        user: &User,
        job: JobId,
        wanted: u32,
        live: &BTreeSet<u32>,
    ) -> Option<(u8, String)> {
        if wanted == 0 {
            return None;
        }
        let runs = self.federation.runs.of_job(job);
        let done = runs.filter(|(task, run)| self.ended_by_itself(task, run));
        let done: BTreeSet<u32> = done.map(|(task, _)| task.instance.number.0).collect();
        let progress = self.progress(job)?;
        let shown: u64 = progress
            .groups
            .values()
            .map(|of| of.get(RunState::Succeeded))
            .sum();
        let undone: Vec<u32> = (0..wanted).filter(|number| !done.contains(number)).collect();
        if progress.state == JobState::Succeeded && (!undone.is_empty() || !live.is_empty()) {
            return Some((
                COUNTS_ONCE,
                format!("{job} has succeeded, without {undone:?}, while {live:?} run"),
            ));
        }
        if progress.state == JobState::Succeeded && shown != u64::from(wanted) {
            return Some((COUNTS_ONCE, format!("{job} counts {shown} successes of {wanted}")));
        }
        let waits = undone.iter().any(|number| !live.contains(number));
        let is_over = progress.state == JobState::Succeeded || !live.is_empty();
        if (waits || !is_over) && self.could_run(user, job, |_| true) {
            let what = format!("{job} is {} with {done:?} done and {live:?} live", progress.state);
            return Some((RUNS, what));
        }
        None
    }

    /// Whether one more instance of a job could run at one of some clusters: it may use that cluster, which
    /// has room for one, and the job's rules of division leave it one there.
    pub(super) fn could_run(&self, user: &User, job: JobId, at: impl Fn(usize) -> bool) -> bool {
        let wanted = u64::from(Self::wanted_of(user));
        let used = self.live_by_cluster(job);
        let live: u64 = used.iter().sum();
        let division = DivisionBounds::of(&user.spec.clusters, wanted, used);
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, run) in self.federation.runs.live() {
            *taken.entry(run.agent.as_str()).or_default() += 1;
        }
        self.clusters.iter().enumerate().any(|(cluster, c)| {
            let takes = at(cluster)
                && self.federation.desired_of(cluster) == DesiredState::Active
                && self.may_use(user, cluster)
                && !self.is_fail_over(user, cluster)
                && division.takes(cluster);
            let free = |agent: &str| CORES.saturating_sub(taken.get(agent).copied().unwrap_or_default());
            let free: Vec<u64> = c.mesos.agent_ids().map(|agent| free(agent.as_str())).collect();
            let needs = user.spec.gang.as_ref().map_or(1, |_| wanted.saturating_sub(live));
            takes && free.iter().sum::<u64>() >= needs
        })
    }

    fn is_fail_over(&self, user: &User, cluster: usize) -> bool {
        let id = self.cluster_id(cluster);
        let labels = super::operators::labels_of(cluster);
        user.spec.clusters.is_fail_over(ClusterIdentity {
            id: &id,
            name: id.as_str(),
            labels: &labels,
        })
    }
}
