//! A test's work folder, and the leash by which everything that was started in it dies with the test.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Set to anything, it keeps the work folders of finished tests, to be read.
pub const KEEP: &str = "ECHELON_KEEP_WORK";

/// A folder of its own for one test, below the system's folder for temporary files.
///
/// When it is dropped, or when the test process ends in whatever way (a panic, kill -9, the end of a binary with shared
/// servers in statics), every process whose current folder is below it is killed, and the folder is removed. A small
/// shell process waits for that on the other end of a pipe, since a killed process cleans up nothing itself. So what a test
/// starts must run in [`WorkFolder::path`] or below; [`crate::server::Server`] sees to it.
pub struct WorkFolder {
    path: PathBuf,
    watchdog: Child,
}

impl WorkFolder {
    /// Makes the folder; `purpose` becomes part of its name.
    ///
    /// # Errors
    /// The folder or the watchdog cannot be made, or there is no /proc to find processes by.
    pub fn new(purpose: &str) -> Result<Self> {
        ensure!(
            Path::new("/proc/self/cwd").exists(),
            "tests with servers need Linux: they find processes in /proc"
        );
        let folder = tempfile::Builder::new()
            .prefix(&format!("echelon-{purpose}-"))
            .tempdir()?;
        let path = folder.path().canonicalize()?;
        let watchdog = Command::new("sh")
            .args(["-c", include_str!("../servers/watchdog.sh"), "watchdog"])
            .arg(&path)
            .arg(if std::env::var_os(KEEP).is_some() {
                "keep"
            } else {
                "remove"
            })
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal goes to the whole group: the watchdog must outlive it
            .process_group(0)
            .spawn()
            .context("start the watchdog of a work folder")?;
        // from here on the watchdog removes it
        let _ = folder.keep();
        Ok(Self { path, watchdog })
    }

    /// The folder, absolute and without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder `name` below it, made when it is not there.
    ///
    /// # Errors
    /// The file system's.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_in_it_dies_with_it() {
        let work = WorkFolder::new("leash").unwrap();
        let below = work.folder("deep/er").unwrap();
        // a child that starts a grandchild and ignores every polite signal
        let script = "trap '' TERM INT HUP; sleep 1000 & echo $! > child; wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .current_dir(&below)
            .spawn()
            .unwrap();
        let note = below.join("child");
        let grandchild = crate::wait::until("the grandchild", std::time::Duration::from_secs(10), || {
            Ok(fs::read_to_string(&note).ok().filter(|pid| pid.ends_with('\n')))
        });
        let grandchild = grandchild.unwrap().trim().to_owned();
        let folder = work.path().to_owned();
        drop(work);
        assert!(!child.wait().unwrap().success());
        assert!(!Path::new("/proc").join(grandchild).join("cwd").exists());
        assert!(!folder.exists());
    }
}
