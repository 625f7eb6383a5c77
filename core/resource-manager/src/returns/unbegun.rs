//! What leaves a cluster where starts are forbidden. It is released without its shard, and is bound again like
//! all that is bound nowhere. What the shard has stored is read from its blocks:
//!
//! - What was granted and has no stored intent leaves. An index with a record of anything but attempts stays: of a
//!   run, an end, a volume or something unsettled.
//! - Of a job to which the cluster is lost (`facts/loss.rs`) everything leaves that has not ended. Its runs there may
//!   be alive, and its user allowed that two of an instance may be. The shard stops them when it returns, and
//!   volumes stay on their hosts.
//! - Of a cluster that is removed without its shard everything leaves, whatever its job says. What is wanted
//!   there no more, as an instance of a daemon or of a job that is stopped, is bound nowhere again. What has
//!   ended goes to another cluster, since its job still counts it.
//!
//! The next holder reads the records of the former one from storage, whether or not that one has a leader.
//! Where the silent shard had not taken the records of its own former holder over, those count for the next
//! holder.

use crate::admission::router::GroupOf;
use crate::assignment::indexes::note_holders;
use crate::assignment::ranges::{Cut, change};
use crate::assignment::release::remember;
use crate::effect::Effect;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::facts::loss::CountedCapacity;
use crate::facts::slice::SliceKey;
use crate::manager::ResourceManager;
use crate::returns::start_bans::BanStep;
use crate::storage::operations::Purpose;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::{Block, InstanceRecord, SliceRow};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
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
    /// Those that have ended, where these leave as well.
    ended: RangeSet,
}

impl Unbegun {
    /// All that leave and have not ended.
    fn free(&self) -> RangeSet {
        self.own.union(&self.untaken)
    }
}

/// A job of which blocks are being read.
#[derive(Debug, Clone)]
struct JobBlocks {
    /// Which of its indexes leave, as it was when the first read began.
    leaves: Leaves,
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
    /// All of them.
    All,
}

impl Leaves {
    /// Whether an index with this record stays.
    fn keeps(self, record: &InstanceRecord) -> bool {
        match self {
            Self::Unbegun => has_begun(record),
            Self::Unended => record.ended.is_some(),
            Self::All => false,
        }
    }
}

