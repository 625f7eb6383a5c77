//! From the master to the agent: a task arrives, is noted, and goes to whoever runs tasks.

use crate::accept::Remainder;
use crate::agent::{AgentTask, Life, Phase};
use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::config::Executors;
use crate::health::Watch;
use crate::id::{AgentId, Container, ExecutorRun, FrameworkId, Run, TaskId};
use crate::output::{Launch, Output};
use crate::shared_executor::Place;
use crate::store::StoreKey;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::{CommandInfo, ExecutorInfo, KillPolicy, TaskInfo, TaskState};
use std::collections::VecDeque;
use std::sync::Arc;

/// From SIGTERM to SIGKILL where neither the task nor KILL says it (rule R85).
const GRACE: Span = Span::seconds(3);

impl Cluster {
    pub(crate) fn launch(
        &mut self,
        framework: &FrameworkId,
        info: &TaskInfo,
        (rest, place): (&Remainder, Option<Arc<Place>>),
        now: Timestamp,
    ) {
        if !self.talks_to(&rest.agent) {
            // The message is lost. The master finds out when the agent registers again (section 7, RECONCILIATION).
            return;
        }
        let container = Container(self.random.uuid());
        let run = Run {
            agent: rest.agent.clone(),
            framework: framework.clone(),
            task: TaskId::new(&info.task_id.value),
            container,
        };
        let command = info.command.clone().unwrap_or_default();
        let mut task = AgentTask {
            name: Arc::from(info.name.as_str()),
            role: rest.role.clone(),
            resources: Bundle::read(&info.resources).unwrap_or_default(),
            container,
            pid: 0,
            phase: Phase::Launching,
            state: TaskState::TaskStaging,
            updates: VecDeque::new(),
            retry: None,
            grace: grace(info.kill_policy.as_ref()).unwrap_or(GRACE),
            term_at: None,
            watch: Watch::of(info),
            life: self.life(info, &command),
            place,
        };
        let place = task.place.clone();
        let reused = match &place {
            Some(place) => self.is_replaced(&run, place),
            None => self.is_closing(&run, now),
        };
        if reused {
            task.phase = Phase::Ended;
            self.note(&run, task);
            return self.drop_reused(&run, place.as_deref(), now);
        }
        let drops = self.agents.get(&run.agent).and_then(|agent| agent.drops.clone());
        if let Some(words) = drops {
            task.phase = Phase::Ended;
            self.note(&run, task);
            return self.drop_start(&run, place.as_deref(), &words, now);
        }
        self.note(&run, task.clone());
        match &self.config.executors {
            Executors::Virtual(how) => {
                let at = now.plus(how.start_delay);
                self.timers.set(at, Timer::VirtualStart(run));
            }
            Executors::External => {
                let executor = self.executor_for(&run, task.place.as_deref());
                let launch = Launch {
                    run,
                    command,
                    container: info.container.clone(),
                    health_check: info.health_check.clone(),
                    check: info.check.clone(),
                    grace: task.grace,
                    volumes: task.resources.volumes(),
                    executor,
                };
                self.out.push(Output::Launch(Box::new(launch)));
            }
        }
    }

    fn executor_for(&self, run: &Run, place: Option<&Place>) -> Option<(ExecutorRun, Arc<ExecutorInfo>)> {
        let place = place?;
        let key = (run.framework.clone(), place.executor.clone());
        let info = self
            .agents
            .get(&run.agent)?
            .executors
            .get(&key)?
            .shared
            .info
            .clone();
        Some((self.executor_run(&run.agent, &key)?, info))
    }

    /// The agent notes the task, and its framework for a later master.
    fn note(&mut self, run: &Run, task: AgentTask) {
        if let Some(agent) = self.agents.get_mut(&run.agent) {
            agent
                .tasks
                .insert((run.framework.clone(), run.task.clone()), task);
            self.introduce(&run.framework, &run.agent);
            self.touch(run);
        }
    }

