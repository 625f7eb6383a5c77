//! Taking ranges over: before anything begins in a range that another cluster held, that cluster's blocks are read and what
//! counts here is stored. And the other side: what becomes of our runs in ranges that were given to another cluster without
//! our release (design section 6).

use crate::picture::At;
use crate::purpose::Purpose;
use crate::{Phase, Shard};
use echelon_core_jobs::{MOST_PLATFORM_BACKOFF, Takeover, take_over};
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::{Block, InstanceRecord};
use echelon_core_model::spec::defaults::RETRY;
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::{
    AssignedRange, Assignment, ClusterId, Generation, InstanceNumber, InstanceRange, RangeSet, ReasonCode,
    Span, Timestamp,
};
use std::collections::BTreeMap;

/// Blocks a read: 8 MiB at most.
const BLOCKS_A_READ: u32 = 64;
/// What lives here without being ours is asked about again after this time.
const ASK_AGAIN: Span = Span::seconds(10);

/// Cuts a range at multiples of what is read at once.
fn pieces(range: InstanceRange) -> impl Iterator<Item = InstanceRange> {
    let step = BLOCK_SIZE * BLOCKS_A_READ;
    (range.first / step..=range.last / step).filter_map(move |i| {
        let first = i.saturating_mul(step);
        let piece = InstanceRange::new(first, first.saturating_add(step - 1))?;
        piece.intersect(range)
    })
}

impl Shard {
    /// Starts to take over every range that needs it.
    pub(crate) fn start_takeovers(&mut self, number: u32) {
        self.renew_returned(number);
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let mut wanted: Vec<(AssignedRange, InstanceRange)> = Vec::new();
        for r in group.row.ranges.iter().filter(|r| r.former.is_some()) {
            let untaken: RangeSet = group
                .untaken(r.generation)
                .intersect(&std::iter::once(r.range).collect());
            let cut = untaken
                .ranges()
                .iter()
                .flat_map(|u| pieces(*u))
                .map(|p| (r.clone(), p));
            wanted.extend(cut);
        }
        for (range, piece) in wanted {
            let Some((former, _)) = range.former else { continue };
            if former == self.config.cluster {
                self.take_over_own(number, range.generation, piece);
            } else if self.taking.insert((number, range.generation, piece)) {
                self.read_blocks_of(
                    former,
                    number,
                    piece,
                    Purpose::Former(number, range.generation, piece),
                );
            }
        }
    }

    /// Numbers that were scaled away and are assigned again have no former holder: their own record, of an older generation, is
    /// renewed. What was merely stopped begins again, and what has succeeded does not.
    fn renew_returned(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let mut renewed: Vec<(InstanceNumber, InstanceRecord)> = Vec::new();
        for r in group.row.ranges.iter().filter(|r| r.former.is_none()) {
            let older = group
                .records_in(r.range)
                .filter(|(_, own)| own.generation < r.generation);
            renewed.extend(older.filter_map(|(n, own)| {
                let record = take_over(&Takeover {
                    generation: r.generation,
                    own: Some(own),
                    former: None,
                    wait_until: self.now,
                });
                record.map(|record| (n, record))
            }));
        }
        for (n, record) in renewed {
            self.edit((number, n), |own| *own = record);
        }
    }

