//! Hosts that are to be empty, in time for their maintenance or since an operator wants it: whose runs are affected, once when that
//! begins or ends, and what Mesos is asked about their agents. Which runs are stopped, and when, is `restart.rs`' matter.

use crate::Shard;
use crate::effects::Then;
use crate::journal::Lane;
use crate::picture::At;
use echelon_core_hosts::{self as hosts, Call};
use echelon_core_model::drain::Drains;
use echelon_core_model::store::ShardKey;
use echelon_core_model::{HostId, Timestamp};
use std::collections::BTreeSet;

impl Shard {
    /// Looks at the runs of hosts that are to be left since a moment ago, or no longer.
    pub(crate) fn keep_draining(&mut self) {
        let now = self.drains();
        if now == self.draining {
            return;
        }
        let before = std::mem::replace(&mut self.draining, now);
        let hosts = before.keys().chain(self.draining.keys());
        let changed: BTreeSet<HostId> = hosts
            .filter(|h| before.get(h) != self.draining.get(h))
            .cloned()
            .collect();
        for (number, n) in self.instances_on(&changed) {
            if let Some(group) = self.picture.groups.get_mut(&number).filter(|g| g.served) {
                group.refresh_restarts(n, &self.draining, self.now);
                self.picture.restless.insert(number);
                self.picture.unreported.insert(number);
            }
        }
        // The room is counted anew, and what waits for one of these hosts may have to say so, or need not any more.
        self.placing.hungrier(self.now, self.config.timing.commit_delay);
    }

    /// Instances with a run on some hosts. A run with a launch that has not left is among them, though it is not
    /// counted at its host yet.
    fn instances_on(&self, hosts: &BTreeSet<HostId>) -> BTreeSet<At> {
        let tasks = self.hosts.tasks_on(hosts);
        let counted = tasks.iter().filter_map(|task| self.picture.run_at(task));
        let unsent = self.credit.unsent().copied().filter(|run| {
            let run = self.picture.run(*run);
            run.is_some_and(|run| hosts.contains(&run.host))
        });
        counted.chain(unsent).map(|(at, ..)| at).collect()
    }

    /// Takes in which hosts operators want empty, unless that is older than what is known.
    pub(crate) fn obey_drains(&mut self, drains: Drains) {
        let again = self.own_unread.awaits_drains && drains.version == self.own.drains.version;
        if drains.version <= self.own.drains.version && !again {
            return;
        }
        self.own_unread.awaits_drains = false;
        self.own.drains = drains;
        self.hosts.set_drains(self.own.drains.hosts.clone());
        self.write_own();
    }

    /// Has agents of empty hosts drained, and offered again when that is not wanted any more.
    pub(crate) fn ask_about_agents(&mut self) {
        if !self.may_act() || !self.contact.subscribed || self.is_recovering() {
            return;
        }
        for call in self.hosts.agent_calls(&self.agents_to_offer(), self.now) {
            // Mesos would kill what others run there.
            if matches!(call, Call::DrainAgent { .. }) && !self.may_kill() {
                continue;
            }
            // Whoever leads next has to know that it is ours to offer again.
            if let Call::DrainAgent { host } = &call
                && self.own.drained_agents.insert(host.clone())
            {
                self.own_unread.settle(&ShardKey::Agent(host.clone()));
                self.write_own();
            }
            // All of them wait, so that they leave in order.
            let point = self.journal.point(Lane::OWN);
            self.journal.when_durable([point], Then::Call(call));
        }
    }

    /// When Mesos is to be asked about an agent.
    pub(crate) fn next_agent_call(&self) -> Option<Timestamp> {
        self.hosts.next_agent_call(&self.agents_to_offer())
    }

    /// Mesos has carried out a call of the operator API. An agent that is offered again is nobody's to remember; one that Mesos
    /// refuses to offer is asked for again.
    pub(crate) fn on_operated(&mut self, call: Call) {
        if let Call::ReactivateAgent { host } = &call
            && !self.hosts.wants_agent_drained(host)
            && self.own.drained_agents.remove(host)
        {
            self.write_own();
        }
        self.hosts_event(&hosts::Event::Operated(call));
    }

    pub(crate) fn write_own(&mut self) {
        self.journal
            .touch(Lane::OWN, self.now, self.config.timing.commit_delay);
    }
}
