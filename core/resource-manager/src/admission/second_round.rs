//! What pools can use of what round 0 gave them. The second round gives out the rest.

use crate::demand::ledger::Ledger;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use echelon_core_model::{ReasonCode, Resources, Span, Timestamp, Version};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Holds, Left, LeftWalk, Likeness, Line, Rooms, SecondRound, Side, Turn, Usable};
use std::cell::OnceCell;
use std::collections::BTreeMap;

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
            entitled: second.clone(),
            ordinary: SecondRound::new(ordinary, &first.ordinary, &self.ordinary, &second.ordinary),
            lent: if first.lends_nothing() {
                SecondRound::default()
            } else {
                SecondRound::new(lent, &first.lent, &self.lent, &second.lent)
            },
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
    hopeful: impl Fn(&Likeness, &Line) -> bool,
) -> BothUsable {
    let none = vec![Usable::default(); facts.hierarchy.len()];
    let mut out = BothUsable {
        ordinary: none.clone(),
        lent: none,
    };
    let pairs = out.ordinary.iter_mut().zip(&mut out.lent).enumerate();
    for (i, (ordinary, lent)) in pairs.filter(|(i, _)| facts.hierarchy.is_leaf(*i)) {
        let (taken, taken_lent) = rooms.taken(i);
        ordinary.amount = taken.max_each(facts.hierarchy.kept(i));
        lent.amount = taken_lent;
    }
    let kinds = facts.lent_kinds();
    let most = rooms
        .most_left(Side::Ordinary)
        .max_each(rooms.most_left(Side::Revocable));
    let held = held_turns(ledger, holds);
    let mut walk = PoolWalk::new(rooms);
    for (pool, lines) in ledger.queue().pools() {
        let held = held.get(&pool).map(Vec::as_slice).unwrap_or_default();
        let (Some(ordinary), Some(lent)) = (out.ordinary.get_mut(pool), out.lent.get_mut(pool)) else {
            continue;
        };
        // If not even the smallest request fits into any cluster, only work counts that has not waited long.
        let full = holds.all.is_empty() && !lines.least().fits(most);
        let left = walk.left(pool);
        for (like, line) in lines.iter().filter(|(like, line)| !full || hopeful(like, line)) {
            // A capacity hold is used once the rest of what its unit needs is free.
            let is_held = held.iter().any(|turn| line.has(turn));
            if is_held && !left.is_beyond(like) {
                ordinary.amount = ordinary.amount.plus(like.unit.shape);
                continue;
            }
            let of_lent = match like.terms.side {
                Side::Ordinary => Resources::ZERO,
                Side::Revocable => like.unit.shape.lent_part(kinds),
            };
            let of_ordinary = like.unit.shape.minus(of_lent);
            let there = left.below_root(like.terms.side);
            match left.lacking(like) {
                Some(ReasonCode::NoClusterCapacity) if !hopeful(like, line) => {}
                Some(ReasonCode::PoolEntitlement | ReasonCode::NoClusterCapacity)
                    if !like.unit.shape.fits(there) =>
                {
                    let lacks = like.unit.shape.minus(like.unit.shape.min_each(there)).kinds();
                    ordinary.lacks = ordinary.lacks.max_each(lacks.min_each(of_ordinary.kinds()));
                    lent.lacks = lent.lacks.max_each(lacks.min_each(of_lent.kinds()));
                }
                Some(ReasonCode::NoClusterCapacity) => {
                    ordinary.amount = ordinary.amount.plus(of_ordinary.times(line.waiting()));
                    lent.amount = lent.amount.plus(of_lent.times(line.waiting()));
                }
                _ => {}
            }
        }
    }
    out
}

/// The units that have capacity holds, by the pool in which they wait.
fn held_turns<'a>(ledger: &Ledger, holds: &'a Holds) -> BTreeMap<PoolIdx, Vec<&'a Turn>> {
    let mut out: BTreeMap<PoolIdx, Vec<&Turn>> = BTreeMap::new();
    for turn in holds.all.iter().map(|hold| &hold.turn) {
        if let Some(pool) = ledger.pool_of(turn.job) {
            out.entry(pool).or_default().push(turn);
        }
    }
    out
}

/// The remaining capacity of pools, one after another.
pub(crate) struct PoolWalk<'a> {
    ordinary: LeftWalk<'a>,
    /// No unit of ordinary work that takes more fits into any cluster.
    most: Resources,
}

