//! The loss of all hosts of a cluster at once: what ran there is gone and reports nothing.

use super::sandbox::Sandbox;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Within this time a new supervisor has noted its task, and what was killed is gone, also on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What was found of the runs of a work folder.
#[derive(Debug, Default)]
struct RunsFound {
    /// Runs of which a process lived and was killed.
    n_killed: usize,
    /// Runs whose supervisor has not noted yet what it started.
    n_starting: usize,
}

/// Kills every process that was started from a work folder, and waits until all are gone. Returns how many
/// runs lived.
///
/// # Errors
/// The folder cannot be read, or a process is still there after 5 s.
pub(crate) async fn kill_all(work_dir: &Path) -> io::Result<usize> {
    let until = Instant::now() + GONE_WITHIN;
    let mut n_runs = 0;
    loop {
        let found = kill_once(work_dir)?;
        n_runs = n_runs.max(found.n_killed);
        if found.n_killed == 0 && found.n_starting == 0 {
            return Ok(n_runs);
        }
        if Instant::now() >= until {
            // A supervisor that was killed before its first note never writes one.
            return match found.n_killed {
                0 => Ok(n_runs),
                n => Err(io::Error::other(format!("{n} tasks live on after SIGKILL"))),
            };
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn kill_once(work_dir: &Path) -> io::Result<RunsFound> {
    let mut found = RunsFound::default();
    for folder in runs(work_dir)? {
        let sandbox = Sandbox::at(folder);
        let Some(started) = sandbox.started() else {
            let is_starting = sandbox.order().is_ok() && sandbox.ended().is_none();
            found.n_starting += usize::from(is_starting);
            continue;
        };
        if started.supervisor.lives() || started.task.lives() {
            found.n_killed += 1;
            // The supervisor goes first, so that no end is noted.
            started.supervisor.kill_group();
            started.task.kill_group();
        }
    }
    Ok(found)
}

/// The folders of all runs below a work folder.
fn runs(work_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![work_dir.to_owned()];
    for level in ["agents", "frameworks", "executors", "runs"] {
        let mut next = Vec::new();
        for folder in &folders {
            next.extend(folders_in(&folder.join(level))?);
        }
        folders = next;
    }
    Ok(folders)
}

/// The folders in a folder, without those that links lead to. A folder that is not there has none.
fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            out.push(entry.path());
        }
    }
    Ok(out)
}
