//! Federations under pressure: pools below pools with unequal shares, reservations and limits, and jobs that
//! want more than there is. A scene says what there is and what happens: clusters that are cordoned, drain
//! and are cut off, leaders that change, orders and reports that are lost, late or repeated, instances that
//! end, and goals and shares that change.

use crate::event::Event;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::job::Desired;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::store::{Answer, Decision, OpFailure, OpResult, Query};
use echelon_core_model::{ClusterId, InstanceNumber, JobId, PoolId, Resources, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Clusters of a scene, by index.
pub const CLUSTERS: [&str; 3] = ["a", "b", "c"];

/// Pools that a scene may have. One is there only if the pool above it is.
const PATHS: [&str; 10] = [
    "/p", "/p/a", "/p/b", "/p/b/x", "/p/b/y", "/q", "/q/a", "/q/a/x", "/q/b", "/r",
];
/// These are always there.
const FIRST: [&str; 2] = ["/p", "/q"];

/// What every pool of a tree gets: whether it is there, its share, and reservation and limit in cores.
type DrawnPool = (bool, u64, u64, Option<u64>);

/// A job of a scene. Every instance takes one core.
#[derive(Debug, Clone)]
pub struct JobPlan {
    is_service: bool,
    instances: u32,
    /// Its pool: the index of a leaf.
    leaf: usize,
    priority: u32,
    is_firm: bool,
    is_gang: bool,
    is_spread: bool,
    only: Option<usize>,
    max_running: Option<u32>,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum SceneAct {
    /// So many messages arrive.
    Deliver(u8),
    /// A message to the resource manager is lost.
    Lose,
    /// One comes twice.
    Twice,
    /// One comes after others.
    Late,
    /// Milliseconds pass, and nothing arrives.
    Pass(u16),
    /// Seconds pass in which everything arrives.
    Run(u8),
    /// A stream breaks.
    Cut(u8),
    /// Another process leads.
    Leader,
    /// The same of a shard.
    ShardLeader(u8),
    /// The next directives are lost.
    LoseOrders(u8),
    /// Directives to a cluster are late from now on.
    HoldOrders(u8),
    /// They arrive.
    Arrive,
    /// What is being preempted is dead.
    Die(u8),
    /// Another number of instances.
    Scale(u8, u8),
    /// Another goal.
    Want(u8, u8),
    /// Instances at a cluster end.
    Finish(u8, u8),
    /// A storage operation is done, and its outcome is not known.
    FailOp,
    /// Fewer or more instances at once.
    MaxRunning(u8, u8),
    /// All instances are restarted.
    Restart(u8),
    /// A cluster is cordoned, drained, or active again.
    DesiredState(u8, u8),
    /// A pool gets another share.
    Share(u8, u8),
}

/// What there is, and what happens.
#[derive(Debug, Clone)]
pub struct PressureScene {
    pools: Vec<Pool>,
    cores: Vec<u64>,
    jobs: Vec<JobPlan>,
    /// So many jobs are there before the others come.
    early: usize,
    /// Seconds from then until anything happens.
    before: u8,
    /// What is preempted dies when it is told to, and not before.
    dies_late: bool,
    acts: Vec<SceneAct>,
}

/// A federation in which a scene is played.
pub struct SceneRun {
    pub case: Case,
    /// The jobs, with the paths of their pools.
    pub jobs: Vec<(JobId, String)>,
}

fn drawn_pool() -> impl Strategy<Value = DrawnPool> {
    let limit = prop_oneof![3 => Just(None), 1 => (2u64..9).prop_map(Some)];
    (prop::bool::weighted(0.7), 1u64..5, 0u64..3, limit)
}

fn pools(drawn: &[DrawnPool]) -> Vec<Pool> {
    let mut out: BTreeMap<&str, Pool> = BTreeMap::new();
    for (path, (is_there, share, ..)) in PATHS.iter().zip(drawn) {
        let above = PoolTree::parent(path);
        if FIRST.contains(path) || (*is_there && (above == "/" || out.contains_key(above))) {
            let one = shape(1, 64);
            let pool = Pool {
                share: one.times(*share),
                ..Pool::new(PoolId::new(*path), *path)
            };
            out.insert(path, pool);
        }
    }
    // Below comes behind above in order of path: a pool reserves at least what those below it do.
    for (path, (.., cores, limit)) in PATHS.iter().zip(drawn).rev() {
        let below: Vec<Resources> = out
            .values()
            .filter(|p| PoolTree::parent(&p.path) == *path)
            .map(|p| p.reservation)
            .collect();
        let Some(pool) = out.get_mut(path) else { continue };
        pool.reservation = if below.is_empty() {
            shape(*cores, cores * 64)
        } else {
            below.into_iter().fold(Resources::ZERO, Resources::plus)
        };
        if let Some(cores) = limit {
            pool.limit.cpus = pool.reservation.cpus.max(cores * 1000);
        }
    }
    out.into_values().collect()
}

fn job_plan() -> impl Strategy<Value = JobPlan> {
    let only = prop_oneof![4 => Just(None), 1 => (0usize..3).prop_map(Some)];
    let max_running = prop_oneof![5 => Just(None), 1 => (1u32..5).prop_map(Some)];
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.4),
    );
    (flags, 1u32..9, 0usize..12, 0u32..3, only, max_running).prop_map(
        |(flags, instances, leaf, priority, only, max_running)| {
            let (is_service, is_firm, is_gang, is_spread) = flags;
            JobPlan {
                is_service,
                instances,
                leaf,
                priority,
                is_firm,
                is_gang: is_gang && !is_service,
                is_spread: is_spread && !is_gang,
                only,
                max_running: max_running.filter(|_| !is_gang),
            }
        },
    )
}

