//! Other frameworks on a cluster: each runs a few short tasks, uses at once what it is offered while it wants more, gives
//! everything else back, and never suppresses.

use crate::mesos::ClusterWorld;
use echelon_core_hosts::{Call, Event, Launch, Offer, TaskStatus};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{
    Generation, GroupName, InstanceId, InstanceNumber, JobId, Resources, RunNumber, Span, TaskId, Timestamp,
};
use echelon_proto::convert::mesos::{Framework, call_to_wire, event_from_wire};
use echelon_proto::mesos::v1::scheduler;
use echelon_sim_mesos as sim;
use std::collections::{BTreeMap, BTreeSet};

/// What one of them runs at a time.
const WANTED: usize = 3;
/// How long it refuses what it does not want. With the default of five seconds fifty frameworks pass an agent round among
/// themselves for ever, one in each allocation, and whoever has most would never see it.
const REFUSE: Span = Span::minutes(2);
const TASK: Resources = Resources {
    cpus: 1000,
    memory: 512,
    disk: 0,
    gpus: 0,
};

/// Another framework.
#[derive(Debug)]
pub struct Other {
    number: usize,
    framework: Framework,
    id: Option<String>,
    running: BTreeSet<String>,
    n_launched: u32,
}

impl ClusterWorld {
    /// Subscribes other frameworks, each with a role of its own.
    pub fn add_others(&mut self, count: usize, now: Timestamp) {
        for number in 0..count {
            let mut framework = Framework::named(format!("other{number}"));
            framework.role = framework.name.clone();
            let wire =
                call_to_wire(&Call::Subscribe { framework: None }, &framework, None).unwrap_or_default();
            let answer = self.mesos.handle(&sim::Request::post(wire, None), now);
            let other = Other {
                number,
                framework,
                id: None,
                running: BTreeSet::new(),
                n_launched: 0,
            };
            if let Some(stream) = answer.stream {
                self.others.insert(stream, other);
            }
        }
    }

    /// Lets another framework answer an event, if the stream is one of theirs.
    pub fn others_hear(&mut self, stream: &sim::StreamId, event: &scheduler::Event, now: Timestamp) -> bool {
        let Some(other) = self.others.get_mut(stream) else {
            return false;
        };
        let events = event_from_wire(event);
        let calls: Vec<scheduler::Call> = events.into_iter().flat_map(|e| other.hear(e)).collect();
        for call in calls {
            self.mesos.handle(&sim::Request::post(call, Some(stream)), now);
        }
        true
    }
}

impl Other {
    fn hear(&mut self, event: Event) -> Vec<scheduler::Call> {
        match event {
            Event::Subscribed { framework, .. } => {
                self.id = Some(framework);
                Vec::new()
            }
            Event::Offers(offers) => offers.into_iter().map(|offer| self.answer(offer)).collect(),
            Event::Update(status) => self.told(status).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn answer(&mut self, offer: Offer) -> scheduler::Call {
        let mut room = offer.resources;
        let mut launches = Vec::new();
        while self.running.len() < WANTED && TASK.fits(room) {
            room = room.minus(TASK);
            launches.push(self.launch());
        }
        let offers = vec![offer.id];
        if launches.is_empty() {
            return self.wire(&Call::Decline {
                offers,
                refuse: REFUSE,
            });
        }
        self.wire(&Call::Accept {
            offers,
            host: offer.host,
            launches,
            refuse: REFUSE,
        })
    }

    /// A task of ten to thirty seconds. Its job's id is that of the framework: no user ever has it.
    fn launch(&mut self) -> Launch {
        self.n_launched += 1;
        let task = TaskId {
            instance: InstanceId {
                job: JobId(self.number as u128),
                group: GroupName::new(GroupName::DEFAULT),
                number: InstanceNumber(self.n_launched),
            },
            generation: Generation(1),
            run: RunNumber(1),
        };
        self.running.insert(task.to_string());
        let lasts = 10_000 + u64::from(self.n_launched) * 7919 % 20_000;
        Launch {
            name: task.to_string(),
            task,
            discovery: String::new(),
            runtime: Runtime {
                env: BTreeMap::from([("SIM_RUNTIME_MS".to_owned(), lasts.to_string())]),
                ..Runtime::shell("true")
            },
            ports: Vec::new(),
            resources: TASK,
            revocable: Resources::ZERO,
            reserved: Vec::new(),
            volume: None,
            grace: Span::seconds(1),
            max_run: None,
            labels: BTreeMap::new(),
            sidecars: Vec::new(),
        }
    }

    fn told(&mut self, status: TaskStatus) -> Option<scheduler::Call> {
        if status.state.is_proof_of_death() {
            self.running.remove(&status.task);
        }
        let (host, uuid) = (status.host?, status.uuid?);
        let task = status.task;
        Some(self.wire(&Call::Acknowledge { task, host, uuid }))
    }

    fn wire(&self, call: &Call) -> scheduler::Call {
        call_to_wire(call, &self.framework, self.id.as_deref()).unwrap_or_default()
    }
}
