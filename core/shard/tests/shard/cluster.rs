//! A small cluster: hosts with offers, tasks that live and die as told, updates that are repeated until acknowledged.

use echelon_core_hosts::{
    Agent, Call, Event, InverseOffer, ListedSharing, Offer, OfferId, OfferedVolume, OperationStatus, Refusal,
    Reservations, Reserved, TaskState, TaskStatus, TaskVolume,
};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::health::MasterId;
use echelon_core_model::platform::EndSource;
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, PortSet, Resources, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A task as the cluster has it.
#[derive(Debug, Clone)]
pub struct Task {
    pub host: HostId,
    pub state: TaskState,
    pub resources: Resources,
    pub env: BTreeMap<String, String>,
    pub ports: Vec<u16>,
    pub volume: Option<VolumeId>,
    /// The pod that it is of, by its main task: one that fails or is killed takes the others with it (R83).
    pub pod: Option<String>,
    /// Updates in order, the first one sent and not acknowledged.
    pub unacknowledged: VecDeque<TaskStatus>,
}

/// A cluster.
#[derive(Debug, Default)]
pub struct Cluster {
    pub hosts: BTreeMap<HostId, Resources>,
    /// Attributes of hosts that have any.
    pub attributes: BTreeMap<HostId, BTreeMap<String, String>>,
    pub tasks: BTreeMap<String, Task>,
    /// Open offers.
    pub offers: BTreeMap<String, (HostId, Resources)>,
    /// Planned maintenance, told with offers.
    pub planned: BTreeMap<HostId, Maintenance>,
    /// What was answered about it.
    pub answers: Vec<(HostId, bool)>,
    /// Agents that the master was asked to drain, and whether it refuses that.
    pub drained: BTreeSet<HostId>,
    pub drains_refused: bool,
    /// Ports of hosts that have any, and those of open offers.
    pub ports: BTreeMap<HostId, PortSet>,
    pub offered_ports: BTreeMap<String, PortSet>,
    /// Reserved disk of hosts, in use, offered or neither; and that of open offers.
    pub reserved: BTreeMap<HostId, Vec<Reserved>>,
    pub offered_reserved: BTreeMap<String, Vec<Reserved>>,
    /// Refuses to reserve anything.
    pub reserves_nothing: bool,
    /// Operations whose status was acknowledged.
    pub acknowledged_operations: Vec<String>,
    /// Agents that the master has removed, since another one is at their address.
    pub removed: BTreeSet<HostId>,
    /// What agents say of their flags; `None`: they refuse to.
    pub times: Option<AgentTimes>,
    /// Agents that an operator has marked as gone.
    pub marked_gone: BTreeSet<HostId>,
    /// Hosts that nobody hears.
    pub silent: Vec<HostId>,
    /// Tasks that a list leaves out: the master has not heard of them from their agents yet when it is asked.
    pub unlisted: BTreeSet<String>,
    /// How launches of tasks that it has are refused; the usual sentence where nothing is set.
    pub refusal: Option<TaskStatus>,
    /// The end of a list gets lost.
    pub loses_ends: bool,
    /// Whether accepted tasks start by themselves.
    pub starts: bool,
    /// Agents that drop each task that they are to start: what the agent says.
    pub drops_at: BTreeMap<HostId, String>,
    /// Hosts whose offers were declined, and come again when they are asked for.
    pub declined: BTreeSet<HostId>,
    /// Hosts whose offers never come.
    pub hoarded: BTreeSet<HostId>,
    /// Tasks by the host that they were launched on, those that it dropped counted.
    pub launched: BTreeMap<HostId, usize>,
    /// Accepts are swallowed.
    pub drops_accepts: bool,
    pub framework: String,
    pub master: Option<MasterId>,
    pub subscribed: bool,
    pub suppressed: bool,
    /// Hears no call.
    pub deaf: bool,
    /// Tasks that are killed live on until somebody ends them.
    pub lingers: bool,
    /// Refuses every subscription.
    pub refuses: Option<Refusal>,
    /// Refuses updates of the framework.
    pub keeps_framework: bool,
    /// Sends no heartbeats.
    pub mute: bool,
    /// Whether it lists its agents, refuses to, or (`None`) says nothing; and what others hold of each.
    pub lists: Option<bool>,
    pub others: BTreeMap<HostId, Resources>,
    /// What others are offered of each.
    pub offered_to_others: BTreeMap<HostId, Resources>,
    /// What it tells of other frameworks beside that.
    pub sharing: ListedSharing,
    /// Machines of agents that are not called like their machine.
    pub machines: BTreeMap<HostId, String>,
    pub out: VecDeque<Event>,
    counter: u64,
}

