//! Ids as newtypes. A job id is 128 bits, ordered by time of creation, written as 26 characters of Crockford's base 32
//! in lower case (the ULID layout). A task id carries everything needed to judge a task found anywhere.

use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Longest name: what a DNS label may hold, since names become host names sooner or later.
pub const LONGEST_LABEL: usize = 63;

/// Whether a text is a label: `[a-z0-9]([a-z0-9-]*[a-z0-9])?`, at most 63 characters.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_LABEL).contains(&text.len())
        && text.bytes().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdError {
    /// Not a 26-character job id.
    #[error("`{0}` is not a job id: expected 26 characters of 0-9 and a-z without i, l, o, u")]
    Job(String),
    /// Not a group name.
    #[error("`{0}` is not a group name: expected 1 to 63 characters of a-z, 0-9 and `-`")]
    Group(String),
    /// Not a sidecar's name.
    #[error("`{0}` is not a sidecar's name: expected 1 to 63 characters of a-z, 0-9 and `-`")]
    Sidecar(String),
    /// Not the name of a host pool.
    #[error("`{0}` is not the name of a host pool: expected 1 to 63 characters of a-z, 0-9 and `-`")]
    HostPool(String),
    /// Not a task id of ours.
    #[error("`{0}` is not an Echelon task id: expected <job id>.<group>.<instance>.<generation>.<run>")]
    Task(String),
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as it stands.
            #[must_use]
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $int);

        impl $name {
            /// The next larger one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

text_id!(
    /// A persistent volume's id, unique on its host: the id of the run that it was made with.
    VolumeId
);

text_id!(
    /// A cluster's id: made when it is added, never used again, whatever its name.
    ClusterId
);
text_id!(
    /// A pool's id: made at creation, kept over renames and moves.
    PoolId
);
text_id!(
    /// A host's id: the id of its Mesos agent.
    HostId
);
text_id!(
    /// A caller's request id, for idempotent creates.
    RequestId
);
text_id!(
    /// The name of a group of instances within a job: `[a-z0-9-]`, 1 to 63 characters.
    GroupName
);

text_id!(
    /// The name of a sidecar within its group: formed as a group's name.
    SidecarName
);

text_id!(
    /// The name of a host pool within its cluster: formed as a group's name.
    HostPoolName
);

number_id!(
    /// Number of an instance within its group, from 0.
    InstanceNumber,
    u32
);
number_id!(
    /// Counts an instance range's moves between clusters, from 1.
    Generation,
    u32
);
number_id!(
    /// Counts the runs of an instance within a generation, from 1; 0 means that none was begun.
    RunNumber,
    u32
);
number_id!(
    /// Number of a leadership; each new leader's is larger. Stays below 2^23 (owned writes carry `epoch << 40 | sequence`).
    Epoch,
    u64
);
number_id!(
    /// Counts the changes of a decided row; the etag of the public API.
    Version,
    u64
);

impl Epoch {
    /// The first epoch that may not be used.
    pub const END: u64 = 1 << 23;
}

impl GroupName {
    /// The group of a job file that names none.
    pub const DEFAULT: &'static str = "main";

    /// Checks the characters and the length.
    ///
    /// # Errors
    /// `IdError::Group` when the text is not 1 to 63 characters of `[a-z0-9-]`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if is_part(text) {
            Ok(Self::new(text))
        } else {
            Err(IdError::Group(text.to_owned()))
        }
    }
}

impl SidecarName {
    /// Checks the characters and the length.
    ///
    /// # Errors
    /// `IdError::Sidecar` when the text is not 1 to 63 characters of `[a-z0-9-]`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if is_part(text) {
            Ok(Self::new(text))
        } else {
            Err(IdError::Sidecar(text.to_owned()))
        }
    }
}

impl HostPoolName {
    /// The host pool of hosts that were never moved, and of work that names none.
    pub const DEFAULT: &'static str = "default";

    /// Checks the characters and the length.
    ///
    /// # Errors
    /// `IdError::HostPool` when the text is not 1 to 63 characters of `[a-z0-9-]`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if is_part(text) {
            Ok(Self::new(text))
        } else {
            Err(IdError::HostPool(text.to_owned()))
        }
    }

    /// Whether it is that of hosts that were never moved.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.as_str() == Self::DEFAULT
    }
}

