//! A federation in which nothing goes wrong: given clusters and pools, and jobs that are submitted and
//! stopped at given times. For whoever compares a forecast with what really happens.

use crate::client::{Asked, User};
use crate::mesos;
use crate::options::Options;
use crate::world::{BEGIN, Item, World};
use echelon_core_gateway::change::Wish;
use echelon_core_model::host_pool::{HostMove, HostMoves};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{HostPoolName, JobId, Resources, Span, Timestamp};
use echelon_core_resource_manager::Event;
use echelon_sim_mesos as sim;
use std::collections::BTreeSet;

/// How often resource managers are told of what was stored since.
const HINTS: Span = Span::millis(20);
/// Until then every shard leads, hosts are known, and those that are to change their host pool have.
const READY: Span = Span::minutes(1);

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Federation {
    /// The hosts of each cluster. The clusters are called `c0`, `c1` and so on.
    pub clusters: Vec<Vec<PlayedHost>>,
    /// The pools.
    pub tree: PoolTree,
    /// The jobs, in any order.
    pub jobs: Vec<PlayedJob>,
    /// How long it is played, counted as times of jobs are.
    pub until: Span,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedHost {
    /// What it has, in whole cores and without GPUs.
    pub capacity: Resources,
    /// Its host pool.
    pub pool: HostPoolName,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedJob {
    /// What is submitted.
    pub spec: JobSpec,
    /// When, after everything is ready.
    pub submit: Span,
    /// When it is stopped.
    pub stop: Option<Span>,
}

/// What came of it.
#[derive(Debug)]
pub struct Played {
    /// The world at the end, with all that is stored.
    pub world: World,
    /// The id of each job, if it was acknowledged.
    pub jobs: Vec<Option<JobId>>,
    /// Invariants that did not hold.
    pub broken: Vec<String>,
}

/// Something that a user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Submit,
    Stop,
}

impl World {
    /// Plays a federation. The seed draws the delays of messages and storage.
    #[must_use]
    pub fn played(seed: u64, federation: &Federation) -> Played {
        let options = Options {
            clusters: federation.clusters.len(),
            hosts: 0,
            jobs: 0,
            faulty: Span::ZERO,
            ..Options::calm()
        };
        let mut world = Self::new(seed, options);
        world.put_pools(federation.tree.pools.clone());
        for (n, hosts) in federation.clusters.iter().enumerate() {
            world.add_hosts(n, hosts);
        }
        let ready = BEGIN.plus(READY);
        let mut acts: Vec<(Timestamp, Act, usize)> = Vec::new();
        for (n, job) in federation.jobs.iter().enumerate() {
            acts.push((ready.plus(job.submit), Act::Submit, n));
            acts.extend(job.stop.map(|at| (ready.plus(at), Act::Stop, n)));
            world.users.0.push(User::new(job.spec.clone(), []));
        }
        acts.sort_unstable();
        let mut hinted: Vec<usize> = vec![0; federation.jobs.len()];
        for (at, act, n) in acts {
            world.run_with_hints(at, &mut hinted);
            let asked = match act {
                Act::Submit => Asked::Create,
                Act::Stop => Asked::Goal(Wish::Stop),
            };
            if let Some(user) = world.users.0.get_mut(n) {
                user.plans.push_back(asked);
            }
            world.queue.plan(world.now, Item::User(n));
        }
        world.run_with_hints(ready.plus(federation.until), &mut hinted);
        Played {
            jobs: world.users.0.iter().map(|u| u.job).collect(),
            broken: world.broken.iter().map(ToString::to_string).collect(),
            world,
        }
    }

    /// When times of jobs begin.
    #[must_use]
    pub fn ready_at() -> Timestamp {
        BEGIN.plus(READY)
    }

    /// Lets things happen until a moment, and tells resource managers of what users were acknowledged, as
    /// gateways do.
    fn run_with_hints(&mut self, until: Timestamp, hinted: &mut [usize]) {
        while self.now < until && self.broken.is_empty() {
            self.run_until(self.now.plus(HINTS).min(until));
            let users = self.users.0.iter().zip(hinted.iter_mut());
            let mut news: BTreeSet<JobId> = BTreeSet::new();
            for (user, hinted) in users {
                if user.acknowledged.len() > *hinted {
                    *hinted = user.acknowledged.len();
                    news.extend(user.job);
                }
            }
            let lives: Vec<(usize, u64)> = self.managers.iter().map(|p| p.life).enumerate().collect();
            for who in lives {
                for job in &news {
                    self.tell_manager(who, self.now, Event::Hint(*job));
                }
            }
        }
    }

    /// The hosts of a cluster come up, and are to be in their host pools.
    fn add_hosts(&mut self, cluster: usize, hosts: &[PlayedHost]) {
        let id = self.cluster_id(cluster);
        let mut moves = HostMoves {
            version: 1,
            ..HostMoves::default()
        };
        for (n, host) in hosts.iter().enumerate() {
            let Resources {
                cpus, memory, disk, ..
            } = host.capacity;
            let spec = sim::AgentSpec {
                resources: sim::Bundle::of(cpus / 1_000, memory, disk),
                ..mesos::agent(&id, n)
            };
            if let Some(c) = self.clusters.get_mut(cluster) {
                c.mesos.add_agent(spec, BEGIN);
            }
            if host.pool != HostPoolName::default() {
                let to = host.pool.clone();
                let batch_until = BEGIN;
                let wish = HostMove { to, batch_until };
                moves.hosts.insert(mesos::hostname(&id, n), wish);
            }
        }
        self.flush_mesos(cluster);
        let Answer::Clusters(rows) = self.store.read(&Query::Clusters) else {
            return;
        };
        if let Some(mut row) = rows.into_iter().find(|c| c.id == id) {
            let expected = Some(row.version);
            row.version = row.version.next();
            row.host_pools.names = moves.hosts.values().map(|m| m.to.clone()).collect();
            row.host_pools.moves = moves;
            let cluster = row;
            self.store
                .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
        }
    }
}
