//! Open offers, by host and in the order in which they came. An offer is used, declined or lost once: ids that were closed a
//! short while ago are remembered, so that an event told twice opens none again.

use crate::event::{Offer, OfferId, Reserved};
use crate::reserved::{Reservations, ReservedRoom, all_ports};
use crate::tally::{End, Tally};
use crate::volumes::MOST_A_HOST;
use echelon_core_model::{HostId, PortSet, Resources, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Closed ids that are remembered. An older one that is told again would at worst be refused as invalid (R67).
const REMEMBERED: usize = 20_000;

/// Counts offers in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Arrival(u64);

#[derive(Debug, Clone)]
struct Open {
    host: HostId,
    resources: Resources,
    revocable: Resources,
    ports: PortSet,
    reserved_room: Vec<ReservedRoom>,
    reserved: Vec<Reserved>,
    since: Timestamp,
    arrival: Arrival,
}

impl Open {
    /// What is not reserved of it, where the disk that is used is reserved in this way.
    fn unreserved(&self, disk: Option<&Reservations>) -> Resources {
        match disk {
            None => self.resources,
            Some(_) => without_disk(self.resources),
        }
    }

    /// What is reserved of it for our role, where the disk that is used is reserved in this way.
    fn parts<'a>(&'a self, disk: Option<&'a Reservations>) -> impl Iterator<Item = ReservedRoom> + 'a {
        self.reserved_room.iter().map(move |part| {
            let is_used = disk == Some(&part.by);
            let resources = if is_used {
                part.resources
            } else {
                without_disk(part.resources)
            };
            ReservedRoom {
                resources,
                ..part.clone()
            }
        })
    }

    fn all_ports(&self) -> PortSet {
        all_ports(&self.ports, &self.reserved_room)
    }

    /// All of it, where the disk that is used is reserved in this way.
    fn room(&self, disk: Option<&Reservations>) -> Resources {
        let parts = self.parts(disk).map(|part| part.resources);
        parts.fold(self.unreserved(disk), Resources::plus)
    }
}

/// The open offers of one subscription.
#[derive(Debug, Clone, Default)]
pub struct Stock {
    open: BTreeMap<OfferId, Open>,
    by_host: BTreeMap<HostId, BTreeSet<OfferId>>,
    /// Hosts that may have open offers with reserved disk.
    with_reserved: BTreeSet<HostId>,
    /// Hosts with reserved disk that is used, and how it is reserved. On all other hosts the unreserved disk is
    /// used.
    disks: BTreeMap<HostId, Reservations>,
    /// Hosts whose offers are about to be used.
    spoken_for: BTreeSet<HostId>,
    /// Offers of these hosts, and all others.
    kept: BTreeMap<Arrival, OfferId>,
    loose: BTreeMap<Arrival, OfferId>,
    next: Arrival,
    closed: BTreeSet<OfferId>,
    closed_order: VecDeque<OfferId>,
    /// What was open and was closed since all agents were asked for, by host; `None` while no list is
    /// awaited.
    closed_since: Option<BTreeMap<HostId, Resources>>,
    /// Hosts with offers that may have changed since this was last asked.
    touched: BTreeSet<HostId>,
    tally: Tally,
}

impl Stock {
    /// Opens an offer; false when it is known already, open or closed.
    pub fn open(&mut self, offer: &Offer, now: Timestamp) -> bool {
        if self.open.contains_key(&offer.id) || self.closed.contains(&offer.id) {
            return false;
        }
        let arrival = self.next;
        self.next = Arrival(arrival.0.saturating_add(1));
        let entry = Open {
            host: offer.host.clone(),
            resources: offer.resources,
            revocable: offer.revocable,
            ports: offer.ports.clone(),
            reserved_room: offer.reserved_room.clone(),
            reserved: offer.reserved.iter().take(MOST_A_HOST).cloned().collect(),
            since: now,
            arrival,
        };
        self.open.insert(offer.id.clone(), entry);
        if !offer.reserved.is_empty() {
            self.with_reserved.insert(offer.host.clone());
        }
        self.line(&offer.host).insert(arrival, offer.id.clone());
        self.by_host
            .entry(offer.host.clone())
            .or_default()
            .insert(offer.id.clone());
        self.touched.insert(offer.host.clone());
        self.tally.received += 1;
        true
    }

    /// Closes an offer, if it is open.
    pub fn close(&mut self, id: &OfferId, end: End, now: Timestamp) {
        self.remember(id);
        let Some(offer) = self.open.remove(id) else {
            return;
        };
        self.line(&offer.host).remove(&offer.arrival);
        self.touched.insert(offer.host.clone());
        if let Some(offers) = self.by_host.get_mut(&offer.host) {
            offers.remove(id);
            if offers.is_empty() {
                self.by_host.remove(&offer.host);
                self.with_reserved.remove(&offer.host);
            }
        }
        self.note_closed(&offer);
        self.tally.end(end, now.since(offer.since));
    }

    /// From now on it is counted what is closed.
    pub fn count_closed(&mut self) {
        self.closed_since = Some(BTreeMap::new());
    }

    /// It is counted no more.
    pub fn stop_counting(&mut self) {
        self.closed_since = None;
    }

    /// What was open of a host and was closed since it is counted.
    pub fn closed_of(&self, host: &HostId) -> Resources {
        let counted = self.closed_since.as_ref().and_then(|all| all.get(host));
        counted.copied().unwrap_or(Resources::ZERO)
    }

    fn note_closed(&mut self, offer: &Open) {
        if let Some(all) = &mut self.closed_since {
            let sum = all.entry(offer.host.clone()).or_default();
            *sum = sum.plus(offer.room(self.disks.get(&offer.host)));
        }
    }

    /// Closes all offers of a host; their ids.
    pub fn close_host(&mut self, host: &HostId, end: End, now: Timestamp) -> Vec<OfferId> {
        let ids: Vec<OfferId> = self.by_host.get(host).into_iter().flatten().cloned().collect();
        self.close_all(&ids, end, now);
        ids
    }

    /// Closes all offers that are not spoken for and came before `mark`, oldest first. Room that came later adds to what the
    /// host offered before: such a host is left out.
    pub fn close_loose(&mut self, mark: Arrival, now: Timestamp) -> Vec<OfferId> {
        let (before, after) = (self.loose.range(..mark), self.loose.range(mark..));
        let grown: BTreeSet<&HostId> = after
            .filter_map(|(_, id)| Some(&self.open.get(id)?.host))
            .collect();
        let useless = before.filter(|(_, id)| self.open.get(*id).is_some_and(|o| !grown.contains(&o.host)));
        let ids: Vec<OfferId> = useless.map(|(_, id)| id.clone()).collect();
        self.close_all(&ids, End::Declined, now);
        ids
    }

    /// Closes what is not spoken for and came at `loose` or before, and all that came at `any` or before.
    pub fn close_older(&mut self, loose: Timestamp, any: Timestamp, now: Timestamp) -> Vec<OfferId> {
        let older = |line: &BTreeMap<Arrival, OfferId>, than: Timestamp| -> Vec<OfferId> {
            let old = line
                .values()
                .take_while(|id| self.since(id).is_some_and(|s| s <= than));
            old.cloned().collect()
        };
        let ids = [older(&self.loose, loose.max(any)), older(&self.kept, any)].concat();
        self.close_all(&ids, End::Declined, now);
        ids
    }

    /// A host's offers are about to be used: they are not given back meanwhile.
    pub fn speak_for(&mut self, host: &HostId) {
        if self.spoken_for.insert(host.clone()) {
            let arrivals = self.arrivals(host);
            move_between(&mut self.loose, &mut self.kept, &arrivals);
            self.touched.insert(host.clone());
        }
    }

    /// Whether a host's offers are about to be used.
    pub fn is_spoken_for(&self, host: &HostId) -> bool {
        self.spoken_for.contains(host)
    }

    /// They are not about to be used any more.
    pub fn let_go(&mut self, host: &HostId) {
        if self.spoken_for.remove(host) {
            let arrivals = self.arrivals(host);
            move_between(&mut self.kept, &mut self.loose, &arrivals);
            self.touched.insert(host.clone());
        }
    }

    /// Forgets everything but what was counted and spoken for: another subscription has offers of its own.
    pub fn clear(&mut self, now: Timestamp) {
        let open = std::mem::take(&mut self.open);
        for offer in open.values() {
            self.note_closed(offer);
            self.tally.end(End::Void, now.since(offer.since));
        }
        self.touched.extend(self.by_host.keys().cloned());
        *self = Self {
            closed_since: self.closed_since.take(),
            spoken_for: std::mem::take(&mut self.spoken_for),
            touched: std::mem::take(&mut self.touched),
            disks: std::mem::take(&mut self.disks),
            next: self.next,
            tally: self.tally,
            ..Self::default()
        };
    }

    /// Whether anything of a host is offered at the moment.
    pub fn is_offered(&self, host: &HostId) -> bool {
        self.by_host.get(host).is_some_and(|offers| !offers.is_empty())
    }

    /// How the disk of a host is reserved that is used there. `None`: it is not reserved.
    pub fn disk_of(&self, host: &HostId) -> Option<&Reservations> {
        self.disks.get(host)
    }

    /// From now on the disk of a host is used that is reserved in this way, or that is not reserved.
    pub fn use_disk(&mut self, host: &HostId, disk: Option<Reservations>) {
        if self.disk_of(host) == disk.as_ref() {
            return;
        }
        self.touched.insert(host.clone());
        match disk {
            Some(disk) => self.disks.insert(host.clone(), disk),
            None => self.disks.remove(host),
        };
    }

    /// A host is not known any more.
    pub fn forget(&mut self, host: &HostId) {
        self.disks.remove(host);
    }

    fn open_of(&self, host: &HostId) -> impl Iterator<Item = &Open> {
        let ids = self.by_host.get(host).into_iter().flatten();
        ids.filter_map(|id| self.open.get(id))
    }

    /// What a host offers, over all its open offers (R61).
    pub fn free(&self, host: &HostId) -> Resources {
        let disk = self.disk_of(host);
        let rooms = self.open_of(host).map(|offer| offer.room(disk));
        rooms.fold(Resources::ZERO, Resources::plus)
    }

    /// The parts of it that are reserved for our role, one for each way.
    pub fn parts(&self, host: &HostId) -> Vec<ReservedRoom> {
        let disk = self.disk_of(host);
        let mut out: Vec<ReservedRoom> = Vec::new();
        for part in self.open_of(host).flat_map(|offer| offer.parts(disk)) {
            match out.iter_mut().find(|of| of.by == part.by) {
                Some(of) => {
                    of.resources = of.resources.plus(part.resources);
                    of.ports = of.ports.union(&part.ports);
                }
                None => out.push(part),
            }
        }
        out
    }

    /// What a host offers to lend, over all its open offers.
    pub fn lent(&self, host: &HostId) -> Resources {
        self.open_of(host)
            .fold(Resources::ZERO, |sum, o| sum.plus(o.revocable))
    }

    /// The host of an open offer of room that is only lent.
    pub fn lender(&self, id: &OfferId) -> Option<HostId> {
        let offer = self.open.get(id).filter(|o| !o.revocable.is_zero())?;
        Some(offer.host.clone())
    }

    /// The ports that a host offers, over all its open offers.
    pub fn ports(&self, host: &HostId) -> PortSet {
        let open = self.open_of(host);
        open.fold(PortSet::new(), |all, offer| all.union(&offer.all_ports()))
    }

    /// Disk that a host offers and that is reserved to our role, over all its open offers.
    pub fn reserved(&self, host: &HostId) -> impl Iterator<Item = &Reserved> {
        self.open_of(host).flat_map(|offer| &offer.reserved)
    }

    /// The same for every host that has any and that nobody has spoken for. `O(open offers with reserved disk)`.
    pub fn unspoken_reserved(&self) -> impl Iterator<Item = (HostId, Vec<Reserved>)> + '_ {
        let free = self
            .with_reserved
            .iter()
            .filter(|h| !self.spoken_for.contains(*h));
        free.map(|host| (host.clone(), self.reserved(host).cloned().collect()))
    }

    /// What a host offers, and what it offers to lend, that nobody has spoken for.
    pub fn unspoken(&self, host: &HostId) -> (Resources, Resources) {
        if self.spoken_for.contains(host) {
            (Resources::ZERO, Resources::ZERO)
        } else {
            (self.free(host), self.lent(host))
        }
    }

    /// Hosts with offers that may have changed since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<HostId> {
        std::mem::take(&mut self.touched)
    }

    /// Comes after every offer so far.
    pub const fn mark(&self) -> Arrival {
        self.next
    }

    /// When the oldest open offer came that is not spoken for, and the oldest that is.
    pub fn oldest(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let since = |line: &BTreeMap<Arrival, OfferId>| line.values().next().and_then(|id| self.since(id));
        (since(&self.loose), since(&self.kept))
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// What became of all offers.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    fn close_all(&mut self, ids: &[OfferId], end: End, now: Timestamp) {
        ids.iter().for_each(|id| self.close(id, end, now));
    }

    fn since(&self, id: &OfferId) -> Option<Timestamp> {
        self.open.get(id).map(|o| o.since)
    }

    fn line(&mut self, host: &HostId) -> &mut BTreeMap<Arrival, OfferId> {
        if self.spoken_for.contains(host) {
            &mut self.kept
        } else {
            &mut self.loose
        }
    }

    fn arrivals(&self, host: &HostId) -> Vec<Arrival> {
        self.open_of(host).map(|offer| offer.arrival).collect()
    }

    fn remember(&mut self, id: &OfferId) {
        if self.closed.insert(id.clone()) {
            self.closed_order.push_back(id.clone());
        }
        if self.closed_order.len() > REMEMBERED
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }
}

fn without_disk(resources: Resources) -> Resources {
    Resources { disk: 0, ..resources }
}

fn move_between(
    from: &mut BTreeMap<Arrival, OfferId>,
    to: &mut BTreeMap<Arrival, OfferId>,
    which: &[Arrival],
) {
    to.extend(which.iter().filter_map(|arrival| from.remove_entry(arrival)));
}
