//! How the pools stand: what each wants, has and is entitled to, with the proof, of ordinary and of revocable
//! capacity. It is the same division as the cycle's, on the same state,
//! under the stored tree or under a proposed one.

use crate::answers::{PoolFigures, SideFigures};
use crate::demand::capacity::{capacity, closed, lent};
use crate::demand::entry::sums::{BothSums, Sums};
use crate::demand::pool_demand::{Wanted, demands};
use crate::picture::Picture;
use echelon_core_model::Resources;
use echelon_core_model::pool::PoolTree;
use echelon_core_pools::certificate::certify;
use echelon_core_pools::tree::of_lent_room;
use echelon_core_pools::{Hierarchy, SecondRound, entitle};
use std::collections::BTreeMap;

/// One of the two sides, in the terms of the cycle.
struct Which {
    wanted: fn(&Wanted) -> Resources,
    sums: fn(&BothSums) -> &Sums,
}

/// How the pools stand, or would stand under `tree` with the demand and capacity of now.
/// `O(pools log pools)`.
#[must_use]
pub fn figures(picture: &Picture, tree: Option<PoolTree>) -> PoolFigures {
    let is_stored = tree.is_none();
    let tree = tree.unwrap_or_else(|| PoolTree::clone(&picture.facts.pools));
    let ordinary = Which {
        wanted: |w| w.ordinary,
        sums: |s| &s.ordinary,
    };
    let of_lent = Which {
        wanted: |w| w.lent,
        sums: |s| &s.lent,
    };
    let there = capacity(&picture.facts, &picture.demand.ledger);
    let again = picture.admission.second_round.as_ref();
    let again = again.filter(|again| is_stored && again.tree == tree.version);
    let (hierarchy, by_shares) = (Hierarchy::new(&tree), Hierarchy::new(&of_lent_room(&tree)));
    let mut out = PoolFigures {
        ordinary: side(picture, &hierarchy, &ordinary, there),
        lent: side(
            picture,
            &by_shares,
            &of_lent,
            lent(&picture.facts, &picture.demand.ledger),
        ),
        closed: closed(&picture.facts, &picture.demand.ledger),
        held: picture.demand.ledger.held_by_path(&picture.facts),
        tree,
    };
    if let Some(again) = again {
        let second = |side: &SideFigures, second: &SecondRound, hierarchy| {
            let lines = second.lines(hierarchy);
            let first = side.certificate.lines.iter().map(|l| l.amount);
            first.eq(lines.iter().map(|l| l.first)).then_some(lines)
        };
        // Until the next cycle it may be about other demands than those of now.
        let both = second(&out.ordinary, &again.ordinary, &hierarchy).zip(second(
            &out.lent,
            &again.lent,
            &by_shares,
        ));
        if let Some((ordinary, lent)) = both {
            out.ordinary.second = ordinary;
            out.lent.second = lent;
        }
    }
    out
}

fn side(picture: &Picture, hierarchy: &Hierarchy, which: &Which, there: Resources) -> SideFigures {
    let capped = demands(&picture.facts, &picture.demand.ledger)
        .into_iter()
        .filter_map(|(i, w)| {
            let path = picture.facts.hierarchy.pool(i)?.path.clone();
            Some((path, (which.wanted)(&w)))
        });
    let sums = picture.demand.ledger.by_path(&picture.facts);
    let wanted = sums
        .iter()
        .map(|(path, s)| (path.clone(), (which.sums)(s).demand));
    let demand: BTreeMap<String, Resources> = wanted.chain(capped).collect();
    let mut wanted = vec![Resources::ZERO; hierarchy.len()];
    for (path, amount) in &demand {
        if let Some(slot) = hierarchy.find(path).and_then(|i| wanted.get_mut(i)) {
            *slot = *amount;
        }
    }
    let allocated = sums
        .iter()
        .map(|(path, s)| (path.clone(), (which.sums)(s).allocated));
    SideFigures {
        certificate: certify(hierarchy, &entitle(hierarchy, &wanted, there)),
        allocated: allocated.collect(),
        demand,
        second: Vec::new(),
    }
}
