//! Binds what is admitted, and some of what runs ahead.

use crate::admission::router::{GroupOf, Router, Within};
use crate::admission::{AdmissionReport, AheadBinding, LastAdmission};
use crate::assignment::indexes::{give, missing};
use crate::demand::ledger::Ledger;
use crate::demand::request::{PoolRef, avoided, have, pool_of, terms_of, unbound, unit_of};
use crate::demand::slices::{Line, is_unplaced, lines};
use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Rooms, Terms, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// Most ranges of a group that come from binding.
const GRAINS: u64 = 256;
/// Fewest indexes that are bound ahead for a slice.
const AHEAD: u64 = 16;

/// Binds instances of a group: the lowest free indexes, rounded up to grains. Returns how many of the
/// requested instances each slice got.
pub(crate) fn bind(
    id: JobId,
    job: &mut JobView,
    spec: &JobSpec,
    group: &GroupName,
    shares: &[(ClusterId, u64)],
) -> Vec<(SliceKey, u64)> {
    let mut left = missing(job, group);
    let mut later: u64 = shares.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
    let grain = grain(spec, group);
    let withdrawn = spec.rules.withdrawn(group);
    let mut out = Vec::new();
    for (cluster, n) in shares {
        later = later.saturating_sub(*n);
        let n = (*n).min(left);
        // What completes a step is not taken from the clusters that follow.
        let whole = n.div_ceil(grain).saturating_mul(grain);
        let whole = whole.min(left.saturating_sub(later)).max(n);
        left -= whole;
        let free = job.decided.unbound(group, &withdrawn, whole);
        let decided = job.decided.make_mut(id);
        let bound = give(decided, group, &[(cluster.clone(), free)]);
        let mut asked = n;
        for (key, count) in bound {
            let count = count.min(asked);
            asked -= count;
            out.extend((count > 0).then_some((key, count)));
        }
    }
    out
}

/// The size of the steps in which a group's indexes are bound. It keeps the number of ranges within one
/// write.
fn grain(spec: &JobSpec, group: &GroupName) -> u64 {
    let single = spec.gang.is_some() || spec.kind == JobKind::Daemon;
    let count = spec.group(group).filter(|_| !single);
    count.map_or(1, |g| u64::from(g.instances).div_ceil(GRAINS).max(1))
}

/// How many indexes of a slice may stay bound without a grant, where so many of the group are granted at its
/// cluster. Where nothing is granted, none may.
/// Other slices may have the rest of a grain. Batch work that is no gang may have any number: its bound
/// indexes begin as its instances end.
pub(crate) fn allowance(spec: &JobSpec, line: &Line, granted: u64) -> u64 {
    if granted == 0 {
        return 0;
    }
    let rest = grain(spec, &line.key.group).saturating_sub(1);
    if spec.kind == JobKind::Batch && spec.gang.is_none() {
        u64::MAX
    } else {
        rest
    }
}

/// What admission has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemainingCapacity<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) admission: &'a LastAdmission,
}

/// How many instances that are bound to a cluster without a grant their pool could begin at another one.
/// At a full cluster only limits bound them: what no pool can use of its entitlement is divided among the
/// pools that request capacity where it is.
pub(crate) fn quota_elsewhere(
    rooms: &Rooms,
    cluster: &ClusterId,
    pool: PoolIdx,
    terms: Terms,
    unit: Unit,
) -> u64 {
    if unit.shape.fits(rooms.cluster(cluster, terms.side, unit)) {
        rooms.pool_count(pool, terms, unit)
    } else {
        rooms.count_by_limits(pool, terms, unit)
    }
}

/// How many indexes of a group are not bound ahead to a cluster that is full for it: as many as another
/// cluster may begin, or as its pool is entitled to, for which preemption makes capacity at any cluster.
/// `most` is how many more of the group may be active.
fn kept_unbound(
    facts: &FederationFacts,
    capacity: RemainingCapacity<'_>,
    of: GroupOf<'_>,
    cluster: &ClusterId,
    most: u64,
) -> u64 {
    let RemainingCapacity { ledger, admission } = capacity;
    let (candidates, rooms) = (&admission.candidates, &*admission.rooms);
    let (terms, unit) = (terms_of(of.spec), unit_of(facts, of.group));
    let (Some(job), PoolRef::Known(pool)) = (facts.jobs.get(&of.id), pool_of(facts, &of.spec.pool)) else {
        return 0;
    };
    let is_full = !unit.shape.fits(rooms.cluster(cluster, terms.side, unit));
    if !is_full || most == 0 {
        return 0;
    }
    let router = Router::of(facts, ledger, candidates);
    let mut avoid = avoided(job, &of.group.name);
    avoid.push(cluster.clone());
    let entitled = admission.entitled_units((of.id, &of.group.name), pool, terms, unit);
    if entitled > 0 && router.may_use_others(of, &avoid) {
        return entitled.min(most);
    }
    if rooms.count_by_limits(pool, terms, unit) == 0 {
        return 0;
    }
    let have = have(job, &of.group.name);
    let within = Within {
        have: &have,
        avoid: &avoid,
        rooms,
        parts: 1,
    };
    let shares = router.places(of, most, within);
    shares.iter().map(|s| s.count).fold(0, u64::saturating_add)
}

