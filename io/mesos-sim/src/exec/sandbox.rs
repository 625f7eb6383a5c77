//! The folder of one run: the task's own files beside `stdout` and `stderr`, and in `.supervisor` what the supervisor
//! is told and tells. Every file there appears whole or not at all.

use super::account::Account;
use super::fetch::File;
use super::probe::{Heard, Kind, Probe};
use super::process::Process;
use super::run_log::RunLog;
use echelon_sim_mesos::{AgentId, ExecutorRun, Run, TaskId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the supervisor is to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Program and arguments.
    pub program: Vec<String>,
    /// The user that it is run as; `None`: that of the supervisor.
    pub account: Option<Account>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// From SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// What is put into the sandbox first.
    pub files: Vec<File>,
    /// What is asked of the task while it runs.
    pub probes: Vec<Probe>,
    /// Where its begin and end are noted.
    pub log: Option<RunLog>,
}

/// What the supervisor has started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Started {
    pub supervisor: Process,
    pub task: Process,
}

/// How it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    NotStarted(String),
}

/// The folder of a run.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox(PathBuf);

impl Sandbox {
    /// The folder of an agent below a work folder.
    pub(crate) fn agent_folder(work_dir: &Path, agent: &AgentId) -> PathBuf {
        work_dir.join("agents").join(agent.as_str())
    }

    /// The folder of a run, as Mesos lays it out: a command task's executor has the task's name.
    pub(crate) fn of(work_dir: &Path, run: &Run) -> Self {
        let executor = Self::agent_folder(work_dir, &run.agent)
            .join("frameworks")
            .join(run.framework.as_str())
            .join("executors")
            .join(run.task.as_str());
        Self(executor.join("runs").join(run.container.to_string()))
    }

    /// The folder that a supervisor was given.
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder and lets `latest` beside it point to it.
    pub(crate) fn create(&self) -> io::Result<()> {
        fs::create_dir_all(self.0.join(".supervisor"))?;
        let (Some(runs), Some(name)) = (self.0.parent(), self.0.file_name()) else {
            return Ok(());
        };
        self.point(runs, "latest", Path::new(name))
    }

    /// Lets it be found below its executor's folder, too, which is where the default executor has the folders of a group's tasks:
    /// `tasks/<task>`.
    pub(crate) fn show_in(&self, work_dir: &Path, executor: &ExecutorRun, task: &TaskId) -> io::Result<()> {
        let runs = Self::agent_folder(work_dir, &executor.agent)
            .join("frameworks")
            .join(executor.framework.as_str())
            .join("executors")
            .join(executor.executor.to_string())
            .join("runs");
        let container = executor.container.to_string();
        let tasks = runs.join(&container).join("tasks");
        fs::create_dir_all(&tasks)?;
        self.point(&tasks, task.as_str(), &self.0.canonicalize()?)?;
        self.point(&runs, "latest", Path::new(&container))
    }

    /// Lets a name in a folder lead to something, from one moment to the next. Others may do so at the same time.
    fn point(&self, folder: &Path, name: &str, to: &Path) -> io::Result<()> {
        let by = self.0.file_name().unwrap_or_default().to_string_lossy();
        let fresh = folder.join(format!(".{name}.{by}"));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(to, &fresh)?;
        fs::rename(fresh, folder.join(name))
    }

    /// Lets a task see a folder under a path of its sandbox. An absolute path needs a file system of its own, which no task has
    /// here.
    pub(crate) fn mount(&self, folder: &Path, path: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let at = self.0.join(path.trim_start_matches('/'));
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(fs::canonicalize(folder)?, at)
    }

    pub(crate) fn give_order(&self, order: &Order) -> io::Result<()> {
        self.write("order", order)
    }

    pub(crate) fn order(&self) -> io::Result<Order> {
        self.read("order")
    }

    pub(crate) fn tell_started(&self, started: &Started) -> io::Result<()> {
        self.write("started", started)
    }

    pub(crate) fn started(&self) -> Option<Started> {
        self.read("started").ok()
    }

    pub(crate) fn tell_heard(&self, kind: Kind, heard: &Heard) -> io::Result<()> {
        self.write(kind.word(), heard)
    }

    pub(crate) fn heard(&self, kind: Kind) -> Option<Heard> {
        self.read(kind.word()).ok()
    }

    pub(crate) fn tell_ended(&self, ended: &Ended) -> io::Result<()> {
        self.write("ended", ended)
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.read("ended").ok()
    }

    /// The task gets no more grace than this, from when its supervisor is next asked to end it.
    pub(crate) fn limit_grace(&self, grace_ms: u64) -> io::Result<()> {
        self.write("grace", &grace_ms)
    }

    pub(crate) fn grace_limit(&self) -> Option<u64> {
        self.read("grace").ok()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(".supervisor").join(name)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let fresh = self.file(&format!("{name}.new"));
        fs::write(&fresh, serde_json::to_vec(value)?)?;
        fs::rename(fresh, self.file(name))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs::read(self.file(name))?)?)
    }
}
