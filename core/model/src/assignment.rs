//! Which instance ranges of a group live on which cluster, at which generation. Decided by the resource manager's leader
//! alone, stored before any shard hears of it.

use crate::few::Few;
use crate::id::{ClusterId, Generation, GroupName, JobId};
use crate::range::{InstanceRange, RangeSet};
use crate::reason::ReasonCode;
use crate::store::Stamp;
use std::collections::{BTreeMap, BTreeSet};

/// A mark on a range, or on a number of its waiting instances, that is to leave its cluster. The mark is the only record of a move in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    /// Where it is to go; `None`: it is bound nowhere then.
    pub to: Option<ClusterId>,
    /// Why.
    pub why: ReasonCode,
    /// `None`: the whole range, running or not. `Some(n)`: the n highest unstarted numbers of the range, as the holder chooses.
    pub count: Option<u64>,
}

impl Releasing {
    /// Whether a whole range is wanted no more, as after a scale-down.
    #[must_use]
    pub fn ends_range(&self) -> bool {
        self.to.is_none() && self.count.is_none() && self.why == ReasonCode::ScaledDown
    }
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

impl AssignedRange {
    /// An upper bound of its encoded bytes where its clusters are places in a list.
    fn placed(&self) -> usize {
        let former = self.former.as_ref();
        let former = former.map_or(0, |(_, generation)| 2 + PLACE + number(generation.0.into()));
        let releasing = self.releasing.as_ref().map_or(0, |mark| {
            2 + PLACE + number(mark.why.number().into()) + mark.count.map_or(0, number)
        });
        let ends = number(self.range.first.into()) + number(self.range.last.into());
        2 + ends + PLACE + number(self.generation.0.into()) + former + releasing
    }

    /// The clusters that it names.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        let former = self.former.iter().map(|(cluster, _)| cluster);
        let to = self.releasing.iter().filter_map(|mark| mark.to.as_ref());
        std::iter::once(&self.cluster).chain(former).chain(to)
    }
}

/// Most bytes of one row of an assignment.
pub const PIECE_WEIGHT: usize = 48 * 1024;
/// An upper bound of the bytes of a row beside what it lists.
const ROW: usize = 64;
/// The same of a place in a row's list of clusters.
const PLACE: usize = 3;
/// The same of a name's entry in a map, or of a range of released numbers.
const ENTRY: usize = 16;

/// A row of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentPiece {
    /// What it lists.
    pub part: Assignment,
    /// How many rows the assignment has.
    pub pieces: u32,
    /// When it was written: all rows of an assignment at once.
    pub written: Stamp,
}

