//! One group of a job as this shard holds it: its slice row, its blocks, what is wanted of it, and the sets and sums that
//! spare us from walking its instances.

use crate::daemons::Homes;
use crate::journal::Lane;
use crate::refused::RefusedRows;
use crate::unread::SetAside;
use crate::waiting_times::WaitingTimes;
use echelon_core_jobs::{Standing, Tally, standing};
use echelon_core_model::assignment::Releasing;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::directive::OwnChanges;
use echelon_core_model::instance::{Block, BlockKey, InstanceRecord, SliceRow};
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::pause::Pause;
use echelon_core_model::restart::GroupRestarts;
use echelon_core_model::rollout::Rollout;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{
    AssignedRange, ClusterId, Generation, GroupName, InstanceId, InstanceNumber, InstanceRange, JobId,
    RangeSet, Reason, Resources, Timestamp, Version,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wanted of a group, as last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The head that it comes from.
    pub(crate) head_version: Version,
    /// The goal.
    pub(crate) goal: Goal,
    /// The spec version in force.
    pub(crate) spec_version: u32,
    /// How instances are brought to it.
    pub(crate) rollout: Option<Rollout>,
    /// Restarts of parts of it.
    pub(crate) restarts: GroupRestarts,
}

impl Wish {
    /// What a head wants of a group.
    pub(crate) fn of(head: &Head, group: &GroupName) -> Self {
        Self {
            head_version: head.version,
            goal: head.goal,
            spec_version: head.spec_version,
            rollout: head.rollout,
            restarts: head
                .restarts
                .as_ref()
                .map(|r| r.of_group(group))
                .unwrap_or_default(),
        }
    }
}

/// A block with its lane.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) lane: Lane,
    pub(crate) block: Block,
}

/// A group at this cluster.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) row: SliceRow,
    pub(crate) row_lane: Lane,
    /// All buckets that it lies in are sealed and its goal is read. Before, nothing of it is decided, changed or told.
    pub(crate) served: bool,
    /// A row of it cannot be understood: it is never served by this leader.
    pub(crate) set_aside: Option<SetAside>,
    pub(crate) blocks: BTreeMap<u32, Cell>,
    pub(crate) wish: Option<Wish>,
    /// The spec of the wish, once it is read. Before, nothing is decided that depends on it.
    pub(crate) spec: Option<Arc<JobSpec>>,
    /// Since when that spec is awaited, or was.
    pub(crate) spec_since: Timestamp,
    /// When goal and ranges were last heard: from a directive, or a read that began then.
    pub(crate) heard_at: Timestamp,
    /// When the read of its assignment began that gave its ranges.
    pub(crate) assigned_at: Timestamp,
    /// This cluster's part of `max_unavailable`; none until the resource manager has given one.
    pub(crate) max_unavailable: u32,
    /// The number of that part; 0 until one was given.
    pub(crate) part_number: u64,
    /// When the grants of the row came; a grant read from storage has expired.
    pub(crate) granted_at: BTreeMap<Generation, Timestamp>,
    pub(crate) tallies: BTreeMap<Generation, Tally>,
    /// Numbers that may begin as soon as the grant allows.
    pub(crate) startable: BTreeMap<Generation, RangeSet>,
    /// Active instances whose next run may begin now.
    pub(crate) ready: BTreeSet<InstanceNumber>,
    /// Active instances that wait for a backoff.
    pub(crate) backing_off: BTreeSet<InstanceNumber>,
    /// Instances that fail again and again.
    pub(crate) crash_looping: BTreeSet<InstanceNumber>,
    /// Instances whose run was lost, and that wait for an operator.
    pub(crate) withheld: BTreeSet<InstanceNumber>,
    /// Instances that have as many older runs as are kept, and wait for the end of one.
    pub(crate) crowded: BTreeSet<InstanceNumber>,
    /// Only numbers below this are updated while canaries wait to be accepted, as the resource manager said last.
    pub(crate) update_below: u32,
    /// Live runs that are to be replaced: of another version, from before the last restart asked for, or on a host that is to be empty.
    pub(crate) outdated: BTreeSet<InstanceNumber>,
    /// Live runs that are of another version than the one wanted, while a rollout brings all to it, whether or not their turn has come.
    pub(crate) behind: BTreeSet<InstanceNumber>,
    /// Latest runs from before a restart that is about them, those that are being stopped included.
    pub(crate) unrestarted: BTreeSet<InstanceNumber>,
    /// Instances whose run was stopped to be replaced, until the next one has been available for long enough.
    pub(crate) restarting: BTreeSet<InstanceNumber>,
    /// Of these, those that are available, and not for long enough.
    pub(crate) settling: BTreeSet<InstanceNumber>,
    /// Why the last placement left some waiting.
    pub(crate) unplaced: Vec<(Reason, u64)>,
    /// Since when each reason for waiting holds.
    pub(crate) waiting_times: WaitingTimes,
    /// When runs of each generation began and ended, as far as they are on record.
    pub(crate) times: BTreeMap<Generation, Times>,
    /// Of a daemon: its hosts, once they are known.
    pub(crate) homes: Option<Homes>,
    /// Its gang cannot begin yet, or not go on.
    pub(crate) gang_waits: bool,
    /// Numbers are on their way to be given back for a mark by count.
    pub(crate) releasing_by_count: bool,
    /// Its job has ended: its blocks go to the archive when nothing of it is left.
    pub(crate) archive: bool,
    /// The time between the leader before us and this one.
    pub(crate) pause: Pause,
    /// Storage refuses a row of it.
    pub(crate) refused: Option<RefusedRows>,
}

