//! Rows that are in storage and cannot be understood. A group of which one is a block or a slice row, or whose goal is one, is set
//! aside: nothing of it is started, stopped, replaced or moved, all that is assigned of it counts as active, and its rows are
//! kept as they are. A later leader that understands them serves it.

use crate::Shard;
use crate::event::{Alarm, Effect};
use crate::group::{Group, ranges_at};
use crate::purpose::Purpose;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::instance::Counts;
use echelon_core_model::store::{
    OpFailure, OpId, OpResult, RowSubject, TroubleKind, UnreadRow, Write, rows_told,
};
use echelon_core_model::{Generation, RangeSet, Reason, ReasonCode, RunState, Timestamp, Version};

/// Rows that are remembered as told. Of more than these some are told again with each read.
const TOLD_ROWS: usize = 4096;

/// Why a group is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetAside {
    /// The row that cannot be understood.
    row: String,
    since: Timestamp,
}

impl Shard {
    /// Tells of rows that cannot be understood. A read that cannot do without them has failed, and is made again.
    pub(crate) fn tell_unread(&mut self, id: OpId, result: OpResult) -> OpResult {
        let purpose = self.ops.purpose(id).cloned();
        let (rows, enough) = match &result {
            // What is missing in these is set aside, or proves nothing by its absence.
            OpResult::Partial(_, rows) => (
                rows.as_slice(),
                matches!(
                    purpose,
                    Some(
                        Purpose::Bucket(_) | Purpose::Partition(_) | Purpose::HostRows | Purpose::Standing(_)
                    )
                ),
            ),
            OpResult::Unread(row) => (
                std::slice::from_ref(&**row),
                matches!(purpose, Some(Purpose::Goal(_) | Purpose::Spec(..))),
            ),
            _ => return result,
        };
        let why = rows_told(rows);
        for row in rows {
            let told = &mut self.recovery.told_rows;
            if told.len() < TOLD_ROWS && told.insert((row.table, row.key.clone())) {
                self.out.push(Effect::Alarm(Alarm::Unread(row.to_string())));
            }
        }
        if enough {
            return result;
        }
        OpResult::Failed(OpFailure::not_done(TroubleKind::Schema, why))
    }

    /// Takes in what of a bucket cannot be understood: it is written back as it is before the bucket is sealed.
    pub(crate) fn keep_unread(&mut self, rows: Vec<UnreadRow>) -> Vec<Write> {
        let mut out = Vec::new();
        for row in rows {
            let why = row.to_string();
            let RowSubject::Block(key) = row.subject else {
                continue;
            };
            let number = self.picture.number_or_new(key.job, &key.group);
            self.set_group_aside(number, why);
            self.enlist(number);
            out.push(Write::Raw(key, row.bytes));
        }
        out
    }

    /// Sets a group aside, until another leader reads it.
    pub(crate) fn set_group_aside(&mut self, number: u32, row: String) {
        let now = self.now;
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        group.served = false;
        group.set_aside.get_or_insert(SetAside { row, since: now });
        let key = (group.job(), group.name().clone());
        self.recovery.held.drop_updates(&key);
        self.picture.unreported.insert(number);
    }

    /// A group that is set aside has all its buckets sealed: how much of it there is at most is told from here on.
    pub(crate) fn on_set_aside_sealed(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        if group.row.ranges.is_empty()
            && let Some(of) = self.recovery.assigned.get(&group.job())
        {
            let name = group.name().clone();
            group.row.ranges = ranges_at(of.assignment.ranges(&name), &self.config.cluster);
        }
        self.picture.unreported.insert(number);
    }
}

impl Group {
    /// All that is assigned as if it were active and alive: its room stays taken, and no stop is confirmed.
    pub(crate) fn report_set_aside(&self, aside: &SetAside) -> Vec<SliceReport> {
        let held = self.held();
        held.into_iter()
            .map(|(generation, held)| self.slice_set_aside(generation, held, aside))
            .collect()
    }

    fn slice_set_aside(&self, generation: Generation, held: RangeSet, aside: &SetAside) -> SliceReport {
        let n = held.count();
        let mut counts = Counts::default();
        counts.add(RunState::Unreachable, n);
        let reason = Reason::new(ReasonCode::RowUnread).at(&aside.row);
        SliceReport {
            job: self.job(),
            group: self.name().clone(),
            generation,
            head_version: Version::default(),
            grant_number: self.row.grants.get(&generation).map_or(0, |g| g.number),
            released: self.row.released.get(&generation).cloned().unwrap_or_default(),
            held,
            active: n,
            unstarted: 0,
            counts,
            succeeded: 0,
            failed: 0,
            stopped: 0,
            live: n,
            waiting: vec![(reason, n, aside.since)],
            outdated: 0,
            max_unavailable: self.max_unavailable,
            part_number: self.part_number,
            preempted: self.row.preempted.get(&generation).copied().unwrap_or_default(),
            preempting: 0,
            first_begun: None,
            last_begun: None,
            last_ended: None,
            added: self.row.added.get(&generation).copied().unwrap_or_default(),
            revision: 0,
            updated: 0,
            update_failures: 0,
            hosts: None,
            restarting: 0,
            crash_looping: 0,
            first_behind: None,
        }
    }
}
