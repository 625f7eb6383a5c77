//! Faults that a tester asks for: agents lost, cut off and back, a new master with a kept or a fresh registry, offers taken back
//! at once, updates that come late, twice and out of order, streams that stand still. Nothing here happens by itself.

use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::id::{AgentId, StreamId};
use crate::membership::Tasks;
use crate::output::Output;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::{Event, event};
use std::collections::BTreeMap;
use thiserror::Error;

/// What the next master knows of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// What the one before it knew.
    Kept,
    /// Nothing: agents are unknown until they register.
    Fresh,
}

/// How UPDATE events reach frameworks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Updates {
    /// Each is this late.
    pub delay: Span,
    /// And by up to this much more, by chance: later ones overtake earlier ones.
    pub jitter: Span,
    /// So many of a thousand come twice.
    pub twice: u64,
}

/// What is to go wrong, or to be well again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An agent's process dies, and its tasks with it or not.
    AgentLost(AgentId, Tasks),
    /// The network between an agent and the master goes silent.
    AgentPartitioned(AgentId),
    /// An agent is back, whatever was wrong with it.
    AgentReturned(AgentId),
    /// The leading master dies; the next one answers 503 for a while, then leads.
    MasterFailover(Registry, Span),
    /// An agent lends this much from now on, and ends what runs on more.
    Lent(AgentId, Bundle),
    /// An agent drops each task that comes from now on, with these words: it cannot make its folder, or does not
    /// know its user. `None`: it starts them again.
    StartsFail(AgentId, Option<String>),
    /// Every open offer is taken back.
    RescindAll,
    /// From now on updates come like this.
    Updates(Updates),
    /// No stream carries anything for a while; what was to be sent comes then.
    Stall(Span),
}

/// There is no such agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no agent `{0}`")]
pub struct UnknownAgent(pub String);

/// What is held back of events.
#[derive(Debug, Default)]
pub(crate) struct Unruly {
    updates: Updates,
    stalled_until: Timestamp,
    late: BTreeMap<u64, (StreamId, Box<Event>)>,
    n_late: u64,
    /// The last moment that the cluster was told.
    pub(crate) now: Timestamp,
}

impl Cluster {
    /// Has something go wrong, or be well again.
    ///
    /// # Errors
    /// There is no such agent.
    pub fn inject(&mut self, fault: Fault, now: Timestamp) -> Result<(), UnknownAgent> {
        self.unruly.now = now;
        let known = |done: bool, agent: &AgentId| {
            done.then_some(())
                .ok_or_else(|| UnknownAgent(agent.as_str().to_owned()))
        };
        match fault {
            Fault::AgentLost(agent, tasks) => known(self.stop_agent(&agent, tasks, now), &agent)?,
            Fault::AgentPartitioned(agent) => known(self.cut_agent(&agent, now), &agent)?,
            Fault::AgentReturned(agent) => {
                let was_up = self.agents.get(&agent).is_some_and(|a| a.up);
                known(self.heal_agent(&agent, now), &agent)?;
                if !was_up {
                    self.start_agent(&agent, now);
                }
            }
            Fault::MasterFailover(registry, recovery) => {
                self.fail_over(recovery, now);
                if registry == Registry::Fresh {
                    self.master.members.clear();
                }
                // Without a recovery it leads at once.
                self.tick(now);
            }
            Fault::Lent(agent, estimate) => known(self.lend(&agent, &estimate, now), &agent)?,
            Fault::StartsFail(agent, words) => known(self.fail_starts(&agent, words), &agent)?,
            Fault::RescindAll => {
                let open: Vec<u64> = self.master.offers.keys().copied().collect();
                open.into_iter().for_each(|number| self.rescind(number));
            }
            Fault::Updates(updates) => self.unruly.updates = updates,
            Fault::Stall(span) => self.unruly.stalled_until = now.plus(span),
        }
        Ok(())
    }

    /// Hands an event to its stream, now or as late as faults have it.
    pub(crate) fn deliver(&mut self, stream: StreamId, event: Event) {
        let now = self.unruly.now;
        if now < self.unruly.stalled_until {
            let at = self.unruly.stalled_until;
            self.hold(at, stream, event);
            return;
        }
        let Updates { delay, jitter, twice } = self.unruly.updates;
        let unruly = delay.0 > 0 || jitter.0 > 0 || twice > 0;
        if !unruly || event.r#type() != event::Type::Update {
            let event = Box::new(event);
            self.out.push(Output::Event { stream, event });
            return;
        }
        let copies = 1 + u64::from(self.random.below(1000) < twice);
        for _ in 0..copies {
            let late = delay.0 + self.random.below(jitter.0.saturating_add(1));
            self.hold(now.plus(Span(late)), stream.clone(), event.clone());
        }
    }

    fn hold(&mut self, at: Timestamp, stream: StreamId, event: Event) {
        let number = self.unruly.n_late;
        self.unruly.n_late += 1;
        self.unruly.late.insert(number, (stream, Box::new(event)));
        self.timers.set(at, Timer::LateEvent(number));
    }

    /// A late event's time has come; if its stream has ended meanwhile it is lost.
    pub(crate) fn deliver_late(&mut self, number: u64) {
        if let Some((stream, event)) = self.unruly.late.remove(&number)
            && self.master.streams.contains_key(&stream)
        {
            self.out.push(Output::Event { stream, event });
        }
    }
}
