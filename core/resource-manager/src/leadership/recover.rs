//! From elected to leading: take the epoch, raise every partition of assignments before reading it, read
//! everything stored. A storage that has seen less than the membership was rolled back: nothing is done then.

use crate::effect::{Alarm, Effect};
use crate::leadership::resume::Resume;
use crate::manager::{Phase, ResourceManager};
use crate::orders::writes::EVENT_LANE;
use crate::storage::operations::Purpose;
use crate::turns::Turns;
use echelon_core_model::bucket::{ASSIGNMENT_PARTITIONS, JOB_BUCKETS};
use echelon_core_model::control::Control;
use echelon_core_model::pause::Pause;
use echelon_core_model::store::{
    Answer, Batch, Consistency, Decided, Decision, Evidence, Leadership, Mark, Op, OpFailure, OpResult,
    Query, Role, Stamp, Write,
};
use echelon_core_model::{ClusterId, Epoch, JobId, Timestamp};
use std::collections::BTreeSet;

/// Most jobs of which a new leader looks for the specs in one step.
const UNKNOWN: usize = if cfg!(test) { 20 } else { 5_000 };

impl ResourceManager {
    pub(crate) fn elected(&mut self, published: Stamp, now: Timestamp, out: &mut Vec<Effect>) {
        self.forget();
        self.published = published;
        self.phase = Phase::Taking;
        self.timers.confirmed = now;
        self.read_leadership(now, out);
    }

    pub(crate) fn read_leadership(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let op = Op::Read(Query::Leadership(Role::ResourceManager), Consistency::Serial);
        self.ops.start(Purpose::ReadLeadership, op, now, out);
    }

    pub(crate) fn leadership_read(&mut self, stored: &Leadership, now: Timestamp, out: &mut Vec<Effect>) {
        if let Some(evidence) = Evidence::of_epoch(self.published, stored) {
            return self.freeze(evidence, now, out);
        }
        if self.is_frozen() {
            self.phase = Phase::Frozen(now);
        }
        self.evidence = Evidence {
            published: self.published,
            leadership: stored.clone(),
            ..Evidence::default()
        };
        let op = Op::Read(Query::Mark(Role::ResourceManager), Consistency::Quorum);
        self.ops.start(Purpose::ReadMark, op, now, out);
    }

    fn freeze(&mut self, evidence: String, now: Timestamp, out: &mut Vec<Effect>) {
        self.phase = Phase::Frozen(now);
        self.frozen.clone_from(&evidence);
        out.push(Effect::Alarm(Alarm::StorageRolledBack { evidence }));
    }

    /// The mark shows how new storage is.
    fn mark_read(&mut self, mark: Option<Mark>, now: Timestamp, out: &mut Vec<Effect>) {
        self.evidence.mark = mark;
        let op = Op::Read(Query::Control, Consistency::Serial);
        self.ops.start(Purpose::ReadSwitches, op, now, out);
    }

    /// The switches as stored: all is known that may show an old storage.
    /// An epoch is taken only where nothing does.
    fn switches_read(&mut self, control: &Control, now: Timestamp, out: &mut Vec<Effect>) {
        self.evidence.control = control.version;
        if let Some(evidence) = self.evidence.of_rollback() {
            return self.freeze(evidence, now, out);
        }
        let stored = &self.evidence.leadership;
        let next = Leadership {
            resumed: stored.resumed,
            ..Leadership::taken(stored.epoch.next(), &self.config.holder, self.config.seed)
        };
        if next.epoch.0 >= Epoch::END {
            self.step_down(
                format!("epoch {} may not be used: epochs are spent", next.epoch),
                out,
            );
            return;
        }
        self.phase = Phase::Taking;
        let decision = Decision::TakeEpoch {
            role: Role::ResourceManager,
            next,
            expected: stored.epoch,
        };
        self.ops.start(Purpose::TakeEpoch, Op::Decide(decision), now, out);
    }

