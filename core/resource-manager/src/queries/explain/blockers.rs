//! What is in the way of what waits, in the order in which admission asks: the group's own bound, bounds of
//! its pool and of those above, clusters with their hosts, entitlement. And which pools have what is lacking.

use crate::admission::router::Router;
use crate::demand::gangs;
use crate::demand::host_limits;
use crate::demand::request::{PoolRef, avoided, pool_of, terms_in, unit_of};
use crate::demand::slices::{Line, lines};
use crate::queries::explain::answer::{AdmissionBlocker, CapacityHolder, MOST_HOLDERS};
use crate::queries::explain::trial::{Trial, TrialResult};
use echelon_core_model::class::InstanceClass;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, Kind, Reason, ReasonCode, Resources};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Left, Terms, Unit};
use echelon_core_routing::filter;
use std::collections::{BTreeMap, BTreeSet};

/// What of the job is not admitted, as admission takes it: instances of a group, or a whole gang.
#[derive(Debug, Clone)]
struct Lack<'a> {
    group: &'a GroupSpec,
    unit: Unit,
    terms: Terms,
    units: u64,
    instances: u64,
}

impl Lack<'_> {
    fn all(&self) -> Resources {
        self.unit.shape.times(self.units)
    }
}

/// Where something is lacking: the pools that have some of it are named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// Below this pool.
    Below(PoolIdx),
    /// In all pools but those below this one.
    Beside(PoolIdx),
    /// At this cluster.
    At(ClusterId),
}

/// What is in the way.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) blockers: Vec<AdmissionBlocker>,
    scopes: BTreeSet<(Scope, Kind)>,
}

impl Found {
    fn add(&mut self, lack: &Lack<'_>, reason: Reason) {
        let same = |b: &AdmissionBlocker| b.group == lack.group.name && b.reason == reason;
        if !self.blockers.iter().any(same) {
            self.blockers.push(AdmissionBlocker {
                group: lack.group.name.clone(),
                reason,
                instances: lack.instances,
            });
        }
    }

    fn scope(&mut self, scope: Scope, kind: Kind) {
        self.scopes.insert((scope, kind));
    }
}

fn lacks<'a>(trial: &Trial, spec: &'a JobSpec, missing: &BTreeMap<GroupName, u64>) -> Vec<Lack<'a>> {
    let facts = &trial.facts;
    let Some(job) = facts.jobs.get(&trial.job) else {
        return Vec::new();
    };
    let lines: Vec<Line> = lines(facts, trial.job, job);
    let terms = match pool_of(facts, &spec.pool) {
        PoolRef::Known(pool) => terms_in(facts, pool, spec, &lines),
        PoolRef::Unknown(_) => crate::demand::request::terms_of(spec),
    };
    if spec.gang.is_some() {
        let instances = missing.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let members = gangs::members(facts, job, spec, &lines);
        let group = spec.groups.first().filter(|_| instances > 0);
        return group
            .map(|group| Lack {
                group,
                unit: gangs::unit(&facts.host_pools, spec, &members),
                terms,
                units: 1,
                instances,
            })
            .into_iter()
            .collect();
    }
    let of = |group: &'a GroupSpec| {
        let units = missing.get(&group.name).copied().filter(|n| *n > 0)?;
        Some(Lack {
            group,
            unit: unit_of(facts, group),
            terms,
            units,
            instances: units,
        })
    };
    spec.groups.iter().filter_map(of).collect()
}

/// The pools of what lacks, from its own up, without the root. `None`: its pool is not in the tree, or takes
/// no jobs.
fn chain(trial: &Trial, spec: &JobSpec) -> Option<Vec<PoolIdx>> {
    let PoolRef::Known(pool) = pool_of(&trial.facts, &spec.pool) else {
        return None;
    };
    let chain = std::iter::once(pool).chain(trial.facts.hierarchy.above(pool));
    Some(chain.filter(|i| *i != ROOT).collect())
}

/// Which bounds of groups, and of pools whatever others do, are in the way of `missing` instances of each
/// group, where admission has left `result`.
pub(crate) fn own_bounds(
    trial: &Trial,
    result: &TrialResult,
    missing: &BTreeMap<GroupName, u64>,
    out: &mut Found,
) {
    let Some(spec) = trial.spec() else { return };
    for lack in lacks(trial, &spec, missing) {
        let Some(chain) = chain(trial, &spec) else {
            out.add(&lack, Reason::new(ReasonCode::PoolNotFound).at(&spec.pool));
            continue;
        };
        of_group(trial, &lack, result, out);
        for i in chain {
            of_bounds(trial, result, &lack, i, out);
        }
    }
}

