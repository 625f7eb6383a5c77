//! Jobs that begin again and again: what a schedule asks for, how far its template has come, and what each of its jobs is called.
//! When a schedule is due is in `timetable`. A template runs nothing itself; of each due time at most one job is made, since which
//! due time was decided last is in the template's head, and the job's id follows from what was decided.

use crate::bucket::fnv1a;
use crate::id::JobId;
use crate::rules::{After, Condition};
use crate::spec::JobSpec;
use crate::time::{Span, Timestamp};
use std::fmt;

/// What becomes of a due time at which a job of the schedule has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Overlap {
    /// It is passed over.
    #[default]
    Skip,
    /// Its job waits until the latest one before it has ended.
    Queue,
    /// Those before are stopped, and its job begins when they have ended.
    Replace,
    /// Its job begins beside them.
    Allow,
}

impl Overlap {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Skip, Self::Queue, Self::Replace, Self::Allow];

    /// The word of job files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Replace => "replace",
            Self::Allow => "allow",
        }
    }

    /// Jobs of a schedule that may be there without having ended: a due time beyond waits.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Skip | Self::Queue | Self::Replace => 10,
            Self::Allow => 100,
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What becomes of due times that nobody could look at when they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CatchUp {
    /// They are passed over.
    None,
    /// A job is made for the latest of them.
    #[default]
    One,
    /// A job is made for each, oldest first.
    All,
}

impl CatchUp {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::One, Self::All];

    /// The word of job files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::One => "one",
            Self::All => "all",
        }
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// When a job of a template is made, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule {
    /// Minute, hour, day of month, month, day of week.
    pub cron: String,
    /// Name of the time zone whose clocks are meant: `Europe/Berlin`.
    pub time_zone: String,
    /// What becomes of a due time at which a job from before has not ended.
    pub overlap: Overlap,
    /// What becomes of due times that were missed.
    pub catch_up: CatchUp,
    /// What was due longer ago is never caught up with.
    pub within: Span,
    /// So many ended jobs of it are kept; older ones are deleted.
    pub keep_last: u32,
}

impl Schedule {
    /// The zone of a schedule that names none.
    pub const UTC: &'static str = "UTC";
    /// A day: whatever an outage takes, the job of a night is begun, and not one for each night of a holiday.
    pub const WITHIN: Span = Span::minutes(24 * 60);
    /// Three months of nights, a few hours of minutes.
    pub const KEEP_LAST: u32 = 100;
    /// What is looked at later than this after it was due was missed: no change of leaders takes so long.
    pub const ON_TIME: Span = Span::minutes(5);
    /// Longest name of a template: its jobs have their time behind it, and are names themselves.
    pub const LONGEST_NAME: usize = 40;
}

/// How far a template has come. In its head, so decided by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleState {
    /// Nothing is made until it is resumed.
    pub paused: bool,
    /// Every due time up to here is decided.
    pub handled: Timestamp,
    /// The job that was decided last, while it is not known to be there.
    pub opening: Option<Opening>,
    /// The last due time that was passed over because a job from before had not ended.
    pub skipped: Option<Timestamp>,
    /// The last due time that was passed over because nobody could look at it in time.
    pub missed: Option<Timestamp>,
}

impl ScheduleState {
    /// From when a template was made, resumed, or got another timetable: what was due before does not count as missed.
    #[must_use]
    pub const fn from(now: Timestamp) -> Self {
        Self {
            paused: false,
            handled: now,
            opening: None,
            skipped: None,
            missed: None,
        }
    }
}

/// That a job is to be made for a due time: all that it is made from, so that whoever makes it makes the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// When it was due.
    pub due: Timestamp,
    /// When that was decided.
    pub at: Timestamp,
    /// Counts the ids that were planned for it: one may be barred by somebody who wanted its name.
    pub attempt: u32,
    /// Jobs that have to have ended before it begins.
    pub after: Vec<JobId>,
    /// Whether these are stopped for it.
    pub replaces: bool,
}

