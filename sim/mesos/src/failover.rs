//! The leading master dies and another takes over with an empty memory: it knows agents from the registry only, offers
//! are void, and tasks appear as agents return (rules R20, R117, R118, S20).

use crate::agent::{Contact, Member};
use crate::cluster::{Cluster, Leadership, Master};
use crate::id::{AgentId, StreamId};
use crate::output::StreamEnd;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use std::collections::BTreeMap;

impl Cluster {
    /// Streams break; a new master answers 503 for `recovery`, then leads and agents return.
    pub fn fail_over(&mut self, recovery: Span, now: Timestamp) {
        let streams: Vec<StreamId> = self.master.streams.keys().cloned().collect();
        for stream in streams {
            self.close(stream, StreamEnd::Broken);
        }
        let registry = self.registry();
        let decrees = std::mem::take(&mut self.master.decrees);
        self.master = Master::new(&mut self.random, Leadership::Recovering, now);
        self.master.members = registry;
        self.master.decrees = decrees;
        self.timers.set(now.plus(recovery), Timer::RecoveryDone);
    }

    /// The master that leads from now on listens elsewhere than the one before it.
    pub const fn move_master(&mut self, port: u16) {
        self.config.port = port;
    }

    /// What the registry keeps over masters: which agents there are, and which are unreachable or gone.
    fn registry(&self) -> BTreeMap<AgentId, Member> {
        let kept = self.master.members.iter().map(|(id, member)| {
            let contact = match member.contact {
                Contact::Unreachable(since) => Contact::Unreachable(since),
                Contact::Gone => Contact::Gone,
                Contact::Recovered | Contact::Connected | Contact::Disconnected => Contact::Recovered,
            };
            (
                id.clone(),
                Member {
                    contact,
                    drain: member.drain.clone(),
                    deactivated: member.deactivated,
                    ..Member::recovered()
                },
            )
        });
        kept.collect()
    }

    pub(crate) fn finish_recovery(&mut self, now: Timestamp) {
        if self.master.leadership != Leadership::Recovering {
            return;
        }
        self.master.leadership = Leadership::Leads;
        let spread = self.config.agent_reregister_spread;
        let agents: Vec<AgentId> = self.agents.keys().cloned().collect();
        for id in agents {
            let delay = Span(self.random.below(spread.0.saturating_add(1)));
            self.timers.set(now.plus(delay), Timer::Reregister(id.clone()));
            self.await_return(id, now);
        }
    }

    /// A recovered agent has a time to return.
    pub(crate) fn await_return(&mut self, id: AgentId, now: Timestamp) {
        if self.contact(&id) == Some(Contact::Recovered) {
            let at = now.plus(self.config.agent_reregister_timeout);
            self.timers.set(at, Timer::RecoveredAgentTimeout(id));
        }
    }

    /// FAILURE, but no word about tasks: this master never knew them (rule R117).
    pub(crate) fn recovered_agent_timed_out(&mut self, id: &AgentId, now: Timestamp) {
        if self.contact(id) == Some(Contact::Recovered) {
            self.set_contact(id, Contact::Unreachable(now));
            self.tell_failure(id);
        }
    }
}
