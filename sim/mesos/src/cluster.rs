//! The whole simulated cluster behind one value: a shell or a simulation puts requests, reports and the time in, and
//! takes outputs out. What each input does lies in the file named after it.

use crate::agent::{Agent, AgentTask, Contact, Member};
use crate::check::Verdict;
use crate::config::{AgentSpec, Config};
use crate::fault::Unruly;
use crate::framework::Framework;
use crate::id::{AgentId, FrameworkId, Run, StreamId};
use crate::inverse_offer::InverseOffer;
use crate::maintenance::Maintenance;
use crate::offer::Offer;
use crate::output::{Output, StreamEnd};
use crate::quota::Quotas;
use crate::random::{Random, uuid_text};
use crate::request::{Request, Response};
use crate::store::StoreKey;
use crate::timers::{Timer, Timers};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::scheduler::Event;
use std::collections::{BTreeMap, BTreeSet};

/// A Mesos master with its agents.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) master: Master,
    pub(crate) agents: BTreeMap<AgentId, Agent>,
    /// Agents that were replaced at their address while their executors waited for them, which they do for a
    /// while.
    pub(crate) departed: BTreeMap<AgentId, Agent>,
    pub(crate) timers: Timers,
    pub(crate) out: Vec<Output>,
    pub(crate) dirty: BTreeSet<StoreKey>,
    /// The agent that was last started at an address.
    pub(crate) addresses: BTreeMap<(String, u16), AgentId>,
    /// The agents' numbers go on over masters, since their ids live on.
    pub(crate) n_agents: u64,
    /// What faults hold back.
    pub(crate) unruly: Unruly,
}

/// The memory of one master; a new leader starts with an empty one (rule R20).
#[derive(Debug)]
pub(crate) struct Master {
    pub id: String,
    pub leadership: Leadership,
    pub started: Timestamp,
    pub frameworks: BTreeMap<FrameworkId, Framework>,
    pub n_frameworks: u64,
    /// Ids that are burnt (rule R37).
    pub removed: BTreeSet<FrameworkId>,
    pub members: BTreeMap<AgentId, Member>,
    pub offers: BTreeMap<u64, Offer>,
    pub n_offers: u64,
    pub streams: BTreeMap<StreamId, FrameworkId>,
    /// When offers are made next; nothing is due while nothing has changed.
    pub allocation_at: Option<Timestamp>,
    /// By number, which they share with offers (rule R60).
    pub inverse_offers: BTreeMap<u64, InverseOffer>,
    /// What operators decided; the registry keeps it over masters.
    pub decrees: Decrees,
    /// What killed it (rule S25).
    pub crashed: Option<String>,
}

/// What operators decided about the cluster as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decrees {
    pub quotas: Quotas,
    pub maintenance: Maintenance,
}

/// Who leads, as the asked master sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This one.
    Leads,
    /// This one, but it is still reading its registry (rule R21).
    Recovering,
    /// Another one, at `host:port` (rule R17).
    Follows(String),
    /// Nobody.
    Nobody,
}

impl Master {
    pub(crate) fn new(random: &mut Random, leadership: Leadership, started: Timestamp) -> Self {
        Self {
            id: uuid_text(&random.uuid()),
            leadership,
            started,
            frameworks: BTreeMap::new(),
            n_frameworks: 0,
            removed: BTreeSet::new(),
            members: BTreeMap::new(),
            offers: BTreeMap::new(),
            n_offers: 0,
            streams: BTreeMap::new(),
            allocation_at: None,
            inverse_offers: BTreeMap::new(),
            decrees: Decrees::default(),
            crashed: None,
        }
    }
}

impl Cluster {
    /// A cluster whose master leads and has no agents yet. The same seed and inputs give the same outputs.
    #[must_use]
    pub fn new(config: Config, seed: u64, now: Timestamp) -> Self {
        let mut random = Random::new(seed);
        let master = Master::new(&mut random, Leadership::Leads, now);
        Self {
            config,
            random,
            master,
            agents: BTreeMap::new(),
            departed: BTreeMap::new(),
            timers: Timers::default(),
            out: Vec::new(),
            dirty: BTreeSet::new(),
            addresses: BTreeMap::new(),
            n_agents: 0,
            unruly: Unruly::default(),
        }
    }

    /// Starts a new agent, which registers at once. On a machine that is down for maintenance it ends again: start it later.
    pub fn add_agent(&mut self, spec: AgentSpec, now: Timestamp) -> AgentId {
        let id = AgentId::new(format!("{}-S{}", self.master.id, self.n_agents));
        self.n_agents += 1;
        self.replace_agent_at(&spec, &id, now);
        let mut agent = Agent::new(id.clone(), spec);
        agent.up = !self.is_down(&agent.spec);
        if agent.up {
            let member = Member::new(&agent.spec.resources);
            self.master.members.insert(id.clone(), member);
        }
        self.agents.insert(id.clone(), agent);
        self.dirty.insert(StoreKey::Agent(id.clone()));
        self.allocate_agent(&id, now);
        id
    }

    /// Answers a request to `/api/v1/scheduler`.
    pub fn handle(&mut self, request: &Request, now: Timestamp) -> Response {
        self.unruly.now = now;
        let response = match self.check(request) {
            Verdict::Refused(response) => response,
            Verdict::Subscribe(call) => self.subscribe(call, request.principal.as_deref(), now),
            Verdict::Call(framework, call) => self.call(&framework, call, now),
        };
        self.last_words().unwrap_or(response)
    }

