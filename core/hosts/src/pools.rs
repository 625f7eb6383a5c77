//! In which host pool hosts are, and which are on their way to another: nothing is placed on those, what is there leaves under the rules
//! of its job, and a host changes when nothing of ours is on it and its new host pool is stored.

use crate::hosts::Hosts;
use crate::maintenance::Drain;
use echelon_core_model::drain::Left;
use echelon_core_model::host_pool::{HostMove, HostMoving, HostPlace};
use echelon_core_model::{HostId, HostPoolName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Where hosts are, and where they are to be.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    usual: HostPoolName,
    /// By the hosts' names; the others are in `default`.
    assigned: BTreeMap<String, HostPoolName>,
    /// Names of hosts whose stored host pool cannot be read. Nothing is placed on a host before it is moved to a host pool.
    unknown: BTreeSet<String>,
    /// By the hosts' names.
    wished: BTreeMap<String, HostMove>,
    /// Hosts that are empty and whose new host pool is being stored: no wish keeps them any more.
    changing: BTreeMap<String, HostPoolName>,
    /// Of agents that are not in `default`, or on their way.
    agents: BTreeMap<HostId, HostPlace>,
    names: BTreeMap<HostId, String>,
}

impl Pools {
    /// The host pool of an agent's host.
    pub fn of(&self, host: &HostId) -> HostPoolName {
        self.agents.get(host).map_or(&self.usual, |p| &p.pool).clone()
    }

    /// Whether any host is in another one than `default`.
    pub fn has_others(&self) -> bool {
        !self.assigned.is_empty()
    }

    /// The same with how far its move is.
    pub fn place(&self, host: &HostId) -> HostPlace {
        self.agents.get(host).cloned().unwrap_or_default()
    }

    /// What is to leave an agent's host now.
    pub fn drain(&self, host: &HostId, now: Timestamp) -> Option<Drain> {
        let moving = self.agents.get(host)?.moving.as_ref()?;
        Some(if moving.wish.batch_until <= now {
            Drain::All
        } else {
            Drain::Services
        })
    }

    /// Agents whose hosts are on their way.
    pub fn moving(&self) -> impl Iterator<Item = (&HostId, &HostMoving)> {
        let agents = self.agents.iter();
        agents.filter_map(|(host, place)| Some((host, place.moving.as_ref()?)))
    }

    /// Notes the name of an agent's host; whether anything changed.
    pub fn named(&mut self, host: &HostId, hostname: &str) -> bool {
        let pool = self.assigned.get(hostname).unwrap_or(&self.usual).clone();
        let before = self.agents.get(host);
        let changing = self.changing.get(hostname).map(|to| HostMove {
            to: to.clone(),
            batch_until: Timestamp(0),
        });
        let wish = changing.or_else(|| self.wished.get(hostname).cloned());
        let left = || {
            let known = before.and_then(|p| p.moving.as_ref());
            known.map(|m| m.left.clone()).unwrap_or_default()
        };
        let moving = wish
            .filter(|wish| wish.to != pool || self.unknown.contains(hostname))
            .map(|wish| HostMoving { wish, left: left() });
        let place = HostPlace { pool, moving };
        let usual = HostPlace::default();
        if *before.unwrap_or(&usual) == place {
            return false;
        }
        if place == usual {
            self.forget(host);
        } else {
            self.names.insert(host.clone(), hostname.to_owned());
            self.agents.insert(host.clone(), place);
        }
        true
    }

    /// Whether the host pool of a host is unknown.
    pub fn is_unknown(&self, hostname: &str) -> bool {
        self.unknown.contains(hostname)
    }

    pub fn forget(&mut self, host: &HostId) {
        self.agents.remove(host);
        self.names.remove(host);
    }

    /// When batch instances have had their time on a host that is on its way.
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let moments = self.moving().map(|(_, m)| m.wish.batch_until);
        moments.filter(|at| *at > now).min()
    }

    /// Takes in what of our work is still on hosts that are on their way; the agents of which that changed.
    pub fn note_left(&mut self, left: &BTreeMap<HostId, Vec<Left>>) -> Vec<HostId> {
        let mut changed = Vec::new();
        for (host, place) in &mut self.agents {
            let Some(moving) = &mut place.moving else { continue };
            let now = left.get(host).cloned().unwrap_or_default();
            if moving.left != now {
                moving.left = now;
                changed.push(host.clone());
            }
        }
        changed
    }
}

impl Hosts {
    /// Takes in the host pools of hosts as they are stored, by name. `O(hosts)`.
    pub fn set_host_pools(&mut self, assigned: BTreeMap<String, HostPoolName>) {
        self.pools.assigned = assigned;
        self.name_all();
    }

    /// Takes in the names of the hosts whose stored row cannot be read. `O(hosts)`.
    pub fn set_unknown(&mut self, unknown: BTreeSet<String>) {
        self.pools.unknown = unknown;
        self.name_all();
    }

    /// Takes in which hosts are to be in which host pool, by name. `O(hosts)`.
    pub fn set_moves(&mut self, wished: BTreeMap<String, HostMove>) {
        self.pools.wished = wished;
        self.name_all();
    }

    fn name_all(&mut self) {
        let named = |(id, record): (&HostId, &crate::record::Record)| {
            let changed = self.pools.named(id, record.hostname());
            changed.then(|| id.clone())
        };
        let changed: Vec<HostId> = self.records.iter().filter_map(named).collect();
        changed.into_iter().for_each(|id| self.note(id));
        self.touch_all();
    }

    /// Hosts that are empty by now, with their new host pools: their caller stores that, and says when it is. From here on no wish changes
    /// where they go. All agents of a name count: one that was replaced may still have something of ours.
    #[must_use]
    pub fn begin_changes(&mut self) -> BTreeMap<String, HostPoolName> {
        let mut empty: BTreeMap<&str, Option<&HostPoolName>> = BTreeMap::new();
        for (id, moving) in self.pools.moving() {
            let Some(name) = self.pools.names.get(id) else {
                continue;
            };
            let to = Some(&moving.wish.to).filter(|_| self.is_empty(id));
            let at = empty.entry(name).or_insert(to);
            *at = at.and(to);
        }
        let of = |(name, to): (&str, Option<&HostPoolName>)| Some((name.to_owned(), to?.clone()));
        let empty = empty.into_iter().filter_map(of);
        let begun = empty.filter(|(name, _)| !self.pools.changing.contains_key(name));
        let begun: BTreeMap<String, HostPoolName> = begun.collect();
        self.pools.changing.extend(begun.clone());
        begun
    }

    /// The new host pools of hosts are stored: they may be used.
    pub fn end_changes(&mut self, stored: BTreeMap<String, HostPoolName>) {
        for (name, pool) in stored {
            self.pools.changing.remove(&name);
            self.pools.unknown.remove(&name);
            if pool.is_default() {
                self.pools.assigned.remove(&name);
            } else {
                self.pools.assigned.insert(name, pool);
            }
        }
        self.name_all();
    }

    /// Whether hosts are on their way to another host pool.
    #[must_use]
    pub fn has_moves(&self) -> bool {
        self.pools.moving().next().is_some()
    }
}
