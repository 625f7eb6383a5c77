//! A cluster's Mesos and the connections of its shard's processes to it. A connection keeps order both ways; when a call
//! is lost its connection is lost with it, and nobody knows whether the call arrived.

use crate::federation::ProbedMaster;
use crate::invariants::{Broken, Facts};
use crate::others::Other;
use crate::process::{Process, Who};
use crate::world::{Item, World};
use echelon_core_hosts::{Call, Event, Refusal, TaskState};
use echelon_core_model::{ClusterId, Span, Timestamp};
use echelon_core_shard::{self as shard, Shard};
use echelon_proto::convert::mesos::{Framework, call_to_wire, event_from_wire};
use echelon_proto::mesos::v1::Unavailability;
use echelon_sim_mesos as sim;
use std::collections::{BTreeMap, VecDeque};

/// A cluster.
#[derive(Debug)]
pub struct ClusterWorld {
    /// Its id, which is also its name.
    pub id: ClusterId,
    /// Its master and agents.
    pub mesos: sim::Cluster,
    /// Its shard's processes.
    pub shards: Vec<Process<Shard>>,
    /// What the clusters' framework says of itself.
    pub framework: Framework,
    /// Connections by process and life.
    pub connections: BTreeMap<(usize, u64), Connection>,
    /// Planned maintenance, by machine.
    pub windows: BTreeMap<String, Unavailability>,
    /// Machines that are away, as they were.
    pub parked: BTreeMap<String, sim::AgentSpec>,
    /// Other frameworks by their streams.
    pub others: BTreeMap<sim::StreamId, Other>,
    /// When the shard asked for offers to be revived.
    pub revived: Vec<Timestamp>,
    /// The tick that is planned.
    pub tick_at: Option<Timestamp>,
    /// Its agents refuse to tell their flags.
    pub(crate) hides_flags: bool,
    /// Whether its master is away or hangs.
    pub(crate) master: ProbedMaster,
}

/// A process' connection to the master.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// The stream, once subscribed.
    pub stream: Option<sim::StreamId>,
    /// The framework id that calls carry.
    pub framework: Option<String>,
    /// Counts subscriptions: what belongs to an older one is dropped.
    pub attempt: u64,
    down: Timestamp,
    up: Timestamp,
}

impl World {
    /// A process calls its master.
    pub(crate) fn call_mesos(&mut self, who: (usize, usize, u64), call: Call) {
        let (cluster, index, life) = who;
        let rate = if self.is_faulty() {
            self.options.faults.calls
        } else {
            0
        };
        let lost = self.dice.losses.chance(rate);
        let arrives = !lost || self.dice.losses.chance(500);
        let delay = self.dice.delays.span(Span::millis(1), Span::millis(10));
        let now = self.now;
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let connection = c.connections.entry((index, life)).or_default();
        if matches!(call, Call::Subscribe { .. }) {
            connection.attempt += 1;
            connection.stream = None;
        }
        connection.down = connection.down.max(now.plus(delay));
        let (at, attempt) = (connection.down, connection.attempt);
        if arrives {
            self.queue.plan(
                at,
                Item::Call {
                    who,
                    attempt,
                    call: Box::new(call.clone()),
                },
            );
        }
        if lost {
            let failed = Event::CallFailed {
                call,
                why: "connection broke".to_owned(),
                refused: false,
            };
            self.tell(who, failed);
            self.break_connection(who, "connection broke");
        }
    }

    /// A call arrives at the master.
    pub(crate) fn call_arrives(&mut self, who: (usize, usize, u64), attempt: u64, call: Call) {
        let (cluster, index, life) = who;
        let now = self.now;
        let Some(call) = self.await_master(who, attempt, call) else {
            return;
        };
        Facts::judge_call(self, cluster, &call);
        self.detail(|| format!("c{cluster}.shard{index} calls {call:?}"));
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let Some(connection) = c.connections.get_mut(&(index, life)) else {
            return;
        };
        if connection.attempt != attempt {
            return;
        }
        if let Call::Subscribe { framework } = &call {
            connection.framework.clone_from(framework);
        }
        if matches!(call, Call::Revive) {
            c.revived.push(now);
        }
        let id = connection.framework.clone();
        let Some(wire) = call_to_wire(&call, &c.framework, id.as_deref()) else {
            return self.operated(who, call);
        };
        let request = sim::Request::post(wire, connection.stream.as_ref());
        let response = c.mesos.handle(&request, now);
        if let Some(stream) = response.stream.clone() {
            connection.stream = Some(stream);
        }
        if !response.is_success() {
            self.refused(who, call, &response);
        }
        self.flush_mesos(cluster);
    }

