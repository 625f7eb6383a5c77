//! The test language: declare pools, clusters and jobs, let things happen, say what is expected. After every step the checker
//! runs, and the shards' own numbers are held against pool limits.

use crate::checks::check::check;
use crate::config::Config;
use crate::division::DivisionReport;
use crate::effect::Effect;
use crate::event::{Event, LinkId};
use crate::lifecycle::head_changes::AT_ONCE;
use crate::manager::ResourceManager;
use crate::picture::Picture;
use crate::queries::figures::figures;
use crate::queries::plan::plan;
use crate::queries::snapshot::PictureSnapshot;
use crate::storage::flows::FlowKind;
use crate::tests::shard::ModelShard;
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::claim::Victim;
use echelon_core_model::cluster::{Cluster, DesiredState, Heartbeat};
use echelon_core_model::directive::{Directive, Order, Report};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::job::{Desired, Head, JobState};
use echelon_core_model::pool::{Pool, PoolPaths, PoolTree};
use echelon_core_model::rollout::RolloutState;
use echelon_core_model::schedule::ScheduleState;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::store::{
    Answer, Batch, Decision, Op, OpFailure, OpId, OpResult, Query, Refusal, RefusedRow, RefusedWhy, Role,
    Stamp, TroubleKind, Write,
};
use echelon_core_model::{ClusterId, Epoch, JobId, PoolId, Resources, Span, Timestamp, Version, job};
use echelon_core_pools::Held;
use echelon_core_testkit::build::{JobBuilder, shape};
use echelon_core_testkit::store::ModelStore;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The places of an operation's rows that are refused.
pub type Refuses = Box<dyn Fn(&Op) -> Vec<usize>>;
/// Looks at a case after each of its steps.
pub type Watch = Box<dyn FnMut(&Case)>;

/// In so many steps a snapshot is compared with the picture once.
const COMPARED: u64 = 8;

pub struct Case {
    pub rm: ResourceManager,
    pub store: ModelStore,
    pub shards: BTreeMap<ClusterId, ModelShard>,
    pub links: BTreeMap<ClusterId, LinkId>,
    pub now: Timestamp,
    /// When the next jobs were made, by their ids.
    pub born: Timestamp,
    pub published: Stamp,
    /// What is on its way to the resource manager.
    pub events: VecDeque<Event>,
    /// Operations and directives seen since the last look, in order.
    pub trace: Vec<String>,
    /// Of which jobs specs were read, in order.
    pub specs_read: Vec<JobId>,
    pub stepped_down: Option<String>,
    pub alarms: Vec<String>,
    /// Operations on storage that are kept instead of performed.
    pub stalled: Option<Vec<(OpId, Op)>>,
    /// Directives to this cluster are kept on their way.
    pub held: Option<(ClusterId, Vec<(LinkId, Directive)>)>,
    /// So many of the next directives are lost.
    pub lost_orders: u64,
    /// Judges each step, beside the checker.
    pub watch: Option<Watch>,
    pub limits: BTreeMap<String, u64>,
    /// It takes what has changed every few steps.
    snapshot: PictureSnapshot,
    steps: u64,
    /// What the last cycle divided.
    pub divided: Option<DivisionReport>,
    /// Limits of `max_unavailable` that are not 1.
    pub most_unavailable: BTreeMap<JobId, u32>,
    /// Which rows of an operation storage refuses for good, by place.
    pub refuses: Option<Refuses>,
    /// Nothing is done on storage, for this reason.
    pub troubled: Option<TroubleKind>,
    /// Every range that was ever stored.
    stored: Vec<(JobId, AssignedRange)>,
    /// Ways of jobs and rollouts from one state to another, as they were stored.
    pub job_ways: BTreeSet<(JobState, JobState)>,
    pub rollout_ways: BTreeSet<(RolloutState, RolloutState)>,
    /// How often it was woken.
    pub wakes: u64,
    /// All buckets of heads are read again within this.
    pub heads_within: Span,
    /// The revision that the checker looked at last.
    checked: Option<u64>,
    next_link: u64,
    beats: u64,
    /// Clusters to whose living shards no stream can be opened.
    pub without_stream: BTreeSet<ClusterId>,
}