/// Bytes of a number's field.
const fn number(n: u64) -> usize {
    1 + (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

/// Cuts an assignment into rows by their bytes.
struct Cutter {
    done: Vec<Assignment>,
    part: Assignment,
    bytes: usize,
    /// The clusters that the list of the part has.
    listed: BTreeSet<ClusterId>,
    /// The bytes of all parts.
    whole: usize,
}

impl Cutter {
    fn of(all: &Assignment) -> Self {
        let mut out = Self {
            done: Vec::new(),
            part: Assignment::new(all.job),
            bytes: ROW,
            listed: BTreeSet::new(),
            whole: ROW,
        };
        out.add(all);
        out
    }

    /// Makes room for an entry: in a new part, if this one is full. What an entry costs depends on what its
    /// part names already.
    fn take(&mut self, cost: impl Fn(&Self) -> usize) {
        if self.bytes + cost(self) > PIECE_WEIGHT && self.bytes > ROW {
            let next = Assignment::new(self.part.job);
            self.done.push(std::mem::replace(&mut self.part, next));
            self.listed.clear();
            self.bytes = ROW;
            self.whole += ROW;
        }
        let bytes = cost(self);
        self.bytes += bytes;
        self.whole += bytes;
    }

    fn add(&mut self, all: &Assignment) {
        for (cluster, generation) in &all.holders {
            self.take(|_| ENTRY + name(cluster));
            self.part.holders.insert(cluster.clone(), *generation);
        }
        for (group, ranges) in &all.groups {
            self.take(|_| ENTRY + group.as_str().len());
            self.part.groups.get_or_default(group.clone());
            for range in ranges {
                self.add_range(group, range);
            }
        }
        for (group, sets) in &all.released {
            self.take(|_| ENTRY + group.as_str().len());
            self.part.released.get_or_default(group.clone());
            for (holder, set) in sets {
                self.add_released(group, holder, set);
            }
        }
    }

    fn add_range(&mut self, group: &GroupName, range: &AssignedRange) {
        self.take(|to| {
            let new = range.clusters().filter(|c| !to.listed.contains(*c));
            let known = to.part.groups.contains_key(group);
            let header = if known { 0 } else { ENTRY + group.as_str().len() };
            range.placed() + header + new.map(name).sum::<usize>()
        });
        self.listed.extend(range.clusters().cloned());
        self.part.groups.get_or_default(group.clone()).push(range.clone());
    }

    fn add_released(&mut self, group: &GroupName, holder: &LastHolder, set: &RangeSet) {
        let empty = std::iter::once(None).filter(|_| set.is_empty());
        for range in set.ranges().iter().map(Some).chain(empty) {
            self.take(|to| {
                let sets = to.part.released.get(group);
                let known = sets.is_some_and(|sets| sets.contains_key(holder));
                let header = if known {
                    0
                } else {
                    2 * ENTRY + PLACE + group.as_str().len()
                };
                let new = holder.cluster.iter().filter(|c| !to.listed.contains(*c));
                ENTRY + header + new.map(name).sum::<usize>()
            });
            self.listed.extend(holder.cluster.clone());
            let sets = self.part.released.get_or_default(group.clone());
            let set = sets.entry(holder.clone()).or_default();
            if let Some(range) = range {
                set.insert(*range);
            }
        }
    }
}

/// The last holder of indexes that are assigned to no cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LastHolder {
    /// Their last generation: they are bound again at the next one.
    pub generation: Generation,
    /// The cluster with the records that count for the next holder; `None`: none count, as after a scale-down.
    pub cluster: Option<ClusterId>,
}

/// The assignment of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The job.
    pub job: JobId,
    /// Ranges of each group, sorted by first number, not overlapping.
    pub groups: Few<GroupName, Vec<AssignedRange>>,
    /// Numbers that were bound once and are bound nowhere.
    pub released: Few<GroupName, BTreeMap<LastHolder, RangeSet>>,
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
            released: Few::new(),
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

    /// Indexes of a group that are bound nowhere, and whose last holder has records that count for the next one.
    #[must_use]
    pub fn unbound_with_records(&self, group: &GroupName) -> RangeSet {
        let sets = self.released.get(group).into_iter().flatten();
        let with_records = sets.filter(|(holder, _)| holder.cluster.is_some());
        with_records.fold(RangeSet::new(), |all, (_, set)| all.union(set))
    }

    /// The `n` indexes of a group that are bound next, of those that are bound nowhere and not withdrawn.
    /// Those that have records at a last holder come first, then the lowest. What a lost cluster gave up has
    /// such records. It may run there still, so no other index takes its place.
    #[must_use]
    pub fn unbound(&self, group: &GroupName, withdrawn: &RangeSet, n: u64) -> RangeSet {
        let again = self.unbound_with_records(group).minus(withdrawn).lowest(n);
        let taken = self.assigned(group).union(withdrawn).union(&again);
        let left = n.saturating_sub(again.count());
        let end = taken.count().saturating_add(left);
        let all = RangeSet::below(u32::try_from(end).unwrap_or(u32::MAX));
        all.minus(&taken).lowest(left).union(&again)
    }

    /// An upper bound of its encoded bytes, in all its rows.
    #[must_use]
    pub fn weight(&self) -> usize {
        Cutter::of(self).whole
    }

    /// Its rows: what each of them lists has at most [`PIECE_WEIGHT`] bytes. One at least.
    #[must_use]
    pub fn pieces(&self, written: Stamp) -> Vec<AssignmentPiece> {
        let mut cutter = Cutter::of(self);
        cutter.done.push(cutter.part);
        let pieces = u32::try_from(cutter.done.len()).unwrap_or(u32::MAX);
        let parts = cutter.done.into_iter();
        parts
            .map(|part| AssignmentPiece {
                part,
                pieces,
                written,
            })
            .collect()
    }

    /// Adds what another row of it lists.
    pub fn extend(&mut self, part: &Self) {
        for (group, ranges) in &part.groups {
            let all = self.groups.get_or_default(group.clone());
            all.extend(ranges.iter().cloned());
        }
        for (group, sets) in &part.released {
            let all = self.released.get_or_default(group.clone());
            for (holder, set) in sets {
                let ranges = all.entry(holder.clone()).or_default();
                *ranges = ranges.union(set);
            }
        }
        for (cluster, generation) in &part.holders {
            self.holders.insert(cluster.clone(), *generation);
        }
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
        for (group, sets) in &self.released {
            let assigned = self.ranges(group).iter().map(|r| r.range);
            let released = sets.values().flat_map(|set| set.ranges().iter().copied());
            let mut all: Vec<InstanceRange> = assigned.chain(released).collect();
            all.sort_unstable_by_key(|range| range.first);
            let overlap = |pair: &&[InstanceRange]| match pair {
                [a, b] => a.last >= b.first,
                _ => false,
            };
            if let Some([_, range]) = all.windows(2).find(overlap) {
                out.push(format!(
                    "group {group}: {range} was released, and is assigned or was released twice"
                ));
            }
        }
        out
    }
}
