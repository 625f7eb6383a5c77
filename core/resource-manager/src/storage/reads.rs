//! What is read from storage, at recovery and again and again: heads after hints and bucket by bucket, specs,
//! pools, clusters, heartbeats. Absence in a read never takes a job away (law 1).

use crate::effect::{Alarm, Effect};
use crate::facts::job::Release;
use crate::facts::known::KnownProgress;
use crate::lifecycle::rollouts;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::cluster::{Cluster, DesiredState, Heartbeat};
use echelon_core_model::job::{Desired, Head, JobState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Consistency, Op, Query};
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ResourceManager {
    pub(crate) fn read_head(&mut self, job: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Recovering | Phase::Leading) {
            let op = Op::Read(Query::Head(job), Consistency::Quorum);
            self.ops.start(Purpose::Head(job), op, now, out);
        }
    }

    /// Reads the heads of which a shard knows newer ones: the hint about the change did not come here.
    pub(crate) fn catch_up(
        &mut self,
        cluster: &ClusterId,
        jobs: &BTreeSet<JobId>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(view) = self.picture.facts.clusters.get(cluster) else {
            return;
        };
        let is_behind = |id: &&JobId| {
            let head = self.picture.facts.jobs.get(id).and_then(|job| job.head.as_ref());
            head.is_some_and(|head| view.knows_newer(**id, head.version))
                && !self.ops.has(&Purpose::Head(**id))
        };
        let behind: Vec<JobId> = jobs.iter().filter(is_behind).copied().collect();
        behind.into_iter().for_each(|id| self.read_head(id, now, out));
    }

    /// Reads a head in a way that settles what became of it.
    pub(crate) fn settle_head(&mut self, job: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.ops.has(&Purpose::SettleHead(job)) {
            let op = Op::Read(Query::Head(job), Consistency::Serial);
            self.ops.start(Purpose::SettleHead(job), op, now, out);
        }
    }

    pub(crate) fn read_pools(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Recovering | Phase::Leading) {
            self.ops.start(
                Purpose::Pools,
                Op::Read(Query::Pools, Consistency::Quorum),
                now,
                out,
            );
        }
    }

    pub(crate) fn read_clusters(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Recovering | Phase::Leading) {
            let op = Op::Read(Query::Clusters, Consistency::Quorum);
            self.ops.start(Purpose::Clusters, op, now, out);
        }
    }

    /// The next bucket of heads whenever its turn has come: all of them within `heads_within`.
    pub(crate) fn reread(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let every = (self.config.heads_within.0 / u64::from(JOB_BUCKETS)).max(1);
        let due = now.since(self.timers.bucket).0 / every;
        for _ in 0..due.min(u64::from(JOB_BUCKETS)) {
            let bucket = self.next_bucket;
            self.next_bucket = (bucket + 1) % JOB_BUCKETS;
            if !self.ops.has(&Purpose::Heads(bucket)) {
                let op = Op::Read(Query::Heads(bucket), Consistency::Quorum);
                self.ops.start(Purpose::Heads(bucket), op, now, out);
            }
        }
        // The time that is left counts for the next bucket: a manager that turns seldom keeps the pace, too.
        self.timers.bucket = self.timers.bucket.plus(Span(due * every));
        if now.since(self.timers.heartbeats) >= self.config.heartbeats {
            self.timers.heartbeats = now;
            let op = Op::Read(Query::Heartbeats, Consistency::Quorum);
            self.ops.start(Purpose::Heartbeats, op, now, out);
        }
        if now.since(self.timers.reread) >= self.config.reread {
            self.timers.reread = now;
            self.store_mark(now, out);
            self.remove_empty_pools(now, out);
            self.ask_for_awaited(now, out);
            self.ask_to_archive(out);
            self.read_pools(now, out);
            self.read_clusters(now, out);
            self.read_control(now, out);
        }
    }

    pub(crate) fn read(&mut self, purpose: Purpose, answer: Answer, now: Timestamp, out: &mut Vec<Effect>) {
        match (purpose, answer) {
            (Purpose::Heads(bucket), Answer::Heads(heads)) => self.bucket_read(bucket, heads, now, out),
            (Purpose::Head(_), Answer::Head(Some(head))) => self.head_read(head, now, out),
            (Purpose::SettleHead(job), Answer::Head(head)) => self.head_settled(job, head, now, out),
            (Purpose::Spec(job, version), Answer::Spec(Some(spec))) => self.spec_read(job, version, spec),
            (Purpose::AsideSpec(job, version), Answer::Spec(Some(spec))) => {
                self.aside_spec_read(job, version, spec);
            }
            (Purpose::ReturnProgress(job), Answer::Progress(rows)) => {
                self.progress_returned(job, rows, now, out);
            }
            (Purpose::ReturnAssignment(job), Answer::Assignments(_, rows)) => {
                self.assignment_returned(job, rows.into_iter().next(), now);
            }
            (Purpose::ProgressBucket(_), Answer::Progress(rows)) => {
                for row in rows {
                    if let Some(at) = row.starved {
                        self.picture.preemption.starved.recall(row.job, at);
                    }
                    let job = self.picture.facts.jobs.open(row.job);
                    job.set_release(row.released.map_or(Release::Held, Release::Stored));
                    job.progress = Some(KnownProgress::read(&row));
                }
            }
            (Purpose::ReadPartition(partition), Answer::Assignments(at, rows)) => {
                if at.epoch != self.epoch {
                    self.step_down(
                        format!("assignments belong to resource manager epoch {}", at.epoch),
                        out,
                    );
                    return;
                }
                self.written.insert(partition, at.sequence);
                for row in rows {
                    for problem in row.problems() {
                        out.push(Effect::Alarm(Alarm::Broken(format!(
                            "job {}: {problem}",
                            row.job
                        ))));
                    }
                    let job = self.picture.facts.jobs.set_durable(row.job, Arc::new(row));
                    job.decided = job.durable.clone();
                }
            }
            (Purpose::Pools, Answer::Pools(tree))
                if tree.version >= self.picture.facts.pools.version && tree != *self.picture.facts.pools =>
            {
                self.due = true;
                self.picture.revision += 1;
                self.picture.facts.set_pools(tree);
            }
            (Purpose::Clusters, Answer::Clusters(rows)) => self.clusters_read(rows, now, out),
            (Purpose::Control, Answer::Control(control)) => self.control_read(control, out),
            (Purpose::ClusterStates, Answer::ClusterStates(rows)) => {
                for row in rows {
                    let view = self
                        .picture
                        .facts
                        .clusters
                        .entry(row.cluster.clone())
                        .or_default();
                    view.state = Some(row);
                }
            }
            (Purpose::Heartbeats, Answer::Heartbeats(rows)) => self.heartbeats_read(rows, now),
            (Purpose::EventEnds, Answer::EventEnds(ends)) => self.event_ends_read(&ends),
            (Purpose::ReadStartBans, Answer::StartBans(row)) => self.start_bans_read(row, now, out),
            (Purpose::SecondLook(cluster), Answer::Heartbeats(rows)) => {
                self.looked_again(&cluster, &rows);
                self.heartbeats_read(rows, now);
                self.read_unbegun(now, out);
            }
            (Purpose::SilentBlocks(cluster, job), Answer::Blocks(blocks, rows)) => {
                self.silent_blocks_read((cluster, job), (blocks, rows), now, out);
            }
            (Purpose::StoredRelease(cluster, round), Answer::Blocks(_, rows)) => {
                self.stored_release_read(&cluster, round, rows, now, out);
            }
            (Purpose::ReleasedBy(cluster, round), Answer::Leadership(leads)) => {
                self.releases_confirmed(&cluster, round, &leads, now, out);
            }
            _ => {}
        }
    }

    /// A bucket of heads. A job that it lacks is not forgotten: what became of it is settled at SERIAL first.
    fn bucket_read(&mut self, bucket: u16, heads: Vec<Head>, now: Timestamp, out: &mut Vec<Effect>) {
        let found: BTreeSet<JobId> = heads.iter().map(|h| h.job).collect();
        for head in heads {
            self.head_read(head, now, out);
        }
        let known = self.picture.facts.jobs.of_bucket(bucket);
        let gone: Vec<JobId> = known
            .filter(|(id, job)| job.head.is_some() && !found.contains(id) && !job.rare.tombstone)
            .map(|(id, _)| id)
            .collect();
        if self.phase == Phase::Leading {
            gone.into_iter().for_each(|id| self.settle_head(id, now, out));
        }
    }

    /// A head, from wherever it was read. Only a newer one counts.
    pub(crate) fn head_read(&mut self, head: Head, now: Timestamp, out: &mut Vec<Effect>) {
        let id = head.job;
        if self.aside.contains(&id) {
            self.aside_head_read(&head);
            return;
        }
        if self.is_tombstone(&head) {
            return;
        }
        if self.is_retired(&head) {
            self.start_todo(now, out);
            return;
        }
        self.note_origin(&head);
        let job = self.picture.facts.jobs.get(&id);
        let known = job.is_some_and(|job| job.head.is_some() || job.next_head.is_some());
        // All heads are read again and again, and most of them have not changed.
        if !known || job.is_some_and(|job| head.version > job.newest_version()) {
            let leads = self.phase == Phase::Leading;
            let next = self.picture.facts.specs.head(&head);
            let job = self.picture.facts.jobs.open(id);
            if leads && !known {
                job.first_seen.get_or_insert(now);
            }
            // Until its spec is there, a new request to run waits; a request to stop needs none.
            if head.spec_version == job.spec_version || head.goal.desired != Desired::Running || head.void {
                job.head = Some(next);
                job.next_head = None;
                self.dirty.insert(id);
                self.due = true;
            } else {
                job.next_head = Some(Box::new(next));
            }
            if leads {
                out.push(Effect::Changed(id));
            }
        }
        self.picture.facts.settle_pool(id);
        self.want_spec(id);
        if self.phase == Phase::Leading {
            self.start_todo(now, out);
        }
    }

    /// Starts the reads that are planned.
    pub(crate) fn start_todo(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        while let Some((purpose, op)) = self.todo.pop_front() {
            self.ops.start(purpose, op, now, out);
        }
    }

    /// Plans to read the spec version that a job's newest head names, unless it is there,
    /// not needed or being read.
    pub(crate) fn want_spec(&mut self, id: JobId) {
        let Some(job) = self.picture.facts.jobs.get(&id) else {
            return;
        };
        let Some(newest) = job.next_head.as_deref().or(job.head.as_ref()) else {
            return;
        };
        let ended = job.progress.as_ref().is_some_and(|p| p.state().is_ended());
        let purpose = Purpose::Spec(id, newest.spec_version);
        let needed = !newest.void && !ended && job.spec_version != newest.spec_version;
        // While recovering, progress may not be read yet: `settle_unknown` comes back to it.
        let now = self.phase == Phase::Leading || self.all_read;
        if !needed || !now {
            return;
        }
        let (version, digest) = (newest.spec_version, newest.common.digest);
        if let Some(same) = digest.and_then(|digest| self.picture.facts.specs.of_digest(&digest)) {
            // One of another job, that asks for the same.
            self.use_spec(id, version, &same);
        } else if !self.ops.has(&purpose) {
            let op = Op::Read(Query::Spec(id, version), Consistency::Quorum);
            self.todo.push_back((purpose, op));
        }
    }

    fn spec_read(&mut self, id: JobId, version: u32, spec: JobSpec) {
        let spec = self.picture.facts.specs.share_read(spec);
        self.use_spec(id, version, &spec);
    }

    /// A version of a job's spec is known.
    fn use_spec(&mut self, id: JobId, version: u32, spec: &Arc<JobSpec>) {
        let Some(job) = self.picture.facts.jobs.get_mut(&id) else {
            return;
        };
        if job.next_head.as_ref().is_some_and(|h| h.spec_version == version) {
            job.head = job.next_head.take().map(|head| *head);
        } else if job.head.as_ref().is_none_or(|h| h.spec_version != version) {
            return;
        }
        let mut surged = JobSpec::clone(spec);
        let surge = rollouts::add_surge(job, &mut surged);
        job.spec = Some(if surge.is_empty() {
            Arc::clone(spec)
        } else {
            self.picture.facts.specs.share(surged)
        });
        if job.rare.surge != surge {
            job.rare.surge = surge;
        }
        if let Some(progress) = &mut job.progress {
            progress.forget_counts();
        }
        job.spec_version = version;
        self.picture.facts.settle_pool(id);
        self.note_awaited(id);
        self.dirty.insert(id);
        self.due = true;
    }

    /// What storage confirms about a head: it confirms an end, brings a newer request,
    /// or shows that the head is gone.
    fn head_settled(&mut self, id: JobId, head: Option<Head>, now: Timestamp, out: &mut Vec<Effect>) {
        if let Some(head) = head {
            let version = head.version;
            self.head_read(head, now, out);
            if let Some(job) = self.picture.facts.jobs.get_mut(&id) {
                job.rare.confirmed = Some(version);
            }
        } else if let Some(job) = self.picture.facts.jobs.get_mut(&id) {
            let deleted = job
                .progress
                .as_ref()
                .is_some_and(|p| p.state() == JobState::Deleted);
            if deleted {
                job.rare.tombstone = true;
            } else if !job.rare.alarmed {
                job.rare.alarmed = true;
                out.push(Effect::Alarm(Alarm::HeadMissing(id)));
            }
        } else {
            self.awaited_is_gone(id);
            self.archive_unknown(id, out);
        }
        self.dirty.insert(id);
        self.due = true;
    }

    fn clusters_read(&mut self, rows: Vec<Cluster>, now: Timestamp, out: &mut Vec<Effect>) {
        for row in rows {
            let view = self.picture.facts.clusters.entry(row.id.clone()).or_default();
            let newer = view
                .row
                .as_ref()
                .is_none_or(|before| row.version > before.version);
            if newer {
                if row.desired_state == DesiredState::Removed {
                    out.push(Effect::Unwatch(row.id.clone()));
                }
                view.row = Some(row);
                self.due = true;
                self.dirty.extend(
                    self.picture
                        .facts
                        .jobs
                        .iter()
                        .filter(|(_, j)| j.is_live())
                        .map(|(id, _)| *id),
                );
            }
        }
        // Asked for again while there is no stream: any effect may be lost.
        for (id, view) in &self.picture.facts.clusters {
            let is_heard = view.quarantine.is_none_or(|until| until <= now);
            if is_heard
                && view.link.is_none()
                && view
                    .row
                    .as_ref()
                    .is_some_and(|r| r.desired_state != DesiredState::Removed)
            {
                out.push(Effect::Watch(id.clone()));
            }
        }
    }

    fn heartbeats_read(&mut self, rows: Vec<Heartbeat>, now: Timestamp) {
        self.self_observation.heartbeats_read_at = Some(now);
        for row in rows {
            let view = self
                .picture
                .facts
                .clusters
                .entry(row.cluster.clone())
                .or_default();
            let same = view.heartbeat.as_ref().is_some_and(|(before, _)| *before == row);
            // The first one proves only that it was written some time:
            // it must change before it counts as life.
            let seen = if view.heartbeat.is_some() {
                now
            } else {
                Timestamp(0)
            };
            if !same {
                view.heartbeat = Some((row, seen));
            }
        }
    }
}