impl Case {
    pub fn new() -> Self {
        Self {
            rm: ResourceManager::new(Config::new("one", 7)),
            store: ModelStore::new(),
            shards: BTreeMap::new(),
            links: BTreeMap::new(),
            // Late enough that jobs which are not `born` later are older than any tombstone.
            now: Timestamp(100_000_000),
            born: Timestamp(0),
            published: Stamp::default(),
            events: VecDeque::new(),
            trace: Vec::new(),
            specs_read: Vec::new(),
            stepped_down: None,
            alarms: Vec::new(),
            stalled: None,
            held: None,
            lost_orders: 0,
            watch: None,
            limits: BTreeMap::new(),
            snapshot: PictureSnapshot::default(),
            steps: 0,
            divided: None,
            most_unavailable: BTreeMap::new(),
            refuses: None,
            troubled: None,
            stored: Vec::new(),
            job_ways: BTreeSet::new(),
            rollout_ways: BTreeSet::new(),
            wakes: 0,
            heads_within: Config::new("one", 7).heads_within,
            checked: None,
            next_link: 1,
            beats: 0,
            without_stream: BTreeSet::new(),
        }
    }

    /// One leader, `/default` without a limit, and these clusters with their cores.
    pub fn with(clusters: &[(&str, u64)]) -> Self {
        let mut case = Self::new().pool("/default", 1_000_000);
        for (name, cores) in clusters {
            case = case.cluster(name, *cores);
        }
        case.elect();
        case
    }

    pub fn pool(mut self, path: &str, cores: u64) -> Self {
        self.set_pool(path, cores);
        self
    }

    /// The tree as it is stored.
    pub fn tree(&self) -> PoolTree {
        match self.store.read(&Query::Pools) {
            Answer::Pools(tree) => tree,
            other => panic!("{other:?}"),
        }
    }

    pub fn set_pool(&mut self, path: &str, cores: u64) {
        let mut tree = self.tree();
        let expected = tree.version;
        let pool = Pool {
            limit: Resources {
                cpus: cores * 1000,
                ..Resources::MAX
            },
            ..Pool::new(PoolId::new(path), path)
        };
        self.limits.insert(path.to_owned(), cores);
        tree.pools.insert(path.to_owned(), pool);
        tree.version = expected.next();
        self.decide(Decision::PutPools { tree, expected });
    }

    /// Takes a pool out of the tree, whatever jobs it has.
    pub fn remove_pool(&mut self, path: &str) {
        let mut tree = self.tree();
        let expected = tree.version;
        tree.pools.remove(path);
        tree.version = expected.next();
        self.decide(Decision::PutPools { tree, expected });
    }

    /// Stores these pools, and no others.
    pub fn put_tree(&mut self, pools: impl IntoIterator<Item = Pool>) {
        let expected = self.tree().version;
        let tree = PoolTree {
            version: expected.next(),
            pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
        };
        self.decide(Decision::PutPools { tree, expected });
    }

    /// What jobs have of the pool at a path.
    pub fn held(&self, path: &str) -> Held {
        let picture = self.rm.picture();
        let all = picture.demand.ledger.held_by_path(&picture.facts);
        all.get(path).copied().unwrap_or_default()
    }

    /// Changes a pool's row.
    pub fn change_pool(&mut self, path: &str, change: impl FnOnce(&mut Pool)) {
        let mut tree = self.tree();
        let expected = tree.version;
        change(tree.pools.get_mut(path).unwrap());
        tree.version = expected.next();
        self.decide(Decision::PutPools { tree, expected });
    }

    pub fn cluster(mut self, name: &str, cores: u64) -> Self {
        let id = ClusterId::new(name);
        self.shards.insert(id.clone(), ModelShard::new(id.clone(), cores));
        let cluster = Cluster::new(id, name);
        self.decide(Decision::PutCluster {
            cluster,
            expected: None,
        });
        self
    }

    pub fn desire(&mut self, name: &str, desired_state: DesiredState) {
        self.change_cluster(name, |c| c.desired_state = desired_state);
    }

    /// A command changes a cluster's row.
    pub fn change_cluster(&mut self, name: &str, change: impl FnOnce(&mut Cluster)) {
        let Answer::Clusters(rows) = self.store.read(&Query::Clusters) else {
            panic!()
        };
        let mut cluster = rows.into_iter().find(|c| c.name == name).unwrap();
        let expected = Some(cluster.version);
        cluster.version = cluster.version.next();
        change(&mut cluster);
        self.decide(Decision::PutCluster { cluster, expected });
        self.events.push_back(Event::PoolsHint);
        self.settle();
    }