    fn refused(&mut self, who: (usize, usize, u64), call: Call, response: &sim::Response) {
        let why = format!("{} {}", response.status, response.body);
        let superseded = response.body.contains("didn't match the stream ID");
        if superseded {
            self.tell(
                who,
                Event::Refused {
                    message: why,
                    cause: Refusal::Superseded,
                },
            );
        } else if matches!(call, Call::Subscribe { .. }) || matches!(response.status, 400 | 403) {
            self.break_connection(who, &why);
        } else {
            self.tell(
                who,
                Event::CallFailed {
                    call,
                    why,
                    refused: true,
                },
            );
        }
    }

    /// Carries a cluster's outputs to whom they belong, and plans its next tick.
    pub(crate) fn flush_mesos(&mut self, cluster: usize) {
        self.touched.runs = true;
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let mut outputs: VecDeque<sim::Output> = c.mesos.drain().into();
        while let Some(output) = outputs.pop_front() {
            match output {
                sim::Output::Event { stream, event } => match self.others_hear(cluster, &stream, &event) {
                    Some(answers) => outputs.extend(answers),
                    None => self.event_leaves(cluster, &stream, &event),
                },
                sim::Output::Close { stream, .. } => self.stream_closed(cluster, &stream),
                sim::Output::Crash { why } => self.broken.push(Broken {
                    invariant: 9,
                    what: why,
                }),
                sim::Output::Store { .. }
                | sim::Output::Launch(_)
                | sim::Output::Kill { .. }
                | sim::Output::Destroy { .. }
                | sim::Output::Shutdown(_)
                | sim::Output::Message { .. } => {}
            }
        }
        self.plan_tick(cluster);
    }

    /// What comes of an event for another framework; `None` when it is for one of ours.
    fn others_hear(
        &mut self,
        cluster: usize,
        stream: &sim::StreamId,
        event: &echelon_proto::mesos::v1::scheduler::Event,
    ) -> Option<Vec<sim::Output>> {
        let now = self.now;
        let c = self.clusters.get_mut(cluster)?;
        c.others_hear(stream, event, now).then(|| c.mesos.drain())
    }

    fn plan_tick(&mut self, cluster: usize) {
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let Some(at) = c.mesos.next_wake().map(|at| at.max(self.now)) else {
            return;
        };
        if c.tick_at.is_none_or(|t| at < t) {
            c.tick_at = Some(at);
            self.queue.plan(at, Item::MesosTick(cluster));
        }
    }

    /// The master does what is due.
    pub(crate) fn mesos_tick(&mut self, cluster: usize) {
        let now = self.now;
        // A tick that an earlier one replaced is none.
        if let Some(c) = self.clusters.get_mut(cluster).filter(|c| c.tick_at == Some(now)) {
            c.tick_at = None;
            c.mesos.tick(now);
            self.flush_mesos(cluster);
        }
    }

    fn owner_of(&self, cluster: usize, stream: &sim::StreamId) -> Option<(usize, usize, u64)> {
        let c = self.clusters.get(cluster)?;
        let ((index, life), _) = c
            .connections
            .iter()
            .find(|(_, conn)| conn.stream.as_ref() == Some(stream))?;
        Some((cluster, *index, *life))
    }

    fn event_leaves(
        &mut self,
        cluster: usize,
        stream: &sim::StreamId,
        event: &echelon_proto::mesos::v1::scheduler::Event,
    ) {
        let Some(who) = self.owner_of(cluster, stream) else {
            return;
        };
        for event in event_from_wire(event) {
            if let Event::Subscribed { framework, .. } = &event
                && let Some(connection) = self.connection(who)
            {
                connection.framework = Some(framework.clone());
                self.federation.note_subscribed(cluster);
            }
            if let Event::Update(status) = &event {
                self.facts.told(status);
                self.dropped += u64::from(status.state == TaskState::Dropped);
                // A kill changes nothing that was not decided before.
                if !matches!(
                    status.state,
                    TaskState::Staging
                        | TaskState::Starting
                        | TaskState::Running
                        | TaskState::Killing
                        | TaskState::Killed
                ) {
                    self.note_cause();
                }
            }
            self.tell(who, event);
        }
    }

    fn stream_closed(&mut self, cluster: usize, stream: &sim::StreamId) {
        if let Some(who) = self.owner_of(cluster, stream) {
            if let Some(connection) = self.connection(who) {
                connection.stream = None;
            }
            self.tell(
                who,
                Event::Disconnected {
                    why: "the stream ended".to_owned(),
                },
            );
        }
    }

