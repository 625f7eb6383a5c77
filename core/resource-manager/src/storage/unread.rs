//! Rows that are in storage and cannot be understood. A job of which one is the head, the assignment, the
//! progress or the spec is set aside: nothing of it is assigned, granted, moved or written, and what runs of
//! it stays. What its shards report as active of it counts in its pool and at its clusters, as far as its
//! spec can be read. That is the spec that its head names, and without a head the newest one that a shard
//! reports, in the pool that this names. Where the spec cannot be read, the capacity that it asks for is not
//! known: such a job counts nowhere, and an alarm names it.

use crate::effect::{Alarm, Effect};
use crate::facts::job::AsideJob;
use crate::manager::ResourceManager;
use crate::picture::Picture;
use crate::storage::operations::Purpose;
use echelon_core_model::job::Head;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{
    Consistency, Op, OpFailure, OpId, OpResult, Query, TroubleKind, UnreadRow, rows_told,
};
use echelon_core_model::{JobId, Timestamp};

/// Rows with an alarm that are remembered, so that it is raised once. Rows beyond these raise none.
const TOLD_ROWS: usize = 4096;

impl ResourceManager {
    /// Raises alarms for rows that cannot be understood and sets their jobs aside.
    /// A read that cannot do without them has failed, and is made again.
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
            Some(
                Purpose::Clusters
                    | Purpose::ClusterStates
                    | Purpose::Heartbeats
                    | Purpose::SecondLook(_)
                    // Without it no event of older leaders is shown.
                    | Purpose::EventEnds
            )
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
        let job = self.picture.facts.jobs.open(id);
        // Without a head nothing is decided of a job. What its shards report of it stays.
        job.next_head = None;
        job.rare.aside = Some(Box::new(AsideJob {
            head: job.head.take(),
            spec: job.spec.take(),
            asked: job.spec_version,
        }));
        job.spec_version = 0;
        job.rare.alarmed = true;
        self.unwritten.remove(&id);
        self.dirty.insert(id);
        self.due = true;
    }

    /// The head of a job that is set aside, if that is not the row that cannot be read.
    pub(crate) fn aside_head_read(&mut self, head: &Head) {
        let known = self.picture.facts.specs.head(head);
        if let Some(aside) = self
            .picture
            .facts
            .jobs
            .get_aside(&head.job)
            .and_then(|j| j.rare.aside.as_mut())
        {
            aside.head = Some(known);
        }
    }

    /// Reads specs of jobs that are set aside, to count what runs of them.
    pub(crate) fn read_aside_specs(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        for id in self.aside.clone() {
            let told = self
                .picture
                .facts
                .clusters
                .values()
                .flat_map(|c| c.reports_of(id));
            let told = told.map(|(_, report)| report.revision).max().unwrap_or_default();
            let Some(aside) = self
                .picture
                .facts
                .jobs
                .get_aside(&id)
                .and_then(|j| j.rare.aside.as_mut())
            else {
                continue;
            };
            let version = aside.head.as_ref().map_or(told, |head| head.spec_version);
            if version == 0 || version == aside.asked {
                continue;
            }
            aside.asked = version;
            let op = Op::Read(Query::Spec(id, version), Consistency::Quorum);
            self.ops.start(Purpose::AsideSpec(id, version), op, now, out);
        }
    }

    /// The spec of a job that is set aside.
    pub(crate) fn aside_spec_read(&mut self, id: JobId, version: u32, spec: JobSpec) {
        let path = |picture: &Picture| {
            let aside = picture.facts.jobs.get(&id)?.rare.aside.as_ref()?;
            let head = aside.head.as_ref()?;
            Some(picture.facts.path_of(head).to_owned())
        };
        let pool = path(&self.picture).unwrap_or_else(|| spec.pool.clone());
        let spec = self.picture.facts.specs.share(JobSpec { pool, ..spec });
        if let Some(aside) = self
            .picture
            .facts
            .jobs
            .get_mut(&id)
            .and_then(|j| j.rare.aside.as_mut())
            && aside.asked == version
        {
            aside.spec = Some(spec);
            self.due = true;
        }
    }
}
