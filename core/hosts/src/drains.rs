//! Hosts that operators want empty: which agents they are by now, and what Mesos is asked about them. Our work leaves first, under
//! the rules of its jobs; only then Mesos is to drain the agent, which it does without any (R131).

use crate::call::Call;
use crate::hosts::Hosts;
use crate::maintenance::Drain;
use echelon_core_model::drain::{AgentDrain, DrainState, HostDrain, Left};
use echelon_core_model::{HostId, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Between two calls about one agent, when the first was refused or had no answer.
const ASK_AGAIN: Span = Span::minutes(1);

/// What is wanted, and how far it has come.
#[derive(Debug, Clone, Default)]
pub struct Drains {
    /// By the hosts' names.
    wished: BTreeMap<String, HostDrain>,
    /// By the agents that have those names.
    agents: BTreeMap<HostId, DrainState>,
    /// What Mesos was last asked about an agent, and when.
    asked: BTreeMap<HostId, (Call, Timestamp)>,
}

impl Drains {
    /// What is wanted of an agent's host now.
    pub fn of(&self, host: &HostId, now: Timestamp) -> Option<Drain> {
        let batch_until = self.agents.get(host)?.wish.batch_until;
        Some(if batch_until <= now {
            Drain::All
        } else {
            Drain::Services
        })
    }

    /// How far an agent's host is.
    pub fn state(&self, host: &HostId) -> Option<&DrainState> {
        self.agents.get(host)
    }

    pub fn hosts(&self) -> impl Iterator<Item = &HostId> {
        self.agents.keys()
    }

    /// Notes the name of an agent's host; whether anything changed.
    pub fn named(&mut self, host: &HostId, hostname: &str) -> bool {
        match self.wished.get(hostname) {
            None => self.agents.remove(host).is_some(),
            Some(wish) => {
                let agent = match self.agents.get(host) {
                    Some(known) if known.wish == *wish => return false,
                    Some(known) if known.wish.agent && wish.agent => known.agent.clone(),
                    _ => AgentDrain::Open,
                };
                let wish = wish.clone();
                let known = self.agents.get(host);
                let left = known.map(|known| known.left.clone()).unwrap_or_default();
                self.agents.insert(host.clone(), DrainState { wish, agent, left });
                true
            }
        }
    }

    pub fn forget(&mut self, host: &HostId) {
        self.agents.remove(host);
    }

    fn wants_agent(&self, host: &HostId) -> bool {
        self.agents.get(host).is_some_and(|s| s.wish.agent)
    }

    /// When a call may be made: the same one not at once again.
    fn due(&self, call: &Call) -> Timestamp {
        let last = agent_of(call).and_then(|host| self.asked.get(host));
        let last = last.filter(|(before, _)| before == call);
        last.map_or(Timestamp(0), |(_, at)| at.plus(ASK_AGAIN))
    }

    fn answered(&mut self, host: &HostId, agent: AgentDrain) {
        if let Some(state) = self.agents.get_mut(host).filter(|s| s.wish.agent) {
            state.agent = agent;
        }
    }

    /// When a batch instance has had its time.
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let moments = self.agents.values().map(|s| s.wish.batch_until);
        moments.filter(|at| *at > now).min()
    }
}

impl Hosts {
    /// Takes in all hosts that are to be empty, by name. `O(hosts)`.
    pub fn set_drains(&mut self, wished: BTreeMap<String, HostDrain>) {
        self.drains.wished = wished;
        for (id, record) in &self.records {
            if self.drains.named(id, record.hostname()) {
                self.changed.insert(id.clone());
            }
        }
        self.touch_all();
    }

    /// Notes the name of an agent's host; whether operators want something else of it than was known.
    pub(crate) fn is_named(&mut self, host: &HostId, hostname: &str) -> bool {
        let drain = self.drains.named(host, hostname);
        self.pools.named(host, hostname) || drain
    }

    /// Notes what of our work is still on hosts that operators want empty; nothing on those that are not named.
    pub fn note_left(&mut self, mut left: BTreeMap<HostId, Vec<Left>>) {
        self.changed.extend(self.pools.note_left(&left));
        for (host, state) in &mut self.drains.agents {
            let left = left.remove(host).unwrap_or_default();
            if state.left != left {
                state.left = left;
                self.changed.insert(host.clone());
            }
        }
    }

    /// Calls about agents that are due. `drained` are those that Mesos may drain at our wish: who is in there must be stored before
    /// the call leaves, or nobody would have it offered again.
    #[must_use]
    pub fn agent_calls(&mut self, drained: &BTreeSet<HostId>, now: Timestamp) -> Vec<Call> {
        let due = |call: &Call| self.drains.due(call) <= now;
        let calls: Vec<Call> = self.agent_calls_wanted(drained).filter(due).collect();
        for call in &calls {
            if let Some(host) = agent_of(call) {
                self.drains.asked.insert(host.clone(), (call.clone(), now));
            }
        }
        calls
    }

    /// When the next of them is due.
    #[must_use]
    pub fn next_agent_call(&self, drained: &BTreeSet<HostId>) -> Option<Timestamp> {
        let calls = self.agent_calls_wanted(drained);
        calls.map(|call| self.drains.due(&call)).min()
    }

    fn agent_calls_wanted<'a>(&'a self, drained: &'a BTreeSet<HostId>) -> impl Iterator<Item = Call> + 'a {
        let drain = self.drains.agents.iter().filter(|(host, state)| {
            state.wish.agent && state.agent != AgentDrain::Done && self.is_empty(host)
        });
        let drain = drain.map(|(host, _)| Call::DrainAgent { host: host.clone() });
        let back = drained.iter().filter(|host| !self.drains.wants_agent(host));
        drain.chain(back.map(|host| Call::ReactivateAgent { host: host.clone() }))
    }

    /// Whether Mesos is to drain an agent.
    #[must_use]
    pub fn wants_agent_drained(&self, host: &HostId) -> bool {
        self.drains.wants_agent(host)
    }

    /// What Mesos said to a call about an agent; `why` it refused.
    pub(crate) fn on_agent_call(&mut self, call: &Call, why: Option<&str>) {
        match call {
            Call::DrainAgent { host } => {
                let said = why.map_or(AgentDrain::Done, |why| AgentDrain::Refused(why.to_owned()));
                self.drains.answered(host, said);
                self.note(host.clone());
            }
            Call::ReactivateAgent { host } if why.is_none() => {
                self.drains.asked.remove(host);
            }
            _ => {}
        }
    }
}

const fn agent_of(call: &Call) -> Option<&HostId> {
    match call {
        Call::DrainAgent { host } | Call::ReactivateAgent { host } => Some(host),
        _ => None,
    }
}