    /// Answers a request as [`Cluster::handle`] would and then loses it: a master may die after 202 (rule R12).
    #[must_use]
    pub fn answer_and_lose(&self, request: &Request) -> Response {
        match self.check(request) {
            Verdict::Refused(response) => response,
            Verdict::Subscribe(_) | Verdict::Call(..) => Response::accepted(),
        }
    }

    /// Does what is due until `now`.
    pub fn tick(&mut self, now: Timestamp) {
        self.unruly.now = now;
        while let Some(timer) = self.timers.pop(now) {
            self.fire(timer, now);
        }
    }

    /// When [`Cluster::tick`] is wanted next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Takes what is to be done outside, records to keep first.
    pub fn drain(&mut self) -> Vec<Output> {
        let outputs = std::mem::take(&mut self.out);
        let dirty = std::mem::take(&mut self.dirty);
        if !self.config.durable {
            return outputs;
        }
        let mut all: Vec<Output> = dirty.into_iter().map(|key| self.record(&key)).collect();
        all.extend(outputs);
        all
    }

    /// What the master says about leadership from now on, and what it said before.
    pub const fn set_leadership(&mut self, leadership: Leadership) -> Leadership {
        std::mem::replace(&mut self.master.leadership, leadership)
    }

    /// Answers `/master/redirect` of whichever master is asked (rule R19).
    #[must_use]
    pub fn redirect(&self) -> Response {
        let to = |leader: &str| Response::text(307, "").with_header("Location", format!("//{leader}"));
        match &self.master.leadership {
            Leadership::Leads | Leadership::Recovering => {
                to(&format!("{}:{}", self.config.hostname, self.config.port))
            }
            Leadership::Follows(leader) => to(leader),
            Leadership::Nobody => Response::text(503, "No leader elected"),
        }
    }

    /// The master's id, which offers, frameworks and agents of its time begin with.
    #[must_use]
    pub fn master_id(&self) -> &str {
        &self.master.id
    }

    /// All agents, also those that are down.
    pub fn agent_ids(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.keys()
    }

    /// An agent by its id, or else by its host's name.
    #[must_use]
    pub fn find_agent(&self, name: &str) -> Option<AgentId> {
        let by_name = |agent: &&Agent| agent.spec.hostname == name;
        let found = self.agents.get(&AgentId::new(name));
        Some(found.or_else(|| self.agents.values().find(by_name))?.id.clone())
    }

    fn fire(&mut self, timer: Timer, now: Timestamp) {
        match timer {
            Timer::RecoveryDone => self.finish_recovery(now),
            Timer::Reregister(agent) => self.reregister(&agent, now),
            Timer::AgentTimeout(agent) => self.agent_timed_out(&agent, now),
            Timer::ExecutorsEnd(agent, since) => self.executors_end(&agent, since),
            Timer::RecoveredAgentTimeout(agent) => self.recovered_agent_timed_out(&agent, now),
            Timer::FailoverTimeout(framework) => self.failover_timed_out(&framework, now),
            Timer::VirtualStart(run) => self.virtual_start(&run, now),
            Timer::VirtualEnd(run) => self.virtual_end(&run, now),
            Timer::VirtualDeath(run) => self.virtual_death(&run, now),
            Timer::ExecutorEnd(executor) => self.end_idle_executor(&executor, now),
            Timer::MaxCompletion(run) => self.out_of_time(&run, now),
            Timer::Retry(run) => self.retry(&run, now),
            Timer::RetryOperation(agent, uuid) => self.retry_operation(&agent, uuid, now),
            Timer::OfferTimeout(number) => self.offer_timed_out(number, now),
            Timer::Allocation => self.allocation_due(now),
            Timer::Heartbeat(stream) => self.heartbeat(stream, now),
            Timer::LateEvent(number) => self.deliver_late(number),
        }
    }

    /// Sends an event to a framework; without a stream it is lost (rule R31).
    pub(crate) fn send(&mut self, framework: &FrameworkId, event: Event) {
        if let Some(stream) = self
            .master
            .frameworks
            .get(framework)
            .and_then(|f| f.stream.clone())
        {
            self.deliver(stream, event);
        }
    }

    pub(crate) fn close(&mut self, stream: StreamId, end: StreamEnd) {
        self.master.streams.remove(&stream);
        self.out.push(Output::Close { stream, end });
    }

    pub(crate) fn contact(&self, agent: &AgentId) -> Option<Contact> {
        self.master.members.get(agent).map(|member| member.contact)
    }

    /// Whether the master and the agent can talk just now.
    pub(crate) fn talks_to(&self, agent: &AgentId) -> bool {
        self.contact(agent) == Some(Contact::Connected)
            && self.agents.get(agent).is_some_and(Agent::is_reachable)
    }

    /// The task of a run, unless a later attempt has taken its name.
    pub(crate) fn agent_task(&mut self, run: &Run) -> Option<&mut AgentTask> {
        let key = (run.framework.clone(), run.task.clone());
        let task = self.agents.get_mut(&run.agent)?.tasks.get_mut(&key)?;
        (task.container == run.container).then_some(task)
    }

    pub(crate) fn touch(&mut self, run: &Run) {
        if self.config.durable {
            self.dirty.insert(StoreKey::Task(
                run.agent.clone(),
                run.framework.clone(),
                run.task.clone(),
            ));
        }
    }
}