fn act() -> impl Strategy<Value = SceneAct> {
    prop_oneof![
        10 => (1u8..30).prop_map(SceneAct::Deliver),
        2 => Just(SceneAct::Lose),
        2 => Just(SceneAct::Twice),
        2 => Just(SceneAct::Late),
        6 => (1u16..4000).prop_map(SceneAct::Pass),
        5 => (1u8..36).prop_map(SceneAct::Run),
        1 => (0u8..3).prop_map(SceneAct::Cut),
        1 => Just(SceneAct::Leader),
        1 => (0u8..3).prop_map(SceneAct::ShardLeader),
        2 => (1u8..5).prop_map(SceneAct::LoseOrders),
        2 => (0u8..3).prop_map(SceneAct::HoldOrders),
        3 => Just(SceneAct::Arrive),
        3 => (0u8..3).prop_map(SceneAct::Die),
        3 => (0u8..8, 1u8..10).prop_map(|(j, n)| SceneAct::Scale(j, n)),
        1 => (0u8..8, 0u8..3).prop_map(|(j, n)| SceneAct::Want(j, n)),
        3 => (0u8..3, 1u8..4).prop_map(|(c, n)| SceneAct::Finish(c, n)),
        2 => Just(SceneAct::FailOp),
        1 => (0u8..8, 1u8..7).prop_map(|(j, n)| SceneAct::MaxRunning(j, n)),
        1 => (0u8..8).prop_map(SceneAct::Restart),
        1 => (0u8..3, 0u8..3).prop_map(|(c, w)| SceneAct::DesiredState(c, w)),
        2 => (0u8..10, 1u8..6).prop_map(|(p, n)| SceneAct::Share(p, n)),
    ]
}

/// Scenes with at most so many acts.
pub fn scene(most_acts: usize) -> impl Strategy<Value = PressureScene> {
    (
        prop::collection::vec(drawn_pool(), PATHS.len()),
        prop::collection::vec(2u64..7, 2..=3),
        prop::collection::vec(job_plan(), 3..=6),
        1usize..3,
        1u8..50,
        any::<bool>(),
        prop::collection::vec(act(), 1..most_acts),
    )
        .prop_map(
            |(drawn, cores, jobs, early, before, dies_late, acts)| PressureScene {
                pools: pools(&drawn),
                cores,
                jobs,
                early,
                before,
                dies_late,
                acts,
            },
        )
}

impl PressureScene {
    fn leaves(&self) -> Vec<&str> {
        let is_leaf = |p: &&Pool| !self.pools.iter().any(|q| PoolTree::parent(&q.path) == p.path);
        self.pools
            .iter()
            .filter(is_leaf)
            .map(|p| p.path.as_str())
            .collect()
    }

    fn job(&self, plan: &JobPlan) -> (JobBuilder, String) {
        let leaves = self.leaves();
        let path = leaves[plan.leaf % leaves.len()];
        let mut job = if plan.is_service {
            service(plan.instances)
        } else {
            batch(plan.instances)
        };
        job = job.pool(path).priority(plan.priority);
        if plan.is_firm {
            job = job.not_preemptible();
        }
        if plan.is_gang {
            job = job.gang();
        }
        if plan.is_spread {
            job = job.spread();
        }
        if let Some(most) = plan.max_running {
            job = job.max_running(most);
        }
        if let Some(cluster) = plan.only {
            job = job.only(&[CLUSTERS[cluster % self.cores.len()]]);
        }
        (job, path.to_owned())
    }

