//! Oversubscription: an agent's estimator says how much of what is in use may be given out a second time, revocably (rules
//! R63, R91, S24).

use crate::agent::Phase;
use crate::amount::Amount;
use crate::bundle::{Bundle, Mark};
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::id::{AgentId, Run};
use crate::output::Output;
use crate::update::run_of;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::Reason;
use std::collections::BTreeSet;

static REVOCABLE: Mark = Mark {
    reservations: Vec::new(),
    volume: None,
    shared: false,
    revocable: true,
};

impl Cluster {
    /// An agent's new estimate of its revocable resources. Open offers with any, their regular part included, are
    /// rescinded. False when the master has no contact with the agent.
    pub fn set_revocable(&mut self, id: &AgentId, estimate: &Bundle, now: Timestamp) -> bool {
        if !self.talks_to(id) {
            return false;
        }
        for number in self.offers_with_revocable(id) {
            self.rescind(number);
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.spec.resources.marked.remove(&REVOCABLE);
            agent.spec.resources.add_part(&REVOCABLE, &estimate.plain);
        }
        self.settle_revocable(id);
        self.allocate(now);
        true
    }

    /// An agent lends so much from now on, and its QoS controller ends what runs on more, the last names first. False when the
    /// master has no contact with the agent.
    pub fn lend(&mut self, id: &AgentId, estimate: &Bundle, now: Timestamp) -> bool {
        if !self.set_revocable(id, estimate, now) {
            return false;
        }
        while let Some(run) = self.beyond_estimate(id) {
            self.preempt(&run, now);
        }
        true
    }

    /// A task that holds revocable resources, while all of them together hold more than the estimate.
    fn beyond_estimate(&self, id: &AgentId) -> Option<Run> {
        let agent = self.agents.get(id)?;
        let nothing = Amount::default();
        let estimate = agent.spec.resources.marked.get(&REVOCABLE).unwrap_or(&nothing);
        let lives = |phase| matches!(phase, Phase::Launching | Phase::Running | Phase::Killing);
        let live = agent.tasks.iter().filter(|(_, task)| lives(task.phase));
        let mut held = Amount::default();
        let mut last = None;
        let mut executors = BTreeSet::new();
        for ((framework, name), task) in live {
            if let Some(of_task) = task.resources.marked.get(&REVOCABLE) {
                held.add(of_task);
                last = Some(run_of(id, framework, name, task));
            }
            let place = task.place.as_ref();
            executors.extend(place.map(|place| (framework.clone(), place.executor.clone())));
        }
        for executor in executors.iter().filter_map(|key| agent.executors.get(key)) {
            if let Some(of_executor) = executor.shared.resources.marked.get(&REVOCABLE) {
                held.add(of_executor);
            }
        }
        last.filter(|_| !estimate.contains(&held))
    }

    /// The QoS controller ends a task's container.
    fn preempt(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        task.phase = Phase::Ended;
        let place = task.place.clone();
        if matches!(self.config.executors, Executors::External) {
            self.out.push(Output::Kill {
                run: run.clone(),
                grace: Span::ZERO,
            });
        }
        let known = self.master.frameworks.get(&run.framework);
        let gone = TaskState::TaskGone;
        let state = known.map_or(gone, |known| known.or_lost(gone));
        let words = "Container preempted by QoS correction";
        self.agent_says(run, state, (Reason::ContainerPreempted, words), now);
        if let Some(place) = place {
            self.leave_executor(run, &place, false, now);
        }
    }

    /// Frees what the estimate leaves beside tasks and offers: it may have shrunk below what they hold.
    pub(crate) fn settle_revocable(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let estimate = agent.spec.resources.marked.get(&REVOCABLE).cloned();
        let Some(member) = self.master.members.get(id) else {
            return;
        };
        if estimate.is_none() && !member.free.marked.contains_key(&REVOCABLE) {
            return;
        }
        let mut left = estimate.unwrap_or(Amount::default());
        let tasks = member
            .tasks
            .iter()
            .filter_map(|(framework, task)| self.master.frameworks.get(framework)?.tasks.get(task));
        let offers = member
            .offers
            .iter()
            .filter_map(|number| self.master.offers.get(number));
        let held = tasks
            .filter(|task| !task.freed)
            .map(|task| &task.resources)
            .chain(offers.map(|offer| &offer.resources));
        let executors = member.executors.values().map(|executor| &executor.resources);
        held.chain(executors)
            .filter_map(|held| held.marked.get(&REVOCABLE))
            .for_each(|held| left.subtract(held));
        if let Some(member) = self.master.members.get_mut(id) {
            member.free.marked.remove(&REVOCABLE);
            member.free.add_part(&REVOCABLE, &left);
        }
    }

    fn offers_with_revocable(&self, id: &AgentId) -> Vec<u64> {
        let Some(member) = self.master.members.get(id) else {
            return Vec::new();
        };
        let has = |number: &&u64| {
            let offer = self.master.offers.get(number);
            offer.is_some_and(|offer| offer.resources.marked.keys().any(|mark| mark.revocable))
        };
        member.offers.iter().filter(has).copied().collect()
    }
}
