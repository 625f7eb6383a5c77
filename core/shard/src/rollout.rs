//! Rollouts as a shard sees them: which version the runs of a group are to be of, which numbers may be updated now, whose turn has
//! come, and what has failed. How many may be down at once is told in `restart.rs`, for all reasons together.

use crate::Shard;
use crate::group::Group;
use crate::picture::{At, Picture};
use echelon_core_jobs::rollout::{fails_at, settles_at};
use echelon_core_jobs::{Course, NextVersion};
use echelon_core_model::spec::{GroupSpec, JobKind};
use echelon_core_model::{InstanceNumber, RunState, Timestamp};

/// Instances that begin, with the version that each is made from.
pub(crate) type Versions = Vec<(InstanceNumber, NextVersion)>;

impl Group {
    /// The version that runs are to be of; 0: any that was in force is as good, or none is known yet.
    pub(crate) fn revision(&self) -> u32 {
        let forever = self.spec.as_ref().filter(|s| s.kind.runs_for_ever());
        let spec = forever.and_then(|s| s.group(self.name()));
        spec.map_or(0, |s| s.revision)
    }

    /// Where the group is to go. `base` is the group's version in the spec that the rollout began from.
    fn course(&self, base: u32) -> Option<Course> {
        let (wish, spec) = (self.wish.as_ref()?, self.group_spec()?);
        let job = self.spec.as_ref()?;
        let open = wish.rollout.is_none_or(|r| r.back.is_some() || r.promoted);
        let canaries = job.update.canaries.of(spec.instances);
        // In the order of their numbers over all clusters, which only the resource manager sees.
        let ordered = job.kind == JobKind::Stateful && wish.rollout.is_some();
        let below = match wish.rollout {
            Some(r) if r.held.is_some() => 0,
            _ if !ordered && (open || canaries == 0) => u32::MAX,
            _ => self.update_below,
        };
        Some(Course {
            target: spec.runs_of(wish.spec_version),
            rolls: self.revision() != 0 && wish.rollout.is_some(),
            base,
            below,
        })
    }

    /// Whether a live run is to be replaced by one of the version that is wanted.
    pub(crate) fn is_out_of_version(&self, n: InstanceNumber) -> bool {
        let run = self.record(n).and_then(|r| r.run.as_ref());
        self.course(0)
            .zip(run)
            .is_some_and(|(course, run)| course.outdates(n, run))
    }

    /// Whether the latest run of an instance is of another version than the one that all are brought to, and could be replaced. One on a
    /// silent host, or that waits, holds up nobody: its next run is of that version.
    pub(crate) fn is_behind(&self, n: InstanceNumber) -> bool {
        let run = self.record(n).and_then(|r| r.run.as_ref());
        let run = run.filter(|r| r.may_have_task() && r.state != RunState::Unreachable);
        let course = self.course(0).filter(|c| c.rolls);
        course
            .zip(run)
            .is_some_and(|(course, run)| run.spec_version != course.target)
    }

    /// The lowest number that is not brought to the version wanted, or not good yet. While the spec is not read that may be any.
    pub(crate) fn first_behind(&self) -> Option<u32> {
        if self.spec.is_none() && self.wish.as_ref().is_some_and(|w| w.rollout.is_some()) {
            return self.row.ranges.first().map(|r| r.range.first);
        }
        let numbers = [self.behind.first().copied(), self.being_replaced().next()];
        let ordered = self.spec.as_ref().is_some_and(|s| s.kind == JobKind::Stateful);
        let first = numbers.into_iter().flatten().min();
        first.filter(|_| ordered).map(|n| n.0)
    }

    /// When the latest run, if it is watched, will have been available for long enough; `None`: it is not available, or has
    /// been by now.
    pub(crate) fn settles_at(&self, n: InstanceNumber, now: Timestamp) -> Option<Timestamp> {
        let run = self.record(n)?.run.as_ref()?;
        let watched = self.course(0).map_or(run.replaces, |course| course.watches(run));
        let min_healthy = self.spec.as_ref()?.update.min_healthy;
        let at = settles_at(run, min_healthy, &self.pause, now).filter(|_| watched);
        at.filter(|at| *at > now)
    }

    /// When this clock comes to the moment since which the latest run is available, if a leader with a clock
    /// that is ahead has stored it. From then on it is taken for a moment of this clock (`Pause`), and the run
    /// settles anew.
    fn dated_ahead(&self, n: InstanceNumber, now: Timestamp) -> Option<Timestamp> {
        let run = self.record(n)?.run.as_ref()?;
        run.available_since().filter(|at| *at > now)
    }

