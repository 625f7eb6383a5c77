//! Rows that are in storage and cannot be understood. A group of which one is a block or a slice row, or whose goal is one, is set
//! aside: nothing of it is started, replaced or moved, all that is assigned of it counts as active, and its rows are kept as they
//! are. A later leader that understands them serves it. It is stopped and deleted as its stored head asks (`aside_stop.rs`).

use crate::Shard;
use crate::aside_stop::AsideStop;
use crate::event::{Alarm, Effect};
use crate::group::{Group, ranges_at};
use crate::purpose::Purpose;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::instance::{BlockKey, Counts};
use echelon_core_model::store::{
    OpFailure, OpId, OpResult, RawKey, RowSubject, TroubleKind, UnreadRow, Write, rows_told,
};
use echelon_core_model::{Generation, GroupName, JobId, RangeSet, Reason, ReasonCode, RunState, Timestamp};
use std::collections::BTreeMap;

/// Rows that are remembered as told. Of more than these some are told again with each read.
const TOLD_ROWS: usize = 4096;

/// Why a group is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetAside {
    /// The row that cannot be understood.
    row: String,
    since: Timestamp,
    /// Its rows that cannot be understood, as they are.
    pub(crate) raw: BTreeMap<BlockKey, Vec<u8>>,
    /// How far its stop is, if its stored head asks for one.
    pub(crate) stop: Option<AsideStop>,
}

impl SetAside {
    /// The row, for people.
    pub(crate) fn row(&self) -> &str {
        &self.row
    }
}

impl Shard {
    /// Groups that are set aside, since a row of them cannot be understood.
    pub fn groups_unread(&self) -> impl Iterator<Item = (JobId, &GroupName)> {
        let groups = self.picture.groups.values().filter(|g| g.set_aside.is_some());
        groups.map(|g| (g.job(), g.name()))
    }

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
                        Purpose::Own
                            | Purpose::Bucket(_)
                            | Purpose::Partition(_)
                            | Purpose::Heads(..)
                            | Purpose::HostRows
                            | Purpose::Standing(_)
                    )
                ),
            ),
            OpResult::Unread(row) => (
                std::slice::from_ref(&**row),
                matches!(
                    purpose,
                    Some(Purpose::Goal(_) | Purpose::Spec(..) | Purpose::EventEnds(_))
                ),
            ),
            _ => return result,
        };
        let why = rows_told(rows);
        for row in rows {
            let told = &mut self.recovery.told_rows;
            if told.len() >= TOLD_ROWS || !told.insert((row.table, row.key.clone())) {
                continue;
            }
            match &row.subject {
                RowSubject::Shard(key) => self.tell_own_unread(key, row.to_string()),
                _ => self.out.push(Effect::Alarm(Alarm::Unread(row.to_string()))),
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
            let group = self.picture.groups.get_mut(&number);
            if let Some(aside) = group.and_then(|g| g.set_aside.as_mut()) {
                aside.raw.insert(key.clone(), row.bytes.clone());
            }
            self.enlist(number);
            out.push(Write::Raw(RawKey::Block(key), row.bytes));
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
        self.reread.forget_head(group.job());
        group.set_aside.get_or_insert(SetAside {
            row,
            since: now,
            raw: BTreeMap::new(),
            stop: None,
        });
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
    /// Of a group whose head cannot be read: the newest version that a run of it is of, by which it is counted in its pool.
    fn revision_aside(&self, aside: &SetAside) -> u32 {
        if self.wish.is_some() || !aside.raw.is_empty() {
            return 0;
        }
        let runs = self.records().filter_map(|(_, record)| record.run.as_ref());
        runs.map(|run| run.spec_version).max().unwrap_or_default()
    }

    /// All that is assigned as if it were active and alive: its room stays taken, and no stop is confirmed.
    pub(crate) fn report_set_aside(&self, aside: &SetAside) -> Vec<SliceReport> {
        let held = self.held();
        held.into_iter()
            .map(|(generation, held)| self.slice_set_aside(generation, held, aside))
            .collect()
    }

    fn slice_set_aside(&self, generation: Generation, held: RangeSet, aside: &SetAside) -> SliceReport {
        let n = held.count();
        let ended = aside.stop.is_some_and(|stop| stop.ended);
        let live = if ended { 0 } else { n };
        let mut counts = Counts::default();
        let state = if ended {
            RunState::Killed
        } else {
            RunState::Unreachable
        };
        counts.add(state, n);
        let told = match aside.stop {
            Some(_) => format!(
                "{}; it is being stopped: it has ended when Mesos lists no task of it and reaches all hosts",
                aside.row
            ),
            None => aside.row.clone(),
        };
        let reason = Reason::new(ReasonCode::RowUnread).at(told);
        let waiting = vec![(reason, n, aside.since)];
        let head_version = self.wish.as_ref().filter(|_| ended).map(|w| w.head_version);
        SliceReport {
            job: self.job(),
            group: self.name().clone(),
            generation,
            head_version: head_version.unwrap_or_default(),
            grant_number: self.row.grants.get(&generation).map_or(0, |g| g.number),
            released: self.row.released.get(&generation).cloned().unwrap_or_default(),
            held,
            active: live,
            unstarted: 0,
            between_runs: 0,
            returnable: Default::default(),
            counts,
            succeeded: 0,
            failed: 0,
            stopped: n - live,
            live,
            waiting: if ended { Vec::new() } else { waiting },
            outdated: 0,
            max_unavailable: self.max_unavailable,
            part_number: self.part_number,
            own: self.own(generation),
            preempting: 0,
            granted: 0,
            first_begun: None,
            last_begun: None,
            last_ended: None,
            revision: self.revision_aside(aside),
            updated: 0,
            update_failures: 0,
            hosts: None,
            restarting: 0,
            crash_looping: 0,
            unavailable: live,
            first_behind: None,
        }
    }
}
