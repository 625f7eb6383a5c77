//! Stopping a group that is set aside, since a row of it cannot be understood. Its stored head asks for the stop, which is evidence
//! enough; what runs of it is known by the task ids that Mesos lists, since these name job, group, number and run. So every task of
//! the group is killed, and the group has ended when a list holds none and no host is out of reach, where one could live unlisted:
//! such a host comes back, or is forgotten. Nothing of this is stored: a new leader begins it anew by the same head.

use crate::Shard;
use crate::effects::Then;
use crate::group::Wish;
use crate::journal::Lane;
use crate::update::{is_alive, is_dead};
use echelon_core_hosts::TaskStatus;
use echelon_core_model::instance::{Block, Ended, SliceRow};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{RawKey, Write};
use echelon_core_model::time::Span;
use echelon_core_model::{JobId, MemberId, ReasonCode, RunState, TaskId, Timestamp};
use std::sync::Arc;

/// How far the stop of a group that is set aside is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AsideStop {
    /// The last list that was asked for before: only later ones count.
    after_list: u64,
    /// Nothing of it lives.
    pub(crate) ended: bool,
}

impl Shard {
    /// An order wants the end of a group that is set aside: its stored head is asked.
    pub(crate) fn confirm_aside_stop(&mut self, number: u32, desired: Desired) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let begun = group.set_aside.as_ref().is_some_and(|aside| aside.stop.is_some());
        let job = group.job();
        if desired != Desired::Running && !begun && !self.is_recovering() {
            self.confirm_stop(job);
        }
    }

    /// The stored head of a job: its groups that are set aside are stopped if it says so. An absent head proves nothing.
    pub(crate) fn take_head_aside(&mut self, job: JobId, head: Option<&Head>) {
        let Some(head) = head.filter(|h| !h.void && !self.is_recovering()) else {
            return;
        };
        for number in self.picture.groups_of(job) {
            let lists = self.reconcile.lists();
            let Some(group) = self.picture.groups.get_mut(&number) else {
                continue;
            };
            let name = group.name().clone();
            let Some(aside) = group.set_aside.as_mut() else {
                continue;
            };
            let stops = head.goal.desired != Desired::Running;
            if stops == aside.stop.is_some() {
                continue;
            }
            aside.stop = stops.then_some(AsideStop {
                after_list: lists,
                ended: false,
            });
            group.wish = Some(Wish::of(head, &name));
            self.picture.unreported.insert(number);
            if stops {
                self.aside_stops.insert(number);
                self.read_spec(job, head.spec_version);
                self.list_soon();
            } else {
                self.aside_stops.remove(&number);
                self.strangers.spare(job, &name);
            }
        }
    }

    /// The spec of such a group says how much time its tasks have to end.
    pub(crate) fn note_spec_aside(&mut self, job: JobId, version: u32, spec: &Arc<JobSpec>) {
        for number in self.picture.groups_of(job) {
            let group = self.picture.groups.get_mut(&number);
            let group = group.filter(|g| g.set_aside.as_ref().is_some_and(|a| a.stop.is_some()));
            if let Some(group) = group
                && group.wish.as_ref().is_some_and(|w| w.spec_version == version)
            {
                group.spec = Some(Arc::clone(spec));
            }
        }
    }

    /// From SIGTERM to SIGKILL for a task without a record, if it is known.
    pub(crate) fn grace_aside(&self, task: &TaskId) -> Option<Span> {
        let group = self.picture.group(task.instance.job, &task.instance.group)?;
        group.set_aside.as_ref()?;
        Some(group.group_spec()?.grace)
    }

    /// Mesos tells of a task of a group that is set aside and is to stop. That stays unacknowledged, since nothing of it can be stored:
    /// it is told again, and acknowledged when the group is archived, or by a leader that reads its rows.
    pub(crate) fn on_task_aside(&mut self, member: &MemberId, status: &TaskStatus) {
        if is_dead(status) {
            let instance = &member.run.instance;
            let lives = |shard: &Self| {
                let mut hosts = shard.strangers.hosts_of(instance.job, &instance.group);
                hosts.next().is_some()
            };
            // What has ended is listed again and again, and is no reason to ask for another list.
            let before = lives(self);
            self.strangers.remove(member);
            if before && !lives(self) {
                self.list_soon();
            }
        } else if is_alive(status) && self.strangers.condemn(member, status.host.as_ref()) {
            self.journal
                .when_durable([], Then::KillStranger(member.run.clone()));
        }
    }

    /// Mesos has listed all tasks: groups that are to stop and of which none is there have ended.
    pub(crate) fn end_aside_stops(&mut self) {
        if self.aside_stops.is_empty() || self.hosts.any_unreachable() {
            return;
        }
        let list = self.reconcile.lists();
        for number in self.aside_stops.clone() {
            let Some(group) = self.picture.groups.get_mut(&number) else {
                self.aside_stops.remove(&number);
                continue;
            };
            let (job, name) = (group.job(), group.name().clone());
            let stop = group.set_aside.as_mut().and_then(|aside| aside.stop.as_mut());
            let Some(stop) = stop.filter(|stop| list > stop.after_list) else {
                continue;
            };
            // What was on a host that is forgotten is not waited for.
            let mut lives = self.strangers.hosts_of(job, &name);
            if !lives.any(|host| host.is_none_or(|host| self.hosts.knows(host))) {
                stop.ended = true;
                self.aside_stops.remove(&number);
                self.picture.unreported.insert(number);
            }
        }
    }

    /// Moves a group that is set aside and has ended to the archive: what can be read of it as ended, the rest as its bytes.
    pub(crate) fn archive_aside(&mut self, number: u32) {
        let now = self.now;
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        let ended = group
            .set_aside
            .as_ref()
            .filter(|aside| aside.stop.is_some_and(|stop| stop.ended));
        let Some(aside) = ended else { return };
        if self.archiving.contains(&number) {
            return;
        }
        let raw = aside.raw.iter().filter(|(key, _)| key.number != SliceRow::BLOCK);
        let raw = raw.map(|(key, bytes)| {
            let write = Write::Raw(RawKey::Archive(key.clone()), bytes.clone());
            (Lane(key.bucket()), write)
        });
        let read = group.blocks.values();
        let read = read.map(|c| (c.lane, Write::Archive(ended_block(&c.block, now))));
        let copies: Vec<(Lane, Write)> = raw.chain(read).collect();
        group.archive = true;
        let job = group.job();
        let deleted = group
            .wish
            .as_ref()
            .is_some_and(|w| w.goal.desired == Desired::Deleted);
        if deleted {
            self.forget_logs(job);
        }
        self.archiving.insert(number);
        let points = self.write_all(copies);
        self.journal.when_durable(points, Then::Archived(number));
    }
}

/// A block with all of its runs ended: Mesos lists none of them.
fn ended_block(block: &Block, now: Timestamp) -> Block {
    let mut block = block.clone();
    for record in block.instances.values_mut() {
        record.ended.get_or_insert(Ended::Stopped);
        for run in record.run.iter_mut().filter(|run| run.may_have_task()) {
            run.state = RunState::Killed;
            run.since = now;
            run.ended_at = Some(now);
            run.reason = ReasonCode::StopRequested.into();
        }
        record.older.clear();
    }
    block
}
