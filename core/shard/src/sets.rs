//! The sets that an instance belongs to, worked out from its record and from what that depends on. The sets themselves are kept by many
//! hands, so that a step costs no more than what it changes. They are held against this: after each step in tests, now and then in the
//! simulation, and block by block in production.

use crate::check::{Broken, check_record};
use crate::former::replaced_run;
use crate::group::Group;
use crate::picture::At;
use crate::{Phase, Shard};
use echelon_core_jobs::Next;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, InstanceRange, Timestamp};
use std::collections::BTreeSet;

/// Blocks that are looked at together in production.
const BLOCKS_A_SAMPLE: usize = 16;
/// How often that is.
const SAMPLED: Span = Span::seconds(1);

/// Which sets an instance is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Memberships {
    pub(crate) ready: bool,
    pub(crate) backing_off: bool,
    pub(crate) crash_looping: bool,
    pub(crate) withheld: bool,
    pub(crate) replacement: Replacement,
    pub(crate) bound: bool,
    pub(crate) former: bool,
    pub(crate) missing: bool,
    /// Its runs between two states are watched; all of them, and no others.
    pub(crate) watched: usize,
}

/// Which of those sets that are about replacing a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Replacement {
    pub(crate) outdated: bool,
    pub(crate) behind: bool,
    pub(crate) unrestarted: bool,
    pub(crate) restarting: bool,
    pub(crate) settling: bool,
}

/// The look at the sets in production: where it goes on, and what it has found.
#[derive(Debug, Default)]
pub(crate) struct SetSampler {
    due: Timestamp,
    /// The group and the block that were looked at last.
    last: (u32, u32),
    /// Problems found so far.
    pub(crate) found: u64,
}

impl Shard {
    /// The sets that an instance belongs to.
    fn memberships(&self, group: &Group, at: At) -> Memberships {
        let next = self.next_of(group, at);
        let waits = self.replacing.awaits(at);
        let ready = next == Next::Run && self.is_observed(at) && !waits;
        let record = group.record(at.1);
        let backs_off = matches!(next, Next::At(due) if record.is_some_and(|r| r.not_before == due));
        Memberships {
            ready,
            backing_off: waits || backs_off,
            crash_looping: group.is_crash_looping(at.1),
            withheld: next == Next::Withheld,
            replacement: group.replacement(at.1, &self.draining, self.now),
            bound: self.is_bound(at),
            former: ready && replaced_run(group, at.1).is_some(),
            missing: self.is_missing(group, at.1),
            watched: self.between(at).len(),
        }
    }

    /// The sets that an instance is in.
    fn kept_memberships(&self, group: &Group, at: At) -> Memberships {
        let n = &at.1;
        Memberships {
            ready: group.ready.contains(n),
            backing_off: group.backing_off.contains(n),
            crash_looping: group.crash_looping.contains(n),
            withheld: group.withheld.contains(n),
            replacement: Replacement {
                outdated: group.outdated.contains(n),
                behind: group.behind.contains(n),
                unrestarted: group.unrestarted.contains(n),
                restarting: group.restarting.contains(n),
                settling: group.settling.contains(n),
            },
            bound: self.bound.contains(&at),
            former: self.formers.contains(&at),
            missing: self.losses.is_missing(at),
            watched: self.overdue.watched(at).len(),
        }
    }

    /// Instances of a range that are in other sets than they belong to. What is to be looked at still is left out, and so is a group
    /// that waits for its spec: it is looked at when that is read.
    pub(crate) fn misplaced(&self, number: u32, range: InstanceRange) -> Vec<Broken> {
        let group = self.picture.groups.get(&number).filter(|g| g.served);
        let Some(group) = group.filter(|_| !self.awaits_spec(number)) else {
            return Vec::new();
        };
        let mut numbers: BTreeSet<InstanceNumber> = group.records_in(range).map(|(n, _)| n).collect();
        let (first, last) = (InstanceNumber(range.first), InstanceNumber(range.last));
        for set in group.sets() {
            numbers.extend(set.range(first..=last));
        }
        let of_shard = |set: &BTreeSet<At>| -> Vec<InstanceNumber> {
            let here = set.range((number, first)..=(number, last));
            here.map(|(_, n)| *n).collect()
        };
        numbers.extend(of_shard(&self.bound));
        numbers.extend(of_shard(&self.formers));
        let mut out = Vec::new();
        for n in numbers {
            let at = (number, n);
            if self.picture.agenda.contains(&at) {
                continue;
            }
            let (kept, right) = (self.kept_memberships(group, at), self.memberships(group, at));
            if kept != right {
                let what = format!("{kept:?}, and belongs to {right:?}");
                out.push(Broken::Misplaced(group.instance(n), what));
            }
        }
        out
    }

    /// Looks at the next blocks, when that is due.
    pub(crate) fn sample_sets(&mut self) {
        if self.phase != Phase::Serving || self.now < self.sampler.due {
            return;
        }
        self.sampler.due = self.now.plus(SAMPLED);
        let last = self.sampler.last;
        let groups = self.picture.groups.range(last.0..);
        let blocks = groups.flat_map(|(g, group)| group.blocks.keys().map(|b| (*g, *b)));
        let further = blocks.skip_while(|at| *at <= last && last.0 > 0);
        let some: Vec<(u32, u32)> = further.take(BLOCKS_A_SAMPLE).collect();
        self.sampler.last = some.last().copied().unwrap_or((0, 0));
        for (number, block) in some {
            let first = block.saturating_mul(BLOCK_SIZE);
            let range = InstanceRange {
                first,
                last: first.saturating_add(BLOCK_SIZE - 1),
            };
            let mut broken = self.misplaced(number, range);
            if let Some(group) = self.picture.groups.get(&number) {
                for (n, record) in group.records_in(range) {
                    check_record(group, n, record, &mut broken);
                }
            }
            let found = u64::try_from(broken.len()).unwrap_or(u64::MAX);
            self.sampler.found = self.sampler.found.saturating_add(found);
        }
    }

    /// How many problems the sampler has found: instances in a wrong set, and broken rules of single records.
    #[must_use]
    pub const fn inconsistencies(&self) -> u64 {
        self.sampler.found
    }
}

impl Group {
    /// The sets of numbers that are kept of it.
    fn sets(&self) -> [&BTreeSet<InstanceNumber>; 9] {
        [
            &self.ready,
            &self.backing_off,
            &self.crash_looping,
            &self.withheld,
            &self.outdated,
            &self.behind,
            &self.unrestarted,
            &self.restarting,
            &self.settling,
        ]
    }
}