    pub fn decide(&mut self, decision: Decision) {
        let result = self.store.perform(Op::Decide(decision));
        assert!(
            matches!(
                result,
                OpResult::Decided(echelon_core_model::store::Decided::Applied)
            ),
            "{result:?}"
        );
    }

    pub fn elect(&mut self) {
        self.links.clear();
        self.events.clear();
        self.events.push_back(Event::Elected {
            published: self.published,
        });
        self.settle();
        self.run_for(Span::seconds(2));
    }

    /// Another process leads; the old one is gone.
    pub fn fail_over(&mut self) {
        let holder = format!("{}+", self.rm.config.holder);
        self.rm = ResourceManager::new(Config {
            heads_within: self.heads_within,
            ..Config::new(holder, 8)
        });
        (self.stalled, self.checked) = (None, None);
        self.elect();
    }

    /// Stores a job without telling anybody.
    pub fn store_job(&mut self, n: u128, spec: JobBuilder) -> JobId {
        self.store_spec(n, spec.build())
    }

    /// A job whose instances take the cores of their shape at the shards, too.
    pub fn sized(&mut self, n: u128, spec: JobBuilder) -> JobId {
        let spec = spec.build();
        let job = JobId::new(self.born, n << 64);
        let cores = spec.groups[0].resources.cpus / 1000;
        for shard in self.shards.values_mut() {
            shard.sizes.insert(job, cores);
        }
        self.job_of(n, spec)
    }

    pub fn job_of(&mut self, n: u128, spec: JobSpec) -> JobId {
        let job = self.store_spec(n, spec);
        self.hint(job);
        job
    }

    fn store_spec(&mut self, n: u128, mut spec: JobSpec) -> JobId {
        spec.settle_revisions(None, 1);
        let job = JobId::new(self.born, n << 64);
        for shard in self.shards.values_mut().filter(|_| spec.revocable) {
            shard.revocable.insert(job);
        }
        for shard in self.shards.values_mut().filter(|_| spec.gang.is_some()) {
            shard.gangs.insert(job);
        }
        let is_constrained = spec.groups.iter().any(|g| !g.constraints.is_empty());
        for shard in self.shards.values_mut().filter(|_| is_constrained) {
            shard.constrained.insert(job);
        }
        self.decide(Decision::PutSpec {
            job,
            version: 1,
            spec: spec.clone(),
        });
        let pool_id = self.tree().pools.get(&spec.pool).map(|p| p.id.clone());
        let head = Head {
            job,
            version: Version(1),
            void: false,
            goal: Default::default(),
            spec_version: 1,
            name: spec.name.clone(),
            pool: spec.pool.clone(),
            pool_id,
            kind: spec.kind,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: spec.instances(),
            updated_at: self.now,
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: spec
                .is_template()
                .then(|| Box::new(ScheduleState::from(self.now))),
            origin: None,
            restarts: None,
            spec_digest: Some(SpecDigest::of(1, &spec)),
        };
        self.decide(Decision::PutHead { head, expected: None });
        job
    }

    pub fn job(&mut self, n: u128, spec: JobBuilder) -> JobId {
        let job = self.store_job(n, spec);
        self.hint(job);
        job
    }

    /// Of each open preemption request, how many instances may be taken, and how many its victims name.
    pub fn requested(&self) -> Vec<(u64, u64)> {
        let requests = self.rm.picture().preemption.all.values();
        let of = |victims: &[Victim]| victims.iter().map(|v| v.most).sum();
        requests.map(|r| (r.claim.most, of(&r.claim.victims))).collect()
    }

    pub fn hint(&mut self, job: JobId) {
        self.events.push_back(Event::Hint(job));
        self.settle();
        self.run_for(Span::millis(400));
    }

    pub fn head(&self, job: JobId) -> Option<Head> {
        let Answer::Head(head) = self.store.read(&Query::Head(job)) else {
            panic!()
        };
        head
    }

    pub fn change_head(&mut self, job: JobId, change: impl FnOnce(&mut Head)) {
        let mut head = self.head(job).unwrap();
        let expected = Some(head.version);
        head.version = head.version.next();
        head.updated_at = self.now;
        change(&mut head);
        self.decide(Decision::PutHead { head, expected });
    }

