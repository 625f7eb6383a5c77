//! Which jobs a write has changed: what leaders tell gateways, so that these look at what is stored.

use crate::id::JobId;
use crate::store::{Decision, Op, Write, event_day};
use std::collections::{BTreeMap, BTreeSet};

/// Where events of a job were written by one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventSpot {
    /// The lane of the writer.
    pub lane: u16,
    /// Days since 1970, by the writer's clock.
    pub day: u32,
}

/// Jobs of which something has changed, each with where its new events are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobChanges(pub BTreeMap<JobId, BTreeSet<EventSpot>>);

impl JobChanges {
    /// What an operation changes of jobs, once it is durable.
    #[must_use]
    pub fn of(op: &Op) -> Self {
        match op {
            Op::Commit(batch) => Self::of_writes(&batch.writes),
            Op::Decide(Decision::PutAssignments { put, remove, .. }) => {
                let mut out = Self::default();
                put.iter().for_each(|assignment| out.touch(assignment.job));
                remove.iter().for_each(|job| out.touch(*job));
                out
            }
            Op::Decide(_) | Op::Read(..) => Self::default(),
        }
    }

    fn of_writes(writes: &[Write]) -> Self {
        let noted = writes.iter().find_map(|write| match write {
            Write::NoteEvents(lane) => Some(*lane),
            _ => None,
        });
        let mut out = Self::default();
        for write in writes {
            match write {
                Write::Progress(row) => out.touch(row.job),
                Write::RemoveProgress(job) => out.touch(*job),
                Write::Block(block) => out.touch(block.key.job),
                Write::Slice(row) => out.touch(row.job),
                Write::Event(event) => {
                    let spots = out.0.entry(event.job).or_default();
                    let day = event_day(event.at);
                    spots.extend(noted.map(|lane| EventSpot { lane, day }));
                }
                _ => {}
            }
        }
        out
    }

    /// Something of a job has changed.
    pub fn touch(&mut self, job: JobId) {
        self.0.entry(job).or_default();
    }

    /// Takes in other changes.
    pub fn extend(&mut self, other: Self) {
        for (job, spots) in other.0 {
            self.0.entry(job).or_default().extend(spots);
        }
    }

    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Jobs and places of events, as a bound of how much memory it takes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|spots| 1 + spots.len()).sum()
    }
}
