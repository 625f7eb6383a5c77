//! Instances that a drain moves: from the mark until they run again.
//!
//! A drain stops what runs only for capacity that another cluster has free. That capacity stays theirs: on
//! their way it is taken from what the other cluster has left, and where they have arrived they are admitted
//! first. Where they do not begin all the same, they count as unavailable: the drain has stopped them.

use crate::demand::ledger::Ledger;
use crate::demand::request::{terms_of, unit_of};
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::{ClusterId, GroupName, JobId, RangeSet};
use echelon_core_pools::Rooms;

/// Whether a range of its group is of a slice.
pub(crate) fn is_of(range: &AssignedRange, key: &SliceKey) -> bool {
    range.cluster == key.cluster && range.generation == key.generation
}

/// The cluster to which all of a range moves.
fn target(range: &AssignedRange) -> Option<&ClusterId> {
    let mark = range.releasing.as_ref().filter(|mark| mark.count.is_none());
    mark.and_then(|mark| mark.to.as_ref())
}

/// Indexes of a slice that do not leave it.
fn staying(job: &JobView, key: &SliceKey) -> RangeSet {
    let ranges = job.decided.ranges(&key.group).iter();
    let here = ranges.filter(|r| is_of(r, key) && !leaves(r));
    here.map(|r| r.range).collect()
}

fn leaves(range: &AssignedRange) -> bool {
    let mark = range.releasing.as_ref();
    mark.is_some_and(|mark| mark.count.is_none())
}

/// Of the instances of a group that were moving: those that still are, by the last reports. What has begun where it
/// arrived is not among them, nor what is not wanted any more. Of a slice of which not all instances are active, it is
/// not known which of them are.
pub(crate) fn still_moving(job: &JobView, group: &GroupName, before: &RangeSet, lines: &[Line]) -> RangeSet {
    let known = job.decided.assigned(group);
    let known = known.union(&job.decided.unbound_with_records(group));
    let all_begun = lines.iter().filter(|line| {
        let count = &line.count;
        line.key.group == *group && count.reported && count.active >= count.unended()
    });
    let begun = all_begun.map(|line| staying(job, &line.key));
    begun.fold(before.intersect(&known), |moving, begun| moving.minus(&begun))
}

/// Whether capacity is kept for something of a job that moves.
pub(crate) fn keeps_capacity(job: &JobView) -> bool {
    let has_moved = job.rare.moves.values().any(|moves| !moves.moving.is_empty());
    let mut ranges = job.decided.groups.values().flatten();
    has_moved || ranges.any(|range| target(range).is_some())
}

/// Takes the capacity for what is on its way from what is left of the clusters to which it goes.
pub(crate) fn take_for_those_under_way(facts: &FederationFacts, ledger: &Ledger, rooms: &mut Rooms) {
    for (id, job) in of_ledger(facts, ledger) {
        let Some(spec) = job.running_spec() else {
            continue;
        };
        for line in lines(facts, id, job) {
            let Some(group) = spec.group(&line.key.group) else {
                continue;
            };
            // Results move, too, and need no capacity. Of what its shard has not reported anything may run.
            let count = &line.count;
            let mut active = if count.reported {
                count.active
            } else {
                count.assigned
            };
            let ranges = job.decided.ranges(&line.key.group).iter();
            for range in ranges.filter(|r| is_of(r, &line.key)) {
                let Some(to) = target(range) else { continue };
                let n = range.range.count().min(active);
                active -= n;
                rooms.take_cluster(to, terms_of(spec).side, unit_of(facts, group), n);
            }
        }
    }
}

/// Of what has moved: the slices at which something has arrived that is not granted yet, and how much of each.
pub(crate) fn arrived_ungranted(facts: &FederationFacts, ledger: &Ledger) -> Vec<(JobId, SliceKey, u64)> {
    let mut out = Vec::new();
    for (id, job) in of_ledger(facts, ledger) {
        for line in lines(facts, id, job) {
            let Some(moves) = job.rare.moves.get(&line.key.group) else {
                continue;
            };
            let arrived = moves.moving.intersect(&staying(job, &line.key)).count();
            let ungranted = line.count.unended().saturating_sub(line.allocated);
            let n = arrived.min(ungranted);
            if n > 0 {
                out.push((id, line.key, n));
            }
        }
    }
    out
}

fn of_ledger<'a>(
    facts: &'a FederationFacts,
    ledger: &'a Ledger,
) -> impl Iterator<Item = (JobId, &'a JobView)> {
    let jobs = ledger.moving().iter();
    jobs.filter_map(|id| Some((*id, facts.jobs.get(id)?)))
}

/// How many instances of a group have been moved, have not begun again, and are bound nowhere.
pub(crate) fn moved_and_unbound(job: &JobView, group: &GroupName) -> u64 {
    let Some(moves) = job.rare.moves.get(group).filter(|m| !m.moving.is_empty()) else {
        return 0;
    };
    let unbound = job.durable.unbound_with_records(group);
    moves.moving.intersect(&unbound).count()
}

/// How many instances of some ranges have been moved there and have not begun again, at most.
pub(crate) fn moved_and_bound(job: &JobView, group: &GroupName, ranges: &[&AssignedRange]) -> u64 {
    let Some(moves) = job.rare.moves.get(group).filter(|m| !m.moving.is_empty()) else {
        return 0;
    };
    let staying: RangeSet = ranges.iter().filter(|r| !leaves(r)).map(|r| r.range).collect();
    moves.moving.intersect(&staying).count()
}
