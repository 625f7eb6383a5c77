//! What shards found after a resume of storage becomes part of the assignment.

use crate::assignment::indexes::{missing, note_holders};
use crate::assignment::ranges::{Cut, change, joined};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::assignment::{AssignedRange, Assignment, Releasing};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{ClusterId, Generation, GroupName, InstanceRange, JobId, RangeSet};
use std::cmp::Reverse;

/// Instances of one group, found at one cluster.
pub(crate) struct FoundHere {
    group: GroupName,
    cluster: ClusterId,
    generation: Generation,
    numbers: RangeSet,
}

/// What was found of a job, the latest generation first.
fn found_of(facts: &FederationFacts, id: JobId) -> Vec<FoundHere> {
    let clusters = facts.clusters.iter();
    let clusters = clusters.filter(|(_, view)| view.desired_state() != DesiredState::Removed);
    let all = clusters.flat_map(|(cluster, view)| {
        let of_job = view.found.of_job(id);
        of_job.map(|(group, generation, numbers)| FoundHere {
            group: group.clone(),
            cluster: cluster.clone(),
            generation,
            numbers: numbers.clone(),
        })
    });
    let mut all: Vec<FoundHere> = all.collect();
    all.sort_by(|a, b| {
        let key = |f: &FoundHere| (Reverse(f.generation), f.cluster.clone());
        key(a).cmp(&key(b))
    });
    all
}

/// Gives what was found of a job to the clusters that have it.
pub(crate) fn take_found(facts: &FederationFacts, id: JobId, job: &mut JobView) {
    let mut found = found_of(facts, id);
    let Some(spec) = job.running().filter(|_| !found.is_empty()) else {
        return;
    };
    if spec.gang.is_some()
        && let Some(cluster) = found.first().map(|f| f.cluster.clone())
    {
        found.retain(|f| f.cluster == cluster);
    }
    let mut changed = false;
    for here in found.iter().filter(|f| spec.group(&f.group).is_some()) {
        changed |= take_newer(id, job, here);
        changed |= take_free(id, job, &spec, here);
    }
    if let Some(first) = found.first().filter(|_| changed && spec.gang.is_some()) {
        follow(id, job, &spec, first);
    }
}

/// Indexes that are assigned at an older generation.
fn take_newer(id: JobId, job: &mut JobView, here: &FoundHere) -> bool {
    let ranges = job.decided.ranges(&here.group).iter();
    let older: RangeSet = ranges
        .filter(|r| r.generation < here.generation)
        .map(|r| r.range)
        .collect();
    let older = older.intersect(&here.numbers);
    if older.is_empty() {
        return false;
    }
    let decided = job.decided.make_mut(id);
    if let Some(ranges) = decided.groups.get_mut(&here.group) {
        change(ranges, &older, Cut::Kept, |r| {
            // Indexes that are marked to be removed for good stay marked.
            let goes = r.releasing.filter(Releasing::ends_range);
            Some(AssignedRange {
                releasing: goes,
                ..at(here, r.range)
            })
        });
    }
    note_holders(decided, &here.group);
    true
}

/// Indexes that are not assigned, as many as the group lacks.
fn take_free(id: JobId, job: &mut JobView, spec: &JobSpec, here: &FoundHere) -> bool {
    let lacking = if spec.kind == JobKind::Daemon {
        // What exceeds the number of hosts is given back.
        u64::MAX
    } else {
        missing(job, &here.group)
    };
    let used = used_later(&job.decided, here);
    let taken = job.decided.assigned(&here.group);
    let taken = taken.union(&spec.rules.withdrawn(&here.group)).union(&used);
    let free = here.numbers.minus(&taken).lowest(lacking);
    if free.is_empty() {
        return false;
    }
    let decided = job.decided.make_mut(id);
    if let Some(released) = decided.released.get_mut(&here.group) {
        released.values_mut().for_each(|set| *set = set.minus(&free));
        released.retain(|_, set| !set.is_empty());
    }
    decided.released.retain(|_, sets| !sets.is_empty());
    let mut ranges = decided.groups.remove(&here.group).unwrap_or_default();
    ranges.extend(free.ranges().iter().map(|range| at(here, *range)));
    decided.groups.insert(here.group.clone(), joined(ranges));
    note_holders(decided, &here.group);
    true
}

/// Indexes that were released at that generation or a later one.
fn used_later(decided: &Assignment, here: &FoundHere) -> RangeSet {
    let sets = decided.released.get(&here.group).into_iter().flatten();
    let later = sets.filter(|(holder, _)| holder.generation >= here.generation);
    later.fold(RangeSet::new(), |all, (_, set)| all.union(set))
}

fn at(here: &FoundHere, range: InstanceRange) -> AssignedRange {
    AssignedRange {
        range,
        cluster: here.cluster.clone(),
        generation: here.generation,
        former: None,
        releasing: None,
    }
}

/// Moves the rest of a gang to where instances of it were found.
fn follow(id: JobId, job: &mut JobView, spec: &JobSpec, first: &FoundHere) {
    let decided = job.decided.make_mut(id);
    for group in &spec.groups {
        let Some(ranges) = decided.groups.get_mut(&group.name) else {
            continue;
        };
        let away = ranges.iter().filter(|r| r.cluster != first.cluster);
        let away: RangeSet = away.map(|r| r.range).collect();
        change(ranges, &away, Cut::Kept, |r| {
            Some(AssignedRange {
                range: r.range,
                cluster: first.cluster.clone(),
                generation: r.generation.next().max(first.generation),
                former: Some((r.cluster.clone(), r.generation)),
                releasing: None,
            })
        });
        note_holders(decided, &group.name);
    }
}
