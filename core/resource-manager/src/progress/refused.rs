//! Why slices get no more: they are barred whatever capacity there is, or by what the last division has left.

use crate::admission::LastAdmission;
use crate::admission::router::{GroupOf, Router};
use crate::demand::request::{PoolRef, pool_of, request, terms_in, unit_of};
use crate::demand::slices::Line;
use crate::demand::{gangs, host_limits};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::slice::SliceKey;
use crate::picture::Picture;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::NewWork;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, JobId, Reason, ReasonCode};
use echelon_core_pools::Rooms;

/// Instances of a slice that could start and are not admitted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) key: SliceKey,
    pub(crate) reason: Reason,
    pub(crate) count: u64,
}

/// The slices of a group that ask for more and get none of the capacity that a division has left.
pub(crate) fn refused(
    picture: &Picture,
    rooms: &Rooms,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[Line],
) -> Vec<Refused> {
    let all = lines;
    let lines = all.iter().filter(|l| l.key.group == group.name);
    let allocated = lines.clone().map(|l| l.allocated).fold(0u64, u64::saturating_add);
    let room = u64::from(group.most_active()).saturating_sub(allocated);
    // A gang is refused as a whole.
    let unit = if spec.gang.is_some() {
        gangs::unit(
            &picture.facts.host_pools,
            spec,
            &gangs::members(&picture.facts, job, spec, all),
        )
    } else {
        unit_of(&picture.facts, group)
    };
    let refused = lines.flat_map(|line| {
        let count = line.count.startable().saturating_sub(line.allocated);
        let reason = || {
            if let Some(barred) = barred(&picture.facts, &line.key) {
                return Some(barred);
            }
            if room == 0 {
                return Some(Reason::new(ReasonCode::MaxRunning));
            }
            match pool_of(&picture.facts, &spec.pool) {
                PoolRef::Unknown(path) => Some(Reason::new(ReasonCode::PoolNotFound).at(path)),
                PoolRef::Known(pool) => {
                    // What no host can ever fit is no demand of its pool,
                    // so the pool's entitlement is not the reason.
                    if let Some(never) = host_limits::refusal(
                        &picture.facts,
                        &picture.demand.ledger,
                        &line.key.cluster,
                        spec,
                        group,
                    ) {
                        return Some(never);
                    }
                    let terms = terms_in(&picture.facts, pool, spec, all);
                    let refusal = rooms.refusal(pool, terms, unit, &line.key.cluster)?;
                    Some(of_unit(&picture.admission, id, refusal))
                }
            }
        };
        // For so many of them capacity is being made.
        let promised = picture.preemption.open(id, &line.key).min(count);
        let claim = || Some(Reason::new(ReasonCode::PoolClaim).at(line.key.cluster.as_str()));
        let told = [
            (promised, (promised > 0).then(claim).flatten()),
            (count - promised, (count > promised).then(reason).flatten()),
        ];
        told.into_iter().filter_map(|(count, reason)| {
            Some(Refused {
                key: line.key.clone(),
                reason: reason?,
                count,
            })
        })
    });
    refused.collect()
}

/// The reason of a unit that may have a capacity hold. A hold with a date shows the date.
/// One without a date shows beside the reason that capacity is kept.
/// A gang in a pool where nothing is certain to end shows that.
fn of_unit(last: &LastAdmission, job: JobId, refusal: Reason) -> Reason {
    let short = |reason: Reason| match &refusal.shortfall {
        Some(short) => reason.short(**short),
        None => reason,
    };
    if let Some(hold) = last.holds.all.iter().find(|h| h.turn.job == job) {
        let Some(until) = hold.until else {
            let kept = format!("what ends on {} is kept for it", hold.cluster);
            let detail = refusal.detail.as_ref().map(|detail| format!("{detail}; {kept}"));
            return refusal.at(detail.unwrap_or(kept));
        };
        let at = format!("on {}, all of it by {until} at the latest", hold.cluster);
        return short(Reason::new(ReasonCode::CapacityHold).at(at));
    }
    let of_pool = refusal.code == ReasonCode::PoolEntitlement && last.blocked.contains(&job);
    match (&refusal.detail, of_pool) {
        (Some(pool), true) => short(Reason::new(ReasonCode::GangBlocked).at(pool.as_ref())),
        _ => refusal,
    }
}

