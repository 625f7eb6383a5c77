//! A framework in virtual time: it takes outputs, remembers what it was told, and acknowledges.

use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::framework_info::{Capability, capability};
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::{Call, Event, call};
use echelon_proto::mesos::v1::{
    CommandInfo, Filters, FrameworkInfo, Label, Labels, Offer, Resource, TaskInfo, TaskState, TaskStatus,
    value,
};
use echelon_sim_mesos::{
    AgentId, AgentSpec, Bundle, Cluster, Config, Executors, FrameworkId, Output, Request, Response, StreamId,
    TaskId, Virtual,
};
use std::collections::BTreeMap;

/// A cluster, a framework on it, and the time.
pub struct World {
    pub cluster: Cluster,
    pub now: Timestamp,
    pub agents: Vec<AgentId>,
    pub id: Option<FrameworkId>,
    pub stream: Option<StreamId>,
    pub offers: Vec<Offer>,
    pub updates: Vec<TaskStatus>,
    pub events: Vec<Event>,
    pub acknowledges: bool,
    pub roles: Vec<String>,
    /// What a shell would keep.
    pub records: BTreeMap<String, Vec<u8>>,
    /// Every output as text, to compare runs.
    pub trace: Vec<String>,
}

impl World {
    /// A cluster of agents with 4 CPUs and 4 GiB each, a framework subscribed.
    pub fn new(n_agents: usize) -> Self {
        let executors = Executors::Virtual(Virtual {
            runtime: Some(Span::seconds(60)),
            ..Virtual::default()
        });
        Self::with(
            Config {
                executors,
                ..Config::default()
            },
            n_agents,
        )
    }

    pub fn with(config: Config, n_agents: usize) -> Self {
        Self::of(config, &["r"], n_agents)
    }

    pub fn with_roles(roles: &[&str], n_agents: usize) -> Self {
        Self::of(Config::default(), roles, n_agents)
    }

    fn of(config: Config, roles: &[&str], n_agents: usize) -> Self {
        let mut world = Self {
            cluster: Cluster::new(config, 1, Timestamp(0)),
            now: Timestamp(0),
            agents: Vec::new(),
            id: None,
            stream: None,
            offers: Vec::new(),
            updates: Vec::new(),
            events: Vec::new(),
            acknowledges: true,
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            records: BTreeMap::new(),
            trace: Vec::new(),
        };
        for n in 0..n_agents {
            let spec = AgentSpec::new(
                format!("host-{n}"),
                Bundle::of(4, 4096, 1000).with_ports(31_000, 31_999),
            );
            world.agents.push(world.cluster.add_agent(spec, world.now));
        }
        world.subscribe();
        world
    }

    pub fn subscribe(&mut self) -> Response {
        let capabilities = [
            capability::Type::MultiRole,
            capability::Type::PartitionAware,
            capability::Type::TaskKillingState,
            capability::Type::ReservationRefinement,
            capability::Type::SharedResources,
            capability::Type::RevocableResources,
        ];
        let framework_info = FrameworkInfo {
            user: "u".to_owned(),
            name: "n".to_owned(),
            id: self.id.as_ref().map(FrameworkId::proto),
            roles: self.roles.clone(),
            checkpoint: Some(true),
            failover_timeout: Some(3600.0),
            capabilities: capabilities
                .map(|kind| Capability {
                    r#type: Some(kind.into()),
                })
                .to_vec(),
            ..Default::default()
        };
        let call = Call {
            r#type: Some(call::Type::Subscribe.into()),
            framework_id: self.id.as_ref().map(FrameworkId::proto),
            subscribe: Some(call::Subscribe {
                framework_info,
                ..Default::default()
            }),
            ..Default::default()
        };
        let response = self.cluster.handle(&Request::post(call, None), self.now);
        if response.stream.is_some() {
            self.stream.clone_from(&response.stream);
            self.offers.clear();
        }
        self.take();
        response
    }

    pub fn call(&mut self, kind: call::Type, call: Call) -> Response {
        let request = self.request(kind, call);
        let response = self.cluster.handle(&request, self.now);
        self.take();
        response
    }

    pub fn request(&self, kind: call::Type, call: Call) -> Request {
        let framework_id = self.id.as_ref().map(FrameworkId::proto);
        Request::post(
            Call {
                r#type: Some(kind.into()),
                framework_id,
                ..call
            },
            self.stream.as_ref(),
        )
    }

    /// Lets time pass, tick by tick.
    pub fn pass(&mut self, span: Span) {
        let end = self.now.plus(span);
        while let Some(wake) = self.cluster.next_wake().filter(|wake| *wake <= end) {
            assert!(wake >= self.now, "a timer in the past");
            self.now = wake;
            self.cluster.tick(self.now);
            self.take();
        }
        self.now = end;
    }

    /// Launches tasks on an offer.
    pub fn accept(&mut self, offer: &Offer, tasks: Vec<TaskInfo>) -> Response {
        let launch = Operation {
            r#type: Some(operation::Type::Launch.into()),
            launch: Some(operation::Launch { task_infos: tasks }),
            ..Default::default()
        };
        self.accept_operations(std::slice::from_ref(offer), vec![launch])
    }

    pub fn accept_operations(&mut self, offers: &[Offer], operations: Vec<Operation>) -> Response {
        let accept = Some(call::Accept {
            offer_ids: offers.iter().map(|offer| offer.id.clone()).collect(),
            operations,
            filters: Some(Filters {
                refuse_seconds: Some(0.0),
            }),
        });
        self.call(
            call::Type::Accept,
            Call {
                accept,
                ..Default::default()
            },
        )
    }

