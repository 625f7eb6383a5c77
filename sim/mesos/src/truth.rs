//! What really runs, whatever the master knows: for a simulation that judges others by it.

use crate::agent::{Agent, Phase};
use crate::amount::Amount;
use crate::cluster::Cluster;
use crate::config::AgentSpec;
use crate::id::{AgentId, TaskId};
use std::collections::BTreeMap;

impl Cluster {
    /// The agent of a host with all that is on its disks, whether anybody reaches it or not.
    #[must_use]
    pub fn agent_spec(&self, hostname: &str) -> Option<&AgentSpec> {
        self.agents
            .values()
            .map(|agent| &agent.spec)
            .find(|spec| spec.hostname == hostname)
    }

    /// The lowest port that an agent has.
    #[must_use]
    pub fn first_port(&self, id: &AgentId) -> Option<u16> {
        let first = self.agents.get(id)?.spec.resources.first_port()?;
        u16::try_from(first).ok()
    }

    /// The persistent volumes on the disks of all agents, by agent and id.
    pub fn volumes(&self) -> impl Iterator<Item = (&AgentId, String)> {
        self.agents.values().flat_map(|agent| {
            let volumes = agent.spec.resources.volumes();
            volumes.into_iter().map(|(id, _)| (&agent.id, id))
        })
    }

    /// Every task that has a process, on agents that anybody can or cannot reach.
    pub fn live_tasks(&self) -> impl Iterator<Item = (&AgentId, &TaskId)> {
        self.agents
            .values()
            .chain(self.departed.values())
            .flat_map(|agent| {
                let live = agent.tasks.iter().filter(move |(_, task)| lives(task.phase));
                live.map(|((_, name), _)| (&agent.id, name))
            })
    }

    /// Every task with a process that was not told to end, on agents that anybody can or cannot reach.
    pub fn running_tasks(&self) -> impl Iterator<Item = (&AgentId, &TaskId)> {
        self.agents
            .values()
            .chain(self.departed.values())
            .flat_map(|agent| {
                let running = agent
                    .tasks
                    .iter()
                    .filter(|(_, task)| task.phase == Phase::Running);
                running.map(|((_, name), _)| (&agent.id, name))
            })
    }

    /// Agents whose live tasks together hold more than the agent has, or more than it lends: ordinary or revocable room is
    /// given out twice.
    pub fn over_committed(&self) -> impl Iterator<Item = &AgentId> {
        let over = |agent: &&Agent| {
            let mut held: BTreeMap<bool, Amount> = BTreeMap::new();
            for task in agent.tasks.values().filter(|task| lives(task.phase)) {
                held.entry(false).or_default().add_scalars(&task.resources.plain);
                for (mark, amount) in &task.resources.marked {
                    held.entry(mark.revocable).or_default().add_scalars(amount);
                }
            }
            let mut has: BTreeMap<bool, Amount> = BTreeMap::new();
            has.entry(false)
                .or_default()
                .add_scalars(&agent.spec.resources.plain);
            for (mark, amount) in &agent.spec.resources.marked {
                has.entry(mark.revocable).or_default().add_scalars(amount);
            }
            let nothing = Amount::default();
            held.iter()
                .any(|(side, held)| !has.get(side).unwrap_or(&nothing).contains(held))
        };
        self.agents.values().filter(over).map(|agent| &agent.id)
    }
}

const fn lives(phase: Phase) -> bool {
    matches!(phase, Phase::Launching | Phase::Running | Phase::Killing)
}