impl Default for HostPoolName {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

/// Whether a text may be a part of a task id: it never has a dot.
fn is_part(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A job's id: 48 bits of milliseconds, then 80 bits of randomness.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u128);

const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const JOB_ID_CHARS: usize = 26;

impl JobId {
    /// Makes an id from the time and 80 random bits (the upper bits of `random` are dropped).
    #[must_use]
    pub const fn new(now: Timestamp, random: u128) -> Self {
        let time = (now.0 as u128 & 0xffff_ffff_ffff) << 80;
        Self(time | (random & 0xffff_ffff_ffff_ffff_ffff))
    }

    /// When it was made.
    #[must_use]
    pub const fn created_at(self) -> Timestamp {
        Timestamp((self.0 >> 80) as u64)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in (0..JOB_ID_CHARS).rev() {
            let digit = usize::try_from((self.0 >> (5 * i)) & 31).unwrap_or_default();
            let c = BASE32.get(digit).copied().unwrap_or(b'0');
            write!(f, "{}", char::from(c))?;
        }
        Ok(())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Job(text.to_owned());
        // 26 digits of 5 bits are 130: the first digit may not exceed 7.
        if text.len() != JOB_ID_CHARS || text.as_bytes().first().is_none_or(|b| *b > b'7') {
            return Err(wrong());
        }
        text.bytes()
            .try_fold(0u128, |id, b| {
                let digit = BASE32.iter().position(|c| *c == b)?;
                Some(id << 5 | u128::try_from(digit).ok()?)
            })
            .map(Self)
            .ok_or_else(wrong)
    }
}

/// An instance: number i of a group of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// Its job.
    pub job: JobId,
    /// Its group.
    pub group: GroupName,
    /// Its number.
    pub number: InstanceNumber,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, group, number } = self;
        write!(f, "{job}.{group}.{number}")
    }
}

/// What Mesos calls a run: `<job id>.<group>.<instance>.<generation>.<run>`, at most 255 bytes (Mesos rule R73).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The instance that it runs.
    pub instance: InstanceId,
    /// The generation of the instance's range.
    pub generation: Generation,
    /// The run within that generation.
    pub run: RunNumber,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance,
            generation,
            run,
        } = self;
        write!(f, "{instance}.{generation}.{run}")
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Task(text.to_owned());
        let parts: Vec<&str> = text.split('.').collect();
        let [job, group, number, generation, run] = parts.as_slice() else {
            return Err(wrong());
        };
        let count = |digits: &str| -> Result<u32, IdError> {
            let n: u32 = digits.parse().map_err(|_| wrong())?;
            // One task has one spelling: `+1` and `01` are not ours.
            if n.to_string() == digits {
                Ok(n)
            } else {
                Err(wrong())
            }
        };
        Ok(Self {
            instance: InstanceId {
                job: job.parse().map_err(|_| wrong())?,
                group: GroupName::parse(group).map_err(|_| wrong())?,
                number: InstanceNumber(count(number)?),
            },
            generation: Generation(count(generation)?),
            run: RunNumber(count(run)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn job_ids_read_back_and_keep_their_order(a: u128, b: u128) {
            let (a, b) = (JobId(a), JobId(b));
            prop_assert_eq!(a.to_string().parse::<JobId>(), Ok(a));
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
        }

        #[test]
        fn task_ids_read_back(job: u128, group in "[a-z0-9-]{1,63}", n: u32, g: u32, r: u32) {
            let id = TaskId {
                instance: InstanceId { job: JobId(job), group: GroupName::new(group), number: InstanceNumber(n) },
                generation: Generation(g),
                run: RunNumber(r),
            };
            prop_assert!(id.to_string().len() <= 255);
            prop_assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        }
    }

    #[test]
    fn what_is_not_ours_is_not_a_task_id() {
        let job = JobId(7);
        for text in [
            String::new(),
            "task-1".to_owned(),
            format!("{job}.main.1.1"),
            format!("{job}.main.01.1.1"),
            format!("{job}.main.+1.1.1"),
            format!("{job}.Main.1.1.1"),
            format!("{job}.main.1.1.1.1"),
            format!("{job}..1.1.1"),
            "8zzzzzzzzzzzzzzzzzzzzzzzzz.main.1.1.1".to_owned(),
        ] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_job_id_tells_when_it_was_made() {
        assert_eq!(
            JobId::new(Timestamp(1_795_246_364_718), u128::MAX).created_at(),
            Timestamp(1_795_246_364_718)
        );
    }
}
