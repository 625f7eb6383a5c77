//! Worlds under pressure: pools below pools with unequal shares and reservations, mixed shapes and kinds that
//! want more than there is, and 1 to 5 clusters that join, drain, are cordoned and are lost for a while. What
//! is stopped, granted and fair is judged by the agents' own tasks.

mod rest;
mod stops;

use crate::bounds::raise_reservations;
use crate::client::{Asked, User};
use crate::dice::{Dice, Die};
use crate::faults::Fault;
use crate::invariants::{Broken, stored, stored_run};
use crate::options::Options;
use crate::process::Who;
use crate::shares::CORES;
use crate::sites::Site;
use crate::world::{BEGIN, Item, World};
use echelon_core_gateway::change::Wish as GoalWish;
use echelon_core_hosts::Call;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::pool::{Pool, PoolPaths, PoolTree};
use echelon_core_model::spec::JobKind;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{
    ClusterId, InstanceId, JobId, MemberId, PoolId, ReasonCode, Resources, Span, TaskId, Timestamp,
};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use echelon_core_pools::{Entitlements, Hierarchy};
use echelon_core_testkit::build::{JobBuilder, shape};
use rest::{FederationStand, JobStand, PoolStand};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stops::{LaunchedRun, PreemptedRun, WaitingJob, firm_stopped, overtaken, stopped_again, stopped_in_vain};

/// Pools that a world may have. One is there only if the pool above it is, and the first of all always is.
const PATHS: [&str; 9] = [
    "/p", "/p/a", "/p/b", "/p/b/x", "/p/b/y", "/q", "/q/a", "/q/b", "/r",
];
/// MiB that go with a core.
const MEMORY: u64 = 64;
/// A request has waited long when it waits since then: capacity is made for it after half a minute.
const PATIENCE: Span = Span::seconds(90);
/// How long capacity is kept for it. Where that was in vain, other work has its turn.
const KEPT_FOR: Span = Span::minutes(10);

/// What is noted to judge by.
#[derive(Debug, Default)]
pub(crate) struct PressureNotes {
    stops: Vec<PreemptedRun>,
    launches: Vec<LaunchedRun>,
    /// Runs that were noted.
    stopped: BTreeSet<TaskId>,
    launched: BTreeSet<TaskId>,
    /// Instances that have had a run, and were not preempted since.
    begun: BTreeSet<InstanceId>,
    /// When demand, capacity or processes changed.
    causes: Vec<Timestamp>,
    /// The division that was decided last.
    divided: Option<(Arc<Hierarchy>, Arc<Entitlements>)>,
    /// Whether capacity was kept then for something that waits, by a hold or by a request.
    is_kept: bool,
}

impl PressureNotes {
    /// Runs that were stopped to make capacity.
    pub(crate) const fn preempted(&self) -> u64 {
        self.stops.len() as u64
    }
}

/// A world of pressure has 1 cluster to as many as the options say.
pub(crate) fn drawn(options: Options, dice: &mut Dice) -> Options {
    if !options.pressure {
        return options;
    }
    Options {
        clusters: 1 + dice.faults.index(options.clusters),
        ..options
    }
}

/// The first tree.
pub(crate) fn draw_pools(die: &mut Die) -> BTreeMap<String, Pool> {
    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    for path in PATHS {
        let above = PoolTree::parent(path);
        let is_there = die.chance(700) && (above == "/" || pools.contains_key(above));
        if !is_there && !matches!(path, "/p" | "/q") {
            continue;
        }
        let cores = die.below(5);
        let mut pool = Pool {
            share: shape(1, MEMORY).times(1 + die.below(4)),
            reservation: shape(cores, cores * MEMORY),
            ..Pool::new(PoolId::new(path.trim_start_matches('/')), path)
        };
        if die.chance(200) {
            pool.limit.cpus = 4000 + 1000 * die.below(12);
        }
        pools.insert(path.to_owned(), pool);
    }
    // What an inner pool reserves is what those below it do.
    let has_below: Vec<String> = pools
        .keys()
        .map(|path| PoolTree::parent(path).to_owned())
        .collect();
    for pool in pools.values_mut().filter(|pool| has_below.contains(&pool.path)) {
        pool.reservation = Resources::ZERO;
    }
    raise_reservations(&mut pools);
    pools
}

