//! Rows that are in storage and cannot be understood. A job of which one is the head, the assignment, the progress or the spec is
//! set aside: nothing of it is assigned, granted, moved or written, and what runs of it is kept.

use crate::effect::{Alarm, Effect};
use crate::manager::ResourceManager;
use crate::ops::Purpose;
use echelon_core_model::JobId;
use echelon_core_model::store::{OpFailure, OpId, OpResult, TroubleKind, UnreadRow, rows_told};

/// Rows that are remembered as told. Of more than these some are told again with each read.
const TOLD_ROWS: usize = 4096;

impl ResourceManager {
    /// Tells of rows that cannot be understood and sets their jobs aside. A read that cannot do without them has failed, and is
    /// made again.
    pub(crate) fn tell_unread(&mut self, id: OpId, result: OpResult, out: &mut Vec<Effect>) -> OpResult {
        let rows: Vec<UnreadRow> = match &result {
            OpResult::Partial(_, rows) => rows.clone(),
            OpResult::Unread(row) => vec![UnreadRow::clone(row)],
            _ => return result,
        };
        let why = rows_told(&rows);
        let about_jobs = rows.iter().all(|row| row.subject.job().is_some());
        for row in rows {
            if self.told_rows.len() < TOLD_ROWS && self.told_rows.insert((row.table, row.key.clone())) {
                out.push(Effect::Alarm(Alarm::Unread(row.to_string())));
            }
            if let Some(job) = row.subject.job() {
                self.set_aside(job);
            }
        }
        let lists = matches!(
            self.ops.purpose(id),
            Some(Purpose::Clusters | Purpose::ClusterStates | Purpose::Heartbeats)
        );
        // What is missing of a list of clusters proves nothing by its absence.
        if about_jobs || lists {
            return result;
        }
        OpResult::Failed(OpFailure::not_done(TroubleKind::Schema, why))
    }

    /// Jobs of which a stored row cannot be read.
    pub fn jobs_set_aside(&self) -> impl Iterator<Item = &JobId> {
        self.aside.iter()
    }

    /// Sets a job aside until another leader reads it.
    fn set_aside(&mut self, id: JobId) {
        if !self.aside.insert(id) {
            return;
        }
        self.forget_retired(id);
        self.returning.remove(&id);
        self.filing.forget(id);
        let job = self.picture.jobs.open(id);
        // Without a head nothing is decided of a job. What its shards tell of it is kept.
        job.head = None;
        job.next_head = None;
        job.spec = None;
        job.spec_version = 0;
        job.alarmed = true;
        self.unwritten.remove(&id);
        self.dirty.insert(id);
        self.due = true;
    }
}