/// What is to be bound ahead for a batch job, by group and cluster.
pub(crate) fn ahead(
    facts: &FederationFacts,
    capacity: RemainingCapacity<'_>,
    id: JobId,
    job: &JobView,
) -> Vec<(GroupName, ClusterId, u64)> {
    let mut out = Vec::new();
    let Some(spec) = job.running_spec() else {
        return out;
    };
    // What is bound ahead follows what runs, and so not a division of the whole group.
    if spec.kind != JobKind::Batch || spec.gang.is_some() || spec.clusters.bounds_clusters() {
        return out;
    }
    let all = lines(facts, id, job);
    for group in &spec.groups {
        let free = unbound(facts, job, spec, &group.name);
        if free == 0 {
            continue;
        }
        // Granted instances that find no host are no reason to bind more there. Of what runs down, nothing
        // that ends is replaced.
        let running = |l: &Line| {
            let grant = job.grants.get(&l.key).filter(|g| !g.is_expired());
            let granted = grant.map_or(0, |g| g.granted());
            let report = l.report.as_deref();
            let is_stuck = report.is_some_and(|r| r.waiting.iter().any(|(r, ..)| is_unplaced(r.code)));
            if is_stuck {
                granted.min(l.count.active)
            } else {
                granted
            }
        };
        let of_group = || all.iter().filter(|l| l.key.group == group.name && running(l) > 0);
        let total: u64 = of_group().map(running).fold(0, u64::saturating_add).max(1);
        let mut left = free;
        let avoid = avoided(job, &group.name);
        let of = GroupOf { id, spec, group };
        let allocated = all.iter().filter(|l| l.key.group == group.name);
        let allocated = allocated.map(|l| l.allocated).fold(0, u64::saturating_add);
        let most = u64::from(group.most_active()).saturating_sub(allocated);
        let open = |l: &&Line| takes_ahead(facts, job, spec, &l.key) && !avoid.contains(&l.key.cluster);
        for line in of_group().filter(open) {
            let active = running(line);
            let there = all
                .iter()
                .filter(|l| l.key.group == group.name && l.key.cluster == line.key.cluster);
            let stock = there.map(|l| l.count.startable().saturating_sub(l.allocated));
            if stock.fold(0, u64::saturating_add) >= active {
                continue;
            }
            let kept = kept_unbound(facts, capacity, of, &line.key.cluster, most);
            let share = u128::from(free) * u128::from(active) / u128::from(total) / 2;
            let share = u64::try_from(share).unwrap_or(u64::MAX).max(AHEAD).max(active);
            let n = share.min(left.saturating_sub(kept));
            left -= n;
            out.extend((n > 0).then(|| (group.name.clone(), line.key.cluster.clone(), n)));
        }
    }
    out
}

/// Whether a slice may get more: its cluster is connected and takes work, and nothing of the slice is to
/// leave.
fn takes_ahead(facts: &FederationFacts, job: &JobView, spec: &JobSpec, key: &SliceKey) -> bool {
    let view = facts.clusters.get(&key.cluster);
    let open = view.is_some_and(ClusterView::takes_work);
    let row = view.and_then(|v| v.row.as_ref());
    let chosen = row.is_some_and(|row| spec.clusters.allows(row.identity()));
    let ranges = job.decided.ranges(&key.group).iter();
    let mut marked = ranges.filter(|r| r.cluster == key.cluster && r.releasing.is_some());
    open && chosen && marked.next().is_none()
}

/// Binds what is admitted and bound nowhere, and notes how many more each slice may begin.
pub(crate) fn bind_admitted(facts: &mut FederationFacts, report: &mut AdmissionReport) {
    let mut more: BTreeMap<(JobId, SliceKey), u64> = BTreeMap::new();
    let mut add = |id, key, n| {
        let count = more.entry((id, key)).or_default();
        *count = u64::saturating_add(*count, n);
    };
    for admission in &report.admitted {
        for (cluster, generation, n) in &admission.more {
            let key = SliceKey {
                group: admission.group.clone(),
                cluster: cluster.clone(),
                generation: *generation,
            };
            add(admission.job, key, *n);
        }
        if admission.bind.is_empty() {
            continue;
        }
        report.changed.insert(admission.job);
        for (key, n) in bind_to(facts, admission.job, &admission.group, &admission.bind) {
            add(admission.job, key, n);
        }
    }
    report.bound = more;
}

/// Batch work that runs has indexes bound ahead.
pub(crate) fn bind_ahead(
    facts: &mut FederationFacts,
    capacity: RemainingCapacity<'_>,
    jobs: &BTreeSet<JobId>,
    report: &mut AdmissionReport,
) {
    for id in jobs {
        let job = facts.jobs.get(id);
        let ahead = job
            .map(|job| ahead(facts, capacity, *id, job))
            .unwrap_or_default();
        for (group, cluster, count) in ahead {
            bind_to(facts, *id, &group, &[(cluster.clone(), count)]);
            report.changed.insert(*id);
            report.bound_ahead.push(AheadBinding {
                job: *id,
                group,
                cluster,
                count,
            });
        }
    }
}

/// Binds so many of a group to each cluster. Returns how many each slice got.
fn bind_to(
    facts: &mut FederationFacts,
    id: JobId,
    group: &GroupName,
    shares: &[(ClusterId, u64)],
) -> Vec<(SliceKey, u64)> {
    let Some(mut job) = facts.jobs.lend(&id) else {
        return Vec::new();
    };
    let bound = job.running().map(|spec| bind(id, &mut job, &spec, group, shares));
    facts.jobs.give_back(id, job, true);
    bound.unwrap_or_default()
}