/// Which clusters and entitlements are in the way.
pub(crate) fn of_others(
    trial: &Trial,
    result: &TrialResult,
    missing: &BTreeMap<GroupName, u64>,
    out: &mut Found,
) {
    let Some(spec) = trial.spec() else { return };
    for lack in lacks(trial, &spec, missing) {
        of_clusters(trial, result, &lack, &spec, out);
        for i in chain(trial, &spec).unwrap_or_default() {
            of_entitlement(trial, result, &lack, i, out);
        }
    }
}

fn of_group(trial: &Trial, lack: &Lack<'_>, result: &TrialResult, out: &mut Found) {
    let Some(most) = lack.group.max_running else {
        return;
    };
    let admitted = result.admitted.get(&lack.group.name).copied().unwrap_or_default();
    let has = trial.allocated(&lack.group.name).saturating_add(admitted);
    let needed = has.saturating_add(lack.instances);
    if u64::from(most) < needed {
        let text = format!("group {}: {most} may run, {needed} would", lack.group.name);
        out.add(lack, Reason::new(ReasonCode::MaxRunning).at(text));
    }
}

fn short(lack: &Lack<'_>, left: Resources) -> Option<Shortfall> {
    let all = lack.all();
    let kind = all.first_lack(left)?;
    Some(Shortfall {
        kind,
        have: left.get(kind),
        need: all.get(kind),
    })
}

fn path(trial: &Trial, pool: PoolIdx) -> &str {
    trial.facts.hierarchy.pool(pool).map_or("/", |p| p.path.as_str())
}

fn of_bounds(trial: &Trial, result: &TrialResult, lack: &Lack<'_>, pool: PoolIdx, out: &mut Found) {
    let terms = lack.terms;
    let Some(left) = result.rooms.left_at(pool, terms.side) else {
        return;
    };
    let bounds = [
        (ReasonCode::PoolLimit, Some(left.by_limit)),
        (ReasonCode::PoolRevocableLimit, Some(left.by_revocable_limit)),
        (
            ReasonCode::PoolReservation,
            (!terms.preemptible).then_some(left.by_reservation),
        ),
        (
            ReasonCode::PoolControllers,
            terms.controller.then_some(left.by_controllers),
        ),
    ];
    for (code, left) in bounds {
        if let Some(short) = left.and_then(|left| short(lack, left)) {
            out.scope(Scope::Below(pool), short.kind);
            out.add(lack, Reason::new(code).at(path(trial, pool)).short(short));
        }
    }
    of_counts(trial, lack, pool, &left, out);
}

fn of_counts(trial: &Trial, lack: &Lack<'_>, pool: PoolIdx, left: &Left, out: &mut Found) {
    let Some(bounds) = trial.facts.hierarchy.pool(pool) else {
        return;
    };
    let path = &bounds.path;
    if !lack.terms.counted && left.jobs == 0 {
        let text = format!("{path}: at most {} jobs", bounds.max_jobs);
        out.add(lack, Reason::new(ReasonCode::PoolJobs).at(text));
    }
    let instances = lack.unit.instances.saturating_mul(lack.units);
    if left.instances < instances {
        let text = format!(
            "{path}: at most {} instances, {} more are needed",
            bounds.max_instances,
            instances.saturating_sub(left.instances)
        );
        out.add(lack, Reason::new(ReasonCode::PoolInstances).at(text));
    }
}

fn of_entitlement(trial: &Trial, result: &TrialResult, lack: &Lack<'_>, pool: PoolIdx, out: &mut Found) {
    let left = result.rooms.left_at(pool, lack.terms.side);
    let short = left.and_then(|left| short(lack, left.by_entitlement));
    // Where no pool beside it is entitled to any of it, all of the capacity is this one's.
    let hierarchy = &trial.facts.hierarchy;
    let above = hierarchy.above(pool).next().unwrap_or(ROOT);
    let beside = hierarchy.children(above).filter(|i| *i != pool);
    let others = beside.fold(Resources::ZERO, |sum, i| sum.plus(result.rooms.bounds(i).1));
    if let Some(short) = short.filter(|short| others.get(short.kind) > 0) {
        out.scope(Scope::Beside(pool), short.kind);
        let reason = Reason::new(ReasonCode::PoolEntitlement);
        out.add(lack, reason.at(path(trial, pool)).short(short));
    }
}