impl Group {
    pub(crate) fn new(row: SliceRow) -> Self {
        Self {
            row_lane: Lane(row.bucket()),
            row,
            served: false,
            set_aside: None,
            blocks: BTreeMap::new(),
            wish: None,
            spec: None,
            spec_since: Timestamp(0),
            heard_at: Timestamp(0),
            assigned_at: Timestamp(0),
            max_unavailable: 0,
            part_number: 0,
            granted_at: BTreeMap::new(),
            tallies: BTreeMap::new(),
            startable: BTreeMap::new(),
            ready: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            crash_looping: BTreeSet::new(),
            withheld: BTreeSet::new(),
            crowded: BTreeSet::new(),
            update_below: 0,
            outdated: BTreeSet::new(),
            behind: BTreeSet::new(),
            unrestarted: BTreeSet::new(),
            restarting: BTreeSet::new(),
            settling: BTreeSet::new(),
            unplaced: Vec::new(),
            waiting_times: WaitingTimes::default(),
            times: BTreeMap::new(),
            homes: None,
            gang_waits: false,
            releasing_by_count: false,
            archive: false,
            pause: Pause::default(),
            refused: None,
        }
    }

    pub(crate) const fn job(&self) -> JobId {
        self.row.job
    }

    pub(crate) const fn name(&self) -> &GroupName {
        &self.row.group
    }

    pub(crate) fn instance(&self, number: InstanceNumber) -> InstanceId {
        InstanceId {
            job: self.row.job,
            group: self.row.group.clone(),
            number,
        }
    }

    /// The group's part of its spec.
    pub(crate) fn group_spec(&self) -> Option<&GroupSpec> {
        self.spec.as_deref().and_then(|s| s.group(&self.row.group))
    }

    /// Room that one of its instances needs. While the spec is not read that may be any.
    pub(crate) fn need(&self) -> Resources {
        match &self.spec {
            None => Resources::MAX,
            Some(_) => self.group_spec().map_or(Resources::ZERO, GroupSpec::room),
        }
    }

    pub(crate) fn record(&self, n: InstanceNumber) -> Option<&InstanceRecord> {
        self.blocks.get(&(n.0 / BLOCK_SIZE))?.block.instances.get(&n)
    }

