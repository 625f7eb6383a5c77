//! A resource manager with storage and shards that answer at once, in a time of its own.

use super::entitled;
use super::jobs::Sizes;
use super::shard::Shard;
use anyhow::{Result, bail};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::Stamp;
use echelon_core_model::{JobId, Span, Timestamp};
use echelon_core_resource_manager::{Config, Effect, Event, LinkId, ResourceManager};
use echelon_sim_replay::store::{Store, cluster};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Instances of the jobs that fill the clusters.
pub(super) const WIDE: u32 = 100;
/// Instances of the jobs that wait.
pub(super) const NARROW: u32 = 10;
/// Cycles after which nothing more is expected to change.
const PATIENCE: u32 = 5_000;

pub(super) struct Federation {
    manager: ResourceManager,
    now: Timestamp,
    todo: VecDeque<Event>,
    out: Vec<Effect>,
    store: Store<Sizes>,
    shards: BTreeMap<LinkId, Shard>,
    /// Time spent in deciding.
    spent: Duration,
}

impl Federation {
    /// Clusters with room for so many instances.
    pub(super) fn new(pools: u32, clusters: u32, instances: u32) -> Self {
        let each = u64::from(instances.div_ceil(clusters.max(1)));
        let rows: Vec<Cluster> = (0..clusters).map(|i| cluster(&format!("c{i}"))).collect();
        let shard = |(i, row): (u64, &Cluster)| (LinkId(i), Shard::new(row.id.clone(), each));
        Self {
            manager: ResourceManager::new(Config::new("bench", 1)),
            now: Timestamp(1_000_000),
            todo: VecDeque::new(),
            out: Vec::new(),
            shards: (1..).zip(&rows).map(shard).collect(),
            store: Store::new(entitled::tree(pools), rows, Sizes::new(pools)),
            spent: Duration::ZERO,
        }
    }

    /// Until it leads and knows every shard.
    pub(super) fn start(&mut self) -> Result<()> {
        self.settle(Event::Elected {
            published: Stamp::default(),
        });
        for _ in 0..PATIENCE {
            let known = self.manager.picture().facts.clusters.values();
            if self.manager.leading().is_some()
                && known.filter(|c| c.takes_grants()).count() == self.shards.len()
            {
                return Ok(());
            }
            self.cycle();
        }
        bail!("the resource manager does not lead")
    }

    /// Submits jobs all at once and waits until each is read, and all are granted that can be. Their progress is stored later,
    /// some hundred with each cycle.
    pub(super) fn submit(&mut self, jobs: u32, instances: u32) -> Result<()> {
        for _ in 0..jobs {
            let hint = Event::Hint(self.store.jobs.add(instances));
            self.settle(hint);
        }
        let mut before = None;
        for _ in 0..PATIENCE {
            let jobs = self.manager.picture().facts.jobs.values();
            let read = jobs.filter(|j| j.spec.is_some()).count();
            let granted: u64 = self.shards.values().map(|s| s.granted).sum();
            if read == self.n_jobs() && before == Some((read, granted)) {
                return Ok(());
            }
            before = Some((read, granted));
            self.cycle();
        }
        bail!("not all jobs were taken in")
    }

    /// Microseconds that each of so many cycles takes, sorted. Between two of them something ends in every cluster.
    pub(super) fn cycles(&mut self, n: u32) -> Result<Vec<u64>> {
        let mut out = Vec::new();
        for _ in 0..n {
            let links: Vec<LinkId> = self.shards.keys().copied().collect();
            for link in links {
                if let Some(report) = self.shards.get_mut(&link).and_then(Shard::end_some) {
                    self.settle(Event::Report(link, report));
                }
            }
            out.push(u64::try_from(self.cycle().as_micros())?);
        }
        out.sort_unstable();
        Ok(out)
    }

    /// From submit, after a rest, to the first grant: time spent in deciding, and between cycles.
    pub(super) fn first_grant(&mut self, instances: u32) -> Result<Duration> {
        self.now = self.now.plus(Span::millis(500));
        let (spent, began) = (self.spent, self.now);
        let hint = Event::Hint(self.store.jobs.add(instances));
        self.settle(hint);
        for _ in 0..PATIENCE {
            if self.shards.values().any(|s| s.granted > 0) {
                let waited = Duration::from_millis(self.now.since(began).0);
                return Ok(self.spent - spent + waited);
            }
            self.cycle();
        }
        bail!("nothing was granted")
    }

    pub(super) fn jobs(&self) -> u32 {
        self.store.jobs.len()
    }

    fn n_jobs(&self) -> usize {
        usize::try_from(self.store.jobs.len()).unwrap_or(usize::MAX)
    }

    pub(super) fn active(&self) -> u64 {
        let slices = self.shards.values().flat_map(|s| s.slices.values());
        slices.map(|s| s.active).sum()
    }

    /// Jobs of which nothing is active.
    pub(super) fn waiting(&self) -> usize {
        let slices = self.shards.values().flat_map(|s| &s.slices);
        let begun: BTreeSet<JobId> = slices.filter(|(_, s)| s.active > 0).map(|(id, _)| *id).collect();
        self.n_jobs() - begun.len()
    }

    /// The next cycle, and all that follows from it before the one after; what the first step took.
    fn cycle(&mut self) -> Duration {
        self.now = self.now.plus(Span::millis(50));
        let before = self.spent;
        self.step(Event::Wake);
        let took = self.spent - before;
        self.settle_all();
        took
    }

    fn settle(&mut self, event: Event) {
        self.step(event);
        self.settle_all();
    }

    fn settle_all(&mut self) {
        while let Some(event) = self.todo.pop_front() {
            self.step(event);
        }
    }

    fn step(&mut self, event: Event) {
        let began = Instant::now();
        self.manager.step(event, self.now, &mut self.out);
        self.spent += began.elapsed();
        for effect in std::mem::take(&mut self.out) {
            match effect {
                Effect::Storage(id, op) => self.todo.push_back(Event::Storage(id, self.store.perform(op))),
                Effect::Watch(cluster) => {
                    let link = self
                        .shards
                        .iter()
                        .find(|(_, s)| s.cluster == cluster)
                        .map(|(l, _)| *l);
                    let opened = link.map(|link| Event::ShardOpened { cluster, link });
                    self.todo.extend(opened);
                }
                Effect::Send(link, directive) => {
                    let said = self.shards.get_mut(&link).map(|s| s.obey(directive, self.now));
                    let said = said.unwrap_or_default().into_iter();
                    self.todo.extend(said.map(|report| Event::Report(link, report)));
                }
                _ => {}
            }
        }
    }
}