impl World {
    /// Whether a cluster is there from the beginning; the others join.
    pub(crate) fn is_founded(&self, cluster: usize) -> bool {
        let joins = usize::try_from(self.options.faults.joins).unwrap_or(usize::MAX);
        cluster == 0 || cluster < self.options.clusters.saturating_sub(joins)
    }

    /// Plans what happens to clusters and shares.
    pub(crate) fn plan_pressure(&mut self) {
        let rates = self.options.faults;
        let faulty = self.options.faulty;
        let end = BEGIN.plus(faulty);
        for cluster in (0..self.options.clusters)
            .filter(|c| !self.is_founded(*c))
            .collect::<Vec<_>>()
        {
            let at = self.dice.faults.span(Span::seconds(5), faulty);
            self.queue.plan(BEGIN.plus(at), Item::Fault(Fault::Join(cluster)));
        }
        for i in 0..rates.wishes {
            let cluster = self.dice.faults.index(self.options.clusters);
            let desired_state = if i % 2 == 0 {
                DesiredState::Draining
            } else {
                DesiredState::Cordoned
            };
            let at = BEGIN.plus(self.dice.faults.span(Span::seconds(5), faulty));
            let until = at.plus(self.dice.faults.span(Span::seconds(10), Span::minutes(2)));
            self.queue
                .plan(at, Item::Fault(Fault::SetDesiredState(cluster, desired_state)));
            self.queue.plan(
                until.min(end),
                Item::Fault(Fault::SetDesiredState(cluster, DesiredState::Active)),
            );
        }
        for _ in 0..rates.outages {
            let cluster = self.dice.faults.index(self.options.clusters);
            let span = self.dice.faults.span(Span::seconds(20), Span::minutes(3));
            let at = self.dice.faults.span(Span::seconds(5), faulty);
            self.queue
                .plan(BEGIN.plus(at), Item::Fault(Fault::LoseCluster(cluster, span)));
        }
        for _ in 0..rates.shares {
            let pool = self.dice.faults.index(PATHS.len());
            let share = 1 + self.dice.faults.below(5);
            let at = self.dice.faults.span(Span::seconds(5), faulty);
            self.queue
                .plan(BEGIN.plus(at), Item::Fault(Fault::Share(pool, share)));
        }
        if rates.wishes > 0 {
            for cluster in 0..self.options.clusters {
                self.queue.plan(
                    end,
                    Item::Fault(Fault::SetDesiredState(cluster, DesiredState::Active)),
                );
            }
        }
    }

    /// What an operator wants of a cluster that has joined.
    pub(crate) fn set_desired_state(&mut self, cluster: usize, desired_state: DesiredState) {
        let (n, id) = (cluster, self.cluster_id(cluster));
        let Answer::Clusters(rows) = self.store.read(&Query::Clusters) else {
            return;
        };
        let Some(row) = rows
            .into_iter()
            .find(|row| row.id == id && row.desired_state != desired_state)
        else {
            return;
        };
        let expected = Some(row.version);
        let cluster = Cluster {
            desired_state,
            version: row.version.next(),
            ..row
        };
        self.store
            .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
        let now = self.now;
        self.federation.note_desired(n, desired_state, now);
    }

