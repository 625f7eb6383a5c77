//! The processes: how they are made, hear, act, stand still, die and come back.

use crate::backups::{Backups, told_too_early};
use crate::blips::{Act, News};
use crate::client::Users;
use crate::clocks::Clock;
use crate::dice::Dice;
use crate::federation::{self, FederationNotes, ProbedMaster};
use crate::invariants::{Facts, Touched};
use crate::links::Links;
use crate::members::{Election, LEASE};
use crate::mesos::{self, ClusterWorld};
use crate::options::Options;
use crate::pressure::{PressureNotes, drawn};
use crate::process::{Process, Who};
use crate::queue::Queue;
use crate::sites::Sites;
use crate::storage::Asker;
use crate::switch::Switch;
use crate::trace::Trace;
use crate::trees::Trees;
use crate::world::{BEGIN, Item, World};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::{Decision, Op, Role};
use echelon_core_model::{ClusterId, Span, Timestamp};
use echelon_core_placement as placement;
use echelon_core_resource_manager::{self as rm, ResourceManager};
use echelon_core_shard::{self as shard, Shard};
use echelon_core_testkit::store::ModelStore;
use std::collections::BTreeMap;

/// Lines of the trace that a failure shows, and that a replay in all detail does.
const TAIL: usize = 400;
const WHOLE: usize = 200_000;

impl World {
    /// A world before its first moment.
    #[must_use]
    pub fn new(seed: u64, options: Options) -> Self {
        let mut dice = Dice::new(seed);
        let options = federation::drawn(drawn(options, &mut dice), &mut dice);
        let mut world = Self {
            now: BEGIN,
            dice,
            queue: Queue::default(),
            trace: Trace::new(if options.detailed { WHOLE } else { TAIL }),
            store: ModelStore::new(),
            managers: Vec::new(),
            clusters: Vec::new(),
            elections: BTreeMap::new(),
            links: Links::default(),
            users: Users::default(),
            last_answer: None,
            facts: Facts::default(),
            switch: Switch::default(),
            backups: Backups::default(),
            trees: Trees::default(),
            touched: Touched::default(),
            pressure: PressureNotes::default(),
            broken: Vec::new(),
            judged: BTreeMap::new(),
            sites: Sites::default(),
            federation: FederationNotes::default(),
            gone: BTreeMap::new(),
            moved: 0,
            accepted: 0,
            dropped: 0,
            steps: 0,
            options,
        };
        world.found();
        world.plan_faults();
        world.plan_backups();
        world.plan_trees();
        world.plan_users();
        world.queue.plan(BEGIN.plus(Span::minutes(1)), Item::Operator);
        world.queue.plan(BEGIN, Item::Tend);
        world
    }

    /// Stores what operators have set up, and starts every process.
    fn found(&mut self) {
        self.found_pools();
        for n in 0..self.options.clusters {
            let hosts = self.options.hosts;
            let id = self.found_cluster(n, hosts);
            if self.is_founded(n) {
                self.store_cluster(&id);
            }
        }
        self.elections.insert(Role::ResourceManager, Election::default());
        for index in 0..self.options.managers {
            let driver = self.new_manager(index, 1);
            let clock = self.draw_clock();
            self.managers.push(Process::new(driver, clock));
        }
        for cluster in 0..self.options.clusters {
            self.found_shard(cluster);
        }
        let everyone: Vec<Who> = self.everyone().collect();
        everyone.into_iter().for_each(|who| self.join(who));
    }

    /// The machines of the n-th cluster, with so many hosts.
    pub(crate) fn found_cluster(&mut self, n: usize, hosts: usize) -> ClusterId {
        let (seed, now) = (self.dice.seeds.below(u64::MAX), self.now);
        let (id, mesos) = mesos::cluster(&format!("c{n}"), hosts, seed, now);
        self.elections
            .insert(Role::Shard(id.clone()), Election::default());
        let mut cluster = ClusterWorld {
            framework: mesos::framework(&id),
            id: id.clone(),
            mesos,
            shards: Vec::new(),
            connections: BTreeMap::new(),
            windows: BTreeMap::new(),
            parked: BTreeMap::new(),
            others: BTreeMap::new(),
            revived: Vec::new(),
            tick_at: None,
            hides_flags: false,
            master: ProbedMaster::default(),
        };
        cluster.add_others(self.options.others, now);
        self.clusters.push(cluster);
        id
    }

