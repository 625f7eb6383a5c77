//! What jobs ask for: their slices, requests and sums, the queues of pools, and what hosts can hold.

pub(crate) mod ask;
pub(crate) mod basis;
pub(crate) mod capacity;
pub(crate) mod daemons;
pub(crate) mod entry;
pub(crate) mod found;
pub(crate) mod gangs;
pub(crate) mod goals;
pub(crate) mod host_limits;
pub(crate) mod instance_limits;
pub(crate) mod ledger;
pub(crate) mod moving;
pub(crate) mod pool_demand;
pub(crate) mod request;
pub(crate) mod slices;

use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::demand::pool_demand::{Wanted, demands_within, wanted};
use crate::facts::FederationFacts;
use echelon_core_model::class::ClassDigest;
use echelon_core_model::{JobId, Span, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{ClusterIdx, PoolSums};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the classes that have come to wait are looked at.
const LOOKED_AT: Span = Span::seconds(1);

/// Classes that wait, each with a cluster of which no host can ever take it.
pub(crate) type ClosedClusters = Arc<BTreeSet<(ClassDigest, ClusterIdx)>>;

/// Demand state, from cycle to cycle.
#[derive(Debug, Clone, Default)]
pub struct DemandState {
    /// Sums and queues.
    pub ledger: Ledger,
    /// What pools have, each with the pools below it.
    sums: PoolSums,
    /// What hosts could hold when the demand of pools was last counted.
    limits: HostLimits,
    /// The demand of each pool at that time.
    wanted: BTreeMap<PoolIdx, Wanted>,
    /// The version of the pool tree that was the last to move pools, as it was then.
    structure: Option<Version>,
    /// Pools that have changed since, or with jobs that have.
    touched: BTreeSet<PoolIdx>,
    /// Clusters that some classes cannot use, and when that was looked at last.
    closed: (Timestamp, ClosedClusters),
}

/// Pools with demand that may differ from the cycle before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolDemandChange {
    /// Pools came, went or moved.
    Tree,
    /// These.
    Pools(BTreeSet<PoolIdx>),
}

impl Default for PoolDemandChange {
    fn default() -> Self {
        Self::Pools(BTreeSet::new())
    }
}

/// What this cycle found of demand.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DemandReport {
    /// Daemons of which the number of hosts has changed.
    pub recounted: BTreeSet<JobId>,
    /// Jobs with an assignment that changed because a goal, a spec or a release changed.
    pub settled: BTreeSet<JobId>,
    /// Jobs that may need other grants because of what has changed.
    pub changed: BTreeSet<JobId>,
    /// Pools with demand that may have changed.
    pub pools: PoolDemandChange,
}

/// Brings sums and queues up to date with the jobs that have changed. Returns which.
pub(crate) fn refresh(facts: &mut FederationFacts, demand: &mut DemandState) -> BTreeSet<JobId> {
    facts.settle_homes();
    let changed = facts.take_changed();
    let changes = demand.ledger.refresh(facts, changed);
    demand.follow_sums(facts, &changes.pools);
    demand.touched.extend(changes.pools);
    demand.touched.extend(std::mem::take(&mut facts.revalued));
    changes.jobs
}

impl DemandState {
    /// What pools have, each with the pools below it.
    pub(crate) const fn sums(&self) -> &PoolSums {
        &self.sums
    }

    /// Brings that up to date with pools of which the jobs have changed.
    fn follow_sums(&mut self, facts: &FederationFacts, pools: &BTreeSet<PoolIdx>) {
        if !self.sums.set_hierarchy(&facts.hierarchy) {
            self.sums = self.ledger.pool_sums(facts);
            return;
        }
        for pool in pools {
            self.sums.set(*pool, self.ledger.held_of(*pool));
        }
    }

    /// The demand of each pool, as far as the pool may have it and hosts can hold it.
    pub(crate) const fn wanted(&self) -> &BTreeMap<PoolIdx, Wanted> {
        &self.wanted
    }

    /// Counts the demand of the pools with changed jobs.
    pub(crate) fn count_pools(&mut self, facts: &FederationFacts) -> PoolDemandChange {
        let mut touched = std::mem::take(&mut self.touched);
        let limits = HostLimits::of(facts, &self.ledger);
        let are_others = limits != self.limits;
        if are_others {
            // Looked at again at once.
            self.closed.0 = Timestamp(0);
        }
        self.limits = limits;
        let structure = facts.structure;
        if self.structure != Some(structure) {
            self.structure = Some(structure);
            self.wanted = demands_within(&self.limits, facts, &self.ledger);
            return PoolDemandChange::Tree;
        }
        touched.extend(self.ledger.choosy());
        if are_others {
            touched.extend(self.ledger.known().map(|(pool, _)| pool));
        }
        for pool in &touched {
            let of = self.ledger.of_known(*pool);
            match of.map(|of| wanted(&self.limits, facts, &self.ledger, *pool, of)) {
                Some(now) => self.wanted.insert(*pool, now),
                None => self.wanted.remove(pool),
            };
        }
        PoolDemandChange::Pools(touched)
    }

    /// Counts the demand of every pool next.
    pub(crate) const fn count_all_again(&mut self) {
        self.structure = None;
    }

    /// Takes over which clusters some classes cannot use.
    pub(crate) fn set_closed(&mut self, closed: ClosedClusters) {
        self.closed.1 = closed;
    }

    /// The clusters of which no host can take a class that waits, as of the last admission.
    pub(crate) const fn closed(&self) -> &ClosedClusters {
        &self.closed.1
    }

    /// The same set. It is computed again when hosts change, and once a second for classes that have begun to
    /// wait.
    pub(crate) fn closed_clusters(&mut self, now: Timestamp) -> &ClosedClusters {
        let (at, closed) = &mut self.closed;
        if now.since(*at) >= LOOKED_AT {
            let basis = self.ledger.basis();
            *closed = Arc::new(self.limits.closed(&self.ledger, |id| basis.index(id)));
            *at = now;
        }
        closed
    }
}
