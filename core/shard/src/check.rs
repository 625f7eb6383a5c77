//! An independent look at a shard's picture: rules that must hold after every step, whatever happened. Tests and the
//! simulation ask after each step. In production records are looked at block by block (`sets.rs`).

use crate::driver::Shard;
use crate::group::Group;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, InstanceRange, JobId, Resources, RunState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A host has more of our tasks than room.
    OverCommitted(HostId, Resources, Resources),
    /// Two runs of an instance may be alive, and the older one is neither given up nor being killed.
    TwoLive(InstanceId),
    /// An instance that has ended begins again.
    BeganAfterEnd(InstanceId),
    /// A run was begun for a number that was given back at that generation.
    BeganReleased(InstanceId, Generation),
    /// More instances became active than the grant allows.
    BeyondGrant {
        /// One of them.
        instance: InstanceId,
        /// Active ones after it.
        active: u64,
        /// What was granted.
        granted: u64,
    },
    /// An instance is in other sets than it belongs to.
    Misplaced(InstanceId, String),
    /// The sums that are kept differ from those counted anew.
    Miscounted(String),
    /// Everything is read, and a group of it is not served.
    Unserved(JobId, GroupName),
    /// The order of durability is confused.
    Journal(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverCommitted(host, used, has) => write!(f, "host {host} has {has}, our tasks take {used}"),
            Self::TwoLive(id) => write!(f, "two runs of {id} may be alive without excuse"),
            Self::BeganAfterEnd(id) => write!(f, "{id} has ended and runs"),
            Self::BeganReleased(id, g) => write!(f, "{id} was given back at generation {g} and runs"),
            Self::BeyondGrant {
                instance,
                active,
                granted,
            } => write!(
                f,
                "{instance} became active as number {active} of {granted} granted"
            ),
            Self::Misplaced(id, what) => write!(f, "{id} is in {what}"),
            Self::Miscounted(what) => write!(f, "sums are wrong: {what}"),
            Self::Unserved(job, group) => write!(f, "group {group} of {job} is read and not served"),
            Self::Journal(what) => write!(f, "journal: {what}"),
        }
    }
}

/// Every rule that does not hold. `O(instances)`.
#[must_use]
pub fn check(shard: &Shard) -> Vec<Broken> {
    let mut out = shard.faults.clone();
    let mut used: BTreeMap<HostId, Resources> = BTreeMap::new();
    for group in shard.picture.groups.values() {
        if shard.picture.complete && !group.served && group.set_aside.is_none() {
            out.push(Broken::Unserved(group.job(), group.name().clone()));
        }
        for (n, record) in group.records() {
            check_record(group, n, record, &mut out);
            add_used(shard, (group, n), record, &mut used);
        }
        // Before it is served nothing of it is counted.
        if group.served {
            check_sums(group, &mut out);
        }
    }
    // Where some of what we believe alive is offered again, the sum of it says nothing.
    used.retain(|host, _| !shard.offered_again.contains(host));
    for (host, taken) in used {
        if let Some(row) = shard.hosts.host(&host)
            && !taken.fits(row.capacity)
        {
            out.push(Broken::OverCommitted(host, taken, row.capacity));
        }
    }
    out.extend(shard.journal.problems().into_iter().map(Broken::Journal));
    let keeping = shard.keeping.problems(&shard.config.timing.logs);
    out.extend(keeping.into_iter().map(Broken::Miscounted));
    out
}

/// Every instance that is in other sets than it belongs to; none while the leadership is in doubt, since no timer is
/// looked at then. `O(instances)`.
#[must_use]
pub fn check_sets(shard: &Shard) -> Vec<Broken> {
    if shard.is_suspended() {
        return Vec::new();
    }
    let all = InstanceRange {
        first: 0,
        last: u32::MAX,
    };
    let numbers = shard.picture.groups.keys();
    numbers.flat_map(|number| shard.misplaced(*number, all)).collect()
}

pub(crate) fn check_record(group: &Group, n: InstanceNumber, record: &InstanceRecord, out: &mut Vec<Broken>) {
    let excused = |s: RunState| matches!(s, RunState::Lost | RunState::Stopping);
    if !record.older.iter().all(|r| excused(r.state)) {
        out.push(Broken::TwoLive(group.instance(n)));
    }
    let Some(run) = record.run.as_ref().filter(|r| r.may_have_task()) else {
        return;
    };
    // What runs at the end of its instance is on its way out; nothing new may begin.
    if record.ended.is_some() && run.state == RunState::Launching {
        out.push(Broken::BeganAfterEnd(group.instance(n)));
    }
    if run.state == RunState::Launching && group.is_released(n, run.generation) {
        out.push(Broken::BeganReleased(group.instance(n), run.generation));
    }
}

/// What an earlier leader left counts once the cluster has spoken of it: until then its room may have been offered again. What is being
/// stopped does not: Mesos gives room back when a task has died, and tells of it only after every update before that one was
/// acknowledged, or, of a launch that was lost, when it is asked. (The simulation looks at what really runs, too.)
fn add_used(
    shard: &Shard,
    (group, n): (&Group, InstanceNumber),
    record: &InstanceRecord,
    used: &mut BTreeMap<HostId, Resources>,
) {
    let Some(number) = shard.picture.number_of(group.job(), group.name()) else {
        return;
    };
    let unheard = |r: &&Run| {
        shard
            .reconcile
            .awaits_first(&((number, n), r.generation, r.number))
    };
    let stays = |r: &&Run| r.state != RunState::Stopping && !unheard(r);
    for run in record.live_runs().filter(|r| group.served && stays(r)) {
        let spec = shard.picture.group_spec_of(group, run.spec_version);
        if let Some(shape) = spec.map(|g| g.room_left(run)) {
            let at = used.entry(run.host.clone()).or_default();
            // What a host lends may be less at any moment than what was taken of it: only its own room is never given out twice.
            *at = at.plus(shape.minus(run.revocable_room()));
        }
    }
}

fn check_sums(group: &Group, out: &mut Vec<Broken>) {
    let (tallies, startable) = group.count();
    let generations: BTreeSet<&Generation> = tallies.keys().chain(group.tallies.keys()).collect();
    for generation in generations {
        let counted = tallies.get(generation).copied().unwrap_or_default();
        let kept = group.tallies.get(generation).copied().unwrap_or_default();
        if kept != counted {
            let what = format!(
                "{} {} at {generation}: {kept:?}, counted {counted:?}",
                group.job(),
                group.name()
            );
            out.push(Broken::Miscounted(what));
        }
    }
    let generations: BTreeSet<&Generation> = startable.keys().chain(group.startable.keys()).collect();
    for generation in generations {
        let counted = startable.get(generation).cloned().unwrap_or_default();
        let kept = group.startable.get(generation).cloned().unwrap_or_default();
        if kept != counted {
            let what = format!(
                "startable {} {}: {kept}, counted {counted}",
                group.job(),
                group.name()
            );
            out.push(Broken::Miscounted(what));
        }
    }
}