    pub fn want(&mut self, job: JobId, desired: Desired) {
        self.change_head(job, |h| h.goal.desired = desired);
        self.hint(job);
    }

    pub fn respec(&mut self, job: JobId, change: impl FnOnce(&mut JobSpec)) {
        self.respec_silently(job, change);
        self.hint(job);
    }

    /// Without a hint that arrives at once.
    pub fn respec_silently(&mut self, job: JobId, change: impl FnOnce(&mut JobSpec)) {
        let version = self.head(job).unwrap().spec_version;
        let Answer::Spec(Some(mut spec)) = self.store.read(&Query::Spec(job, version)) else {
            panic!()
        };
        change(&mut spec);
        let instances = spec.instances();
        self.decide(Decision::PutSpec {
            job,
            version: version + 1,
            spec,
        });
        self.change_head(job, |h| {
            h.spec_version = version + 1;
            h.instances = instances;
        });
        self.events.push_back(Event::Hint(job));
    }

    pub fn scale(&mut self, job: JobId, instances: u32) {
        self.respec(job, |s| s.groups[0].instances = instances);
    }

    pub fn shard(&mut self, name: &str) -> &mut ModelShard {
        self.shards.get_mut(&ClusterId::new(name)).unwrap()
    }

    /// Lets a shard do something, and brings what it tells.
    pub fn at(&mut self, name: &str, act: impl FnOnce(&mut ModelShard, Timestamp) -> Vec<Report>) {
        let now = self.now;
        let reports = act(self.shard(name), now);
        self.bring(&ClusterId::new(name), reports);
        self.settle();
        self.run_for(Span::millis(400));
    }

    pub fn bring(&mut self, cluster: &ClusterId, reports: Vec<Report>) {
        if let Some(link) = self.links.get(cluster) {
            self.events
                .extend(reports.into_iter().map(|r| Event::Report(*link, r)));
        }
    }

    pub fn cut(&mut self, name: &str) {
        if let Some(link) = self.links.remove(&ClusterId::new(name)) {
            self.events.push_back(Event::ShardClosed { link });
        }
        self.settle();
    }

    /// Everything that is on its way arrives.
    pub fn settle(&mut self) {
        for _ in 0..200_000 {
            let Some(event) = self.events.pop_front() else {
                return;
            };
            self.step(event);
        }
        panic!(
            "it never comes to rest: {:?}",
            self.trace.iter().rev().take(20).collect::<Vec<_>>()
        );
    }

    pub fn step(&mut self, event: Event) {
        let mut out = Vec::new();
        self.rm.step(event, self.now, &mut out);
        let revision = self.rm.picture().revision;
        if self.rm.leading().is_some() && self.checked.replace(revision) != Some(revision) {
            let broken = check(self.rm.picture(), self.rm.last_cycle());
            assert!(broken.is_empty(), "{broken:#?}\n{}", self.trace.join("\n"));
        }
        if let Some(cycle) = self.rm.last_cycle() {
            self.divided = Some(cycle.division.clone());
        }
        for effect in out {
            self.perform(effect);
        }
        assert!(self.rm.flows.of_kind(FlowKind::HeadChange) <= AT_ONCE);
        self.hold_snapshot();
        self.hold_limits();
        self.hold_max_unavailable();
        if let Some(mut watch) = self.watch.take() {
            watch(self);
            self.watch = Some(watch);
        }
    }

    /// What queries look at: the snapshot, brought up to date.
    pub fn snapshot(&mut self) -> &Picture {
        loop {
            let part = self.rm.snapshot_part();
            let is_last = part.is_last();
            self.snapshot.take(part);
            if is_last {
                return self.snapshot.picture();
            }
        }
    }