    fn connection(&mut self, (cluster, index, life): (usize, usize, u64)) -> Option<&mut Connection> {
        self.clusters
            .get_mut(cluster)?
            .connections
            .get_mut(&(index, life))
    }

    /// An event reaches a process, after all that were sent to it before.
    pub(crate) fn tell(&mut self, who: (usize, usize, u64), event: Event) {
        let delay = self.dice.delays.span(Span::millis(1), Span::millis(10));
        let at = self.now.plus(delay);
        let Some(connection) = self.connection(who) else {
            return;
        };
        connection.up = connection.up.max(at);
        let at = connection.up;
        self.detail(|| format!("c{}.shard{} is told {event:?}", who.0, who.1));
        self.tell_shard(who, at, shard::Event::Cluster(event));
    }

    /// A connection breaks; both ends learn of it.
    pub(crate) fn break_connection(&mut self, who: (usize, usize, u64), why: &str) {
        let now = self.now;
        let Some(connection) = self.connection(who) else {
            return;
        };
        connection.attempt += 1;
        let stream = connection.stream.take();
        self.tell(who, Event::Disconnected { why: why.to_owned() });
        if let (Some(stream), Some(c)) = (stream, self.clusters.get_mut(who.0)) {
            c.mesos.close_stream(&stream, now);
            self.flush_mesos(who.0);
        }
    }

    /// Every subscription of a cluster breaks.
    pub(crate) fn cut_streams(&mut self, cluster: usize) {
        let all: Vec<(usize, u64)> = self
            .clusters
            .get(cluster)
            .map(|c| c.connections.keys().copied().collect())
            .unwrap_or_default();
        for (index, life) in all {
            self.break_connection((cluster, index, life), "connection reset");
        }
    }

    /// A process died: its connection breaks, and nobody is told.
    pub(crate) fn drop_connections(&mut self, who: Who) {
        let Who::Shard { cluster, index } = who else {
            return;
        };
        let now = self.now;
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let gone: Vec<(usize, u64)> = c
            .connections
            .keys()
            .filter(|(i, _)| *i == index)
            .copied()
            .collect();
        for key in gone {
            if let Some(stream) = c.connections.remove(&key).and_then(|conn| conn.stream) {
                c.mesos.close_stream(&stream, now);
            }
        }
        self.flush_mesos(cluster);
    }

    /// An agent falls silent; in one case of three its machine dies with all that ran on it.
    pub(crate) fn lose_agent(&mut self, cluster: usize, agent: usize) -> Option<sim::AgentId> {
        let now = self.now;
        let how = self.dice.faults.below(3);
        let c = self.clusters.get_mut(cluster)?;
        let id = c.mesos.agent_ids().nth(agent).cloned()?;
        let done = match how {
            0 => c.mesos.stop_agent(&id, sim::Tasks::Die, now),
            1 => c.mesos.stop_agent(&id, sim::Tasks::Live, now),
            _ => c.mesos.cut_agent(&id, now),
        };
        self.facts.agent_lost(id.as_str(), now);
        self.flush_mesos(cluster);
        done.then_some(id)
    }

    /// Stops all hosts of a cluster but the first, with their tasks; the next master remembers none of them.
    /// Returns the agents that were stopped.
    pub(crate) fn lose_hosts(&mut self, cluster: usize) -> Vec<sim::AgentId> {
        let (now, mut lost) = (self.now, Vec::new());
        let recovery = self.dice.faults.span(Span::millis(100), Span::seconds(5));
        let Some(c) = self.clusters.get_mut(cluster) else {
            return lost;
        };
        let ids: Vec<sim::AgentId> = c.mesos.agent_ids().skip(1).cloned().collect();
        for id in ids {
            if c.mesos.stop_agent(&id, sim::Tasks::Die, now) {
                self.facts.agent_lost(id.as_str(), now);
                lost.push(id);
            }
        }
        let failover = sim::Fault::MasterFailover(sim::Registry::Fresh, recovery);
        if let Err(error) = c.mesos.inject(failover, now) {
            self.trace.line(now, &error.to_string());
        }
        self.flush_mesos(cluster);
        lost
    }

