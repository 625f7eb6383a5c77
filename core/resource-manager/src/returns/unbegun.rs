//! What leaves a cluster where starts are forbidden. It is released without its shard, and is bound anew like
//! all that is bound nowhere. What the shard has stored is read from its blocks:
//!
//! - What was granted and has no stored intent leaves. An index with a record of anything but attempts stays: of a
//!   run, an end, a volume or something unsettled.
//! - Of a job to which the cluster is lost (`facts/loss.rs`) everything leaves that has not ended. Its runs there may
//!   be alive, and its user allowed that two of an instance may be. The shard stops them when it returns, and
//!   volumes stay on their hosts.
//!
//! The next holder reads the records of the former one from storage, whether or not that one has a leader.
//! Where the silent shard had not taken the records of its own former holder over, those count for the next
//! holder.

use crate::admission::router::GroupOf;
use crate::assignment::indexes::note_holders;
use crate::assignment::ranges::{Cut, change};
use crate::assignment::release::remember;
use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::facts::loss::CountedCapacity;
use crate::facts::slice::SliceKey;
use crate::manager::ResourceManager;
use crate::returns::start_bans::BanStep;
use crate::storage::operations::Purpose;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::{Block, InstanceRecord, SliceRow};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::store::{Consistency, Event, Op, Query, Write};
use echelon_core_model::{ClusterId, InstanceRange, JobId, RangeSet, Reason, ReasonCode, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Indexes of which blocks are read at once: 8 MiB at most.
const INDEXES_A_READ: u32 = BLOCK_SIZE * 64;
/// Jobs that are looked at in one step.
const LOOKS: usize = 1_000;

/// Indexes of a slice that may leave.
#[derive(Debug, Clone, Default)]
struct Unbegun {
    /// Those whose records, if any, are the silent shard's.
    own: RangeSet,
    /// Those whose former holder's records it has not taken over.
    untaken: RangeSet,
    /// Of these, those of which something has begun there.
    given_up: RangeSet,
}

/// A job of which blocks are being read.
#[derive(Debug, Clone)]
struct JobBlocks {
    /// What is to be read, the read under way first.
    left: VecDeque<(SliceKey, InstanceRange)>,
    found: BTreeMap<SliceKey, Unbegun>,
}

/// The moves from one silent cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnbegunMoves {
    /// Jobs up to this one were looked at in this round; `None`: none was.
    after: Option<JobId>,
    /// When the next round begins.
    again_at: Timestamp,
    reading: BTreeMap<JobId, JobBlocks>,
    /// Indexes that are released and not stored as that.
    unstored: BTreeMap<JobId, Vec<(SliceKey, RangeSet)>>,
}

impl UnbegunMoves {
    /// What is being read is not waited for.
    pub(crate) fn stop_reading(&mut self) {
        self.reading.clear();
    }

    pub(crate) fn footprint(&self) -> usize {
        self.reading.len() + self.unstored.len()
    }

    /// Whether no move is on its way to storage.
    pub(crate) fn are_stored(&self) -> bool {
        self.unstored.is_empty()
    }
}

/// Which indexes leave, by what is stored of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// Those that have not begun.
    Unbegun,
    /// Those that have not ended.
    Unended,
}

impl Leaves {
    /// Whether an index with this record stays.
    fn keeps(self, record: &InstanceRecord) -> bool {
        match self {
            Self::Unbegun => has_begun(record),
            Self::Unended => record.ended.is_some(),
        }
    }
}

/// Whether a record says that its instance has begun, or may have, or keeps it where it is.
fn has_begun(record: &InstanceRecord) -> bool {
    record.run.is_some()
        || !record.older.is_empty()
        || record.ended.is_some()
        || record.unsettled
        || record.volume.is_some()
}

/// Cuts a range at multiples of what is read at once.
fn pieces(range: InstanceRange) -> impl Iterator<Item = InstanceRange> {
    (range.first / INDEXES_A_READ..=range.last / INDEXES_A_READ).filter_map(move |i| {
        let first = i.saturating_mul(INDEXES_A_READ);
        let piece = InstanceRange::new(first, first.saturating_add(INDEXES_A_READ - 1))?;
        piece.intersect(range)
    })
}

