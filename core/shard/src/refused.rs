//! Rows that storage refuses for good. Another leader would be refused the same, so none of them costs a leadership: the batch
//! goes on without the row, and its group is set aside until a later write of the row succeeds. Nothing of a group that is set
//! aside is started, replaced or moved. What its stored head asks to stop is still stopped: the head is the evidence.

use crate::Shard;
use crate::effects::Then;
use crate::event::{Alarm, Effect};
use crate::group::Group;
use crate::journal::Lane;
use crate::picture::At;
use echelon_core_jobs::Next;
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::BlockKey;
use echelon_core_model::job::Desired;
use echelon_core_model::store::{Batch, Refusal, RefusedRow, ShardKey, Write};
use echelon_core_model::time::Span;
use echelon_core_model::{GroupName, JobId, MemberId, Reason, ReasonCode, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How long until a refused row is tried again: what has ended since makes it smaller.
const RETRY: Span = Span::seconds(30);

/// A row of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupRow {
    /// A block of instances.
    Block(u32),
    /// The slice row.
    Slice,
}

/// Why a group is set aside, and which of its rows storage does not have as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedRows {
    pub(crate) reason: Reason,
    pub(crate) since: Timestamp,
    /// With each row whether a write of it is under way, or may be.
    rows: BTreeMap<(Lane, GroupRow), bool>,
}

/// Groups that are set aside, by when their rows are tried again.
pub(crate) type Refusals = BTreeMap<u32, Timestamp>;

impl Group {
    /// Whether storage does not have a row as it is, because it refuses it.
    fn is_refused(&self, row: GroupRow) -> bool {
        let rows = self.refused.iter().flat_map(|a| a.rows.keys());
        rows.into_iter().any(|(_, r)| *r == row)
    }

    /// Whether a write of a row is to be left out of a commit.
    fn holds_back(&self, lane: Lane, row: GroupRow) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|a| a.rows.get(&(lane, row)) == Some(&false))
    }

    /// Whether its head, as stored, asks to stop it.
    fn is_stopped(&self) -> bool {
        let wish = self.wish.as_ref();
        wish.is_some_and(|w| w.goal.desired != Desired::Running)
    }

    /// Instances whose record is in a refused row.
    pub(crate) fn n_refused(&self) -> u64 {
        let blocks = self
            .blocks
            .iter()
            .filter(|(b, _)| self.is_refused(GroupRow::Block(**b)));
        let n: usize = blocks.map(|(_, c)| c.block.instances.len()).sum();
        u64::try_from(n).unwrap_or(u64::MAX)
    }

    /// What may still be done of a decision about an instance: a group that is set aside is only stopped, and only as its head asks.
    pub(crate) fn unless_refused(&self, next: Next) -> Next {
        match next {
            next if self.refused.is_none() => next,
            Next::Stop(reason) if self.is_stopped() => Next::Stop(reason),
            Next::End(ended) if self.is_stopped() => Next::End(ended),
            _ => Next::Rest,
        }
    }
}

impl Shard {
    /// A commit was refused: the rows that are at fault are set aside, and the rest is committed.
    pub(crate) fn on_commit_refused(&mut self, lane: Lane, batch: Batch, refusal: &Refusal) {
        let places = refusal.rows.iter().filter_map(|r| r.place);
        let mut refused = places.filter_map(|p| batch.writes.get(p));
        if refused.any(|w| matches!(w, Write::Raw(..) | Write::Shard(ShardKey::Own, _))) {
            // What cannot be read is not for this build to leave out, and nothing may be done that our own
            // row does not know.
            if lane == Lane::OWN {
                self.own_stored.clear();
                self.own_sealed = false;
            }
            let rows = refusal.rows.iter();
            rows.for_each(|row| self.alarm_refused(None, row));
            self.journal.postpone(lane, self.now.plus(RETRY), batch.writes);
            return;
        }
        let rest = self.without_refused(batch, refusal);
        let Some(rest) = rest else { return };
        let seals = rest.writes.iter().any(|w| matches!(w, Write::Seal(_)));
        if lane == Lane::HEARTBEAT || (seals && self.refuses_any_of(lane)) {
            // A seal hides what is not written back, and nothing can be left out of a heartbeat: all of it
            // is tried again later.
            self.journal.postpone(lane, self.now.plus(RETRY), rest.writes);
        } else if rest.writes.is_empty() {
            self.on_committed(lane);
        } else {
            self.commit(lane, rest.writes);
        }
    }

