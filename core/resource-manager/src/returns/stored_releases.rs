//! Releases by a shard whose stream is cut and that is alive. It reads its assignments from storage then, marks among
//! them, and stores what it releases. This leader reads that from storage:
//!
//! 1. The heartbeat of the shard's leader changes, and says that it serves and hears no resource manager. So what older
//!    leaders of the shard have written is settled.
//! 2. The rows of groups of which something is marked are read.
//! 3. *Then* the shard's leadership is read at SERIAL. It has the same epoch, so every later leader of the shard
//!    reads the rows after that, and finds in them what was released.
//! 4. What was released there is bound again, as if the shard had reported it.

use crate::assignment::release::{Settled, settle_slice};
use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use crate::manager::ResourceManager;
use crate::returns::unreported::is_unreported;
use crate::storage::operations::Purpose;
use echelon_core_model::instance::SliceRow;
use echelon_core_model::store::{Consistency, Leadership, Op, Query, Role};
use echelon_core_model::{ClusterId, Epoch, GroupName, JobId, Span, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// How often a cluster's rows are read.
const EVERY: Span = Span::seconds(5);
/// Jobs that are looked at in one round.
const LOOKS: usize = 1_000;
/// Groups of which rows are read in one round.
const READS: usize = 64;

/// Rows of marked groups that are being read.
#[derive(Debug, Clone)]
struct ReleaseRound {
    /// An answer to an earlier round says nothing of the rows of this one.
    number: u64,
    /// The epoch of the shard's leader as the round began.
    epoch: Epoch,
    /// What is to be read, the read under way first.
    left: VecDeque<(JobId, GroupName)>,
    found: Vec<SliceRow>,
}

/// The reads at one cluster.
#[derive(Debug, Clone, Default)]
struct ReleaseReads {
    /// When the next round begins.
    again_at: Timestamp,
    /// Jobs up to this one were looked at; `None`: none was.
    after: Option<JobId>,
    round: Option<ReleaseRound>,
}

/// What this leader reads of shards that hear no resource manager.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredReleases {
    clusters: BTreeMap<ClusterId, ReleaseReads>,
    /// The number of the last round at any cluster.
    last_round: u64,
}

impl StoredReleases {
    /// How many entries it has of jobs.
    pub(crate) fn footprint(&self) -> usize {
        let rounds = self.clusters.values().filter_map(|of| of.round.as_ref());
        rounds.map(|round| round.left.len() + round.found.len()).sum()
    }
}

/// Groups of a job that have a mark at a cluster, as it is stored.
fn marked_groups(job: &JobView, cluster: &ClusterId) -> Vec<GroupName> {
    if job.durable != job.decided || job.is_refused() {
        return Vec::new();
    }
    let groups = job.durable.groups.iter();
    let marked = groups.filter(|(_, ranges)| {
        let mut there = ranges.iter().filter(|r| r.cluster == *cluster);
        there.any(|r| r.releasing.is_some())
    });
    marked.map(|(name, _)| name.clone()).collect()
}

impl ResourceManager {
    /// Once a second: reads on where that is due.
    pub(crate) fn keep_reading_releases(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let clusters = self.picture.facts.clusters.iter();
        let deaf: BTreeMap<ClusterId, Epoch> = clusters
            .filter_map(|(id, view)| Some((id.clone(), view.epoch_without_manager()?)))
            .collect();
        self.stored_releases
            .clusters
            .retain(|id, _| deaf.contains_key(id));
        for (cluster, epoch) in deaf {
            let reads = self.stored_releases.clusters.entry(cluster.clone()).or_default();
            if reads.round.is_none() && now >= reads.again_at {
                self.begin_release_round(&cluster, epoch, now, out);
            }
        }
    }

    fn begin_release_round(
        &mut self,
        cluster: &ClusterId,
        epoch: Epoch,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(reads) = self.stored_releases.clusters.get_mut(cluster) else {
            return;
        };
        let from = reads
            .after
            .map_or(JobId(0), |after| JobId(after.0.saturating_add(1)));
        let mut left = VecDeque::new();
        let mut looked = 0;
        let mut last = None;
        let mut unreported = Vec::new();
        for (id, job) in self.picture.facts.jobs.held_by(cluster, from).take(LOOKS) {
            looked += 1;
            last = Some(id);
            left.extend(marked_groups(job, cluster).into_iter().map(|group| (id, group)));
            if is_unreported(&self.picture.facts, id, job, cluster) {
                unreported.push(id);
            }
            if left.len() >= READS {
                break;
            }
        }
        let is_last = looked < LOOKS && left.len() < READS;
        reads.after = last.filter(|_| !is_last);
        reads.again_at = if is_last { now.plus(EVERY) } else { now };
        // No report makes this leader look at them.
        self.due |= !unreported.is_empty();
        self.dirty.extend(unreported);
        if left.is_empty() {
            return;
        }
        self.stored_releases.last_round += 1;
        reads.round = Some(ReleaseRound {
            number: self.stored_releases.last_round,
            epoch,
            left,
            found: Vec::new(),
        });
        self.read_on_releases(cluster, now, out);
    }

