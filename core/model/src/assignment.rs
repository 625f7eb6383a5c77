//! Which instance ranges of a group live on which cluster, at which generation. Decided by the resource manager's leader
//! alone, stored before any shard hears of it.

use crate::few::Few;
use crate::id::{ClusterId, Generation, GroupName, JobId};
use crate::range::{InstanceRange, RangeSet};
use crate::reason::ReasonCode;
use std::collections::BTreeMap;

/// A mark on a range, or on a number of its waiting instances, that is to leave its cluster. The mark is the only record of a move in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    /// Where it is to go; `None`: nowhere (scale-down).
    pub to: Option<ClusterId>,
    /// Why.
    pub why: ReasonCode,
    /// `None`: the whole range, running or not. `Some(n)`: the n highest unstarted numbers of the range, as the holder chooses.
    pub count: Option<u64>,
}

/// A range of instances on a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssignedRange {
    /// The numbers.
    pub range: InstanceRange,
    /// The holder.
    pub cluster: ClusterId,
    /// Counts the moves of these numbers, from 1.
    pub generation: Generation,
    /// Who held it before, at which generation: the new holder reads the former one's blocks before it starts anything.
    pub former: Option<(ClusterId, Generation)>,
    /// Set while it is to leave.
    pub releasing: Option<Releasing>,
}

/// Bytes of a cluster's name with its place.
fn name(id: &ClusterId) -> usize {
    id.as_str().len() + 4
}

impl AssignedRange {
    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let former = self.former.as_ref().map_or(0, |(cluster, _)| name(cluster) + 10);
        let releasing = self
            .releasing
            .as_ref()
            .map_or(0, |mark| 24 + mark.to.as_ref().map_or(0, name));
        32 + name(&self.cluster) + former + releasing
    }
}

/// The assignment of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The job.
    pub job: JobId,
    /// Ranges of each group, sorted by first number, not overlapping.
    pub groups: Few<GroupName, Vec<AssignedRange>>,
    /// Numbers that were scaled away, with their last generation: scale-up gives them the next one.
    pub removed: Few<GroupName, BTreeMap<Generation, RangeSet>>,
    /// Every cluster that ever held a part, until the tombstone goes.
    pub holders: Few<ClusterId, Generation>,
}

impl Assignment {
    /// Nothing assigned yet.
    #[must_use]
    pub const fn new(job: JobId) -> Self {
        Self {
            job,
            groups: Few::new(),
            removed: Few::new(),
            holders: Few::new(),
        }
    }

    /// The ranges of a group.
    #[must_use]
    pub fn ranges(&self, group: &GroupName) -> &[AssignedRange] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// The numbers of a group that some cluster holds.
    #[must_use]
    pub fn assigned(&self, group: &GroupName) -> RangeSet {
        self.ranges(group).iter().map(|r| r.range).collect()
    }

    /// The last generation of a number that was scaled away, `None` if it never was.
    #[must_use]
    pub fn removed_generation(&self, group: &GroupName, range: InstanceRange) -> Option<Generation> {
        let sets = self.removed.get(group)?;
        let asked: RangeSet = std::iter::once(range).collect();
        sets.iter()
            .rev()
            .find(|(_, set)| !set.intersect(&asked).is_empty())
            .map(|(g, _)| *g)
    }

    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let groups = self.groups.iter().map(|(group, ranges)| {
            let ranges = ranges.iter().map(AssignedRange::weight);
            16 + group.as_str().len() + ranges.sum::<usize>()
        });
        let removed = self.removed.iter().map(|(group, sets)| {
            let sets = sets.values().map(|set| 16 + 16 * set.ranges().len());
            16 + group.as_str().len() + sets.sum::<usize>()
        });
        let holders = self.holders.iter().map(|(cluster, _)| 16 + name(cluster));
        32 + groups.sum::<usize>() + removed.sum::<usize>() + holders.sum::<usize>()
    }

    /// What is wrong with it: overlapping ranges, an unknown holder. Empty when nothing is.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (group, ranges) in &self.groups {
            for pair in ranges.windows(2) {
                if let [a, b] = pair
                    && a.range.last >= b.range.first
                {
                    out.push(format!(
                        "group {group}: {} and {} overlap or are out of order",
                        a.range, b.range
                    ));
                }
            }
            for r in ranges.iter().filter(|r| !self.holders.contains_key(&r.cluster)) {
                out.push(format!(
                    "group {group}: {} is held by {}, which is not among the holders",
                    r.range, r.cluster
                ));
            }
        }
        out
    }
}
