//! A resource manager with a storage that it has to wait for, and shards that answer at once. Time is the federation's own: it goes on
//! by 50 ms with each cycle, and does not while storage works.

use super::shard::Shard;
use super::stored::{self, FederationSize};
use anyhow::{Result, bail};
use echelon_core_model::directive::{Directive, Order, Report};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::store::{Consistency, Op, OpId, Query, Stamp};
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use echelon_core_resource_manager::{
    Config, Effect, Event, LinkId, PictureSnapshot, ResourceManager, figures, plan,
};
use echelon_io_storage::Store;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cycles after which nothing more is expected to change.
const PATIENCE: u32 = 5_000;

/// Cycles in a row in which nothing more begins, after which nothing more will.
const SETTLED: u32 = 5;

/// Cycles after which it is asked again whether all jobs were looked at.
const LOOKED_AFTER: u32 = 20;

/// Hints that come one right after the other.
const HINTS: usize = 1_000;

/// Federation time from one cycle to the next.
const PERIOD: Span = Span::millis(50);

pub(super) struct Federation {
    manager: ResourceManager,
    size: FederationSize,
    now: Timestamp,
    todo: VecDeque<Event>,
    out: Vec<Effect>,
    ops: Vec<(OpId, Op)>,
    store: Arc<dyn Store>,
    shards: BTreeMap<LinkId, Shard>,
    last_link: u64,
    /// Time spent in deciding.
    pub(super) spent: Duration,
    /// The longest step since this was last taken.
    longest: Duration,
    /// When a grant was first sent.
    first_grant: Option<Instant>,
}

/// What the longest of a number of steps took, and all of them together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Took {
    pub(super) longest: Duration,
    pub(super) total: Duration,
}

impl Federation {
    /// Clusters with capacity for so many instances.
    pub(super) fn new(store: Arc<dyn Store>, size: FederationSize, instances: u32) -> Self {
        let each = u64::from(instances.div_ceil(size.clusters.max(1)));
        let shards = stored::clusters(size).map(|cluster| Shard::new(cluster, each));
        let shards: BTreeMap<LinkId, Shard> = (1..).map(LinkId).zip(shards).collect();
        Self {
            manager: ResourceManager::new(Config::new("bench", 1)),
            size,
            now: Timestamp(1_000_000),
            todo: VecDeque::new(),
            out: Vec::new(),
            ops: Vec::new(),
            store,
            last_link: shards.keys().next_back().map_or(0, |link| link.0),
            shards,
            spent: Duration::ZERO,
            longest: Duration::ZERO,
            first_grant: None,
        }
    }

    /// Reads what is stored of jobs, so that the pages that storage keeps are in memory before anything is measured.
    pub(super) async fn warm_up(&self) -> Result<()> {
        for n in self.size.specs() {
            let query = Query::Spec(stored::job_id(n), 1);
            self.store.read(query, Consistency::Quorum).await?;
        }
        Ok(())
    }