    pub(crate) fn epoch_decided(&mut self, op: Op, decided: Decided, now: Timestamp, out: &mut Vec<Effect>) {
        let Op::Decide(Decision::TakeEpoch { next, .. }) = op else {
            return;
        };
        if decided != Decided::Applied {
            // Another process took it in between: look again.
            self.read_leadership(now, out);
            return;
        }
        self.epoch = next.epoch;
        self.resume = Resume::of(&next, self.evidence.mark.as_ref());
        self.phase = Phase::Recovering;
        let mark = self.evidence.mark.as_ref();
        self.picture.facts.pause = mark.map_or_else(Pause::default, |mark| Pause::new(mark.at, now));
        self.timers.confirmed = now;
        self.timers.confirm_asked = now;
        self.timers.leading = now;
        out.push(Effect::Publish(self.epoch));
        self.read_everything();
        let open: Vec<ClusterId> = self
            .picture
            .facts
            .clusters
            .iter()
            .filter(|(_, c)| c.link.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for cluster in open {
            self.greet(&cluster, out);
            self.ask(&cluster, now, out);
        }
        self.recover_on(now, out);
    }

    /// Stores how new storage is.
    pub(crate) fn store_mark(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.ops.has(&Purpose::Mark) {
            return;
        }
        let stamp = self.stamp();
        let mark = Mark {
            stamp,
            control: self.picture.facts.control.version,
            at: now,
            settled: self.resume.settled,
        };
        let batch = Batch {
            owner: Role::ResourceManager,
            stamp,
            writes: vec![Write::Mark(mark)],
        };
        self.ops.start(Purpose::Mark, Op::Commit(batch), now, out);
    }

    /// The mark is durable: it is published to membership, which no backup contains.
    fn marked(&self, op: Op, out: &mut Vec<Effect>) {
        if let Op::Commit(batch) = op {
            out.push(Effect::Mark(batch.stamp));
        }
    }

    fn read_everything(&mut self) {
        let quorum = |q| Op::Read(q, Consistency::Quorum);
        let serial = |q| Op::Read(q, Consistency::Serial);
        self.todo.push_back((Purpose::Clusters, serial(Query::Clusters)));
        self.todo.push_back((Purpose::Control, serial(Query::Control)));
        self.todo.push_back((Purpose::Pools, serial(Query::Pools)));
        self.todo
            .push_back((Purpose::ReadStartBans, serial(Query::StartBans)));
        self.todo
            .push_back((Purpose::ClusterStates, quorum(Query::ClusterStates)));
        self.todo
            .push_back((Purpose::Heartbeats, quorum(Query::Heartbeats)));
        let ends = Query::EventEnds(Role::ResourceManager, EVENT_LANE);
        self.todo.push_back((Purpose::EventEnds, quorum(ends)));
        for partition in 0..ASSIGNMENT_PARTITIONS {
            let raise = Decision::RaisePartition {
                partition,
                epoch: self.epoch,
                expected: Epoch(self.epoch.0.saturating_sub(1)),
            };
            self.todo
                .push_back((Purpose::RaisePartition(partition), Op::Decide(raise)));
        }
        for bucket in 0..JOB_BUCKETS {
            self.todo.push_back((
                Purpose::ProgressBucket(bucket),
                quorum(Query::ProgressBucket(bucket)),
            ));
            self.todo
                .push_back((Purpose::Heads(bucket), quorum(Query::Heads(bucket))));
        }
    }

    /// Starts more of what is to be read; leads once nothing is left.
    pub(crate) fn recover_on(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.phase != Phase::Recovering {
            return;
        }
        while self.ops.len() < self.config.reads_at_once {
            let Some((purpose, op)) = self.todo.pop_front() else {
                break;
            };
            self.ops.start(purpose, op, now, out);
        }
        if self.ops.len() > 0 || !self.todo.is_empty() {
            return;
        }
        self.all_read = true;
        if self.settle_unknown(now, out) {
            return;
        }
        self.phase = Phase::Leading;
        self.settle_resume(now, out);
        self.sort_out_tombstones();
        self.timers.bucket = now;
        self.timers.reread = now;
        self.turns.unseen = Some(Turns::default());
        self.due = true;
    }

    /// Reads the specs of jobs that go on, and settles what became of heads that were not found: of some jobs
    /// in each step. Of jobs that ask for the same the first one's spec is read; the others find it when they
    /// are looked at again. Returns whether anything had to be read, or is to be looked at.
    fn settle_unknown(&mut self, now: Timestamp, out: &mut Vec<Effect>) -> bool {
        let ids = self.picture.facts.jobs.after(self.turns.unknown.0);
        let ids: Vec<JobId> = ids.take(UNKNOWN).map(|(id, _)| *id).collect();
        let is_last = ids.len() < UNKNOWN;
        let last = ids.last().copied();
        let mut being_read: BTreeSet<[u8; 16]> = BTreeSet::new();
        for id in ids {
            let Some(job) = self.picture.facts.jobs.get(&id) else {
                continue;
            };
            if job.head.is_none() && job.next_head.is_none() && !job.rare.alarmed && !job.rare.tombstone {
                let op = Op::Read(Query::Head(id), Consistency::Serial);
                self.todo.push_back((Purpose::SettleHead(id), op));
                continue;
            }
            let newest = job.next_head.as_deref().or(job.head.as_ref());
            let digest = newest.and_then(|head| head.common.digest);
            if digest.is_some_and(|digest| being_read.contains(&digest)) {
                continue;
            }
            let before = self.todo.len();
            self.want_spec(id);
            if self.todo.len() > before {
                being_read.extend(digest);
            }
        }
        let any = !self.todo.is_empty();
        if let Some(last) = last.filter(|_| !any) {
            self.turns.unknown = Turns(last);
        }
        while self.ops.len() < self.config.reads_at_once {
            let Some((purpose, op)) = self.todo.pop_front() else {
                break;
            };
            self.ops.start(purpose, op, now, out);
        }
        any || !is_last
    }

    pub(crate) fn partition_raised(
        &mut self,
        partition: u16,
        decided: Decided,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        match decided {
            Decided::Applied => {
                let op = Op::Read(Query::Assignments(partition), Consistency::Serial);
                self.ops.start(Purpose::ReadPartition(partition), op, now, out);
            }
            Decided::Conflict(present) => match *present {
                Answer::Assignments(there, _) if there.epoch < self.epoch => {
                    let raise = Decision::RaisePartition {
                        partition,
                        epoch: self.epoch,
                        expected: there.epoch,
                    };
                    self.ops
                        .start(Purpose::RaisePartition(partition), Op::Decide(raise), now, out);
                }
                Answer::Assignments(newer, _) => {
                    self.step_down(
                        format!("assignments belong to resource manager epoch {}", newer.epoch),
                        out,
                    );
                }
                other => {
                    self.step_down(
                        format!("storage answered a raise of partition {partition} with {other:?}"),
                        out,
                    );
                }
            },
        }
    }

    /// Reads the own epoch again; a leader that cannot for its whole lease stops acting.
    pub(crate) fn confirm_epoch(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Recovering | Phase::Leading) {
            return;
        }
        if now.since(self.timers.confirmed) >= self.config.lease {
            if self.meets_all(now) {
                return self.doubt(now, out);
            }
            let why = format!(
                "the epoch could not be read for {}; storage is unreachable",
                self.config.lease
            );
            self.step_down(why, out);
            return;
        }
        let third = self.config.lease.0 / 3;
        if now.since(self.timers.confirm_asked).0 >= third && !self.ops.has(&Purpose::ConfirmEpoch) {
            self.timers.confirm_asked = now;
            let op = Op::Read(Query::Leadership(Role::ResourceManager), Consistency::Serial);
            self.ops.start(Purpose::ConfirmEpoch, op, now, out);
        }
    }

