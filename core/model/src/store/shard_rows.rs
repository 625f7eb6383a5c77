//! The rows of what a shard remembers of itself: one of its own, which stays small, and one for each host,
//! agent and volume.

use super::{ShardRow, Write};
use crate::id::{HostId, VolumeId};
use std::collections::BTreeMap;

/// Which row of a shard's. Its own comes last: its numbers say how new the others are, so a commit that was
/// cut leaves older ones, and what is newer is heard again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardKey {
    /// A host, by name: whether it is to be empty or elsewhere, and its host pool.
    Host(String),
    /// An agent that Mesos was asked to drain.
    Agent(HostId),
    /// What is wanted of a volume.
    Volume(VolumeId),
    /// What is left.
    Own,
}

impl ShardRow {
    /// All of its rows. Each lists what belongs to its key; together they are the whole.
    #[must_use]
    pub fn rows(&self) -> BTreeMap<ShardKey, Self> {
        let mut own = self.clone();
        let mut out: BTreeMap<ShardKey, Self> = BTreeMap::new();
        let host = |name: &str| ShardKey::Host(name.to_owned());
        for (name, desired_state) in std::mem::take(&mut own.drains.hosts) {
            out.entry(host(&name))
                .or_default()
                .drains
                .hosts
                .insert(name, desired_state);
        }
        for (name, desired_state) in std::mem::take(&mut own.moves.hosts) {
            out.entry(host(&name))
                .or_default()
                .moves
                .hosts
                .insert(name, desired_state);
        }
        for (name, pool) in std::mem::take(&mut own.host_pools) {
            out.entry(host(&name)).or_default().host_pools.insert(name, pool);
        }
        for id in std::mem::take(&mut own.drained_agents) {
            let key = ShardKey::Agent(id.clone());
            out.entry(key).or_default().drained_agents.insert(id);
        }
        for (id, desired_state) in std::mem::take(&mut own.volumes) {
            let key = ShardKey::Volume(id.clone());
            out.entry(key).or_default().volumes.insert(id, desired_state);
        }
        out.insert(ShardKey::Own, own);
        out
    }

    /// Adds what a row lists.
    pub fn extend(&mut self, key: &ShardKey, row: Self) {
        if *key == ShardKey::Own {
            let others = std::mem::replace(self, row);
            self.extend_lists(others);
        } else {
            self.extend_lists(row);
        }
    }

    /// Adds what a row lists that is not the own one.
    pub fn extend_lists(&mut self, row: Self) {
        self.drains.hosts.extend(row.drains.hosts);
        self.moves.hosts.extend(row.moves.hosts);
        self.host_pools.extend(row.host_pools);
        self.drained_agents.extend(row.drained_agents);
        self.volumes.extend(row.volumes);
    }

    /// The writes of all of its rows.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        let rows = self.rows().into_iter();
        rows.map(|(key, row)| Write::Shard(key, row)).collect()
    }

    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        const ENTRY: usize = 96;
        let names = self.drains.hosts.keys().chain(self.moves.hosts.keys());
        let names = names.chain(self.host_pools.keys());
        let names: usize = names.map(|name| name.len() + ENTRY).sum();
        let to = self.moves.hosts.values().map(|m| m.to.as_str().len());
        let pools = self.host_pools.values().map(|pool| pool.as_str().len());
        let agents = self.drained_agents.iter().map(|id| id.as_str().len() + 8);
        let volumes = self
            .volumes
            .iter()
            .map(|(id, desired_state)| desired_state.stored_size(id) + ENTRY);
        256 + self.framework.as_ref().map_or(0, String::len)
            + names
            + to.chain(pools).sum::<usize>()
            + agents.sum::<usize>()
            + volumes.sum::<usize>()
            + 48 * self.log_gaps.len()
    }
}
