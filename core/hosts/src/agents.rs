//! All agents as the master lists them to operators (GET_AGENTS): how large each is, and how much of it others hold. What is free,
//! and whether a task lives, offers and updates tell; a list takes at most a host without any task of ours out of the picture.

use crate::call::Call;
use crate::config::Config;
use crate::hosts::Hosts;
use crate::record::Record;
use crate::reserved::Reservations;
use crate::sharing::ListedSharing;
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::health::AgentCounts;
use echelon_core_model::sharing::{AgentState, Others, Sharing};
use echelon_core_model::{HostId, PortSet, Resources, Span, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A question without an answer for this long is lost.
const LOST: Span = Span::minutes(2);
/// After a refusal: people have to permit it first.
const REFUSED_AGAIN: Span = Span::minutes(10);
/// A list that took a second is asked for after twenty at the earliest: a master of 50,000 agents has other things to do.
const PAUSE: u64 = 20;

/// An agent as its master lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The agent.
    pub host: HostId,
    /// The host's name.
    pub hostname: Arc<str>,
    /// Where the agent listens, `host:port`; empty when not told.
    pub address: String,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// All that may ever be offered to our role for ordinary work: what is not reserved, and what is reserved
    /// for it. Of its disk only the part that is used.
    pub total: Resources,
    /// How that part of the disk is reserved; `None`: it is not.
    pub disk: Option<Reservations>,
    /// The part of `total` that is reserved for our role. It is offered to us whatever the limits of quota
    /// are.
    pub reserved: Resources,
    /// The same of what the host lends, less what other roles hold of it.
    pub lent: Resources,
    /// The same of ports.
    pub ports: PortSet,
    /// What frameworks of other roles hold of `total`.
    pub others: Others,
    /// What tasks of our role hold of `total`: ours, and those of other frameworks with our role.
    pub of_role: Resources,
    /// What is offered of `total` to frameworks of our role, ours among them.
    pub offered_of_role: Resources,
    /// Whether the master offers what it has.
    pub state: AgentState,
}

/// How far the knowledge of all agents is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Never asked for.
    #[default]
    Unknown,
    Asked(Timestamp),
    Heard {
        at: Timestamp,
        took: Span,
    },
    Failed(Timestamp),
    Refused(Timestamp),
}

/// When the master was asked for its agents, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    stage: Stage,
    heard_at: Option<Timestamp>,
    /// It was refused, and no list has come since.
    refused: bool,
    /// Hosts with maintenance that was planned or cancelled after the question left. That is newer than the list.
    planned: BTreeSet<HostId>,
    /// Room of our tasks that ended since the question left: the list may still count it.
    ended: BTreeMap<HostId, Resources>,
}

impl Listing {
    fn due(&self, waits: bool, config: &Config) -> Timestamp {
        match self.stage {
            Stage::Unknown => Timestamp::default(),
            Stage::Asked(at) => at.plus(LOST),
            Stage::Heard { at, took } => {
                let least = if waits { config.list } else { config.list_idle };
                at.plus(least.max(Span(took.0.saturating_mul(PAUSE))))
            }
            // Without any list its health is not known, nor which hosts there are.
            Stage::Failed(at) if self.heard_at.is_none() => at.plus(config.list),
            Stage::Failed(at) => at.plus(config.list_idle),
            Stage::Refused(at) => at.plus(REFUSED_AGAIN),
        }
    }

    const fn asked_at(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Asked(at) => Some(at),
            _ => None,
        }
    }

    /// Something is told of a host's maintenance.
    pub fn planned(&mut self, host: &HostId) {
        if self.asked_at().is_some() {
            self.planned.insert(host.clone());
        }
    }

    /// A task of ours has ended.
    pub fn ended(&mut self, host: &HostId, room: Resources) {
        if self.asked_at().is_some() {
            let sum = self.ended.entry(host.clone()).or_default();
            *sum = sum.plus(room);
        }
    }

    /// The question was not taken in, or nobody knows.
    pub fn failed(&mut self, now: Timestamp) {
        if self.asked_at().is_some() {
            self.stage = Stage::Failed(now);
            self.ended.clear();
        }
    }
}