impl<'a> PoolWalk<'a> {
    pub(crate) fn new(rooms: &'a Rooms) -> Self {
        Self {
            ordinary: LeftWalk::new(rooms, Side::Ordinary),
            most: rooms.most_left(Side::Ordinary),
        }
    }

    /// That of one pool. Pools come best in order of index.
    pub(crate) fn left(&mut self, pool: PoolIdx) -> BothLeft<'a> {
        BothLeft {
            ordinary: self.ordinary.left(pool),
            revocable: OnceCell::new(),
            rooms: self.ordinary.rooms(),
            most: self.most,
            pool,
        }
    }
}

/// The remaining capacity of a pool for each side. That for revocable work is computed once it is asked for.
pub(crate) struct BothLeft<'a> {
    rooms: &'a Rooms,
    pool: PoolIdx,
    most: Resources,
    ordinary: Left,
    revocable: OnceCell<Left>,
}

impl BothLeft<'_> {
    fn of_side(&self, side: Side) -> &Left {
        match side {
            Side::Ordinary => &self.ordinary,
            Side::Revocable => self.revocable.get_or_init(|| self.rooms.left(self.pool, side)),
        }
    }

    /// What pools below the root are entitled to beside what they have.
    fn below_root(&self, side: Side) -> Resources {
        self.of_side(side).below_root
    }

    /// Whether a unit does not fit into that.
    pub(crate) fn is_beyond(&self, like: &Likeness) -> bool {
        !like.unit.shape.fits(self.below_root(like.terms.side))
    }

    pub(crate) fn lacking(&self, like: &Likeness) -> Option<ReasonCode> {
        let side = like.terms.side;
        let most = match side {
            Side::Ordinary => self.most,
            Side::Revocable => Resources::MAX,
        };
        self.rooms.lacking_within(self.of_side(side), like, most)
    }
}

/// What the second round has given for as long as preemption waits. That is enforced like what pools are
/// entitled to. What it gave for a moment only is not.
#[derive(Debug, Clone, Default)]
pub(crate) struct SustainedAmounts {
    /// The version of the pool tree.
    tree: Version,
    /// When the present period began.
    since: Timestamp,
    /// The least that each pool was given in the period before, and in the present one.
    before: Option<Vec<Resources>>,
    present: Option<Vec<Resources>>,
}

impl SustainedAmounts {
    /// Notes what a second round gave, or that none was needed. `period`: how long preemption waits.
    pub(crate) fn note(&mut self, tree: Version, second: Option<&Again>, now: Timestamp, period: Span) {
        let given = second.map(|second| &second.ordinary.given);
        let Some(given) = given.filter(|_| self.tree == tree) else {
            *self = Self {
                tree,
                since: now,
                before: None,
                present: given.cloned(),
            };
            return;
        };
        let least = match self.present.take() {
            Some(least) => least.iter().zip(given).map(|(a, b)| a.min_each(*b)).collect(),
            None => given.clone(),
        };
        if now.since(self.since) >= period {
            self.since = now;
            self.before = Some(least);
            self.present = Some(given.clone());
        } else {
            self.present = Some(least);
        }
    }

    /// What of a pool's second round has lasted.
    pub(crate) fn amount(&self, pool: PoolIdx) -> Resources {
        let of = |all: &Option<Vec<Resources>>| all.as_ref().and_then(|all| all.get(pool)).copied();
        let both = of(&self.before).zip(of(&self.present));
        both.map_or(Resources::ZERO, |(before, present)| before.min_each(present))
    }
}

/// What preemption enforces for pools: what they are entitled to, and what the second round has given for as
/// long as preemption waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnforcedAmounts<'a> {
    pub(crate) first: &'a Entitled,
    pub(crate) sustained: &'a SustainedAmounts,
}

impl EnforcedAmounts<'_> {
    /// Of a pool, in ordinary capacity.
    pub(crate) fn amount(&self, pool: PoolIdx) -> Resources {
        self.first
            .ordinary
            .amount(pool)
            .max_each(self.sustained.amount(pool))
    }
}

/// A second round.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// The version of the pool tree that it used.
    pub(crate) tree: Version,
    /// What pools may use by it.
    pub(crate) entitled: Entitled,
    pub(crate) ordinary: SecondRound,
    pub(crate) lent: SecondRound,
}
