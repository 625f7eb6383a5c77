//! The rules by which runs and instances end, as a specification names them.

use crate::Amount;
use crate::id::{GroupName, JobId};
use crate::range::RangeSet;
use crate::schedule::Schedule;
use crate::time::Span;
use std::collections::BTreeMap;
use std::fmt;

/// Exit statuses of a command, 0 to 255, as a set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExitCodes([u64; 4]);

impl ExitCodes {
    /// None of them.
    pub const NONE: Self = Self([0; 4]);

    /// Puts one in.
    pub fn insert(&mut self, code: u8) {
        let (word, bit) = (usize::from(code / 64), code % 64);
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    /// Whether a status, as it was told of a run, is one of them.
    #[must_use]
    pub fn contains(&self, code: i32) -> bool {
        u8::try_from(code).is_ok_and(|code| self.iter().any(|c| c == code))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let words = self.0;
        (0..=u8::MAX).filter(move |code| {
            let word = words.get(usize::from(code / 64)).copied().unwrap_or_default();
            word >> (code % 64) & 1 == 1
        })
    }
}

impl FromIterator<u8> for ExitCodes {
    fn from_iter<I: IntoIterator<Item = u8>>(codes: I) -> Self {
        let mut out = Self::NONE;
        codes.into_iter().for_each(|code| out.insert(code));
        out
    }
}

impl fmt::Debug for ExitCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What follows the end of a run of a batch job. Runs of other kinds are always followed by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Restart {
    /// A failed run is tried again, as `retry` says; one that succeeds ends its instance.
    #[default]
    OnFailure,
    /// Another run, whatever it ended with, until the job ends: for what serves the job's other groups. The job does not wait for it.
    Always,
    /// Nothing: one run that fails, or succeeds, ends its instance.
    Never,
}

impl Restart {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OnFailure, Self::Always, Self::Never];

    /// The word of job files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OnFailure => "on-failure",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// When a job has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Completion {
    /// When every instance has.
    #[default]
    All,
    /// When so many instances have; the rest is stopped.
    Successes(u64),
}

impl Completion {
    /// How many of so many instances have to succeed.
    #[must_use]
    pub fn needed(self, of: u64) -> u64 {
        match self {
            Self::All => of,
            Self::Successes(n) => n.min(of),
        }
    }
}

/// What another job has to have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Condition {
    /// It has succeeded.
    #[default]
    Succeeded,
    /// It has ended, however.
    Ended,
    /// Something of it has begun.
    Started,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Ended, Self::Started];

    /// The word of job files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Ended => "ended",
            Self::Started => "started",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A job that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct After {
    /// As it was written: a name or an id.
    pub job: String,
    /// Which job that was when the waiting one was submitted; `None` until then.
    pub id: Option<JobId>,
    /// What it has to have come to.
    pub condition: Condition,
}

/// How a job ends, and what it waits for or is begun by, where that is not as usual.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rules {
    /// When it has succeeded.
    pub completion: Completion,
    /// Failed instances that it goes on with; `None`: whatever fails, the others run to their end.
    pub max_failed: Option<Amount>,
    /// Longest wait for the first of it to begin, from when it was submitted or what it waits for was met.
    pub max_wait: Option<Span>,
    /// Longest time to its end, from then on.
    pub max_total: Option<Span>,
    /// What other jobs have to have come to before it begins.
    pub after: Vec<After>,
    /// How long its record stays once it has ended; `None`: until somebody deletes it.
    pub keep: Option<Span>,
    /// When jobs are made of it; it runs nothing itself then.
    pub schedule: Option<Schedule>,
    /// The group whose end is the job's, and whose runs get a token for the job.
    pub driver: Option<GroupName>,
    /// Numbers that were ended by name, and are used no more: whoever ends them sets it, nobody asks for it.
    pub withdrawn: BTreeMap<GroupName, RangeSet>,
}

impl Rules {
    /// Numbers of a group that are used no more.
    #[must_use]
    pub fn withdrawn(&self, group: &GroupName) -> RangeSet {
        self.withdrawn.get(group).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_exit_codes_holds_what_was_put_in() {
        let codes: ExitCodes = [255, 0, 64, 63, 255].into_iter().collect();
        assert_eq!(codes.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert!(
            codes.contains(255) && !codes.contains(1) && !codes.contains(-1) && !codes.contains(256 + 63)
        );
        assert!(!codes.is_empty() && ExitCodes::NONE.is_empty());
    }

    #[test]
    fn no_more_are_needed_than_there_are() {
        assert_eq!(
            (Completion::All.needed(7), Completion::Successes(9).needed(7)),
            (7, 7)
        );
    }
}
