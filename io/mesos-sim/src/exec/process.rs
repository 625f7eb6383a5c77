//! Which process is which: a pid with the moment of its start, since pids are used again.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// A process that may be gone by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub pid: u32,
    /// When it started, in the system's own words.
    pub started: String,
}

impl Process {
    /// The process that has this pid now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        start_of(pid).map(|started| Self { pid, started })
    }

    /// Whether the very same process still runs.
    pub(crate) fn lives(&self) -> bool {
        start_of(self.pid).is_some_and(|started| started == self.started)
    }

    /// Sends SIGTERM to it, if it still is the same.
    pub(crate) fn terminate(&self) {
        if let Some(pid) = pid_of(self.pid).filter(|_| self.lives()) {
            // It may end between the check and the signal, which comes to the same.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Sends SIGKILL to it and its process group, if it still is the same.
    pub(crate) fn kill_group(&self) {
        if let Some(pid) = pid_of(self.pid).filter(|_| self.lives()) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// A pid as the system calls take it.
pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// When a process started; `None` when there is none, or only its remains.
fn start_of(pid: u32) -> Option<String> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => start_in_stat(&stat),
        Err(_) if std::path::Path::new("/proc/self/stat").exists() => None,
        // No /proc here, as on macOS.
        Err(_) => start_by_ps(pid),
    }
}

/// Field 22 of the line, counted behind the name in parentheses, which may hold anything.
fn start_in_stat(stat: &str) -> Option<String> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{} {started}", boot()))
}

/// Ticks count from the machine's start, so the start is part of the moment.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn start_by_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps")
        .args(["-o", "state=,lstart=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty() && !text.starts_with('Z'))
        .then(|| text.split_once(' ').map(|(_, started)| started.trim().to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.lives());
        let older = Process {
            started: "long ago".to_owned(),
            ..own
        };
        assert!(!older.lives());
        older.kill_group();
    }

    #[test]
    fn remains_of_a_process_do_not_live() {
        let mut child = Command::new("sh").args(["-c", "exit 0"]).spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Process::of(child.id()), None);
        assert_eq!(
            start_in_stat("7 (a) b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"),
            None
        );
        let line = "7 (a) b) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23";
        assert!(start_in_stat(line).unwrap().ends_with(" 22"));
    }
}