/// Why a slice gets no more whatever capacity there is.
fn barred(facts: &FederationFacts, key: &SliceKey) -> Option<Reason> {
    let cluster = facts.clusters.get(&key.cluster)?;
    if !cluster.takes_grants() {
        return Some(Reason::new(ReasonCode::ClusterUnhealthy).at(key.cluster.as_str()));
    }
    if cluster.new_work() == NewWork::Refused {
        let cause = cluster
            .state
            .as_ref()
            .map(|s| s.health.to_string())
            .unwrap_or_default();
        return Some(Reason::new(ReasonCode::ClusterUnhealthy).at(format!("{}: {cause}", key.cluster)));
    }
    if cluster.desired_state() != DesiredState::Active {
        let reason = Reason::new(ReasonCode::ClusterCordoned);
        return Some(reason.at(format!("{}: {}", key.cluster, cluster.desired_state().word())));
    }
    None
}

/// Instances of a group that are bound nowhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unbound<'a> {
    pub(crate) of: GroupOf<'a>,
    pub(crate) job: &'a JobView,
    /// The slices of the whole job.
    pub(crate) lines: &'a [Line],
    /// How many instances of the group are about to begin and are not among these slices.
    pub(crate) begins: u64,
}

/// Why instances that are bound nowhere stay so.
/// Where that is for want of capacity, it is the reason of one of their clusters: the first with capacity,
/// else the first that the job prefers.
pub(crate) fn unbound_reason(
    router: &Router<'_>,
    last: &LastAdmission,
    rooms: &Rooms,
    unbound: &Unbound<'_>,
) -> (Reason, Option<ClusterId>) {
    let Unbound {
        of,
        job,
        lines,
        begins,
    } = *unbound;
    let GroupOf { id, spec, group } = of;
    let facts = router.facts();
    if let Some(reason) = &facts.awaiting {
        return (reason.clone(), None);
    }
    let PoolRef::Known(pool) = pool_of(facts, &spec.pool) else {
        return (Reason::new(ReasonCode::PoolNotFound).at(&spec.pool), None);
    };
    let of_group = lines.iter().filter(|l| l.key.group == group.name);
    let allocated = of_group.map(|l| l.allocated).fold(begins, u64::saturating_add);
    if allocated >= u64::from(group.most_active()) {
        return (Reason::new(ReasonCode::MaxRunning), None);
    }
    if let Some(reason) = router.refusal(id, spec, group) {
        return (reason, None);
    }
    if let Some(never) = router.candidates().limits().fits_nowhere(spec, group) {
        return (never, None);
    }
    let request = if spec.gang.is_some() {
        gangs::request(facts, (id, job), spec, lines)
    } else {
        request(facts, (id, job), (spec, group), lines)
    };
    let Some(request) = request else {
        // A daemon's hosts are still to be counted; something of a gang is to leave first.
        let moves = spec.gang.is_some() && !lines.is_empty();
        let code = if moves {
            ReasonCode::Moved
        } else {
            ReasonCode::Accepted
        };
        return (Reason::new(code), None);
    };
    if request.slices.is_empty() && router.is_share_used(&request) {
        return (Reason::new(ReasonCode::ClusterShare), None);
    }
    let bound = request.slices.iter().map(|s| s.cluster.clone());
    let places: Vec<ClusterId> = bound.chain(router.all_places(&request)).collect();
    let side = request.terms.side;
    let fits = |c: &&ClusterId| request.unit.shape.fits(rooms.cluster(c, side, request.unit));
    let Some(place) = places.iter().find(fits).or_else(|| places.first()) else {
        // Each cluster that could take it had no host for it a short while ago.
        let reason = Reason::new(ReasonCode::HostResources);
        return (
            reason.at("no cluster found a host a short while ago; it is tried again"),
            None,
        );
    };
    match rooms.refusal(pool, request.terms, request.unit, place) {
        Some(refusal) => (of_unit(last, id, refusal), Some(place.clone())),
        None => (Reason::new(ReasonCode::Accepted), None),
    }
}
