//! Rows of what a shard remembers of itself that cannot be understood. Each is set aside alone: it is told, kept as its bytes and
//! written back before the seal, and everything else goes on. What it says is unknown, which is no absence:
//!
//! | row | while it is unknown | until |
//! | --- | --- | --- |
//! | host: whether it is to be empty or elsewhere, its host pool | nothing is placed there and nothing has to leave; no agent at all is offered again before the wishes about hosts are heard | wishes: the next order that repeats them; host pool: an operator moves the host, to any host pool |
//! | agent that Mesos was asked to drain | it is not offered again | it is drained again, and that is undone |
//! | volume: what is wanted of it | it is neither destroyed nor given up, and given to another only as an operator wishes and where no record has it; its instance waits for its host | a wish about it, or its destruction |
//! | pool: its part | without a resource manager nothing begins in it, nor in a pool below | at once: the resource manager gives parts anew, also to others, so this row is not written back |
//! | the shard's own: framework, epochs, how new the others are | nothing is read: the shard leads and waits, and what runs goes on | it is read |
//!
//! Known gap: an instance that was to adopt a volume of which that is unknown may begin with another one before the wish is repeated.

use crate::Shard;
use crate::event::{Alarm, Effect};
use crate::picture::At;
use echelon_core_model::store::{RowSubject, ShardKey, ShardRow, UnreadRow};
use echelon_core_model::{HostId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// A row of a shard's own as it is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnRow {
    /// One that is understood.
    Known(Box<ShardRow>),
    /// The bytes of one that is not.
    Raw(Vec<u8>),
}

/// Rows that are set aside, and what has to be heard again for them.
#[derive(Debug, Default)]
pub(crate) struct OwnUnread {
    rows: BTreeMap<ShardKey, Vec<u8>>,
    /// Which hosts are to be empty has not been heard since a row of one could not be read.
    pub(crate) awaits_drains: bool,
    /// The same of hosts that are to be in another host pool.
    pub(crate) awaits_moves: bool,
}

impl OwnUnread {
    fn of(unread: Vec<UnreadRow>) -> Self {
        let keys = unread.into_iter().filter_map(|row| match row.subject {
            RowSubject::Shard(key) => Some((key, row.bytes)),
            _ => None,
        });
        let rows: BTreeMap<ShardKey, Vec<u8>> = keys.collect();
        let of_hosts = rows.keys().any(|key| matches!(key, ShardKey::Host(_)));
        Self {
            rows,
            awaits_drains: of_hosts,
            awaits_moves: of_hosts,
        }
    }

    /// The hosts, by name.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let names = self.rows.keys().filter_map(|key| match key {
            ShardKey::Host(name) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// Whether it is unknown what is wanted of a volume.
    pub(crate) fn has_volume(&self, id: &VolumeId) -> bool {
        !self.rows.is_empty() && self.rows.contains_key(&ShardKey::Volume(id.clone()))
    }

    /// What the row says is known again: it is written as what is known, or removed.
    pub(crate) fn settle(&mut self, key: &ShardKey) {
        self.rows.remove(key);
    }

    /// All rows as they are to be stored. A leader that understands a host's row must hear again what is wanted of hosts: the
    /// row does not tell what was heard since.
    pub(crate) fn rows(&self, own: &ShardRow) -> BTreeMap<ShardKey, OwnRow> {
        let mut rows = own.rows();
        if let Some(own) = rows.get_mut(&ShardKey::Own)
            && self.rows.keys().any(|key| matches!(key, ShardKey::Host(_)))
        {
            own.drains.version = 0;
            own.moves.version = 0;
        }
        let known = rows
            .into_iter()
            .map(|(key, row)| (key, OwnRow::Known(Box::new(row))));
        let raw = self.rows.iter();
        let raw = raw.map(|(key, bytes)| (key.clone(), OwnRow::Raw(bytes.clone())));
        known.chain(raw).collect()
    }
}

impl Shard {
    /// Sets rows of our own aside that cannot be understood.
    pub(crate) fn set_own_aside(&mut self, unread: Vec<UnreadRow>) {
        self.own_unread = OwnUnread::of(unread);
        self.hosts.set_unknown(self.own_unread.hosts());
    }

    /// Rows of our own that are set aside.
    pub fn own_rows_unread(&self) -> impl Iterator<Item = &ShardKey> {
        self.own_unread.rows.keys()
    }

    /// Agents that we had drained, as far as they may be offered again: none while it is unknown which are to stay empty.
    pub(crate) fn agents_to_offer(&self) -> BTreeSet<HostId> {
        if self.own_unread.awaits_drains {
            return BTreeSet::new();
        }
        self.own.drained_agents.clone()
    }

    /// Instances of which a record has a volume. Only where the wish about it is unknown: else it tells. `O(instances)`.
    pub(crate) fn recorded_holders(&self, id: &VolumeId) -> Vec<At> {
        if !self.own_unread.has_volume(id) {
            return Vec::new();
        }
        let groups = self.picture.groups.iter();
        let records =
            groups.flat_map(|(number, group)| group.records().map(|(n, record)| ((*number, n), record)));
        let holding = records.filter(|(_, r)| r.volume.as_ref().is_some_and(|v| v.id == *id));
        holding.map(|(at, _)| at).collect()
    }

    /// Whether a volume of which the wish is unknown may belong to an instance that cannot be looked at.
    pub(crate) fn may_be_held_unseen(&self, id: &VolumeId) -> bool {
        self.own_unread.has_volume(id) && self.picture.groups.values().any(|g| !g.served)
    }

    /// Tells of a row of our own, with what it means.
    pub(crate) fn tell_own_unread(&mut self, key: &ShardKey, row: String) {
        self.out.push(Effect::Alarm(Alarm::OwnRowUnread {
            key: key.clone(),
            row,
        }));
    }
}
