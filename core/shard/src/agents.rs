//! All agents of the cluster, as its master lists them to operators: asked for at a rate, so that the cluster's room is known although
//! other frameworks hold most of it.

use crate::Shard;
use crate::event::{Alarm, Effect};
use echelon_core_hosts as hosts;
use echelon_core_model::Timestamp;

impl Shard {
    /// Has the master list its agents when that is due.
    pub(crate) fn ask_for_agents(&mut self) {
        let call = self.hosts.list_agents(self.wants_room(), self.now);
        self.out.extend(call.map(Effect::Cluster));
    }

    /// Has agents tell their flags where others were replaced.
    pub(crate) fn ask_for_flags(&mut self) {
        let calls = self.hosts.read_flags(self.now);
        self.out.extend(calls.into_iter().map(Effect::Cluster));
    }

    /// When that is due.
    pub(crate) fn next_list(&self) -> Option<Timestamp> {
        self.hosts.next_list(self.wants_room())
    }

    fn wants_room(&self) -> bool {
        self.placing.is_hungry() || self.waits_for_capacity()
    }

    /// The master does not list them: it goes on without, and somebody is told once.
    pub(crate) fn on_unlisted(&mut self, why: String) {
        let known = self.hosts.is_unlisted();
        self.hosts_event(&hosts::Event::Unlisted { why: why.clone() });
        if !known {
            self.out.push(Effect::Alarm(Alarm::AgentsUnlisted { why }));
        }
    }
}
