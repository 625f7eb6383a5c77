//! The host manager's room (`core/hosts`) against the simulated master, over a great many offers: whatever happens to an
//! offer on its way, it is used, given back, taken back or void in the end, and neither side keeps anything of it.
//!
//! `ECHELON_OFFERS` says how many; the nightly run takes a million.

use echelon_core_hosts::{Call, Config as HostsConfig, Demand, Event, Hosts, Launch};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, JobId, Resources, RunNumber, TaskId,
};
use echelon_proto::convert::mesos::{Framework, call_to_wire, event_from_wire};
use echelon_sim_mesos::{
    AgentId, AgentSpec, Bundle, Cluster, Config, FrameworkId, Output, Random, Request, Span, StreamId,
    Timestamp,
};
use std::collections::{BTreeMap, VecDeque};

const OFFERS: u64 = 50_000;
const AGENTS: usize = 40;
/// Leaks are looked for this often: the end of a subscription mends them.
const BETWEEN_LOOKS: u64 = 2_000;

struct World {
    cluster: Cluster,
    hosts: Hosts,
    now: Timestamp,
    agents: Vec<AgentId>,
    framework: Framework,
    id: Option<String>,
    stream: Option<StreamId>,
    /// Events on their way.
    told: VecDeque<Event>,
    random: Random,
    demand: Demand,
    n_launched: u32,
    /// No call is lost any more.
    calm: bool,
}

impl World {
    fn new() -> Self {
        let now = Timestamp(1_000_000);
        // Without a time-out nothing but an answer frees what is offered.
        let mut cluster = Cluster::new(Config::default(), 1, now);
        let agents = (0..AGENTS)
            .map(|n| cluster.add_agent(AgentSpec::new(format!("host-{n}"), Bundle::of(4, 4096, 0)), now))
            .collect();
        let mut world = Self {
            cluster,
            hosts: Hosts::new(HostsConfig::usual()),
            now,
            agents,
            framework: Framework::named("echelon"),
            id: None,
            stream: None,
            told: VecDeque::new(),
            random: Random::new(7),
            demand: Demand::Nothing,
            n_launched: 0,
            calm: false,
        };
        world.subscribe();
        world
    }

    fn chance(&mut self, in_thousand: u64) -> bool {
        self.random.below(1000) < in_thousand
    }

    fn subscribe(&mut self) {
        let call = Call::Subscribe {
            framework: self.id.clone(),
        };
        self.post(&call);
    }

    /// Hands a call to the master; whether it was taken in.
    fn post(&mut self, call: &Call) -> bool {
        let wire = call_to_wire(call, &self.framework, self.id.as_deref()).unwrap();
        let answer = self
            .cluster
            .handle(&Request::post(wire, self.stream.as_ref()), self.now);
        if answer.stream.is_some() {
            self.stream.clone_from(&answer.stream);
        }
        self.listen();
        answer.is_success()
    }

    fn listen(&mut self) {
        for output in self.cluster.drain() {
            match output {
                Output::Event { stream, event } if Some(&stream) == self.stream.as_ref() => {
                    self.told.extend(event_from_wire(&event));
                }
                Output::Close { stream, .. } if Some(&stream) == self.stream.as_ref() => {
                    self.told.push_back(disconnected());
                }
                Output::Crash { why } => panic!("the master died: {why}"),
                _ => {}
            }
        }
    }

    /// What is on its way arrives, all of it or a part.
    fn hear(&mut self, most: usize) {
        for _ in 0..most {
            let Some(event) = self.told.pop_front() else {
                return;
            };
            self.hosts.on_event(&event, self.now);
            match event {
                Event::Subscribed { framework, .. } => self.id = Some(framework),
                Event::Disconnected { .. } => {
                    self.stream = None;
                    self.told.clear();
                    self.subscribe();
                }
                Event::Update(status) => {
                    if let (Some(uuid), Some(host)) = (status.uuid, status.host) {
                        let task = status.task;
                        self.post(&Call::Acknowledge { task, host, uuid });
                    }
                }
                _ => {}
            }
        }
    }

    /// Performs a call, unless it is lost on its way there or back.
    fn perform(&mut self, call: Call) {
        let lost = !self.calm && self.chance(50);
        let arrives = !lost || self.chance(500);
        let done = arrives && self.post(&call);
        if done && !lost {
            return;
        }
        if let (Call::Accept { launches, .. }, false) = (&call, done) {
            // By reconciliation the shard would learn that they do not run.
            launches
                .iter()
                .for_each(|l| self.hosts.release(&l.task, self.now));
        }
        let refused = arrives && !done;
        let why = "lost".to_owned();
        self.told.push_back(Event::CallFailed { call, why, refused });
    }

    fn launch(&mut self) {
        let host = self.any_host();
        let n = 1 + u32::try_from(self.random.below(3)).unwrap();
        let runtime = 200 + self.random.below(6000);
        let launches = (0..n).map(|i| launch(self.n_launched + i, runtime)).collect();
        self.n_launched += n;
        if let Some(call) = self.hosts.accept(&host, launches, self.now) {
            self.perform(call);
        }
        self.hosts.let_go(&host);
    }

    fn any_agent(&mut self) -> AgentId {
        let n = usize::try_from(self.random.below(AGENTS as u64)).unwrap();
        self.agents[n].clone()
    }