impl ResourceManager {
    /// Notes which moves are stored. One that storage refuses for good is undone by then.
    pub(crate) fn note_stored_moves(&mut self) {
        let jobs = &self.picture.facts.jobs;
        for of in self.start_banning.clusters.values_mut() {
            of.moves.unstored.retain(|id, moved| {
                let Some(job) = jobs.get(id).filter(|job| !job.is_refused()) else {
                    return false;
                };
                moved.iter().any(|(key, numbers)| {
                    let mut ranges = job.durable.ranges(&key.group).iter();
                    ranges.any(|r| {
                        let range: RangeSet = std::iter::once(r.range).collect();
                        let is_here = (&r.cluster, r.generation) == (&key.cluster, key.generation);
                        is_here && !range.intersect(numbers).is_empty()
                    })
                })
            });
        }
    }

    /// Reads blocks of further jobs at clusters where what has not begun may move.
    pub(crate) fn read_unbegun(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let moving = self.start_banning.clusters.iter();
        let moving = moving.filter(|(_, of)| of.step == BanStep::Moving && now >= of.moves.again_at);
        let moving: Vec<ClusterId> = moving.map(|(id, _)| id.clone()).collect();
        for cluster in moving {
            self.read_unbegun_at(&cluster, now, out);
        }
    }

    fn read_unbegun_at(&mut self, cluster: &ClusterId, now: Timestamp, out: &mut Vec<Effect>) {
        let again = now.plus(self.config.spill_after);
        let most = self.config.unbegun_reads;
        let Some(moves) = self.start_banning.clusters.get(cluster).map(|of| &of.moves) else {
            return;
        };
        let (after, busy) = (moves.after, moves.reading.len());
        let from = after.unwrap_or(JobId(0));
        let next = self.picture.facts.jobs.held_by(cluster, from).take(LOOKS);
        let next: Vec<JobId> = next.map(|(id, _)| id).collect();
        let is_last = next.len() < LOOKS;
        let mut free = most.saturating_sub(busy);
        let mut begun = Vec::new();
        let (mut last, mut all) = (after, true);
        for id in next {
            if free == 0 {
                all = false;
                break;
            }
            last = Some(id);
            let left = self.unbegun_pieces(cluster, id);
            if !left.is_empty() {
                free -= 1;
                begun.push((id, left));
            }
        }
        let Some(moves) = self
            .start_banning
            .clusters
            .get_mut(cluster)
            .map(|of| &mut of.moves)
        else {
            return;
        };
        moves.after = last;
        if all && is_last {
            moves.after = None;
            moves.again_at = again;
        }
        let mut asked = Vec::new();
        for (id, left) in begun {
            let found = BTreeMap::new();
            if moves.reading.insert(id, JobBlocks { left, found }).is_none() {
                asked.push(id);
            }
        }
        for id in asked {
            self.ask_blocks(cluster, id, now, out);
        }
    }

    /// What is to be read of a job before something of it can leave a silent cluster. Nothing where all of
    /// it has begun, or where no other cluster may take it.
    fn unbegun_pieces(&self, cluster: &ClusterId, id: JobId) -> VecDeque<(SliceKey, InstanceRange)> {
        let mut out = VecDeque::new();
        let settled = |job: &&JobView| job.durable == job.decided && !job.is_refused();
        let Some(job) = self.picture.facts.jobs.get(&id).filter(settled) else {
            return out;
        };
        let Some(spec) = job.running_spec().filter(|spec| spec.kind != JobKind::Daemon) else {
            return out;
        };
        let leaves = self.leaves(cluster, spec);
        let router = self.picture.router();
        for (key, ranges) in &job.decided_slices() {
            let group = spec.group(&key.group).filter(|_| key.cluster == *cluster);
            let group = group.filter(|group| {
                let of = GroupOf { id, spec, group };
                router.may_use_others(of, std::slice::from_ref(cluster))
            });
            let assigned: u64 = ranges.iter().map(|r| r.range.count()).sum();
            let report = self.picture.facts.report(id, key);
            // Some may have been assigned since its shard has reported.
            let has_unbegun = report.is_none_or(|r| r.unstarted > 0 || r.held.count() < assigned);
            let has_some = has_unbegun || leaves == Leaves::Unended;
            if group.is_none() || !has_some {
                if spec.gang.is_some() {
                    return VecDeque::new();
                }
                continue;
            }
            let pieces = ranges.iter().flat_map(|r| pieces(r.range));
            out.extend(pieces.map(|piece| (key.clone(), piece)));
        }
        out
    }

    /// Which indexes of a job leave a cluster.
    fn leaves(&self, cluster: &ClusterId, spec: &JobSpec) -> Leaves {
        let view = self.picture.facts.clusters.get(cluster);
        if view.is_some_and(|view| view.is_lost_to(spec)) {
            Leaves::Unended
        } else {
            Leaves::Unbegun
        }
    }

