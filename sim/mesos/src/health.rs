//! What an executor watches beside its task's process: the results of the health check, and the time that the task may
//! take (rules R89, R101). Whoever runs the task runs the check; what follows from its results is decided here.

use crate::agent::{Extra, Phase};
use crate::cluster::Cluster;
use crate::id::Run;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::check_status_info::{Command, Http, Tcp};
use echelon_proto::mesos::v1::task_status::Reason;
use echelon_proto::mesos::v1::{CheckInfo, CheckStatusInfo, HealthCheck, TaskInfo, TaskState, check_info};

/// What an executor watches of one task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Watch {
    health_check: Option<HealthCheck>,
    /// What the check said last; its kind alone before it has said anything.
    check: Option<CheckStatusInfo>,
    max_completion: Option<Span>,
    started: Timestamp,
    /// The last result that counted.
    healthy: Option<bool>,
    failures: u32,
    /// It is killed for its bad health.
    pub condemned: bool,
    /// It is killed for taking too long.
    pub overdue: bool,
}

impl Watch {
    /// `None` where there is nothing to watch, which is mostly so.
    pub(crate) fn of(task: &TaskInfo) -> Option<Box<Self>> {
        let limit = task.max_completion_time.as_ref();
        let max_completion = limit
            .and_then(|limit| u64::try_from(limit.nanoseconds).ok())
            .map(|nanoseconds| Span(nanoseconds / 1_000_000));
        let check = task.check.as_ref().map(unsaid);
        if task.health_check.is_none() && check.is_none() && max_completion.is_none() {
            return None;
        }
        Some(Box::new(Self {
            health_check: task.health_check.clone(),
            check,
            max_completion,
            started: Timestamp(0),
            healthy: None,
            failures: 0,
            condemned: false,
            overdue: false,
        }))
    }

    /// What the check said last, which every update of a running task tells.
    pub(crate) const fn check(&self) -> Option<&CheckStatusInfo> {
        self.check.as_ref()
    }

    /// Takes a result; whether it is worth an update.
    fn take(&mut self, healthy: bool, now: Timestamp) -> bool {
        let Some(check) = &self.health_check else {
            return false;
        };
        if healthy {
            self.failures = 0;
            return self.healthy.replace(true) != Some(true);
        }
        let grace = crate::subscribe::timeout(check.grace_period_seconds());
        if self.healthy.is_none() && now.since(self.started) <= grace {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        self.healthy = Some(false);
        self.condemned = self.failures >= check.consecutive_failures();
        // Every failure is told, not only the first.
        true
    }
}

/// The status of a check that has said nothing yet.
fn unsaid(check: &CheckInfo) -> CheckStatusInfo {
    let kind = check.r#type();
    CheckStatusInfo {
        r#type: Some(kind.into()),
        command: (kind == check_info::Type::Command).then(Command::default),
        http: (kind == check_info::Type::Http).then(Http::default),
        tcp: (kind == check_info::Type::Tcp).then(Tcp::default),
    }
}

impl Cluster {
    /// A task runs: its time counts from here.
    pub(crate) fn watch_over(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let Some(watch) = task.watch.as_mut() else { return };
        watch.started = now;
        if let Some(limit) = watch.max_completion {
            self.timers
                .set(now.plus(limit), Timer::MaxCompletion(run.clone()));
        }
    }

    /// Reports the result of a task's health check. Results of tasks that are over or have no check change nothing.
    pub fn checked(&mut self, run: &Run, healthy: bool, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let runs = task.phase == Phase::Running;
        let Some(watch) = task.watch.as_mut().filter(|_| runs) else {
            return;
        };
        let told = watch.take(healthy, now);
        let condemned = watch.condemned;
        if told {
            let extra = Extra {
                healthy: Some(healthy),
                ..Extra::default()
            };
            let reason = Some(Reason::TaskHealthCheckStatusUpdated);
            let words = (reason, None, Some(Box::new(extra)));
            self.executor_reports(run, TaskState::TaskRunning, words, now);
        }
        if condemned {
            let key = (run.framework.clone(), run.task.clone());
            self.kill_at_agent(&run.agent, &key, None, now);
        }
    }

    /// Reports what a task's check says: nothing follows from it but an update, and that only where it says something new.
    pub fn check_said(&mut self, run: &Run, says: CheckStatusInfo, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let runs = task.phase == Phase::Running;
        let Some(last) = task
            .watch
            .as_mut()
            .and_then(|w| w.check.as_mut())
            .filter(|_| runs)
        else {
            return;
        };
        if *last == says || last.r#type != says.r#type {
            return;
        }
        *last = says;
        let reason = Some(Reason::TaskCheckStatusUpdated);
        self.executor_reports(run, TaskState::TaskRunning, (reason, None, None), now);
    }

    /// A task has had its time: it is told to end, without a word about it (rule R89).
    pub(crate) fn out_of_time(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        if task.phase != Phase::Running {
            return;
        }
        if let Some(watch) = task.watch.as_mut() {
            watch.overdue = true;
        }
        self.end_task(run, None, now);
    }
}