    /// All processes and hosts of a cluster are gone for a while.
    pub(crate) fn lose_cluster(&mut self, cluster: usize, span: Span) {
        let until = self.now.plus(span);
        let everyone = self.everyone();
        let there: Vec<Who> = everyone
            .filter(|who| self.site_of(*who) == Site::Cluster(cluster))
            .collect();
        for who in there {
            self.kill(who);
            self.queue.plan(until, Item::Start(who));
        }
        let hosts = self
            .clusters
            .get(cluster)
            .map_or(0, |c| c.mesos.agent_ids().count());
        for agent in 0..hosts {
            if let Some(agent) = self.lose_agent(cluster, agent) {
                self.queue.plan(until, Item::ReturnAgent { cluster, agent });
            }
        }
    }

    /// A pool gets another share.
    pub(crate) fn set_share(&mut self, pool: usize, share: u64) {
        let mut pools = self.tree().pools;
        if let Some(pool) = PATHS.get(pool).and_then(|path| pools.get_mut(*path)) {
            pool.share = shape(1, MEMORY).times(share);
            pool.version = pool.version.next();
            self.put_pools(pools);
        }
    }

    /// Thinks of a job that wants much.
    pub(crate) fn think_of_pressure(&mut self, n: usize) -> User {
        let tree = self.tree();
        let die = &mut self.dice.users;
        let leaves: Vec<&String> = tree.pools.keys().filter(|path| tree.is_leaf(path)).collect();
        let pool = leaves
            .get(die.index(leaves.len()))
            .map_or("/p", |path| path.as_str());
        let cores = match die.below(20) {
            0..=11 => 1,
            12..=16 => 2,
            _ => CORES,
        };
        let most = (u64::from(self.options.instances) / cores).max(1);
        let instances = u32::try_from(1 + die.below(most)).unwrap_or(1);
        let name = format!("job{n}");
        let kind = die.below(20);
        let is_batch = kind < 8;
        let mut job = match kind {
            0..=7 => {
                let longest = if die.chance(300) {
                    Span::minutes(3)
                } else {
                    Span::seconds(40)
                };
                let runtime = die.span(Span::seconds(1), longest);
                JobBuilder::batch(&name, instances).env("SIM_RUNTIME_MS", &runtime.0.to_string())
            }
            8..=16 => JobBuilder::service(&name, instances),
            _ => JobBuilder::stateful(&name, instances.min(4), 64),
        };
        let size = shape(cores, cores * MEMORY);
        job = job
            .pool(pool)
            .shape(size)
            .priority(u32::try_from(die.below(3)).unwrap_or_default());
        // A gang has to fit into one cluster.
        let all = u64::from(instances) * cores;
        if is_batch && die.chance(250) && all <= CORES * self.options.hosts as u64 {
            job = job.gang();
        } else if die.chance(400) && kind <= 16 {
            job = job.spread();
        }
        let fits = tree.lineage(pool).all(|p| size.fits(p.reservation));
        if die.chance(200) && fits && kind <= 16 {
            job = job.not_preemptible();
        }
        let mut plans = vec![Asked::Create];
        if kind > 7 && kind <= 16 && die.chance(600) {
            plans.push(Asked::Scale(u32::try_from(1 + die.below(most)).unwrap_or(1)));
        }
        if die.chance(200) {
            plans.push(Asked::Goal(GoalWish::Stop));
        }
        if die.chance(150) {
            plans.push(Asked::Goal(GoalWish::Delete));
        }
        User::new(job.build(), plans)
    }

    /// Demand, capacity or a process has changed.
    pub(crate) fn note_cause(&mut self) {
        if self.options.pressure {
            self.pressure.causes.push(self.now);
        }
    }

    /// Notes what a call launches, and what it stops to make capacity.
    pub(crate) fn note_pressure(&mut self, cluster: &ClusterId, call: &Call) {
        if !self.options.pressure {
            return;
        }
        match call {
            Call::Accept { launches, .. } => {
                for launch in launches {
                    self.note_launch(&launch.task);
                }
            }
            Call::Kill { task, .. } => {
                if let Ok(MemberId { run, .. }) = task.parse() {
                    self.note_kill(cluster, &run);
                }
            }
            _ => {}
        }
    }

