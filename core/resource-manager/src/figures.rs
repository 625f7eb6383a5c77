//! How the pools stand: what each wants, has and is entitled to, with the proof. The same division as the cycle's, on the same
//! picture, under the stored tree or under one that somebody thinks of storing.

use crate::division::demands;
use crate::picture::Picture;
use crate::room::capacity;
use echelon_core_model::Resources;
use echelon_core_model::pool::PoolTree;
use echelon_core_pools::certificate::{Certificate, certify};
use echelon_core_pools::{Held, Hierarchy, entitle};
use std::collections::BTreeMap;

/// How the pools stand in ordinary room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFigures {
    /// The tree that this went by.
    pub tree: PoolTree,
    /// What jobs could use if everything fitted, by the pool that they name.
    pub demand: BTreeMap<String, Resources>,
    /// What is granted to them or active.
    pub allocated: BTreeMap<String, Resources>,
    /// What of this is counted apart.
    pub held: BTreeMap<String, Held>,
    /// What each pool is entitled to, with its proof.
    pub certificate: Certificate,
}

/// How the pools stand, or would stand under `tree` with the demand and capacity of now. `O(pools log pools)`.
#[must_use]
pub fn figures(picture: &Picture, tree: Option<PoolTree>) -> PoolFigures {
    let tree = tree.unwrap_or_else(|| picture.pools.clone());
    let ledger = &picture.ledger;
    let hierarchy = Hierarchy::new(&tree);
    let capped = demands(picture, ledger)
        .into_iter()
        .filter_map(|(i, wanted)| Some((picture.hierarchy.pool(i)?.path.clone(), wanted.ordinary)));
    let sums = ledger.by_path(picture);
    let wanted = sums.iter().map(|(path, s)| (path.clone(), s.ordinary.demand));
    let demand: BTreeMap<String, Resources> = wanted.chain(capped).collect();
    let mut wanted = vec![Resources::ZERO; hierarchy.len()];
    for (path, amount) in &demand {
        if let Some(slot) = hierarchy.find(path).and_then(|i| wanted.get_mut(i)) {
            *slot = *amount;
        }
    }
    let there = capacity(picture, ledger.with_gpus());
    let entitled = entitle(&hierarchy, &wanted, there);
    let allocated = sums.into_iter().map(|(path, s)| (path, s.ordinary.allocated));
    PoolFigures {
        certificate: certify(&hierarchy, &entitled),
        demand,
        allocated: allocated.collect(),
        held: ledger.held_by_path(picture),
        tree,
    }
}