    /// The rest of a batch, when each row that was refused is told of. `None` when it is refused as a whole: then the leadership
    /// ends, since only another epoch changes what is wrong with it.
    pub(crate) fn without_refused(&mut self, mut batch: Batch, refusal: &Refusal) -> Option<Batch> {
        let whole = refusal.rows.iter().find(|r| r.place.is_none());
        if let Some(row) = whole {
            self.step_down(format!("storage refuses {row}"));
            return None;
        }
        let mut refused: BTreeSet<usize> = BTreeSet::new();
        for row in &refusal.rows {
            let Some(place) = row.place else { continue };
            if let Some(write) = batch.writes.get(place)
                && refused.insert(place)
            {
                self.on_row_refused(&write.clone(), row);
            }
        }
        if refused.is_empty() {
            self.step_down(format!(
                "storage refuses a batch and names no row of it: {refusal}"
            ));
            return None;
        }
        let mut place = 0;
        batch.writes.retain(|_| {
            place += 1;
            !refused.contains(&(place - 1))
        });
        Some(batch)
    }

    fn on_row_refused(&mut self, write: &Write, row: &RefusedRow) {
        match write {
            Write::Block(block) => self.note_refused_row(&block.key, GroupRow::Block(block.key.number), row),
            Write::Slice(slice) => {
                let key = BlockKey {
                    job: slice.job,
                    group: slice.group.clone(),
                    number: 0,
                };
                self.note_refused_row(&key, GroupRow::Slice, row);
            }
            Write::Archive(block) => self.alarm_refused(Some((block.key.job, &block.key.group)), row),
            _ => self.alarm_refused(None, row),
        }
    }

    fn alarm_refused(&mut self, of: Option<(JobId, &GroupName)>, row: &RefusedRow) {
        self.out.push(Effect::Alarm(Alarm::RowRefused {
            group: of.map(|(job, group)| (job, group.clone())),
            why: row.to_string(),
        }));
    }

    fn note_refused_row(&mut self, key: &BlockKey, of: GroupRow, row: &RefusedRow) {
        let Some(number) = self.picture.number_of(key.job, &key.group) else {
            return;
        };
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        let lane = match of {
            GroupRow::Block(_) => Lane(key.bucket()),
            GroupRow::Slice => group.row_lane,
        };
        let (first, served) = (group.refused.is_none(), group.served);
        let now = self.now;
        let aside = group.refused.get_or_insert_with(|| RefusedRows {
            reason: Reason::new(ReasonCode::RowRefused).at(row.to_string()),
            since: now,
            rows: BTreeMap::new(),
        });
        aside.rows.insert((lane, of), false);
        self.refusals.insert(number, now.plus(RETRY));
        if first {
            self.alarm_refused(Some((key.job, &key.group)), row);
        }
        if first && served {
            self.picture.look_at_all(number);
        }
    }

    fn refuses_any_of(&self, lane: Lane) -> bool {
        let groups = self.refusals.keys().filter_map(|n| self.picture.groups.get(n));
        let mut rows = groups
            .filter_map(|g| g.refused.as_ref())
            .flat_map(|a| a.rows.keys());
        rows.any(|(l, _)| *l == lane)
    }

    /// Whether a row goes into the commit that is made. One that is refused waits until it is tried again.
    pub(crate) fn goes_into(&self, lane: Lane, number: u32, row: GroupRow) -> bool {
        let group = self.picture.groups.get(&number);
        group.is_none_or(|g| !g.holds_back(lane, row))
    }