impl Cluster {
    pub fn of(hosts: u32, room: Resources) -> Self {
        let hosts = (0..hosts)
            .map(|i| (HostId::new(format!("host-{i}")), room))
            .collect();
        Self {
            hosts,
            starts: true,
            framework: "framework-1".to_owned(),
            ..Self::default()
        }
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub fn used(&self, host: &HostId) -> Resources {
        let here = self
            .tasks
            .values()
            .filter(|t| t.host == *host && !t.state.is_proof_of_death());
        here.fold(Resources::ZERO, |sum, t| sum.plus(t.resources))
    }

    /// Ports of a host that no task has and no open offer names.
    fn free_ports(&self, host: &HostId) -> PortSet {
        let here = |t: &&Task| t.host == *host && !t.state.is_proof_of_death();
        let used = self
            .tasks
            .values()
            .filter(here)
            .flat_map(|t| t.ports.iter().copied());
        let open = self.offers.iter().filter(|(_, (h, _))| h == host);
        let offered = open.filter_map(|(id, _)| self.offered_ports.get(id));
        let taken = offered.fold(used.collect(), |all: PortSet, o| all.union(o));
        self.ports.get(host).cloned().unwrap_or_default().minus(&taken)
    }

    /// Reserved disk of a host that no task uses and no open offer names.
    fn free_reserved(&self, host: &HostId) -> Vec<Reserved> {
        let used: Vec<&VolumeId> = self
            .tasks
            .values()
            .filter(|t| !t.state.is_proof_of_death())
            .filter_map(|t| t.volume.as_ref())
            .collect();
        let offered: Vec<&Reserved> = self
            .offers
            .keys()
            .filter_map(|id| self.offered_reserved.get(id))
            .flatten()
            .collect();
        let all = self.reserved.get(host).into_iter().flatten();
        let free =
            all.filter(|r| !offered.contains(r) && !r.volume.as_ref().is_some_and(|v| used.contains(&&v.id)));
        free.cloned().collect()
    }

    /// The volumes of a host.
    pub fn volumes(&self, host: &HostId) -> Vec<VolumeId> {
        let all = self.reserved.get(host).into_iter().flatten();
        all.filter_map(|r| Some(r.volume.as_ref()?.id.clone())).collect()
    }

    fn hostname(&self, host: &HostId) -> Arc<str> {
        let machine = self.machines.get(host).map_or(host.as_str(), String::as_str);
        Arc::from(format!("{machine}.example"))
    }

    fn address(&self, host: &HostId) -> String {
        format!("{}:5051", self.hostname(host))
    }

    /// An agent lost its work folder and returned under a new id: the master removes the old one.
    pub fn replace_agent(&mut self, old: &HostId) -> HostId {
        let new = HostId::new(format!("{old}-anew"));
        let machine = self.machines.get(old).cloned().unwrap_or_else(|| old.to_string());
        self.machines.insert(new.clone(), machine);
        if let Some(room) = self.hosts.get(old).copied() {
            self.hosts.insert(new.clone(), room);
        }
        self.silent.push(old.clone());
        self.removed.insert(old.clone());
        let there = self.tasks.iter().filter(|(_, task)| task.host == *old);
        let lost = there.map(|(id, _)| TaskStatus {
            reason: "AGENT_REMOVED".to_owned(),
            ..status(id, TaskState::Lost, Some(old.clone()))
        });
        let lost: Vec<Event> = lost.map(Event::Update).collect();
        self.out.extend(lost);
        new
    }

    /// An operator marks an agent as gone: the master says so of its tasks, also where it is asked.
    pub fn mark_gone(&mut self, host: &HostId) {
        self.marked_gone.insert(host.clone());
        self.silent.push(host.clone());
        let there = self.tasks.iter().filter(|(_, task)| task.host == *host);
        let gone = there.map(|(id, _)| TaskStatus {
            reason: "AGENT_REMOVED_BY_OPERATOR".to_owned(),
            ..status(id, TaskState::GoneByOperator, Some(host.clone()))
        });
        let gone: Vec<Event> = gone.map(Event::Update).collect();
        self.out.extend(gone);
    }

    /// Offers whatever is free and not offered.
    pub fn offer(&mut self) {
        if !self.subscribed || self.suppressed {
            return;
        }
        let mut offers = Vec::new();
        for (host, room) in self.hosts.clone() {
            let out = self.offers.values().filter(|(h, _)| *h == host);
            let offered = out.fold(Resources::ZERO, |sum, (_, r)| sum.plus(*r));
            let disk = self
                .reserved
                .get(&host)
                .into_iter()
                .flatten()
                .map(|r| r.disk)
                .sum();
            let reserved = Resources {
                disk,
                ..Resources::ZERO
            };
            let free = room.minus(self.used(&host)).minus(offered).minus(reserved);
            let of_others = self.others.contains_key(&host) || self.offered_to_others.contains_key(&host);
            let withheld = self.declined.contains(&host) || self.hoarded.contains(&host) || of_others;
            if withheld || free.cpus == 0 || self.silent.contains(&host) || self.drained.contains(&host) {
                continue;
            }
            let id = format!("offer-{}", self.next());
            let ports = self.free_ports(&host);
            self.offered_ports.insert(id.clone(), ports.clone());
            self.offers.insert(id.clone(), (host.clone(), free));
            let reserved = self.free_reserved(&host);
            self.offered_reserved.insert(id.clone(), reserved.clone());
            offers.push(Offer {
                reserved,
                id: OfferId(Arc::from(id)),
                hostname: self.hostname(&host),
                maintenance: self.planned.get(&host).copied(),
                attributes: self.attributes.get(&host).cloned().unwrap_or_default(),
                address: self.address(&host),
                host,
                resources: free,
                revocable: Resources::ZERO,
                ports,
                reserved_room: Vec::new(),
            });
        }
        if !offers.is_empty() {
            self.out.push_back(Event::Offers(offers));
        }
    }

    /// An operator plans a host's maintenance: its offers are rescinded and come again with the plan, and we are asked to leave.
    pub fn plan(&mut self, host: &HostId, maintenance: Maintenance) {
        self.planned.insert(host.clone(), maintenance);
        let there: Vec<String> = self
            .offers
            .iter()
            .filter(|(_, (h, _))| h == host)
            .map(|(id, _)| id.clone())
            .collect();
        for id in there {
            self.offers.remove(&id);
            self.out.push_back(Event::Rescind(OfferId(Arc::from(id))));
        }
        self.out.push_back(Event::InverseOffers(vec![InverseOffer {
            id: OfferId(Arc::from(format!("inverse-{host}"))),
            host: host.clone(),
            maintenance,
        }]));
    }

    /// Moves a task along; the agent's update is repeated until it is acknowledged.
    pub fn set(&mut self, task: &str, state: TaskState) {
        self.set_with(task, state, |_| {});
    }

    /// A task fails with this exit code.
    pub fn exit(&mut self, task: &str, code: i32) {
        self.set_with(task, TaskState::Failed, |status| {
            status.message = format!("Command exited with status {code}");
        });
    }

    /// A task ends in this state, as a part of Mesos reports with its reason.
    pub fn end(&mut self, task: &str, state: TaskState, source: EndSource, reason: &str) {
        self.set_with(task, state, |status| {
            status.source = Some(source);
            reason.clone_into(&mut status.reason);
        });
    }

    /// What a task's readiness probe says.
    pub fn ready(&mut self, task: &str, ready: bool) {
        self.set_with(task, TaskState::Running, |status| status.ready = Some(ready));
    }

    fn set_with(&mut self, task: &str, state: TaskState, with: impl FnOnce(&mut TaskStatus)) {
        let n = self.next();
        let Some(t) = self.tasks.get_mut(task) else { return };
        t.state = state;
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&n.to_be_bytes());
        let mut status = TaskStatus {
            uuid: Some(uuid),
            ..status(task, state, Some(t.host.clone()))
        };
        with(&mut status);
        let pod = t.pod.clone();
        t.unacknowledged.push_back(status.clone());
        if t.unacknowledged.len() == 1 && self.subscribed {
            self.out.push_back(Event::Update(status));
        }
        if matches!(state, TaskState::Failed | TaskState::Killed) && pod.is_some() {
            let others = self.tasks.iter();
            let others = others.filter(|(_, t)| t.pod == pod && !t.state.is_proof_of_death());
            let others: Vec<String> = others.map(|(id, _)| id.clone()).take(1).collect();
            others.iter().for_each(|id| self.set(id, TaskState::Killed));
        }
    }