fn of_clusters(trial: &Trial, result: &TrialResult, lack: &Lack<'_>, spec: &JobSpec, out: &mut Found) {
    let (facts, ledger) = (&trial.facts, &trial.ledger);
    let Some(job) = facts.jobs.get(&trial.job) else {
        return;
    };
    let router = Router::new(facts, ledger);
    let candidates = router.candidates();
    let all = candidates.of(candidates.asker(spec, lack.group));
    let demand = crate::admission::router::demand(job.home(), spec, lack.group);
    let (passed, dropped) = filter(&demand, all);
    let class = InstanceClass::of(spec, lack.group).map(|class| (class.digest(), class));
    let index = spec.groups.iter().position(|g| g.name == lack.group.name);
    let avoid = avoided(job, &lack.group.name);
    let mut sum: u64 = 0;
    let mut reasons = Vec::new();
    for cluster in passed {
        let left = result.rooms.cluster(&cluster.id, lack.terms.side, lack.unit);
        let there = index.map_or(0, |i| ledger.allocated(trial.job, &cluster.id, i));
        let limits = candidates.limits();
        let more = class
            .as_ref()
            .and_then(|(digest, class)| limits.more(&cluster.id, *digest, class, there));
        let more = more.filter(|_| spec.gang.is_none()).unwrap_or(u64::MAX);
        let count = lack.unit.shape.count_in(left).min(more);
        let reason = if let Some(never) = host_limits::refusal(facts, ledger, &cluster.id, spec, lack.group) {
            never
        } else if avoid.contains(&cluster.id) {
            let text = format!("{}: its shard found no host a short while ago", cluster.name);
            Reason::new(ReasonCode::HostResources).at(text)
        } else {
            sum = sum.saturating_add(count);
            let reason = Reason::new(ReasonCode::NoClusterCapacity).at(&cluster.name);
            match short(lack, left) {
                Some(short) => {
                    reasons.push((Some((cluster.id.clone(), short.kind)), reason.short(short)));
                    continue;
                }
                None => reason.at(format!("{}: its hosts hold {more} more", cluster.name)),
            }
        };
        reasons.push((None, reason));
    }
    if sum >= lack.units {
        return;
    }
    for cluster in &dropped {
        let detail = cluster.reason.detail.as_deref().unwrap_or_default();
        let reason = cluster.reason.clone().at(format!("{}: {detail}", cluster.name));
        reasons.push((None, reason));
    }
    if reasons.is_empty() {
        out.add(lack, Reason::new(ReasonCode::NoCluster).at("there is no cluster"));
    }
    // A cluster that the job may not use is in the way only where no other one is.
    let only_others = reasons.iter().all(|(_, r)| r.code == ReasonCode::NoCluster);
    for (full, reason) in reasons {
        if reason.code == ReasonCode::NoCluster && !only_others {
            continue;
        }
        if let Some((cluster, kind)) = full {
            out.scope(Scope::At(cluster), kind);
        }
        out.add(lack, reason);
    }
}

/// The pools that have most of what is lacking, and how many more have some. A static pool has what it
/// reserves, used or not.
pub(crate) fn holders(trial: &Trial, found: &Found) -> (Vec<CapacityHolder>, u64) {
    let hierarchy = &trial.facts.hierarchy;
    let kinds: BTreeSet<Kind> = found.scopes.iter().map(|(_, kind)| *kind).collect();
    let clusters: BTreeSet<&ClusterId> = trial.facts.clusters.keys().collect();
    let at = trial.ledger.held_at(&clusters);
    let mut all: BTreeMap<PoolIdx, CapacityHolder> = BTreeMap::new();
    for i in hierarchy.indexes().filter(|i| hierarchy.is_leaf(*i)) {
        let Some(pool) = hierarchy.pool(i) else { continue };
        let chain = || std::iter::once(i).chain(hierarchy.above(i));
        let taken = trial
            .ledger
            .of_known(i)
            .map(|of| of.held().ordinary)
            .unwrap_or_default();
        let is_in = |scope: &Scope| match scope {
            Scope::Below(pool) => chain().any(|a| a == *pool),
            Scope::Beside(pool) => !chain().any(|a| a == *pool),
            Scope::At(_) => false,
        };
        let divides = found
            .scopes
            .iter()
            .any(|(scope, _)| matches!(scope, Scope::Beside(_)));
        let everywhere = found.scopes.iter().any(|(scope, _)| is_in(scope));
        let used = if everywhere {
            taken
        } else {
            let there = found.scopes.iter().filter_map(|(scope, _)| match scope {
                Scope::At(cluster) => at.get(&(cluster.clone(), i)).copied(),
                _ => None,
            });
            there.fold(Resources::ZERO, Resources::plus)
        };
        let unused = if everywhere && divides {
            pool.kept().minus(taken)
        } else {
            Resources::ZERO
        };
        let holder = CapacityHolder {
            pool: pool.path.clone(),
            used,
            unused_reservation: unused,
        };
        if kinds.iter().any(|k| used.plus(unused).get(*k) > 0) {
            all.insert(i, holder);
        }
    }
    let mut all: Vec<CapacityHolder> = all.into_values().collect();
    let size = |h: &CapacityHolder| {
        let has = h.used.plus(h.unused_reservation);
        kinds.iter().map(|k| has.get(*k)).collect::<Vec<u64>>()
    };
    all.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.pool.cmp(&b.pool)));
    let more = all.len().saturating_sub(MOST_HOLDERS);
    all.truncate(MOST_HOLDERS);
    (all, u64::try_from(more).unwrap_or(u64::MAX))
}
