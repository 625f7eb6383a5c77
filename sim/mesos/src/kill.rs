//! KILL: to the agent, or remembered while its connection is broken, or answered like a reconciliation where nobody
//! knows the task (rules R45, R85 to R88, S15).

use crate::agent::{Contact, Phase, TaskKey};
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::framework::has;
use crate::id::{AgentId, FrameworkId, Run, TaskId};
use crate::launch::grace;
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
            let asked = grace(kill.kill_policy.as_ref());
            self.kill_at_agent(&agent, &key, asked, now);
        }
    }

    /// The agent gets a KILL, which may bring a grace of its own.
    pub(crate) fn kill_at_agent(
        &mut self,
        agent: &AgentId,
        key: &TaskKey,
        asked: Option<Span>,
        now: Timestamp,
    ) {
        let Some(known) = self.agents.get_mut(agent) else {
            return;
        };
        let tells = known
            .frameworks
            .get(&key.0)
            .is_some_and(|info| has(info, capability::Type::TaskKillingState));
        let http = known.spec.http_command_executor;
        let Some(task) = known.tasks.get_mut(key) else {
            return;
        };
        let place = task.place.as_ref();
        // What a custom executor says to a KILL is its own affair.
        let tells = tells && place.is_none_or(|place| !place.is_custom());
        let obeys = place.map_or(http, |place| !place.is_custom());
        let run = run_of(agent, &key.0, &key.1, task);
        // Most executors of command tasks do not hear of it (rule R85).
        let asked = asked.filter(|_| obeys);
        match task.phase {
            Phase::Launching => self.kill_before_delivery(&run, now),
            Phase::Running => {
                if tells {
                    self.executor_says(&run, TaskState::TaskKilling, None, now);
                }
                self.end_task(&run, asked, now);
            }
            Phase::Killing => self.shorten_grace(&run, asked, now),
            Phase::Lost | Phase::Ended => {}
        }
    }

    fn kill_before_delivery(&mut self, run: &Run, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        task.phase = Phase::Ended;
        let place = task.place.clone();
        if matches!(self.config.executors, Executors::External) {
            self.out.push(Output::Kill {
                run: run.clone(),
                grace: Span::ZERO,
            });
        }
        let words = "Killed before delivery to the executor";
        self.agent_says(
            run,
            TaskState::TaskKilled,
            (Reason::TaskKilledDuringLaunch, words),
            now,
        );
        if let Some(place) = place {
            self.leave_executor(run, &place, false, now);
        }
    }

    /// A running task gets SIGTERM, and after the grace SIGKILL.
    pub(crate) fn end_task(&mut self, run: &Run, asked: Option<Span>, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        task.phase = Phase::Killing;
        task.term_at = Some(now);
        task.grace = asked.unwrap_or(task.grace);
        let grace = task.grace;
        self.touch(run);
        self.order_end(run, grace, now);
    }

    /// A later KILL counts from the first, and can only shorten the grace (rule R85).
    fn shorten_grace(&mut self, run: &Run, asked: Option<Span>, now: Timestamp) {
        let Some(task) = self.agent_task(run) else { return };
        let (Some(asked), Some(term_at)) = (asked.filter(|asked| *asked < task.grace), task.term_at) else {
            return;
        };
        task.grace = asked;
        self.touch(run);
        self.order_end(run, term_at.plus(asked).since(now), now);
    }

    fn order_end(&mut self, run: &Run, grace: Span, now: Timestamp) {
        match self.config.executors.clone() {
            Executors::Virtual(how) => self.virtual_kill(run, &how, grace, now),
            Executors::External => {
                let run = run.clone();
                self.out.push(Output::Kill { run, grace });
            }
        }
    }
}
