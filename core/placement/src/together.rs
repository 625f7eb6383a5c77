//! Where a gang could be together: hosts that share a value of an attribute and may have room for all of it. What is said here is only
//! what cannot be excluded by counting; whether it fits is tried.

use crate::hosts::HostIdx;
use crate::problem::Wanted;
use crate::room::Room;
use crate::rules::{Domain, Rules};
use echelon_core_model::{HostId, Kind, Resources};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts that share a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The hosts of it that any of the gang may use, in order.
    pub hosts: Vec<HostIdx>,
}

/// What of a gang's groups finds room on a host, each for itself.
#[derive(Debug)]
struct Seats {
    host: HostIdx,
    of_group: Vec<u64>,
    free: Resources,
}

/// Where a gang could be together, the best first: by the nearest attribute, and by that where it leaves the least room for others.
#[derive(Debug)]
pub struct Regions<'a> {
    gang: &'a [&'a Wanted],
    seats: Vec<Seats>,
    /// Those whose hosts its other members are on.
    with: BTreeSet<HostIdx>,
}

impl<'a> Regions<'a> {
    /// Counts on each host how many of each group could be there. `O(hosts * groups)`.
    pub fn new(gang: &'a [&'a Wanted], rules: &[Rules<'_>], room: &Room<'_>) -> Self {
        let seats = (0..room.hosts().len()).filter_map(|host| {
            let of_group: Vec<u64> = rules.iter().map(|r| seats_on(host, r, room)).collect();
            let (free, _) = room.offered(host);
            let any = of_group.iter().any(|n| *n > 0);
            any.then_some(Seats { host, of_group, free })
        });
        let others = gang.iter().flat_map(|w| {
            let bound = w.bound.iter().map(|b| &b.host);
            w.together.with.iter().chain(bound)
        });
        Self {
            seats: seats.collect(),
            with: others.filter_map(|id: &HostId| room.find(id)).collect(),
            gang,
        }
    }

    /// Those by one attribute that may have room for all, the one with the fewest seats first, ties to the lower host id. Where some of the
    /// gang is already, only the one where all of that is.
    pub fn by(&self, attribute: &str, room: &Room<'_>) -> Vec<Region> {
        let domain = Domain::of(attribute, room.hosts());
        let mut by_value: BTreeMap<u32, Vec<&Seats>> = BTreeMap::new();
        for seats in &self.seats {
            if let Some(value) = domain.shared(seats.host) {
                by_value.entry(value).or_default().push(seats);
            }
        }
        let there: BTreeSet<Option<u32>> = self.with.iter().map(|h| domain.shared(*h)).collect();
        if there.len() > 1 || there.contains(&None) {
            return Vec::new();
        }
        if let Some(Some(value)) = there.first() {
            by_value.retain(|v, _| v == value);
        }
        let open = by_value.into_values().filter(|seats| self.may_hold_all(seats));
        let mut ranked: Vec<(u64, HostIdx, Region)> = open
            .map(|seats| {
                let total = seats.iter().flat_map(|s| &s.of_group).copied();
                let hosts: Vec<HostIdx> = seats.iter().map(|s| s.host).collect();
                let first = hosts.first().copied().unwrap_or_default();
                (total.fold(0, u64::saturating_add), first, Region { hosts })
            })
            .collect();
        ranked.sort_by_key(|(total, first, _)| (*total, *first));
        ranked.into_iter().map(|(.., region)| region).collect()
    }

    /// Whether each group has as many seats as it needs, and all together as much room.
    fn may_hold_all(&self, seats: &[&Seats]) -> bool {
        let enough = |(i, wanted): (usize, &&Wanted)| {
            let found = seats.iter().filter_map(|s| s.of_group.get(i)).copied();
            let needed = u64::try_from(wanted.items.len()).unwrap_or(u64::MAX);
            found.fold(0, u64::saturating_add) >= needed
        };
        let free = seats.iter().fold(Resources::ZERO, |sum, s| sum.plus(s.free));
        let ordinary = self.gang.iter().filter(|w| !w.revocable);
        let needed = ordinary.fold(Resources::ZERO, |sum, w| {
            sum.plus(
                w.resources
                    .times(u64::try_from(w.items.len()).unwrap_or(u64::MAX)),
            )
        });
        self.gang.iter().enumerate().all(enough) && needed.fits(free)
    }
}

/// How many of a group a host has room for, if it may be used at all: by its rules there may be fewer, never more.
fn seats_on(host: HostIdx, rules: &Rules<'_>, room: &Room<'_>) -> u64 {
    if !rules.may_use(host, room) {
        return 0;
    }
    let wanted = rules.wanted();
    let Some(view) = room.view(host) else { return 0 };
    let ((need, lent), (free, slack)) = (wanted.parts(view), room.offered(host));
    let times = |kind: Kind, need: Resources, free: Resources| free.get(kind).checked_div(need.get(kind));
    let all = Kind::ALL.into_iter();
    let all = all.flat_map(|kind| [times(kind, need, free), times(kind, lent, slack)]);
    // What asks for nothing finds room for any number.
    all.flatten().min().unwrap_or(u64::MAX)
}
