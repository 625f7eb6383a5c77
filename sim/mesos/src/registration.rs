//! An agent registers again: the master and the agent compare what they know (rules R114, R116, R117, S18).

use crate::agent::{AgentTask, Contact, Life, Member, Phase, TaskKey};
use crate::cluster::{Cluster, Leadership};
use crate::containment::Containment;
use crate::event;
use crate::framework::{Framework, Task, is_terminal};
use crate::id::{AgentId, Container, FrameworkId, Run, TaskId};
use crate::update::run_of;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{TaskState, TaskStatus};
use std::collections::VecDeque;
use std::sync::Arc;

impl Cluster {
    pub(crate) fn reregister(&mut self, id: &AgentId, now: Timestamp) {
        let reachable = self.agents.get(id).is_some_and(crate::agent::Agent::is_reachable);
        if !reachable || self.master.leadership != Leadership::Leads {
            return;
        }
        // An agent that was refused until now is new.
        let was = self.contact(id).unwrap_or(Contact::Recovered);
        let down = self.agents.get(id).is_some_and(|agent| self.is_down(&agent.spec));
        if was == Contact::Gone || down {
            if let Some(agent) = self.agents.get_mut(id) {
                agent.up = false;
            }
            return;
        }
        if !was.is_registered() {
            self.admit(id);
        }
        self.set_contact(id, Contact::Connected);
        self.meet_frameworks(id);
        self.report_executors(id);
        self.report_tasks(id, was, now);
        self.report_operations(id);
        self.drop_unknown(id, now);
        if was.is_registered() {
            self.want_allocation(now);
        } else {
            self.allocate_agent(id, now);
        }
        self.resume_agent(id, now);
        self.resume_operations(id, now);
        self.deliver_kills(id, now);
        self.drain_on(id, now);
    }

    /// The agent is new to this master: all it has is free until its tasks are counted.
    fn admit(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let was = self.master.members.remove(id);
        let member = Member {
            drain: was.as_ref().and_then(|was| was.drain.clone()),
            deactivated: was.is_some_and(|was| was.deactivated),
            ..Member::new(&agent.spec.resources)
        };
        self.master.members.insert(id.clone(), member);
    }

    /// Frameworks that the master has removed are dropped by the agent; those it has not met yet are only recovered.
    fn meet_frameworks(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let told: Vec<(FrameworkId, _)> = agent
            .frameworks
            .iter()
            .map(|(f, info)| (f.clone(), info.clone()))
            .collect();
        for (framework, info) in told {
            if self.master.removed.contains(&framework) {
                self.drop_framework(id, &framework);
            } else {
                let recovered = || Framework::new(framework.clone(), (*info).clone());
                self.master
                    .frameworks
                    .entry(framework.clone())
                    .or_insert_with(recovered);
            }
        }
    }

    /// The master takes over the tasks that it does not track; after an absence it tells each (rule R114).
    fn report_tasks(&mut self, id: &AgentId, was: Contact, now: Timestamp) {
        let Some(agent) = self.agents.get(id) else { return };
        let reported: Vec<(TaskKey, AgentTask)> = agent
            .tasks
            .iter()
            .map(|(key, task)| (key.clone(), task.clone()))
            .collect();
        for ((framework, name), task) in reported {
            let tracked = self
                .master
                .frameworks
                .get(&framework)
                .is_some_and(|f| f.tasks.contains_key(&name));
            if tracked {
                continue;
            }
            let run = run_of(id, &framework, &name, &task);
            self.track(&framework, name, seen(id, &task));
            if matches!(was, Contact::Unreachable(_)) {
                let status = self.returned_status(&run, &task, now);
                self.send(&framework, event::update(status));
            }
        }
    }

    fn returned_status(&self, run: &Run, task: &AgentTask, now: Timestamp) -> TaskStatus {
        let container_status = Containment::of(task).map(|at| self.container_status(&run.agent, &at));
        TaskStatus {
            task_id: run.task.proto(),
            state: task.state.into(),
            agent_id: Some(run.agent.proto()),
            executor_id: task.place.as_ref().map(|place| place.executor.proto()),
            source: Some(Source::Master.into()),
            reason: Some(Reason::AgentReregistered.into()),
            message: Some("Unreachable agent re-reregistered".to_owned()),
            timestamp: Some(event::seconds(now)),
            container_status,
            ..Default::default()
        }
    }

