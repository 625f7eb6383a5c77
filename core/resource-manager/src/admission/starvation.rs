//! Tracks since when waiting requests find no capacity although their pool is entitled to it.

use crate::admission::second_round::{BothLeft, EnforcedAmounts, PoolWalk};
use crate::demand::ledger::Ledger;
use echelon_core_model::{ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Likeness, Line, Rooms, Side, Turn};
use std::collections::BTreeSet;

/// How often each pool is checked for requests that wait for a cluster.
pub(crate) const NOTED: Span = Span::seconds(1);
/// Parts of that time. In each part some of the pools are checked, because checking all of them takes as long
/// as a cycle.
const TURNS: u64 = 20;
/// Most jobs of a pool that are looked at for one equivalence class.
const LOOKS: usize = 512;

/// What is noted of one equivalence class of requests.
#[derive(Debug, Clone, Copy)]
struct ClassState {
    /// No cluster has capacity for it.
    waits: bool,
    starved: bool,
}

/// Notes for each equivalence class of requests since when no cluster has capacity for it, and since when it
/// is starved. Checks the pools that are due since the last call.
///
/// A class is starved if it finds no capacity in a cluster or a pool, although its first unit would fit inside
/// what its own pool may use, before all work of that pool that comes after it. What a pool may use is what
/// preemption enforces. Pools above may have used up their entitlement or limit: then other pools below them
/// have more than their own. Revocable work is never starved.
pub(crate) fn note(
    ledger: &mut Ledger,
    rooms: &Rooms,
    enforced: EnforcedAmounts<'_>,
    (before, now): (Timestamp, Timestamp),
    starved_pools: &mut BTreeSet<PoolIdx>,
) {
    let turn = |at: Timestamp| at.0 / (NOTED.0 / TURNS);
    let turns = turn(now).saturating_sub(turn(before));
    let since = |pool: PoolIdx| (pool as u64 + TURNS - turn(before) % TURNS - 1) % TURNS;
    let due = |pool: PoolIdx| since(pool) < turns;
    let end = ledger.queue().last_pool().map_or(0, |last| last + 1);
    let pools = (0..end).filter(|pool| due(*pool));
    let pools = pools.filter_map(|pool| Some((pool, ledger.queue().lines_of(pool)?)));
    let mut walk = PoolWalk::new(rooms);
    let found = pools.map(|(pool, lines)| {
        let left = walk.left(pool);
        let of = |(like, line): (&Likeness, &Line)| {
            class_state((ledger, rooms, enforced), pool, (like, line), &left)
        };
        (pool, lines.iter().map(of).collect())
    });
    let found: Vec<(PoolIdx, Vec<ClassState>)> = found.collect();
    for (pool, states) in found {
        starved_pools.remove(&pool);
        for ((_, line), state) in ledger.queue_mut().lines_mut_of(pool).zip(states) {
            line.since = state.waits.then(|| line.since.unwrap_or(now));
            line.starved = state.starved.then(|| line.starved.unwrap_or(now));
            if state.starved {
                starved_pools.insert(pool);
            }
        }
    }
}

fn class_state(
    (ledger, rooms, enforced): (&Ledger, &Rooms, EnforcedAmounts<'_>),
    pool: PoolIdx,
    (like, line): (&Likeness, &Line),
    left: &BothLeft<'_>,
) -> ClassState {
    let lacks = left.lacking(like);
    // `lacking` reports a pool's limit first. No other bound may be in the way.
    let is_made = match lacks {
        Some(ReasonCode::NoClusterCapacity | ReasonCode::PoolEntitlement) => true,
        Some(ReasonCode::PoolLimit) => rooms.count_by_bounds(pool, like.terms, like.unit) > 0,
        _ => false,
    };
    let fits = || {
        let own = OwnCapacity {
            ledger,
            pool,
            entitled: enforced.amount(pool),
            taken: rooms.taken(pool).0,
        };
        line.turns()
            .next()
            .is_some_and(|turn| own.fits(like.unit.shape, turn))
    };
    ClassState {
        waits: lacks == Some(ReasonCode::NoClusterCapacity),
        starved: is_made && like.terms.side == Side::Ordinary && fits(),
    }
}

/// What a pool is entitled to, and what its jobs have.
struct OwnCapacity<'a> {
    ledger: &'a Ledger,
    pool: PoolIdx,
    entitled: Resources,
    taken: Resources,
}

impl OwnCapacity<'_> {
    /// Whether a unit fits inside the entitlement before all work of the pool that comes after it.
    fn fits(&self, shape: Resources, turn: &Turn) -> bool {
        if !shape.fits(self.entitled) {
            return false;
        }
        let mut before = self.taken;
        let mut later = self.ledger.holders_after(self.pool, turn).take(LOOKS);
        loop {
            if shape.fits(self.entitled.minus(before)) {
                return true;
            }
            let Some(id) = later.next() else { return false };
            let has = self.ledger.ordinary_at(id);
            before = has.fold(before, |before, (_, has)| before.minus(has));
        }
    }
}