    /// Until it leads and knows every shard. Returns the time until it sent a grant.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.settle(Event::Elected {
            published: Stamp::default(),
        })
        .await;
        for _ in 0..PATIENCE {
            let known = self.manager.picture().facts.clusters.values();
            if self.manager.leading().is_some()
                && known.filter(|c| c.takes_grants()).count() == self.shards.len()
            {
                return Ok(());
            }
            self.cycle().await;
        }
        bail!("the resource manager does not lead")
    }

    /// Another resource manager takes over the same storage and shards. Returns the time until it sends the first grant: of the clock,
    /// and of the federation beside it.
    pub(super) async fn fail_over(&mut self) -> Result<Duration> {
        self.manager = ResourceManager::new(Config::new("standby", 2));
        self.todo.clear();
        self.first_grant = None;
        let (began, from) = (Instant::now(), self.now);
        self.settle(Event::Elected {
            published: Stamp::default(),
        })
        .await;
        for _ in 0..PATIENCE {
            if let Some(at) = self.first_grant {
                return Ok(at.duration_since(began) + Duration::from_millis(self.now.since(from).0));
            }
            self.cycle().await;
        }
        bail!("the new resource manager has granted nothing")
    }

    /// Submits jobs all at once and waits until each is read, and all are granted that can be. Their progress is stored later,
    /// some hundred with each cycle.
    pub(super) async fn submit(&mut self, jobs: Range<u32>) -> Result<()> {
        stored::submit(self.store.as_ref(), self.size, jobs.clone()).await?;
        let expected = self.live().saturating_add(jobs.len());
        let jobs: Vec<u32> = jobs.collect();
        for some in jobs.chunks(HINTS) {
            self.todo
                .extend(some.iter().map(|n| Event::Hint(stored::job_id(*n))));
            self.settle_all().await;
        }
        let (mut before, mut unchanged) = (None, 0);
        for _ in 0..PATIENCE {
            let jobs = self.manager.picture().facts.jobs.values();
            let read = jobs.filter(|j| j.is_live() && j.spec.is_some()).count();
            let now = Some((read, self.active()));
            unchanged = if before == now { unchanged + 1 } else { 0 };
            if read == expected && unchanged >= SETTLED {
                return Ok(());
            }
            before = now;
            self.cycle().await;
        }
        bail!("not all jobs were taken in")
    }

    /// Cycles until it has looked at all jobs.
    /// What became of each is known then, and those that have ended have left memory.
    pub(super) async fn look_at_all(&mut self) -> Result<()> {
        for _ in 0..PATIENCE {
            let is_known = {
                let mut jobs = self.manager.picture().facts.jobs.values();
                jobs.all(|job| job.is_live() && job.progress.is_some())
            };
            if is_known {
                self.rest(SETTLED).await;
                return Ok(());
            }
            // To look at 1,000,000 jobs takes as long as a cycle.
            self.rest(LOOKED_AFTER).await;
        }
        bail!("not all jobs were looked at")
    }

    /// Cycles until the progress of all jobs is stored.
    pub(super) async fn rest(&mut self, cycles: u32) {
        for _ in 0..cycles {
            self.cycle().await;
        }
    }

    /// Microseconds that each of so many cycles takes, sorted. Between two of them something ends in every cluster.
    pub(super) async fn cycles(&mut self, n: u32) -> Result<Vec<u64>> {
        let mut out = Vec::new();
        for _ in 0..n {
            self.report(|shard| shard.end_half());
            self.settle_all().await;
            out.push(u64::try_from(self.cycle().await.as_micros())?);
        }
        out.sort_unstable();
        Ok(out)
    }

    /// A period in which so many instances end, each of another job, in all clusters.
    pub(super) async fn end_instances(&mut self, n: u32) -> Took {
        let each = n.div_ceil(self.size.clusters.max(1));
        self.report(|shard| shard.end_one_each(each));
        let from = self.mark();
        self.settle_all().await;
        self.cycle().await;
        self.since(from)
    }

    /// Every shard reports something next.
    fn report(&mut self, each: impl Fn(&mut Shard) -> Vec<Report>) {
        for (link, shard) in &mut self.shards {
            let reports = each(shard).into_iter();
            self.todo
                .extend(reports.map(|report| Event::Report(*link, report)));
        }
    }

    /// The share of one pool changes, and the cycles after it.
    pub(super) async fn change_pool(&mut self, tree: &mut PoolTree, nth: u32) -> Result<Took> {
        tree.version.0 += 1;
        let path = super::entitled::leaf(nth, self.size.pools);
        if let Some(pool) = tree.pools.get_mut(&path) {
            pool.share = pool.share.times(2);
        }
        stored::put_pools(self.store.as_ref(), tree.clone()).await?;
        let from = self.mark();
        self.settle(Event::PoolsHint).await;
        self.rest(4).await;
        Ok(self.since(from))
    }

    /// The stream of one shard closes and opens again, and the cycles after it until all is said again.
    pub(super) async fn reopen(&mut self, nth: u32) -> Result<Took> {
        let cluster = ClusterId::new(stored::cluster_name(nth));
        let link = self
            .shards
            .iter()
            .find(|(_, s)| s.cluster == cluster)
            .map(|(link, _)| *link);
        let Some((link, shard)) = link.and_then(|link| Some((link, self.shards.remove(&link)?))) else {
            bail!("there is no shard of cluster {cluster}");
        };
        let from = self.mark();
        self.settle(Event::ShardClosed { link }).await;
        self.rest(1).await;
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.shards.insert(link, shard);
        self.settle(Event::ShardOpened { cluster, link }).await;
        self.rest(40).await;
        Ok(self.since(from))
    }

    /// Brings a snapshot up to date. Returns what that takes of the thread that decides, part by part.
    pub(super) fn update(&mut self, snapshot: &mut PictureSnapshot) -> Took {
        let mut took = Took::default();
        loop {
            let began = Instant::now();
            let part = self.manager.snapshot_part();
            let spent = began.elapsed();
            took.longest = took.longest.max(spent);
            took.total += spent;
            let is_last = part.is_last();
            snapshot.take(part);
            if is_last {
                return took;
            }
        }
    }

    /// A plan and the figures of all pools by a snapshot: what each takes of its thread.
    pub(super) fn query(&self, snapshot: &PictureSnapshot, nth: u32) -> (Duration, Duration) {
        let spec = self.size.spec(nth);
        let began = Instant::now();
        black_box(plan(snapshot.picture(), &spec));
        let planned = began.elapsed();
        black_box(figures(snapshot.picture(), None));
        (planned, began.elapsed().saturating_sub(planned))
    }

    /// From submit of the large job, after a rest, to the first grant: time spent in deciding, and between cycles.
    pub(super) async fn first_grant(&mut self) -> Result<Duration> {
        let job = self.size.large_job();
        stored::submit(self.store.as_ref(), self.size, job..job.saturating_add(1)).await?;
        self.now = self.now.plus(Span::millis(500));
        let (spent, began) = (self.spent, self.now);
        self.settle(Event::Hint(stored::job_id(job))).await;
        for _ in 0..PATIENCE {
            if self.shards.values().any(|s| s.granted > 0) {
                let waited = Duration::from_millis(self.now.since(began).0);
                return Ok(self.spent.saturating_sub(spent) + waited);
            }
            self.cycle().await;
        }
        bail!("nothing was granted")
    }

    /// Jobs in memory that have not ended. A new leader takes those that have out of memory in pieces.
    pub(super) fn live(&self) -> usize {
        let jobs = self.manager.picture().facts.jobs.values();
        jobs.filter(|job| job.is_live()).count()
    }

    /// Jobs that have ended and are in memory.
    pub(super) fn ended(&self) -> usize {
        let facts = &self.manager.picture().facts;
        facts.ended.len() + facts.jobs.len().saturating_sub(self.live())
    }

    pub(super) fn active(&self) -> u64 {
        let slices = self.shards.values().flat_map(|s| s.slices.values());
        slices.map(|s| s.active).sum()
    }

    /// Jobs of which nothing is active.
    pub(super) fn waiting(&self) -> usize {
        let slices = self.shards.values().flat_map(|s| &s.slices);
        let begun: BTreeSet<JobId> = slices.filter(|(_, s)| s.active > 0).map(|(id, _)| *id).collect();
        self.live().saturating_sub(begun.len())
    }

    /// The longest step so far; the next one counts from now.
    pub(super) fn take_longest(&mut self) -> Duration {
        std::mem::take(&mut self.longest)
    }

    fn mark(&mut self) -> (Duration, Duration) {
        (std::mem::take(&mut self.longest), self.spent)
    }

    /// The steps since a mark. The longest one before it counts again for `take_longest`.
    fn since(&mut self, from: (Duration, Duration)) -> Took {
        let (before, spent) = from;
        let took = Took {
            longest: self.longest,
            total: self.spent.saturating_sub(spent),
        };
        self.longest = self.longest.max(before);
        took
    }

    /// The next cycle, and all that follows from it before the one after. Returns the time of its own step.
    async fn cycle(&mut self) -> Duration {
        self.now = self.now.plus(PERIOD);
        let before = self.spent;
        self.step(Event::Wake);
        let took = self.spent.saturating_sub(before);
        self.settle_all().await;
        took
    }

    async fn settle(&mut self, event: Event) {
        self.step(event);
        self.settle_all().await;
    }

    async fn settle_all(&mut self) {
        loop {
            while let Some(event) = self.todo.pop_front() {
                self.step(event);
            }
            if self.ops.is_empty() {
                return;
            }
            let store = &self.store;
            let ops = std::mem::take(&mut self.ops).into_iter();
            let ops = ops.map(|(id, op)| async move { Event::Storage(id, store.perform(op).await) });
            let answers = futures::future::join_all(ops).await;
            self.todo.extend(answers);
        }
    }

    fn step(&mut self, event: Event) {
        let began = Instant::now();
        self.manager.step(event, self.now, &mut self.out);
        let took = began.elapsed();
        self.spent += took;
        self.longest = self.longest.max(took);
        for effect in std::mem::take(&mut self.out) {
            match effect {
                Effect::Storage(id, op) => self.ops.push((id, op)),
                Effect::Watch(cluster) => {
                    let mut shards = self.shards.iter();
                    let link = shards.find(|(_, s)| s.cluster == cluster).map(|(link, _)| *link);
                    let opened = link.map(|link| Event::ShardOpened { cluster, link });
                    self.todo.extend(opened);
                }
                Effect::Send(link, directive) => {
                    if grants(&directive) {
                        self.first_grant.get_or_insert_with(Instant::now);
                    }
                    let said = self.shards.get_mut(&link).map(|s| s.obey(directive));
                    let said = said.unwrap_or_default().into_iter();
                    self.todo.extend(said.map(|report| Event::Report(link, report)));
                }
                _ => {}
            }
        }
    }
}

fn grants(directive: &Directive) -> bool {
    match &directive.order {
        Order::Slices(orders) => orders.iter().any(|order| !order.grants.is_empty()),
        _ => false,
    }
}