    /// Plays all of it, and calls `look` after each act.
    pub fn play(&self, watch: impl FnMut(&Case) + 'static, mut look: impl FnMut(&SceneRun)) -> SceneRun {
        let mut case = Case::new();
        case.put_tree(self.pools.clone());
        for (name, cores) in CLUSTERS.iter().zip(&self.cores) {
            case = case.cluster(name, *cores);
        }
        // Reading each bucket of heads each minute would take most of the time. A new leader reads all of
        // them.
        case.heads_within = Span::minutes(1_000);
        case.rm.config.heads_within = case.heads_within;
        if self.early == 1 {
            // As in a federation with very many jobs: a cycle does a part of what is to be done.
            case.rm.config.admitted_at_once = 1;
            case.rm.config.queues_at_once = 0;
        }
        case.elect();
        for shard in case.shards.values_mut() {
            shard.dies_at_once = !self.dies_late;
        }
        case.watch = Some(Box::new(watch));
        let mut stage = SceneRun {
            case,
            jobs: Vec::new(),
        };
        stage.submit(self, 0, self.early);
        stage.case.run_for(Span::seconds(2));
        stage.submit(self, self.early, self.jobs.len());
        stage.case.run_for(Span::seconds(u64::from(self.before)));
        for act in &self.acts {
            stage.perform(act);
            stage.none_twice();
            look(&stage);
        }
        stage
    }
}

impl SceneRun {
    fn submit(&mut self, scene: &PressureScene, from: usize, to: usize) {
        for (i, plan) in scene.jobs.iter().enumerate().take(to).skip(from) {
            let (job, path) = scene.job(plan);
            let id = self.case.store_job(i as u128 + 1, job);
            self.case.events.push_back(Event::Hint(id));
            self.jobs.push((id, path));
        }
    }

    /// No index of a job is active at two places, or at two generations.
    pub fn none_twice(&self) {
        for (job, _) in &self.jobs {
            let mut seen: BTreeMap<InstanceNumber, String> = BTreeMap::new();
            for (cluster, shard) in &self.case.shards {
                for (n, g) in shard.running(*job) {
                    if let Some(before) = seen.insert(n, format!("{cluster}.{g}")) {
                        panic!(
                            "{job} {} runs at {before} and {cluster}.{g}\n{}",
                            n.0,
                            self.case.trace.join("\n")
                        );
                    }
                }
            }
        }
    }

    /// Every pool and every cluster has enough for everything.
    pub fn make_ample(&mut self) {
        let pools = self.case.tree().pools.into_values();
        let ample = pools.map(|pool| {
            // At least ten times as much as each pool below it.
            let cores = [10_000, 1_000, 100][pool.path.matches('/').count() - 1];
            Pool {
                reservation: shape(cores, cores * 64),
                limit: Resources::MAX,
                ..pool
            }
        });
        let ample: Vec<Pool> = ample.collect();
        self.case.put_tree(ample);
        for shard in self.case.shards.values_mut() {
            shard.cores = 1000;
        }
    }

    /// Faults stop: another leader finds every shard, nothing is late any more, and every cluster takes new
    /// work.
    pub fn calm(&mut self) {
        self.case.lost_orders = 0;
        self.case.arrive();
        for name in CLUSTERS {
            self.desired_state(name, DesiredState::Active);
        }
        for shard in self.case.shards.values_mut() {
            shard.dies_at_once = true;
        }
        self.case.fail_over();
        for i in 0..CLUSTERS.len() {
            self.die(i);
        }
        self.case.settle();
    }

