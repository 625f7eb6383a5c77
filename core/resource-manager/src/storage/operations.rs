//! Operations on storage that are under way: what each is for,
//! when a failed or unanswered one is repeated unchanged.

use crate::config::Config;
use crate::effect::Effect;
use crate::storage::flows::FlowKey;
use echelon_core_model::store::{Op, OpFailure, OpId, OpResult};
use echelon_core_model::{ClusterId, Epoch, JobId, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What an operation is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Reads the leadership before taking it.
    ReadLeadership,
    /// Reads how new storage is before taking the leadership.
    ReadMark,
    /// Reads the switches before taking the leadership.
    ReadSwitches,
    /// Takes the leadership.
    TakeEpoch,
    /// Reads up to where the events of older leaders hold.
    EventEnds,
    /// Reads the own epoch again.
    ConfirmEpoch,
    /// Reads the own epoch because a shard reports that it obeys a newer one.
    CheckEpoch(ClusterId, Epoch),
    /// Reads when the storage of a shard's role was resumed.
    ShardResumed(ClusterId),
    /// Raises a partition's epoch.
    RaisePartition(u16),
    /// Reads a partition.
    ReadPartition(u16),
    /// Reads clusters.
    Clusters,
    /// Reads contacts.
    ClusterStates,
    /// Reads signs of life.
    Heartbeats,
    /// Reads where starts are forbidden.
    ReadStartBans,
    /// Writes where starts are forbidden.
    PutStartBans,
    /// Reads heartbeats once more, after starts were forbidden at a cluster.
    SecondLook(ClusterId),
    /// Reads what a silent cluster has stored of a job.
    SilentBlocks(ClusterId, JobId),
    /// Reads what a shard that hears no resource manager has released of a group.
    /// The number is that of a round of reads.
    StoredRelease(ClusterId, u64),
    /// Reads the leadership of that shard, after the rows of a round.
    ReleasedBy(ClusterId, u64),
    /// Reads the switches.
    Control,
    /// Reads pools.
    Pools,
    /// Reads a bucket of heads.
    Heads(u16),
    /// Reads a bucket of progress rows.
    ProgressBucket(u16),
    /// Reads one head after a hint.
    Head(JobId),
    /// Reads one head at SERIAL, to settle what became of it.
    SettleHead(JobId),
    /// Reads a spec version.
    Spec(JobId, u32),
    /// Reads a spec version of a job that is set aside.
    AsideSpec(JobId, u32),
    /// Writes a partition.
    PutAssignments(u16),
    /// Writes progress, contacts and events.
    Commit,
    /// Writes copies of the assignments of ended jobs.
    FileAssignments,
    /// Writes how new storage is.
    Mark,
    /// Takes pools out of the tree that were to go and are empty.
    PutPools,
    /// A step of a flow.
    Flow(FlowKey),
    /// Reads the progress row of an ended job that is to be deleted.
    ReturnProgress(JobId),
    /// Reads its assignment.
    ReturnAssignment(JobId),
    /// Removes a tombstone's head.
    RemoveHead(JobId),
    /// Writes the row of a removed cluster.
    CloseCluster(ClusterId),
    /// Reads who leads the shard of a removed cluster.
    ReadRemoved(ClusterId),
    /// Takes the leadership of that shard.
    FenceRemoved(ClusterId),
    /// Hides what that shard has stored.
    HideRemoved(ClusterId),
}

#[derive(Debug, Clone)]
struct Pending {
    purpose: Purpose,
    op: Op,
    tries: u32,
    /// When it is emitted again unless it has a result.
    again_at: Timestamp,
}

/// The operations under way.
#[derive(Debug, Clone)]
pub struct Ops {
    next: u64,
    random: u64,
    pending: BTreeMap<OpId, Pending>,
    /// When each is emitted again. Thousands may be under way, and no step looks at all of them.
    due: BTreeSet<(Timestamp, OpId)>,
    by_purpose: BTreeSet<(Purpose, OpId)>,
    backoff: Span,
    max_backoff: Span,
    patience: Span,
}

