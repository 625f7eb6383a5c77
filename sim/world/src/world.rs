//! The world and its loop: take what happens next, let it happen, look whether everything still holds.

use crate::backups::Backups;
use crate::client::Users;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::federation::FederationNotes;
use crate::invariants::{Broken, Facts, Touched};
use crate::links::Links;
use crate::members::{Election, Told};
use crate::mesos::ClusterWorld;
use crate::options::Options;
use crate::pressure::PressureNotes;
use crate::process::{Process, Who};
use crate::queue::Queue;
use crate::sites::Sites;
use crate::storage::Asker;
use crate::switch::Switch;
use crate::trace::Trace;
use crate::trees::Trees;
use echelon_core_hosts::{Call, Tally};
use echelon_core_model::store::{Op, OpId, OpResult, Role};
use echelon_core_model::{ClusterId, Span, Timestamp};
use echelon_core_resource_manager::{self as rm, ResourceManager};
use echelon_core_shard as shard;
use echelon_core_testkit::store::ModelStore;
use echelon_sim_mesos::AgentId;
use std::collections::BTreeMap;

/// When every world begins.
pub const BEGIN: Timestamp = Timestamp(1_800_000_000_000);
/// Elections and streams are looked at this often.
const TEND: Span = Span::millis(250);
/// A process that stepped down stays back this long.
const STAY_BACK: Span = Span::seconds(2);

/// More steps than any world takes whose processes do not run in circles (a stormy one takes about 50,000).
const MOST_STEPS: u64 = 2_000_000;

/// Something that will happen.
#[derive(Debug)]
pub enum Item {
    /// A process wanted to be woken.
    Wake(Who, u64),
    /// A manager is told something.
    Manager {
        index: usize,
        life: u64,
        event: Box<rm::Event>,
    },
    /// A shard's process is told something.
    Shard {
        cluster: usize,
        index: usize,
        life: u64,
        event: Box<shard::Event>,
    },
    /// An operation reaches storage.
    Storage {
        asker: Asker,
        id: OpId,
        op: Op,
        answered: bool,
    },
    /// Its result reaches who asked.
    Answer {
        asker: Asker,
        id: OpId,
        result: OpResult,
    },
    /// A call reaches a master.
    Call {
        who: (usize, usize, u64),
        attempt: u64,
        call: Box<Call>,
    },
    /// A master has something to do.
    MesosTick(usize),
    /// Elections and streams are looked at.
    Tend,
    /// The operator looks at the clusters.
    Operator,
    /// Every host lends all that it may.
    LendAll,
    /// Something goes wrong.
    Fault(Fault),
    /// A paused process goes on.
    Resume(Who),
    /// A process has heard nothing from the membership servers for its lease.
    LeaseOver(Who, u64),
    /// A process reaches the membership servers again, after this long.
    Reconnect(Who, u64, Span),
    /// An end of a stream breaks it.
    BreakLink(u64),
    /// A killed process is started again.
    Start(Who),
    /// An agent comes back.
    ReturnAgent { cluster: usize, agent: AgentId },
    /// Operators take a backup of storage.
    TakeBackup,
    /// A host is started again.
    RestartHost { cluster: usize, agent: usize },
    /// Operators stop all roles, to put the backup back.
    StopRoles,
    /// They put it back, and start the roles.
    PutBack,
    /// They resume the storage.
    ResumeStorage,
    /// They end what stays in quarantine.
    EndUnknown,
    /// A machine goes away for its maintenance.
    BeginMaintenance {
        cluster: usize,
        hostname: String,
        away: Span,
    },
    /// It is back, as a new agent.
    EndMaintenance { cluster: usize, hostname: String },
    /// Kills are switched on again.
    KillsOn,
    /// Nobody wants a host empty any more.
    EndDrain { cluster: usize, hostname: String },
    /// A host that was moved to another host pool is to come back.
    MoveBack { cluster: usize, hostname: String },
    /// An operator changes the pools.
    ChangePools(u32),
    /// The pools become as they were, as far as jobs need them.
    SettlePools,
    /// A user does something.
    User(usize),
    /// A shard asks its cluster's master whether it is there.
    Probe(usize),
    /// An operator removes a cluster, if it is empty by then.
    TryToRemove(usize, Timestamp),
}