    fn ask_blocks(&mut self, cluster: &ClusterId, id: JobId, now: Timestamp, out: &mut Vec<Effect>) {
        let of = self.start_banning.clusters.get(cluster);
        let first = of.and_then(|of| of.moves.reading.get(&id)?.left.front());
        let Some((key, range)) = first else { return };
        let query = Query::GroupBlocks {
            cluster: cluster.clone(),
            job: id,
            group: key.group.clone(),
            first: range.first / BLOCK_SIZE,
            last: range.last / BLOCK_SIZE,
        };
        let purpose = Purpose::SilentBlocks(cluster.clone(), id);
        if !self.ops.has(&purpose) {
            self.ops
                .start(purpose, Op::Read(query, Consistency::Quorum), now, out);
        }
    }

    /// A row among the blocks cannot be understood: nothing of the job moves.
    pub(crate) fn silent_blocks_unread(&mut self, cluster: &ClusterId, id: JobId) {
        if let Some(of) = self.start_banning.clusters.get_mut(cluster) {
            of.moves.reading.remove(&id);
        }
    }

    /// Blocks of a job at a silent cluster, read after the second look.
    pub(crate) fn silent_blocks_read(
        &mut self,
        of: (ClusterId, JobId),
        read: (Vec<Block>, Vec<SliceRow>),
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let ((cluster, id), (blocks, rows)) = (of, read);
        let spec = self.picture.facts.jobs.get(&id).and_then(JobView::running_spec);
        let Some(leaves) = spec.map(|spec| self.leaves(&cluster, spec)) else {
            return self.silent_blocks_unread(&cluster, id);
        };
        let reading = self.start_banning.clusters.get_mut(&cluster);
        let Some(job) = reading.and_then(|of| of.moves.reading.get_mut(&id)) else {
            return;
        };
        let Some((key, range)) = job.left.pop_front() else {
            return;
        };
        let records = || blocks.iter().flat_map(|block| &block.instances);
        let kept = records().filter(|(_, r)| leaves.keeps(r));
        let kept: RangeSet = kept.map(|(n, _)| *n).collect();
        let begun = records().filter(|(_, r)| has_begun(r)).map(|(n, _)| *n);
        let given_up = begun.collect::<RangeSet>().minus(&kept);
        let free = std::iter::once(range).collect::<RangeSet>().minus(&kept);
        let row = rows.iter().find(|row| row.group == key.group);
        let taken = row.and_then(|row| row.taken_over.get(&key.generation).cloned());
        let own = free.intersect(&taken.unwrap_or_default());
        let found = job.found.entry(key).or_default();
        found.untaken = found.untaken.union(&free.minus(&own));
        found.own = found.own.union(&own);
        found.given_up = found.given_up.union(&given_up);
        if !job.left.is_empty() {
            return self.ask_blocks(&cluster, id, now, out);
        }
        let reading = self.start_banning.clusters.get_mut(&cluster);
        if let Some(job) = reading.and_then(|of| of.moves.reading.remove(&id)) {
            self.release_unbegun(&cluster, id, job.found, now);
        }
        self.read_unbegun(now, out);
    }

    /// Releases indexes without an intent. They are bound anew by the next admission.
    fn release_unbegun(
        &mut self,
        cluster: &ClusterId,
        id: JobId,
        found: BTreeMap<SliceKey, Unbegun>,
        now: Timestamp,
    ) {
        let Some(mut job) = self.picture.facts.jobs.lend(&id) else {
            return;
        };
        let moved = released(&mut job, id, &found);
        self.picture.facts.jobs.give_back(id, job, !moved.is_empty());
        if moved.is_empty() {
            return;
        }
        let is_given_up = |(key, numbers): &(SliceKey, RangeSet)| {
            let given_up = found.get(key).map(|of| of.given_up.intersect(numbers));
            given_up.is_some_and(|numbers| !numbers.is_empty())
        };
        if moved.iter().any(is_given_up) {
            self.note_given_up(id, cluster, now);
        }
        for (key, numbers) in &moved {
            self.lower_grant(id, key);
            let given_up = found.get(key).map(|of| of.given_up.intersect(numbers).count());
            let why = match given_up {
                Some(n) if n > 0 => ReasonCode::ClusterLost,
                _ => ReasonCode::Moved,
            };
            let text = left_text(numbers.count(), given_up.unwrap_or_default(), key);
            self.writes.push(Write::Event(Event {
                job: id,
                at: now,
                happened: now,
                instance: None,
                state: None,
                reason: Reason::new(why).at(text),
                hostname: None,
                task: None,
            }));
        }
        if let Some(of) = self.start_banning.clusters.get_mut(cluster) {
            of.moves.unstored.insert(id, moved);
        }
        self.dirty.insert(id);
        self.due = true;
    }