    /// The cell of a number, made if it is not there.
    pub(crate) fn cell(&mut self, n: InstanceNumber) -> &mut Cell {
        let key = BlockKey::of(self.row.job, &self.row.group, n);
        self.blocks.entry(key.number).or_insert_with(|| Cell {
            lane: Lane(key.bucket()),
            block: Block {
                key,
                instances: BTreeMap::new(),
            },
        })
    }

    /// Every record, in order of number.
    pub(crate) fn records(&self) -> impl Iterator<Item = (InstanceNumber, &InstanceRecord)> {
        self.blocks
            .values()
            .flat_map(|c| c.block.instances.iter().map(|(n, r)| (*n, r)))
    }

    /// The records of a range of numbers.
    pub(crate) fn records_in(
        &self,
        range: InstanceRange,
    ) -> impl Iterator<Item = (InstanceNumber, &InstanceRecord)> {
        let (first, last) = (InstanceNumber(range.first), InstanceNumber(range.last));
        self.blocks
            .range(range.first / BLOCK_SIZE..=range.last / BLOCK_SIZE)
            .flat_map(move |(_, c)| c.block.instances.range(first..=last).map(|(n, r)| (*n, r)))
    }

    /// The assigned range of a number, if this cluster is its holder.
    pub(crate) fn range_of(&self, n: InstanceNumber) -> Option<&AssignedRange> {
        let at = self.row.ranges.partition_point(|r| r.range.last < n.0);
        self.row.ranges.get(at).filter(|r| r.range.contains(n))
    }

    pub(crate) fn is_released(&self, n: InstanceNumber, generation: Generation) -> bool {
        self.row
            .released
            .get(&generation)
            .is_some_and(|set| set.contains(n))
    }

    /// Whether a number is assigned here at this generation and not given back.
    pub(crate) fn holds(&self, n: InstanceNumber, generation: Generation) -> bool {
        self.range_of(n).is_some_and(|r| r.generation == generation) && !self.is_released(n, generation)
    }

    /// The mark on a number's range.
    pub(crate) fn mark_of(&self, n: InstanceNumber) -> Option<&Releasing> {
        self.range_of(n)?.releasing.as_ref()
    }

    /// Whether a former holder's records must still be taken over before this number may begin.
    pub(crate) fn awaits_takeover(&self, n: InstanceNumber, range: &AssignedRange) -> bool {
        range.former.is_some() && !self.is_taken_over(n, range.generation)
    }

    fn is_taken_over(&self, n: InstanceNumber, generation: Generation) -> bool {
        self.row
            .taken_over
            .get(&generation)
            .is_some_and(|set| set.contains(n))
    }

    /// Numbers held at each generation.
    pub(crate) fn held(&self) -> BTreeMap<Generation, RangeSet> {
        let mut out: BTreeMap<Generation, RangeSet> = BTreeMap::new();
        for r in &self.row.ranges {
            out.entry(r.generation).or_default().insert(r.range);
        }
        for (generation, set) in &mut out {
            if let Some(released) = self.row.released.get(generation) {
                *set = set.minus(released);
            }
        }
        out
    }

    /// How many may be active: what was granted, less what was preempted since, and what was taken over since.
    pub(crate) fn granted(&self, generation: Generation) -> u64 {
        let own = self.own(generation);
        self.row
            .grants
            .get(&generation)
            .map_or(own.taken_over, |grant| own.since(grant.known, grant.active))
    }

    /// What this shard has changed beside the grants.
    pub(crate) fn own(&self, generation: Generation) -> OwnChanges {
        self.row.own.get(&generation).copied().unwrap_or_default()
    }

    /// Whether a grant allows raising.
    fn is_granted(&self, generation: Generation, now: Timestamp) -> bool {
        let grant = self.row.grants.get(&generation);
        let arrived = self.granted_at.get(&generation);
        grant
            .zip(arrived)
            .is_some_and(|(grant, at)| now < at.plus(grant.lease))
    }

