//! Tracks since when waiting requests find no capacity although their pool is entitled to it.

use crate::admission::second_round::BothLeft;
use crate::division::Entitled;
use echelon_core_model::{ReasonCode, Span, Timestamp};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Queue, Rooms, Side};
use std::collections::BTreeSet;

/// How often each pool is checked for requests that wait for a cluster.
pub(crate) const NOTED: Span = Span::seconds(1);
/// Parts of that time. In each part some of the pools are checked, because checking all of them takes as long
/// as a cycle.
const TURNS: u64 = 20;

/// Notes for each equivalence class of requests since when no cluster has capacity for it, and since when it
/// is starved. A class is starved if it finds no capacity in a cluster, or in a pool above its own, although
/// one unit of it would fit inside what is left of its own pool's entitlement. Pools above may have used up
/// their entitlement or limit: then other pools below them have more than their own. Revocable work is never
/// starved. Checks the pools that are due since the last call.
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
            // `lacking` reports a pool's limit first. No other bound may be in the way.
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
