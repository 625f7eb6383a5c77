//! What an operation on storage was asked for, and where its answer goes.

use crate::journal::Lane;
use crate::recover::ReadBucket;
use crate::{Phase, Shard};
use echelon_core_model::store::{Answer, Op, OpResult, Refusal, rows_told};
use echelon_core_model::{Epoch, Generation, InstanceRange, JobId, Timestamp};

/// What an operation was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The stored epoch, before we have one.
    Epoch,
    /// How new the storage is, before we have an epoch.
    Mark,
    /// The switches, before we have an epoch.
    Switches,
    /// Our own epoch, taken by compare-and-set.
    TakeEpoch(Epoch),
    /// Whether the epoch is still ours.
    Confirm,
    /// What the shard remembers of itself.
    Own,
    /// What an earlier leader knew of hosts.
    HostRows,
    /// The switches.
    Control,
    /// Where starts are forbidden, for a check of the start lease.
    StartBans(u64),
    /// A partition of assignments, for the same check.
    StartAssignments(u64, u16),
    /// A bucket of blocks, to be sealed.
    Bucket(u16),
    /// Up to where the events hold that earlier leaders wrote in a bucket.
    EventEnds(u16),
    /// A partition of assignments.
    Partition(u16),
    /// How far a partition is.
    Changes(u16),
    /// The heads of a bucket that has this tag.
    Heads(u16, i64),
    /// The goal of a group whose buckets are sealed.
    Goal(u32),
    /// Whether the job of a group of which nothing is stored here has ended.
    Standing(u32),
    /// The same of a job of which an assignment names something unknown.
    Adopt(JobId),
    /// A job's goal.
    Head(JobId),
    /// The goal of a job that an order wants to end.
    ConfirmStop(JobId),
    /// What openers of streams must have taken.
    Proof,
    /// A job's assignment, read again before a run of it begins.
    Refresh(JobId),
    /// A spec version.
    Spec(JobId, u32),
    /// A commit of a lane.
    Commit(Lane),
    /// What the former holder of a range knows.
    Former(u32, Generation, InstanceRange),
    /// The head of a stranger's job.
    StrangerHead(JobId),
    /// The assignment of a stranger's job, or of one whose numbers are listed here no more.
    StrangerAssignment(JobId),
    /// What the present holder of numbers that we lost knows.
    Successor(u32, InstanceRange),
    /// Which runs of a job are kept the logs of.
    KeptRuns(JobId),
    /// A commit of kept logs.
    Logs,
}

impl Shard {
    /// Takes the result of an operation in.
    pub(crate) fn on_done(&mut self, purpose: Purpose, since: Timestamp, result: OpResult) {
        match (purpose, result) {
            (Purpose::TakeEpoch(epoch), result) => self.on_taken(epoch, since, result),
            (Purpose::Commit(lane), OpResult::Committed) => {
                self.storage_trouble = None;
                if lane == Lane::HEARTBEAT {
                    self.tell_mark();
                    self.on_heartbeat_stored(since);
                }
                self.on_committed(lane);
            }
            (Purpose::Logs, OpResult::Committed) => self.on_logs_stored(),
            (purpose, OpResult::Answer(answer)) => self.on_answer(purpose, since, answer),
            (Purpose::Bucket(b), OpResult::Partial(Answer::Blocks(blocks, rows), unread))
                if self.recovery.sealing.awaits(b) =>
            {
                self.on_bucket_read(b, ReadBucket { blocks, rows, unread });
            }
            // None of those events is shown.
            (Purpose::EventEnds(b), OpResult::Unread(_)) => self.on_event_ends(b, &[]),
            (Purpose::Own, OpResult::Partial(Answer::Shard(row), unread)) => self.on_own(row, unread),
            (Purpose::Standing(group), OpResult::Partial(_, rows)) => {
                self.on_goal_unread(group, rows_told(&rows));
            }
            (Purpose::StartBans(round), OpResult::Unread(_)) => self.on_start_bans_unread(round),
            // What depends on it waits, as for one that is not there.
            (Purpose::Spec(job, version), OpResult::Unread(_)) => self.on_spec(job, version, None),
            (Purpose::Goal(group), OpResult::Unread(row)) => self.on_goal_unread(group, row.to_string()),
            (purpose, OpResult::Partial(answer, _)) => self.on_answer(purpose, since, answer),
            // An answer of another kind than was asked for proves nothing; a commit stays unknown until its lease ends.
            _ => {}
        }
    }

