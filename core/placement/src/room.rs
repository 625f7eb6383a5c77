//! The hosts while places are given away: what each has left, and an order from the fullest to the roomiest that does not
//! depend on the shape to place. Room only shrinks here, so what does not fit once never fits again.

use crate::answer::Flaw;
use crate::problem::Wanted;
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::choose;
use echelon_core_model::{HostId, Kind, PortSet, Resources};
use std::collections::{BTreeMap, BTreeSet};

/// Index of a host in the order of ids.
pub type HostIdx = usize;

/// Place of a host in the order: how much it has left, then its index.
pub type Rank = (u64, HostIdx);

/// Millionths: fine enough to tell 0.001 cpus of a 1,000-core host from nothing.
const PARTS: u128 = 1_000_000;

#[derive(Debug, Clone)]
struct Seat {
    free: Resources,
    taken: Resources,
    /// The same of what the host lends.
    slack: Resources,
    slack_taken: Resources,
    /// Ports given away here.
    ports_taken: PortSet,
}

/// What hosts have left.
#[derive(Debug, Clone)]
pub struct Room<'a> {
    views: Vec<&'a HostView>,
    seats: Vec<Seat>,
    index: BTreeMap<&'a HostId, HostIdx>,
    order: BTreeSet<Rank>,
    unit: Resources,
    floor: Resources,
}

impl<'a> Room<'a> {
    /// The hosts as they are offered. `floor` is at most every shape that will be asked for: hosts with less are left out of
    /// the order.
    pub fn new(hosts: &'a [HostView], floor: Resources, flaws: &mut Vec<Flaw>) -> Self {
        let mut by_id: BTreeMap<&HostId, &HostView> = BTreeMap::new();
        for host in hosts {
            if by_id.contains_key(&host.id) {
                flaws.push(Flaw::HostTwice(host.id.clone()));
            } else {
                by_id.insert(&host.id, host);
            }
        }
        let views: Vec<&HostView> = by_id.values().copied().collect();
        let unit = views
            .iter()
            .fold(Resources::ZERO, |most, h| most.max_each(h.free));
        let mut room = Self {
            seats: views
                .iter()
                .map(|h| Seat {
                    free: h.free,
                    taken: Resources::ZERO,
                    slack: h.slack.free,
                    slack_taken: Resources::ZERO,
                    ports_taken: PortSet::new(),
                })
                .collect(),
            index: by_id.into_keys().enumerate().map(|(i, id)| (id, i)).collect(),
            views,
            order: BTreeSet::new(),
            unit,
            floor,
        };
        room.order = (0..room.seats.len())
            .filter(|h| floor.fits(room.free(*h)))
            .map(|h| (room.size(h), h))
            .collect();
        room
    }

    /// The hosts in the order of their indexes.
    pub fn views(&self) -> &[&'a HostView] {
        &self.views
    }

    /// The index of a host, if it is among these.
    pub fn find(&self, id: &HostId) -> Option<HostIdx> {
        self.index.get(id).copied()
    }

    /// What is left of a host's offers.
    pub fn free(&self, host: HostIdx) -> Resources {
        self.seats.get(host).map_or(Resources::ZERO, |s| s.free)
    }

    /// What was given away here.
    pub fn taken(&self, host: HostIdx) -> Resources {
        self.seats.get(host).map_or(Resources::ZERO, |s| s.taken)
    }

    /// What was given away here of what the host lends.
    pub fn slack_taken(&self, host: HostIdx) -> Resources {
        self.seats.get(host).map_or(Resources::ZERO, |s| s.slack_taken)
    }

    /// What is left of a host's offers: ordinary, and lent.
    pub fn offered(&self, host: HostIdx) -> (Resources, Resources) {
        self.seats
            .get(host)
            .map_or((Resources::ZERO, Resources::ZERO), |s| (s.free, s.slack))
    }

    /// Whether an instance finds its room among a host's offers.
    pub fn fits(&self, host: HostIdx, wanted: &Wanted) -> bool {
        let Some(view) = self.views.get(host) else {
            return false;
        };
        let ((need, lent), (free, slack)) = (wanted.parts(view), self.offered(host));
        need.fits(free) && lent.fits(slack)
    }

    /// The ports that an instance would get here; `None` when there are too few.
    pub fn ports(&self, host: HostIdx, wishes: &[Option<u16>]) -> Option<Vec<u16>> {
        if wishes.is_empty() {
            return Some(Vec::new());
        }
        let (view, seat) = (self.views.get(host)?, self.seats.get(host)?);
        choose(wishes, &view.ports.minus(&seat.ports_taken))
    }

    /// Ports given away here.
    pub fn ports_taken(&self, host: HostIdx) -> PortSet {
        self.seats
            .get(host)
            .map_or_else(PortSet::new, |s| s.ports_taken.clone())
    }

    /// Hosts from the fullest to the roomiest.
    pub fn fullest_first(&self) -> impl Iterator<Item = HostIdx> + '_ {
        self.order.iter().map(|(_, h)| *h)
    }

    /// The roomiest host before `than` in the order, or of all. Takes up where an earlier walk stopped, although hosts have
    /// moved down since.
    pub fn roomiest_below(&self, than: Option<Rank>) -> Option<Rank> {
        match than {
            Some(rank) => self.order.range(..rank).next_back().copied(),
            None => self.order.last().copied(),
        }
    }

    /// How much a host has left over all kinds of ordinary room, as a sum of parts of the largest host's.
    pub fn size(&self, host: HostIdx) -> u64 {
        let free = self.free(host);
        let part = |kind: Kind| match self.unit.get(kind) {
            0 => 0,
            most => u128::from(free.get(kind)) * PARTS / u128::from(most),
        };
        u64::try_from(Kind::ALL.into_iter().map(part).sum::<u128>()).unwrap_or(u64::MAX)
    }

    /// Gives an instance its room and ports; the caller has seen that they fit. `O(log hosts)`. The ports, in the order of the wishes.
    pub fn take(&mut self, host: HostIdx, wanted: &Wanted) -> Vec<u16> {
        let nothing = (Resources::ZERO, Resources::ZERO);
        let parts = self.views.get(host).map_or(nothing, |view| wanted.parts(view));
        self.take_parts(host, parts, &wanted.ports)
    }

    /// The same of a part of its ordinary room, and of what it lends.
    pub fn take_parts(
        &mut self,
        host: HostIdx,
        (need, lent): (Resources, Resources),
        wishes: &[Option<u16>],
    ) -> Vec<u16> {
        let ports = self.ports(host, wishes).unwrap_or_default();
        self.order.remove(&(self.size(host), host));
        if let Some(seat) = self.seats.get_mut(host) {
            seat.free = seat.free.minus(need);
            seat.taken = seat.taken.plus(need);
            seat.slack = seat.slack.minus(lent);
            seat.slack_taken = seat.slack_taken.plus(lent);
            ports.iter().for_each(|p| seat.ports_taken.insert(*p, *p));
        }
        if self.floor.fits(self.free(host)) {
            self.order.insert((self.size(host), host));
        }
        ports
    }
}