    /// Reads the next row of a round, or the shard's leadership after the last row.
    fn read_on_releases(&mut self, cluster: &ClusterId, now: Timestamp, out: &mut Vec<Effect>) {
        let reads = self.stored_releases.clusters.get(cluster);
        let Some(round) = reads.and_then(|reads| reads.round.as_ref()) else {
            return;
        };
        let (purpose, op) = match round.left.front() {
            Some((job, group)) => {
                let row_alone = Query::GroupBlocks {
                    cluster: cluster.clone(),
                    job: *job,
                    group: group.clone(),
                    first: SliceRow::BLOCK,
                    last: SliceRow::BLOCK,
                };
                let op = Op::Read(row_alone, Consistency::Quorum);
                (Purpose::StoredRelease(cluster.clone(), round.number), op)
            }
            None => {
                let leadership = Query::Leadership(Role::Shard(cluster.clone()));
                let op = Op::Read(leadership, Consistency::Serial);
                (Purpose::ReleasedBy(cluster.clone(), round.number), op)
            }
        };
        if !self.ops.has(&purpose) {
            self.ops.start(purpose, op, now, out);
        }
    }

    /// The row of a group was read. None, where it cannot be understood: then nothing of it counts as released.
    pub(crate) fn stored_release_read(
        &mut self,
        cluster: &ClusterId,
        number: u64,
        rows: Vec<SliceRow>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let reads = self.stored_releases.clusters.get_mut(cluster);
        let round = reads.and_then(|reads| reads.round.as_mut());
        let Some(round) = round.filter(|round| round.number == number) else {
            return;
        };
        if let Some((job, group)) = round.left.pop_front() {
            let of_group = |row: &SliceRow| row.job == job && row.group == group;
            round.found.extend(rows.into_iter().filter(of_group));
        }
        self.read_on_releases(cluster, now, out);
    }

    /// The shard's leadership, as read after all rows of a round.
    pub(crate) fn releases_confirmed(
        &mut self,
        cluster: &ClusterId,
        number: u64,
        leads: &Leadership,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let reads = self.stored_releases.clusters.get_mut(cluster);
        let round = reads.map(|reads| &mut reads.round);
        let Some(round) = round.and_then(|round| round.take_if(|round| round.number == number)) else {
            return;
        };
        let view = self.picture.facts.clusters.get(cluster);
        let is_same = view.is_some_and(|view| view.epoch_without_manager() == Some(round.epoch));
        if is_same && leads.epoch == round.epoch && self.picture.facts.awaiting.is_none() {
            for row in &round.found {
                self.settle_stored_release(cluster, row);
            }
        }
        self.keep_reading_releases(now, out);
    }

    fn settle_stored_release(&mut self, cluster: &ClusterId, row: &SliceRow) {
        let Some(mut job) = self.picture.facts.jobs.lend(&row.job) else {
            return;
        };
        let mut left = Vec::new();
        if job.durable == job.decided && !job.is_refused() {
            for (generation, released) in &row.released {
                let key = SliceKey {
                    group: row.group.clone(),
                    cluster: cluster.clone(),
                    generation: *generation,
                };
                let settled = settle_slice(&self.picture.facts, row.job, &mut job, &key, released);
                if settled != Settled::Nothing {
                    left.push(key);
                }
            }
        }
        self.picture.facts.jobs.give_back(row.job, job, !left.is_empty());
        for key in &left {
            self.cap_grant(row.job, key);
        }
        if !left.is_empty() {
            self.dirty.insert(row.job);
            self.due = true;
        }
    }

    /// No more of a slice can be active than it has left, whatever was granted before.
    fn cap_grant(&mut self, id: JobId, key: &SliceKey) {
        let Some(job) = self.picture.facts.jobs.get_mut(&id) else {
            return;
        };
        let ranges = job.decided.ranges(&key.group).iter();
        let of_slice = ranges.filter(|r| r.cluster == key.cluster && r.generation == key.generation);
        let left: u64 = of_slice.map(|r| r.range.count()).sum();
        let Some(line) = job.grants.remove(key).filter(|line| !line.is_new()) else {
            return;
        };
        let number = self.numbers.grant(self.epoch);
        let most = line.allocated(0).min(left);
        self.picture.facts.send_grant(id, key, number, most);
    }
}