    /// How many may be active of a slice, as far as one may begin now.
    pub(crate) fn allowed(&self, generation: Generation, now: Timestamp) -> u64 {
        if self.is_granted(generation, now) {
            self.granted(generation)
        } else {
            0
        }
    }

    /// How many more may become active now: what grants allow and numbers there are.
    pub(crate) fn openings(&self, generation: Generation, now: Timestamp) -> u64 {
        let running = self
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired == Desired::Running);
        if !running || self.refused.is_some() {
            return 0;
        }
        let active = self.tallies.get(&generation).map_or(0, |t| t.active);
        let free = self.startable.get(&generation).map_or(0, RangeSet::count);
        self.allowed(generation, now).saturating_sub(active).min(free)
    }

    /// Whether a number may begin only when more of its slice is granted. A grant counts here also when nothing
    /// begins by it at the moment.
    pub(crate) fn waits_for_grant(&self, n: InstanceNumber) -> bool {
        self.startable.iter().any(|(generation, set)| {
            let active = self.tallies.get(generation).map_or(0, |t| t.active);
            let open = self.granted(*generation).saturating_sub(active);
            set.contains(n) && !set.lowest(open).contains(n)
        })
    }

    /// How many instances want a host now.
    pub(crate) fn appetite(&self, now: Timestamp) -> u64 {
        let ready = u64::try_from(self.ready.len()).unwrap_or(u64::MAX);
        let open = self.startable.keys().map(|g| self.openings(*g, now)).sum::<u64>();
        ready.saturating_add(open)
    }

    /// Whether instances are to run and wait to be granted.
    pub(crate) fn is_ungranted(&self, now: Timestamp) -> bool {
        let wish = self.wish.as_ref();
        let waiting = |(g, set): (&Generation, &RangeSet)| set.count() > self.openings(*g, now);
        wish.is_some_and(|w| w.goal.desired == Desired::Running) && self.startable.iter().any(waiting)
    }

    /// Active instances over all generations that nobody can rely on at this moment.
    pub(crate) fn unavailable(&self) -> u64 {
        let down: u64 = self
            .tallies
            .values()
            .map(|t| t.active.saturating_sub(t.available))
            .sum();
        down.saturating_add(u64::try_from(self.settling.len()).unwrap_or(u64::MAX))
    }

    /// When a run of a generation began and ended.
    pub(crate) fn note_times(&mut self, generation: Generation, times: Times) {
        self.times.entry(generation).or_default().merge(times);
    }

    /// Counts everything anew: after a change of ranges or marks.
    pub(crate) fn recount(&mut self) {
        (self.tallies, self.startable) = self.count();
        let all: Vec<(Generation, Times)> = self.records().filter_map(|(_, r)| times(r)).collect();
        for (generation, times) in all {
            self.note_times(generation, times);
        }
    }

    /// Sums and startable numbers, counted from the records. `O(records)`.
    pub(crate) fn count(&self) -> (BTreeMap<Generation, Tally>, BTreeMap<Generation, RangeSet>) {
        let revision = self.revision();
        let mut tallies: BTreeMap<Generation, Tally> = BTreeMap::new();
        let mut startable: BTreeMap<Generation, RangeSet> = BTreeMap::new();
        for r in &self.row.ranges {
            if r.releasing.as_ref().is_none_or(|m| m.count.is_some()) {
                startable.entry(r.generation).or_default().insert(r.range);
            }
        }
        for (generation, set) in &mut startable {
            if let Some(released) = self.row.released.get(generation) {
                *set = set.minus(released);
            }
        }
        for (generation, set) in &mut startable {
            *set = set.minus(&self.untaken(*generation));
        }
        let mut begun: BTreeMap<Generation, Vec<InstanceNumber>> = BTreeMap::new();
        for (n, record) in self.records() {
            let held = self.holds(n, record.generation);
            tallies
                .entry(record.generation)
                .or_default()
                .add(record, held, revision);
            if standing(record) != Standing::Unstarted || record.may_have_task() {
                let range = self.range_of(n).map(|r| r.generation);
                begun.entry(range.unwrap_or_default()).or_default().push(n);
            }
        }
        for (generation, numbers) in begun {
            if let Some(set) = startable.get_mut(&generation) {
                *set = set.minus(&numbers.into_iter().collect());
            }
        }
        startable.retain(|_, set| !set.is_empty());
        (tallies, startable)
    }

    /// Numbers at a generation whose former holder's records must still be taken over.
    pub(crate) fn untaken(&self, generation: Generation) -> RangeSet {
        let from_others = |r: &&AssignedRange| r.generation == generation && r.former.is_some();
        let all: RangeSet = self
            .row
            .ranges
            .iter()
            .filter(from_others)
            .map(|r| r.range)
            .collect();
        match self.row.taken_over.get(&generation) {
            Some(taken) => all.minus(taken),
            None => all,
        }
    }

    /// Whether a number may begin when the grant allows, by its own record alone.
    fn may_begin(&self, n: InstanceNumber) -> Option<Generation> {
        let range = self.range_of(n)?;
        let marked = range.releasing.as_ref().is_some_and(|m| m.count.is_none());
        let untaken = self.awaits_takeover(n, range);
        let free = !marked && !untaken && !self.is_released(n, range.generation);
        let fresh = self
            .record(n)
            .is_none_or(|r| standing(r) == Standing::Unstarted && !r.may_have_task());
        (free && fresh).then_some(range.generation)
    }

    /// Brings the set of startable numbers up to date for one number.
    pub(crate) fn refresh_startable(&mut self, n: InstanceNumber) {
        let at = InstanceRange::one(n);
        match self.may_begin(n) {
            Some(generation) => {
                let set = self.startable.entry(generation).or_default();
                if !set.contains(n) {
                    set.insert(at);
                }
            }
            None => {
                self.startable
                    .values_mut()
                    .filter(|s| s.contains(n))
                    .for_each(|s| s.remove(at));
            }
        }
    }

    /// Whether anything of it may be alive, or was given up and never known dead.
    pub(crate) fn has_loose_ends(&self) -> bool {
        self.tallies.values().any(|t| t.live > 0) || self.records().any(|(_, r)| !r.older.is_empty())
    }
}