    /// Whether a stored leadership is this one.
    pub(crate) fn stands(&self, stored: &Leadership) -> bool {
        stored.epoch == self.epoch && stored.holder == self.config.holder
    }

    pub(crate) fn epoch_confirmed(&mut self, stored: &Leadership, out: &mut Vec<Effect>) {
        if self.stands(stored) {
            self.timers.confirmed = self.timers.confirm_asked;
        } else {
            self.step_down(
                format!(
                    "resource manager epoch {} was taken by {}",
                    stored.epoch, stored.holder
                ),
                out,
            );
        }
    }

    /// Takes a result in.
    pub(crate) fn stored(
        &mut self,
        (purpose, op): (Purpose, Op),
        result: OpResult,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        match (purpose, result) {
            (purpose, OpResult::Failed(OpFailure::Refused(refusal))) => {
                self.op_refused(purpose, op, &refusal, now, out);
            }
            (Purpose::Flow(key), result) => self.flow_stored(key, result, now, out),
            (Purpose::ReadLeadership, OpResult::Answer(Answer::Leadership(l))) => {
                self.leadership_read(&l, now, out)
            }
            (Purpose::ReadMark, OpResult::Answer(Answer::Mark(mark))) => self.mark_read(mark, now, out),
            (Purpose::ReadSwitches, OpResult::Answer(Answer::Control(c))) => self.switches_read(&c, now, out),
            (Purpose::Mark, OpResult::Committed) => self.marked(op, out),
            (Purpose::TakeEpoch, OpResult::Decided(d)) => self.epoch_decided(op, d, now, out),
            (Purpose::ConfirmEpoch, OpResult::Answer(Answer::Leadership(l))) => self.epoch_confirmed(&l, out),
            (Purpose::CheckEpoch(cluster, newer), OpResult::Answer(Answer::Leadership(l))) => {
                self.epoch_checked((&cluster, newer), &l, now, out);
            }
            (Purpose::ShardResumed(cluster), OpResult::Answer(Answer::Leadership(l))) => {
                self.shard_resumed(&cluster, &l, now, out);
            }
            (Purpose::RaisePartition(p), OpResult::Decided(d)) => self.partition_raised(p, d, now, out),
            (Purpose::PutAssignments(p), OpResult::Decided(d)) => self.assignments_put(p, d, out),
            (Purpose::PutStartBans, OpResult::Decided(d)) => self.start_bans_put(op, d, now, out),
            (Purpose::SilentBlocks(cluster, job), OpResult::Partial(..)) => {
                self.silent_blocks_unread(&cluster, job);
            }
            (Purpose::StoredRelease(cluster, round), OpResult::Partial(..)) => {
                self.stored_release_read(&cluster, round, Vec::new(), now, out);
            }
            // Whichever write came first, the tree is another one now.
            (Purpose::PutPools, OpResult::Decided(_)) => self.read_pools(now, out),
            (Purpose::RemoveHead(job), OpResult::Decided(d)) => self.head_removed(job, d),
            (Purpose::Commit, OpResult::Committed) => self.committed(out),
            (Purpose::FileAssignments, OpResult::Committed) => self.assignments_filed(),
            (Purpose::CloseCluster(_), OpResult::Decided(d)) => self.cluster_closed(&d, now, out),
            (Purpose::ReadRemoved(id), OpResult::Answer(Answer::Leadership(l))) => {
                self.take_removed(id, &l, now, out);
            }
            (Purpose::FenceRemoved(id), OpResult::Decided(d)) => self.hide_removed(id, &d, now, out),
            (Purpose::HideRemoved(id), OpResult::Committed) => self.removed_hidden(&id),
            (purpose, OpResult::Answer(answer) | OpResult::Partial(answer, _)) => {
                self.read(purpose, answer, now, out);
            }
            // An answer that does not belong to its question is no answer; the next re-read asks again.
            _ => {}
        }
        self.recover_on(now, out);
    }
}
