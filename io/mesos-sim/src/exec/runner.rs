//! Starts supervisors, watches what they tell, and asks them to end tasks. After a restart it watches those that an
//! older process started.

use super::account::Account;
use super::fetch::File as Fetched;
use super::probe::{self, Answer, Kind, Probe};
use super::process::Process;
use super::refusal;
use super::run_log::RunLog;
use super::sandbox::{Ended, Order, Sandbox};
use crate::config::Exec;
use crate::engine::Engine;
use echelon_proto::mesos::v1::scheduler::Event;
use echelon_proto::mesos::v1::task_status::Source;
use echelon_proto::mesos::v1::{
    CheckStatusInfo, ExecutorInfo, TaskState, check_info, check_status_info, executor_info,
};
use echelon_sim_mesos::Span;
use echelon_sim_mesos::{Exit, Launch, Run};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};

/// How often a sandbox is looked at. A task's start and end are seen this late at most.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Variables of this process that tasks get; all others come with the command.
const INHERITED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ"];

pub(crate) struct Runner {
    config: Exec,
    runs: Mutex<BTreeMap<Run, Slot>>,
}

/// A run that has not ended.
enum Slot {
    /// Its supervisor is being started; it may already be unwanted.
    Starting { unwanted: bool },
    /// It has a supervisor.
    Supervised(Process),
}

impl Runner {
    pub(crate) fn new(config: Exec) -> Self {
        Self {
            config,
            runs: Mutex::new(BTreeMap::new()),
        }
    }

    /// Starts a run's supervisor, and watches it until its end is reported.
    pub(crate) fn launch(&self, engine: &Arc<Engine>, launch: &Launch) {
        self.lock()
            .insert(launch.run.clone(), Slot::Starting { unwanted: false });
        let (engine, launch) = (engine.clone(), launch.clone());
        let shutdown = engine.shutdown.clone();
        shutdown.spawn(async move {
            let Some(runner) = &engine.runner else { return };
            let account = match refusal::of(&launch).map_or_else(|| Account::of(&launch.command), Err) {
                Ok(account) => account,
                Err(why) => {
                    runner.forget(&launch.run);
                    engine.with(|cluster, now| cluster.exited(&launch.run, &Exit::NotStarted(why), now));
                    return;
                }
            };
            match runner.start(&launch, account) {
                Ok(child) => runner.watch(&engine, &launch.run, Some(child)).await,
                Err(error) => {
                    let exit = Exit::NotStarted(format!("cannot start a supervisor: {error}"));
                    runner.forget(&launch.run);
                    engine.with(|cluster, now| cluster.exited(&launch.run, &exit, now));
                }
            }
        });
    }

    /// Settles a run that an older process left: `true` when it is watched on.
    pub(crate) fn adopt(&self, engine: &Arc<Engine>, run: &Run) -> bool {
        let sandbox = Sandbox::of(&self.config.work_dir, run);
        let supervisor = sandbox.started().map(|started| started.supervisor);
        if let Some(started) = sandbox.started() {
            engine.with(|cluster, now| cluster.started(run, started.task.pid, now));
        }
        if let Some(supervisor) = supervisor.filter(Process::lives) {
            self.lock().insert(run.clone(), Slot::Supervised(supervisor));
            let (engine, run) = (engine.clone(), run.clone());
            let shutdown = engine.shutdown.clone();
            shutdown.spawn(async move {
                if let Some(runner) = &engine.runner {
                    runner.watch(&engine, &run, None).await;
                }
            });
            return true;
        }
        self.settle(engine, run, &sandbox);
        false
    }

    /// Asks for the end of a run; with no grace at once.
    pub(crate) fn kill(&self, run: &Run, grace: Span) {
        match self.lock().get_mut(run) {
            Some(Slot::Starting { unwanted }) => *unwanted = true,
            Some(Slot::Supervised(supervisor)) => self.end(run, supervisor, grace),
            // It has ended, which came before its KILL.
            None => {}
        }
    }

    fn end(&self, run: &Run, supervisor: &Process, grace: Span) {
        if let Err(error) = Sandbox::of(&self.config.work_dir, run).limit_grace(grace.0) {
            tracing::warn!(%error, task = run.task.as_str(), "cannot limit a task's grace; it keeps its own");
        }
        supervisor.terminate();
    }

