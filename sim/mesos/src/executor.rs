//! What executors report: a task runs, a task has ended. Reports come from outside, or from timers where tasks are
//! virtual (S13).

use crate::agent::{Extra, Phase, Update};
use crate::cluster::Cluster;
use crate::config::{Executors, Virtual};
use crate::framework::is_terminal;
use crate::health::Watch;
use crate::id::Run;
use crate::output::Output;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{TaskState, TaskStatus};

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The command exited with this status.
    Code(i32),
    /// The command died of this signal.
    Signal(i32),
    /// The executor vanished and nobody knows how.
    Lost,
    /// The command could not be started; why.
    NotStarted(String),
}

impl Cluster {
    /// Reports that a task runs as process `pid`. Reports about runs that are over or unknown change nothing.
    pub fn started(&mut self, run: &Run, pid: u32, now: Timestamp) {
        let Some(task) = self.agent_task(run) else {
            return self.stray(run);
        };
        if task.phase != Phase::Launching {
            return;
        }
        task.phase = Phase::Running;
        task.pid = pid;
        let skips_starting = task.life.skips_starting;
        if task.place.as_ref().is_some_and(|place| place.is_custom()) {
            // What a custom executor says is its own affair; a virtual one says the least.
            if matches!(self.config.executors, Executors::Virtual(_)) {
                self.executor_says(run, TaskState::TaskRunning, None, now);
            }
            return;
        }
        if !skips_starting {
            self.executor_says(run, TaskState::TaskStarting, None, now);
        }
        self.executor_says(run, TaskState::TaskRunning, None, now);
        self.watch_over(run, now);
    }

    /// Reports that a task has ended.
    pub fn exited(&mut self, run: &Run, exit: &Exit, now: Timestamp) {
        let stopped = self
            .agents
            .get(&run.agent)
            .is_some_and(|agent| agent.stopped_at.is_some());
        let Some(task) = self.agent_task(run) else { return };
        let killed = task.phase == Phase::Killing;
        let began = task.phase != Phase::Launching;
        if task.phase == Phase::Ended {
            return;
        }
        if stopped && began && task.place.is_none() && *exit != Exit::Lost {
            task.phase = Phase::Lost;
            return self.touch(run);
        }
        task.phase = Phase::Ended;
        let end = End::of(task.watch.as_deref(), killed);
        let place = task.place.clone();
        match exit {
            Exit::Code(code) => {
                let message = format!("Command exited with status {code}");
                self.executor_ends_task(run, (&end, *code == 0), message, now);
            }
            Exit::Signal(signal) => {
                let message = format!("Command terminated with signal {}", signal_text(*signal));
                self.executor_ends_task(run, (&end, false), message, now);
            }
            Exit::Lost if !began => {
                let words = "The agent restarted before the task reached its executor";
                self.agent_says(run, TaskState::TaskDropped, (Reason::AgentRestarted, words), now);
            }
            Exit::Lost => self.agent_says(
                run,
                TaskState::TaskFailed,
                (Reason::ExecutorTerminated, "Executor terminated"),
                now,
            ),
            Exit::NotStarted(why) => {
                let message = format!("Failed to launch container: {why}");
                self.agent_says(
                    run,
                    TaskState::TaskFailed,
                    (Reason::ContainerLaunchFailed, &message),
                    now,
                );
            }
        }
        match place {
            Some(place) => {
                let good = !killed && *exit == Exit::Code(0);
                self.leave_executor(run, &place, good, now);
            }
            None if matches!(exit, Exit::Code(_) | Exit::Signal(_)) => self.close_executor(run, now),
            None => {}
        }
    }

    /// Reports what a custom executor says about one of its tasks.
    pub fn reported(&mut self, run: &Run, status: &TaskStatus, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let Some(place) = task.place.clone().filter(|place| place.is_custom()) else {
            return;
        };
        if task.phase == Phase::Ended {
            return;
        }
        let over = is_terminal(status.state());
        if over {
            task.phase = Phase::Ended;
        } else if task.phase == Phase::Launching {
            task.phase = Phase::Running;
        }
        let extra = Extra {
            healthy: status.healthy,
            check_status: status.check_status,
            data: status.data.clone(),
            labels: status.labels.clone(),
        };
        let reason = status.reason.and_then(|reason| Reason::try_from(reason).ok());
        let words = (reason, status.message.clone(), Some(Box::new(extra)));
        self.executor_reports(run, status.state(), words, now);
        if over {
            self.leave_executor(run, &place, true, now);
        }
    }

    fn executor_ends_task(&mut self, run: &Run, (end, good): (&End, bool), message: String, now: Timestamp) {
        let (reason, extra) = (end.reason, end.extra.clone());
        self.executor_reports(run, end.state(good), (reason, Some(message), extra), now);
    }