    pub fn suppress(&mut self, roles: &[&str]) {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        let call = Call {
            suppress: Some(call::Suppress { roles }),
            ..Default::default()
        };
        assert_eq!(self.call(call::Type::Suppress, call).status, 202);
    }

    pub fn revive(&mut self, roles: &[&str]) {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        let call = Call {
            revive: Some(call::Revive { roles }),
            ..Default::default()
        };
        assert_eq!(self.call(call::Type::Revive, call).status, 202);
    }

    /// Launches one task on the first offer of an agent.
    pub fn launch(&mut self, agent: usize, task: &str, runtime: Span) {
        let at = self
            .offers
            .iter()
            .position(|offer| offer.agent_id.value == self.agents[agent].as_str());
        let offer = self.offers.remove(at.expect("no offer of this agent"));
        let info = task_info(task, &offer, runtime);
        assert_eq!(self.accept(&offer, vec![info]).status, 202);
    }

    pub fn kill(&mut self, task: &str) {
        let kill = Some(call::Kill {
            task_id: TaskId::new(task).proto(),
            ..Default::default()
        });
        assert_eq!(
            self.call(
                call::Type::Kill,
                Call {
                    kill,
                    ..Default::default()
                }
            )
            .status,
            202
        );
    }

    /// Asks about tasks; an agent's id goes along where given.
    pub fn reconcile(&mut self, tasks: &[(&str, Option<usize>)]) -> Vec<TaskState> {
        let entry = |(task, agent): &(&str, Option<usize>)| call::reconcile::Task {
            task_id: TaskId::new(task).proto(),
            agent_id: agent.map(|agent| self.agents[agent].proto()),
        };
        let reconcile = Some(call::Reconcile {
            tasks: tasks.iter().map(entry).collect(),
        });
        let before = self.updates.len();
        self.call(
            call::Type::Reconcile,
            Call {
                reconcile,
                ..Default::default()
            },
        );
        self.updates[before..].iter().map(TaskStatus::state).collect()
    }

    /// The states that a task was told to have, repeats left out.
    pub fn states(&self, task: &str) -> Vec<TaskState> {
        let mut states: Vec<TaskState> = self
            .updates
            .iter()
            .filter(|status| status.task_id.value == task)
            .map(TaskStatus::state)
            .collect();
        states.dedup();
        states
    }

    pub fn take(&mut self) {
        loop {
            let outputs = self.cluster.drain();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.trace.push(format!("{} {output:?}", self.now.0));
                self.see(output);
            }
        }
    }

    fn see(&mut self, output: Output) {
        let (stream, event) = match output {
            Output::Event { stream, event } => (stream, *event),
            Output::Close { stream, .. } if self.stream.as_ref() == Some(&stream) => {
                self.stream = None;
                return self.offers.clear();
            }
            Output::Store { key, value } => {
                match value {
                    Some(value) => self.records.insert(key, value),
                    None => self.records.remove(&key),
                };
                return;
            }
            _ => return,
        };
        if self.stream.as_ref().is_some_and(|open| *open != stream) {
            return;
        }
        if let Some(subscribed) = &event.subscribed {
            self.id = Some(FrameworkId::from(&subscribed.framework_id));
        }
        if let Some(offers) = &event.offers {
            self.offers.extend(offers.offers.clone());
        }
        if let Some(rescind) = &event.rescind {
            self.offers.retain(|offer| offer.id != rescind.offer_id);
        }
        if let Some(update) = &event.update {
            self.updates.push(update.status.clone());
            if self.acknowledges {
                self.acknowledge(&update.status);
            }
        }
        self.events.push(event);
    }

    pub fn acknowledge(&mut self, status: &TaskStatus) {
        let Some(uuid) = status.uuid.clone() else { return };
        let (agent_id, task_id) = (status.agent_id.clone().unwrap(), status.task_id.clone());
        let acknowledge = Some(call::Acknowledge {
            agent_id,
            task_id,
            uuid,
        });
        let request = self.request(
            call::Type::Acknowledge,
            Call {
                acknowledge,
                ..Default::default()
            },
        );
        self.cluster.handle(&request, self.now);
    }
}

/// A task of one CPU and 64 MiB that lives its time.
pub fn task_info(name: &str, offer: &Offer, runtime: Span) -> TaskInfo {
    let scalar = |name: &str, value: f64| Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value }),
        ..Default::default()
    };
    let label = Label {
        key: "SIM_RUNTIME_MS".to_owned(),
        value: Some(runtime.0.to_string()),
    };
    TaskInfo {
        name: name.to_owned(),
        task_id: TaskId::new(name).proto(),
        agent_id: offer.agent_id.clone(),
        resources: vec![scalar("cpus", 1.0), scalar("mem", 64.0)],
        command: Some(CommandInfo {
            value: Some("true".to_owned()),
            ..Default::default()
        }),
        labels: Some(Labels { labels: vec![label] }),
        ..Default::default()
    }
}

/// The thousandths of a scalar that resources hold.
pub fn amount(resources: &[Resource], name: &str) -> u64 {
    let scalars = resources
        .iter()
        .filter(|one| one.name == name)
        .filter_map(|one| one.scalar.as_ref());
    scalars.map(|scalar| (scalar.value * 1000.0).round() as u64).sum()
}
