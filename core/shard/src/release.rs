//! Giving numbers back: what a mark on their range asks for. A number is given back when nothing of it may be alive and what
//! became of it is durable; then never again begun at its generation (design section 6).

use crate::Shard;
use crate::effects::Then;
use crate::group::Group;
use crate::picture::At;
use echelon_core_jobs::{Tally, leave_host, may_leave_host};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::{Generation, InstanceNumber, InstanceRange, RangeSet, ReasonCode, RunState};
use std::collections::BTreeMap;

/// Numbers that may be given back as soon as what became of them is durable.
pub(crate) type Leaving = BTreeMap<(u32, Generation), RangeSet>;

/// Whether a run of it may live, or its end is still to be settled: another cluster would begin it again.
fn is_loose(record: &InstanceRecord) -> bool {
    record.may_have_task() || (record.unsettled && record.ended.is_none())
}

impl Group {
    /// Numbers, among some, that have a live run, or of which it is not known what their end means.
    fn live_in(&self, numbers: &RangeSet) -> RangeSet {
        let live = numbers.ranges().iter().flat_map(|r| self.records_in(*r));
        live.filter(|(_, r)| is_loose(r)).map(|(n, _)| n).collect()
    }

    /// Active numbers of a generation that are ready for their next run and may go elsewhere: they have no run, or one on a host
    /// that has been out of reach for so long that it may be replaced.
    pub(crate) fn between_runs(&self, generation: Generation) -> RangeSet {
        let may_leave = |n: &InstanceNumber| {
            let has_volume = |r: &InstanceRecord| r.volume.as_ref().is_some_and(|v| v.used);
            let is_replaceable = |r: &InstanceRecord| {
                let run = r.run.as_ref();
                run.is_some_and(|run| run.state == RunState::Unreachable) && may_leave_host(r)
            };
            let record = self
                .record(*n)
                .filter(|r| r.generation == generation && r.run.is_some());
            record.is_some_and(|r| (!is_loose(r) || is_replaceable(r)) && !has_volume(r))
        };
        let marked = |n: &InstanceNumber| self.mark_of(*n).is_some_and(|m| m.count.is_none());
        let ready = self.ready.iter().copied();
        ready.filter(|n| may_leave(n) && !marked(n)).collect()
    }

    /// Numbers of ranges that are marked as a whole, at a generation, and need no taking over first.
    fn marked(&self, generation: Generation) -> RangeSet {
        let whole = |r: &&echelon_core_model::AssignedRange| {
            r.generation == generation && r.releasing.as_ref().is_some_and(|m| m.count.is_none())
        };
        let all: RangeSet = self.row.ranges.iter().filter(whole).map(|r| r.range).collect();
        all.minus(&self.untaken(generation))
    }

    /// Unstarted numbers that a mark by count still asks for: the highest.
    fn counted(&self, generation: Generation) -> RangeSet {
        let none = RangeSet::new();
        let released = self.row.released.get(&generation).unwrap_or(&none);
        let startable = self.startable.get(&generation).unwrap_or(&none);
        let mut out = RangeSet::new();
        for r in self.row.ranges.iter().filter(|r| r.generation == generation) {
            let Some(count) = r.releasing.as_ref().and_then(|m| m.count) else {
                continue;
            };
            let range: RangeSet = std::iter::once(r.range).collect();
            let need = count.saturating_sub(released.intersect(&range).count());
            // What holds a volume stays with it.
            let free = startable.intersect(&range).minus(&self.with_volume(r.range));
            out = out.union(&free.highest(need));
        }
        out
    }
}

impl Shard {
    /// Gives up the run of an instance that is to leave since its cluster is lost, as long as Mesos is silent. It is kept as an
    /// older run, and stopped if Mesos ever lists it.
    pub(crate) fn leave_lost_cluster(&mut self, at: At) {
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let is_lost = group
            .mark_of(at.1)
            .is_some_and(|mark| mark.why == ReasonCode::ClusterLost);
        let Some(record) = group.record(at.1).filter(|_| is_lost) else {
            return;
        };
        let leaves = record.ended.is_none() && record.may_have_task() && may_leave_host(record);
        if leaves && self.signs().without_mesos().is_some() && !self.is_frozen() {
            let now = self.now;
            self.edit(at, |record| leave_host(record, now));
            self.account_all(at);
        }
    }

