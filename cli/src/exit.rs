//! Exit codes, and how errors become them. Documented in README.md.

use crate::job_file::JobFileError;
use echelon_clients_rust::Error;
use std::fmt;
use tonic::Code;

/// Why a command did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The job or operation failed.
    Failed = 1,
    /// Wrong input.
    Wrong = 2,
    /// What the command names does not exist.
    NotFound = 3,
    /// The state of things does not allow it.
    Conflict = 4,
    /// Nobody answers, or not now.
    Unavailable = 5,
    /// Not allowed.
    Denied = 6,
    /// Interrupted at the keyboard.
    Interrupted = 130,
}

/// A failure: what to say, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What to say on stderr; nothing where everything was said.
    pub message: String,
}

impl Failure {
    /// A failure.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// Wrong input.
    #[must_use]
    pub fn wrong(message: impl Into<String>) -> Self {
        Self::new(Exit::Wrong, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.code() {
            Code::ResourceExhausted if error.is_overload() => Exit::Unavailable,
            Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted => Exit::Wrong,
            Code::NotFound => Exit::NotFound,
            Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => Exit::Conflict,
            Code::Unavailable | Code::DeadlineExceeded => Exit::Unavailable,
            Code::PermissionDenied | Code::Unauthenticated => Exit::Denied,
            _ => Exit::Failed,
        };
        let reason = error.reason().map(|r| format!(" [{r}]")).unwrap_or_default();
        Self {
            exit,
            message: format!("{error}{reason}"),
        }
    }
}

impl From<JobFileError> for Failure {
    fn from(error: JobFileError) -> Self {
        Self::wrong(error.to_string())
    }
}