    fn any_host(&mut self) -> HostId {
        HostId::new(self.any_agent().as_str())
    }

    /// Something goes wrong, or an operator steps in.
    fn trouble(&mut self) {
        let agent = self.any_agent();
        // Subscriptions end seldom: with each of them every leak would be mended.
        match self.random.below(2000) {
            0..80 => {
                self.cluster.deactivate_agent(&agent);
            }
            80..240 => {
                self.cluster.reactivate_agent(&agent, self.now);
            }
            240..280 => {
                self.cluster.cut_agent(&agent, self.now);
            }
            280..360 => {
                self.cluster.heal_agent(&agent, self.now);
            }
            360 => {
                if let Some(stream) = self.stream.take() {
                    self.cluster.close_stream(&stream, self.now);
                    self.told.push_back(disconnected());
                }
            }
            361 => self.cluster.fail_over(Span::millis(500), self.now),
            _ => {}
        }
        self.listen();
    }

    fn step(&mut self) {
        self.now = self.now.plus(Span(20 + self.random.below(300)));
        self.cluster.tick(self.now);
        self.listen();
        // Now and then our own loop is slow, and what it does crosses what is on its way.
        let most = if self.chance(300) { 1 } else { usize::MAX };
        self.hear(most);
        self.trouble();
        if self.chance(10) {
            let news = self.random.below(4);
            let placing = self.chance(500);
            self.demand = match self.random.below(10) {
                0 => Demand::Nothing,
                1 => Demand::Capacity,
                _ => Demand::Hosts { news, placing },
            };
        }
        if self.chance(100) {
            let host = self.any_host();
            self.hosts.speak_for(&host);
        }
        for _ in 0..self.random.below(6) {
            self.launch();
        }
        if self.chance(20) {
            self.hosts.compared(self.hosts.mark(), self.now);
        }
        if self.stream.is_none() && self.told.is_empty() {
            self.subscribe();
        }
        self.talk();
    }

    fn talk(&mut self) {
        for call in self.hosts.next_calls(self.demand, self.now) {
            self.perform(call);
        }
        assert_eq!(
            u64::try_from(self.hosts.open_offers()).unwrap(),
            self.hosts.tally().open(),
            "an offer is neither open nor ended"
        );
    }

    /// Everything is heard, nothing is lost any more, and nothing is wanted.
    fn come_to_rest(&mut self) {
        self.calm = true;
        self.demand = Demand::Nothing;
        for agent in self.agents.clone() {
            self.hosts.let_go(&HostId::new(agent.as_str()));
        }
        for _ in 0..30 {
            self.now = self.now.plus(Span::seconds(1));
            self.cluster.tick(self.now);
            self.listen();
            self.hear(usize::MAX);
            self.talk();
        }
        self.calm = false;
    }

    fn check(&self) {
        let tally = self.hosts.tally();
        assert_eq!(self.hosts.open_offers(), 0);
        assert_eq!(tally.open(), 0, "{tally:?}");
        assert_eq!(
            self.cluster.n_open_offers(&self.known()),
            0,
            "the master waits for an answer: {tally:?}"
        );
        assert!(
            self.hosts.next_wake(Demand::Nothing, self.now).unwrap() > self.now,
            "something is still to be given back"
        );
    }

    fn known(&self) -> FrameworkId {
        FrameworkId::new(self.id.clone().unwrap())
    }
}

fn launch(n: u32, runtime_ms: u64) -> Launch {
    let instance = InstanceId {
        job: JobId(1),
        group: GroupName::new(GroupName::DEFAULT),
        number: InstanceNumber(n),
    };
    let task = TaskId {
        instance,
        generation: Generation(1),
        run: RunNumber(1),
    };
    Launch {
        sidecars: Vec::new(),
        name: task.to_string(),
        task,
        discovery: String::new(),
        runtime: Runtime {
            env: BTreeMap::from([("SIM_RUNTIME_MS".to_owned(), runtime_ms.to_string())]),
            ..Runtime::shell("true")
        },
        ports: Vec::new(),
        volume: None,
        resources: Resources {
            cpus: 1000,
            memory: 512,
            ..Resources::ZERO
        },
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        grace: Span::seconds(1),
        max_run: None,
        labels: BTreeMap::new(),
    }
}

fn disconnected() -> Event {
    Event::Disconnected {
        why: "the stream ended".to_owned(),
    }
}

#[test]
fn every_offer_comes_to_an_end_and_nothing_is_left_of_it() {
    let asked = std::env::var("ECHELON_OFFERS").ok();
    let offers = asked.map_or(OFFERS, |text| text.parse().unwrap());
    let mut world = World::new();
    while world.hosts.tally().received < offers {
        let until = world.hosts.tally().received + BETWEEN_LOOKS;
        while world.hosts.tally().received < until {
            world.step();
        }
        world.come_to_rest();
        world.check();
    }
    let tally = world.hosts.tally();
    let ends = [tally.accepted, tally.declined, tally.rescinded, tally.void];
    assert!(
        ends.iter().all(|n| *n > offers / 1000),
        "one end was hardly met: {tally:?}"
    );
    println!("{} offers: {tally:?}", tally.received);
}