    /// A host stops with all that runs there; which one it is, unless it is away already.
    pub(crate) fn stop_host(&mut self, cluster: usize, agent: usize) -> Option<sim::AgentId> {
        let now = self.now;
        let c = self.clusters.get_mut(cluster)?;
        let id = c.mesos.agent_ids().nth(agent)?.clone();
        let stopped = c.mesos.stop_agent(&id, sim::Tasks::Die, now);
        if stopped {
            self.facts.agent_lost(id.as_str(), now);
            self.flush_mesos(cluster);
        }
        stopped.then_some(id)
    }

    /// It comes back, whatever had become of it.
    pub(crate) fn return_agent(&mut self, cluster: usize, id: &sim::AgentId) {
        let now = self.now;
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        c.mesos.start_agent(id, now);
        c.mesos.heal_agent(id, now);
        self.facts.agent_back(id.as_str(), now);
        self.note_cause();
        self.flush_mesos(cluster);
    }

    /// A host lends so many cores from now on. One that is away goes on as before.
    pub(crate) fn lend(&mut self, cluster: usize, id: &sim::AgentId, cores: u64) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            c.mesos.lend(id, &sim::Bundle::of(cores, 0, 0), now);
        }
        self.flush_mesos(cluster);
    }

    /// An agent drops each task from now on with these words, or starts them again.
    pub(crate) fn set_starts(&mut self, cluster: usize, agent: usize, words: Option<String>) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            let id = c.mesos.agent_ids().nth(agent).cloned();
            // A cluster that was removed has none.
            let done = id.map(|id| c.mesos.inject(sim::Fault::StartsFail(id, words), now));
            drop(done);
        }
        self.flush_mesos(cluster);
    }

    /// Every host of a world in which hosts lend lends all that it may.
    pub(crate) fn lend_all(&mut self) {
        for cluster in 0..self.clusters.len() {
            let ids = self.clusters.get(cluster).map(|c| c.mesos.agent_ids());
            let ids: Vec<sim::AgentId> = ids.into_iter().flatten().cloned().collect();
            let cores = self.options.lent;
            for id in ids.iter().filter(|_| cores > 0) {
                self.lend(cluster, id, cores);
            }
        }
    }

    /// The master dies and another leads, with an empty memory.
    pub(crate) fn fail_master(&mut self, cluster: usize) {
        let now = self.now;
        let recovery = self.dice.faults.span(Span::millis(100), Span::seconds(5));
        if let Some(c) = self.clusters.get_mut(cluster) {
            c.mesos.fail_over(recovery, now);
        }
        self.flush_mesos(cluster);
    }
}

/// What a cluster's framework says of itself.
pub fn framework(id: &ClusterId) -> Framework {
    Framework::named(format!("echelon-{id}"))
}

/// The name of a cluster's n-th host.
pub fn hostname(cluster: &ClusterId, n: usize) -> String {
    format!("{cluster}-host{n}")
}

/// The agent of a cluster's n-th host. Each has a port of its own: an agent that takes the address of one that is down ends that one
/// for good, with all that is on its disks.
pub fn agent(cluster: &ClusterId, n: usize) -> sim::AgentSpec {
    let spec = sim::AgentSpec::new(hostname(cluster, n), resources(n));
    let port = spec.port.saturating_add(n.try_into().unwrap_or_default());
    sim::AgentSpec { port, ..spec }
}

/// What each host has. Every third one keeps most of it for our role, and every sixth one all of its disk.
fn resources(n: usize) -> sim::Bundle {
    let role = Framework::named("echelon").role;
    match n % 6 {
        2 => sim::Bundle::of(1, 1024, 2048).with_reserved(&role, &sim::Bundle::of(3, 3072, 10_240)),
        5 => sim::Bundle::of(1, 1024, 0).with_reserved(&role, &sim::Bundle::of(3, 3072, 10_240)),
        _ => sim::Bundle::of(4, 4096, 10_240),
    }
}

/// How long executors wait for their agents, by the seed of their cluster.
pub fn recovery_timeout(seed: u64) -> Span {
    Span::minutes(match seed % 5 {
        0 => 1,
        1 => 4,
        2 => 15,
        3 => 25,
        _ => 40,
    })
}

/// A cluster with its hosts.
pub fn cluster(name: &str, hosts: usize, seed: u64, now: Timestamp) -> (ClusterId, sim::Cluster) {
    let id = ClusterId::new(name);
    let config = sim::Config {
        recovery_timeout: recovery_timeout(seed),
        ..sim::Config::default()
    };
    let mut mesos = sim::Cluster::new(config, seed, now);
    for i in 0..hosts {
        mesos.add_agent(agent(&id, i), now);
    }
    (id, mesos)
}
