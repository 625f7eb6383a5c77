//! Persistent volumes of our role as hosts were seen to have them, and how they are used, made and discarded through offers
//! (Mesos rules R121 to R125). Whose a volume is, and whether it may go, is its caller's to know.

use crate::call::{Call, Launch};
use crate::event::Reserved;
use crate::hosts::Hosts;
use crate::tally::End;
use echelon_core_model::volume::HostVolume;
use echelon_core_model::{HostId, Resources, Span, Timestamp, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// A volume's row is written again when it was seen this long after the row says.
const REFRESH: Span = Span::minutes(10);
/// Volumes that are known of one host, and reserved disks that are known of one offer: more than a host's row lists, since those that
/// are to be destroyed must be found, and no more, whatever its master sends.
pub const MOST_A_HOST: usize = 1024;

/// Volumes by host.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    hosts: BTreeMap<HostId, BTreeMap<VolumeId, HostVolume>>,
    places: BTreeMap<VolumeId, HostId>,
    /// How many its last offer named that are left out.
    left_out: BTreeMap<HostId, u32>,
}

impl Volumes {
    /// Takes in what is stored of a host; what was seen meanwhile is newer and stays.
    pub fn restore(&mut self, host: &HostId, rows: &[HostVolume]) {
        for row in rows
            .iter()
            .filter(|v| !self.places.contains_key(&v.id))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.put(host, row);
        }
    }

    /// Notes what a host offers; whether its row is to be written.
    pub fn offered(&mut self, host: &HostId, reserved: &[Reserved], now: Timestamp) -> bool {
        let mut changed = false;
        let mut left_out = 0u32;
        for r in reserved {
            let Some(volume) = &r.volume else { continue };
            if !self.takes(host, &volume.id) {
                left_out = left_out.saturating_add(1);
                continue;
            }
            changed |= self.seen(
                host,
                HostVolume {
                    id: volume.id.clone(),
                    size: r.disk,
                    path: volume.path.clone(),
                    seen_at: now,
                },
            );
        }
        let before = match left_out {
            0 => self.left_out.remove(host).unwrap_or_default(),
            n => self.left_out.insert(host.clone(), n).unwrap_or_default(),
        };
        changed || before != left_out
    }

    /// Whether a volume is known of a host, or may become known.
    fn takes(&self, host: &HostId, id: &VolumeId) -> bool {
        let all = self.hosts.get(host);
        all.is_none_or(|all| all.len() < MOST_A_HOST || all.contains_key(id))
    }

    /// How many volumes of a host are left out.
    pub fn left_out(&self, host: &HostId) -> u32 {
        self.left_out.get(host).copied().unwrap_or_default()
    }

    /// Notes a volume; whether its host's row is to be written.
    pub fn seen(&mut self, host: &HostId, volume: HostVolume) -> bool {
        let known = self.hosts.get(host).and_then(|all| all.get(&volume.id));
        let fresh = |k: &HostVolume| {
            let same = (k.size, &k.path) == (volume.size, &volume.path);
            same && volume.seen_at.since(k.seen_at) < REFRESH
        };
        let changed = !known.is_some_and(fresh);
        if changed {
            self.put(host, volume);
        }
        changed
    }

    /// A volume is gone; the host whose row is to be written.
    pub fn gone(&mut self, id: &VolumeId) -> Option<HostId> {
        let host = self.places.remove(id)?;
        if let Some(all) = self.hosts.get_mut(&host) {
            all.remove(id);
        }
        Some(host)
    }

    /// The volumes of a host, by id.
    pub fn of(&self, host: &HostId) -> Vec<HostVolume> {
        self.hosts
            .get(host)
            .into_iter()
            .flat_map(|all| all.values().cloned())
            .collect()
    }

    /// Forgets a host; its volumes come back with it, under whatever id.
    pub fn forget(&mut self, host: &HostId) {
        for id in self.hosts.remove(host).into_iter().flat_map(BTreeMap::into_keys) {
            self.places.remove(&id);
        }
        self.left_out.remove(host);
    }

    /// The host that was last seen to have a volume.
    pub fn place(&self, id: &VolumeId) -> Option<&HostId> {
        self.places.get(id)
    }

    fn put(&mut self, host: &HostId, volume: HostVolume) {
        // An agent that comes back under another id brings its volumes along.
        if let Some(before) = self
            .places
            .insert(volume.id.clone(), host.clone())
            .filter(|b| b != host)
            && let Some(all) = self.hosts.get_mut(&before)
        {
            all.remove(&volume.id);
        }
        self.hosts
            .entry(host.clone())
            .or_default()
            .insert(volume.id.clone(), volume);
    }
}