    /// What the master says of a task by itself: no uuid.
    pub fn say(&mut self, task: &str, state: TaskState) {
        let host = self.tasks.get(task).map(|t| t.host.clone());
        self.out.push_back(Event::Update(status(task, state, host)));
    }

    /// Sends the oldest unacknowledged update of every task again.
    pub fn resend(&mut self) {
        let oldest = self
            .tasks
            .values()
            .filter_map(|t| t.unacknowledged.front().cloned());
        let all: Vec<_> = oldest.map(Event::Update).collect();
        self.out.extend(all);
    }

    pub fn disconnect(&mut self) {
        self.subscribed = false;
        self.offers.clear();
        self.out.clear();
        self.out.push_back(Event::Disconnected {
            why: "test".to_owned(),
        });
    }

    pub fn call(&mut self, call: &Call) {
        if self.deaf {
            return;
        }
        match call {
            Call::Subscribe { .. } if self.refuses.is_some() => {
                let refused = self.refuses.map(|cause| Event::Refused {
                    message: "not you".to_owned(),
                    cause,
                });
                self.out.extend(refused);
            }
            Call::Subscribe { framework } => {
                self.subscribed = true;
                self.suppressed = false;
                self.offers.clear();
                let framework = framework.clone().unwrap_or_else(|| self.framework.clone());
                let heartbeat = Span::seconds(15);
                let master = self.master;
                self.out.push_back(Event::Subscribed {
                    framework,
                    heartbeat,
                    master,
                });
                self.resend();
                self.offer();
            }
            _ if !self.subscribed => {}
            Call::Accept {
                offers,
                host,
                launches,
                ..
            } => self.accept(offers, host, launches),
            Call::Decline { offers, .. } => {
                offers.iter().for_each(|o| {
                    self.offers.remove(&*o.0);
                });
            }
            Call::Revive => {
                self.suppressed = false;
                self.declined.clear();
                self.offer();
            }
            Call::Suppress => self.suppressed = true,
            // Without a word, and for good.
            Call::TearDown => {
                self.tasks.clear();
                self.refuses = Some(Refusal::Removed);
                self.disconnect();
            }
            Call::UpdateFramework if self.keeps_framework => {
                self.out.push_back(Event::CallFailed {
                    call: call.clone(),
                    why: "400 not valid".to_owned(),
                    refused: true,
                });
            }
            Call::UpdateFramework => {}
            Call::AnswerInverse { host, accept, .. } => self.answers.push((host.clone(), *accept)),
            Call::DrainAgent { host } | Call::ReactivateAgent { host } => self.drain(call, host),
            Call::Discard {
                offers,
                host,
                reserved,
                attempt,
                ..
            } => self.discard(offers, host, reserved, *attempt),
            Call::AcknowledgeOperation { id, .. } => self.acknowledged_operations.push(id.clone()),
            Call::Kill { task, .. } => self.kill(task),
            Call::Acknowledge { task, uuid, .. } => self.acknowledge(task, uuid),
            Call::Reconcile { tasks } => self.reconcile(tasks),
            Call::ListAgents => {
                let answer = self.lists.map(|lists| {
                    let why = "403 Forbidden".to_owned();
                    if lists {
                        self.list()
                    } else {
                        Event::Unlisted { why }
                    }
                });
                self.out.extend(answer);
            }
            Call::ReadFlags { host, address } => {
                assert!(self.removed.contains(host), "{host} was not replaced");
                assert_eq!(*address, self.address(host));
                let host = host.clone();
                self.out.push_back(match self.times {
                    Some(times) => Event::Flags { host, times },
                    None => Event::CallFailed {
                        call: call.clone(),
                        why: "403 Forbidden".to_owned(),
                        refused: false,
                    },
                });
            }
        }
    }

