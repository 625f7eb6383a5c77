//! The end of a slice: when its job has ended and nothing of it may be alive, its blocks are written to the archive, and only
//! when that is durable removed here (design section 4).

use crate::Shard;
use crate::effects::Then;
use crate::journal::{Lane, Point};
use echelon_core_model::instance::SliceRow;
use echelon_core_model::job::Desired;
use echelon_core_model::store::Write;
use std::collections::BTreeSet;

impl Shard {
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

    /// A group that is wanted again, or gone, is not on its way to the archive any more.
    pub(crate) fn forget_group(&mut self, number: u32) {
        if self.picture.groups.get(&number).is_some_and(|g| g.archive) {
            self.picture.forget(number);
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
