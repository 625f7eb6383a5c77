//! What pools are entitled to: the capacity, divided by demand.

use crate::demand::capacity::{capacity, lent};
use crate::demand::ledger::Ledger;
use crate::demand::pool_demand::{Wanted, demands};
use crate::demand::{DemandState, PoolDemandChange};
use crate::facts::FederationFacts;
use echelon_core_model::{Resources, Version};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Entitlements, FirstRound, entitle};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state that the next division starts from.
#[derive(Debug, Clone, Default)]
pub struct Division {
    /// Round 0, kept while demand changes.
    round: Option<FirstRound>,
}

/// What this cycle's division gave.
#[must_use]
#[derive(Debug, Clone)]
pub struct DivisionReport {
    /// The version of the pool tree.
    pub tree: Version,
    /// The capacity that was divided.
    pub capacity: Resources,
    /// Revocable capacity.
    pub lent: Resources,
    /// What every pool is entitled to.
    pub entitled: Entitled,
}

/// What every pool may use of ordinary capacity, and of revocable capacity.
#[derive(Debug, Clone)]
pub struct Entitled {
    /// Of ordinary capacity.
    pub ordinary: Arc<Entitlements>,
    /// Of revocable capacity: the same division by shares alone. No pool has a reservation of it.
    pub lent: Arc<Entitlements>,
}

impl Entitled {
    /// Whether no cluster has revocable capacity.
    pub(crate) fn lends_nothing(&self) -> bool {
        self.lent.amount(ROOT).is_zero()
    }
}

/// Round 0, computed from nothing.
#[must_use]
pub fn entitled(facts: &FederationFacts, ledger: &Ledger) -> Entitled {
    let wanted = demands(facts, ledger);
    let there = capacity(facts, ledger);
    let ordinary = by_index(facts, &wanted, |w| w.ordinary);
    Entitled {
        ordinary: Arc::new(entitle(&facts.hierarchy, &ordinary, there)),
        lent: Arc::new(lent_entitled(facts, ledger, &wanted)),
    }
}

/// Revocable capacity is divided by shares alone. Usually there is none.
fn lent_entitled(
    facts: &FederationFacts,
    ledger: &Ledger,
    wanted: &BTreeMap<PoolIdx, Wanted>,
) -> Entitlements {
    let there = lent(facts, ledger);
    let wanted = by_index(facts, wanted, |w| w.lent);
    entitle(&facts.by_shares, &wanted, there)
}

fn by_index(
    facts: &FederationFacts,
    wanted: &BTreeMap<PoolIdx, Wanted>,
    which: impl Fn(&Wanted) -> Resources,
) -> Vec<Resources> {
    let mut out = vec![Resources::ZERO; facts.hierarchy.len()];
    for (pool, wanted) in wanted {
        if let Some(slot) = out.get_mut(*pool) {
            *slot = which(wanted);
        }
    }
    out
}

/// Round 0, from the one before by what has changed since.
pub(crate) fn divide(
    facts: &FederationFacts,
    demand: &DemandState,
    change: &PoolDemandChange,
    division: &mut Division,
) -> DivisionReport {
    let there = capacity(facts, &demand.ledger);
    let changed = match change {
        PoolDemandChange::Tree => None,
        PoolDemandChange::Pools(pools) => Some(pools),
    };
    let kept = division.round.as_mut().zip(changed).and_then(|kept| {
        let (round, pools) = kept;
        round
            .set_hierarchy(&facts.hierarchy, pools)
            .then_some((round, pools))
    });
    let ordinary = match kept {
        Some((round, pools)) => {
            for pool in pools {
                let wanted = demand.wanted().get(pool).copied().unwrap_or_default();
                round.set_demand(*pool, wanted.ordinary);
            }
            round.set_capacity(there);
            round.entitlements()
        }
        None => {
            let all = by_index(facts, demand.wanted(), |w| w.ordinary);
            let first = FirstRound::new(Arc::clone(&facts.hierarchy), all, there);
            division.round.insert(first).entitlements()
        }
    };
    let lent = lent(facts, &demand.ledger);
    let of_lent = if lent.is_zero() {
        Entitlements::default()
    } else {
        lent_entitled(facts, &demand.ledger, demand.wanted())
    };
    debug_assert_eq!(ordinary, entitled(facts, &demand.ledger).ordinary);
    DivisionReport {
        tree: facts.pools.version,
        capacity: there,
        lent,
        entitled: Entitled {
            ordinary,
            lent: Arc::new(of_lent),
        },
    }
}
