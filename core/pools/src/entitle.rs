//! What each pool may use now: hierarchical max-min fairness, exact, for each kind by itself, top-down. A child's cap is
//! min(limit, demand), an inner pool's demand being the sum of its children's caps, and a static pool's at least its reservation;
//! its floor is min(reservation, cap). Units go
//! first to children below their floor, by least (given + 1) / floor; then to those below their cap, by least (given above
//! floor + 1) / share; then equally among those with share 0. Ties go by pool id.
//!
//! That is round 0. A second round gives out again what pools cannot use because they are out of another kind.

use crate::fill::{Level, Taker, level};
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use echelon_core_model::pool::Pool;
use echelon_core_model::resources::{Kind, Resources};
use std::collections::BTreeMap;

/// The three phases in which a node gives out units of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// To those below their floor.
    Floors,
    /// To those below their cap, by share.
    Shares,
    /// To those without a share.
    Rest,
}

impl Phase {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Floors, Self::Shares, Self::Rest];
}

/// How far a node's units of one kind went, by phase.
pub type Levels = [Level; 3];

pub(crate) const FULL: Levels = [Level::Full; 3];

/// What each pool may use now, by its index in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Entitlements {
    caps: Vec<Resources>,
    amounts: Vec<Resources>,
    /// Of inner nodes, by kind. There are few of these, and a node's levels take half a kilobyte.
    levels: BTreeMap<PoolIdx, [Levels; 4]>,
}

impl Entitlements {
    /// Another cap, which changes no amount.
    pub(crate) fn set_cap(&mut self, pool: PoolIdx, cap: Resources) {
        set(&mut self.caps, pool, |_| cap);
    }

    /// Another amount.
    pub(crate) fn set_amount(&mut self, pool: PoolIdx, amount: Resources) {
        set(&mut self.amounts, pool, |_| amount);
    }

    /// What a pool may use; of the root, all that there is.
    #[must_use]
    pub fn amount(&self, pool: PoolIdx) -> Resources {
        self.amounts.get(pool).copied().unwrap_or_default()
    }

    /// min(limit, demand): more would be of no use to it.
    #[must_use]
    pub fn cap(&self, pool: PoolIdx) -> Resources {
        self.caps.get(pool).copied().unwrap_or_default()
    }

    /// How far a node's units of a kind went among its children.
    #[must_use]
    pub fn levels(&self, node: PoolIdx, kind: Kind) -> Levels {
        let of_node = self.levels.get(&node);
        of_node
            .and_then(|l| l.get(kind as usize))
            .copied()
            .unwrap_or(FULL)
    }
}

/// Divides `capacity` over the pools. `demand` is by index; that of inner pools counts nothing. Round 0.
pub fn entitle(hierarchy: &Hierarchy, demand: &[Resources], capacity: Resources) -> Entitlements {
    let none = vec![Resources::ZERO; hierarchy.len()];
    let caps = caps(hierarchy, demand);
    divide(hierarchy, caps, &none, capacity)
}

pub(crate) fn set(list: &mut [Resources], i: PoolIdx, change: impl FnOnce(Resources) -> Resources) {
    if let Some(slot) = list.get_mut(i) {
        *slot = change(*slot);
    }
}

/// What is of use to a pool of which so much is wanted; the root has no bounds.
pub(crate) fn cap(pool: Option<&Pool>, wanted: Resources) -> Resources {
    pool.map_or(wanted, |p| wanted.max_each(p.kept()).min_each(p.limit))
}

/// min(limit, demand) of every node, a static pool's demand being at least its reservation; of the root the sum of its children's.
pub(crate) fn caps(hierarchy: &Hierarchy, demand: &[Resources]) -> Vec<Resources> {
    let mut caps = vec![Resources::ZERO; hierarchy.len()];
    for i in hierarchy.indexes().rev() {
        let wanted = if hierarchy.is_leaf(i) {
            demand.get(i).copied().unwrap_or_default()
        } else {
            let children = hierarchy.children(i).filter_map(|c| caps.get(c));
            children.fold(Resources::ZERO, |sum, c| sum.plus(*c))
        };
        set(&mut caps, i, |_| cap(hierarchy.pool(i), wanted));
    }
    caps
}