    /// The processes of a cluster's shard.
    pub(crate) fn found_shard(&mut self, cluster: usize) {
        for index in 0..self.options.shards {
            let driver = self.new_shard(cluster, index, 1);
            let clock = self.draw_clock();
            if let Some(c) = self.clusters.get_mut(cluster) {
                c.shards.push(Process::new(driver, clock));
            }
        }
    }

    /// The clock of one more process.
    fn draw_clock(&mut self) -> Clock {
        if self.options.federated {
            Clock::drawn(&mut self.dice.clocks)
        } else {
            Clock::TRUE
        }
    }

    pub(crate) fn store_cluster(&mut self, id: &ClusterId) {
        let cluster = Cluster::new(id.clone(), &id.to_string());
        self.store.perform(Op::Decide(Decision::PutCluster {
            cluster,
            expected: None,
        }));
    }

    fn new_manager(&mut self, index: usize, life: u64) -> ResourceManager {
        let seed = self.dice.seeds.below(u64::MAX);
        ResourceManager::new(rm::Config {
            lease: LEASE,
            grant_lease: self.options.lease,
            ..rm::Config::new(format!("rm{index}.{life}"), seed)
        })
    }

    fn new_shard(&mut self, cluster: usize, index: usize, life: u64) -> Shard {
        let id = self.cluster_id(cluster);
        Shard::new(shard::Config {
            name: id.to_string(),
            holder: format!("{id}.{index}.{life}"),
            address: format!("{id}.{index}"),
            seed: self.dice.seeds.below(u64::MAX),
            timing: shard::Timing {
                lease: LEASE,
                report_apart: self.options.report_apart,
                ..shard::Timing::default()
            },
            reserves: true,
            replaced_framework: None,
            cluster: id,
        })
    }

    /// Every process.
    pub(crate) fn everyone(&self) -> impl Iterator<Item = Who> + use<> {
        let (managers, clusters, shards) =
            (self.options.managers, self.options.clusters, self.options.shards);
        let of = move |cluster| (0..shards).map(move |index| Who::Shard { cluster, index });
        (0..managers).map(Who::Manager).chain((0..clusters).flat_map(of))
    }

    pub(crate) fn join(&mut self, who: Who) {
        let (role, life, now) = (self.role_of(who), self.life_of(who), self.now);
        if self.joins_later(who, life) {
            return;
        }
        if let Some(election) = self.elections.get_mut(&role) {
            election.join(who, life, now);
        }
    }

    pub(crate) fn life_of(&self, who: Who) -> u64 {
        match who {
            Who::Manager(i) => self.managers.get(i).map_or(0, |p| p.life),
            Who::Shard { cluster, index } => self.shard_process(cluster, index).map_or(0, |p| p.life),
        }
    }

    pub(crate) fn shard_process(&self, cluster: usize, index: usize) -> Option<&Process<Shard>> {
        self.clusters.get(cluster)?.shards.get(index)
    }

    pub(crate) fn shard_process_mut(&mut self, cluster: usize, index: usize) -> Option<&mut Process<Shard>> {
        self.clusters.get_mut(cluster)?.shards.get_mut(index)
    }

    /// A manager hears something and acts.
    pub(crate) fn manager_hears(&mut self, index: usize, life: u64, event: rm::Event) {
        let now = self.now;
        let Some(process) = self.managers.get_mut(index).filter(|p| p.life == life) else {
            return;
        };
        if let Some(until) = process.pause_at(now) {
            self.queue.plan(
                until,
                Item::Manager {
                    index,
                    life,
                    event: Box::new(event),
                },
            );
            return;
        }
        let shown = process.clock.shown(now);
        let Some(driver) = process.driver.as_mut() else {
            return;
        };
        let deposed = matches!(event, rm::Event::Deposed);
        let news = News::of_manager(&event);
        let mut effects = Vec::new();
        let leads = driver.is_elected();
        driver.step(event, shown, &mut effects);
        if leads {
            let acts: Vec<Act> = effects.iter().filter_map(Act::of_manager).collect();
            self.judge_doubt(Who::Manager(index), news, &acts);
        }
        self.touched.processes.insert(Who::Manager(index));
        if deposed {
            self.leave_links((index, life));
        }
        for effect in effects {
            self.manager_acts(index, life, effect);
        }
        self.plan_wake(Who::Manager(index), life);
    }

