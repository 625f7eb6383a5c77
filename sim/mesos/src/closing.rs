//! An executor outlives its tasks: that of a command task by a moment, every other one until the ends of its tasks are
//! acknowledged. For that long nobody can have its name (rule R75).

use crate::cluster::Cluster;
use crate::id::{AgentId, ExecutorRun, Run};
use crate::shared_executor::Place;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::Reason;
use std::sync::Arc;

/// How long a command executor takes to close after it has told the end of its task.
const CLOSING: Span = Span::seconds(1);

impl Cluster {
    /// An executor has told the end of its task and closes.
    pub(crate) fn close_executor(&mut self, run: &Run, now: Timestamp) {
        let Some(agent) = self.agents.get_mut(&run.agent) else {
            return;
        };
        agent.closing.retain(|(gone_at, _)| *gone_at > now);
        agent
            .closing
            .push_back((now.plus(CLOSING), (run.framework.clone(), run.task.clone())));
    }

    pub(crate) fn is_closing(&self, run: &Run, now: Timestamp) -> bool {
        self.agents.get(&run.agent).is_some_and(|agent| {
            agent.closing.iter().any(|(gone_at, (framework, task))| {
                *gone_at > now && *framework == run.framework && *task == run.task
            })
        })
    }

    /// Whether the agent still has an ended executor of this name: the master, which does not count it any more, wants
    /// another one.
    pub(crate) fn is_replaced(&self, run: &Run, place: &Place) -> bool {
        let agent = self.agents.get(&run.agent);
        let mut tasks = agent.into_iter().flat_map(|agent| &agent.tasks);
        tasks.any(|((framework, _), task)| {
            let of = task.place.as_ref();
            *framework == run.framework
                && of.is_some_and(|of| of.executor == place.executor && of.container != place.container)
        })
    }

    /// The agent refuses a task whose executor is still there.
    pub(crate) fn drop_reused(&mut self, run: &Run, place: Option<&Place>, now: Timestamp) {
        if place.is_some() {
            let words = "Master wants to launch executor, but one already exists";
            return self.drop_start(run, place, words, now);
        }
        let words = "Cannot reuse an already existing executor for a command task";
        let state = self.dropped_state(run);
        self.agent_says(run, state, (Reason::TaskInvalid, words), now);
    }

    /// The agent cannot start the executor of a task.
    pub(crate) fn drop_start(&mut self, run: &Run, place: Option<&Place>, words: &str, now: Timestamp) {
        let state = self.dropped_state(run);
        self.agent_says(run, state, (Reason::ExecutorTerminated, words), now);
        let Some(place) = place else { return };
        // It never began.
        let executor = ExecutorRun {
            agent: run.agent.clone(),
            framework: run.framework.clone(),
            executor: place.executor.clone(),
            container: place.container,
        };
        self.executor_exited(&executor, -1, now);
    }

    fn dropped_state(&self, run: &Run) -> TaskState {
        let known = self.master.frameworks.get(&run.framework);
        known.map_or(TaskState::TaskDropped, |framework| {
            framework.or_lost(TaskState::TaskDropped)
        })
    }

    /// An agent drops each task from now on, or starts them again. Whether it is known.
    pub(crate) fn fail_starts(&mut self, agent: &AgentId, words: Option<String>) -> bool {
        let known = self.agents.get_mut(agent);
        known.is_some_and(|agent| {
            agent.drops = words.map(Arc::from);
            true
        })
    }
}