    /// A process runs that nobody wants any more: its task was killed or forgotten while it started.
    fn stray(&mut self, run: &Run) {
        if matches!(self.config.executors, Executors::External) {
            self.out.push(Output::Kill {
                run: run.clone(),
                grace: Span::ZERO,
            });
        }
    }

    pub(crate) fn executor_says(
        &mut self,
        run: &Run,
        state: TaskState,
        message: Option<String>,
        now: Timestamp,
    ) {
        self.executor_reports(run, state, (None, message, None), now);
    }

    pub(crate) fn executor_reports(
        &mut self,
        run: &Run,
        state: TaskState,
        (reason, message, extra): (Option<Reason>, Option<String>, Option<Box<Extra>>),
        now: Timestamp,
    ) {
        let uuid = self.random.uuid();
        let extra = self.with_check(run, state, extra);
        let (state, drained) = self.while_draining(run, state);
        let update = Update {
            uuid,
            state,
            source: Source::Executor,
            reason: drained.or(reason),
            message,
            at: now,
            extra,
        };
        self.enqueue(run, update, now);
    }

    /// From its start on, every update of a task with a check tells what that said last.
    fn with_check(&mut self, run: &Run, state: TaskState, extra: Option<Box<Extra>>) -> Option<Box<Extra>> {
        let watch = self.agent_task(run).and_then(|task| task.watch.as_deref());
        let Some(check) = watch
            .and_then(Watch::check)
            .filter(|_| state != TaskState::TaskStarting)
        else {
            return extra;
        };
        let mut extra = extra.unwrap_or_default();
        extra.check_status = Some(*check);
        Some(extra)
    }

    pub(crate) fn agent_says(
        &mut self,
        run: &Run,
        state: TaskState,
        (reason, message): (Reason, &str),
        now: Timestamp,
    ) {
        let uuid = self.random.uuid();
        let message = Some(message.to_owned());
        let update = Update {
            uuid,
            state,
            source: Source::Agent,
            reason: Some(reason),
            message,
            at: now,
            extra: None,
        };
        self.enqueue(run, update, now);
    }

    pub(crate) fn virtual_start(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        if task.phase != Phase::Launching {
            return;
        }
        let life = &task.life;
        if let Some(end) = life.ends_at.or(life.runtime.map(|runtime| now.plus(runtime))) {
            self.timers.set(end.max(now), Timer::VirtualEnd(run.clone()));
        }
        self.started(run, 1, now);
    }

    pub(crate) fn virtual_end(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        if matches!(task.phase, Phase::Running | Phase::Killing) {
            let exit = Exit::Code(task.life.exit_code);
            self.exited(run, &exit, now);
        }
    }

    /// A virtual task is told to end: it obeys SIGTERM, or waits for SIGKILL.
    pub(crate) fn virtual_kill(&mut self, run: &Run, how: &Virtual, grace: Span, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let after = if task.life.ignores_term {
            grace
        } else {
            how.term_delay.min(grace)
        };
        self.timers.set(now.plus(after), Timer::VirtualDeath(run.clone()));
    }

    pub(crate) fn virtual_death(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        if task.phase == Phase::Killing {
            let signal = if task.life.ignores_term { SIGKILL } else { SIGTERM };
            self.exited(run, &Exit::Signal(signal), now);
        }
    }
}

/// What an end means, by what came before it.
struct End {
    killed: bool,
    reason: Option<Reason>,
    extra: Option<Box<Extra>>,
}

impl End {
    fn of(watch: Option<&Watch>, killed: bool) -> Self {
        let overdue = watch.is_some_and(|watch| watch.overdue);
        let unhealthy = watch.is_some_and(|watch| watch.condemned);
        let extra = unhealthy.then(|| {
            Box::new(Extra {
                healthy: Some(false),
                ..Extra::default()
            })
        });
        Self {
            // A task that is out of time has failed (rule R89).
            killed: killed && !overdue,
            reason: overdue.then_some(Reason::MaxCompletionTimeReached),
            extra,
        }
    }

    fn state(&self, good: bool) -> TaskState {
        match (self.killed, good && self.reason.is_none()) {
            (true, _) => TaskState::TaskKilled,
            (false, true) => TaskState::TaskFinished,
            (false, false) => TaskState::TaskFailed,
        }
    }
}

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// A signal as the C library describes it, which is how executors report it.
fn signal_text(signal: i32) -> String {
    let text = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        6 => "Aborted",
        8 => "Floating point exception",
        SIGKILL => "Killed",
        11 => "Segmentation fault",
        13 => "Broken pipe",
        14 => "Alarm clock",
        SIGTERM => "Terminated",
        other => return format!("Unknown signal {other}"),
    };
    text.to_owned()
}
