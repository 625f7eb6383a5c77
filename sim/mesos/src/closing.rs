//! The executor of a command task outlives it by a moment, and for that long nobody can have its name (rule R75).

use crate::cluster::Cluster;
use crate::id::Run;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::task_status::Reason;

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

    /// The agent refuses a task whose executor is still there.
    pub(crate) fn drop_reused(&mut self, run: &Run, now: Timestamp) {
        let known = self.master.frameworks.get(&run.framework);
        let state = known.map_or(TaskState::TaskDropped, |framework| {
            framework.or_lost(TaskState::TaskDropped)
        });
        let words = "Cannot reuse an already existing executor for a command task";
        self.agent_says(run, state, (Reason::TaskInvalid, words), now);
    }
}
