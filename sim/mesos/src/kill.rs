//! KILL: to the agent, or remembered while its connection is broken, or answered like a reconciliation where nobody
//! knows the task (rules R45, R85 to R88, S15).

use crate::agent::{Contact, Phase, TaskKey};
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::framework::has;
use crate::id::{AgentId, FrameworkId, TaskId};
use crate::output::Output;
use crate::update::run_of;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::framework_info::capability;
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::task_status::Reason;

impl Cluster {
    pub(crate) fn kill(&mut self, framework: &FrameworkId, kill: &call::Kill, now: Timestamp) {
        let task = TaskId::from(&kill.task_id);
        let named = kill.agent_id.as_ref().map(AgentId::from);
        let known = self
            .master
            .frameworks
            .get(framework)
            .and_then(|f| f.tasks.get(&task));
        let Some(agent) = known.map(|task| task.agent.clone()) else {
            return self.reconcile_one(framework, &task, named.as_ref(), now);
        };
        if named.is_some_and(|named| named != agent) {
            return;
        }
        let key = (framework.clone(), task);
        if self.contact(&agent) == Some(Contact::Disconnected) {
            if let Some(member) = self.master.members.get_mut(&agent) {
                member.kills.insert(key);
            }
        } else if self.talks_to(&agent) {
            self.kill_at_agent(&agent, &key, now);
        }
    }

    /// The agent gets a KILL. Its executor keeps the task's own grace: an override does not reach it (rule R85).
    pub(crate) fn kill_at_agent(&mut self, agent: &AgentId, key: &TaskKey, now: Timestamp) {
        let Some(known) = self.agents.get_mut(agent) else {
            return;
        };
        let tells = known
            .frameworks
            .get(&key.0)
            .is_some_and(|info| has(info, capability::Type::TaskKillingState));
        let Some(task) = known.tasks.get_mut(key) else {
            return;
        };
        let run = run_of(agent, &key.0, &key.1, task);
        let grace = task.grace;
        match task.phase {
            Phase::Launching => {
                task.phase = Phase::Ended;
                if matches!(self.config.executors, Executors::External) {
                    self.out.push(Output::Kill {
                        run: run.clone(),
                        grace: Span::ZERO,
                    });
                }
                let words = "Killed before delivery to the executor";
                self.agent_says(
                    &run,
                    TaskState::TaskKilled,
                    (Reason::TaskKilledDuringLaunch, words),
                    now,
                );
            }
            Phase::Running => {
                task.phase = Phase::Killing;
                self.touch(&run);
                if tells {
                    self.executor_says(&run, TaskState::TaskKilling, None, now);
                }
                match self.config.executors.clone() {
                    Executors::Virtual(how) => self.virtual_kill(&run, &how, now),
                    Executors::External => self.out.push(Output::Kill { run, grace }),
                }
            }
            Phase::Killing | Phase::Lost | Phase::Ended => {}
        }
    }
}
