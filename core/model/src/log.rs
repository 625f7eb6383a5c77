//! What is kept of what runs have written, once they have ended: the ends of their outputs, so that logs answer after the loss of a
//! host or a cluster. One row for each task of a run; one row for each job at a cluster lists the runs; and what was not kept
//! because too many ended at once is told by the shard's own row.

mod kept;

pub use kept::{KeptRun, KeptRuns, LogGap};

use crate::id::{SidecarName, TaskId};
use crate::pod::MemberId;
use crate::time::{Span, Timestamp};
use std::fmt;
use std::sync::Arc;

/// How long what is kept stays in storage.
pub const LOGS_KEPT: Span = Span::minutes(7 * 24 * 60);

/// Most bytes of one output that can be kept: a row has two of them, and storage takes rows of 512 KiB.
pub const MAX_TAIL: u64 = 192 * 1024;

/// Why the end of an output is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NoTail {
    /// The sandbox has no such file.
    NoFile = 1,
    /// The host's agent did not answer.
    AgentSilent = 2,
    /// The host's agent refused, or gave no sensible answer.
    AgentRefused = 3,
    /// Nobody knew where the host's agent listens.
    AgentUnknown = 4,
}

impl NoTail {
    /// All of them, in order of number.
    pub const ALL: [Self; 4] = [
        Self::NoFile,
        Self::AgentSilent,
        Self::AgentRefused,
        Self::AgentUnknown,
    ];

    /// The one of a stored number.
    #[must_use]
    pub fn from_number(n: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|why| u32::from(why.number()) == n)
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it may be otherwise in a moment.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::AgentSilent | Self::AgentUnknown)
    }

    /// The word of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoFile => "no_file",
            Self::AgentSilent => "agent_silent",
            Self::AgentRefused => "agent_refused",
            Self::AgentUnknown => "agent_unknown",
        }
    }
}

impl fmt::Display for NoTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFile => "its sandbox had no such file",
            Self::AgentSilent => "its host did not answer",
            Self::AgentRefused => "its host's agent refused to let it be read",
            Self::AgentUnknown => "it was not known where its host's agent listens",
        })
    }
}

/// The end of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Its last bytes, any bytes; all of them where `size` is their number.
    Read {
        /// The bytes.
        bytes: Arc<[u8]>,
        /// Length of the whole output.
        size: u64,
    },
    /// It could not be read.
    Missing(NoTail),
}

impl Tail {
    /// Bytes that are there.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Read { bytes, .. } => size_of(bytes),
            Self::Missing(_) => 0,
        }
    }

    /// Whether no bytes are there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same, of at most so many bytes: the last ones.
    #[must_use]
    pub fn within(self, most: u64) -> Self {
        match self {
            Self::Read { bytes, size } if size_of(&bytes) > most => {
                let cut = usize::try_from(size_of(&bytes) - most).unwrap_or(usize::MAX);
                let bytes = bytes.get(cut..).unwrap_or_default().into();
                Self::Read { bytes, size }
            }
            short => short,
        }
    }

    /// Why it is not there, if it is not.
    #[must_use]
    pub const fn missing(&self) -> Option<NoTail> {
        match self {
            Self::Read { .. } => None,
            Self::Missing(why) => Some(*why),
        }
    }
}

fn size_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The ends of both outputs of one task of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tails {
    /// Whose; `None`: the main task's.
    pub sidecar: Option<SidecarName>,
    /// Of its standard output.
    pub stdout: Tail,
    /// Of its standard error.
    pub stderr: Tail,
}

impl Tails {
    /// Both missing for one reason.
    #[must_use]
    pub const fn missing(sidecar: Option<SidecarName>, why: NoTail) -> Self {
        Self {
            sidecar,
            stdout: Tail::Missing(why),
            stderr: Tail::Missing(why),
        }
    }

    /// The same, of at most so many bytes of each.
    #[must_use]
    pub fn within(self, most: u64) -> Self {
        Self {
            stdout: self.stdout.within(most),
            stderr: self.stderr.within(most),
            ..self
        }
    }

    /// Bytes that are there.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stdout.len().saturating_add(self.stderr.len())
    }

    /// Whether no bytes are there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is kept of one task of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLog {
    /// The run.
    pub run: TaskId,
    /// When it was read.
    pub at: Timestamp,
    /// The host's name, for people.
    pub hostname: Arc<str>,
    /// What was read.
    pub tails: Tails,
}

impl KeptLog {
    /// The task that wrote it.
    #[must_use]
    pub fn task(&self) -> MemberId {
        MemberId {
            run: self.run.clone(),
            sidecar: self.tails.sidecar.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_cut_in_front_and_only_where_it_is_too_long() {
        let tail = |text: &[u8]| Tail::Read {
            bytes: text.into(),
            size: 10,
        };
        assert_eq!(tail(b"abc").within(3), tail(b"abc"));
        assert_eq!(tail(b"\xffbc").within(2), tail(b"bc"));
        assert_eq!(tail(b"abc").within(0), tail(b""));
        assert_eq!(tail(b"").within(3), tail(b""));
    }

    #[test]
    fn numbers_of_reasons_read_back() {
        for why in NoTail::ALL {
            assert_eq!(NoTail::from_number(why.number().into()), Some(why));
        }
        assert_eq!(NoTail::from_number(0), None);
    }
}