    /// Logs a task that its agent tells to have dropped.
    /// It is logged again with each repetition of that update.
    pub(crate) fn note_dropped(&self, event: &Event) {
        let Some(path) = &self.config.run_log else { return };
        let Some(status) = event.update.as_ref().map(|update| &update.status) else {
            return;
        };
        if status.state() != TaskState::TaskDropped || status.source() != Source::Agent {
            return;
        }
        let (Some(agent), Some(why)) = (&status.agent_id, &status.message) else {
            return;
        };
        let log = RunLog {
            path: path.clone(),
            task: status.task_id.value.clone(),
            agent: agent.value.clone(),
        };
        if let Err(error) = log.ended(Some(&Ended::NotStarted(why.clone()))) {
            tracing::warn!(task = log.task, %error, "cannot log that a task was dropped");
        }
    }

    fn log(&self, run: &Run) -> Option<RunLog> {
        self.config.run_log.as_ref().map(|path| RunLog {
            path: path.clone(),
            task: run.task.to_string(),
            agent: run.agent.to_string(),
        })
    }

    /// Where what is in a volume is kept.
    fn volume(&self, id: &str) -> PathBuf {
        self.config.work_dir.join("volumes").join(id)
    }

    /// Removes what is in a volume.
    pub(crate) fn destroy(&self, id: &str) {
        if let Err(error) = std::fs::remove_dir_all(self.volume(id))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, volume = id, "cannot remove a destroyed volume");
        }
    }

    fn start(&self, launch: &Launch, account: Option<Account>) -> io::Result<Child> {
        let sandbox = Sandbox::of(&self.config.work_dir, &launch.run);
        sandbox.create()?;
        for (id, path) in &launch.volumes {
            sandbox.mount(&self.volume(id), path)?;
            if let Some(account) = &account {
                account.own(&self.volume(id))?;
            }
        }
        if let Some((executor, _)) = &launch.executor {
            sandbox.show_in(&self.config.work_dir, executor, &launch.run.task)?;
        }
        sandbox.give_order(&Order {
            program: probe::words(&launch.command),
            environment: environment(launch, &sandbox, account.as_ref()),
            account,
            grace_ms: launch.grace.0,
            files: launch.command.uris.iter().map(Fetched::from).collect(),
            probes: probes(launch),
            log: self.log(&launch.run),
        })?;
        let (program, arguments) = self.config.supervisor.split_first().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the configuration names no supervisor program",
            )
        })?;
        let child = Command::new(program)
            .args(arguments)
            .arg(sandbox.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(sandbox.file("log"))?)
            .spawn()?;
        let supervisor = child.id().and_then(Process::of);
        let mut runs = self.lock();
        let unwanted = matches!(runs.get(&launch.run), Some(Slot::Starting { unwanted: true }));
        if let Some(supervisor) = supervisor {
            if unwanted {
                self.end(&launch.run, &supervisor, Span::ZERO);
            }
            runs.insert(launch.run.clone(), Slot::Supervised(supervisor));
        }
        Ok(child)
    }

    /// Looks at a run until it has ended or this process ends.
    async fn watch(&self, engine: &Arc<Engine>, run: &Run, mut child: Option<Child>) {
        let sandbox = Sandbox::of(&self.config.work_dir, run);
        let token = engine.shutdown.token();
        let mut told = false;
        let mut ear = Ear::default();
        loop {
            let lives = match &mut child {
                Some(child) => matches!(child.try_wait(), Ok(None)),
                None => matches!(self.lock().get(run), Some(Slot::Supervised(process)) if process.lives()),
            };
            if !told && let Some(started) = sandbox.started() {
                told = true;
                engine.with(|cluster, now| cluster.started(run, started.task.pid, now));
            }
            if told {
                ear.listen(engine, run, &sandbox);
            }
            if sandbox.ended().is_some() || !lives {
                self.forget(run);
                return self.settle(engine, run, &sandbox);
            }
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Reports how a run ended. Where its supervisor died first, the task is ended: nobody would ever hear of it.
    fn settle(&self, engine: &Arc<Engine>, run: &Run, sandbox: &Sandbox) {
        let exit = match sandbox.ended() {
            Some(Ended::Code(code)) => Exit::Code(code),
            Some(Ended::Signal(signal)) => Exit::Signal(signal),
            Some(Ended::NotStarted(why)) => Exit::NotStarted(why),
            None => {
                sandbox
                    .started()
                    .iter()
                    .for_each(|started| started.task.kill_group());
                if let Some(Err(error)) = self.log(run).map(|log| log.ended(None)) {
                    tracing::warn!(%error, task = run.task.as_str(), "cannot note the end of a task");
                }
                Exit::Lost
            }
        };
        engine.with(|cluster, now| cluster.exited(run, &exit, now));
    }

    fn forget(&self, run: &Run) {
        self.lock().remove(run);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Run, Slot>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of the probes' answers has been reported.
#[derive(Default)]
struct Ear {
    health: u64,
    check: u64,
}

impl Ear {
    /// Reports what is new. Each failure counts, also where several came between two looks.
    fn listen(&mut self, engine: &Arc<Engine>, run: &Run, sandbox: &Sandbox) {
        if let Some(heard) = sandbox.heard(Kind::Health).filter(|h| h.count > self.health) {
            for _ in self.health..heard.count {
                engine.with(|cluster, now| cluster.checked(run, heard.answer.is_good(), now));
            }
            self.health = heard.count;
        }
        if let Some(heard) = sandbox.heard(Kind::Check).filter(|h| h.count > self.check) {
            self.check = heard.count;
            if let Some(status) = check_status(&heard.answer) {
                engine.with(|cluster, now| cluster.check_said(run, status, now));
            }
        }
    }
}

/// What a check's answer is in an update. A check that gets no answer has nothing new to tell.
fn check_status(answer: &Answer) -> Option<CheckStatusInfo> {
    let of = |kind: check_info::Type| CheckStatusInfo {
        r#type: Some(kind.into()),
        ..CheckStatusInfo::default()
    };
    Some(match answer {
        Answer::Exit(code) => CheckStatusInfo {
            command: Some(check_status_info::Command {
                exit_code: Some(*code),
            }),
            ..of(check_info::Type::Command)
        },
        Answer::Status(status) => CheckStatusInfo {
            http: Some(check_status_info::Http {
                status_code: Some((*status).into()),
            }),
            ..of(check_info::Type::Http)
        },
        Answer::Connected(yes) => CheckStatusInfo {
            tcp: Some(check_status_info::Tcp {
                succeeded: Some(*yes),
            }),
            ..of(check_info::Type::Tcp)
        },
        Answer::Nothing => return None,
    })
}

fn probes(launch: &Launch) -> Vec<Probe> {
    let health = launch.health_check.as_ref().and_then(Probe::of_health);
    let check = launch.check.as_ref().and_then(Probe::of_check);
    health.into_iter().chain(check).collect()
}

/// Tasks of a default executor are run like others: it is no process here.
pub(super) fn is_default(info: &ExecutorInfo) -> bool {
    info.r#type() == executor_info::Type::Default
}

fn environment(launch: &Launch, sandbox: &Sandbox, account: Option<&Account>) -> BTreeMap<String, String> {
    let run = &launch.run;
    let inherited = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    // The home of this process's user is not that of another one.
    let of_account = account.into_iter().flat_map(|account| {
        let home = sandbox.path().display().to_string();
        [
            ("HOME", home),
            ("USER", account.name.clone()),
            ("LOGNAME", account.name.clone()),
        ]
    });
    let of_account = of_account.map(|(name, value)| (name.to_owned(), value));
    let shared = launch.executor.as_ref();
    let executor = shared.map_or_else(|| run.task.to_string(), |(e, _)| e.executor.to_string());
    let of_mesos = [
        ("MESOS_SANDBOX", sandbox.path().display().to_string()),
        ("MESOS_DIRECTORY", sandbox.path().display().to_string()),
        ("MESOS_TASK_ID", run.task.to_string()),
        ("MESOS_EXECUTOR_ID", executor),
        ("MESOS_FRAMEWORK_ID", run.framework.to_string()),
        ("MESOS_AGENT_ID", run.agent.to_string()),
        ("MESOS_SLAVE_ID", run.agent.to_string()),
        ("MESOS_CONTAINER_ID", run.container.to_string()),
    ];
    let of_mesos = of_mesos.into_iter().map(|(name, value)| (name.to_owned(), value));
    let variables = launch
        .command
        .environment
        .iter()
        .flat_map(|environment| &environment.variables);
    let own = variables.filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)));
    inherited.chain(of_account).chain(of_mesos).chain(own).collect()
}
