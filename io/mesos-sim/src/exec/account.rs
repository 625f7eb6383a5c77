//! The user that a task is to run as. Only a process of root can start others as somebody else.

use echelon_proto::mesos::v1::CommandInfo;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::process::Command;
use tokio::process::Command as Task;

/// A user of this machine other than that of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub name: String,
    uid: u32,
    gid: u32,
}

impl Account {
    /// The user that a command names; `None` where it names none, or that of this process.
    ///
    /// # Errors
    /// There is no such user, or this process may not start anything as it.
    pub(crate) fn of(command: &CommandInfo) -> Result<Option<Self>, String> {
        let Some(name) = &command.user else {
            return Ok(None);
        };
        let cannot = |why: &str| format!("the simulated agent cannot run tasks as user `{name}`: {why}");
        let ids = id("-u", name).zip(id("-g", name));
        let Some((uid, gid)) = ids else {
            return Err(cannot("there is no such user on this machine"));
        };
        if uid == geteuid().as_raw() {
            return Ok(None);
        }
        if !geteuid().is_root() {
            return Err(cannot(
                "it was not started as root, so it runs tasks as its own user only",
            ));
        }
        let name = name.clone();
        Ok(Some(Self { name, uid, gid }))
    }

    /// Starts a command as this user, in none of the groups of this process.
    pub(crate) fn run_as<'a>(&self, task: &'a mut Task) -> &'a mut Task {
        task.uid(self.uid).gid(self.gid)
    }

    /// Gives it what a sandbox holds, except what is the supervisor's. Links are given and not followed.
    pub(crate) fn own(&self, path: &Path) -> io::Result<()> {
        lchown(path, Some(self.uid), Some(self.gid))?;
        if !path.symlink_metadata()?.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name() != ".supervisor" {
                self.own(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// A number of a user, as the system knows it.
fn id(which: &str, name: &str) -> Option<u32> {
    let told = Command::new("id").args([which, "--", name]).output().ok()?;
    let text = told.status.success().then_some(told.stdout)?;
    String::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_name_and_an_option_is_none() {
        assert_eq!(id("-u", "root"), Some(0));
        assert_eq!(id("-u", "no-such-user-here"), None);
        assert_eq!(id("-u", "--help"), None);
    }
}