impl Opening {
    /// The id of its job: the same for whoever makes it, another one for every due time.
    #[must_use]
    pub fn job(&self, template: JobId) -> JobId {
        let mut bytes = template.0.to_be_bytes().to_vec();
        bytes.extend(self.due.0.to_be_bytes());
        bytes.extend(self.attempt.to_be_bytes());
        let low = fnv1a(&bytes);
        bytes.reverse();
        JobId::new(self.at, u128::from(fnv1a(&bytes)) << 64 | u128::from(low))
    }

    /// What its job says of where it comes from.
    #[must_use]
    pub fn origin(&self, template: JobId) -> Origin {
        Origin {
            template,
            due: self.due,
            replaces: if self.replaces {
                self.after.clone()
            } else {
                Vec::new()
            },
        }
    }
}

/// Where a job comes from that a schedule, or a command, made of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The template.
    pub template: JobId,
    /// The due time; of one that was asked for by command, when that was.
    pub due: Timestamp,
    /// Jobs of the same template that are stopped for it.
    pub replaces: Vec<JobId>,
}

/// The name of the job of a due time: the template's with the time in UTC behind it, so that no clock that goes back gives it twice.
#[must_use]
pub fn child_name(template: &str, due: Timestamp) -> String {
    let time = due.to_string().to_lowercase();
    let time: String = time.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    match time.strip_suffix("00z") {
        // `20261124t0200z`: minutes are enough for what is due.
        Some(minutes) => format!("{template}-{minutes}z"),
        None => format!("{template}-{time}"),
    }
}

/// The same for a job whose name somebody else has.
#[must_use]
pub fn other_child_name(template: &str, due: Timestamp, id: JobId) -> String {
    let id = id.to_string();
    let tail = id.get(id.len().saturating_sub(5)..).unwrap_or_default();
    format!("{}-{tail}", child_name(template, due))
}

impl JobSpec {
    /// Whether it runs nothing itself, but has jobs made of it.
    #[must_use]
    pub const fn is_template(&self) -> bool {
        self.rules.schedule.is_some()
    }

    /// The spec of a job that is made of a template, and begins when others have ended.
    #[must_use]
    pub fn child(&self, name: String, after: &[JobId]) -> Self {
        let mut child = Self { name, ..self.clone() };
        child.rules.schedule = None;
        child.rules.withdrawn.clear();
        child.rules.after = after
            .iter()
            .map(|id| After {
                job: id.to_string(),
                id: Some(*id),
                condition: Condition::Ended,
            })
            .collect();
        child.settle_revisions(None, 1);
        child
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Timestamp = Timestamp(1_795_485_600_000);

    fn opening(due: Timestamp, attempt: u32) -> Opening {
        Opening {
            due,
            at: Timestamp(1_795_485_600_250),
            attempt,
            after: vec![JobId(7)],
            replaces: false,
        }
    }

    #[test]
    fn a_job_is_named_after_its_template_and_the_minute_it_was_due() {
        assert_eq!(DUE.to_string(), "2026-11-24T02:00:00Z");
        assert_eq!(child_name("backup", DUE), "backup-20261124t0200z");
        let second = DUE.plus(Span::seconds(7));
        assert_eq!(child_name("backup", second), "backup-20261124t020007z");
        let longest = "x".repeat(Schedule::LONGEST_NAME);
        assert!(other_child_name(&longest, second, JobId(1)).len() <= 63);
    }

    #[test]
    fn whoever_makes_the_job_of_a_due_time_makes_the_same_one() {
        let template = JobId(42);
        let id = opening(DUE, 0).job(template);
        assert_eq!(opening(DUE, 0).job(template), id);
        assert_eq!(id.created_at(), Timestamp(1_795_485_600_250));
        for other in [
            opening(DUE.plus(Span::minutes(1)), 0).job(template),
            opening(DUE, 1).job(template),
            opening(DUE, 0).job(JobId(43)),
        ] {
            assert_ne!(other, id);
        }
    }
}