    fn note_launch(&mut self, task: &TaskId) {
        let Some((head, spec)) = self.head_and_spec(task.instance.job) else {
            return;
        };
        if !self.pressure.launched.insert(task.clone()) {
            return;
        }
        let launched = LaunchedRun {
            job: task.instance.job,
            is_replacement: !self.pressure.begun.insert(task.instance.clone()),
            pool: PoolPaths::of(&self.tree()).of_job(&head).to_owned(),
            priority: spec.priority,
            at: self.now,
            cores: spec
                .group(&task.instance.group)
                .map_or(0, |g| g.resources.cpus / 1000),
        };
        self.pressure.launches.push(launched);
    }

    fn note_kill(&mut self, cluster: &ClusterId, task: &TaskId) {
        let run = stored(self, cluster, &task.instance).and_then(|record| stored_run(&record, task));
        let stopping = run.and_then(|run| run.stopping);
        let Some(stopping) = stopping.filter(|s| s.reason.code == ReasonCode::PoolPreempted) else {
            return;
        };
        let Some((_, spec)) = self.head_and_spec(task.instance.job) else {
            return;
        };
        if !self.pressure.stopped.insert(task.clone()) {
            return;
        }
        self.pressure.begun.remove(&task.instance);
        self.pressure.stops.push(PreemptedRun {
            instance: task.instance.clone(),
            at: stopping.since,
            claimant: stopping.reason.detail.as_deref().unwrap_or_default().to_owned(),
            cores: spec
                .group(&task.instance.group)
                .map_or(0, |g| g.resources.cpus / 1000),
            is_preemptible: spec.preemptible,
        });
        let (stops, causes) = (&self.pressure.stops, &self.pressure.causes);
        let wrong = firm_stopped(stops).or_else(|| stopped_again(stops, causes));
        self.broken
            .extend(wrong.map(|what| Broken { invariant: 28, what }));
    }

    /// Cores of live runs on hosts that are there, by job and host.
    fn live_cores(&self) -> BTreeMap<(JobId, String), u64> {
        let mut runs: BTreeSet<(String, TaskId)> = BTreeSet::new();
        for (agent, task) in self.clusters.iter().flat_map(|c| c.mesos.live_tasks()) {
            if let Ok(MemberId { run, .. }) = task.as_str().parse()
                && !self.facts.excused(agent.as_str(), self.now)
            {
                runs.insert((agent.as_str().to_owned(), run));
            }
        }
        let mut cores: BTreeMap<(JobId, String), u64> = BTreeMap::new();
        for (agent, run) in runs {
            *cores.entry((run.instance.job, agent)).or_default() += self.cores_of(run.instance.job);
        }
        cores
    }

    /// Cores of an instance of a job, of which all groups are alike.
    fn cores_of(&self, job: JobId) -> u64 {
        let spec = self.head_and_spec(job).map(|(_, spec)| spec);
        let group = spec.as_ref().and_then(|spec| spec.groups.first());
        group.map_or(0, |g| g.resources.cpus / 1000)
    }