impl Hosts {
    /// A volume and the host that was last seen to have it.
    #[must_use]
    pub fn volume(&self, id: &VolumeId) -> Option<(&HostId, &HostVolume)> {
        let host = self.volumes.place(id)?;
        Some((host, self.volumes.hosts.get(host)?.get(id)?))
    }

    /// The volumes that are known on a host.
    pub fn volumes_on(&self, host: &HostId) -> impl Iterator<Item = &VolumeId> {
        self.volumes.hosts.get(host).into_iter().flat_map(BTreeMap::keys)
    }

    /// What a host's open offers have of a volume: the volume itself, or disk that is reserved for it.
    #[must_use]
    pub fn offered_volume(&self, host: &HostId, id: &VolumeId) -> Option<&Reserved> {
        let of_it = || {
            self.stock
                .reserved(host)
                .filter(|r| r.volume_id().as_ref() == Some(id))
        };
        of_it().find(|r| r.volume.is_some()).or_else(|| of_it().next())
    }

    /// Whether a task with this volume can be launched with the host's open offers, as far as the volume is concerned.
    #[must_use]
    pub fn has_volume_for(&self, host: &HostId, launch: &Launch) -> bool {
        launch.volume.as_ref().is_none_or(|v| {
            let offered = self.offered_volume(host, &v.id);
            !v.used || offered.is_some_and(|r| r.volume.is_some())
        })
    }

    /// Fills in what the host offers of the tasks' volumes. `None` when one that may have been written to is not offered, or one is
    /// named twice.
    pub(crate) fn with_volumes(&self, host: &HostId, mut launches: Vec<Launch>) -> Option<Vec<Launch>> {
        let mut seen = BTreeSet::new();
        for launch in &mut launches {
            if !self.has_volume_for(host, launch) {
                return None;
            }
            if let Some(volume) = &mut launch.volume {
                volume.offered = self.offered_volume(host, &volume.id).cloned();
                if !seen.insert(volume.id.clone()) {
                    return None;
                }
            }
        }
        Some(launches)
    }

    /// What a launch takes of the room that has no volume yet: one that is to be made is a part of it.
    pub(crate) fn taken_of_free(&self, launch: &Launch) -> Resources {
        let new = launch.volume.as_ref().filter(|v| v.offered.is_none());
        let disk = new.map_or(0, |v| v.size);
        let own = launch.room_of_tasks().minus(launch.revocable);
        own.plus(Resources {
            disk,
            ..Resources::ZERO
        })
    }

    /// Notes that a task of ours has a volume in use.
    pub fn volume_in_use(&mut self, host: &HostId, volume: HostVolume) {
        if self.volumes.seen(host, volume) {
            self.changed.insert(host.clone());
        }
    }

    /// Notes that a volume was destroyed.
    pub fn volume_gone(&mut self, id: &VolumeId) {
        self.changed.extend(self.volumes.gone(id));
    }

    /// Calls that discard what may go of the open offers, host by host; offers that are spoken for wait. `may_go` judges a volume,
    /// or disk that is reserved for one.
    pub fn discard(&mut self, may_go: impl Fn(&Reserved) -> bool, now: Timestamp) -> Vec<Call> {
        if self.appetite.is_none() {
            return Vec::new();
        }
        let goes: Vec<(HostId, Vec<Reserved>)> = self
            .stock
            .unspoken_reserved()
            .map(|(host, all)| (host, all.into_iter().filter(|r| may_go(r)).collect()))
            .filter(|(_, go): &(HostId, Vec<Reserved>)| !go.is_empty())
            .collect();
        let mut calls = Vec::new();
        for (host, reserved) in goes {
            calls.push(Call::Discard {
                offers: self.stock.close_host(&host, End::Accepted, now),
                host,
                reserved,
                attempt: now.0,
                refuse: self.config.refuse_rest,
            });
        }
        calls
    }
}