/// What the counts of agents follow from: they are the same while this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    news: u64,
    hosts: usize,
    is_listed: bool,
}

impl Hosts {
    /// How many agents there are. `None` until the master has listed them.
    #[must_use]
    pub fn agent_counts(&self) -> Option<AgentCounts> {
        self.listing.heard_at?;
        let (active, unreachable): (Vec<_>, Vec<_>) = self.records.values().partition(|r| r.reachable);
        let count = |records: &[&Record]| u32::try_from(records.len()).unwrap_or(u32::MAX);
        Some(AgentCounts {
            active: count(&active),
            unreachable: count(&unreachable),
        })
    }

    /// The same, counted again only when something else has become known of hosts: it is asked for in every
    /// step.
    pub fn recount_agents(&mut self) -> Option<AgentCounts> {
        let known = Known {
            news: self.news,
            hosts: self.records.len(),
            is_listed: self.listing.heard_at.is_some(),
        };
        match self.counted {
            Some((of, counts)) if of == known => counts,
            _ => {
                let counts = self.agent_counts();
                self.counted = Some((known, counts));
                counts
            }
        }
    }

    /// The question for all agents, when it is due; `waits`: instances wait for room. Not before all our tasks are counted, since
    /// the rest of what our role holds is others'.
    pub fn list_agents(&mut self, waits: bool, now: Timestamp) -> Option<Call> {
        if self.next_list(waits)? > now {
            return None;
        }
        self.listing.stage = Stage::Asked(now);
        self.listing.ended.clear();
        self.listing.planned.clear();
        self.stock.count_closed();
        Some(Call::ListAgents)
    }

    /// When the next question for all agents is due.
    #[must_use]
    pub fn next_list(&self, waits: bool) -> Option<Timestamp> {
        let may = self.appetite.is_some() && self.complete;
        may.then(|| self.listing.due(waits, &self.config))
    }

    /// Whether all agents were listed a short while ago: then nothing is to be learned of their size from offers.
    #[must_use]
    pub fn knows_all(&self, now: Timestamp) -> bool {
        let heard = self.listing.heard_at;
        heard.is_some_and(|at| now.since(at) < self.config.look)
    }

    /// Whether all hosts that there are have been heard of, as far as their master tells: what was not heard of since is gone.
    #[must_use]
    pub const fn has_listed(&self) -> bool {
        self.listing.heard_at.is_some() || self.listing.refused
    }

    /// Whether the master refused to list its agents when it was last asked.
    #[must_use]
    pub const fn is_unlisted(&self) -> bool {
        self.listing.refused
    }

    pub(crate) fn on_unlisted(&mut self, now: Timestamp) {
        for record in self.records.values_mut() {
            record.listed = None;
        }
        self.listing.stage = Stage::Refused(now);
        self.listing.refused = true;
        self.listing.ended.clear();
        self.sharing = Sharing::default();
    }