    /// Drains an agent, or offers it again.
    fn drain(&mut self, call: &Call, host: &HostId) {
        let drain = matches!(call, Call::DrainAgent { .. });
        assert!(
            !drain || self.used(host).is_zero(),
            "{host} is drained while something of ours is there"
        );
        self.out.push_back(if self.drains_refused {
            let why = "403 not allowed".to_owned();
            let (call, refused) = (call.clone(), true);
            Event::CallFailed { call, why, refused }
        } else {
            if drain {
                self.drained.insert(host.clone());
            } else {
                self.drained.remove(host);
            }
            Event::Operated(call.clone())
        });
    }

    fn list(&self) -> Event {
        let heard = self.hosts.iter().filter(|(h, _)| !self.silent.contains(h));
        let agents = heard.map(|(host, room)| Agent {
            host: host.clone(),
            hostname: self.hostname(host),
            address: self.address(host),
            attributes: self.attributes.get(host).cloned().unwrap_or_default(),
            total: *room,
            disk: None,
            reserved: Resources::ZERO,
            lent: Resources::ZERO,
            ports: self.ports.get(host).cloned().unwrap_or_default(),
            others: Others {
                used: self.others.get(host).copied().unwrap_or_default(),
                offered: self.offered_to_others.get(host).copied().unwrap_or_default(),
            },
            of_role: self.used(host),
            offered_of_role: Resources::ZERO,
            state: AgentState::Active,
        });
        Event::Agents {
            agents: agents.collect(),
            awaited: Vec::new(),
            sharing: self.sharing.clone(),
            planned: None,
        }
    }

