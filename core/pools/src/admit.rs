//! Which waiting instances are admitted: by priority, then age, as many whole instances as fit into their pool, every pool above
//! it, and the clusters that they are assigned to. What cannot fit does not block what can behind it. Each refusal says which
//! room was too small.

use crate::fill::{Taker, fill};
use crate::rooms::Rooms;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Reason, ReasonCode};
use std::collections::BTreeMap;

/// A part of a group that waits at one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRequest {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// What it has: granted or active.
    pub allocated: u64,
    /// How many more it could use.
    pub more: u64,
}

/// A group that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The job; older jobs have smaller ids.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Its pool's path.
    pub pool: String,
    /// Higher goes first.
    pub priority: u32,
    /// Room of one instance.
    pub shape: Resources,
    /// How many more of the whole group may be active (`max_running`).
    pub room: u64,
    /// Its parts.
    pub slices: Vec<SliceRequest>,
}

/// Why some instances of a slice were not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// How many more each slice gets; slices that get none are left out.
    pub more: Vec<(ClusterId, Generation, u64)>,
    /// Who gets none, and why.
    pub refused: Vec<Refusal>,
}

/// Admits what fits, taking its room out of `rooms`. The order of `requests` does not matter.
#[must_use]
pub fn admit(requests: &[Request], rooms: &mut Rooms) -> Vec<Admission> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by(|a, b| (b.priority, a.job, &a.group).cmp(&(a.priority, b.job, &b.group)));
    order
        .into_iter()
        .map(|request| admit_one(request, rooms))
        .collect()
}

fn admit_one(request: &Request, rooms: &mut Rooms) -> Admission {
    let shape = request.shape;
    let most = request.room.min(rooms.pool_count(&request.pool, shape));
    let more = spread_over(request, most, rooms);
    let total = more.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    rooms.take_pools(&request.pool, shape.times(total));
    for (slice, n) in request.slices.iter().zip(&more) {
        rooms.take_cluster(&slice.cluster, shape.times(*n));
    }
    let refused = request
        .slices
        .iter()
        .zip(&more)
        .filter(|(slice, n)| slice.more > **n)
        .map(|(slice, n)| Refusal {
            cluster: slice.cluster.clone(),
            generation: slice.generation,
            count: slice.more - n,
            reason: refusal(request, slice, request.room.saturating_sub(total), rooms),
        })
        .collect();
    let more = request.slices.iter().zip(more).filter(|(_, n)| *n > 0);
    Admission {
        job: request.job,
        group: request.group.clone(),
        more: more.map(|(s, n)| (s.cluster.clone(), s.generation, n)).collect(),
        refused,
    }
}

/// Gives `most` to the slices one at a time, to the one that has the least, within what each can use and its cluster has.
fn spread_over(request: &Request, most: u64, rooms: &Rooms) -> Vec<u64> {
    // Two slices of one group at one cluster share its room: each sees what those before it leave.
    let mut left: BTreeMap<&ClusterId, u64> = BTreeMap::new();
    let takers: Vec<Taker> = request
        .slices
        .iter()
        .map(|slice| {
            let room = left.entry(&slice.cluster).or_insert_with(|| {
                request
                    .shape
                    .count_in(rooms.cluster(&slice.cluster, request.shape))
            });
            let n = slice.more.min(*room);
            *room -= n;
            Taker {
                weight: 1,
                start: slice.allocated,
                most: slice.allocated.saturating_add(n),
            }
        })
        .collect();
    let filled = fill(most, &takers).into_iter();
    filled.zip(&takers).map(|(n, t)| n - t.start).collect()
}

fn refusal(request: &Request, slice: &SliceRequest, room: u64, rooms: &Rooms) -> Reason {
    if room == 0 {
        return Reason::new(ReasonCode::MaxRunning);
    }
    let cluster = rooms.cluster(&slice.cluster, request.shape);
    let pool = rooms.pool_refusal(&request.pool, request.shape);
    let is_limit = |r: &Reason| r.code != ReasonCode::PoolEntitlement;
    if let Some(reason) = pool.clone().filter(is_limit) {
        return reason;
    }
    match request.shape.first_lack(cluster) {
        Some(kind) => Reason::new(ReasonCode::NoClusterCapacity)
            .at(slice.cluster.as_str())
            .short(Shortfall {
                kind,
                have: cluster.get(kind),
                need: request.shape.get(kind),
            }),
        None => pool.unwrap_or_else(|| Reason::new(ReasonCode::MaxRunning)),
    }
}

#[cfg(test)]
mod tests;
