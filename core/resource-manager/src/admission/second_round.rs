//! What pools can use of what round 0 gave them. The second round gives out the rest.

use crate::demand::ledger::Ledger;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use echelon_core_model::{ReasonCode, Resources, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Holds, Left, Likeness, Line, Rooms, SecondRound, Side, Usable};

/// What leaf pools can use of what round 0 gave them, by index.
pub(crate) struct BothUsable {
    pub(crate) ordinary: Vec<Usable>,
    pub(crate) lent: Vec<Usable>,
}

impl BothUsable {
    /// What the second round made of it.
    pub(crate) fn gave(&self, facts: &FederationFacts, first: &Entitled, second: &Entitled) -> Again {
        let (ordinary, lent) = (&facts.hierarchy, &facts.by_shares);
        Again {
            tree: facts.pools.version,
            ordinary: SecondRound::new(ordinary, &first.ordinary, &self.ordinary, &second.ordinary),
            lent: SecondRound::new(lent, &first.lent, &self.lent, &second.lent),
        }
    }

    /// What of this is not taken yet.
    pub(crate) fn not_taken<'a>(
        &'a self,
        rooms: &'a Rooms,
    ) -> impl Iterator<Item = (PoolIdx, Resources, Resources)> + 'a {
        let pairs = self.ordinary.iter().zip(&self.lent).enumerate();
        pairs.map(|(i, (ordinary, lent))| {
            let (taken, taken_lent) = rooms.taken(i);
            (i, ordinary.amount.minus(taken), lent.amount.minus(taken_lent))
        })
    }
}

/// What leaf pools have, plus what they need for work that has not waited long for a cluster. A static pool
/// has at least its reservation.
pub(crate) fn usable(
    (facts, ledger, holds): (&FederationFacts, &Ledger, &Holds),
    rooms: &Rooms,
    hopeful: impl Fn(&Line) -> bool,
) -> BothUsable {
    let none = vec![Usable::default(); facts.hierarchy.len()];
    let mut out = BothUsable {
        ordinary: none.clone(),
        lent: none,
    };
    let pairs = out.ordinary.iter_mut().zip(&mut out.lent).enumerate();
    for (i, (ordinary, lent)) in pairs.filter(|(i, _)| facts.hierarchy.is_leaf(*i)) {
        let (taken, taken_lent) = rooms.taken(i);
        let kept = facts.hierarchy.pool(i).map(|p| p.kept()).unwrap_or_default();
        ordinary.amount = taken.max_each(kept);
        lent.amount = taken_lent;
    }
    let kinds = facts.lent_kinds();
    let most = rooms
        .most_left(Side::Ordinary)
        .max_each(rooms.most_left(Side::Revocable));
    for (pool, lines) in ledger.queue().pools() {
        let (Some(ordinary), Some(lent)) = (out.ordinary.get_mut(pool), out.lent.get_mut(pool)) else {
            continue;
        };
        // If not even the smallest request fits into any cluster, only work counts that has not waited long.
        let full = holds.all.is_empty() && !lines.least().fits(most);
        let left = BothLeft::of(rooms, pool);
        for (like, line) in lines.iter().filter(|(_, line)| !full || hopeful(line)) {
            // The capacity hold of a gang is used once the rest of what it needs is free.
            if !holds.all.is_empty() && line.turns().any(|t| holds.all.iter().any(|h| h.turn == *t)) {
                ordinary.amount = ordinary.amount.plus(like.unit.shape);
                continue;
            }
            let of_lent = match like.terms.side {
                Side::Ordinary => Resources::ZERO,
                Side::Revocable => like.unit.shape.lent_part(kinds),
            };
            let of_ordinary = like.unit.shape.minus(of_lent);
            match left.lacking(rooms, like) {
                Some(ReasonCode::PoolEntitlement) => {
                    let there = left.of_side(like.terms.side).by_entitlement;
                    let lacks = like.unit.shape.minus(like.unit.shape.min_each(there)).kinds();
                    ordinary.lacks = ordinary.lacks.max_each(lacks.min_each(of_ordinary.kinds()));
                    lent.lacks = lent.lacks.max_each(lacks.min_each(of_lent.kinds()));
                }
                Some(ReasonCode::NoClusterCapacity) if hopeful(line) => {
                    ordinary.amount = ordinary.amount.plus(of_ordinary.times(line.waiting()));
                    lent.amount = lent.amount.plus(of_lent.times(line.waiting()));
                }
                _ => {}
            }
        }
    }
    out
}

/// The remaining capacity of a pool for each side.
pub(crate) struct BothLeft {
    ordinary: Left,
    revocable: Left,
}

impl BothLeft {
    pub(crate) fn of(rooms: &Rooms, pool: PoolIdx) -> Self {
        Self {
            ordinary: rooms.left(pool, Side::Ordinary),
            revocable: rooms.left(pool, Side::Revocable),
        }
    }

    const fn of_side(&self, side: Side) -> &Left {
        match side {
            Side::Ordinary => &self.ordinary,
            Side::Revocable => &self.revocable,
        }
    }

    pub(crate) fn lacking(&self, rooms: &Rooms, like: &Likeness) -> Option<ReasonCode> {
        rooms.lacking(self.of_side(like.terms.side), like)
    }
}

/// A second round.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// The version of the pool tree that it used.
    pub(crate) tree: Version,
    pub(crate) ordinary: SecondRound,
    pub(crate) lent: SecondRound,
}
