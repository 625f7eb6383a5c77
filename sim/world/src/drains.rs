//! An operator who wants a host empty for a while, and what must hold meanwhile: an agent is drained at our wish only when nothing of
//! ours is on it and it is stored that it is ours to offer again, and in the end none stays drained.

use crate::invariants::Broken;
use crate::mesos::{ClusterWorld, hostname};
use crate::world::{Item, World};
use echelon_core_hosts::{Call, Event};
use echelon_core_model::drain::{Drains, HostDrain};
use echelon_core_model::store::{Answer, Decision, Op, Query};
use echelon_core_model::{ClusterId, HostId, MemberId, Span};
use echelon_proto::convert::mesos::{Beside, agents_from_wire};
use echelon_sim_mesos::AgentId;

impl World {
    /// The wish is stored, and taken back after a while.
    pub(crate) fn want_empty(&mut self, cluster: usize, n: usize, span: Span) {
        let id = self.cluster_id(cluster);
        let name = hostname(&id, n);
        let wish = HostDrain {
            batch_until: self.now.plus(Span(span.0 / 2)),
            agent: true,
        };
        self.change_drains(&id, |drains| {
            drains.hosts.insert(name.clone(), wish.clone());
        });
        let over = Item::EndDrain {
            cluster,
            hostname: name,
        };
        self.queue.plan(self.now.plus(span), over);
    }

    /// Nobody wants the host empty any more.
    pub(crate) fn want_no_longer_empty(&mut self, cluster: usize, hostname: &str) {
        let id = self.cluster_id(cluster);
        self.change_drains(&id, |drains| {
            drains.hosts.remove(hostname);
        });
    }

    /// A call of the operator API arrives: whoever makes it is allowed to.
    pub(crate) fn operated(&mut self, who: (usize, usize, u64), call: Call) {
        let now = self.now;
        let Some(c) = self.clusters.get_mut(who.0) else {
            return;
        };
        let done = match &call {
            Call::DrainAgent { host } => c
                .mesos
                .drain_agent(&AgentId::new(host.as_str()), None, false, now),
            Call::ReactivateAgent { host } => {
                c.mesos.reactivate_agent(&AgentId::new(host.as_str()), now);
                // One that is not known any more need not be offered.
                true
            }
            Call::ListAgents => {
                let list = c.mesos.get_agents().get_agents.unwrap_or_default();
                let schedule = c.mesos.get_maintenance_schedule();
                let beside = Beside {
                    quota: c.mesos.get_quota().get_quota.map(|quota| quota.status),
                    schedule: schedule.get_maintenance_schedule.map(|of| of.schedule),
                };
                let told = agents_from_wire(&list, &beside, &c.framework.role);
                return self.tell(who, told);
            }
            Call::ReadFlags { host, address } => {
                let told = c.flags_at(address).map(|times| Event::Flags {
                    host: host.clone(),
                    times,
                });
                let silent = || Event::CallFailed {
                    call: call.clone(),
                    why: "connection refused".to_owned(),
                    refused: false,
                };
                return self.tell(who, told.unwrap_or_else(silent));
            }
            _ => false,
        };
        let told = if done {
            Event::Operated(call)
        } else {
            Event::CallFailed {
                call,
                why: "400 Agent not found".to_owned(),
                refused: true,
            }
        };
        self.tell(who, told);
        self.flush_mesos(who.0);
    }

    fn change_drains(&mut self, id: &ClusterId, change: impl Fn(&mut Drains)) {
        let Answer::Clusters(clusters) = self.store.read(&Query::Clusters) else {
            return;
        };
        let Some(mut cluster) = clusters.into_iter().find(|c| c.id == *id) else {
            return;
        };
        let expected = Some(cluster.version);
        cluster.version = cluster.version.next();
        cluster.drains.version += 1;
        change(&mut cluster.drains);
        self.trace
            .line(self.now, &format!("operator wants empty: {:?}", cluster.drains));
        self.store
            .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
    }
}

/// A call to drain an agent has reached the master.
pub(crate) fn drained_too_early(world: &World, cluster: usize, host: &HostId) -> Option<Broken> {
    let id = world.cluster_id(cluster);
    let stored = match world.store.read(&Query::Shard(id.clone())) {
        Answer::Shard(row) => row.drained_agents.contains(host),
        _ => false,
    };
    let ours = world.clusters.get(cluster).is_some_and(|c| {
        let mut live = c.mesos.live_tasks();
        live.any(|(agent, task)| agent.as_str() == host.as_str() && task.as_str().parse::<MemberId>().is_ok())
    });
    (ours || !stored).then(|| Broken {
        invariant: 12,
        what: format!("{id}: {host} is drained, ours there: {ours}, stored: {stored}"),
    })
}

/// In the end nobody wants any host empty.
pub(crate) fn still_drained(cluster: &ClusterWorld) -> Option<Broken> {
    let agent = cluster.mesos.draining_agents().next()?;
    Some(Broken {
        invariant: 12,
        what: format!("{agent} of {} is still drained", cluster.id),
    })
}
