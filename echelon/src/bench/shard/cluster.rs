//! A cluster in memory on which everything runs that storage tells of: it answers at once, and remembers nothing of a task.

use super::stored::{self, FRAMEWORK, Size};
use echelon_core_hosts::{Agent, Call, Event, ListedSharing, Offer, OfferId, TaskState, TaskStatus};
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::{
    Generation, InstanceId, InstanceNumber, PortSet, Resources, RunNumber, Span, TaskId,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Answers to an implicit reconciliation that come at once.
const ANSWERS: u64 = 1_000;
/// While so much is still to be told, nothing is added to it.
const ENOUGH: usize = 2_000;

pub(super) struct Cluster {
    size: Size,
    /// What it has to tell.
    pub(super) out: VecDeque<Event>,
    /// When the first launch came.
    pub(super) launched: Option<Instant>,
    /// Tasks launched.
    pub(super) launches: u64,
    /// How far it is with telling of all tasks.
    telling: Option<u64>,
    updates: u128,
}

impl Cluster {
    pub(super) fn new(size: Size) -> Self {
        Self {
            size,
            out: VecDeque::new(),
            launched: None,
            launches: 0,
            telling: None,
            updates: 0,
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        match call {
            Call::Subscribe { .. } => {
                self.out.push_back(Event::Subscribed {
                    framework: FRAMEWORK.to_owned(),
                    heartbeat: Span::seconds(15),
                    master: None,
                });
                self.offer();
            }
            Call::Revive => self.offer(),
            Call::ListAgents => {
                let agents = (0..self.size.hosts()).map(|n| agent(self.size, n)).collect();
                self.out.push_back(Event::Agents {
                    agents,
                    awaited: Vec::new(),
                    sharing: ListedSharing::default(),
                    planned: None,
                });
            }
            Call::Accept { host, launches, .. } => {
                self.launched.get_or_insert_with(Instant::now);
                for launch in launches {
                    self.launches += 1;
                    self.updates += 1;
                    let update = TaskStatus {
                        uuid: Some(self.updates.to_be_bytes()),
                        source: None,
                        reconciliation: false,
                        ..status(launch.task.to_string(), TaskState::Running, Some(host.clone()))
                    };
                    self.out.push_back(Event::Update(update));
                }
            }
            Call::Reconcile { tasks } if tasks.is_empty() => self.telling = Some(0),
            Call::Reconcile { tasks } => {
                let known = format!("{}-S", FRAMEWORK.trim_end_matches("-0000"));
                for (task, host) in tasks {
                    let here = host.as_ref().is_some_and(|h| h.as_str().starts_with(&known));
                    let state = if here {
                        TaskState::Running
                    } else {
                        TaskState::Unknown
                    };
                    self.out.push_back(Event::Update(status(task, state, host)));
                }
            }
            _ => {}
        }
    }

    /// Offers what every host has left.
    fn offer(&mut self) {
        let offers: Vec<Offer> = (0..self.size.hosts()).map(|n| self.offer_of(n)).collect();
        let parts = offers.chunks(500).map(|part| Event::Offers(part.to_vec()));
        self.out.extend(parts);
    }

    fn offer_of(&mut self, n: u32) -> Offer {
        self.updates += 1;
        Offer {
            id: OfferId(Arc::from(format!("offer-{}", self.updates))),
            host: stored::host_id(n),
            hostname: Arc::from(stored::hostname(n)),
            address: format!("{}:5051", stored::hostname(n)),
            resources: self.size.rest_of_host(),
            revocable: Resources::ZERO,
            ports: PortSet::new(),
            attributes: attributes(n),
            maintenance: None,
            reserved_room: Vec::new(),
            reserved: Vec::new(),
        }
    }

    /// Goes on telling of all tasks, where that was asked for; a marker asked for later is answered after the last.
    pub(super) fn tell_on(&mut self) {
        let Some(from) = self.telling.filter(|_| self.out.len() < ENOUGH) else {
            return;
        };
        let to = self.size.instances().min(from + ANSWERS);
        for n in (from..to).rev() {
            let update = Event::Update(self.running(n));
            self.out.push_front(update);
        }
        self.telling = (to < self.size.instances()).then_some(to);
    }

    pub(super) const fn is_telling(&self) -> bool {
        self.telling.is_some()
    }

    /// A task of those that storage tells of fails.
    pub(super) fn fail(&mut self, n: u64) {
        self.updates += 1;
        let update = TaskStatus {
            uuid: Some(self.updates.to_be_bytes()),
            reconciliation: false,
            state: TaskState::Failed,
            ..self.running(n)
        };
        self.out.push_back(Event::Update(update));
    }

    fn running(&self, n: u64) -> TaskStatus {
        let part = |n: u64| u32::try_from(n).unwrap_or_default();
        let (job, number) = (
            part(n / u64::from(self.size.each)),
            part(n % u64::from(self.size.each)),
        );
        let task = TaskId {
            instance: InstanceId {
                job: stored::job_id(job),
                group: stored::group(),
                number: InstanceNumber(number),
            },
            generation: Generation(1),
            run: RunNumber(1),
        };
        let host = stored::host_id(part(n % u64::from(self.size.hosts())));
        status(task.to_string(), TaskState::Running, Some(host))
    }
}

fn attributes(n: u32) -> BTreeMap<String, String> {
    BTreeMap::from([("zone".to_owned(), format!("z{}", n % 3))])
}

fn agent(size: Size, n: u32) -> Agent {
    Agent {
        host: stored::host_id(n),
        hostname: Arc::from(stored::hostname(n)),
        address: format!("{}:5051", stored::hostname(n)),
        attributes: attributes(n),
        total: size.room_of_host(),
        disk: None,
        reserved: Resources::ZERO,
        lent: Resources::ZERO,
        ports: PortSet::new(),
        others: Others::default(),
        of_role: size.rest_of_host(),
        offered_of_role: Resources::ZERO,
        state: AgentState::Active,
    }
}

fn status(task: String, state: TaskState, host: Option<echelon_core_model::HostId>) -> TaskStatus {
    TaskStatus {
        task,
        state,
        host,
        uuid: None,
        source: None,
        reconciliation: true,
        reason: String::new(),
        message: String::new(),
        at: None,
        healthy: None,
        ready: None,
    }
}