    /// Storage never takes what was asked.
    pub(crate) fn on_op_refused(&mut self, purpose: Purpose, op: Op, refusal: &Refusal) {
        match (purpose, op) {
            (Purpose::Commit(lane), Op::Commit(batch)) => self.on_commit_refused(lane, batch, refusal),
            (Purpose::Logs, Op::Commit(batch)) => {
                let rest = self.without_refused(batch, refusal);
                match rest {
                    Some(rest) if rest.writes.is_empty() => self.on_logs_stored(),
                    Some(rest) => self.commit_as(Purpose::Logs, rest.writes),
                    None => {}
                }
            }
            (_, _) => self.step_down(format!("storage refuses {refusal}")),
        }
    }

    fn on_answer(&mut self, purpose: Purpose, since: Timestamp, answer: Answer) {
        match (purpose, answer) {
            (Purpose::Epoch, Answer::Leadership(stored)) => self.on_epoch(stored),
            (Purpose::Mark, Answer::Mark(mark)) => self.on_mark(mark),
            (Purpose::Switches, Answer::Control(control)) => self.on_switches(&control),
            (Purpose::Confirm, Answer::Leadership(stored)) => self.on_confirmed(&stored, since),
            (Purpose::Own, Answer::Shard(row)) => self.on_own(row, Vec::new()),
            (Purpose::Control, Answer::Control(control)) => self.on_control(&control, since),
            (Purpose::StartBans(round), Answer::StartBans(bans)) => self.on_start_bans(round, &bans),
            (Purpose::StartAssignments(round, p), Answer::Assignments(_, all)) => {
                self.on_start_assignments((round, p), &all, since);
            }
            (Purpose::HostRows, Answer::Hosts(rows)) if self.phase == Phase::ReadingOwn => {
                self.on_hosts(rows)
            }
            (Purpose::Bucket(b), Answer::Blocks(blocks, rows)) if self.recovery.sealing.awaits(b) => {
                let unread = Vec::new();
                self.on_bucket_read(b, ReadBucket { blocks, rows, unread });
            }
            (Purpose::EventEnds(b), Answer::EventEnds(ends)) => self.on_event_ends(b, &ends),
            (Purpose::Partition(p), Answer::Assignments(at, all)) if self.is_recovering() => {
                self.on_recovered_partition(p, at.epoch, all, since);
            }
            (Purpose::Partition(p), Answer::Assignments(at, all)) => self.on_partition(p, at, &all, since),
            (Purpose::Changes(p), Answer::Changes(changes)) => self.on_changes(p, &changes),
            (Purpose::Heads(bucket, tag), Answer::Heads(heads)) => {
                self.on_heads((bucket, tag), heads, since);
            }
            (Purpose::Goal(group), Answer::Head(head)) => self.on_goal(group, head, since),
            (Purpose::Standing(group), Answer::Progress(rows)) => self.on_standing(group, &rows),
            (Purpose::Adopt(job), Answer::Progress(rows)) => self.on_adopt(job, &rows),
            (Purpose::Head(job), Answer::Head(head)) => self.on_head(job, head, since),
            (Purpose::ConfirmStop(job), Answer::Head(head)) => self.on_confirmed_head(job, head, since),
            (Purpose::Proof, Answer::Leadership(row)) => self.on_proof(row),
            (Purpose::Refresh(job), Answer::Assignments(at, all)) => {
                self.on_refresh(job, at.epoch, &all, since)
            }
            (Purpose::Spec(job, version), Answer::Spec(spec)) => self.on_spec(job, version, spec),
            (Purpose::Former(group, generation, range), Answer::Blocks(blocks, _)) => {
                self.on_former(group, generation, range, &blocks);
            }
            (Purpose::StrangerHead(job), Answer::Head(head)) => self.on_stranger_head(job, head),
            (Purpose::StrangerAssignment(job), Answer::Assignments(_, all)) => {
                self.on_stranger_assignment(job, &all);
            }
            (Purpose::KeptRuns(job), Answer::KeptRuns(lists)) => self.on_kept_runs(job, lists),
            (Purpose::Successor(group, range), Answer::Blocks(blocks, _)) => {
                self.on_successor(group, range, &blocks);
            }
            _ => {}
        }
    }
}
