//! The demand of pools, as far as a pool may have it and hosts can hold it.

use crate::demand::capacity::usable;
use crate::demand::entry::sums::Sums;
use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::demand::ledger::totals::OfPool;
use crate::facts::FederationFacts;
use echelon_core_model::Resources;
use echelon_core_model::cluster_choice::allows_by_name;
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use std::collections::BTreeMap;

/// The demand of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Of ordinary capacity.
    pub ordinary: Resources,
    /// Of revocable capacity.
    pub lent: Resources,
}

/// The demand of pools, by index, as far as the clusters that their work may use have it, and as far as the
/// pool may have it.
#[must_use]
pub fn demands(facts: &FederationFacts, ledger: &Ledger) -> BTreeMap<PoolIdx, Wanted> {
    demands_within(&HostLimits::of(facts, ledger), facts, ledger)
}

pub(crate) fn demands_within(
    limits: &HostLimits,
    facts: &FederationFacts,
    ledger: &Ledger,
) -> BTreeMap<PoolIdx, Wanted> {
    let known = ledger.known();
    known
        .map(|(pool, of)| (pool, wanted(limits, facts, ledger, pool, of)))
        .collect()
}

pub(crate) fn wanted(
    limits: &HostLimits,
    facts: &FederationFacts,
    ledger: &Ledger,
    pool: PoolIdx,
    of: &OfPool,
) -> Wanted {
    // Of what is bound by nothing, of what is not preemptible, of controllers, and of what is both.
    let (mut free, mut firm, mut controllers, mut both) = Default::default();
    let mut lent = Resources::ZERO;
    for (choice, sums) in of.by_choice() {
        let possible = |sums: &Sums| {
            let class = choice.class;
            let most = class.and_then(|class| limits.most(ledger, class, &choice.only, sums.allocated));
            most.map_or(sums.demand, |most| sums.demand.min_each(most))
        };
        let wanted = possible(&sums.ordinary);
        let wanted = if choice.only.is_empty() {
            wanted
        } else {
            let there = clusters_of(facts, ledger, &choice.only);
            wanted.min_each(there).max_each(sums.ordinary.allocated)
        };
        let sum: &mut Resources = match (choice.terms.preemptible, choice.terms.controller) {
            (true, false) => &mut free,
            (false, false) => &mut firm,
            (true, true) => &mut controllers,
            (false, true) => &mut both,
        };
        *sum = sum.plus(wanted);
        lent = lent.plus(possible(&sums.lent));
    }
    if [firm, controllers, both].iter().any(|r| !r.is_zero()) {
        // Neither can use more than its bound. Work that is both gets what the others leave of both bounds.
        let (pool, held) = (facts.hierarchy.pool(pool), of.held());
        let firmly = pool
            .map(|p| p.reservation)
            .unwrap_or_default()
            .max_each(held.firm);
        let by_limit = pool.map(|p| p.controller_limit).unwrap_or_default();
        let by_controllers = by_limit.max_each(held.controllers);
        firm = firm.min_each(firmly);
        controllers = controllers.min_each(by_controllers);
        both = both
            .min_each(firmly.minus(firm))
            .min_each(by_controllers.minus(controllers));
    }
    let most = Resources::of_each(MOST_COUNTED).min_each(by_instances(facts, ledger, pool, of));
    Wanted {
        ordinary: free.plus(firm).plus(controllers).plus(both).min_each(most),
        lent: lent.min_each(Resources::of_each(MOST_COUNTED)),
    }
}

/// The most that a pool can have of ordinary capacity by its bounds of instances, and those of the pools above
/// it: what it has, and as many instances as it may begin, each as large as its largest. No bound is known of
/// daemons.
fn by_instances(facts: &FederationFacts, ledger: &Ledger, pool: PoolIdx, of: &OfPool) -> Resources {
    let chain = std::iter::once(pool).chain(facts.hierarchy.above(pool));
    let below_root = chain.filter(|i| *i != ROOT);
    let bounds = below_root.filter_map(|i| Some(facts.hierarchy.pool(i)?.max_instances));
    let Some(most) = bounds.min().filter(|most| *most < u64::MAX) else {
        return Resources::MAX;
    };
    let shapes = of
        .by_choice()
        .map(|(choice, _)| Some(ledger.class(choice.class?)?.shape));
    let largest = shapes.collect::<Option<Vec<Resources>>>();
    largest.map_or(Resources::MAX, |shapes| {
        let largest = shapes.into_iter().fold(Resources::ZERO, Resources::max_each);
        let more = most.saturating_sub(of.held().instances);
        of.sums().ordinary.allocated.plus(largest.times(more))
    })
}

/// The usable capacity of the clusters of a choice.
fn clusters_of(facts: &FederationFacts, ledger: &Ledger, only: &[String]) -> Resources {
    let chosen = usable(facts, ledger).filter(|(_, c, _)| {
        let row = c.row.as_ref();
        row.is_some_and(|row| allows_by_name(only, row.identity()))
    });
    chosen.fold(Resources::ZERO, |sum, (_, _, usable)| sum.plus(usable.all))
}
