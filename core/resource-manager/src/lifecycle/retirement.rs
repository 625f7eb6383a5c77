//! Jobs that have ended. Once a job's end is stored, the job leaves memory. Of its rows only what other jobs
//! may still need of it stays, some forty bytes. So no cycle walks it, and a bucket that is read again finds
//! nothing new. When its record is to be deleted its rows are read again, and it is followed like any other
//! job that is deleted.

use crate::effect::Effect;
use crate::facts::ended::EndedJob;
use crate::facts::job::{JobView, Release};
use crate::facts::known::{KnownHead, KnownProgress};
use crate::manager::{Phase, ResourceManager};
use crate::storage::flows::FlowKind;
use crate::storage::operations::Purpose;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{Desired, Head, JobState, Progress};
use echelon_core_model::store::{Consistency, Op, Query, Stamp};
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::sync::Arc;

/// A job that is to be deleted, with rows that are being read again.
#[derive(Debug, Clone)]
pub(crate) struct Returning {
    head: KnownHead,
    progress: Option<Progress>,
}

/// What stays in memory of a job, if that is all that is needed of it.
fn left_of(job: &JobView) -> Option<EndedJob> {
    let head = job.head.as_ref()?;
    let progress = job.progress.as_ref().filter(|p| p.state().is_ended())?;
    let is_over =
        !head.void && head.goal.desired != Desired::Deleted && progress.state() != JobState::Deleted;
    let is_stored = job.decided == job.durable && !job.rare.tombstone;
    (is_over && is_stored).then(|| EndedJob::of(head, progress))
}

/// How many rows the copy of an assignment has among those of ended jobs.
fn rows_of(assignment: &Assignment) -> u32 {
    u32::try_from(assignment.pieces(Stamp::default()).len()).unwrap_or(u32::MAX)
}

impl ResourceManager {
    /// Takes a job with a stored end out of memory, unless something of it is under way or its template still
    /// counts it. A job that could not leave now is looked at again when that is over.
    pub(crate) fn retire(&mut self, id: JobId) -> bool {
        let Some(job) = self.picture.facts.jobs.get_aside(&id) else {
            return false;
        };
        let ended = job.progress.as_ref().is_some_and(|p| p.state().is_ended());
        if let Some(next) = job.next_head.take_if(|_| ended) {
            // It waits for a spec that is not needed any more.
            job.head = Some(*next);
        }
        let Some(left) = left_of(job) else { return false };
        let assignment = job.durable.to_row(id);
        let origin = job.head.as_ref().and_then(|h| h.rare.origin.as_ref());
        let template = origin.map(|o| o.template);
        let counted = template.is_some_and(|of| self.picture.facts.jobs.contains_key(&of));
        let in_commit = self.committing.as_ref().is_some_and(|c| c.contains(&id));
        if counted || in_commit || self.flows.has(FlowKind::HeadChange, id) || self.aside.contains(&id) {
            return false;
        }
        self.put_away(id, left);
        self.filing.add(assignment);
        true
    }

    /// Takes a job out of memory but for what stays of it.
    fn put_away(&mut self, id: JobId, left: EndedJob) {
        let Some(job) = self.picture.facts.jobs.remove(&id) else {
            return;
        };
        self.forget_child(id, &job);
        if let Some(at) = job.bound.renew_at {
            self.renewals.remove(&(at, id));
        }
        for view in self.picture.facts.clusters.values_mut() {
            view.forget(id);
        }
        self.unwritten.remove(&id);
        // What a template made is counted no more when that has ended.
        self.dirty.extend(self.children.get(&id).into_iter().flatten());
        self.agenda.put(id, left.keep_until);
        self.picture.facts.ended.insert(id, left);
    }

