//! File descriptors of this process: each connection takes one, and a process without any answers nothing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, if it is lower.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => tracing::debug!(from = ?current, to = ?maximum, "raised the limit of descriptors"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of descriptors; it stays as it is"),
    }
}

/// How many descriptors this process may have open.
#[must_use]
pub fn open_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
