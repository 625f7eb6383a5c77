//! Open offers, by host and by age. An offer is used, declined or lost once: ids that were closed a short while ago are
//! remembered, so that an event told twice opens none again.

use crate::event::{Offer, OfferId};
use echelon_core_model::{HostId, PortSet, Resources, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Closed ids that are remembered. An older one that is told again would at worst be refused as invalid (R67).
const REMEMBERED: usize = 20_000;

#[derive(Debug, Clone)]
struct Open {
    host: HostId,
    resources: Resources,
    ports: PortSet,
    since: Timestamp,
}

/// The open offers of one subscription.
#[derive(Debug, Clone, Default)]
pub struct Stock {
    open: BTreeMap<OfferId, Open>,
    by_host: BTreeMap<HostId, BTreeSet<OfferId>>,
    by_age: BTreeSet<(Timestamp, OfferId)>,
    closed: BTreeSet<OfferId>,
    closed_order: VecDeque<OfferId>,
}

impl Stock {
    /// Opens an offer; false when it is known already, open or closed.
    pub fn open(&mut self, offer: &Offer, now: Timestamp) -> bool {
        if self.open.contains_key(&offer.id) || self.closed.contains(&offer.id) {
            return false;
        }
        let entry = Open {
            host: offer.host.clone(),
            resources: offer.resources,
            ports: offer.ports.clone(),
            since: now,
        };
        self.open.insert(offer.id.clone(), entry);
        self.by_age.insert((now, offer.id.clone()));
        self.by_host
            .entry(offer.host.clone())
            .or_default()
            .insert(offer.id.clone());
        true
    }

    /// Closes an offer; its host, if it was open.
    pub fn close(&mut self, id: &OfferId) -> Option<HostId> {
        self.remember(id);
        let Open { host, since, .. } = self.open.remove(id)?;
        self.by_age.remove(&(since, id.clone()));
        if let Some(offers) = self.by_host.get_mut(&host) {
            offers.remove(id);
            if offers.is_empty() {
                self.by_host.remove(&host);
            }
        }
        Some(host)
    }

    /// Closes all offers of a host; their ids.
    pub fn close_host(&mut self, host: &HostId) -> Vec<OfferId> {
        let ids: Vec<OfferId> = self.by_host.get(host).into_iter().flatten().cloned().collect();
        for id in &ids {
            self.close(id);
        }
        ids
    }

    /// Closes all offers that were opened at `until` or before; their ids, oldest first.
    pub fn close_older(&mut self, until: Timestamp) -> Vec<OfferId> {
        let old = self.by_age.iter().take_while(|(since, _)| *since <= until);
        let ids: Vec<OfferId> = old.map(|(_, id)| id.clone()).collect();
        for id in &ids {
            self.close(id);
        }
        ids
    }

    /// Forgets everything: another subscription has offers of its own.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// What a host offers, over all its open offers (R61).
    pub fn free(&self, host: &HostId) -> Resources {
        let ids = self.by_host.get(host).into_iter().flatten();
        ids.filter_map(|id| self.open.get(id))
            .fold(Resources::ZERO, |sum, o| sum.plus(o.resources))
    }

    /// The ports that a host offers, over all its open offers.
    pub fn ports(&self, host: &HostId) -> PortSet {
        let ids = self.by_host.get(host).into_iter().flatten();
        ids.filter_map(|id| self.open.get(id))
            .fold(PortSet::new(), |all, o| all.union(&o.ports))
    }

    /// When the oldest open offer came.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.by_age.first().map(|(since, _)| *since)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
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
