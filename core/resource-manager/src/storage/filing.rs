//! Assignments of jobs that have ended. New leaders read all assignments, so that of an ended job goes to a
//! table of its own, from which it is read by job alone. It goes there as soon as every cluster that ever had
//! a part of it has reported that its part is in the archive.
//!
//! | step | what is stored | ends when |
//! | --- | --- | --- |
//! | awaited | the assignment in its partition | each holder has said so; it is asked again until then |
//! | ready, copying | the same | the copy is durable |
//! | copied | both | the partition is written without it |
//!
//! A leader that takes over finds the assignment in its partition until the last step, and begins again.
//! A request to delete the job ends all of it: its assignment comes back to memory, and its copy goes with
//! the row that marks it as deleted.

use crate::effect::{Alarm, Effect};
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use crate::turns::Turns;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::directive::Order;
use echelon_core_model::store::{Batch, Op, Refusal, Role, Write};
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of assignments in one commit, of the 1 MiB that it may have.
const COPY_WEIGHT: usize = 512 * 1024;
/// Most assignments in one commit.
const COPIES: usize = 200;
/// Most that leave a partition with one write.
const REMOVED_AT_ONCE: usize = 100;
/// Most jobs for which shards are asked in one turn.
const ASKED: usize = 1_000;

#[derive(Debug)]
struct Entry {
    assignment: Arc<Assignment>,
    /// Holders that have not reported that they have archived their part.
    awaited: BTreeSet<ClusterId>,
}

/// Assignments on their way.
#[derive(Debug, Default)]
pub(crate) struct Filing {
    entries: BTreeMap<JobId, Entry>,
    /// Jobs that every holder has archived.
    ready: BTreeSet<JobId>,
    /// Jobs with an assignment that the present commit copies.
    copying: Vec<JobId>,
    /// Jobs with a durable copy.
    copied: BTreeSet<JobId>,
    turn: Turns,
}

impl Filing {
    /// A job has ended, and this is its assignment.
    pub(crate) fn add(&mut self, assignment: Arc<Assignment>) {
        let job = assignment.job;
        if *assignment == Assignment::new(job) {
            return;
        }
        let awaited: BTreeSet<ClusterId> = assignment.holders.keys().cloned().collect();
        if awaited.is_empty() {
            self.ready.insert(job);
        }
        self.entries.insert(job, Entry { assignment, awaited });
    }

    /// The job goes another way.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.entries.remove(&job);
        self.ready.remove(&job);
        self.copying.retain(|of| *of != job);
        self.copied.remove(&job);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A cluster has archived its part of a job.
    fn archived(&mut self, cluster: &ClusterId, job: JobId) {
        if let Some(entry) = self.entries.get_mut(&job)
            && entry.awaited.remove(cluster)
            && entry.awaited.is_empty()
        {
            self.ready.insert(job);
        }
    }

    /// The rows of the next commit.
    fn next(&mut self, now: &Batch) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut weight = 0;
        while let Some(job) = self.ready.first().copied() {
            let Some(entry) = self.entries.get(&job) else {
                self.ready.remove(&job);
                continue;
            };
            weight += entry.assignment.weight();
            if self.copying.len() >= COPIES || (weight > COPY_WEIGHT && !self.copying.is_empty()) {
                break;
            }
            let rows = entry.assignment.pieces(now.stamp);
            writes.extend(
                (0..)
                    .zip(rows)
                    .map(|(place, row)| Write::EndedAssignment(row, place)),
            );
            self.ready.remove(&job);
            self.copying.push(job);
        }
        writes
    }

    /// Jobs with an assignment that is to be removed, by partition.
    pub(crate) fn leaving(&self) -> BTreeMap<u16, Vec<JobId>> {
        let mut out: BTreeMap<u16, Vec<JobId>> = BTreeMap::new();
        for job in &self.copied {
            let of = out.entry(assignment_partition(*job)).or_default();
            if of.len() < REMOVED_AT_ONCE {
                of.push(*job);
            }
        }
        out
    }
}

impl ResourceManager {
    /// A shard reports that it has archived its part of these.
    pub(crate) fn note_archived(&mut self, cluster: &ClusterId, jobs: &[JobId]) {
        for job in jobs {
            self.filing.archived(cluster, *job);
        }
        self.due |= !self.filing.ready.is_empty();
    }

    /// Asks again the shards that have not reported so.
    pub(crate) fn ask_to_archive(&mut self, out: &mut Vec<Effect>) {
        let is_awaited = |(job, entry): (&JobId, &Entry)| (!entry.awaited.is_empty()).then_some(*job);
        let waiting: BTreeSet<JobId> = self.filing.entries.iter().filter_map(is_awaited).collect();
        for job in self.filing.turn.next_of(&waiting, ASKED) {
            let entry = self.filing.entries.get(&job);
            let holders: Vec<ClusterId> = entry.into_iter().flat_map(|e| &e.awaited).cloned().collect();
            for cluster in holders {
                self.send(&cluster, Order::Archive(job), out);
            }
        }
    }

    /// Copies what is ready, one commit at a time.
    pub(crate) fn file_assignments(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.filing.copying.is_empty() || self.filing.ready.is_empty() {
            return;
        }
        let mut batch = Batch {
            owner: Role::ResourceManager,
            stamp: self.stamp(),
            writes: Vec::new(),
        };
        batch.writes = self.filing.next(&batch);
        if !batch.writes.is_empty() {
            self.ops
                .start(Purpose::FileAssignments, Op::Commit(batch), now, out);
        }
    }

    /// The copies are durable.
    pub(crate) fn assignments_filed(&mut self) {
        let filed = std::mem::take(&mut self.filing.copying);
        self.filing.copied.extend(filed);
        self.due = true;
    }

    /// Storage never takes a copy: the assignments of that commit stay where they are.
    pub(crate) fn filing_refused(&mut self, refusal: &Refusal, out: &mut Vec<Effect>) {
        for job in std::mem::take(&mut self.filing.copying) {
            self.filing.forget(job);
        }
        let why = refusal.to_string();
        out.push(Effect::Alarm(Alarm::RowRefused { job: None, why }));
    }
}
