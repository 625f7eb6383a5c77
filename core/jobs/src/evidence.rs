//! The rule of evidence (design section 4): which found task may be killed, which is left alone, and which shows that
//! storage is behind the cluster: a backup was put back.
//!
//! An intent is durable before its launch, and a record goes only with its number or its job. So a living
//! task shows that storage is behind when its instance is held here at the task's own generation and has no
//! such run, or when storage has assigned its number at older generations only. Everything else has an
//! innocent explanation, and is left alone: a job that is not there may have been deleted, and one of which
//! nothing is stored here may have ended, while the task's host was away and its run was abandoned.

use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::{Generation, ReasonCode, RunNumber, TaskId};

/// What is known about the instance of a task that was found alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known<'a> {
    /// Its record here.
    pub record: Option<&'a InstanceRecord>,
    /// The job's goal, if its head is known. Absence proves nothing.
    pub desired: Option<Desired>,
    /// Whether this cluster gave the number back at the task's generation.
    pub released: bool,
    /// Whether the number's range is marked to leave this cluster.
    pub marked: bool,
    /// The generation at which another cluster holds the number.
    pub elsewhere: Option<Generation>,
    /// The generation at which this cluster holds the number and may begin it.
    pub held: Option<Generation>,
    /// The generation at which the stored assignment has the number, at whatever cluster.
    pub assigned: Option<Generation>,
    /// An older storage was put back and resumed: generations that were given after the copy was taken may be given again.
    pub was_resumed: bool,
}

/// What may be done about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Its run is in the record: the record decides.
    Recorded,
    /// There is positive evidence that it should not run.
    Kill(ReasonCode),
    /// No record explains it: left alone, counted as used, alarmed.
    Quarantine,
    /// It is newer than what storage knows: storage is behind the cluster.
    NewerThanStored,
}

/// Judges a task.
#[must_use]
pub fn judge(task: &TaskId, known: &Known<'_>) -> Verdict {
    let of = (task.generation, task.run);
    let is_it = |r: &Run| (r.generation, r.number) == of;
    if let Some(record) = known.record {
        if record.run.iter().chain(&record.older).any(is_it) {
            return Verdict::Recorded;
        }
        if newest(record) < of {
            return Verdict::NewerThanStored;
        }
        if record.run.as_ref().is_some_and(|r| (r.generation, r.number) > of) {
            return Verdict::Kill(ReasonCode::OlderRunAlive);
        }
    } else if known.held == Some(task.generation) && !known.released && !known.marked {
        return Verdict::NewerThanStored;
    }
    match known.desired {
        Some(Desired::Stopped) => return Verdict::Kill(ReasonCode::StopRequested),
        Some(Desired::Deleted) => return Verdict::Kill(ReasonCode::DeleteRequested),
        Some(Desired::Running) | None => {}
    }
    // A generation is given once. Where the same is given to another cluster, that was after the resume.
    let newer_elsewhere = known
        .elsewhere
        .is_some_and(|g| g > task.generation || (known.was_resumed && g == task.generation));
    if known.released || known.marked || newer_elsewhere {
        return Verdict::Kill(ReasonCode::Moved);
    }
    if known.assigned.is_some_and(|g| g < task.generation) {
        return Verdict::NewerThanStored;
    }
    Verdict::Quarantine
}

/// The newest run that the record has heard of. A generation without a run of its own has had none below it.
fn newest(record: &InstanceRecord) -> (Generation, RunNumber) {
    record
        .run
        .iter()
        .chain(&record.older)
        .map(|r| (r.generation, r.number))
        .chain([(record.generation, RunNumber(0))])
        .max()
        .unwrap_or_default()
}