/// What becomes of indexes that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextBinding<'a> {
    /// They are bound again. Those that have ended stay.
    Anew,
    /// They are bound again. Those that have ended go to this cluster; without one they stay.
    ResultsTo(Option<&'a ClusterId>),
    /// They are wanted nowhere. Those that have ended go to this cluster.
    Ended(Option<&'a ClusterId>),
}

impl<'a> NextBinding<'a> {
    const fn results_to(self) -> Option<&'a ClusterId> {
        match self {
            Self::Anew => None,
            Self::ResultsTo(to) | Self::Ended(to) => to,
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
            let Some(leaves) = self.leaves(cluster, id) else {
                continue;
            };
            let left = self.unbegun_pieces(cluster, id, leaves);
            if !left.is_empty() {
                free -= 1;
                let found = BTreeMap::new();
                begun.push((id, JobBlocks { leaves, left, found }));
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
        for (id, blocks) in begun {
            if moves.reading.insert(id, blocks).is_none() {
                asked.push(id);
            }
        }
        for id in asked {
            self.ask_blocks(cluster, id, now, out);
        }
    }

    /// What is to be read of a job before something of it can leave a silent cluster. Nothing where all of
    /// it has begun, or where no other cluster may take it.
    fn unbegun_pieces(
        &self,
        cluster: &ClusterId,
        id: JobId,
        leaves: Leaves,
    ) -> VecDeque<(SliceKey, InstanceRange)> {
        let mut out = VecDeque::new();
        let settled = |job: &&JobView| job.durable == job.decided && !job.is_refused();
        let Some(job) = self.picture.facts.jobs.get(&id).filter(settled) else {
            return out;
        };
        let slices = job.decided_slices();
        if leaves == Leaves::All {
            let here = slices.iter().filter(|(key, _)| key.cluster == *cluster);
            let all = here.flat_map(|(key, ranges)| ranges.iter().map(move |r| (key, r.range)));
            let all = all.flat_map(|(key, range)| pieces(range).map(move |piece| (key.clone(), piece)));
            return all.collect();
        }
        let Some(spec) = job.running_spec() else {
            return out;
        };
        let router = self.picture.router();
        for (key, ranges) in &slices {
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

    /// Which indexes of a job leave a cluster; none: no index does.
    fn leaves(&self, cluster: &ClusterId, id: JobId) -> Option<Leaves> {
        let view = self.picture.facts.clusters.get(cluster)?;
        let job = self.picture.facts.jobs.get(&id)?;
        if view.is_removed_as_lost() {
            return (job.is_live() && job.spec.is_some()).then_some(Leaves::All);
        }
        let spec = job.running_spec().filter(|spec| spec.kind != JobKind::Daemon)?;
        Some(if view.is_lost_to(spec) {
            Leaves::Unended
        } else {
            Leaves::Unbegun
        })
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
        let leaves = self.leaves(&cluster, id);
        let reading = self.start_banning.clusters.get_mut(&cluster);
        let Some(job) = reading.and_then(|of| of.moves.reading.get_mut(&id)) else {
            return;
        };
        // What was read under another rule says nothing of what leaves now. The next round reads it again.
        let Some(leaves) = leaves.filter(|leaves| *leaves == job.leaves) else {
            return self.silent_blocks_unread(&cluster, id);
        };
        let Some((key, range)) = job.left.pop_front() else {
            return;
        };
        let records = || blocks.iter().flat_map(|block| &block.instances);
        let kept = records().filter(|(_, r)| leaves.keeps(r));
        let kept: RangeSet = kept.map(|(n, _)| *n).collect();
        let ended = records().filter(|(n, r)| r.ended.is_some() && !kept.contains(**n));
        let ended: RangeSet = ended.map(|(n, _)| *n).collect();
        let stays = kept.union(&ended);
        let begun = records().filter(|(_, r)| has_begun(r)).map(|(n, _)| *n);
        let given_up = begun.collect::<RangeSet>().minus(&stays);
        let all: RangeSet = std::iter::once(range).collect();
        let free = all.minus(&stays);
        let row = rows.iter().find(|row| row.group == key.group);
        let taken = row.and_then(|row| row.taken_over.get(&key.generation).cloned());
        let own = free.intersect(&taken.unwrap_or_default());
        let found = job.found.entry(key).or_default();
        found.untaken = found.untaken.union(&free.minus(&own));
        found.own = found.own.union(&own);
        found.given_up = found.given_up.union(&given_up);
        found.ended = found.ended.union(&ended.intersect(&all));
        if !job.left.is_empty() {
            return self.ask_blocks(&cluster, id, now, out);
        }
        let reading = self.start_banning.clusters.get_mut(&cluster);
        if let Some(job) = reading.and_then(|of| of.moves.reading.remove(&id)) {
            self.release_unbegun(&cluster, id, job.found, now);
        }
        self.read_unbegun(now, out);
    }

    /// What becomes of the indexes of a job that leave a cluster.
    fn next_binding(&self, cluster: &ClusterId, job: &JobView) -> NextBinding<'_> {
        let clusters = &self.picture.facts.clusters;
        if !clusters.get(cluster).is_some_and(ClusterView::is_removed_as_lost) {
            return NextBinding::Anew;
        }
        // A result needs no capacity there.
        let mut others = clusters
            .iter()
            .filter(|(id, view)| *id != cluster && view.takes_work());
        let to = others.next().map(|(id, _)| id);
        let is_counted = job.desired() != Desired::Deleted && !job.is_daemon();
        match job.running_spec() {
            _ if !is_counted => NextBinding::Ended(None),
            Some(_) => NextBinding::ResultsTo(to),
            None => NextBinding::Ended(to),
        }
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
        let next = self.next_binding(cluster, &job);
        let moved = released(&mut job, id, &found, next);
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
            let count = |of: fn(&Unbegun) -> &RangeSet| {
                let of = found.get(key).map(|found| of(found).intersect(numbers).count());
                of.unwrap_or_default()
            };
            let left = LeftCounts {
                all: numbers.count(),
                given_up: count(|of| &of.given_up),
                ended: count(|of| &of.ended),
            };
            let why = if left.given_up > 0 {
                ReasonCode::ClusterLost
            } else {
                ReasonCode::Moved
            };
            let text = left_text(left, key);
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

/// How many indexes have left a silent cluster.
#[derive(Debug, Clone, Copy)]
struct LeftCounts {
    all: u64,
    /// Of these, those that had begun and not ended.
    given_up: u64,
    /// Of these, those that had ended.
    ended: u64,
}

/// What an event says of indexes that have left a silent cluster.
fn left_text(left: LeftCounts, key: &SliceKey) -> String {
    let SliceKey { cluster, group, .. } = key;
    let LeftCounts { all, given_up, ended } = left;
    let unbegun = all.saturating_sub(given_up).saturating_sub(ended);
    let mut text = if given_up == 0 {
        format!("{unbegun} instances of {group} had not begun at {cluster}, which is cut off")
    } else {
        format!(
            "{given_up} instances of {group} were given up at {cluster}, which is lost, and {unbegun} had not begun there; their volumes stay there"
        )
    };
    if ended > 0 {
        text.push_str(&format!("; {ended} had ended there, and their results are kept"));
    }
    text
}

/// The indexes of each slice of a job.
fn numbers_of(job: &JobView) -> BTreeMap<SliceKey, RangeSet> {
    let slices = job.decided_slices();
    let numbers = slices
        .iter()
        .map(|(key, ranges)| (key.clone(), ranges.iter().map(|r| r.range).collect()));
    numbers.collect()
}

/// Takes indexes that leave out of a job's slices. A gang goes whole, or not at all.
fn released(
    job: &mut JobView,
    id: JobId,
    found: &BTreeMap<SliceKey, Unbegun>,
    next: NextBinding<'_>,
) -> Vec<(SliceKey, RangeSet)> {
    let mut out = Vec::new();
    let spec = match next {
        NextBinding::Anew | NextBinding::ResultsTo(_) => job.running_spec(),
        NextBinding::Ended(_) => job.spec.as_deref(),
    };
    let Some(spec) = spec else {
        return out;
    };
    let is_gang = spec.gang.is_some();
    if job.durable != job.decided || job.is_refused() {
        return out;
    }
    let slices = numbers_of(job);
    let free = |key: &SliceKey| found.get(key).map_or_else(RangeSet::new, Unbegun::free);
    let whole = |held: (&SliceKey, &RangeSet)| held.1.minus(&free(held.0)).is_empty();
    if is_gang && next == NextBinding::Anew && !slices.iter().all(whole) {
        return out;
    }
    let together;
    let found = if is_gang {
        together = gang_together(found);
        &together
    } else {
        found
    };
    let is_ended = matches!(next, NextBinding::Ended(_));
    let decided = job.decided.make_mut(id);
    for (key, unbegun) in found {
        let Some(held) = slices.get(key) else { continue };
        let mut by_records: BTreeMap<Option<ClusterId>, RangeSet> = BTreeMap::new();
        if let Some(ranges) = decided.groups.get_mut(&key.group) {
            for (numbers, is_taken) in [(&unbegun.own, true), (&unbegun.untaken, false)] {
                change(ranges, &held.intersect(numbers), Cut::Released, |r| {
                    let former = r.former.filter(|_| !is_taken).map(|(former, _)| former);
                    let is_wanted =
                        !is_ended && r.releasing.is_none_or(|mark| mark.why != ReasonCode::ScaledDown);
                    // Indexes that were scaled away have no records if they are needed again.
                    let records = is_wanted.then(|| former.unwrap_or_else(|| key.cluster.clone()));
                    by_records.entry(records).or_default().insert(r.range);
                    None
                });
            }
        }
        let mut numbers = RangeSet::new();
        if let Some(ranges) = decided.groups.get_mut(&key.group) {
            let ended = held.intersect(&unbegun.ended);
            change(ranges, &ended, Cut::Released, |r| {
                let after = result_range(&r, next);
                if after.as_ref() != Some(&r) {
                    numbers.insert(r.range);
                }
                if after.is_none() {
                    by_records.entry(None).or_default().insert(r.range);
                }
                after
            });
        }
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

/// A gang is bound as a whole: members that have ended go with the others, unless all have ended.
fn gang_together(found: &BTreeMap<SliceKey, Unbegun>) -> BTreeMap<SliceKey, Unbegun> {
    let goes_on = found.values().any(|of| !of.free().is_empty());
    let mut out = found.clone();
    for of in out.values_mut().filter(|_| goes_on) {
        of.own = of.own.union(&std::mem::take(&mut of.ended));
    }
    out
}

/// What becomes of a range of which all has ended; none: it is bound nowhere.
fn result_range(r: &AssignedRange, next: NextBinding<'_>) -> Option<AssignedRange> {
    let is_wanted = r
        .releasing
        .as_ref()
        .is_none_or(|mark| mark.why != ReasonCode::ScaledDown);
    match next {
        NextBinding::Ended(None) => None,
        _ if !is_wanted => None,
        _ => Some(next.results_to().map_or_else(
            || r.clone(),
            |to| AssignedRange {
                range: r.range,
                cluster: to.clone(),
                generation: r.generation.next(),
                former: Some((r.cluster.clone(), r.generation)),
                releasing: None,
            },
        )),
    }
}