    /// Notes an instance whose range is to leave and of which nothing lives any more.
    pub(crate) fn note_leaving(&mut self, at: At) {
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let Some(range) = group.range_of(at.1) else { return };
        let marked = range.releasing.as_ref().is_some_and(|m| m.count.is_none());
        let generation = range.generation;
        let busy = group.record(at.1).is_some_and(is_loose);
        if marked && !busy && group.holds(at.1, generation) && !group.awaits_takeover(at.1, range) {
            let one = InstanceRange::one(at.1);
            self.leaving.entry((at.0, generation)).or_default().insert(one);
        }
    }

    /// Notes the numbers of marked ranges that have no record at all.
    pub(crate) fn release_unbegun(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        for (generation, held) in group.held() {
            let marked = group.marked(generation).intersect(&held);
            let recorded: RangeSet = marked
                .ranges()
                .iter()
                .flat_map(|r| group.records_in(*r))
                .map(|(n, _)| n)
                .collect();
            let free = marked.minus(&recorded);
            if !free.is_empty() {
                let set = self.leaving.entry((number, generation)).or_default();
                *set = set.union(&free);
            }
        }
    }

    /// Has what was noted given back as soon as everything written so far is durable.
    pub(crate) fn release_noted(&mut self) {
        for ((group, generation), numbers) in std::mem::take(&mut self.leaving) {
            if self.is_group_refused(group) {
                continue;
            }
            let points = self.open_points();
            self.journal
                .when_durable(points, Then::Release(group, generation, numbers));
        }
    }

    /// Has unstarted numbers given back where a mark asks for some.
    pub(crate) fn tend_count_marks(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        let marked = group
            .row
            .ranges
            .iter()
            .any(|r| r.releasing.as_ref().is_some_and(|m| m.count.is_some()));
        if !marked || group.releasing_by_count {
            return;
        }
        let counted = group.startable.keys().map(|g| (*g, group.counted(*g)));
        let counted: Vec<(Generation, RangeSet)> = counted.filter(|(_, set)| !set.is_empty()).collect();
        group.releasing_by_count = !counted.is_empty();
        for (generation, numbers) in counted {
            let points = self.open_points();
            self.journal
                .when_durable(points, Then::Release(number, generation, numbers));
        }
    }

    /// Gives numbers back for good, as far as that is still asked for and nothing of them lives.
    pub(crate) fn release(&mut self, number: u32, generation: Generation, numbers: &RangeSet) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        group.releasing_by_count = false;
        let Some(held) = group.held().remove(&generation) else {
            return;
        };
        let asked = group.marked(generation).union(&group.counted(generation));
        let asked = asked.intersect(numbers).intersect(&held);
        let free = asked.minus(&group.live_in(&asked));
        if free.is_empty() {
            return;
        }
        let recorded = group.untally(&free, generation);
        // What is kept of them beside sums is looked at anew, all of it.
        let recorded = recorded.into_iter().map(|n| (number, n));
        self.picture.agenda.extend(recorded);
        self.edit_row(number, |row| {
            let set = row.released.entry(generation).or_default();
            *set = set.union(&free);
        });
    }
}

impl Group {
    /// Counts numbers as not held any more, and takes them out of what may begin. Tells which of them have a record.
    fn untally(&mut self, numbers: &RangeSet, generation: Generation) -> Vec<InstanceNumber> {
        let revision = self.revision();
        let mut change = (Tally::default(), Tally::default());
        let mut gone: Vec<InstanceNumber> = Vec::new();
        for range in numbers.ranges() {
            for (n, record) in self.records_in(*range) {
                if record.generation == generation {
                    change.0.add(record, true, revision);
                    change.1.add(record, false, revision);
                }
                gone.push(n);
            }
        }
        let tally = self.tallies.entry(generation).or_default();
        tally.subtract(&change.0);
        tally.merge(&change.1);
        if let Some(set) = self.startable.get_mut(&generation) {
            *set = set.minus(numbers);
        }
        gone
    }
}
