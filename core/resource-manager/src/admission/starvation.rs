//! Since when those who wait find no capacity, though their pool is entitled to it.

use crate::admission::second_round::BothLeft;
use crate::division::Entitled;
use echelon_core_model::{ReasonCode, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Queue, Rooms, Side};
use std::collections::BTreeSet;

/// How often it is noted of each pool who waits for a cluster.
pub(crate) const NOTED: Span = Span::seconds(1);
/// Parts of that, in each of which some of the pools have their turn: looking at everybody who waits takes as long as a cycle.
const TURNS: u64 = 20;

/// Notes since when nobody of a line finds room in a cluster, and since when it finds none there or in a pool above its own although
/// one of it would fit whole inside what its pool is entitled to by itself. What pools above are entitled to is enough for that, and
/// what they may have by their limits: others below them have more than their own. Looks at the pools whose turn has come since it was
/// done before.
pub(crate) fn note(
    queue: &mut Queue,
    rooms: &Rooms,
    first: &Entitled,
    (before, now): (Timestamp, Timestamp),
    somebody_starved: &mut BTreeSet<PoolIdx>,
) {
    let turn = |at: Timestamp| at.0 / (NOTED.0 / TURNS);
    let turns = turn(now).saturating_sub(turn(before));
    let since = |pool: PoolIdx| (pool as u64 + TURNS - turn(before) % TURNS - 1) % TURNS;
    for (pool, lines) in queue.pools_mut().filter(|(pool, _)| since(*pool) < turns) {
        let left = BothLeft::of(rooms, pool);
        let own = first.ordinary.amount(pool).minus(rooms.taken(pool).0);
        somebody_starved.remove(&pool);
        for (like, line) in lines {
            let lacks = left.lacking(rooms, like);
            let waits = lacks == Some(ReasonCode::NoClusterCapacity);
            line.since = waits.then(|| line.since.unwrap_or(now));
            // A pool's limit is told first: nothing but that may be in the way.
            let others_have_it = match lacks {
                Some(ReasonCode::NoClusterCapacity | ReasonCode::PoolEntitlement) => true,
                Some(ReasonCode::PoolLimit) => rooms.count_by_bounds(pool, like.terms, like.unit) > 0,
                _ => false,
            };
            let starved = others_have_it && like.terms.side == Side::Ordinary && like.unit.shape.fits(own);
            line.starved = starved.then(|| line.starved.unwrap_or(now));
            if starved {
                somebody_starved.insert(pool);
            }
        }
    }
}