    fn accept(&mut self, offers: &[OfferId], host: &HostId, launches: &[echelon_core_hosts::Launch]) {
        let known: Vec<_> = offers.iter().filter_map(|o| self.offers.remove(&*o.0)).collect();
        if self.drops_accepts {
            return;
        }
        let room = known.iter().fold(Resources::ZERO, |sum, (_, r)| sum.plus(*r));
        let wanted = launches.iter().fold(Resources::ZERO, |sum, l| {
            sum.plus(l.room_of_tasks()).plus(made_of_free(l))
        });
        let offered_reserved: Vec<Reserved> = offers
            .iter()
            .filter_map(|o| self.offered_reserved.get(&*o.0))
            .flatten()
            .cloned()
            .collect();
        let offered = offers.iter().filter_map(|o| self.offered_ports.get(&*o.0));
        let mut ports = offered.fold(PortSet::new(), |all, p| all.union(p));
        let good = known.len() == offers.len() && known.iter().all(|(h, _)| h == host);
        *self.launched.entry(host.clone()).or_default() += launches.len();
        for launch in launches {
            let task = launch.task.to_string();
            assert!(
                self.unlisted.contains(&task) || !self.tasks.contains_key(&task),
                "task id {task} is used twice"
            );
            if self.tasks.contains_key(&task) {
                let usual = || TaskStatus {
                    reason: "TASK_INVALID".to_owned(),
                    message: format!("Task has duplicate ID: {task}"),
                    ..status(&task, TaskState::Error, None)
                };
                self.out.push_back(Event::Update(TaskStatus {
                    task: task.clone(),
                    host: Some(host.clone()),
                    ..self.refusal.clone().unwrap_or_else(usual)
                }));
                continue;
            }
            if !good {
                self.out.push_back(Event::Update(status(
                    &task,
                    TaskState::Dropped,
                    Some(host.clone()),
                )));
                continue;
            }
            assert!(wanted.fits(room), "accept of {wanted} on {host} with {room}");
            for port in &launch.ports {
                assert!(
                    ports.take(port.number),
                    "port {} of {host} is not offered",
                    port.number
                );
            }
            if launch.volume.is_some() && self.reserves_nothing {
                self.refuse(&task, launch, host);
                continue;
            }
            if let Some(volume) = &launch.volume {
                assert!(
                    volume.offered.iter().all(|r| offered_reserved.contains(r)),
                    "not offered: {volume:?}"
                );
                self.make(host, volume);
            }
            let new = Task {
                volume: launch.volume.as_ref().map(|v| v.id.clone()),
                host: host.clone(),
                state: TaskState::Staging,
                resources: launch.resources,
                env: launch.runtime.env.clone(),
                ports: launch.ports.iter().map(|p| p.number).collect(),
                pod: (!launch.sidecars.is_empty()).then(|| task.clone()),
                unacknowledged: VecDeque::new(),
            };
            let sidecars = launch.sidecars.iter().map(|s| {
                let beside = Task {
                    resources: s.resources,
                    env: s.runtime.env.clone(),
                    ports: Vec::new(),
                    ..new.clone()
                };
                (format!("{task}.{}", s.name), beside)
            });
            let all: Vec<(String, Task)> = std::iter::once((task.clone(), new.clone()))
                .chain(sidecars)
                .collect();
            for (task, new) in all {
                self.tasks.insert(task.clone(), new);
                if let Some(why) = self.drops_at.get(host).cloned() {
                    self.set_with(&task, TaskState::Dropped, |status| {
                        status.source = Some(EndSource::Agent);
                        "EXECUTOR_TERMINATED".clone_into(&mut status.reason);
                        status.message = why;
                    });
                } else if self.starts {
                    self.set(&task, TaskState::Starting);
                    self.set(&task, TaskState::Running);
                }
            }
        }
    }