    /// Whether the latest run is available, and not for long enough. A replacement counts as such while the spec is not read.
    pub(crate) fn is_settling(&self, n: InstanceNumber, now: Timestamp) -> bool {
        let run = self.record(n).and_then(|r| r.run.as_ref());
        let replacement = || run.is_some_and(|r| r.replaces && r.is_available());
        self.settles_at(n, now).is_some() || (self.spec.is_none() && replacement())
    }

    /// How many more may begin to be updated.
    fn turns(&self) -> usize {
        let most = usize::try_from(self.max_unavailable).unwrap_or(usize::MAX);
        most.saturating_sub(self.being_replaced().count())
    }

    /// When the latest run has failed for the rollout, unless it is available by then.
    pub(crate) fn fails_at(&self, n: InstanceNumber, now: Timestamp) -> Option<Timestamp> {
        let within = self.spec.as_ref()?.update.healthy_within;
        let course = self.course(0).filter(|c| c.rolls)?;
        fails_at(self.record(n)?, course.target, within, &self.pause, now)
    }
}

impl Picture {
    /// What a run of a version is made from: of the spec in force, where it has the same runs.
    pub(crate) fn group_spec_of<'a>(&'a self, group: &'a Group, version: u32) -> Option<&'a GroupSpec> {
        let wanted = group.wish.as_ref().map(|w| w.spec_version);
        let present = group.group_spec().zip(wanted);
        let same = present.filter(|(spec, wanted)| spec.runs_of(*wanted) == version);
        same.map(|(spec, _)| spec).or_else(|| {
            let spec = self.specs.get(&(group.job(), version))?;
            spec.group(group.name())
        })
    }

    /// The group's version in the spec that its rollout began from; `None` while that is not read.
    pub(crate) fn base_of(&self, group: &Group) -> Option<u32> {
        let Some(rollout) = group.wish.as_ref()?.rollout else {
            return Some(0);
        };
        let spec = self.specs.get(&(group.job(), rollout.base))?;
        Some(spec.group(group.name()).map_or(0, |g| g.runs_of(rollout.base)))
    }

    /// The version that each of these would begin with now; those of which it cannot be told yet are left out.
    pub(crate) fn versions(&self, group: &Group, numbers: Vec<InstanceNumber>) -> Versions {
        let base = self.base_of(group);
        let Some(course) = group.course(base.unwrap_or_default()) else {
            return Vec::new();
        };
        let mut turns = group.turns();
        let mut out = Vec::with_capacity(numbers.len());
        for n in numbers {
            // Who is down for a replacement has its turn already, whatever that one did.
            let counted = group.restarting.contains(&n);
            let next = course.next(n, group.record(n), turns > 0 || counted);
            turns = turns.saturating_sub(usize::from(next.updates && !counted));
            let known = base.is_some() || next.version != course.base;
            if known && self.group_spec_of(group, next.version).is_some() {
                out.push((n, next));
            }
        }
        out
    }
}

impl Shard {
    /// Asks for the specs that instances of a group may begin with beside the one in force.
    pub(crate) fn want_other_specs(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let rollout = group.wish.as_ref().and_then(|w| w.rollout);
        let Some(rollout) = rollout.filter(|_| group.revision() != 0) else {
            return;
        };
        let waiting = group.ready.iter().filter_map(|n| group.record(*n)?.run.as_ref());
        let mut versions: Vec<u32> = waiting.map(|run| run.spec_version).collect();
        versions.push(rollout.base);
        versions.sort_unstable();
        versions.dedup();
        let job = group.job();
        let unread = |v: &u32| !self.picture.specs.contains_key(&(job, *v));
        let unread: Vec<u32> = versions.into_iter().filter(unread).collect();
        unread.into_iter().for_each(|v| self.read_spec(job, v));
    }

    /// Looks at the latest run of an instance again when it will have become good, or will have failed for the rollout, and notes that
    /// it has.
    pub(crate) fn watch_rollout(&mut self, at: At) {
        let now = self.now;
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let settling = group.settling.contains(&at.1);
        group.refresh_restarts(at.1, &self.draining, now);
        let settled = settling && !group.settling.contains(&at.1);
        let settles = group.settles_at(at.1, now);
        let fails = group.fails_at(at.1, now);
        let ahead = group.dated_ahead(at.1, now);
        let revision = group.revision();
        let due = settles.into_iter().chain(fails.filter(|due| *due > now));
        let due = due.chain(ahead);
        self.picture.timers.extend(due.map(|due| (due, at)));
        if settled {
            self.picture.restless.insert(at.0);
            self.picture.unreported.insert(at.0);
        }
        if fails.is_some_and(|due| due <= now) {
            self.edit(at, |record| record.failed_version = revision);
        }
    }
}