/// Divides what each node has over its children, which keep what they have.
pub(crate) fn divide(
    hierarchy: &Hierarchy,
    caps: Vec<Resources>,
    kept: &[Resources],
    capacity: Resources,
) -> Entitlements {
    let mut out = Entitlements {
        amounts: vec![Resources::ZERO; hierarchy.len()],
        levels: BTreeMap::new(),
        caps,
    };
    set(&mut out.amounts, ROOT, |_| capacity);
    let mut parts = Vec::new();
    let is_inner = |i: &PoolIdx| *i == ROOT || !hierarchy.is_leaf(*i);
    for node in hierarchy.indexes().filter(is_inner) {
        for kind in Kind::ALL {
            divide_node(hierarchy, &mut out, kept, (node, kind), &mut parts, |_| ());
        }
    }
    out
}

/// Divides what a node has of one kind over its children, which keep what they have. Calls `changed` with
/// each child that gets another amount than before. `parts` only saves allocations.
pub(crate) fn divide_node(
    hierarchy: &Hierarchy,
    out: &mut Entitlements,
    kept: &[Resources],
    (node, kind): (PoolIdx, Kind),
    parts: &mut Vec<Part>,
    mut changed: impl FnMut(PoolIdx),
) {
    let children = hierarchy.children(node);
    parts.clear();
    parts.extend(children.clone().map(|c| {
        let kept = kept.get(c).map_or(0, |r| r.get(kind));
        Part::new(hierarchy.pool(c), kind, out.cap(c).get(kind), kept)
    }));
    let levels = share_out(out.amount(node).get(kind), parts);
    for (i, (child, part)) in children.zip(parts.iter()).enumerate() {
        let units = part.units(i, &levels);
        set(&mut out.amounts, child, |r| {
            if r.get(kind) != units {
                changed(child);
            }
            r.with(kind, units)
        });
    }
    let of_node = out.levels.entry(node).or_insert([FULL; 4]);
    if let Some(slot) = of_node.get_mut(kind as usize) {
        *slot = levels;
    }
}

/// A child in the division of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    cap: u64,
    floor: u64,
    share: u64,
    kept: u64,
}

impl Part {
    pub(crate) fn new(pool: Option<&Pool>, kind: Kind, cap: u64, kept: u64) -> Self {
        Self {
            cap,
            floor: pool.map_or(0, |p| p.reservation.get(kind)).min(cap),
            share: pool.map_or(0, |p| p.share.get(kind)),
            kept: kept.min(cap),
        }
    }

    /// What it may take in a phase. What it keeps counts first towards its floor.
    pub(crate) fn taker(&self, phase: Phase) -> Taker {
        let above = Taker {
            weight: self.share,
            start: self.kept.saturating_sub(self.floor),
            most: self.cap - self.floor,
        };
        match phase {
            Phase::Floors => Taker {
                weight: self.floor,
                start: self.kept.min(self.floor),
                most: self.floor,
            },
            Phase::Shares if self.share > 0 => above,
            Phase::Rest if self.share == 0 => Taker { weight: 1, ..above },
            Phase::Shares | Phase::Rest => Taker::default(),
        }
    }

    pub(crate) fn units(&self, index: usize, levels: &Levels) -> u64 {
        let of_phase = |(phase, level): (Phase, &Level)| level.units(index, &self.taker(phase));
        Phase::ALL.into_iter().zip(levels).map(of_phase).sum()
    }
}

/// How far `amount` goes in each phase.
fn share_out(amount: u64, parts: &[Part]) -> Levels {
    let kept = parts.iter().fold(0u64, |sum, p| sum.saturating_add(p.kept));
    let mut left = amount.saturating_sub(kept);
    let mut takers = Vec::with_capacity(parts.len());
    Phase::ALL.map(|phase| {
        takers.clear();
        takers.extend(parts.iter().map(|p| p.taker(phase)));
        let level = level(left, &takers);
        let each = takers.iter().enumerate();
        let given = each.map(|(i, t)| level.units(i, t) - t.start);
        left = left.saturating_sub(given.fold(0, u64::saturating_add));
        level
    })
}

#[cfg(test)]
pub(crate) mod tests;