    fn cluster_at(&self, i: usize) -> &'static str {
        CLUSTERS[i % self.case.shards.len()]
    }

    fn die(&mut self, i: usize) {
        let (name, now) = (self.cluster_at(i), self.case.now);
        let reports = self.case.shard(name).die(now);
        self.case.bring(&ClusterId::new(name), reports);
    }

    fn desired_state(&mut self, name: &str, desired_state: DesiredState) {
        let Answer::Clusters(rows) = self.case.store.read(&Query::Clusters) else {
            panic!()
        };
        let Some(row) = rows.into_iter().find(|c| c.name == name) else {
            return;
        };
        let expected = Some(row.version);
        let cluster = Cluster {
            desired_state,
            version: row.version.next(),
            ..row
        };
        self.case.decide(Decision::PutCluster { cluster, expected });
    }

    fn perform(&mut self, act: &SceneAct) {
        let case = &mut self.case;
        match act {
            SceneAct::Deliver(n) => (0..*n).for_each(|_| {
                if let Some(event) = case.events.pop_front() {
                    case.step(event);
                }
            }),
            // A storage operation always gets some answer in the end; a message may get lost.
            SceneAct::Lose => {
                let is_message = |e: &Event| matches!(e, Event::Report(..) | Event::Hint(_));
                let at = case.events.iter().position(is_message);
                at.map(|i| case.events.remove(i));
            }
            SceneAct::Twice => {
                if let Some(event) = case.events.front().cloned() {
                    case.events.push_back(event);
                }
            }
            SceneAct::Late => {
                if let Some(event) = case.events.pop_front() {
                    case.events.push_back(event);
                }
            }
            SceneAct::Pass(ms) => {
                case.now = case.now.plus(Span::millis(u64::from(*ms)));
                case.step(Event::Wake);
                case.keep_restarting();
            }
            SceneAct::Run(seconds) => case.run_for(Span::seconds(u64::from(*seconds))),
            SceneAct::Cut(c) => self.cut(usize::from(*c)),
            SceneAct::Leader => case.fail_over(),
            SceneAct::ShardLeader(c) => {
                self.cut(usize::from(*c));
                let name = self.cluster_at(usize::from(*c));
                self.case.shard(name).fail_over();
            }
            SceneAct::LoseOrders(n) => case.lost_orders += u64::from(*n),
            SceneAct::HoldOrders(c) => {
                case.arrive();
                let name = self.cluster_at(usize::from(*c));
                self.case.held = Some((ClusterId::new(name), Vec::new()));
            }
            SceneAct::Arrive => case.arrive(),
            SceneAct::Die(c) => self.die(usize::from(*c)),
            SceneAct::Scale(j, _)
            | SceneAct::MaxRunning(j, _)
            | SceneAct::Restart(j)
            | SceneAct::Want(j, _) => {
                self.ask(usize::from(*j), act);
            }
            SceneAct::Finish(c, n) => {
                let (name, now) = (self.cluster_at(usize::from(*c)), self.case.now);
                let reports = self
                    .case
                    .shard(name)
                    .finish(u64::from(*n), RunState::Succeeded, now);
                self.case.bring(&ClusterId::new(name), reports);
            }
            SceneAct::FailOp => {
                let at = case.events.iter().position(|e| matches!(e, Event::Storage(..)));
                if let Some(Event::Storage(id, _)) = at.and_then(|i| case.events.remove(i)) {
                    // It was done, and the caller does not learn it.
                    let failed = OpFailure::unknown("no answer");
                    case.events
                        .push_back(Event::Storage(id, OpResult::Failed(failed)));
                }
            }
            SceneAct::DesiredState(c, desired_state) => {
                let desired_state = [
                    DesiredState::Active,
                    DesiredState::Cordoned,
                    DesiredState::Draining,
                ][usize::from(*desired_state)];
                self.desired_state(self.cluster_at(usize::from(*c)), desired_state);
            }
            SceneAct::Share(p, share) => {
                let paths: Vec<String> = case.tree().pools.into_keys().collect();
                let path = &paths[usize::from(*p) % paths.len()];
                case.change_pool(path, |pool| pool.share = shape(1, 64).times(u64::from(*share)));
            }
        }
    }

    fn cut(&mut self, i: usize) {
        let cluster = ClusterId::new(self.cluster_at(i));
        if let Some(link) = self.case.links.remove(&cluster) {
            self.case.events.push_back(Event::ShardClosed { link });
        }
    }

    /// A user changes a job, if it is still there.
    fn ask(&mut self, i: usize, act: &SceneAct) {
        let case = &mut self.case;
        let (job, _) = self.jobs[i % self.jobs.len()];
        let Some(head) = case.head(job) else { return };
        if case.state(job).is_some_and(|state| state.is_ended()) {
            return;
        }
        match act {
            // Deleted is final: the gateway takes no request after it.
            _ if head.goal.desired == Desired::Deleted => {}
            // Neither is asked for of a gang.
            SceneAct::Scale(_, n) => case.respec_silently(job, |s| {
                if s.gang.is_none() {
                    s.groups[0].instances = u32::from(*n);
                }
            }),
            SceneAct::MaxRunning(_, n) => case.respec_silently(job, |s| {
                s.groups[0].max_running = Some(u32::from(*n)).filter(|_| s.gang.is_none());
            }),
            SceneAct::Restart(_) => {
                case.change_head(job, |h| h.goal.restarts += 1);
                case.events.push_back(Event::Hint(job));
            }
            SceneAct::Want(_, n) => {
                let desired = [Desired::Running, Desired::Stopped, Desired::Deleted][usize::from(*n)];
                case.change_head(job, |h| h.goal.desired = desired);
                case.events.push_back(Event::Hint(job));
            }
            _ => {}
        }
    }
}

/// As many cases as the nightly run asks for, but at most 10,000; else so many.
pub fn cases(in_ci: u32) -> ProptestConfig {
    /// What proptest runs where nothing asks for more.
    const USUAL: u32 = 256;
    let usual = ProptestConfig::default();
    let cases = if usual.cases == USUAL {
        in_ci
    } else {
        usual.cases.min(10_000)
    };
    ProptestConfig { cases, ..usual }
}