/// The whole federation.
#[derive(Debug)]
pub struct World {
    /// The present moment.
    pub now: Timestamp,
    pub(crate) options: Options,
    pub(crate) dice: Dice,
    pub(crate) queue: Queue<Item>,
    /// What happened.
    pub trace: Trace,
    /// All that is stored.
    pub store: ModelStore,
    pub(crate) managers: Vec<Process<ResourceManager>>,
    pub(crate) clusters: Vec<ClusterWorld>,
    pub(crate) elections: BTreeMap<Role, Election>,
    pub(crate) links: Links,
    pub(crate) users: Users,
    /// When a user was last told that something it asked for is stored.
    pub(crate) last_answer: Option<Timestamp>,
    pub(crate) facts: Facts,
    pub(crate) switch: Switch,
    pub(crate) backups: Backups,
    pub(crate) trees: Trees,
    pub(crate) touched: Touched,
    pub(crate) pressure: PressureNotes,
    pub(crate) broken: Vec<Broken>,
    /// The revisions of resource managers' pictures that were looked at, with their lives.
    pub(crate) judged: BTreeMap<usize, (u64, u64)>,
    /// Hosts that were in another host pool when they were to come back.
    pub(crate) moved: u64,
    /// Mass losses that an operator accepted.
    pub(crate) accepted: u64,
    /// Reports of agents that they drop a task.
    pub(crate) dropped: u64,
    pub(crate) steps: u64,
    pub(crate) sites: Sites,
    pub(crate) federation: FederationNotes,
    /// Agents that ended for good, in a world of those, and when.
    pub(crate) gone: BTreeMap<String, Timestamp>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Invariants that did not hold.
    pub broken: Vec<Broken>,
    /// Hash of everything that happened.
    pub hash: u64,
    /// Things that happened.
    pub steps: u64,
    /// Instances that succeeded or run at the end.
    pub fulfilled: u64,
    /// How the shards behaved towards other frameworks, by cluster.
    pub manners: Vec<Manners>,
    /// Looks of operators at which something that was to end lived on because kills were off.
    pub withheld: u64,
    /// Times that a host was moved to another host pool and back.
    pub moved: u64,
    /// Mass losses that an operator accepted.
    pub accepted: u64,
    /// Reports of agents that they drop a task, those that came again counted.
    pub dropped: u64,
    /// Times that storage was put back and resumed.
    pub resumed: u64,
    /// Runs that were stopped to make capacity, in a world under pressure.
    pub preempted: u64,
    /// Leaderships of all roles.
    pub leaderships: u64,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

/// How a cluster's shard behaved towards other frameworks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manners {
    /// Offers that the present leader was given.
    pub offers: Tally,
    /// Those that it still holds.
    pub open_offers: usize,
    /// When offers were revived.
    pub revived: Vec<Timestamp>,
}

impl World {
    /// Plays a seed from beginning to end.
    #[must_use]
    pub fn play(seed: u64, options: Options) -> Outcome {
        let mut world = Self::new(seed, options);
        while world.broken.is_empty() && world.now < world.end() {
            world.run_until(world.end());
        }
        world.judge_end();
        world.outcome()
    }

    /// By then everything must have come to rest. Users ask for something after the last fault, too: their last
    /// request has as much time as that.
    fn end(&self) -> Timestamp {
        let faults_end = BEGIN.plus(self.options.faulty);
        let last = self.last_answer.map_or(faults_end, |at| at.max(faults_end));
        last.plus(self.options.settle)
    }

