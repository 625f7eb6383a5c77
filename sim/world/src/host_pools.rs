//! An operator who moves hosts to another host pool and, after a while, back: nothing is launched on a host whose host pool its job may not
//! use, and in the end all hosts are where they are to be.

use crate::invariants::Broken;
use crate::mesos::hostname;
use crate::world::{Item, World};
use echelon_core_hosts::Launch;
use echelon_core_model::cluster::{Cluster, Host};
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::job::Waiting;
use echelon_core_model::store::{Answer, Decision, Op, Query, ShardRow};
use echelon_core_model::{ClusterId, HostId, HostPoolName, JobId, MemberId, ReasonCode, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Where hosts go for a while.
const OTHER: &str = "other";

impl World {
    /// A host is to go elsewhere, and back after a while.
    pub(crate) fn move_host(&mut self, cluster: usize, n: usize, span: Span) {
        let id = self.cluster_id(cluster);
        let name = hostname(&id, n);
        let wish = HostMove {
            to: HostPoolName::new(OTHER),
            batch_until: self.now.plus(Span(span.0 / 4)),
        };
        self.change_moves(&id, &name, wish);
        let back = Item::MoveBack {
            cluster,
            hostname: name,
        };
        self.queue.plan(self.now.plus(span), back);
    }

    /// It is to be where it was, whether it has gone or not.
    pub(crate) fn move_back(&mut self, cluster: usize, hostname: &str) {
        let id = self.cluster_id(cluster);
        self.moved += u64::from(self.shard_row(&id).host_pools.contains_key(hostname));
        let wish = HostMove {
            to: HostPoolName::default(),
            batch_until: self.now,
        };
        self.change_moves(&id, hostname, wish);
    }

    fn change_moves(&mut self, id: &ClusterId, hostname: &str, wish: HostMove) {
        let Some(mut cluster) = self.cluster_row(id) else {
            return;
        };
        let expected = Some(cluster.version);
        cluster.version = cluster.version.next();
        let moves = &mut cluster.host_pools.moves;
        moves.version += 1;
        moves.hosts.insert(hostname.to_owned(), wish);
        self.trace
            .line(self.now, &format!("operator moves hosts: {moves:?}"));
        self.store
            .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
    }

    fn cluster_row(&self, id: &ClusterId) -> Option<Cluster> {
        let Answer::Clusters(clusters) = self.store.read(&Query::Clusters) else {
            return None;
        };
        clusters.into_iter().find(|c| c.id == *id)
    }

    fn shard_row(&self, id: &ClusterId) -> ShardRow {
        match self.store.read(&Query::Shard(id.clone())) {
            Answer::Shard(row) => row,
            _ => ShardRow::default(),
        }
    }

    /// Whether somebody lives on a host whose job may lose nobody, since another one of it has left and waits for the host of its volume,
    /// which may be the same: they wait for each other.
    fn is_held_by_volumes(&self, hostname: &str) -> bool {
        let waits = |job: JobId| {
            let waiting = self.progress(job).map(|p| p.waiting).unwrap_or_default();
            waiting.iter().any(|w| w.reason.code == ReasonCode::HostVolume)
        };
        let there = self.clusters.iter().flat_map(|c| {
            let host = c.mesos.find_agent(hostname);
            let live = c.mesos.live_tasks();
            live.filter(move |(agent, _)| Some(*agent) == host.as_ref())
        });
        let jobs =
            there.filter_map(|(_, task)| Some(task.as_str().parse::<MemberId>().ok()?.run.instance.job));
        jobs.collect::<BTreeSet<JobId>>().into_iter().any(waits)
    }

    /// Whether an instance waits for a host that is to change its host pool and is held by volumes.
    pub(crate) fn waits_for_a_held_host(&self, waiting: &Waiting) -> bool {
        let detail = waiting.reason.detail.as_deref();
        let mut ids = (0..self.options.clusters).map(|n| self.cluster_id(n));
        ids.any(|id| {
            let moving = self.moving(&id);
            let mut named = moving
                .iter()
                .filter(|(name, _)| detail.is_some_and(|d| d.contains(name.as_str())));
            named.any(|(name, _)| self.is_held_by_volumes(name))
        })
    }

    /// Hosts of a cluster that are not in the host pool that an operator has told.
    fn moving(&self, id: &ClusterId) -> BTreeMap<String, HostMove> {
        let row = self.shard_row(id);
        let moves = self
            .cluster_row(id)
            .map(|c| c.host_pools.moves.hosts)
            .unwrap_or_default();
        let is_elsewhere = |name: &String, wish: &HostMove| {
            let there = row.host_pools.get(name).cloned().unwrap_or_default();
            there != wish.to
        };
        moves
            .into_iter()
            .filter(|(name, wish)| is_elsewhere(name, wish))
            .collect()
    }

    /// In the end every host is where it is to be.
    pub(crate) fn judge_host_pools(&self) -> Option<Broken> {
        let ids = (0..self.options.clusters).map(|n| self.cluster_id(n));
        ids.filter_map(|id| {
            let moving = self.moving(&id);
            let (name, wish) = moving.iter().find(|(name, _)| !self.is_held_by_volumes(name))?;
            Some(Broken {
                invariant: 24,
                what: format!(
                    "{name} is not in host pool {}: {:?}",
                    wish.to,
                    self.shard_row(&id).host_pools
                ),
            })
        })
        .next()
    }
}

/// A launch has reached the master.
pub(crate) fn launched_in_other_pool(
    world: &World,
    (cluster, host): (&ClusterId, &HostId),
    launch: &Launch,
) -> Option<Broken> {
    // Without moves all hosts are in one.
    if world.options.faults.moves == 0 {
        return None;
    }
    let (_, spec) = world.head_and_spec(launch.task.instance.job)?;
    let choice = &spec.group(&launch.task.instance.group)?.siting.host_pool;
    let hosts = Query::Hosts {
        cluster: cluster.clone(),
        after: None,
        limit: 1_000,
    };
    let Answer::Hosts(hosts) = world.store.read(&hosts) else {
        return None;
    };
    let named = |h: Host| (h.id == *host).then_some(h.hostname);
    let name = hosts.into_iter().find_map(named)?;
    let row = world.shard_row(cluster);
    let there = row.host_pools.get(&name).cloned().unwrap_or_default();
    (!choice.lets(&there)).then(|| Broken {
        invariant: 24,
        what: format!("{} is launched on {name} of host pool {there}", launch.task),
    })
}
