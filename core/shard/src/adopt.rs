//! Groups that an assignment names here and of which nothing is stored: given to this cluster while nobody told, or long ended. The
//! assignment of an ended job stays until all of its clusters have archived it, and its rows went to the archive: whoever took it for new work would run all of it again where
//! no resource manager is heard. So the job's progress is read first, which says that a job has ended before it is archived.

use crate::Shard;
use crate::group::Group;
use crate::purpose::Purpose;
use echelon_core_model::JobId;
use echelon_core_model::instance::SliceRow;
use echelon_core_model::job::Progress;
use echelon_core_model::store::{Consistency, Op, Query};
use std::collections::BTreeSet;

/// What is known of jobs of which nothing is stored here.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    asked: BTreeSet<JobId>,
    /// Not ended, by the last answer.
    open: BTreeSet<JobId>,
}

impl Group {
    /// Whether anything of it is stored here.
    pub(crate) fn is_stored(&self) -> bool {
        !self.blocks.is_empty() || self.row != SliceRow::new(self.job(), self.name().clone())
    }
}

fn has_ended(job: JobId, progress: &[Progress]) -> bool {
    let of = progress.iter().find(|p| p.job == job);
    of.is_some_and(|p| p.ended_version.is_some())
}

impl Shard {
    /// Whether an unknown group of a job is to be followed; until that is known its progress is asked for.
    pub(crate) fn may_adopt(&mut self, job: JobId) -> bool {
        if self.adopting.open.remove(&job) {
            return true;
        }
        if self.adopting.asked.insert(job) {
            let read = Op::Read(Query::Progress(job), Consistency::Quorum);
            self.ask(read, Purpose::Adopt(job));
        }
        false
    }

    /// The progress of a job of which an assignment names something unknown.
    pub(crate) fn on_adopt(&mut self, job: JobId, progress: &[Progress]) {
        self.adopting.asked.remove(&job);
        if has_ended(job, progress) {
            self.note_ended(job);
        } else {
            self.adopting.open.insert(job);
            self.refresh(job);
        }
    }

    /// The same in the recovery: a group whose job has ended is forgotten, unless it was ordered again meanwhile.
    pub(crate) fn on_standing(&mut self, number: u32, progress: &[Progress]) {
        let Some(group) = self.picture.groups.get(&number) else {
            return self.recovery_read_done();
        };
        let (job, ordered) = (group.job(), self.recovery.held.is_ordered(group));
        if has_ended(job, progress) && !ordered {
            self.note_ended(job);
            self.recovery.goals.remove(&number);
            self.picture.forget(number);
        } else {
            let read = (Query::Head(job), Purpose::Goal(number));
            self.recovery.queue.push_front(read);
        }
        self.recovery_read_done();
    }
}
