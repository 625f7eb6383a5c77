//! Rows that storage refuses for good. Another leader would be refused the same, so none costs the
//! leadership: the job of the row is set aside with an alarm, and the others go on.
//! Of a job that is set aside the last stored assignment stays in force. The job can be stopped and deleted,
//! and is assigned again when its head has changed.

use crate::effect::{Alarm, Effect};
use crate::facts::job::RefusedAssignment;
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use echelon_core_model::store::{Batch, Op, Refusal, Write};
use echelon_core_model::{JobId, Timestamp};
use std::collections::BTreeSet;

impl ResourceManager {
    /// Storage never takes what was asked.
    pub(crate) fn op_refused(
        &mut self,
        purpose: Purpose,
        op: Op,
        refusal: &Refusal,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        match (purpose, op) {
            (Purpose::PutAssignments(partition), _) => self.assignments_refused(partition, refusal, out),
            (Purpose::Commit, Op::Commit(batch)) => self.commit_refused(batch, refusal, now, out),
            (Purpose::FileAssignments, _) => self.filing_refused(refusal, out),
            // What is wanted then is looked at again later.
            (Purpose::Flow(key), _) => {
                refused(Some(key.job), refusal.to_string(), out);
                self.drop_flow(key, now);
            }
            (Purpose::TakeEpoch, _) => self.step_down(format!("storage refuses {refusal}"), out),
            (_, _) => refused(None, refusal.to_string(), out),
        }
    }

    fn assignments_refused(&mut self, partition: u16, refusal: &Refusal, out: &mut Vec<Effect>) {
        let Some(batch) = self.putting.remove(&partition) else {
            return;
        };
        for row in &refusal.rows {
            // A batch that is too large as a whole is of one row, or was cut wrongly: all of it is set aside.
            let named = row.place.map_or(0..batch.put.len(), |place| place..place + 1);
            for assignment in batch.put.get(named).into_iter().flatten() {
                let Some(job) = self.picture.facts.jobs.get_mut(&assignment.job) else {
                    continue;
                };
                let why = row.to_string();
                if job.rare.refused.is_none() {
                    refused(Some(assignment.job), why.clone(), out);
                }
                job.decided = job.durable.clone();
                job.forget_grants();
                job.rare.refused = Some(Box::new(RefusedAssignment {
                    head: job.newest_version(),
                    why,
                }));
                self.dirty.insert(assignment.job);
                self.unwritten.insert(assignment.job);
            }
        }
        self.due = true;
    }

    /// The rest of a batch is committed under a new stamp.
    fn commit_refused(&mut self, batch: Batch, refusal: &Refusal, now: Timestamp, out: &mut Vec<Effect>) {
        let all = 0..batch.writes.len();
        let places: BTreeSet<usize> = refusal
            .rows
            .iter()
            .flat_map(|row| row.place.map_or(all.clone(), |place| place..place + 1))
            .collect();
        let mut unstored: BTreeSet<JobId> = BTreeSet::new();
        for row in &refusal.rows {
            let write = row.place.and_then(|place| batch.writes.get(place));
            let job = match write {
                Some(Write::Progress(progress)) => Some(progress.job),
                _ => None,
            };
            unstored.extend(job);
            refused(job, row.to_string(), out);
        }
        if let Some(jobs) = &mut self.committing {
            jobs.retain(|id| !unstored.contains(id));
        }
        let rest = batch.writes.into_iter().enumerate();
        let rest: Vec<Write> = rest
            .filter(|(place, _)| !places.contains(place))
            .map(|(_, write)| write)
            .collect();
        if rest.is_empty() {
            self.committed(out);
            return;
        }
        let batch = Batch {
            owner: batch.owner,
            stamp: self.stamp(),
            writes: rest,
        };
        self.ops.start(Purpose::Commit, Op::Commit(batch), now, out);
    }
}

pub(crate) fn refused(job: Option<JobId>, why: String, out: &mut Vec<Effect>) {
    out.push(Effect::Alarm(Alarm::RowRefused { job, why }));
}
