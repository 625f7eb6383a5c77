//! What is written: assignments, one conditional batch a partition at a time, and the owned rows (progress,
//! contacts, events), one batch at a time. What is decided meanwhile goes into the next, so a cycle never
//! waits for storage.

use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::facts::known::{KnownProgress, digest};
use crate::manager::ResourceManager;
use crate::progress::{needs_row, progress, row_stands};
use crate::storage::operations::Purpose;
use crate::turns::Turns;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::directive::Order;
use echelon_core_model::job::{JobState, Progress};
use echelon_core_model::store::{Batch, Decided, Decision, Event, EventEnd, Op, Role, Stamp, Write};
use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of assignments in one batch, of the 1 MiB that it may have.
const PUT_WEIGHT: usize = 768 * 1024;
/// The lane of all events: one commit follows the other.
pub(crate) const EVENT_LANE: u16 = 0;
/// Most owned rows in one batch.
const COMMIT_ROWS: usize = 400;
/// Most jobs that are looked at for it: of many nothing may be written yet.
const WRITE_LOOKS: usize = 2_000;

/// A write of assignments under way. Its partition is written again only when its outcome is known.
#[derive(Debug, Clone, Default)]
pub struct Put {
    pub(crate) put: Vec<Arc<Assignment>>,
    remove: Vec<JobId>,
    /// Of jobs that have ended, with durable copies.
    filed: Vec<JobId>,
}

impl ResourceManager {
    /// Writes every partition that has something new and no write under way.
    pub(crate) fn flush_assignments(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let mut due: BTreeMap<u16, (Put, usize)> = BTreeMap::new();
        for id in self.picture.demand.ledger.unstored() {
            let Some(job) = self.picture.facts.jobs.get(id) else {
                continue;
            };
            let partition = assignment_partition(*id);
            let changed = job.decided != job.durable && !job.is_refused();
            if self.putting.contains_key(&partition) || !(changed || job.rare.tombstone) {
                continue;
            }
            let (batch, weight) = due.entry(partition).or_default();
            *weight += job.decided.weight();
            if *weight > PUT_WEIGHT && !batch.put.is_empty() {
                continue;
            }
            if job.rare.tombstone {
                batch.remove.push(*id);
            } else {
                batch.put.push(job.decided.to_row(*id));
            }
        }
        for (partition, filed) in self.filing.leaving() {
            if !self.putting.contains_key(&partition) {
                due.entry(partition).or_default().0.filed = filed;
            }
        }
        for (partition, (batch, _)) in due {
            let written = self.written.get(&partition).copied().unwrap_or_default();
            let decision = Decision::PutAssignments {
                partition,
                stamp: Stamp {
                    epoch: self.epoch,
                    sequence: written + 1,
                },
                put: batch.put.iter().map(|a| Assignment::clone(a)).collect(),
                remove: batch.remove.iter().chain(&batch.filed).copied().collect(),
            };
            self.putting.insert(partition, batch);
            self.ops
                .start(Purpose::PutAssignments(partition), Op::Decide(decision), now, out);
        }
    }

    pub(crate) fn assignments_put(&mut self, partition: u16, decided: Decided, out: &mut Vec<Effect>) {
        let Some(batch) = self.putting.remove(&partition) else {
            return;
        };
        if decided != Decided::Applied {
            let why = format!("partition {partition} of assignments belongs to another resource manager");
            self.step_down(why, out);
            return;
        }
        *self.written.entry(partition).or_default() += 1;
        for row in batch.put {
            let id = row.job;
            if self.picture.facts.jobs.contains_key(&id) {
                let job = self.picture.facts.jobs.set_durable(id, row);
                job.forget_grants();
                if let Some(rare) = job.rare.get_mut() {
                    rare.refused = None;
                }
                self.dirty.insert(id);
            }
        }
        for id in batch.remove {
            self.assignment_removed(id, out);
        }
        batch.filed.into_iter().for_each(|id| self.filing.forget(id));
        self.due = true;
    }

    /// Writes the progress rows that changed, not more often than allowed. Returns how many.
    /// Of a job that only waits the row is computed, and not written.
    pub(crate) fn flush_progress(&mut self, now: Timestamp, out: &mut Vec<Effect>) -> usize {
        if self.committing.is_some() {
            return 0;
        }
        let mut writes: Vec<Write> = std::mem::take(&mut self.writes);
        let mut jobs = Vec::new();
        let mut unsurged = Vec::new();
        let mut computed = 0;
        let ids = self.turns.unwritten.next_of(&self.unwritten, WRITE_LOOKS);
        for id in ids {
            if writes.len() + computed >= COMMIT_ROWS {
                break;
            }
            self.turns.unwritten = Turns(id);
            let Some(row) = self.progress_due(id, now) else {
                continue;
            };
            if self.note_unstored(id, &row) {
                out.push(Effect::Changed(id));
                computed += 1;
                continue;
            }
            let Some(job) = self.picture.facts.jobs.get_mut(&id) else {
                continue;
            };
            let before = job.progress.as_ref().and_then(|p| p.row.as_ref());
            if before.is_none() && row.state != JobState::Waiting {
                writes.push(Write::Event(accepted(&row, now)));
            }
            if before.is_none_or(|p| p.state != row.state) {
                writes.push(Write::Event(event(&row, now)));
            }
            if row.state == JobState::Deleted {
                let rows = 0..job.rare.filed_rows;
                writes.extend(rows.map(|place| Write::RemoveEndedAssignment(id, place)));
            }
            if row.state.is_ended() {
                job.spec = None;
                job.spec_version = 0;
                job.grants.clear();
                job.avoid.clear();
                job.idle.clear();
            }
            // Without its rollout it has no more instances than are asked for: its spec is read as it stands.
            let over = row.rollout.as_ref().is_some_and(|r| r.state.is_over());
            if over && !job.rare.surge.is_empty() {
                job.spec_version = 0;
                unsurged.push(id);
            }
            note(job, KnownProgress::written(&row, now));
            writes.push(Write::Progress(row));
            jobs.push(id);
        }
        unsurged.into_iter().for_each(|id| self.want_spec(id));
        self.start_todo(now, out);
        if writes.is_empty() {
            return 0;
        }
        let rows = jobs.len();
        if writes.iter().any(|write| matches!(write, Write::Event(_))) {
            writes.push(Write::NoteEvents(EVENT_LANE));
        }
        let batch = Batch {
            owner: Role::ResourceManager,
            stamp: self.stamp(),
            writes,
        };
        self.committing = Some(jobs);
        self.ops.start(Purpose::Commit, Op::Commit(batch), now, out);
        rows
    }