    /// Takes a list in, unless it was not asked for. `awaited` are agents that the master knows and that are not back since its
    /// election: nothing is said of them.
    pub(crate) fn on_agents(
        &mut self,
        agents: &[Agent],
        awaited: &[HostId],
        sharing: &ListedSharing,
        now: Timestamp,
    ) {
        let Some(asked) = self.listing.asked_at() else {
            return;
        };
        let ended = std::mem::take(&mut self.listing.ended);
        self.note_sharing(sharing, agents, &ended);
        for agent in agents {
            if !self.takes(&agent.host) {
                continue;
            }
            self.on_agent(agent, ended.get(&agent.host).copied(), (asked, now));
        }
        let named = agents.iter().map(|a| &a.host).chain(awaited);
        let named: BTreeSet<&HostId> = named.collect();
        let gone = self.records.iter().filter(|(id, record)| {
            // What was heard after the question left is newer than the list.
            let older = record.seen_at < asked;
            record.reachable && older && !named.contains(id) && self.is_empty(id)
        });
        let gone: Vec<HostId> = gone.map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|host| self.on_lost(host, now));
        self.note_replaced(agents, awaited, asked, now);
        self.stock.stop_counting();
        let took = now.since(asked);
        self.listing.stage = Stage::Heard { at: now, took };
        self.listing.heard_at = Some(now);
        self.listing.refused = false;
    }

    /// Whether a list was asked for and has not come.
    pub(crate) const fn awaits_list(&self) -> bool {
        self.listing.asked_at().is_some()
    }

    /// Takes in when listed agents are planned to be away, and which are not any more.
    /// While no offer comes, nothing else tells that a window was cancelled.
    pub(crate) fn on_schedule(&mut self, agents: &[Agent], planned: &BTreeMap<HostId, Maintenance>) {
        for host in agents.iter().map(|agent| &agent.host) {
            if self.takes(host) && !self.listing.planned.contains(host) {
                self.plan(host, planned.get(host).copied());
            }
        }
    }

    /// Whether another agent is registered at the address of one that is not there any more.
    /// The master has then removed this one, and it never comes back (R115).
    #[must_use]
    pub fn is_replaced(&self, host: &HostId) -> bool {
        let away = self.records.get(host).is_some_and(|record| !record.reachable);
        away && self.replaced.contains(host)
    }

    /// Agents of which that has become known since this was last asked, or what the flags at their address
    /// say.
    pub fn take_replaced(&mut self) -> Vec<HostId> {
        let mut news = std::mem::take(&mut self.newly_replaced);
        news.extend(self.flags.take_news());
        news
    }

    /// Notes agents that a list does not name, and whose name and address another one has.
    /// One that was heard of after the question left is newer than the list.
    fn note_replaced(&mut self, agents: &[Agent], awaited: &[HostId], asked: Timestamp, now: Timestamp) {
        let known = agents.iter().filter(|agent| !agent.address.is_empty());
        let places: BTreeSet<(&str, &str)> = known.map(|a| (&*a.hostname, &*a.address)).collect();
        let named: BTreeSet<&HostId> = agents.iter().map(|a| &a.host).chain(awaited).collect();
        let of_list = |(id, record): &(&HostId, &Record)| {
            record.seen_at < asked && !named.contains(id) && places.contains(&record.place())
        };
        let replaced = self.records.iter().filter(of_list).map(|(id, _)| id.clone());
        let replaced: BTreeSet<HostId> = replaced.collect();
        self.replaced.retain(|id| !named.contains(id));
        self.flags.retain(|id| !named.contains(id));
        let new: Vec<HostId> = replaced.difference(&self.replaced).cloned().collect();
        new.iter().for_each(|host| self.on_lost(host, now));
        self.newly_replaced.extend(new);
        self.replaced.extend(replaced);
    }

    fn on_agent(&mut self, agent: &Agent, ended: Option<Resources>, (asked, now): (Timestamp, Timestamp)) {
        let host = &agent.host;
        let used = self.ledger.used(host).resources;
        let ours = used.plus(ended.unwrap_or_default());
        self.stock.use_disk(host, agent.disk.clone());
        let of_role = self.offered_of_role(agent);
        let new = !self.records.contains_key(host);
        let record = self.record(host, now);
        // Lost since the question left: that is newer.
        let lost = !record.reachable && record.lost_at >= asked;
        let (state, others) = (record.agent, record.others());
        if new || record.seen_at < asked {
            record.agent = agent.state;
        }
        let changed = record.listed(agent, ours, of_role) || state != record.agent;
        let back = agent.state == AgentState::Active && !lost && record.seen(now);
        let are_others_same = others == record.others();
        let drain = self.is_named(host, &agent.hostname);
        if new || changed || back || drain {
            self.note(host.clone());
        } else if !are_others_same {
            // It is shown, and no reason to look at all hosts again.
            self.changed.insert(host.clone());
        }
    }
}