    /// Something of a job was given up at a lost cluster. It has waited for as long as its user wanted, so capacity is made
    /// for it elsewhere without a further delay, where its pool is entitled to it. Of the cluster nothing is
    /// divided among pools any more but what is still assigned there.
    pub(crate) fn note_given_up(&mut self, job: JobId, cluster: &ClusterId, now: Timestamp) {
        let since = Timestamp(now.0.saturating_sub(self.config.preemption.after.0));
        self.picture.preemption.starved.count_from(job, since);
        if let Some(view) = self.picture.facts.clusters.get_mut(cluster) {
            view.counted = CountedCapacity::Assigned;
        }
        self.picture.revision += 1;
        self.dirty.insert(job);
        self.due = true;
    }

    /// The grant of what is left of a slice. Starts are forbidden, so whatever was granted before allows no
    /// more.
    fn lower_grant(&mut self, id: JobId, key: &SliceKey) {
        let Some(job) = self.picture.facts.jobs.get_mut(&id) else {
            return;
        };
        let ranges = job.decided.ranges(&key.group).iter();
        let left = ranges.filter(|r| r.cluster == key.cluster && r.generation == key.generation);
        let left: u64 = left.map(|r| r.range.count()).sum();
        let line = job.grants.remove(key).filter(|line| !line.is_new());
        if let Some(line) = line.filter(|_| left > 0) {
            let number = self.numbers.grant(self.epoch);
            let active = line.granted().min(left);
            self.picture.facts.send_grant(id, key, number, active);
        }
    }
}

/// What an event says of indexes that have left a silent cluster, of which some had begun.
fn left_text(all: u64, given_up: u64, key: &SliceKey) -> String {
    let SliceKey { cluster, group, .. } = key;
    if given_up == 0 {
        return format!("{all} instances of {group} had not begun at {cluster}, which is cut off");
    }
    let unbegun = all.saturating_sub(given_up);
    format!(
        "{given_up} instances of {group} were given up at {cluster}, which is lost, and {unbegun} had not begun there; their volumes stay there"
    )
}

/// The indexes of each slice of a job.
fn numbers_of(job: &JobView) -> BTreeMap<SliceKey, RangeSet> {
    let slices = job.decided_slices();
    let numbers = slices
        .iter()
        .map(|(key, ranges)| (key.clone(), ranges.iter().map(|r| r.range).collect()));
    numbers.collect()
}

/// Takes indexes that have not begun out of a job's slices. A gang goes whole, or not at all.
fn released(job: &mut JobView, id: JobId, found: &BTreeMap<SliceKey, Unbegun>) -> Vec<(SliceKey, RangeSet)> {
    let mut out = Vec::new();
    let Some(spec) = job.running_spec() else {
        return out;
    };
    let is_gang = spec.gang.is_some();
    if job.durable != job.decided || job.is_refused() {
        return out;
    }
    let slices = numbers_of(job);
    let free = |key: &SliceKey| {
        let unbegun = found.get(key);
        unbegun.map_or_else(RangeSet::new, |of| of.own.union(&of.untaken))
    };
    let whole = |held: (&SliceKey, &RangeSet)| held.1.minus(&free(held.0)).is_empty();
    if is_gang && !slices.iter().all(whole) {
        return out;
    }
    let decided = job.decided.make_mut(id);
    for (key, unbegun) in found {
        let Some(held) = slices.get(key) else { continue };
        let mut by_records: BTreeMap<Option<ClusterId>, RangeSet> = BTreeMap::new();
        if let Some(ranges) = decided.groups.get_mut(&key.group) {
            for (numbers, is_taken) in [(&unbegun.own, true), (&unbegun.untaken, false)] {
                change(ranges, &held.intersect(numbers), Cut::Released, |r| {
                    let former = r.former.filter(|_| !is_taken).map(|(former, _)| former);
                    let is_wanted = r.releasing.is_none_or(|mark| mark.why != ReasonCode::ScaledDown);
                    // Indexes that were scaled away have no records if they are needed again.
                    let records = is_wanted.then(|| former.unwrap_or_else(|| key.cluster.clone()));
                    by_records.entry(records).or_default().insert(r.range);
                    None
                });
            }
        }
        let mut numbers = RangeSet::new();
        for (records, set) in &by_records {
            remember(decided, &key.group, key.generation, records.as_ref(), set);
            numbers = numbers.union(set);
        }
        note_holders(decided, &key.group);
        if !numbers.is_empty() {
            out.push((key.clone(), numbers));
        }
    }
    out
}
