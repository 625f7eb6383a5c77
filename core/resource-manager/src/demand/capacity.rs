//! Capacity that is divided among pools.

use crate::demand::ledger::Ledger;
use crate::facts::FederationFacts;
use crate::facts::capacity::{UsableCapacity, total};
use crate::facts::cluster::ClusterView;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::{ClusterId, Kind, Resources};

/// The usable capacity of every cluster.
pub(crate) fn usable<'a>(
    facts: &'a FederationFacts,
    ledger: &'a Ledger,
) -> impl Iterator<Item = (&'a ClusterId, &'a ClusterView, UsableCapacity)> {
    let kinds = facts.lent_kinds();
    let clusters = facts.clusters.iter();
    clusters.map(move |(id, c)| (id, c, UsableCapacity::of(c, ledger.taken(id), kinds)))
}

/// The revocable capacity to divide: that of clusters with a shard that obeys this leader.
#[must_use]
pub fn lent(facts: &FederationFacts, ledger: &Ledger) -> Resources {
    let there = usable(facts, ledger).filter(|(_, c, _)| c.takes_grants());
    there.fold(Resources::ZERO, |sum, (_, _, usable)| sum.plus(usable.lent))
}

/// The capacity to divide: the usable capacity of all clusters. Some hosts are reserved for work with GPUs.
/// Their other resources count only up to the demand of such work, because no other work can use them.
#[must_use]
pub fn capacity(facts: &FederationFacts, ledger: &Ledger) -> Resources {
    let there = usable(facts, ledger);
    let (all, open) = there.fold((Resources::ZERO, Resources::ZERO), |(all, open), (_, _, c)| {
        (all.plus(c.all), open.plus(c.without_gpus))
    });
    let kept = all.minus(open);
    open.plus(kept.min_each(ledger.with_gpus()))
        .with(Kind::Gpus, all.gpus)
}

/// Ordinary capacity that is not divided, because it may take nothing new and nothing runs there. It is that
/// of closed hosts, and of clusters that are cordoned or draining.
#[must_use]
pub fn closed(facts: &FederationFacts, ledger: &Ledger) -> Resources {
    let there = usable(facts, ledger)
        .filter(|(_, c, _)| c.desired_state() != DesiredState::Removed && !c.has_others_hosts());
    there.fold(Resources::ZERO, |sum, (_, c, usable)| {
        let of_hosts = c.capacity.as_ref().map(|told| told.closed).unwrap_or_default();
        sum.plus(total(c).minus(usable.all)).plus(of_hosts)
    })
}
