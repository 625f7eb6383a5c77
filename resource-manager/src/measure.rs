//! The resource manager's metrics. Never by job: labels have few values.

use crate::coverage::Coverage;
use crate::link::DIRECTIVE_BYTES;
use echelon_core_model::health::Health;
use echelon_core_model::job::JobState;
use echelon_core_model::role_state::{RoleStanding, RoleState};
use echelon_core_model::time::Span;
use echelon_core_model::{Epoch, JobId, ReasonCode, Timestamp};
use echelon_core_resource_manager::{
    Broken, CycleReport, FederationFacts, Picture, ResourceManager, Sampler, SumFaults,
};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::{LATENCY_S, MetricError};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Between two looks at everything but jobs, and between the beginnings of two counts of all jobs.
const LOOK_EVERY: Span = Span::seconds(5);

/// Most jobs that are counted after one turn of the loop, so that no turn takes longer for more jobs.
const JOBS_AT_ONCE: usize = 2_000;

/// The handles.
pub(crate) struct Measures {
    /// One turn of the loop.
    pub(crate) turn: Histogram,
    directives: IntGaugeVec,
    /// Alarms raised.
    pub(crate) alarms: IntCounter,
    /// Streams ended for what came over them.
    pub(crate) streams_refused: IntCounter,
    /// What losses of clusters would leave without capacity.
    pub(crate) coverage: Coverage,
    leading: IntGauge,
    epoch: IntGauge,
    frozen: IntGauge,
    jobs: IntGaugeVec,
    slices: IntGauge,
    waiting: IntGaugeVec,
    clusters: IntGaugeVec,
    claims: IntGauge,
    preempted: IntGauge,
    held_back: IntGauge,
    decisions: IntCounterVec,
    proofs: IntCounter,
    inconsistencies: IntCounter,
    sum_errors: IntCounterVec,
    sum_faults: SumFaults,
    sampler: Sampler,
    next_look: Timestamp,
    /// The count of all jobs, while it is under way.
    job_count: Option<JobCount>,
    state: watch::Sender<RoleState>,
}

impl Measures {
    /// `build` is reported with the state of this process.
    pub(crate) fn new(metrics: &Metrics, build: String) -> Result<Self, MetricError> {
        Ok(Self {
            turn: metrics.histogram(
                "echelon_loop_turn_seconds",
                "How long one turn of the role's loop took, from its events to the last effect handed on.",
                LATENCY_S,
            )?,
            directives: metrics.gauges(
                "echelon_resource_manager_directive_bytes",
                "Bytes of directives to shards that were not read: under way over all streams, and the limit of one.",
                &["amount"],
            )?,
            alarms: metrics.counter(
                "echelon_alarms_total",
                "Alarms that an operator must look at; the log tells each.",
            )?,
            streams_refused: metrics.counter(
                "echelon_streams_refused_total",
                "Streams between the resource manager and shards that were ended for what came over them: a number out of its range, no proof of a leadership, another cluster's name.",
            )?,
            coverage: Coverage::new(metrics)?,
            leading: metrics.gauge(
                "echelon_leading",
                "1 while this process leads its role and may act: it knows that no other leads.",
            )?,
            epoch: metrics.gauge(
                "echelon_epoch",
                "Epoch of this process's leadership; 0 while it does not lead.",
            )?,
            frozen: metrics.gauge(
                "echelon_frozen",
                "1 while this leader decides nothing, since storage is behind what the membership has seen.",
            )?,
            jobs: metrics.gauges(
                "echelon_resource_manager_jobs",
                "Jobs that are known, ended ones included, by state.",
                &["state"],
            )?,
            slices: metrics.gauge(
                "echelon_resource_manager_slices",
                "Ranges of instances that are assigned to clusters; what waits has none.",
            )?,
            waiting: metrics.gauges(
                "echelon_resource_manager_waiting_instances",
                "Instances that wait, by the code of their reason.",
                &["reason"],
            )?,
            clusters: metrics.gauges(
                "echelon_resource_manager_clusters",
                "Clusters, by their health.",
                &["health"],
            )?,
            claims: metrics.gauge(
                "echelon_resource_manager_claims",
                "Groups for which room is being made by preemption.",
            )?,
            preempted: metrics.gauge(
                "echelon_resource_manager_preempted_last_minute",
                "Instances that shards preempted in the last minute, as this leader heard.",
            )?,
            held_back: metrics.gauge(
                "echelon_resource_manager_replacement_held_back",
                "Silent clusters of which nothing is replaced, since the resource manager doubts its own observation.",
            )?,
            decisions: metrics.counters(
                "echelon_resource_manager_decisions_total",
                "What the stages of cycles have decided, by stage and kind of decision.",
                &["stage", "decision"],
            )?,
            proofs: metrics.counter(
                "echelon_resource_manager_division_proofs_total",
                "Divisions of capacity among pools whose proof was checked, of those that cycles have decided by.",
            )?,
            inconsistencies: metrics.counter(
                "echelon_resource_manager_inconsistencies_total",
                "Broken rules that a look at some jobs, or the proof of a division among pools, has found: a fault of this program.",
            )?,
            sum_errors: metrics.counters(
                "echelon_resource_manager_sum_errors_total",
                "What was found wrong with sums over jobs, a fault of this program, by how it was found: a step that did not match, or a sum that is not that of its jobs.",
                &["found_by"],
            )?,
            sum_faults: SumFaults::default(),
            sampler: Sampler::default(),
            next_look: Timestamp(0),
            job_count: None,
            state: watch::Sender::new(RoleState {
                build,
                ..RoleState::default()
            }),
        })
    }

