//! Pools within which work is being preempted for other work of the same pool.

use crate::demand::request::{PoolRef, pool_of};
use crate::preemption::PreemptionInputs;
use crate::preemption::requests::OpenRequest;
use echelon_core_model::JobId;
use echelon_core_pools::hierarchy::PoolIdx;
use std::collections::BTreeSet;

/// The pools for which requests within them are under way. What a request of an earlier leader names is not
/// known: it counts as one.
pub(crate) fn within(known: PreemptionInputs<'_>) -> BTreeSet<PoolIdx> {
    let pool = |job: JobId| {
        let spec = known.facts.jobs.get(&job)?.spec.as_deref()?;
        match pool_of(known.facts, &spec.pool) {
            PoolRef::Known(pool) => Some(pool),
            PoolRef::Unknown(_) => None,
        }
    };
    let of = |view: &OpenRequest| {
        let own = pool(view.claim.job)?;
        let first = view.claim.victims.first();
        let is_within = first.map(|victim| pool(victim.job) == Some(own));
        is_within.unwrap_or(!view.claim.keeps_host).then_some(own)
    };
    known.requests.all.values().filter_map(of).collect()
}