    /// Refuses a launch; of a pod all of its tasks (R71).
    fn refuse(&mut self, task: &str, launch: &echelon_core_hosts::Launch, host: &HostId) {
        let sidecars = launch.sidecars.iter().map(|s| format!("{task}.{}", s.name));
        for name in std::iter::once(task.to_owned()).chain(sidecars) {
            let refused = status(&name, TaskState::Error, Some(host.clone()));
            self.out.push_back(Event::Update(refused));
        }
    }

    /// Makes a volume, or leaves one as it is.
    pub fn make(&mut self, host: &HostId, volume: &TaskVolume) {
        let all = self.reserved.entry(host.clone()).or_default();
        let before = volume.offered.clone();
        if before.as_ref().is_some_and(|r| r.volume.is_some()) {
            return;
        }
        all.retain(|r| Some(r) != before.as_ref());
        all.push(Reserved {
            disk: volume.disk(),
            by: Reservations::for_volume(&volume.id, "echelon", None),
            volume: Some(OfferedVolume {
                id: volume.id.clone(),
                principal: None,
                path: volume.path.clone(),
            }),
        });
    }

    fn discard(&mut self, offers: &[OfferId], host: &HostId, reserved: &[Reserved], attempt: u64) {
        offers.iter().for_each(|o| {
            self.offers.remove(&*o.0);
        });
        for r in reserved {
            let all = self.reserved.entry(host.clone()).or_default();
            let there = all.len();
            all.retain(|other| other != r);
            assert_eq!(all.len() + 1, there, "{r:?} is not there");
            let Some(volume) = &r.volume else { continue };
            self.out.push_back(Event::Operation(OperationStatus {
                id: format!("{}.destroy.{attempt}", volume.id),
                done: true,
                refused: false,
                host: Some(host.clone()),
                uuid: Some([7; 16]),
                message: String::new(),
            }));
        }
    }

