//! What the cluster wants done outside. The order matters: records are to be kept before anything after them is done,
//! so that nothing is told or started that a restart would have forgotten.

use crate::id::{ExecutorRun, Run, StreamId};
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::scheduler::Event;
use echelon_proto::mesos::v1::{CheckInfo, CommandInfo, ContainerInfo, ExecutorInfo, HealthCheck};
use std::sync::Arc;

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Output {
    /// Keep a record for [`crate::Cluster::recover`], or forget it.
    Store {
        /// Its name.
        key: String,
        /// Its bytes; `None` forgets it.
        value: Option<Vec<u8>>,
    },
    /// Send an event.
    Event {
        /// On this stream.
        stream: StreamId,
        /// This one.
        event: Box<Event>,
    },
    /// The stream is over.
    Close {
        /// Which one.
        stream: StreamId,
        /// How it ends.
        end: StreamEnd,
    },
    /// The master died of its own assertion, as a real one would: the framework has sent what it must never send (rules
    /// H1, H2, S25). Whoever holds the cluster is to stop and say so.
    Crash {
        /// What brought it down.
        why: String,
    },
    /// Run a task, then report [`crate::Cluster::started`] and [`crate::Cluster::exited`].
    Launch(Box<Launch>),
    /// A persistent volume is destroyed: what is in it goes.
    Destroy {
        /// Its id.
        volume: String,
    },
    /// Ask a custom executor to end, then report [`crate::Cluster::executor_exited`].
    Shutdown(ExecutorRun),
    /// Give a message to a custom executor.
    Message {
        /// Which one.
        executor: ExecutorRun,
        /// What it gets.
        data: Vec<u8>,
    },
    /// End a task: SIGTERM, and SIGKILL after the grace.
    Kill {
        /// Which one.
        run: Run,
        /// The time between the two; zero means SIGKILL at once.
        grace: Span,
    },
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The master ended the answer properly.
    Finished,
    /// The connection broke.
    Broken,
}

/// A task to run.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Which run.
    pub run: Run,
    /// What to run.
    pub command: CommandInfo,
    /// The container that it asks for.
    pub container: Option<ContainerInfo>,
    /// What its executor asks again and again, to report [`crate::Cluster::checked`].
    pub health_check: Option<HealthCheck>,
    /// The same, to report [`crate::Cluster::check_said`].
    pub check: Option<CheckInfo>,
    /// The task's own grace between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Its persistent volumes: their ids, and where it sees them.
    pub volumes: Vec<(String, String)>,
    /// The executor that it shares with others. A custom one runs it, and what it says of it is reported by
    /// [`crate::Cluster::reported`].
    pub executor: Option<(ExecutorRun, Arc<ExecutorInfo>)>,
}