    /// What runs and what was granted in the last step is within what the pools of the raised jobs, and those
    /// above them, are entitled to. What a second round gives beyond is within what there is.
    pub(crate) fn judge_grants(&mut self, index: usize) {
        let manager = self.managers.get(index).and_then(|p| p.driver.as_ref());
        let Some((manager, cycle)) = manager.and_then(|m| Some((m, m.last_cycle()?))) else {
            return;
        };
        let picture = manager.picture();
        let hierarchy = &picture.facts.hierarchy;
        let first = &cycle.division.entitled.ordinary;
        self.pressure.is_kept = picture.admission.holds_capacity() || !picture.preemption.all.is_empty();
        self.pressure.divided = Some((Arc::clone(hierarchy), Arc::clone(first)));
        if cycle.admission.raised.is_empty() {
            return;
        }
        let pool_of = |job: &JobId| hierarchy.find(&picture.facts.jobs.get(job)?.spec.as_deref()?.pool);
        let mut has: BTreeMap<PoolIdx, u64> = BTreeMap::new();
        let mut add = |job: &JobId, cores: u64| {
            let pool = pool_of(job);
            for i in pool
                .into_iter()
                .flat_map(|i| std::iter::once(i).chain(hierarchy.above(i)))
            {
                *has.entry(i).or_default() += cores * 1000;
            }
        };
        for ((job, _), cores) in self.live_cores() {
            add(&job, cores);
        }
        for admission in &cycle.admission.admitted {
            add(&admission.job, admission.total() * self.cores_of(admission.job));
        }
        let raised: BTreeSet<PoolIdx> = cycle.admission.raised.keys().filter_map(pool_of).collect();
        let sizes = cycle
            .admission
            .raised
            .keys()
            .map(|job| self.cores_of(*job) * 1000);
        let largest = sizes.max().unwrap_or_default();
        let nodes: BTreeSet<PoolIdx> = raised
            .iter()
            .flat_map(|i| std::iter::once(*i).chain(hierarchy.above(*i)))
            .collect();
        let wrong = nodes.into_iter().find_map(|i| {
            let has = has.get(&i).copied().unwrap_or_default();
            let (limit, given) = picture.admission.rooms.bounds(i);
            let second = picture.admission.second_amount(i);
            let entitled = first.amount(i).max_each(given).max_each(second).cpus;
            // Into capacity that preemption has made an inner pool gets whole instances: less than one more.
            let part = if i == ROOT || hierarchy.is_leaf(i) {
                0
            } else {
                largest.saturating_sub(1)
            };
            let beyond = has > entitled.saturating_add(part) && (i == ROOT || !cycle.admission.second_round);
            let path = hierarchy.pool(i).map_or("/", |p| p.path.as_str());
            (beyond || has > limit.cpus).then(|| {
                format!(
                    "{path} has {has} of {entitled} thousandths of a core, limit {}, after a raise of {:?}",
                    limit.cpus, cycle.admission.admitted
                )
            })
        });
        self.broken
            .extend(wrong.map(|what| Broken { invariant: 29, what }));
    }

    /// When faults have stopped and everything had time to come to rest.
    pub(crate) fn judge_pressure(&self) -> Vec<Broken> {
        if !self.options.pressure {
            return Vec::new();
        }
        let notes = &self.pressure;
        let cause = notes.causes.last().copied().unwrap_or_default();
        let in_vain = stopped_in_vain(&notes.stops, &notes.launches, cause);
        let why = self.users.0.iter().filter_map(|user| self.progress(user.job?));
        let why: Vec<_> = why.flat_map(|progress| progress.waiting).collect();
        let unfair = self
            .stand()
            .and_then(|stand| Some(format!("{}: {stand:?}; {why:?}", stand.unfair()?)));
        let found = [(28, in_vain), (14, unfair), (14, self.starved())].into_iter();
        found
            .filter_map(|(invariant, what)| {
                Some(Broken {
                    invariant,
                    what: what?,
                })
            })
            .collect()
    }

    /// A request that fits what its pool is entitled to, and that later work of its pool has overtaken.
    fn starved(&self) -> Option<String> {
        let stand = self.stand()?;
        stand
            .jobs
            .iter()
            .filter(|job| job.is_plain && job.waits > 0)
            .find_map(|job| {
                let fits = |path: &String| {
                    let pool = stand.pools.get(path);
                    pool.is_some_and(|pool| job.cores * 1000 <= pool.entitled.min(pool.limit))
                };
                if !job.pools.iter().all(fits) {
                    return None;
                }
                let waiting = self.progress(job.id)?.waiting;
                let since = waiting.iter().map(|w| w.since).min()?;
                let since = since.max(self.pressure.causes.last().copied().unwrap_or_default());
                let waiting = WaitingJob {
                    job: job.id,
                    pool: job.pools.first()?.clone(),
                    priority: job.priority,
                    since: since.plus(PATIENCE),
                    until: since.plus(KEPT_FOR),
                };
                overtaken(&waiting, &self.pressure.launches)
            })
    }

