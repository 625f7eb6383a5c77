//! What is read from decided tables: at recovery, and again and again while no resource manager is heard, so that running
//! services are restarted by what is wanted now, without anybody else (design section 2).

use crate::group::{Wish, ranges_at};
use crate::purpose::Purpose;
use crate::specs::UnreadSpec;
use crate::{Phase, Shard};
use echelon_core_model::bucket::{ASSIGNMENT_PARTITIONS, assignment_partition, job_bucket};
use echelon_core_model::job::Head;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Changes, Consistency, Op, Query, Stamp};
use echelon_core_model::time::Span;
use echelon_core_model::{Assignment, Epoch, JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was read again, so that only what has changed since is read.
#[derive(Debug, Default)]
pub(crate) struct Reread {
    /// Our jobs of the partitions that are asked about in this round.
    jobs: BTreeMap<u16, BTreeSet<JobId>>,
    /// The stamps of the partitions whose assignments were read and taken in.
    partitions: BTreeMap<u16, Stamp>,
    /// The tags of the buckets whose heads were read.
    heads: BTreeMap<u16, i64>,
}

impl Reread {
    /// The head of a job is to be read again, although it has not changed.
    pub(crate) fn forget_head(&mut self, job: JobId) {
        self.heads.remove(&job_bucket(job));
    }
}

impl Shard {
    /// Since when no resource manager is heard; `None` while one was heard a moment ago.
    #[must_use]
    pub fn no_manager_since(&self) -> Option<Timestamp> {
        let patience = Span(self.config.timing.reread.0 / 3);
        // Before this leadership nothing could be heard.
        let heard = self.orders.heard_at.filter(|at| *at > self.listens_since);
        let heard = heard.unwrap_or(self.listens_since);
        let listens = self.phase == Phase::Serving && !self.is_recovering();
        (listens && self.now >= heard.plus(patience)).then_some(heard)
    }

    /// For how long no resource manager is heard; zero while one is.
    #[must_use]
    pub fn no_manager_for(&self) -> Span {
        let since = self.no_manager_since();
        since.map_or(Span::ZERO, |at| self.now.since(at))
    }

    /// Reads the goals and assignments that have changed while no resource manager is heard.
    pub(crate) fn keep_reading(&mut self) {
        if self.phase != Phase::Serving || self.is_recovering() || self.reread_at > self.now {
            return;
        }
        let every = self.config.timing.reread;
        // Three times as often as what is read may be old: one read may fail without stopping anything.
        self.reread_at = self.now.plus(Span(every.0 / 3));
        if self.links.any_proven() && self.no_manager_since().is_none() {
            return;
        }
        if self.ops.len() > 2 * usize::from(ASSIGNMENT_PARTITIONS) {
            return;
        }
        self.reread.jobs.clear();
        for job in self.picture.jobs() {
            let of = self.reread.jobs.entry(assignment_partition(job)).or_default();
            of.insert(job);
        }
        for partition in 0..ASSIGNMENT_PARTITIONS {
            let query = Query::Changes(partition);
            self.ask(Op::Read(query, Consistency::Quorum), Purpose::Changes(partition));
        }
    }

    /// It is known how far a partition is: what was written there since it was last read is read now. Before
    /// a run begins its job is read in any case.
    pub(crate) fn on_changes(&mut self, partition: u16, changes: &Changes) {
        if self.reread.partitions.get(&partition) != Some(&changes.assignments) {
            let query = Query::Assignments(partition);
            self.ask(
                Op::Read(query, Consistency::Quorum),
                Purpose::Partition(partition),
            );
        }
        let jobs = self.reread.jobs.get(&partition).into_iter().flatten();
        let ours: BTreeSet<u16> = jobs.map(|job| job_bucket(*job)).collect();
        for (bucket, tag) in &changes.heads {
            if ours.contains(bucket) && self.reread.heads.get(bucket) != Some(tag) {
                let query = Query::Heads(*bucket);
                self.ask(
                    Op::Read(query, Consistency::Quorum),
                    Purpose::Heads(*bucket, *tag),
                );
            }
        }
    }

    /// A bucket of heads was read, by a read that began at `since` and after its tag was.
    pub(crate) fn on_heads(&mut self, bucket: (u16, i64), heads: Vec<Head>, since: Timestamp) {
        for head in heads {
            self.on_head(head.job, Some(head), since);
        }
        self.reread.heads.extend([bucket]);
    }

    /// A partition of assignments was read, by a read that began at `since`.
    pub(crate) fn on_partition(&mut self, partition: u16, at: Stamp, all: &[Assignment], since: Timestamp) {
        let mut is_taken_in = true;
        if at.epoch >= self.own.obeyed {
            for assignment in all {
                is_taken_in &= self.on_assignment(assignment, since);
            }
            self.on_absent(partition, all, since);
        }
        if is_taken_in {
            self.reread.partitions.insert(partition, at);
        }
    }

    /// Takes in where a job's instances are assigned. Whether that is all: the rest is found at the next
    /// look.
    pub(crate) fn on_assignment(&mut self, assignment: &Assignment, since: Timestamp) -> bool {
        let mut may_adopt = None;
        let mut is_all = true;
        for (group, ranges) in &assignment.groups {
            let ours = ranges_at(ranges, &self.config.cluster);
            let known = self.picture.number_of(assignment.job, group).is_some();
            let done = ours.is_empty() || self.archived.contains(&assignment.job);
            if !known && done {
                continue;
            }
            let may_follow = known
                || !self.is_recovering() && *may_adopt.get_or_insert_with(|| self.may_adopt(assignment.job));
            if !may_follow {
                is_all = false;
                continue;
            }
            let number = self.picture.number_or_new(assignment.job, group);
            if self.picture.groups.get(&number).is_some_and(|g| g.served)
                && !self.reach_unsealed(number, &ours)
            {
                self.assign(number, ours, since);
            } else if self.is_recovering() {
                is_all = false;
            }
        }
        is_all
    }

    fn assign(&mut self, number: u32, ours: Vec<echelon_core_model::AssignedRange>, since: Timestamp) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        // A directive that came after the read began knows better, and so does a later read.
        if group.heard_at > since || group.assigned_at > since {
            return;
        }
        group.assigned_at = since;
        match group.wish.clone() {
            Some(wish) => {
                self.want(number, wish, Some(ours), Timestamp(0));
            }
            None if group.row.ranges != ours => {
                self.set_ranges(number, ours);
                self.picture.look_at_all(number);
            }
            None => {}
        }
    }

    /// Groups whose assignment is not in its partition hold nothing that they could begin; what runs is not touched.
    fn on_absent(&mut self, partition: u16, all: &[Assignment], since: Timestamp) {
        // Its tombstone is older than its assignment's end: nobody adopts it again.
        let listed: BTreeSet<JobId> = all.iter().map(|a| a.job).collect();
        self.archived
            .retain(|j| assignment_partition(*j) != partition || listed.contains(j));
        let jobs = self.reread.jobs.get(&partition).cloned().unwrap_or_default();
        for job in jobs.difference(&listed).copied() {
            for number in self.picture.groups_of(job) {
                if let Some(group) = self
                    .picture
                    .groups
                    .get_mut(&number)
                    .filter(|g| g.heard_at <= since)
                {
                    group.assigned_at = Timestamp(0);
                }
            }
        }
    }

    /// Reads goal and assignment of one job again, because a run of it is about to begin and what is known is too old.
    pub(crate) fn refresh(&mut self, job: JobId) {
        if self.refreshing.insert(job) {
            let query = Query::Assignment(job);
            self.ask(Op::Read(query, Consistency::Quorum), Purpose::Refresh(job));
        }
    }

    /// A job's assignment was read again: its goal is next.
    pub(crate) fn on_refresh(&mut self, job: JobId, epoch: Epoch, all: &[Assignment], since: Timestamp) {
        self.refreshing.remove(&job);
        if epoch >= self.own.obeyed {
            all.iter().filter(|a| a.job == job).for_each(|a| {
                self.on_assignment(a, since);
            });
        }
        self.ask(
            Op::Read(Query::Head(job), Consistency::Quorum),
            Purpose::Head(job),
        );
    }

    /// A job's head was read, by a read that began at `since`. An absent head proves nothing (law 1).
    pub(crate) fn on_head(&mut self, job: JobId, head: Option<Head>, since: Timestamp) {
        let head = head.filter(|h| h.job == job);
        self.take_head_aside(job, head.as_ref());
        for number in self.picture.groups_of(job) {
            if self.picture.groups.get(&number).is_some_and(|g| g.served) {
                self.take_head(number, head.as_ref(), since);
            }
        }
    }

    /// Takes in what a job's head wants of a group; whether that is new.
    pub(crate) fn take_head(&mut self, number: u32, head: Option<&Head>, since: Timestamp) -> bool {
        let Some(head) = head.filter(|h| !h.void) else {
            return false;
        };
        let Some(group) = self.picture.groups.get(&number) else {
            return false;
        };
        let wish = Wish::of(head, group.name());
        let assigned = group.assigned_at;
        // Both must be fresh before a run is begun by them.
        let new = self.want(number, wish, None, since.min(assigned));
        self.placing.hungrier(self.now, self.config.timing.commit_delay);
        new
    }

    /// Gives a group the spec of its wish, or asks for it.
    pub(crate) fn want_spec(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        let Some(version) = group.wish.as_ref().map(|w| w.spec_version) else {
            return;
        };
        let job = group.job();
        if group.spec.is_none() {
            group.spec = self.picture.specs.get(&(job, version)).cloned();
            if let Some(spec) = &group.spec {
                self.gangs.note(job, spec);
                self.loners.note(job, spec);
                self.daemons.note(number, spec);
            }
        }
        if self.picture.groups.get(&number).is_some_and(|g| g.spec.is_none()) {
            self.read_spec(job, version);
        }
    }

    /// Asks for a spec version, unless that is under way.
    pub(crate) fn read_spec(&mut self, job: JobId, version: u32) {
        let unread = self
            .unread_specs
            .entry((job, version))
            .or_insert(UnreadSpec::new(self.now));
        if !std::mem::replace(&mut unread.is_asked, true) {
            let query = Query::Spec(job, version);
            self.ask(Op::Read(query, Consistency::Quorum), Purpose::Spec(job, version));
        }
    }

    /// A spec version was read. When it is not there, it is asked for again with the next wish, and its group waits.
    pub(crate) fn on_spec(&mut self, job: JobId, version: u32, spec: Option<JobSpec>) {
        let Some(spec) = spec else {
            if let Some(unread) = self.unread_specs.get_mut(&(job, version)) {
                unread.is_asked = false;
            }
            self.reread.forget_head(job);
            self.go_on_without_spec(job, version);
            self.finish_recovery();
            return;
        };
        self.unread_specs.remove(&(job, version));
        let spec = Arc::new(spec);
        self.picture.specs.insert((job, version), Arc::clone(&spec));
        self.note_spec_aside(job, version, &spec);
        for number in self.picture.groups_of(job) {
            let Some(group) = self.picture.groups.get_mut(&number).filter(|g| g.served) else {
                continue;
            };
            if group.wish.as_ref().is_some_and(|w| w.spec_version == version) {
                group.spec = Some(Arc::clone(&spec));
                self.gangs.note(job, &spec);
                self.loners.note(job, &spec);
                self.daemons.note(number, &spec);
                // The kind of the job is known now, and with it what a drain of a host means for its runs, and so is the version wanted.
                group.recount();
                group.refresh_all_restarts(&self.draining, self.now);
                self.picture.look_at_all(number);
                self.placing.hungrier(self.now, self.config.timing.commit_delay);
                self.end_by_spec(number);
                self.inquire_lost(number);
            } else {
                // Runs of that version are counted from here on: one on a host that is to be empty was not found by that before.
                self.picture.look_at_all(number);
            }
            let runs = self.picture.groups.get(&number).and_then(|g| g.group_spec());
            let runs = runs.map_or(version, |g| g.runs_of(version));
            self.account_group(number, version);
            if runs != version {
                self.account_group(number, runs);
            }
            self.picture.restless.insert(number);
        }
        self.picture.prune_specs(job);
        self.placing.hungrier(self.now, self.config.timing.commit_delay);
        self.finish_recovery();
    }

    /// Whether the spec of a group's wish is being read: what depends on it is looked at when it is there.
    pub(crate) fn awaits_spec(&self, number: u32) -> bool {
        let group = self.picture.groups.get(&number).filter(|g| g.spec.is_none());
        let wanted = group.and_then(|g| Some((g.job(), g.wish.as_ref()?.spec_version)));
        wanted.is_some_and(|spec| self.unread_specs.get(&spec).is_some_and(|s| s.is_asked))
    }

    /// What waited for a spec that is not there is looked at, as far as nothing depends on it.
    fn go_on_without_spec(&mut self, job: JobId, version: u32) {
        for number in self.picture.groups_of(job) {
            let group = self.picture.groups.get_mut(&number);
            let waits = |g: &&mut crate::group::Group| {
                let wanted = g.wish.as_ref().map(|w| w.spec_version);
                g.served && g.spec.is_none() && wanted == Some(version)
            };
            if let Some(group) = group.filter(waits) {
                group.refresh_all_restarts(&self.draining, self.now);
                self.picture.look_at_all(number);
            }
        }
    }
}