/// When runs began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    /// The first that began.
    pub(crate) first_begun: Option<Timestamp>,
    /// The last that began.
    pub(crate) last_begun: Option<Timestamp>,
    /// The last that ended.
    pub(crate) last_ended: Option<Timestamp>,
}

impl Times {
    fn merge(&mut self, other: Self) {
        let first = [self.first_begun, other.first_begun].into_iter().flatten();
        self.first_begun = first.min();
        self.last_begun = self.last_begun.max(other.last_begun);
        self.last_ended = self.last_ended.max(other.last_ended);
    }
}

/// When the latest run of an instance began, or was launched, and when it ended.
pub(crate) fn times(record: &InstanceRecord) -> Option<(Generation, Times)> {
    let run = record.run.as_ref()?;
    let begun = Some(run.started_at.unwrap_or(run.since));
    let times = Times {
        first_begun: begun,
        last_begun: begun,
        last_ended: run.state.is_ended().then_some(run.since),
    };
    Some((record.generation, times))
}

/// Only the ranges of one cluster, sorted by number.
pub(crate) fn ranges_at(ranges: &[AssignedRange], cluster: &ClusterId) -> Vec<AssignedRange> {
    let mut out: Vec<AssignedRange> = ranges.iter().filter(|r| r.cluster == *cluster).cloned().collect();
    out.sort_by_key(|r| r.range);
    out
}