    /// How it ended.
    pub(crate) fn outcome(self) -> Outcome {
        Outcome {
            hash: self.trace.hash(),
            steps: self.steps,
            fulfilled: self.fulfilled(),
            manners: self.clusters.iter().filter_map(manners).collect(),
            withheld: self.switch.withheld,
            moved: self.moved,
            accepted: self.accepted,
            dropped: self.dropped,
            resumed: self.backups.resumed,
            preempted: self.pressure.preempted(),
            leaderships: self.leaderships(),
            tail: self.trace.lines().map(str::to_owned).collect(),
            broken: self.broken,
        }
    }

    /// Lets things happen until a moment, or until something is broken.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.broken.is_empty() {
            let Some((at, item)) = self.queue.pop(until) else {
                break;
            };
            self.now = self.now.max(at);
            self.steps += 1;
            if self.steps > MOST_STEPS {
                let what = format!("the world does not come to rest: {MOST_STEPS} steps, the last {item:?}");
                self.broken.push(Broken { invariant: 3, what });
                return;
            }
            self.happen(item);
            self.judge_step();
        }
        if self.broken.is_empty() {
            self.now = until;
        }
    }

    /// Adds a line for whoever looks into a failure.
    pub(crate) fn detail(&mut self, text: impl FnOnce() -> String) {
        if self.options.detailed {
            self.trace.line(self.now, &text());
        }
    }

    /// Whether faults still happen.
    pub(crate) fn is_faulty(&self) -> bool {
        self.now < BEGIN.plus(self.options.faulty)
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Wake(who, life) => self.wake(who, life),
            Item::Manager { index, life, event } => self.manager_hears(index, life, *event),
            Item::Shard {
                cluster,
                index,
                life,
                event,
            } => self.shard_hears((cluster, index, life), *event),
            Item::Storage {
                asker,
                id,
                op,
                answered,
            } => self.storage_arrives(asker, id, op, answered),
            Item::Answer { asker, id, result } => self.answer(asker, id, result),
            Item::Call { who, attempt, call } => self.call_arrives(who, attempt, *call),
            Item::MesosTick(cluster) => self.mesos_tick(cluster),
            Item::Tend => self.tend(),
            Item::Operator => self.operator_looks(),
            Item::LendAll => self.lend_all(),
            Item::KillsOn => self.switch_kills_on(),
            Item::Fault(fault) => self.fault(fault),
            Item::Resume(who) => self.resume(who),
            Item::LeaseOver(who, life) => self.lease_over(who, life),
            Item::Reconnect(who, life, away) => self.reconnect(who, life, away),
            Item::BreakLink(id) => self.close_link(id),
            Item::Start(who) => self.start(who),
            Item::TakeBackup => self.take_backup(),
            Item::RestartHost { cluster, agent } => self.restart_host(cluster, agent),
            Item::StopRoles => self.stop_roles(),
            Item::PutBack => self.put_back(),
            Item::ResumeStorage => self.resume_storage(),
            Item::EndUnknown => self.end_unknown(),
            Item::ReturnAgent { cluster, agent } => self.return_agent(cluster, &agent),
            Item::BeginMaintenance {
                cluster,
                hostname,
                away,
            } => self.begin_maintenance(cluster, hostname, away),
            Item::EndDrain { cluster, hostname } => self.want_no_longer_empty(cluster, &hostname),
            Item::MoveBack { cluster, hostname } => self.move_back(cluster, &hostname),
            Item::EndMaintenance { cluster, hostname } => self.end_maintenance(cluster, &hostname),
            Item::ChangePools(n) => self.change_pools(n),
            Item::SettlePools => self.settle_pools(),
            Item::User(user) => self.user_acts(user),
            Item::Probe(cluster) => self.probe(cluster),
            Item::TryToRemove(cluster, until) => self.try_to_remove(cluster, until),
        }
    }

    fn answer(&mut self, asker: Asker, id: OpId, result: OpResult) {
        match asker {
            Asker::Process(Who::Manager(index), life) => {
                self.manager_hears(index, life, rm::Event::Storage(id, result));
            }
            Asker::Process(Who::Shard { cluster, index }, life) => {
                self.shard_hears((cluster, index, life), shard::Event::Storage(id, result));
            }
            Asker::User(user) => self.user_hears(user, result),
            Asker::Operator(n) => self.change_hears(n, result),
        }
    }

    /// Elections, streams and what processes hear of them.
    fn tend(&mut self) {
        let told: Vec<(Role, Told)> = self
            .elections
            .iter_mut()
            .flat_map(|(role, e)| {
                e.tick(self.now)
                    .into_iter()
                    .map(|t| (role.clone(), t))
                    .collect::<Vec<_>>()
            })
            .collect();
        for (role, told) in told {
            self.spread_word(&role, told);
        }
        self.tend_links();
        self.queue.plan(self.now.plus(TEND), Item::Tend);
    }

    pub(crate) fn spread_word(&mut self, role: &Role, told: Told) {
        let published = self.election(role).map(Election::published).unwrap_or_default();
        let soon = self
            .now
            .plus(self.dice.delays.span(Span::millis(1), Span::millis(500)));
        let election = self.elections.get_mut(role);
        let soon = election.map_or(soon, |e| e.in_order(told.who(), soon));
        self.trace.line(self.now, &format!("{told:?}"));
        self.note_cause();
        match told {
            Told::Elected(Who::Manager(i), life) => {
                self.tell_manager((i, life), soon, rm::Event::Elected { published })
            }
            Told::Suspended(Who::Manager(i), life) => {
                self.tell_manager((i, life), soon, rm::Event::Suspended)
            }
            Told::Resumed(Who::Manager(i), life) => self.tell_manager((i, life), soon, rm::Event::Resumed),
            Told::Suspended(Who::Shard { cluster, index }, life) => {
                self.tell_shard((cluster, index, life), soon, shard::Event::Suspended);
            }
            Told::Resumed(Who::Shard { cluster, index }, life) => {
                self.tell_shard((cluster, index, life), soon, shard::Event::Resumed);
            }
            Told::Deposed(Who::Manager(i), life) => self.tell_manager((i, life), soon, rm::Event::Deposed),
            Told::Elected(Who::Shard { cluster, index }, life) => {
                self.tell_shard((cluster, index, life), soon, shard::Event::Elected { published });
            }
            Told::Deposed(Who::Shard { cluster, index }, life) => {
                self.tell_shard((cluster, index, life), soon, shard::Event::Deposed);
            }
        }
    }

    pub(crate) fn step_down(&mut self, who: Who, life: u64, why: &str) {
        self.trace.line(self.now, &format!("{who} steps down: {why}"));
        let (role, until) = (self.role_of(who), self.now.plus(STAY_BACK));
        let told = self
            .elections
            .get_mut(&role)
            .and_then(|e| e.step_down(who, life, until));
        if let Some(told) = told {
            self.spread_word(&role, told);
        }
    }

    pub(crate) fn election(&self, role: &Role) -> Option<&Election> {
        self.elections.get(role)
    }

    pub(crate) fn role_of(&self, who: Who) -> Role {
        match who {
            Who::Manager(_) => Role::ResourceManager,
            Who::Shard { cluster, .. } => self.shard_role(cluster),
        }
    }

    pub(crate) fn cluster_id(&self, cluster: usize) -> ClusterId {
        self.clusters
            .get(cluster)
            .map_or_else(|| ClusterId::new("none"), |c| c.id.clone())
    }
}

fn manners(cluster: &ClusterWorld) -> Option<Manners> {
    let shards = cluster.shards.iter().filter_map(|p| p.driver.as_ref());
    let leader = shards.max_by_key(|s| s.epoch())?;
    Some(Manners {
        offers: leader.offers(),
        open_offers: leader.open_offers(),
        revived: cluster.revived.clone(),
    })
}
