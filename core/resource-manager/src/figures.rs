//! How the pools stand: what each wants, has and is entitled to, with the proof. The same division as the cycle's, on the same
//! picture, under the stored tree or under one that somebody thinks of storing.

use crate::picture::Picture;
use crate::quota::{divide, totals};
use crate::room::capacity;
use echelon_core_model::Resources;
use echelon_core_model::pool::PoolTree;
use echelon_core_pools::Hierarchy;
use echelon_core_pools::certificate::{Certificate, certify};
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
    /// What each pool is entitled to, with its proof.
    pub certificate: Certificate,
}

/// How the pools stand, or would stand under `tree` with the demand and capacity of now. `O(jobs + pools log pools)`.
#[must_use]
pub fn figures(picture: &Picture, tree: Option<PoolTree>) -> PoolFigures {
    let tree = tree.unwrap_or_else(|| picture.pools.clone());
    let sums = totals(picture);
    let there = capacity(picture, sums.demand_with_gpus);
    let hierarchy = Hierarchy::new(&tree);
    let entitled = divide(&hierarchy, &sums.ordinary.demand, there);
    PoolFigures {
        certificate: certify(&hierarchy, &entitled),
        demand: sums.ordinary.demand,
        allocated: sums.ordinary.allocated,
        tree,
    }
}