    /// A snapshot that takes all parts is the picture, and answers as the picture does.
    fn hold_snapshot(&mut self) {
        self.steps += 1;
        if self.rm.leading().is_none() || !self.steps.is_multiple_of(COMPARED) {
            return;
        }
        self.snapshot();
        let (picture, copy) = (self.rm.picture(), self.snapshot.picture());
        assert!(self.snapshot.shares(picture), "a change was not noted");
        assert_eq!(figures(copy, None), figures(picture, None));
        let spec = JobBuilder::batch("planned", 3).build();
        assert_eq!(plan(copy, &spec), plan(picture, &spec));
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Storage(id, op) => {
                self.note_op(&op);
                match &mut self.stalled {
                    Some(kept) => kept.push((id, op)),
                    None if self.troubled.is_some() => {
                        let failed = self.troubled.map(|kind| OpFailure::not_done(kind, "test"));
                        let failed = failed.map(|failed| Event::Storage(id, OpResult::Failed(failed)));
                        self.events.extend(failed);
                    }
                    None => {
                        self.remember(&op);
                        let refused = self.refuses.as_ref().map(|r| r(&op)).unwrap_or_default();
                        let result = if refused.is_empty() {
                            self.store.perform(op)
                        } else {
                            refusal(refused)
                        };
                        self.events.push_back(Event::Storage(id, result));
                    }
                }
            }
            Effect::Send(link, directive) => self.deliver(link, directive),
            Effect::Watch(cluster) => self.open(&cluster),
            Effect::Publish(epoch) => self.published = self.published.max(Stamp { epoch, sequence: 0 }),
            Effect::Mark(stamp) => self.published = self.published.max(stamp),
            Effect::Changed(_) => {}
            Effect::StepDown { why } => self.stepped_down = Some(why),
            Effect::Alarm(alarm) => self.alarms.push(alarm.to_string()),
            Effect::Unwatch(cluster) => {
                let link = self.links.remove(&cluster);
                self.events.extend(link.map(|link| Event::ShardClosed { link }));
            }
        }
    }

    pub fn remember(&mut self, op: &Op) {
        match op {
            Op::Decide(Decision::PutAssignments { put, .. }) => {
                for a in put {
                    let all = a.groups.values().flatten();
                    self.stored.extend(all.map(|r| (a.job, r.clone())));
                }
            }
            Op::Commit(batch) => batch.writes.iter().for_each(|w| self.remember_ways(w)),
            _ => {}
        }
    }

    /// Whatever a test is about, jobs and rollouts go by their tables.
    fn remember_ways(&mut self, write: &Write) {
        let Write::Progress(row) = write else { return };
        let Answer::Progress(known) = self.store.read(&Query::Progress(row.job)) else {
            return;
        };
        let Some(before) = known.first() else { return };
        if before.state != row.state {
            let way = (before.state, row.state);
            assert!(
                job::TRANSITIONS.iter().any(|(a, b, _)| (*a, *b) == way),
                "{way:?}"
            );
            self.job_ways.insert(way);
        }
        let rollouts = before.rollout.as_ref().zip(row.rollout.as_ref());
        if let Some((was, is)) = rollouts.filter(|(a, b)| a.number == b.number && a.state != b.state) {
            assert!(was.state.may_become(is.state), "{was:?} became {is:?}");
            self.rollout_ways.insert((was.state, is.state));
        }
    }

    /// Directives that were kept on their way arrive.
    pub fn arrive(&mut self) {
        for (link, directive) in self.held.take().map(|(_, kept)| kept).unwrap_or_default() {
            self.deliver(link, directive);
        }
        self.settle();
    }

    /// A shard can be reached again.
    pub fn reopen(&mut self, name: &str) {
        self.open(&ClusterId::new(name));
        self.settle();
    }

    /// A shard whose cores are 0 has no leader: nobody answers.
    fn open(&mut self, cluster: &ClusterId) {
        let Some(shard) = self.shards.get_mut(cluster).filter(|s| s.cores > 0) else {
            return;
        };
        if self.links.contains_key(cluster) || self.without_stream.contains(cluster) {
            return;
        }
        let link = LinkId(self.next_link);
        self.next_link += 1;
        self.links.insert(cluster.clone(), link);
        self.events.push_back(Event::ShardOpened {
            cluster: cluster.clone(),
            link,
        });
        let full = shard.full(self.now);
        self.events
            .extend(full.into_iter().map(|r| Event::Report(link, r)));
    }

    fn deliver(&mut self, link: LinkId, directive: Directive) {
        self.note_order(link, &directive);
        let Some((cluster, _)) = self.links.iter().find(|(_, l)| **l == link) else {
            return;
        };
        let cluster = cluster.clone();
        self.stored_before_ordered(&directive);
        if self.lost_orders > 0 {
            self.lost_orders -= 1;
            return;
        }
        if let Some((_, kept)) = self.held.as_mut().filter(|(c, _)| *c == cluster) {
            kept.push((link, directive));
            return;
        }
        let reports = self
            .shards
            .get_mut(&cluster)
            .unwrap()
            .on_directive(directive, self.now);
        self.bring(&cluster, reports);
    }

    /// Nothing is ordered that is not stored.
    fn stored_before_ordered(&self, directive: &Directive) {
        let Order::Slices(orders) = &directive.order else {
            return;
        };
        for o in orders {
            for r in &o.ranges {
                let known = self.stored.contains(&(o.job, r.clone()));
                assert!(
                    known,
                    "{r:?} was ordered before it was stored\n{}",
                    self.trace.join("\n")
                );
            }
        }
    }

    /// What really runs is within every pool's limit (jobs of one core).
    fn hold_limits(&self) {
        let paths = PoolPaths::of(&self.tree());
        let mut active: BTreeMap<String, u64> = BTreeMap::new();
        for shard in self.shards.values() {
            let ordinary = shard
                .slices
                .iter()
                .filter(|((job, ..), _)| !shard.revocable.contains(job));
            for ((job, _, _), slice) in ordinary {
                if let Some(head) = self.head(*job) {
                    *active.entry(paths.of_job(&head).to_owned()).or_default() += slice.active.count();
                }
            }
        }
        for (pool, n) in active {
            let limit = self.limits.get(&pool).copied().unwrap_or(u64::MAX);
            assert!(
                n <= limit,
                "{n} active in {pool}, above {limit}\n{}",
                self.trace.join("\n")
            );
        }
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now.plus(span);
        for _ in 0..200_000 {
            self.settle();
            let Some(wake) = self.rm.next_wake().filter(|at| *at <= end) else {
                break;
            };
            assert!(wake >= self.now || wake <= self.now);
            self.now = self.now.max(wake);
            self.wakes += 1;
            self.beat();
            self.step(Event::Wake);
            self.keep_restarting();
        }
        self.settle();
        self.now = end;
    }

    /// Shards that have a leader write their sign of life.
    fn beat(&mut self) {
        if self.now.0 / 3000 == self.beats {
            return;
        }
        self.beats = self.now.0 / 3000;
        // A shard that hears nothing reports all the same.
        if let Some(cluster) = self.held.as_ref().map(|(cluster, _)| cluster.clone())
            && let Some(shard) = self.shards.get_mut(&cluster)
        {
            let report = shard.observed();
            self.bring(&cluster, vec![report]);
        }
        let alive: Vec<ClusterId> = self
            .shards
            .values()
            .filter(|s| s.cores > 0)
            .map(|s| s.id.clone())
            .collect();
        for cluster in alive {
            let is_heard = self.links.contains_key(&cluster);
            let heartbeat = Heartbeat {
                no_manager_since: (!is_heard).then_some(self.now),
                cluster: cluster.clone(),
                epoch: Epoch(1),
                at: self.now,
                signs: ShardSigns {
                    subscribed: true,
                    ..ShardSigns::default()
                },
                address: String::new(),
                trouble: None,
                loss: None,
            };
            self.store.perform(Op::Commit(Batch {
                owner: Role::Shard(cluster),
                stamp: Stamp {
                    epoch: Epoch(1),
                    sequence: self.beats,
                },
                writes: vec![Write::Heartbeat(heartbeat)],
            }));
        }
    }
}

/// What storage says of the rows that it refuses.
fn refusal(places: Vec<usize>) -> OpResult {
    let rows = places.into_iter().map(|place| RefusedRow {
        row: format!("row {place}"),
        place: Some(place),
        why: RefusedWhy::TooLarge {
            bytes: 70_000,
            limit: 65_536,
        },
    });
    OpResult::Failed(OpFailure::Refused(Refusal { rows: rows.collect() }))
}

/// A batch job of one-core instances. Of clusters `a`, `b`, `c` and `d` its name prefers the first.
pub fn batch(instances: u32) -> JobBuilder {
    JobBuilder::batch("bot", instances).shape(shape(1, 64))
}

/// A service of one-core instances.
pub fn service(instances: u32) -> JobBuilder {
    JobBuilder::service("bot", instances).shape(shape(1, 64))
}
