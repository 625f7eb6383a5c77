//! Hosts on their way to another host pool. They are left empty as hosts that operators want empty are; one on which nothing of ours is
//! left changes when its new host pool is stored, so that whoever leads next puts nothing there that is for the old one.

use crate::Shard;
use crate::effects::Then;
use crate::journal::Lane;
use echelon_core_model::HostPoolName;
use echelon_core_model::host_pool::HostMoves;
use echelon_core_model::store::ShardKey;
use std::collections::BTreeMap;

impl Shard {
    /// Takes in which hosts are to be in which host pool, unless that is older than what is known. A host that is not named any more, and
    /// has not changed, stays where it is.
    pub(crate) fn obey_moves(&mut self, moves: HostMoves) {
        let again = self.own_unread.awaits_moves && moves.version == self.own.moves.version;
        if moves.version <= self.own.moves.version && !again {
            return;
        }
        self.own_unread.awaits_moves = false;
        self.own.moves = moves;
        self.hosts.set_moves(self.own.moves.hosts.clone());
        self.write_own();
    }

    /// Has the new host pools of hosts stored that are empty by now.
    pub(crate) fn change_host_pools(&mut self) {
        if !self.may_act() || self.is_recovering() {
            return;
        }
        let begun = self.hosts.begin_changes();
        if begun.is_empty() {
            return;
        }
        for (name, pool) in &begun {
            self.own_unread.settle(&ShardKey::Host(name.clone()));
            if pool.is_default() {
                self.own.host_pools.remove(name);
            } else {
                self.own.host_pools.insert(name.clone(), pool.clone());
            }
        }
        self.write_own();
        let point = self.journal.point(Lane::OWN);
        self.journal.when_durable([point], Then::ChangeHostPools(begun));
    }

    /// That is stored: the hosts may be used. What was asked of placement before is asked again, since it knew them in their old ones.
    pub(crate) fn on_host_pools_changed(&mut self, stored: BTreeMap<String, HostPoolName>) {
        self.hosts.end_changes(stored);
        self.placing.ask_anew(self.now);
        self.keep_draining();
    }
}
