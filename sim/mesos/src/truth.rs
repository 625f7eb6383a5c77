//! What really runs, whatever the master knows: for a simulation that judges others by it.

use crate::agent::Phase;
use crate::cluster::Cluster;
use crate::id::{AgentId, TaskId};

impl Cluster {
    /// Every task that has a process, on agents that anybody can or cannot reach.
    pub fn live_tasks(&self) -> impl Iterator<Item = (&AgentId, &TaskId)> {
        self.agents.values().flat_map(|agent| {
            let lives = |phase| matches!(phase, Phase::Launching | Phase::Running | Phase::Killing);
            let live = agent.tasks.iter().filter(move |(_, task)| lives(task.phase));
            live.map(|((_, name), _)| (&agent.id, name))
        })
    }
}