    /// How everything stands.
    fn stand(&self) -> Option<FederationStand> {
        let tree = self.tree();
        let paths = PoolPaths::of(&tree);
        let (hierarchy, entitled) = self.pressure.divided.as_ref()?;
        let live = self.live_cores();
        let hosts = self.clusters.iter().flat_map(|c| c.mesos.agent_ids());
        let index: BTreeMap<&str, usize> = hosts.enumerate().map(|(i, agent)| (agent.as_str(), i)).collect();
        let mut out = FederationStand {
            hosts: vec![CORES; index.len()],
            is_kept: self.pressure.is_kept,
            ..FederationStand::default()
        };
        for (path, pool) in &tree.pools {
            let stand = PoolStand {
                entitled: entitled.amount(hierarchy.find(path)?).cpus,
                limit: pool.limit.cpus,
                has: 0,
            };
            out.pools.insert(path.clone(), stand);
        }
        for id in self.users.0.iter().filter_map(|user| user.job) {
            let (Some((head, spec)), Some(progress)) = (self.head_and_spec(id), self.progress(id)) else {
                continue;
            };
            if progress.state.is_ended() || head.goal.desired != Desired::Running {
                continue;
            }
            let cores = self.cores_of(id).max(1);
            let of_job = live.iter().filter(|((job, _), _)| *job == id);
            let on: BTreeMap<usize, u64> = of_job
                .filter_map(|((_, agent), n)| Some((*index.get(agent.as_str())?, n / cores)))
                .collect();
            let has: u64 = on.values().sum();
            let wanted = self.unended_of(&progress, &head, self.wanted(id, head.spec_version));
            let waits = wanted.saturating_sub(has);
            let pools: Vec<String> = tree
                .lineage(paths.of_job(&head))
                .map(|p| p.path.clone())
                .collect();
            for path in &pools {
                if let Some(pool) = out.pools.get_mut(path) {
                    pool.has += has * cores * 1000;
                }
            }
            let is_alone = spec.gang.is_none();
            // A service loses only where its part of `max_unavailable` is.
            let at: BTreeSet<usize> = on.keys().map(|host| host / self.options.hosts.max(1)).collect();
            let is_at_one = at.len() < 2;
            out.is_kept |= (!is_alone || spec.kind == JobKind::Stateful) && waits > 0;
            out.jobs.push(JobStand {
                id,
                priority: spec.priority,
                pools,
                cores,
                waits,
                is_plain: spec.preemptible && is_alone && spec.kind != JobKind::Stateful,
                may_lose: match (spec.preemptible && is_alone, spec.kind.runs_for_ever()) {
                    (true, false) => u64::MAX,
                    // What may be unavailable.
                    (true, true) if is_at_one => 1,
                    _ => 0,
                },
                on,
            });
        }
        Some(out)
    }

    /// A job that is to run: nothing of it is missing without a row that says so.
    pub(crate) fn judge_demand(&self, n: usize) -> Option<Broken> {
        let job = self.users.0.get(n)?.job?;
        let (head, progress) = (self.head(job)?, self.progress(job)?);
        if !matches!(progress.state, JobState::Running | JobState::Waiting)
            || head.goal.desired != Desired::Running
        {
            return None;
        }
        let wanted = self.unended_of(&progress, &head, self.wanted(job, head.spec_version));
        let live = self.live_instances(job);
        let reported = progress
            .waiting
            .iter()
            .filter(|w| w.reason.code != ReasonCode::MaxRunning && !w.reason.code.withholds());
        let reported: u64 = reported.map(|w| w.count).sum();
        (live + reported < wanted || live > wanted).then(|| Broken {
            invariant: 3,
            what: format!(
                "user{n}: {job} has {live} live and {reported} waiting instances of {wanted}: {:?}",
                progress.waiting
            ),
        })
    }
}