    /// What this process reports of its role, without its contacts.
    pub(crate) fn state(&self) -> watch::Receiver<RoleState> {
        self.state.subscribe()
    }

    /// The leadership has begun or ended.
    pub(crate) fn leads(&mut self, epoch: Option<Epoch>) {
        if epoch.is_none() {
            self.coverage.clear();
        }
        self.leading.set(epoch.is_some().into());
        self.epoch
            .set(i64::try_from(epoch.unwrap_or_default().0).unwrap_or(i64::MAX));
    }

    /// Looks at the driver, from time to time.
    /// What is under way to shards, in bytes.
    pub(crate) fn tell_ways_out(&self, directives: usize) {
        for (amount, bytes) in [("under_way", directives), ("limit", DIRECTIVE_BYTES)] {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.directives.with_label_values(&[amount]).set(bytes);
        }
    }

    pub(crate) fn look(&mut self, driver: &ResourceManager, now: Timestamp) {
        let acts = self.epoch.get() > 0 && !driver.is_suspended();
        self.leading.set(acts.into());
        self.frozen.set(driver.is_frozen().into());
        let (standing, epoch) = (standing(driver), driver.leading().unwrap_or_default());
        let frozen = driver.frozen().unwrap_or_default();
        self.state.send_if_modified(|state| {
            let changed = (state.standing, state.epoch, state.frozen.as_str()) != (standing, epoch, frozen);
            if changed {
                (state.standing, state.epoch) = (standing, epoch);
                frozen.clone_into(&mut state.frozen);
            }
            changed
        });
        let picture = driver.picture();
        self.count_jobs(&picture.facts);
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus(LOOK_EVERY);
        self.look_at_sums(driver.sum_faults());
        let alarms = driver.alarms(now);
        self.state.send_if_modified(|state| {
            let changed = state.alarms != alarms;
            state.alarms = alarms;
            changed
        });
        self.job_count.get_or_insert_default();
        if standing == RoleStanding::Leader {
            self.sample(picture, driver.last_cycle());
        }
        self.claims.set(count(picture.preemption.all.len()));
        let taken = picture.preemption.taken.iter();
        let lately = taken.filter(|(at, _)| now.since(*at) < Span::minutes(1));
        let taken: u64 = lately.map(|(_, n)| *n).sum();
        self.preempted.set(i64::try_from(taken).unwrap_or(i64::MAX));
        self.held_back
            .set(count(driver.held_back().map_or(0, |held| held.clusters.len())));
        for health in Health::ALL {
            let clusters = picture.facts.clusters.values();
            let such = clusters.filter(|c| c.row.is_some() && c.health() == health);
            self.clusters
                .with_label_values(&[health.word()])
                .set(count(such.count()));
        }
    }

    /// What was found since the last look. The alarm of each is in the log.
    fn look_at_sums(&mut self, faults: SumFaults) {
        let before = std::mem::replace(&mut self.sum_faults, faults);
        for (found_by, now, before) in [
            ("step", faults.steps, before.steps),
            ("comparison", faults.differences, before.differences),
        ] {
            let counter = self.sum_errors.with_label_values(&[found_by]);
            counter.inc_by(now.saturating_sub(before));
        }
    }

    /// Looks at what the last step has decided, after every step.
    pub(crate) fn look_at_cycle(&mut self, driver: &ResourceManager, now: Timestamp) {
        if let Some(cycle) = driver.last_cycle() {
            self.count(driver.picture(), cycle, now);
        }
    }

    fn sample(&mut self, picture: &Picture, last: Option<&CycleReport>) {
        let found = self.sampler.look(picture, last);
        self.report(found);
    }

