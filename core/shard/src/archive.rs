//! The end of a slice: when its job has ended and nothing of it may be alive, its blocks are written to the archive, and only
//! when that is durable removed here (design section 4).

use crate::Shard;
use crate::effects::Then;
use crate::journal::{Lane, Point};
use echelon_core_model::JobId;
use echelon_core_model::instance::SliceRow;
use echelon_core_model::job::Desired;
use echelon_core_model::store::Write;
use std::collections::BTreeSet;

/// Ended jobs that are kept in mind; those made first are forgotten first.
const REMEMBERED: usize = 10_000;

impl Shard {
    /// Has a group moved to the archive once nothing of it is loose.
    pub(crate) fn archive_group(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        if group.set_aside.is_some() {
            self.archive_aside(number);
        } else {
            group.archive = true;
            self.picture.restless.insert(number);
        }
    }

    /// Moves a group to the archive as soon as that is asked for and nothing of it is loose.
    pub(crate) fn tend_archive(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        if !group.archive || self.archiving.contains(&number) || group.has_loose_ends() {
            return;
        }
        if !self.reclaim_unseen(number) {
            return;
        }
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        if group
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired == Desired::Deleted)
        {
            let job = group.job();
            self.forget_logs(job);
        }
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        self.archiving.insert(number);
        // Nothing is told by a block that holds nothing, and what is in the archive under its number would be lost.
        let told = group.blocks.values().filter(|c| !c.block.instances.is_empty());
        let copies = told.map(|c| (c.lane, Write::Archive(c.block.clone())));
        let copies: Vec<_> = copies.collect();
        let points = self.write_all(copies);
        self.journal.when_durable(points, Then::Archived(number));
    }

    /// The archive has it: the rows here are removed, unless the group is wanted again.
    pub(crate) fn remove_archived(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        if !group.archive {
            self.archiving.remove(&number);
            return;
        }
        let blocks = group
            .blocks
            .values()
            .map(|c| (c.lane, Write::RemoveBlock(c.block.key.clone())));
        let raw = group.set_aside.iter().flat_map(|aside| aside.raw.keys());
        let raw = raw.filter(|key| key.number != SliceRow::BLOCK);
        let raw = raw.map(|key| (Lane(key.bucket()), Write::RemoveBlock(key.clone())));
        let row = (
            group.row_lane,
            Write::RemoveSlice(group.job(), group.name().clone()),
        );
        let removals: Vec<_> = blocks.chain(raw).chain([row]).collect();
        let points = self.write_all(removals);
        self.journal.when_durable(points, Then::Forget(number));
    }

    pub(crate) fn write_all(&mut self, writes: Vec<(Lane, Write)>) -> BTreeSet<Point> {
        let mut points = BTreeSet::new();
        for (lane, write) in writes {
            let delay = self.config.timing.commit_delay;
            self.journal.touch(lane, self.now, delay).ready.push(write);
            points.insert(self.journal.point(lane));
        }
        points
    }

    /// Keeps in mind that a job has ended, so that its assignment is not taken for new work. Who is forgotten for want of room is
    /// known again after a look at the job's progress.
    pub(crate) fn note_ended(&mut self, job: JobId) {
        self.archived.insert(job);
        if self.archived.len() > REMEMBERED {
            self.archived.pop_first();
        }
    }

    /// The resource manager is told when nothing of an ended job is left here.
    pub(crate) fn tell_archived(&mut self, job: JobId) {
        if self.picture.groups_of(job).is_empty() {
            self.telling.archived.insert(job);
        }
    }

    /// A group that is wanted again, or gone, is not on its way to the archive any more.
    pub(crate) fn forget_group(&mut self, number: u32) {
        let group = self.picture.groups.get(&number).filter(|g| g.archive);
        if let Some(job) = group.map(crate::group::Group::job) {
            self.picture.forget(number);
            self.forget_starts(number);
            self.inquiries.remove(&number);
            self.tell_archived(job);
        }
        self.archiving.remove(&number);
    }

    /// Writes the rows of hosts that have changed.
    pub(crate) fn write_hosts(&mut self) {
        if self.phase != crate::Phase::Serving || self.is_recovering() || self.host_rows_at > self.now {
            return;
        }
        self.host_rows_at = self.now.plus(self.config.timing.host_rows);
        self.note_left();
        let changes = self.hosts.changes();
        if changes.rows.is_empty() && changes.removed.is_empty() {
            return;
        }
        let rows = changes.rows.into_iter().map(Write::Host);
        let removed = changes.removed.into_iter().map(Write::RemoveHost);
        let writes: Vec<Write> = rows.chain(removed).collect();
        let delay = self.config.timing.commit_delay;
        self.journal
            .touch(Lane::HOSTS, self.now, delay)
            .ready
            .extend(writes);
    }
}
