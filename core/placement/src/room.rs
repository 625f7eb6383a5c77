//! The hosts while places are given away: what each has left, beside how it is kept. Room only shrinks here, so what does not fit
//! once never fits again.

use crate::hosts::{HostIdx, Hosts, Rank};
use crate::problem::Wanted;
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::choose;
use echelon_core_model::{HostId, PortSet, Resources};

#[derive(Debug, Clone)]
struct Seat<'a> {
    host: HostIdx,
    view: &'a HostView,
    size: u64,
    free: Resources,
    taken: Resources,
    /// The same of what the host lends.
    slack: Resources,
    slack_taken: Resources,
    /// Ports given away here.
    ports_taken: PortSet,
}

/// How some hosts stood before something was tried on them.
#[derive(Debug)]
pub struct Before<'a> {
    hosts: Vec<(HostIdx, Option<Seat<'a>>)>,
    seats: usize,
}

/// What hosts have left.
#[derive(Debug, Clone)]
pub struct Room<'a> {
    hosts: &'a Hosts,
    /// Of each host the number of its seat, from 1; 0: it is as it is kept.
    seat_of: Vec<u32>,
    seats: Vec<Seat<'a>>,
}

impl<'a> Room<'a> {
    /// The hosts as they are kept, but for those that are otherwise in this question.
    pub fn new(hosts: &'a Hosts, otherwise: &'a [HostView]) -> Self {
        let mut room = Self {
            hosts,
            seat_of: vec![0; hosts.len()],
            seats: Vec::new(),
        };
        for view in otherwise {
            if let Some(host) = hosts.find(&view.id) {
                room.sit(host, view);
            }
        }
        room
    }

    /// The hosts as they are kept.
    pub const fn hosts(&self) -> &'a Hosts {
        self.hosts
    }

    fn seat(&self, host: HostIdx) -> Option<&Seat<'a>> {
        let number = self.seat_of.get(host)?.checked_sub(1)?;
        self.seats.get(usize::try_from(number).ok()?)
    }

    /// How these hosts stand. `O(hosts)`.
    pub fn before(&self, hosts: &[HostIdx]) -> Before<'a> {
        Before {
            hosts: hosts.iter().map(|h| (*h, self.seat(*h).cloned())).collect(),
            seats: self.seats.len(),
        }
    }

    /// Puts them back as they were; nothing was taken on others meanwhile. `O(hosts)`.
    pub fn put_back(&mut self, before: Before<'a>) {
        self.seats.truncate(before.seats);
        for (host, was) in before.hosts {
            let Some(number) = self.seat_of.get_mut(host) else {
                continue;
            };
            let Some(was) = was else {
                *number = 0;
                continue;
            };
            let place = number.checked_sub(1).and_then(|n| usize::try_from(n).ok());
            if let Some(seat) = place.and_then(|n| self.seats.get_mut(n)) {
                *seat = was;
            }
        }
    }

    fn sit(&mut self, host: HostIdx, view: &'a HostView) {
        self.seats.push(Seat {
            host,
            view,
            size: self.hosts.size_of(view.free),
            free: view.free,
            taken: Resources::ZERO,
            slack: view.slack.free,
            slack_taken: Resources::ZERO,
            ports_taken: PortSet::new(),
        });
        if let Some(number) = self.seat_of.get_mut(host) {
            *number = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        }
    }

    /// A host.
    pub fn view(&self, host: HostIdx) -> Option<&'a HostView> {
        self.seat(host)
            .map(|s| s.view)
            .or_else(|| self.hosts.views().get(host))
    }

    /// The index of a host, if it is among these.
    pub fn find(&self, id: &HostId) -> Option<HostIdx> {
        self.hosts.find(id)
    }

    /// What was given away here: of ordinary room, and of what the host lends.
    pub fn taken(&self, host: HostIdx) -> (Resources, Resources) {
        self.seat(host)
            .map_or_else(Default::default, |s| (s.taken, s.slack_taken))
    }

    /// What is left of a host's offers: ordinary, and lent.
    pub fn offered(&self, host: HostIdx) -> (Resources, Resources) {
        match self.seat(host) {
            Some(seat) => (seat.free, seat.slack),
            None => self
                .hosts
                .views()
                .get(host)
                .map_or_else(Default::default, |v| (v.free, v.slack.free)),
        }
    }

    /// Whether an instance finds its room among a host's offers.
    pub fn fits(&self, host: HostIdx, wanted: &Wanted) -> bool {
        let Some(view) = self.view(host) else {
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
        let view = self.view(host)?;
        choose(wishes, &view.ports.minus(&self.ports_taken(host)))
    }

    /// Ports given away here.
    pub fn ports_taken(&self, host: HostIdx) -> PortSet {
        self.seat(host)
            .map_or_else(PortSet::new, |s| s.ports_taken.clone())
    }

    /// How much a host has left over all kinds of ordinary room, as a sum of parts of the largest host's.
    pub fn size(&self, host: HostIdx) -> u64 {
        self.seat(host).map_or_else(|| self.hosts.size(host), |s| s.size)
    }

    /// Whether a host's place in the order that is kept is its place here.
    pub fn is_as_kept(&self, host: HostIdx) -> bool {
        self.seat_of.get(host).is_none_or(|n| *n == 0)
    }

    /// The places of all other hosts, from the fullest to the roomiest.
    pub fn moved(&self) -> Vec<Rank> {
        let mut out: Vec<Rank> = self.seats.iter().map(|s| (s.size, s.host)).collect();
        out.sort_unstable();
        out
    }

    /// Gives an instance its room and ports; the caller has seen that they fit. The ports, in the order of the wishes.
    pub fn take(&mut self, host: HostIdx, wanted: &Wanted) -> Vec<u16> {
        let nothing = (Resources::ZERO, Resources::ZERO);
        let parts = self.view(host).map_or(nothing, |view| wanted.parts(view));
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
        if let Some(view) = self.hosts.views().get(host).filter(|_| self.is_as_kept(host)) {
            self.sit(host, view);
        }
        let number = self.seat_of.get(host).and_then(|n| n.checked_sub(1));
        let number = number.and_then(|n| usize::try_from(n).ok());
        if let Some(seat) = number.and_then(|n| self.seats.get_mut(n)) {
            seat.free = seat.free.minus(need);
            seat.size = self.hosts.size_of(seat.free);
            seat.taken = seat.taken.plus(need);
            seat.slack = seat.slack.minus(lent);
            seat.slack_taken = seat.slack_taken.plus(lent);
            ports.iter().for_each(|p| seat.ports_taken.insert(*p, *p));
        }
        ports
    }
}
