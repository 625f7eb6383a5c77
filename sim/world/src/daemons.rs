//! Daemons: drawn for users, and judged by the hosts that there are, not by what shards count.

use crate::client::Asked;
use crate::dice::Die;
use crate::invariants::Broken;
use crate::restarts::Restarted;
use crate::rollouts::updates;
use crate::world::World;
use echelon_core_gateway::change::Wish;
use echelon_core_model::job::Head;
use echelon_core_model::spec::{JobKind, JobSpec, OnSilence};
use echelon_core_model::{JobId, MemberId, Span, TaskId};
use echelon_core_testkit::build::JobBuilder;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A daemon, and what its user will ask for.
pub(crate) fn think(name: &str, pool: &str, die: &mut Die) -> (JobSpec, VecDeque<Asked>) {
    let mut plans = VecDeque::from([Asked::Create]);
    if die.chance(500) {
        plans.extend(updates(die));
    }
    if die.chance(300) {
        plans.push_back(Asked::Restart(Restarted::ALL));
    }
    if die.chance(300) {
        plans.push_back(Asked::Goal(Wish::Stop));
    }
    if die.chance(200) {
        plans.push_back(Asked::Goal(Wish::Delete));
    }
    let mut spec = JobBuilder::daemon(name).pool(pool).build();
    // No world lasts as long as a daemon waits for its host.
    spec.on_unreachable = OnSilence::Replace(Span::minutes(5));
    (spec, plans)
}

impl World {
    /// All hosts of all clusters.
    pub(crate) fn hosts(&self) -> u64 {
        let all: usize = self.clusters.iter().map(|c| c.mesos.agent_ids().count()).sum();
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// In the end no host has two of a daemon.
    pub(crate) fn judge_daemon(&self, job: JobId, head: &Head) -> Option<Broken> {
        if head.kind != JobKind::Daemon {
            return None;
        }
        let mut there: BTreeMap<&str, BTreeSet<TaskId>> = BTreeMap::new();
        for (agent, task) in self.clusters.iter().flat_map(|c| c.mesos.live_tasks()) {
            if let Ok(MemberId { run, .. }) = task.as_str().parse()
                && run.instance.job == job
            {
                there.entry(agent.as_str()).or_default().insert(run);
            }
        }
        let (host, runs) = there.into_iter().find(|(_, runs)| runs.len() > 1)?;
        Some(Broken {
            invariant: 21,
            what: format!("{} runs of daemon {job} are on {host}", runs.len()),
        })
    }
}