    fn kill(&mut self, task: &str) {
        match self.tasks.get(task) {
            Some(t) if self.silent.contains(&t.host) => self.say(task, TaskState::Unreachable),
            Some(_) if self.lingers => {}
            Some(t) if !t.state.is_proof_of_death() => self.set(task, TaskState::Killed),
            Some(_) => {}
            None => self.say(task, TaskState::Unknown),
        }
    }

    fn acknowledge(&mut self, task: &str, uuid: &[u8; 16]) {
        let Some(t) = self.tasks.get_mut(task) else { return };
        if t.unacknowledged
            .front()
            .is_some_and(|s| s.uuid.as_ref() == Some(uuid))
        {
            t.unacknowledged.pop_front();
            if let Some(next) = t.unacknowledged.front() {
                self.out.push_back(Event::Update(next.clone()));
            }
        }
    }

    fn reconcile(&mut self, tasks: &[(String, Option<HostId>)]) {
        let answer = |state, task: &str, host| {
            Event::Update(TaskStatus {
                reconciliation: true,
                ..status(task, state, host)
            })
        };
        if tasks.is_empty() {
            let tracked = self.tasks.iter().filter(|(_, t)| !self.silent.contains(&t.host));
            let tracked =
                tracked.filter(|(_, t)| !t.state.is_proof_of_death() || !t.unacknowledged.is_empty());
            let all: Vec<_> = tracked
                .filter(|(id, _)| !self.unlisted.contains(*id))
                .map(|(id, t)| answer(t.state, id, Some(t.host.clone())))
                .collect();
            self.out.extend(all);
            return;
        }
        for (id, agent) in tasks {
            if self.loses_ends && id.starts_with("echelon-reconcile-end") {
                continue;
            }
            // Of an agent that nobody hears the master tracks no tasks.
            let known = self
                .tasks
                .get(id)
                .filter(|t| !t.state.is_proof_of_death() || !t.unacknowledged.is_empty())
                .filter(|t| !self.silent.contains(&t.host));
            let away = agent.as_ref().is_some_and(|h| self.silent.contains(h));
            let is_in = |set: &BTreeSet<HostId>| agent.as_ref().is_some_and(|h| set.contains(h));
            let state = match (known, agent) {
                _ if is_in(&self.marked_gone) => TaskState::GoneByOperator,
                _ if away && is_in(&self.removed) => TaskState::Unknown,
                _ if away => TaskState::Unreachable,
                (Some(t), _) => t.state,
                (None, Some(h)) if self.hosts.contains_key(h) => TaskState::Gone,
                (None, _) => TaskState::Unknown,
            };
            let at = known.map(|t| t.host.clone()).or(agent.clone());
            self.out.push_back(answer(state, id, at));
        }
    }

    /// Tasks that are alive.
    pub fn live(&self) -> Vec<String> {
        let live = self.tasks.iter().filter(|(_, t)| !t.state.is_proof_of_death());
        live.map(|(id, _)| id.clone()).collect()
    }
}

/// What a launch takes of the unreserved disk.
fn made_of_free(launch: &echelon_core_hosts::Launch) -> Resources {
    let new = launch.volume.as_ref().filter(|v| v.offered.is_none());
    Resources {
        disk: new.map_or(0, |v| v.size),
        ..Resources::ZERO
    }
}

/// A status without a uuid.
pub fn status(task: &str, state: TaskState, host: Option<HostId>) -> TaskStatus {
    TaskStatus {
        task: task.to_owned(),
        state,
        host,
        uuid: None,
        source: None,
        reconciliation: false,
        reason: String::new(),
        message: String::new(),
        at: None,
        healthy: None,
        ready: None,
    }
}
