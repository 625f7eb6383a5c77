//! One operating-system process under test: started, disturbed, started again, and always ended.
//!
//! `servers/` builds Cassandra, ZooKeeper and Prometheus on it, [`crate::process`] Echelon's own roles.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// Lines of its log that a server shows when it or its test fails.
const TAIL_LINES: usize = 40;

/// What to start, the same at each start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Name for messages, and of the log file.
    pub name: String,
    /// Program, by path or found on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set beside the inherited ones, of which no `ECHELON_*` comes through.
    pub env: Vec<(OsString, OsString)>,
    /// Its current folder, below a [`crate::work::WorkFolder`]; the log is written there as `NAME.log`.
    pub folder: PathBuf,
}

/// A started process. Dropping it kills it; when the test is failing, the end of its log is shown.
pub struct Server {
    launch: Launch,
    log: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts it. Being started says nothing about serving: see [`Server::wait_until`].
    ///
    /// # Errors
    /// The program is missing or the log cannot be written.
    pub fn start(launch: Launch) -> Result<Self> {
        let log = launch.folder.join(format!("{}.log", launch.name));
        let mut server = Self {
            launch,
            log,
            child: None,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Starts it again with the same arguments in the same folder, after it ended or was killed.
    ///
    /// # Errors
    /// It still runs, or cannot be started.
    pub fn start_again(&mut self) -> Result<()> {
        if self.is_running()? {
            bail!("{} runs already", self.launch.name);
        }
        let mut log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        writeln!(log, "--- start of {}", self.launch.name)?;
        let mut command = Command::new(&self.launch.program);
        without_our_variables(&mut command);
        let child = command
            .args(&self.launch.args)
            .envs(self.launch.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.launch.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C ends the test, and the watchdog then ends this: no half-ended server writes into the log
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}: {}", self.launch.name, self.launch.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Whether the process is there, paused ones included.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn is_running(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// Process id, none once it was killed or waited for.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// kill -9, and waits until it is gone: peers see resets, its files stay.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits for that.
    ///
    /// # Errors
    /// It does not run, or has not ended within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_for_end(limit)
    }

    /// Asks it to end (SIGTERM) and does not wait.
    ///
    /// # Errors
    /// It does not run.
    pub fn begin_end(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Interrupts it, as Ctrl-C does (SIGINT), and waits until it has ended.
    ///
    /// # Errors
    /// It does not run, or has not ended within `limit`.
    pub fn interrupt(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::INT)?;
        self.wait_for_end(limit)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It was not started, or has not ended within `limit`.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let name = &self.launch.name;
        let Some(child) = &mut self.child else {
            bail!("{name} does not run")
        };
        let status = wait::until(&format!("the end of {name}"), limit, || Ok(child.try_wait()?))?;
        self.child = None;
        Ok(status)
    }

    /// Stops it in place (SIGSTOP): its sockets stay open and answer nothing, as on a hung machine.
    ///
    /// # Errors
    /// It does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused one go on.
    ///
    /// # Errors
    /// It does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        let Some(child) = &self.child else {
            bail!("{} does not run", self.launch.name)
        };
        let pid = Pid::from_child(child);
        kill_process(pid, signal).with_context(|| format!("signal {signal:?} to {}", self.launch.name))
    }

    /// Polls `look` until it answers with a value, for at most `limit`.
    ///
    /// # Errors
    /// The process ended first, the time is up, or `look` failed; the error carries the end of the log.
    pub fn wait_until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let name = self.launch.name.clone();
        let waited = wait::until(&format!("{what} of {name}"), limit, || {
            if !self.is_running()? {
                bail!("{name} ended before its {what}");
            }
            look()
        });
        waited.with_context(|| format!("end of the log of {name}:\n{}", self.log_tail()))
    }

    /// Its log, standard output and error of all its starts.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(no log at {}: {error})", self.log.display()))
    }

    /// What it was started with.
    #[must_use]
    pub fn launch(&self) -> &Launch {
        &self.launch
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "---- end of the log of {}:\n{}",
                self.launch.name,
                self.log_tail()
            );
        }
        // nobody is left to be told; the watchdog of the work folder looks again
        let _ = self.kill();
    }
}

/// Keeps from `command` every `ECHELON_*` variable of the developer's shell: a test says itself what it sets.
pub fn without_our_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ECHELON_")) {
        command.env_remove(name);
    }
}

fn tail(log: &Path) -> std::io::Result<String> {
    const WINDOW: u64 = 64 * 1024;
    let mut file = File::open(log)?;
    let length = fs::metadata(log)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let skipped = text.lines().count().saturating_sub(TAIL_LINES);
    Ok(text.lines().skip(skipped).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::WorkFolder;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(work: &WorkFolder, script: &str) -> Server {
        let launch = Launch {
            name: "shell".to_owned(),
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("GREETING".into(), "good morning".into())],
            folder: work.path().to_owned(),
        };
        Server::start(launch).unwrap()
    }

    #[test]
    fn one_that_ends_too_early_shows_its_log() {
        let work = WorkFolder::new("server").unwrap();
        let mut server = shell(&work, "echo $GREETING; echo bad configuration >&2; exit 4");
        let error = server.wait_until::<()>("port", LIMIT, || Ok(None)).unwrap_err();
        let text = format!("{error:#}");
        for expected in ["good morning", "bad configuration", "shell ended before its port"] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn is_killed_and_started_again_with_one_log() {
        let work = WorkFolder::new("server").unwrap();
        let mut server = shell(&work, "echo begun >> starts; exec sleep 1000");
        let starts = |n: usize| {
            let path = work.path().join("starts");
            move || {
                Ok(fs::read_to_string(&path)
                    .ok()
                    .filter(|text| text.lines().count() == n))
            }
        };
        server.wait_until("first start", LIMIT, starts(1)).unwrap();
        assert!(server.start_again().is_err(), "started twice");
        server.kill().unwrap();
        assert!(!server.is_running().unwrap());
        server.start_again().unwrap();
        server.wait_until("second start", LIMIT, starts(2)).unwrap();
        assert_eq!(server.log_tail().matches("--- start of shell").count(), 2);
    }

    #[test]
    fn ends_when_asked_and_tells_its_status() {
        let work = WorkFolder::new("server").unwrap();
        let mut server = shell(
            &work,
            "trap 'exit 7' TERM; echo ready > ready; while :; do sleep 0.02; done",
        );
        let ready = work.path().join("ready");
        server
            .wait_until("trap", LIMIT, || Ok(ready.exists().then_some(())))
            .unwrap();
        assert_eq!(server.terminate(LIMIT).unwrap().code(), Some(7));
    }

    #[test]
    fn a_paused_one_does_nothing_until_it_is_resumed() {
        let work = WorkFolder::new("server").unwrap();
        let mut server = shell(&work, "while :; do echo tick >> ticks; sleep 0.01; done");
        let ticks = || fs::read_to_string(work.path().join("ticks")).map_or(0, |text| text.lines().count());
        server
            .wait_until("tick", LIMIT, || Ok((ticks() > 0).then_some(())))
            .unwrap();
        server.pause().unwrap();
        let state = format!("/proc/{}/stat", server.pid().unwrap());
        let stopped = || Ok(fs::read_to_string(&state)?.contains(") T ").then_some(()));
        server.wait_until("stop", LIMIT, stopped).unwrap();
        let before = ticks();
        server.resume().unwrap();
        server
            .wait_until("further tick", LIMIT, || Ok((ticks() > before).then_some(())))
            .unwrap();
    }
}