    /// Tasks that the master sent and the agent never got: the agent says so, with a uuid (section 7, RECONCILIATION).
    fn drop_unknown(&mut self, id: &AgentId, now: Timestamp) {
        for (framework, name) in self.tasks_on(id) {
            let key = (framework.clone(), name.clone());
            let there = self
                .agents
                .get(id)
                .is_some_and(|agent| agent.tasks.contains_key(&key));
            let tracked = self
                .master
                .frameworks
                .get(&framework)
                .and_then(|f| f.tasks.get(&name))
                .cloned();
            let (false, Some(task)) = (there, tracked) else {
                continue;
            };
            let run = Run {
                agent: id.clone(),
                framework,
                task: name,
                container: Container(self.random.uuid()),
            };
            let state = self
                .master
                .frameworks
                .get(&run.framework)
                .map(|f| f.or_lost(TaskState::TaskDropped));
            if let Some(agent) = self.agents.get_mut(id) {
                agent.tasks.insert(key, never_started(&task, run.container));
            }
            let state = state.unwrap_or(TaskState::TaskDropped);
            self.agent_says(
                &run,
                state,
                (
                    Reason::Reconciliation,
                    "Reconciliation: task unknown to the agent",
                ),
                now,
            );
        }
    }

    /// Updates that wait are sent again at once (rule R94).
    fn resume_agent(&mut self, id: &AgentId, now: Timestamp) {
        let Some(agent) = self.agents.get(id) else { return };
        let waiting = agent.tasks.iter().filter(|(_, task)| !task.updates.is_empty());
        let runs: Vec<Run> = waiting
            .map(|((framework, name), task)| run_of(id, framework, name, task))
            .collect();
        for run in runs {
            self.resume_task(&run, now);
        }
    }

    fn deliver_kills(&mut self, id: &AgentId, now: Timestamp) {
        let kills = self
            .master
            .members
            .get_mut(id)
            .map(|member| std::mem::take(&mut member.kills));
        for key in kills.unwrap_or_default() {
            self.kill_at_agent(id, &key, None, now);
        }
    }
}

/// A task as a master sees it that hears of it from its agent.
fn seen(agent: &AgentId, task: &AgentTask) -> Task {
    let waiting = task.updates.front();
    Task {
        name: task.name.clone(),
        agent: agent.clone(),
        role: task.role.clone(),
        resources: task.resources.clone(),
        state: task.state,
        forwarded: waiting.map_or(task.state, |update| update.state),
        uuid: waiting.map(|update| update.uuid),
        executor: task.place.as_ref().map(|place| place.executor.clone()),
        container: Containment::of(task),
        freed: is_terminal(task.state),
    }
}

fn never_started(task: &Task, container: Container) -> AgentTask {
    AgentTask {
        name: Arc::clone(&task.name),
        role: Arc::clone(&task.role),
        resources: task.resources.clone(),
        container,
        pid: 0,
        phase: Phase::Ended,
        state: TaskState::TaskStaging,
        updates: VecDeque::new(),
        retry: None,
        grace: Span::ZERO,
        term_at: None,
        watch: None,
        life: Life::default(),
        place: None,
    }
}

impl Cluster {
    /// The runs that an agent holds and that have not ended, with the process of each (0: none yet).
    #[must_use]
    pub fn live_runs(&self, agent: &AgentId) -> Vec<(Run, u32)> {
        let Some(known) = self.agents.get(agent) else {
            return Vec::new();
        };
        let live = known.tasks.iter().filter(|(_, task)| task.phase != Phase::Ended);
        live.map(
            |((framework, name), task): (&(FrameworkId, TaskId), &AgentTask)| {
                (run_of(agent, framework, name, task), task.pid)
            },
        )
        .collect()
    }
}