impl Ops {
    /// None under way.
    #[must_use]
    pub const fn new(config: &Config) -> Self {
        Self {
            next: 1,
            random: config.seed,
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            by_purpose: BTreeSet::new(),
            backoff: config.backoff,
            max_backoff: config.max_backoff,
            patience: config.lease,
        }
    }

    /// Forgets all that is under way: its results will be ignored.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.due.clear();
        self.by_purpose.clear();
    }

    /// How many are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether one for this purpose is under way.
    #[must_use]
    pub fn has(&self, purpose: &Purpose) -> bool {
        self.id_of(purpose).is_some()
    }

    /// The one for this purpose that is under way.
    #[must_use]
    pub fn id_of(&self, purpose: &Purpose) -> Option<OpId> {
        let mut of = self.by_purpose.range((purpose.clone(), OpId(0))..);
        of.next().filter(|(of, _)| of == purpose).map(|(_, id)| *id)
    }

    /// What one under way is for.
    #[must_use]
    pub fn purpose(&self, id: OpId) -> Option<&Purpose> {
        self.pending.get(&id).map(|p| &p.purpose)
    }

    /// Starts one.
    pub fn start(&mut self, purpose: Purpose, op: Op, now: Timestamp, out: &mut Vec<Effect>) -> OpId {
        let id = OpId(self.next);
        self.next += 1;
        out.push(Effect::Storage(id, op.clone()));
        let pending = Pending {
            purpose,
            op,
            tries: 0,
            again_at: now.plus(self.patience),
        };
        self.due.insert((pending.again_at, id));
        self.by_purpose.insert((pending.purpose.clone(), id));
        self.pending.insert(id, pending);
        id
    }

    /// Takes a result in. Returns what it was for, and the operation.
    /// `None` when nothing waits for it, or when it failed and will be repeated.
    /// What is refused is not repeated.
    pub fn finish(&mut self, id: OpId, result: &OpResult, now: Timestamp) -> Option<(Purpose, Op)> {
        let again = matches!(
            result,
            OpResult::Failed(OpFailure::NotDone(_) | OpFailure::Unknown(_))
        );
        if !again {
            let pending = self.pending.remove(&id)?;
            self.due.remove(&(pending.again_at, id));
            self.by_purpose.remove(&(pending.purpose.clone(), id));
            return Some((pending.purpose, pending.op));
        }
        let jitter = self.draw();
        let pending = self.pending.get_mut(&id)?;
        let doubled = self.backoff.0.saturating_mul(1 << pending.tries.min(16));
        let wait = doubled.min(self.max_backoff.0).max(1);
        // Between half and all of it, so that many leaders of one storage do not come back together.
        let again_at = now.plus(Span(wait / 2 + jitter % (wait / 2 + 1)));
        pending.tries += 1;
        self.put_off(id, again_at);
        None
    }

    /// Emits again what is due, unchanged and under the same id.
    pub fn repeat_due(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<OpId> = due.map(|(_, id)| *id).collect();
        due.sort_unstable();
        due.into_iter().for_each(|id| self.repeat_one(id, now, out));
    }

    /// Has one emitted again at another time.
    fn put_off(&mut self, id: OpId, until: Timestamp) {
        if let Some(pending) = self.pending.get_mut(&id) {
            self.due.remove(&(pending.again_at, id));
            pending.again_at = until;
            self.due.insert((until, id));
        }
    }

    /// Emits one again when it is due.
    pub fn repeat_one(&mut self, id: OpId, now: Timestamp, out: &mut Vec<Effect>) {
        if let Some(pending) = self.pending.get(&id).filter(|p| p.again_at <= now) {
            out.push(Effect::Storage(id, pending.op.clone()));
            self.put_off(id, now.plus(self.patience));
        }
    }

    /// When this one is due.
    #[must_use]
    pub fn due_of(&self, id: OpId) -> Option<Timestamp> {
        self.pending.get(&id).map(|p| p.again_at)
    }

    /// When something is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next number of the random stream (splitmix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }
}