    /// A job that had ended before it was to be deleted, where a leader before us had begun to delete it.
    /// Its assignment may be among those of ended jobs, and is read from there.
    pub(crate) fn recall(&mut self, id: JobId) {
        let Some(job) = self.picture.facts.jobs.get_aside(&id) else {
            return;
        };
        let (Some(head), Some(progress)) = (&job.head, &job.progress) else {
            return;
        };
        let had_ended = progress.state().is_ended() && progress.state() != JobState::Deleted;
        if head.void || head.goal.desired != Desired::Deleted || !had_ended || job.rare.tombstone {
            return;
        }
        if !job.durable.is_nothing() {
            job.rare.filed_rows = rows_of(&job.durable);
            return;
        }
        let left = EndedJob::of(head, progress);
        let returning = Returning {
            head: head.clone(),
            progress: None,
        };
        self.put_away(id, left);
        self.read_returning(id, returning);
    }

    /// Whether a head that was read is of a job that has ended and needs no more than to be known by.
    /// One that is to be deleted comes back.
    pub(crate) fn is_retired(&mut self, head: &Head) -> bool {
        let Some(known) = self.picture.facts.ended.get(&head.job) else {
            return false;
        };
        if head.version <= known.version || self.phase != Phase::Leading {
            return true;
        }
        if head.goal.desired != Desired::Deleted {
            // It came too late.
            self.picture.facts.ended.set_version(head.job, head.version);
            return true;
        }
        let id = head.job;
        let returning = Returning {
            head: self.picture.facts.specs.head(head),
            progress: None,
        };
        self.read_returning(id, returning);
        true
    }

    fn read_returning(&mut self, id: JobId, returning: Returning) {
        self.filing.forget(id);
        if self.returning.insert(id, returning).is_none() {
            let op = Op::Read(Query::Progress(id), Consistency::Quorum);
            self.todo.push_back((Purpose::ReturnProgress(id), op));
        }
    }

    /// The progress row of a job that is to be deleted; its assignment is read next.
    pub(crate) fn progress_returned(
        &mut self,
        id: JobId,
        rows: Vec<Progress>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(returning) = self.returning.get_mut(&id) else {
            return;
        };
        let Some(row) = rows.into_iter().next() else {
            // Storage has shown it before: the next read of its head asks again.
            self.returning.remove(&id);
            return;
        };
        returning.progress = Some(row);
        let op = Op::Read(Query::Assignment(id), Consistency::Serial);
        self.ops.start(Purpose::ReturnAssignment(id), op, now, out);
    }

    /// All of a job that is to be deleted is there again: it is a job like any other that goes.
    pub(crate) fn assignment_returned(&mut self, id: JobId, assignment: Option<Assignment>, now: Timestamp) {
        let Some(Returning {
            head,
            progress: Some(row),
        }) = self.returning.remove(&id)
        else {
            return;
        };
        self.picture.facts.ended.remove(&id);
        self.agenda.put(id, None);
        let job = self.picture.facts.jobs.open(id);
        job.head = Some(head);
        job.set_release(row.released.map_or(Release::Held, Release::Stored));
        // Its row is true: whether it waits for a cluster's report is written when that is known.
        job.progress = Some(KnownProgress::written(&row, now));
        if let Some(assignment) = assignment {
            job.rare.filed_rows = rows_of(&assignment);
            let job = self.picture.facts.jobs.set_durable(id, Arc::new(assignment));
            job.decided = job.durable.clone();
        }
        self.dirty.insert(id);
        self.due = true;
    }

    /// A shard still reports a job that has ended: it may archive it.
    pub(crate) fn tell_retired(&mut self, cluster: &ClusterId, id: JobId, out: &mut Vec<Effect>) {
        self.send(cluster, Order::Archive(id), out);
        if let Some(view) = self.picture.facts.clusters.get_mut(cluster) {
            view.forget(id);
        }
    }

    /// The record of an ended job is gone from storage.
    pub(crate) fn forget_retired(&mut self, id: JobId) {
        self.picture.facts.ended.remove(&id);
        self.agenda.put(id, None);
    }
}