    fn manager_acts(&mut self, index: usize, life: u64, effect: rm::Effect) {
        let who = Who::Manager(index);
        match effect {
            rm::Effect::Storage(id, op) => self.ask_storage(Asker::Process(who, life), id, op),
            rm::Effect::Send(link, directive) => self.send_directive(link.0, directive),
            rm::Effect::Watch(cluster) => {
                if let Some(n) = self.clusters.iter().position(|c| c.id == cluster) {
                    self.links.watches.entry((index, life)).or_default().insert(n);
                }
            }
            rm::Effect::Unwatch(cluster) => {
                if let Some(n) = self.clusters.iter().position(|c| c.id == cluster)
                    && let Some(set) = self.links.watches.get_mut(&(index, life))
                {
                    set.remove(&n);
                    self.close_link_to((index, life), n);
                }
            }
            rm::Effect::Publish(epoch) => {
                if let Some(e) = self.elections.get_mut(&Role::ResourceManager) {
                    e.publish(who, life, epoch);
                }
            }
            rm::Effect::Mark(stamp) => {
                let early = told_too_early(self, &Role::ResourceManager, stamp);
                self.broken.extend(early);
                if let Some(e) = self.elections.get_mut(&Role::ResourceManager) {
                    e.mark(who, life, stamp);
                }
            }
            // Worlds have no watches.
            rm::Effect::Changed(_) => {}
            rm::Effect::StepDown { why } => {
                self.leave_links((index, life));
                self.step_down(who, life, &why);
            }
            rm::Effect::Alarm(alarm) => self.trace.line(self.now, &format!("{who} alarm: {alarm}")),
        }
    }

    /// A shard's process hears something and acts.
    pub(crate) fn shard_hears(&mut self, (cluster, index, life): (usize, usize, u64), event: shard::Event) {
        let now = self.now;
        let Some(process) = self.shard_process_mut(cluster, index).filter(|p| p.life == life) else {
            return;
        };
        if let Some(until) = process.pause_at(now) {
            self.tell_shard((cluster, index, life), until, event);
            return;
        }
        if process.driver.is_some() {
            self.note_switch(Who::Shard { cluster, index }, life, &event);
        }
        let Some(process) = self.shard_process_mut(cluster, index) else {
            return;
        };
        let shown = process.clock.shown(now);
        let Some(driver) = process.driver.as_mut() else {
            return;
        };
        let news = News::of_shard(&event);
        let mut effects = Vec::new();
        let leads = driver.mode() != shard::Mode::Follower;
        driver.step(event, shown, &mut effects);
        if leads {
            let acts: Vec<Act> = effects.iter().filter_map(Act::of_shard).collect();
            self.judge_doubt(Who::Shard { cluster, index }, news, &acts);
        }
        self.touched.processes.insert(Who::Shard { cluster, index });
        for effect in effects {
            self.shard_acts((cluster, index, life), effect);
        }
        self.plan_wake(Who::Shard { cluster, index }, life);
    }

    fn shard_acts(&mut self, at: (usize, usize, u64), effect: shard::Effect) {
        let (cluster, index, life) = at;
        let who = Who::Shard { cluster, index };
        match effect {
            shard::Effect::Storage(id, op) => self.ask_storage(Asker::Process(who, life), id, op),
            shard::Effect::Cluster(call) => {
                self.judge_switch(who, life, &call);
                self.call_mesos(at, call);
            }
            shard::Effect::Report(link, report) => self.send_report(link.0, report),
            shard::Effect::Admit(_) => {}
            shard::Effect::Refuse { link, why } => {
                self.trace
                    .line(self.now, &format!("{who} refuses link {}: {why}", link.0));
                self.close_link(link.0);
            }
            shard::Effect::Place(problem) => {
                let (answer, _) = placement::place(&problem);
                let soon = self
                    .now
                    .plus(self.dice.delays.span(Span::millis(1), Span::millis(5)));
                self.tell_shard(at, soon, shard::Event::Placed(answer));
            }
            shard::Effect::FetchTails(asked) => self.fetch_tails(at, asked),
            shard::Effect::Publish(epoch) => {
                let role = self.shard_role(cluster);
                if let Some(e) = self.elections.get_mut(&role) {
                    e.publish(who, life, epoch);
                }
            }
            shard::Effect::Mark(stamp) => {
                let role = self.shard_role(cluster);
                let early = told_too_early(self, &role, stamp);
                self.broken.extend(early);
                if let Some(e) = self.elections.get_mut(&role) {
                    e.mark(who, life, stamp);
                }
            }
            shard::Effect::StepDown { why } => self.step_down(who, life, &why),
            shard::Effect::Alarm(alarm) => self.trace.line(self.now, &format!("{who} alarm: {alarm}")),
        }
    }