    /// Tries the rows again whose time has come.
    pub(crate) fn retry_refused(&mut self) {
        let due = self.refusals.iter().filter(|(_, at)| **at <= self.now);
        let due: Vec<u32> = due.map(|(number, _)| *number).collect();
        for number in due {
            let aside = self
                .picture
                .groups
                .get_mut(&number)
                .and_then(|g| g.refused.as_mut());
            let Some(aside) = aside else {
                self.refusals.remove(&number);
                continue;
            };
            self.refusals.insert(number, self.now.plus(RETRY));
            for ((lane, row), goes) in &mut aside.rows {
                *goes = true;
                let dirt = self.journal.touch(*lane, self.now, Span::ZERO);
                match row {
                    GroupRow::Block(block) => dirt.blocks.insert((number, *block)),
                    GroupRow::Slice => dirt.rows.insert(number),
                };
            }
        }
    }

    /// When a refused row is tried again.
    pub(crate) fn next_retry_of_refused(&self) -> Option<Timestamp> {
        self.refusals.values().min().copied()
    }

    /// A commit of a lane is durable: rows that it took are not refused any more, and a group without any goes on.
    pub(crate) fn on_committed(&mut self, lane: Lane) {
        self.journal.committed(lane, self.now);
        let numbers: Vec<u32> = self.refusals.keys().copied().collect();
        for number in numbers {
            let Some(group) = self.picture.groups.get_mut(&number) else {
                continue;
            };
            let Some(aside) = &mut group.refused else { continue };
            let written = |key: &(Lane, GroupRow), goes: bool| {
                key.0 == lane && goes && !self.journal.is_dirty(lane, number, key.1)
            };
            aside.rows.retain(|key, goes| !written(key, *goes));
            if aside.rows.is_empty() {
                group.refused = None;
                self.refusals.remove(&number);
                self.go_on_with(number);
            }
        }
    }

    /// All of a group is stored again: what was left undone meanwhile is done.
    fn go_on_with(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number).filter(|g| g.served) else {
            return;
        };
        let stopping = group.records().flat_map(|(n, r)| {
            let runs = r.run.iter().chain(&r.older);
            let stopping = runs.filter(|run| run.stopping.is_some() && run.may_have_task());
            stopping.map(move |run| ((number, n), run.generation, run.number))
        });
        let stopping: Vec<_> = stopping.collect();
        stopping.into_iter().for_each(|run| self.kill_when_stored(run));
        self.adopt_group(number);
    }

    /// Whether something that waited for a row may be done now that its lane is durable: not where the row was left out of it.
    pub(crate) fn still_holds(&self, then: &Then) -> bool {
        let group = |number: &u32| self.picture.groups.get(number).filter(|g| g.refused.is_some());
        let refused = |at: &At| {
            let group = group(&at.0);
            group.is_some_and(|g| g.is_refused(GroupRow::Block(at.1.0 / BLOCK_SIZE)))
        };
        match then {
            Then::Kill((at, ..)) => !refused(at) || group(&at.0).is_some_and(Group::is_stopped),
            Then::Release(number, ..) => group(number).is_none(),
            Then::Call(echelon_core_hosts::Call::Acknowledge { task, .. }) => {
                let run = task.parse::<MemberId>().ok();
                let run = run.and_then(|m| self.picture.run_at(&m.run));
                run.is_none_or(|(at, ..)| !refused(&at))
            }
            Then::KeepLog(ended) => {
                let run = self.picture.run_at(&ended.run);
                run.is_none_or(|(at, ..)| !refused(&at))
            }
            _ => true,
        }
    }

    /// Whether nothing of a group may be begun, replaced or moved, because storage refuses a row of it.
    pub(crate) fn is_group_refused(&self, number: u32) -> bool {
        self.picture
            .groups
            .get(&number)
            .is_some_and(|g| g.refused.is_some())
    }
}
