//! Spreading: each instance goes to the host with the fewest instances of its group, among these to the roomiest, ties to
//! the higher host id.

use crate::room::{HostIdx, Rank, Room};
use crate::strategy::{Run, Seated, Strategy, avoided};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The strategy for services.
#[derive(Debug, Clone, Copy)]
pub struct Spread;

impl Strategy for Spread {
    /// `O(log hosts)` an item beside one walk over the hosts for the whole run.
    fn seat<'a>(&self, run: &Run<'a>, room: &mut Room<'_>) -> Vec<Seated<'a>> {
        let mut hosts = Candidates::new(run, room);
        let mut out = Vec::with_capacity(run.items.len());
        for &item in &run.items {
            let avoid = avoided(item, room);
            let Some((count, host)) = hosts.choose(&avoid, run, room) else {
                break;
            };
            let ports = room.take(host, run.wanted);
            hosts.seated(host, count + 1, run, room);
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

/// Fewest of the group first, then the roomiest.
type Key = Reverse<(u32, Reverse<Rank>)>;

/// Hosts by key. Those that have none of the group yet are drawn from the room's order only when they are needed, so
/// that a small group does not look at every host.
struct Candidates {
    counts: BTreeMap<HostIdx, u32>,
    heap: BinaryHeap<Key>,
    drawn: Option<Rank>,
}

impl Candidates {
    fn new(run: &Run<'_>, room: &Room<'_>) -> Self {
        let counts: BTreeMap<HostIdx, u32> = run
            .wanted
            .present
            .iter()
            .filter(|(_, n)| **n > 0)
            .filter_map(|(id, n)| Some((room.find(id)?, *n)))
            .collect();
        let heap = counts
            .iter()
            .filter(|(h, _)| run.may_use(**h, room))
            .map(|(h, n)| key(*h, *n, room))
            .collect();
        Self {
            counts,
            heap,
            drawn: None,
        }
    }

    /// The best host that is not avoided, else the best one.
    fn choose(&mut self, avoid: &[HostIdx], run: &Run<'_>, room: &Room<'_>) -> Option<(u32, HostIdx)> {
        let mut passed_over = Vec::new();
        let chosen = loop {
            match self.next(run, room) {
                Some(key) if avoid.contains(&host_of(&key)) => passed_over.push(key),
                other => break other,
            }
        };
        let mut passed_over = passed_over.into_iter();
        let chosen = chosen.or_else(|| passed_over.next());
        self.heap.extend(passed_over);
        chosen.map(|Reverse((count, Reverse((_, host))))| (count, host))
    }

    /// The next best host. What is in the heap without any of the group is roomier than what was not drawn yet.
    fn next(&mut self, run: &Run<'_>, room: &Room<'_>) -> Option<Key> {
        if !matches!(self.heap.peek(), Some(Reverse((0, _)))) {
            while let Some(rank) = room.roomiest_below(self.drawn) {
                self.drawn = Some(rank);
                let (_, host) = rank;
                if !self.counts.contains_key(&host) && run.may_use(host, room) {
                    return Some(key(host, 0, room));
                }
            }
            // Everything is drawn; walking again would start at the top.
            self.drawn = Some((0, 0));
        }
        self.heap.pop()
    }

    fn seated(&mut self, host: HostIdx, count: u32, run: &Run<'_>, room: &Room<'_>) {
        self.counts.insert(host, count);
        if run.may_use(host, room) {
            self.heap.push(key(host, count, room));
        }
    }
}

fn key(host: HostIdx, count: u32, room: &Room<'_>) -> Key {
    Reverse((count, Reverse((room.size(host), host))))
}

const fn host_of(key: &Key) -> HostIdx {
    let Reverse((_, Reverse((_, host)))) = key;
    *host
}