    /// Plans the next wake-up that a process wants.
    fn plan_wake(&mut self, who: Who, life: u64) {
        let now = self.now;
        let wanted = match who {
            Who::Manager(i) => self
                .managers
                .get_mut(i)
                .and_then(|p| wake_of(p, now, ResourceManager::next_wake)),
            Who::Shard { cluster, index } => self
                .shard_process_mut(cluster, index)
                .and_then(|p| wake_of(p, now, Shard::next_wake)),
        };
        if let Some(at) = wanted {
            self.queue.plan(at, Item::Wake(who, life));
        }
    }

    /// A wake-up that an earlier one replaced is none: if it counted, every replacement would add a chain of wake-ups for good.
    pub(crate) fn wake(&mut self, who: Who, life: u64) {
        let now = self.now;
        match who {
            Who::Manager(index) => {
                if self
                    .managers
                    .get_mut(index)
                    .is_some_and(|p| p.life == life && p.woken(now))
                {
                    self.manager_hears(index, life, rm::Event::Wake);
                }
            }
            Who::Shard { cluster, index } => {
                if self
                    .shard_process_mut(cluster, index)
                    .is_some_and(|p| p.life == life && p.woken(now))
                {
                    self.shard_hears((cluster, index, life), shard::Event::Wake);
                }
            }
        }
    }

    pub(crate) fn kill(&mut self, who: Who) {
        let (role, now, life) = (self.role_of(who), self.now, self.life_of(who));
        if let Some(election) = self.elections.get_mut(&role) {
            election.silent(who, now);
        }
        match who {
            Who::Manager(i) => {
                self.links.watches.remove(&(i, life));
                if let Some(p) = self.managers.get_mut(i) {
                    p.kill();
                }
            }
            Who::Shard { cluster, index } => {
                if let Some(p) = self.shard_process_mut(cluster, index) {
                    p.kill();
                }
            }
        }
        self.drop_connections(who);
    }

    pub(crate) fn start(&mut self, who: Who) {
        self.note_cause();
        if self.backups.are_stopped || self.is_removed(who) {
            return;
        }
        let life = self.life_of(who);
        match who {
            Who::Manager(i) => {
                let driver = self.new_manager(i, life);
                if let Some(p) = self.managers.get_mut(i).filter(|p| p.driver.is_none()) {
                    p.start(driver);
                }
            }
            Who::Shard { cluster, index } => {
                let driver = self.new_shard(cluster, index, life);
                if let Some(p) = self
                    .shard_process_mut(cluster, index)
                    .filter(|p| p.driver.is_none())
                {
                    p.start(driver);
                }
            }
        }
        self.join(who);
    }

    pub(crate) fn pause(&mut self, who: Who, span: Span) {
        let (role, now) = (self.role_of(who), self.now);
        let until = now.plus(span);
        match who {
            Who::Manager(i) => {
                if let Some(p) = self.managers.get_mut(i).filter(|p| p.driver.is_some()) {
                    p.paused_until = Some(until);
                }
            }
            Who::Shard { cluster, index } => {
                if let Some(p) = self
                    .shard_process_mut(cluster, index)
                    .filter(|p| p.driver.is_some())
                {
                    p.paused_until = Some(until);
                }
            }
        }
        if let Some(election) = self.elections.get_mut(&role) {
            election.silent(who, now);
        }
        self.queue.plan(until, Item::Resume(who));
    }

    pub(crate) fn resume(&mut self, who: Who) {
        self.note_cause();
        let role = self.role_of(who);
        let alive = match who {
            Who::Manager(i) => self.managers.get(i).is_some_and(|p| p.driver.is_some()),
            Who::Shard { cluster, index } => self
                .shard_process(cluster, index)
                .is_some_and(|p| p.driver.is_some()),
        };
        if let Some(until) = self.expired_until(who) {
            return self.blip(who, until.since(self.now));
        }
        if let Some(election) = self.elections.get_mut(&role).filter(|_| alive) {
            election.heard(who);
        }
    }
}

/// The wake-up to plan, if an earlier one is not planned already.
fn wake_of<D>(
    process: &mut Process<D>,
    now: Timestamp,
    next: impl Fn(&D) -> Option<Timestamp>,
) -> Option<Timestamp> {
    let at = process.clock.moment(next(process.driver.as_ref()?)?).max(now);
    if process.wake_at.is_some_and(|planned| planned <= at) {
        return None;
    }
    process.wake_at = Some(at);
    Some(at)
}
