//! What executors report: a task runs, a task has ended. Reports come from outside, or from timers where tasks are
//! virtual (S13).

use crate::agent::{Phase, Update};
use crate::cluster::Cluster;
use crate::config::{Executors, Virtual};
use crate::id::Run;
use crate::output::Output;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::{Reason, Source};

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
        self.executor_says(run, TaskState::TaskStarting, None, now);
        self.executor_says(run, TaskState::TaskRunning, None, now);
    }

    /// Reports that a task has ended.
    pub fn exited(&mut self, run: &Run, exit: &Exit, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let killed = task.phase == Phase::Killing;
        let began = task.phase != Phase::Launching;
        if task.phase == Phase::Ended {
            return;
        }
        task.phase = Phase::Ended;
        let ended = |good: bool| match (killed, good) {
            (true, _) => TaskState::TaskKilled,
            (false, true) => TaskState::TaskFinished,
            (false, false) => TaskState::TaskFailed,
        };
        match exit {
            Exit::Code(code) => {
                let message = format!("Command exited with status {code}");
                self.executor_says(run, ended(*code == 0), Some(message), now);
            }
            Exit::Signal(signal) => {
                let message = format!("Command terminated with signal {}", signal_text(*signal));
                self.executor_says(run, ended(false), Some(message), now);
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
        let uuid = self.random.uuid();
        let (state, reason) = self.while_draining(run, state);
        let update = Update {
            uuid,
            state,
            source: Source::Executor,
            reason,
            message,
            at: now,
        };
        self.enqueue(run, update, now);
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
        };
        self.enqueue(run, update, now);
    }

    pub(crate) fn virtual_start(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        if task.phase != Phase::Launching {
            return;
        }
        if let Some(runtime) = task.life.runtime {
            self.timers.set(now.plus(runtime), Timer::VirtualEnd(run.clone()));
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
    pub(crate) fn virtual_kill(&mut self, run: &Run, how: &Virtual, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let after = if task.life.ignores_term {
            task.grace
        } else {
            how.term_delay.min(task.grace)
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
