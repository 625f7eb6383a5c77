//! The second round of entitlement: what pools cannot use of round 0, because they are out of another kind, is given out again by
//! the same rule. Each keeps what it can use. First the kinds that are asked for are given out, then of the other kinds as much as
//! goes with them; no round is repeated until it looks stable.

use crate::certificate::SecondLine;
use crate::entitle::{Entitlements, caps, divide, set};
use crate::hierarchy::{Hierarchy, PoolIdx, ROOT};
use echelon_core_model::resources::{Kind, Resources};

/// What a leaf can use of what round 0 gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usable {
    /// What it has and what it is about to have.
    pub amount: Resources,
    /// 1 of each kind of which it is out while it could use more; none when nothing of it waits for entitlement.
    pub lacks: Resources,
}

/// Divides anew what `usable`, by index, leaves of round 0.
pub fn give_out_again(hierarchy: &Hierarchy, first: &Entitlements, usable: &[Usable]) -> Entitlements {
    let used: Vec<Resources> = hierarchy
        .indexes()
        .map(|i| {
            usable
                .get(i)
                .map_or(Resources::ZERO, |u| u.amount)
                .min_each(first.amount(i))
        })
        .collect();
    let lacks = |i: PoolIdx| usable.get(i).map_or(Resources::ZERO, |u| u.lacks);
    let of_leaf = |i: PoolIdx| used.get(i).copied().unwrap_or_default();
    let asked = |i: PoolIdx| first.cap(i).where_asked(lacks(i), of_leaf(i));
    let between = among(hierarchy, first, &used, asked);
    let grows = |i: PoolIdx| {
        let (cap, used) = (first.cap(i), of_leaf(i));
        let along = goes_with(cap, used, between.amount(i), lacks(i));
        cap.where_asked(lacks(i), used.plus(along).min_each(cap))
    };
    let grows_along = |i: &PoolIdx| hierarchy.is_leaf(*i) && grows(*i) != asked(*i);
    if hierarchy.indexes().any(|i| grows_along(&i)) {
        among(hierarchy, first, &used, grows)
    } else {
        between
    }
}

/// What the second round went by and gave, by index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecondRound {
    /// What round 0 gave.
    pub first: Vec<Resources>,
    /// What each keeps of it because it can use it; an inner pool what those below it keep.
    pub usable: Vec<Resources>,
    /// What each may use in the end.
    pub given: Vec<Resources>,
}

impl SecondRound {
    /// Of what `give_out_again` was asked and gave. `O(pools)`.
    #[must_use]
    pub fn new(hierarchy: &Hierarchy, first: &Entitlements, usable: &[Usable], given: &Entitlements) -> Self {
        let all = |of: &Entitlements| hierarchy.indexes().map(|i| of.amount(i)).collect();
        let mut out = Self {
            first: all(first),
            usable: vec![Resources::ZERO; hierarchy.len()],
            given: all(given),
        };
        for i in hierarchy.indexes().rev() {
            let sum = if hierarchy.is_leaf(i) {
                let can = usable.get(i).map_or(Resources::ZERO, |u| u.amount);
                can.min_each(first.amount(i))
            } else {
                let below = hierarchy.children(i).filter_map(|c| out.usable.get(c));
                below.fold(Resources::ZERO, |sum, r| sum.plus(*r))
            };
            set(&mut out.usable, i, |_| sum);
        }
        out
    }

    /// The same with paths, for whoever checks it.
    #[must_use]
    pub fn lines(&self, hierarchy: &Hierarchy) -> Vec<SecondLine> {
        let of = |list: &[Resources], i: PoolIdx| list.get(i).copied().unwrap_or_default();
        let line = |i: PoolIdx| SecondLine {
            path: hierarchy.pool(i).map_or("/", |p| p.path.as_str()).to_owned(),
            first: of(&self.first, i),
            usable: of(&self.usable, i),
            amount: of(&self.given, i),
        };
        hierarchy.indexes().map(line).collect()
    }
}

/// Divides what there is among leaves that keep what is `used` and can have so much at most.
fn among(
    hierarchy: &Hierarchy,
    first: &Entitlements,
    used: &[Resources],
    most: impl Fn(PoolIdx) -> Resources,
) -> Entitlements {
    let mut wanted = vec![Resources::ZERO; hierarchy.len()];
    let mut kept = vec![Resources::ZERO; hierarchy.len()];
    for i in hierarchy.indexes().rev() {
        if hierarchy.is_leaf(i) {
            set(&mut wanted, i, |_| most(i));
            set(&mut kept, i, |_| used.get(i).copied().unwrap_or_default());
        } else {
            let below = hierarchy.children(i).filter_map(|c| kept.get(c));
            let sum = below.fold(Resources::ZERO, |sum, r| sum.plus(*r));
            set(&mut kept, i, |_| sum);
        }
    }
    let caps = caps(hierarchy, &wanted);
    divide(hierarchy, caps, &kept, first.amount(ROOT))
}

/// What a pool of this mix needs of every kind to make use of what it got of the kinds that it lacked.
fn goes_with(mix: Resources, before: Resources, after: Resources, lacked: Resources) -> Resources {
    let lacked = Kind::ALL
        .into_iter()
        .filter(|k| lacked.get(*k) > 0 && mix.get(*k) > 0);
    let each = lacked.map(|scarce| {
        let more = u128::from(after.get(scarce).saturating_sub(before.get(scarce)));
        Kind::ALL.into_iter().fold(Resources::ZERO, |out, kind| {
            let units = (more * u128::from(mix.get(kind))).div_ceil(u128::from(mix.get(scarce)));
            out.with(kind, u64::try_from(units).unwrap_or(u64::MAX))
        })
    });
    each.reduce(Resources::min_each).unwrap_or_default()
}