    /// Keeps what is computed of a job that has no row and needs none. Whether it is such a job.
    fn note_unstored(&mut self, id: JobId, row: &Progress) -> bool {
        let jobs = &mut self.picture.facts.jobs;
        let is_unstored = |job: &JobView| {
            let has_row = job.progress.as_ref().is_some_and(|known| known.row.is_some());
            !has_row && !needs_row(job, row)
        };
        // No sum depends on it.
        let job = jobs
            .get(&id)
            .is_some_and(is_unstored)
            .then(|| jobs.get_aside(&id));
        let Some(job) = job.flatten() else {
            return false;
        };
        note(job, KnownProgress::computed(row));
        true
    }

    /// The events of older leaders hold up to what they have noted.
    /// It is written before any event of this leader.
    pub(crate) fn event_ends_read(&mut self, ends: &[EventEnd]) {
        let open = ends
            .iter()
            .filter(|end| !end.is_closed && end.stamp.epoch < self.epoch);
        let closed = open.map(|end| Write::CloseEvents(EVENT_LANE, end.stamp));
        self.writes.extend(closed);
    }

    /// The row to write for a job; `None` when it is the same as before or was written just now.
    /// Takes the job off the list unless it has to come back.
    fn progress_due(&mut self, id: JobId, now: Timestamp) -> Option<Progress> {
        let Some(job) = self.picture.facts.jobs.get(&id) else {
            self.unwritten.remove(&id);
            return None;
        };
        let written = job
            .progress
            .as_ref()
            .is_some_and(|p| p.state() == JobState::Deleted);
        let writes = job.is_live() && !written && !row_stands(&self.picture.facts, job);
        let row = progress(&self.picture, id, job, now).filter(|_| writes);
        let is_new = |known: &KnownProgress, row: &Progress| match &known.row {
            Some(known) => known.digest != digest(row),
            None => needs_row(job, row) || *known != KnownProgress::computed(row),
        };
        let row = row.filter(|row| job.progress.as_ref().is_none_or(|known| is_new(known, row)));
        if row.is_none() {
            self.unwritten.remove(&id);
            return None;
        }
        let written = job
            .progress
            .as_ref()
            .and_then(|known| known.row.as_ref()?.written_at);
        let is_end = row.as_ref().is_some_and(|row| row.state.is_ended());
        if !is_end && written.is_some_and(|at| now.since(at) < self.config.progress_every) {
            return None;
        }
        self.unwritten.remove(&id);
        row
    }

    /// Another cycle follows only where something is left to write, or where a job has ended and its capacity
    /// is free for others.
    pub(crate) fn committed(&mut self, out: &mut Vec<Effect>) {
        for id in self.committing.take().unwrap_or_default() {
            self.wake_dependents(id);
            self.release_stored(id);
            let Some(job) = self.picture.facts.jobs.get(&id) else {
                continue;
            };
            let Some(state) = job.progress.as_ref().map(KnownProgress::state) else {
                continue;
            };
            if state.is_ended() {
                self.due = true;
                self.dirty.insert(id);
                self.child_ended(id);
            }
            let Some(job) = self.picture.facts.jobs.get(&id) else {
                continue;
            };
            if state == JobState::Deleted {
                self.entomb(id);
            } else if state.is_ended() {
                let holders: Vec<_> = job.durable.holders.keys().cloned().collect();
                for cluster in holders {
                    self.send(&cluster, Order::Archive(id), out);
                }
            }
        }
        self.due |= !self.unwritten.is_empty() || !self.writes.is_empty();
    }
}

/// Keeps what is known of a job's progress. Its counts follow from its spec where that is there.
fn note(job: &mut JobView, mut known: KnownProgress) {
    if job.spec.is_some() {
        known.forget_counts();
    }
    job.progress = Some(known);
}

/// That a job was accepted. While it only waited nothing of it was stored, this event neither.
fn accepted(row: &Progress, now: Timestamp) -> Event {
    Event {
        happened: row.created_at,
        reason: Reason::new(ReasonCode::Accepted),
        ..event(row, now)
    }
}

fn event(row: &Progress, now: Timestamp) -> Event {
    let code = match row.state {
        JobState::Waiting => ReasonCode::Accepted,
        JobState::Running => ReasonCode::Running,
        JobState::Stopping | JobState::Stopped => ReasonCode::StopRequested,
        JobState::Succeeded => ReasonCode::Succeeded,
        JobState::Failed => ReasonCode::RetriesExhausted,
        JobState::Deleted => ReasonCode::DeleteRequested,
    };
    Event {
        job: row.job,
        at: now,
        happened: row.since,
        instance: None,
        state: None,
        reason: row.reason.clone().unwrap_or_else(|| Reason::new(code)),
        hostname: None,
        task: None,
    }
}
