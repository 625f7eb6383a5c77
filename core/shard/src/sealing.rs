//! Which groups wait for which buckets: a group is served when all buckets that its blocks and its slice row lie in are
//! sealed. The assignment tells how far its numbers go; a group that no assignment names may lie anywhere.

use crate::Shard;
use crate::group::Group;
use echelon_core_model::bucket::{
    BLOCK_BUCKETS, BLOCK_SIZE, BLOCKS_A_RUN, assignment_partition, block_bucket,
};
use echelon_core_model::{AssignedRange, Assignment, RangeSet};
use std::collections::{BTreeMap, BTreeSet};

/// Buckets that are not sealed, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    unsealed: BTreeSet<u16>,
    /// The buckets that each group waits for.
    missing: BTreeMap<u32, BTreeSet<u16>>,
    waiting: BTreeSet<(u16, u32)>,
}

impl Sealing {
    /// Every bucket is to be sealed.
    pub(crate) fn of_all() -> Self {
        Self {
            unsealed: (0..BLOCK_BUCKETS).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.unsealed.is_empty() && self.missing.is_empty()
    }

    pub(crate) fn awaits(&self, bucket: u16) -> bool {
        self.unsealed.contains(&bucket)
    }

    /// Has a group wait for the unsealed ones among some buckets, and no others. True when there are none.
    fn enlist(&mut self, group: u32, buckets: &BTreeSet<u16>) -> bool {
        let wanted: BTreeSet<u16> = buckets.intersection(&self.unsealed).copied().collect();
        for bucket in self.missing.remove(&group).unwrap_or_default() {
            self.waiting.remove(&(bucket, group));
        }
        if wanted.is_empty() {
            return true;
        }
        self.waiting.extend(wanted.iter().map(|b| (*b, group)));
        self.missing.insert(group, wanted);
        false
    }

    /// A bucket is sealed: the groups that wait for nothing any more.
    fn seal(&mut self, bucket: u16) -> Vec<u32> {
        self.unsealed.remove(&bucket);
        let of_bucket = self.waiting.range((bucket, 0)..=(bucket, u32::MAX));
        let groups: Vec<u32> = of_bucket.map(|(_, g)| *g).collect();
        let mut out = Vec::new();
        for group in groups {
            self.waiting.remove(&(bucket, group));
            if let Some(left) = self.missing.get_mut(&group) {
                left.remove(&bucket);
                if left.is_empty() {
                    self.missing.remove(&group);
                    out.push(group);
                }
            }
        }
        out
    }
}

impl Group {
    /// The buckets of its slice row and of all blocks up to a number. A large group soon has all of them.
    fn buckets_up_to(&self, last: Option<u32>) -> BTreeSet<u16> {
        let mut out = BTreeSet::from([self.row_lane.0]);
        let runs = last.into_iter().flat_map(|n| 0..=n / BLOCK_SIZE / BLOCKS_A_RUN);
        for block in runs.map(|run| run * BLOCKS_A_RUN) {
            out.insert(block_bucket(self.job(), self.name(), block));
            if out.len() == usize::from(BLOCK_BUCKETS) {
                break;
            }
        }
        out
    }

    /// The highest number that its slice row names.
    fn last_of_row(&self) -> Option<u32> {
        let ranges = self.row.ranges.iter().map(|r| r.range.last);
        let sets = self.row.released.values().chain(self.row.taken_over.values());
        ranges.chain(sets.filter_map(last_of)).max()
    }
}

fn last_of(set: &RangeSet) -> Option<u32> {
    set.ranges().last().map(|r| r.last)
}

/// The highest number of a group that any cluster has or ever had.
fn last_assigned(assignment: &Assignment, group: &Group) -> Option<u32> {
    let present = assignment.ranges(group.name()).iter().map(|r| r.range.last);
    let released = assignment.released.get(group.name());
    let released = released
        .into_iter()
        .flat_map(BTreeMap::values)
        .filter_map(last_of);
    present.chain(released).max()
}

impl Shard {
    /// Has every group of a partition that was just read wait for its buckets.
    pub(crate) fn enlist_partition(&mut self, partition: u16) {
        let jobs = self.picture.jobs();
        for job in jobs.into_iter().filter(|j| assignment_partition(*j) == partition) {
            for number in self.picture.groups_of(job) {
                self.enlist(number);
            }
        }
    }

    /// Has a group wait for the buckets that it lies in, as far as that is known now.
    pub(crate) fn enlist(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let unread = self.recovery.unread.contains(&assignment_partition(group.job()));
        if group.served || unread || self.recovery.goals.contains(&number) {
            return;
        }
        let named = self.recovery.assigned.get(&group.job());
        let named = named.and_then(|a| last_assigned(&a.assignment, group));
        let ordered = self.recovery.held.last_ordered(group.job(), group.name());
        let buckets = match named.max(ordered) {
            Some(last) => group.buckets_up_to(group.last_of_row().max(Some(last))),
            None => (0..BLOCK_BUCKETS).collect(),
        };
        if self.recovery.sealing.enlist(number, &buckets) {
            self.read_goal(number);
        }
    }

    /// A bucket is sealed: groups that lie in no other unsealed one are served next.
    pub(crate) fn on_sealed(&mut self, bucket: u16) {
        let ready = self.recovery.sealing.seal(bucket);
        ready.into_iter().for_each(|group| self.read_goal(group));
        self.recovery.to_seal = self.recovery.to_seal.saturating_sub(1);
        self.read_on();
        self.obey_ready();
        self.finish_recovery();
    }

    /// Whether ranges reach into a bucket that is not sealed: what is written there is not read yet.
    pub(crate) fn reach_unsealed(&self, number: u32, ranges: &[AssignedRange]) -> bool {
        if !self.is_recovering() {
            return false;
        }
        let last = ranges.iter().map(|r| r.range.last).max();
        let buckets = self.picture.groups.get(&number).map(|g| g.buckets_up_to(last));
        buckets.is_some_and(|all| all.iter().any(|b| self.recovery.sealing.awaits(*b)))
    }

    /// Every lane that is not durable as far as it is written. Buckets that are not sealed yet are left out: nothing of them
    /// is told or given back before.
    pub(crate) fn open_points(&self) -> Vec<crate::journal::Point> {
        let all = self.journal.open_points().into_iter();
        all.filter(|(lane, _)| !self.recovery.sealing.awaits(lane.0))
            .collect()
    }
}