    fn read_blocks_of(&mut self, cluster: ClusterId, number: u32, range: InstanceRange, purpose: Purpose) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let query = Query::GroupBlocks {
            cluster,
            job: group.job(),
            group: group.name().clone(),
            first: range.first / BLOCK_SIZE,
            last: range.last / BLOCK_SIZE,
        };
        self.ask(Op::Read(query, Consistency::Quorum), purpose);
    }

    /// The numbers come back to us: our own records are the former ones.
    fn take_over_own(&mut self, number: u32, generation: Generation, range: InstanceRange) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let own: BTreeMap<_, _> = group.records_in(range).map(|(n, r)| (n, r.clone())).collect();
        self.store_takeover(number, generation, range, &own);
    }

    /// The former holder's blocks were read.
    pub(crate) fn on_former(
        &mut self,
        number: u32,
        generation: Generation,
        range: InstanceRange,
        blocks: &[Block],
    ) {
        self.taking.remove(&(number, generation, range));
        self.store_takeover(number, generation, range, &records(blocks, range));
    }

    fn store_takeover(
        &mut self,
        number: u32,
        generation: Generation,
        range: InstanceRange,
        former: &BTreeMap<InstanceNumber, InstanceRecord>,
    ) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        // Meanwhile the range may have gone elsewhere again.
        let ours = |n: InstanceNumber| group.range_of(n).is_some_and(|r| r.generation == generation);
        let touched: RangeSet = group
            .records_in(range)
            .map(|(n, _)| n)
            .chain(former.keys().copied())
            .filter(|n| ours(*n))
            .collect();
        let longest = group
            .group_spec()
            .map_or(RETRY.max_backoff, |s| s.retry.max_backoff)
            .max(MOST_PLATFORM_BACKOFF);
        let wait_until = self.now.plus(longest);
        for n in touched.numbers().collect::<Vec<_>>() {
            let own = self.picture.record((number, n)).cloned();
            let of = Takeover {
                generation,
                own: own.as_ref(),
                former: former.get(&n),
                wait_until,
            };
            if let Some(record) = take_over(&of) {
                self.edit((number, n), |r| *r = record);
            }
        }
        self.edit_row(number, |row| {
            row.taken_over.entry(generation).or_default().insert(range);
        });
        self.adopt_group(number);
    }

    /// Numbers of this group that have a live run here, but are neither assigned here nor given back: another cluster may
    /// have them. Nothing is done to them without that cluster's word. It may have begun none of them yet, so it is asked
    /// again as long as they live here.
    pub(crate) fn inquire_lost(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let live = self
            .picture
            .groups
            .get(&number)
            .into_iter()
            .flat_map(|g| g.records());
        let lost = live
            .filter(|(_, r)| r.may_have_task())
            .any(|(n, r)| !group.holds(n, r.generation) && !group.is_released(n, r.generation));
        if lost {
            self.inquiries.insert(number, self.now.plus(ASK_AGAIN));
            let job = group.job();
            let query = Query::Assignment(job);
            self.ask(
                Op::Read(query, Consistency::Serial),
                Purpose::StrangerAssignment(job),
            );
        } else {
            self.inquiries.remove(&number);
        }
    }

    /// Asks again about numbers that live here without being ours.
    pub(crate) fn keep_inquiring(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let due = self.inquiries.iter().filter(|(_, at)| **at <= self.now);
        let due: Vec<u32> = due.map(|(number, _)| *number).collect();
        for number in due {
            self.inquiries.remove(&number);
            self.inquire_lost(number);
        }
    }

    /// When something is asked again.
    pub(crate) fn next_inquiry(&self) -> Option<Timestamp> {
        self.inquiries.values().min().copied()
    }

    /// Stops runs of numbers that were scaled away without our release: no cluster will have them again at their generation.
    pub(crate) fn stop_scaled_away(&mut self, assignment: &Assignment) {
        let mut stopped: Vec<At> = Vec::new();
        for number in self.picture.groups_of(assignment.job) {
            let Some(group) = self.picture.groups.get(&number).filter(|g| g.served) else {
                continue;
            };
            let sets = assignment.released.get(group.name()).into_iter().flatten();
            for (holder, numbers) in sets.filter(|(holder, _)| holder.cluster.is_none()) {
                let live = |(n, r): &(InstanceNumber, &InstanceRecord)| {
                    let is_over = r.generation <= holder.generation && !group.holds(*n, r.generation);
                    r.may_have_task() && is_over
                };
                let records = numbers.ranges().iter().flat_map(|range| group.records_in(*range));
                stopped.extend(records.filter(live).map(|(n, _)| (number, n)));
            }
        }
        if !self.is_frozen() {
            stopped
                .into_iter()
                .for_each(|at| self.stop(at, ReasonCode::ScaledDown.into()));
        }
    }

    /// Asks the present holders about numbers that live here without being ours.
    pub(crate) fn ask_successors(&mut self, assignment: &Assignment) {
        let mut asked: Vec<(ClusterId, u32, InstanceRange)> = Vec::new();
        for number in self.picture.groups_of(assignment.job) {
            let Some(group) = self.picture.groups.get(&number).filter(|g| g.served) else {
                continue;
            };
            for r in assignment
                .ranges(group.name())
                .iter()
                .filter(|r| r.cluster != self.config.cluster)
            {
                let live = |(_, record): (InstanceNumber, &InstanceRecord)| {
                    record.may_have_task() && record.generation < r.generation
                };
                if group.records_in(r.range).any(live) {
                    asked.extend(pieces(r.range).map(|p| (r.cluster.clone(), number, p)));
                }
            }
        }
        for (cluster, number, range) in asked {
            self.read_blocks_of(cluster, number, range, Purpose::Successor(number, range));
        }
    }

    /// The present holder's blocks: our runs of instances that run or have ended there are stopped; the others stay.
    pub(crate) fn on_successor(&mut self, number: u32, range: InstanceRange, blocks: &[Block]) {
        let theirs = records(blocks, range);
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let superseded = |n: &InstanceNumber, own: &InstanceRecord| {
            let newer = theirs.get(n).filter(|r| r.generation > own.generation);
            !group.holds(*n, own.generation) && newer.is_some_and(|r| r.may_have_task() || r.ended.is_some())
        };
        let stopped: Vec<InstanceNumber> = group
            .records_in(range)
            .filter(|(n, r)| r.may_have_task() && superseded(n, r))
            .map(|(n, _)| n)
            .collect();
        if !self.is_frozen() {
            stopped
                .into_iter()
                .for_each(|n| self.stop((number, n), ReasonCode::Moved.into()));
        }
    }
}

fn records(blocks: &[Block], range: InstanceRange) -> BTreeMap<InstanceNumber, InstanceRecord> {
    let all = blocks.iter().flat_map(|b| &b.instances);
    all.filter(|(n, _)| range.contains(**n))
        .map(|(n, r)| (*n, r.clone()))
        .collect()
}
