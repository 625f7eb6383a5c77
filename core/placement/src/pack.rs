//! Best fit: each instance goes to the fullest host that it fits on, ties to the lower host id. Fullest is by what is left
//! over all kinds together, so the order of hosts is one for all shapes.

use crate::room::{HostIdx, Room};
use crate::strategy::{Run, Seated, Strategy, avoided};

/// The strategy for batch.
#[derive(Debug, Clone, Copy)]
pub struct Pack;

impl Strategy for Pack {
    /// `O(log hosts)` an item, and a walk over the hosts for each host that is filled.
    fn seat<'a>(&self, run: &Run<'a>, room: &mut Room<'_>) -> Vec<Seated<'a>> {
        let mut out = Vec::with_capacity(run.items.len());
        // The best host of an item that avoids none. It stays the best until it is full: it only becomes fuller, and what
        // stands before it did not fit.
        let mut best: Option<HostIdx> = None;
        for &item in &run.items {
            best = best
                .filter(|h| run.may_use(*h, room))
                .or_else(|| room.fullest_first().find(|h| run.may_use(*h, room)));
            let Some(plain) = best else { break };
            let avoid = avoided(item, room);
            let host = if avoid.contains(&plain) {
                let other = |h: &HostIdx| !avoid.contains(h) && run.may_use(*h, room);
                room.fullest_first().find(other).unwrap_or(plain)
            } else {
                plain
            };
            let ports = room.take(host, run.wanted);
            if host != plain {
                // It may have become fuller than the best one.
                best = None;
            }
            out.push(Seated {
                item,
                host,
                ports,
                avoided: avoid.contains(&host),
            });
        }
        out
    }
}