    /// The agent notes a framework that uses it.
    pub(crate) fn introduce(&mut self, framework: &FrameworkId, agent: &AgentId) {
        let Some(known) = self.master.frameworks.get(framework) else {
            return;
        };
        let info = known.info.clone();
        let agent_known = self.agents.get_mut(agent);
        if agent_known.is_some_and(|known| known.frameworks.insert(framework.clone(), info).is_none()) {
            self.dirty.insert(StoreKey::Agent(agent.clone()));
        }
    }

    fn life(&self, info: &TaskInfo, command: &CommandInfo) -> Life {
        let Executors::Virtual(how) = &self.config.executors else {
            return Life::default();
        };
        let said = |name: &str| setting(info, command, name).and_then(|text| text.parse::<u64>().ok());
        Life {
            runtime: said("SIM_RUNTIME_MS").map(Span).or(how.runtime),
            ends_at: said("SIM_ENDS_AT_MS").map(Timestamp),
            exit_code: said("SIM_EXIT_CODE")
                .and_then(|code| i32::try_from(code).ok())
                .unwrap_or_default(),
            ignores_term: said("SIM_IGNORES_TERM") == Some(1),
            skips_starting: said("SIM_SKIPS_STARTING") == Some(1),
        }
    }

    /// An agent hears that a framework is removed: its tasks are killed and forgotten without an update.
    pub(crate) fn drop_framework(&mut self, agent: &AgentId, framework: &FrameworkId) {
        self.drop_operations(agent, framework);
        let Some(known) = self.agents.get_mut(agent) else {
            return;
        };
        if known.frameworks.remove(framework).is_none() {
            return;
        }
        self.dirty.insert(StoreKey::Agent(agent.clone()));
        known.executors.retain(|(of, _), _| of != framework);
        let doomed: Vec<TaskId> = known
            .tasks
            .keys()
            .filter(|(of, _)| of == framework)
            .map(|(_, task)| task.clone())
            .collect();
        for task in doomed {
            self.drop_task(agent, framework, task);
        }
    }

    /// Kills a task at once and forgets it.
    pub(crate) fn drop_task(&mut self, agent: &AgentId, framework: &FrameworkId, id: TaskId) {
        let key = (framework.clone(), id.clone());
        let Some(task) = self
            .agents
            .get_mut(agent)
            .and_then(|agent| agent.tasks.remove(&key))
        else {
            return;
        };
        let run = Run {
            agent: agent.clone(),
            framework: framework.clone(),
            task: id,
            container: task.container,
        };
        if let Some((at, _)) = task.retry {
            self.timers.cancel(at, Timer::Retry(run.clone()));
        }
        self.touch(&run);
        let lives = !matches!(task.phase, Phase::Ended | Phase::Lost);
        if lives && matches!(self.config.executors, Executors::External) {
            self.out.push(Output::Kill {
                run,
                grace: Span::ZERO,
            });
        }
    }
}

/// A kill policy's grace, when it has one.
pub(crate) fn grace(policy: Option<&KillPolicy>) -> Option<Span> {
    let nanoseconds = policy?.grace_period.as_ref()?.nanoseconds;
    u64::try_from(nanoseconds)
        .ok()
        .map(|nanoseconds| Span(nanoseconds / 1_000_000))
}

/// What a task says about itself by an environment variable or a label.
fn setting(info: &TaskInfo, command: &CommandInfo, name: &str) -> Option<String> {
    let variables = command
        .environment
        .as_ref()
        .map(|env| env.variables.as_slice())
        .unwrap_or_default();
    let variable = variables
        .iter()
        .find(|variable| variable.name == name)
        .and_then(|found| found.value.clone());
    let labels = info
        .labels
        .as_ref()
        .map(|labels| labels.labels.as_slice())
        .unwrap_or_default();
    let label = || {
        labels
            .iter()
            .find(|label| label.key == name)
            .and_then(|found| found.value.clone())
    };
    variable.or_else(label)
}