    fn report(&self, found: Vec<Broken>) {
        for broken in found {
            self.inconsistencies.inc();
            tracing::error!(%broken, "a rule of the resource manager is broken: report this as a bug");
        }
    }

    /// What a cycle decided, and the proof of its division when one is due.
    fn count(&mut self, picture: &Picture, cycle: &CycleReport, now: Timestamp) {
        tracing::debug!(%cycle, "a cycle has decided something");
        for (stage, decision, n) in cycle.counts() {
            if n > 0 {
                self.decisions.with_label_values(&[stage, decision]).inc_by(n);
            }
        }
        let found = self.sampler.prove(picture, &cycle.division, now);
        if let Some(found) = found {
            self.proofs.inc();
            self.report(found);
        }
    }

    /// Counts the next jobs, and shows the counts once all jobs are counted. A job that changes while the
    /// others are counted is shown as it was when it was counted.
    fn count_jobs(&mut self, facts: &FederationFacts) {
        let Some(mut counted) = self.job_count.take() else {
            return;
        };
        if !counted.take_next(facts) {
            self.job_count = Some(counted);
            return;
        }
        let JobCount {
            last: _,
            mut states,
            reasons,
            slices,
        } = counted;
        for (state, n) in facts.ended.by_state() {
            let known = states.entry(*state).or_default();
            *known = known.saturating_add(*n);
        }
        self.slices.set(count(slices));
        // What is not there any more must not be shown on.
        self.jobs.reset();
        for (state, n) in states {
            self.jobs.with_label_values(&[state.word()]).set(shown(n));
        }
        self.waiting.reset();
        for (reason, n) in reasons {
            self.waiting
                .with_label_values(&[reason.word().as_str()])
                .set(shown(n));
        }
    }
}

/// A count of all jobs, some at a time.
#[derive(Debug, Default)]
struct JobCount {
    /// The last job that was counted.
    last: Option<JobId>,
    states: BTreeMap<JobState, u64>,
    /// Instances that wait, by reason.
    reasons: BTreeMap<ReasonCode, u64>,
    /// Ranges of instances that are assigned.
    slices: usize,
}

impl JobCount {
    /// Counts the next jobs. Whether all are counted.
    fn take_next(&mut self, facts: &FederationFacts) -> bool {
        let first = self.last.is_none().then(|| facts.jobs.iter());
        let further = self.last.map(|last| facts.jobs.after(last));
        let jobs = first.into_iter().flatten().chain(further.into_iter().flatten());
        let mut seen = 0;
        for (id, job) in jobs.take(JOBS_AT_ONCE) {
            self.last = Some(*id);
            seen += 1;
            let ranges = job.durable.groups.values().map(Vec::len).sum::<usize>();
            self.slices = self.slices.saturating_add(ranges);
            let Some(progress) = &job.progress else {
                continue;
            };
            *self.states.entry(progress.state()).or_default() += 1;
            for waiting in &progress.waiting {
                let known = self.reasons.entry(waiting.code).or_default();
                *known = known.saturating_add(waiting.count);
            }
        }
        seen < JOBS_AT_ONCE
    }
}

fn standing(driver: &ResourceManager) -> RoleStanding {
    if !driver.is_elected() {
        RoleStanding::Standby
    } else if driver.is_suspended() {
        RoleStanding::Suspended
    } else if driver.is_frozen() {
        RoleStanding::Frozen
    } else if driver.leading().is_none() {
        RoleStanding::Recovering
    } else {
        RoleStanding::Leader
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn shown(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::assignment::AssignedRange;
    use echelon_core_model::{ClusterId, Generation, GroupName, InstanceRange};

    #[test]
    fn each_job_is_counted_once_however_many_there_are() {
        for jobs in [0, 1, JOBS_AT_ONCE, 2 * JOBS_AT_ONCE + 5] {
            let mut facts = FederationFacts::default();
            for n in 0..jobs {
                let job = facts.jobs.open(JobId(n as u128));
                let range = AssignedRange {
                    range: InstanceRange { first: 0, last: 0 },
                    cluster: ClusterId::new("a"),
                    generation: Generation(1),
                    former: None,
                    releasing: None,
                };
                let ranges = vec![range; n % 3];
                let groups = &mut job.durable.make_mut(JobId(n as u128)).groups;
                groups.insert(GroupName::new("main"), ranges);
            }
            let mut count = JobCount::default();
            let looks = (1..).find(|_| count.take_next(&facts)).unwrap();
            assert_eq!(count.slices, (0..jobs).map(|n| n % 3).sum::<usize>());
            assert_eq!(looks, jobs / JOBS_AT_ONCE + 1, "{jobs}");
        }
    }
}
