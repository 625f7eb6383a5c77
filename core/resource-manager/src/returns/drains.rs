//! What leaves a cluster that is drained or removed: what has not begun at once, what runs as far as others have capacity
//! for it and `max_unavailable` allows, and results where a job goes on without the cluster.

use crate::admission::router::{GroupOf, take};
use crate::assignment::indexes::mark;
use crate::demand::moving::moved_and_unbound;
use crate::demand::request::{avoided, have, unit_of};
use crate::facts::job::JobView;
use crate::facts::slice::{SliceCount, SliceKey};
use crate::lifecycle::rollouts;
use crate::orders::allotments::drain_allotment;
use crate::returns::{Returns, is_of, mark_slice};
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::directive::SliceReport;
use echelon_core_model::{JobId, RangeSet, ReasonCode, RunState};

impl Returns<'_> {
    /// Empties a draining cluster. What has not begun goes back. What runs moves, and no more of it at once
    /// than may be unavailable.
    pub(super) fn drain(&mut self, of: GroupOf<'_>, job: &mut JobView, key: &SliceKey, report: &SliceReport) {
        let GroupOf { id, spec, group } = of;
        if report.unstarted > 0 {
            let n = report.unstarted.min(self.drain_left);
            let marked = self.give_back(job, key, n, report);
            self.drain_left -= marked;
            self.drains_on(job, key);
            return;
        }
        if report.active == 0 && self.is_removing(&key.cluster) {
            self.move_results(job, key);
            return;
        }
        // What has a volume stays with it: moving it would lose what is in it.
        if group.volume.is_some() || report.active == 0 || self.drain_resting(of, job, key, report) {
            return;
        }
        let serves = group.runs_for_ever(spec.kind);
        let most = u64::from(rollouts::may_be_down(job, group).max(1));
        let mut budget = most.saturating_sub(self.unavailable(of, job));
        if serves {
            budget = budget.min(drain_allotment(&self.picture.facts, id, job, &group.name));
        }
        let n = budget.max(1).min(self.drain_left);
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        let have = have(job, &key.group);
        let shares = self.router.places(of, n, self.within(&have, &avoid));
        let Some(share) = shares.into_iter().next() else {
            return;
        };
        // Asked for only where it would be used: what other clusters may restart is not kept from them for nothing.
        if serves {
            self.moves.entry(group.name.clone()).or_default().drains = true;
        }
        if budget == 0 {
            return;
        }
        let Some(ranges) = job.decided.ranges_mut(&key.group) else {
            return;
        };
        let unmarked: RangeSet = ranges
            .iter()
            .filter(|r| is_of(r, key) && r.releasing.is_none())
            .map(|r| r.range)
            .collect();
        let numbers = unmarked.highest(share.count);
        let with = Releasing {
            to: Some(share.cluster.clone()),
            why: ReasonCode::Moved,
            count: None,
        };
        mark(ranges, &numbers, &with);
        let moves = self.moves.entry(group.name.clone()).or_default();
        moves.moving = moves.moving.union(&numbers);
        self.changed = true;
        self.drain_left -= numbers.count().min(self.drain_left);
        let unit = unit_of(&self.picture.facts, group);
        take(&mut self.rooms, &share.cluster, spec, unit, numbers.count());
    }

    /// What waits for its next run at a draining cluster begins elsewhere, as far as others have capacity. It is
    /// unavailable already, so it costs nothing of `max_unavailable`, and what fails again and again does not hold up
    /// the drain. Whether anything leaves.
    fn drain_resting(
        &mut self,
        of: GroupOf<'_>,
        job: &mut JobView,
        key: &SliceKey,
        report: &SliceReport,
    ) -> bool {
        let n = report.between_runs.min(self.drain_left);
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        let have = have(job, &key.group);
        let shares = self.router.places(of, n, self.within(&have, &avoid));
        let count: u64 = shares.iter().map(|share| share.count).sum();
        let marked = self.give_back(job, key, count, report);
        if marked == 0 {
            return false;
        }
        // Its shard lets go of what waits for its next run as soon as less is granted.
        let granted = job.grants.get(key).map_or(0, |g| g.granted());
        self.lowered
            .push((of.id, key.clone(), granted.saturating_sub(marked)));
        self.drain_left -= marked;
        self.send_on(of, marked);
        self.drains_on(job, key);
        let unit = unit_of(&self.picture.facts, of.group);
        for share in shares {
            take(&mut self.rooms, &share.cluster, of.spec, unit, share.count);
        }
        true
    }

    /// A group of which nothing may leave at this moment keeps its allotment, if it has asked for one.
    pub(super) fn drains_on(&mut self, job: &JobView, key: &SliceKey) {
        if job.rare.moves.get(&key.group).is_some_and(|moves| moves.drains) {
            self.moves.entry(key.group.clone()).or_default().drains = true;
        }
    }

    /// What has ended at a cluster that is removed goes to another one, since its job still counts it. It needs
    /// no capacity there.
    fn move_results(&mut self, job: &mut JobView, key: &SliceKey) {
        let clusters = self.picture.facts.clusters.iter();
        let mut others = clusters.filter(|(id, view)| **id != key.cluster && view.takes_work());
        let Some((to, _)) = others.next() else {
            return;
        };
        let with = Releasing {
            to: Some(to.clone()),
            why: ReasonCode::Moved,
            count: None,
        };
        self.changed |= mark_slice(job, key, &with);
    }

    /// Instances of a slice that do not serve, of those that have begun or have come from another cluster. Those that
    /// leave are not among them.
    fn missing(&self, id: JobId, key: &SliceKey, ranges: &[&AssignedRange], count: &SliceCount) -> u64 {
        let moved: u64 = ranges
            .iter()
            .filter(|r| r.former.is_some())
            .map(|r| r.range.count())
            .sum();
        let begun = count
            .active
            .max(moved.min(count.unended()))
            .saturating_sub(count.leaving);
        let report = self.picture.facts.report(id, key);
        let running = report.map_or(0, |r| r.counts.get(RunState::Running));
        begun.saturating_sub(running.saturating_sub(count.leaving))
    }

    /// Instances of a group that are being moved and do not run yet: about to be stopped, on their way, or
    /// granted and not begun. Waiting for pool capacity is no disruption.
    fn unavailable(&self, of: GroupOf<'_>, job: &JobView) -> u64 {
        let GroupOf { id, spec, group } = of;
        let serves = group.runs_for_ever(spec.kind);
        let slices = job.slices();
        let of_group = slices.iter().filter(|(k, _)| k.group == group.name);
        of_group
            .map(|(k, ranges)| {
                let count = self.picture.facts.count(id, k, ranges);
                let granted = job.grants.get(k).map_or(0, |g| g.granted());
                let unheard = if count.reported { 0 } else { count.assigned };
                let unbegun = unheard.max(granted.saturating_sub(count.active));
                let missing = if serves {
                    self.missing(id, k, ranges, &count)
                } else {
                    0
                };
                count.leaving + unbegun.max(missing)
            })
            .fold(moved_and_unbound(job, &group.name), u64::saturating_add)
    }
}
