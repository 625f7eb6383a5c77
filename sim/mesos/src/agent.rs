//! An agent's own memory, which outlives masters: its tasks and the updates that nobody has acknowledged yet. And what
//! the master holds about the agent, which does not.

use crate::bundle::Bundle;
use crate::config::AgentSpec;
use crate::drain::Drain;
use crate::feedback::Confirmation;
use crate::health::Watch;
use crate::id::{AgentId, Container, ExecutorId, FrameworkId, TaskId};
use crate::inverse_offer::InverseAnswer;
use crate::shared_executor::{AgentExecutor, Place, SharedExecutor};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{CheckStatusInfo, FrameworkInfo, Labels, TaskState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A task's name on an agent.
pub(crate) type TaskKey = (FrameworkId, TaskId);

/// An executor's name on an agent.
pub(crate) type ExecutorKey = (FrameworkId, ExecutorId);

/// An agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub id: AgentId,
    /// Operations change its resources: an agent writes down what is reserved and which volumes it has.
    pub spec: AgentSpec,
    /// Its process lives.
    pub up: bool,
    /// Since when its executors are without it: its process has ended and left its tasks running. An executor
    /// that ends meanwhile, with its command, is not reported.
    pub stopped_at: Option<Timestamp>,
    /// The network lets it talk to the master.
    pub linked: bool,
    pub tasks: BTreeMap<TaskKey, AgentTask>,
    /// Executors that live on for more than one task.
    pub executors: BTreeMap<ExecutorKey, AgentExecutor>,
    /// The frameworks whose tasks it runs, to tell a new master about them.
    pub frameworks: BTreeMap<FrameworkId, Arc<FrameworkInfo>>,
    /// Ends of operations that nobody has acknowledged, by the uuid of the update.
    pub confirmations: BTreeMap<[u8; 16], Confirmation>,
    /// Executors of command tasks that have ended but are still closing, with the time at which they are gone (rule R75).
    pub closing: VecDeque<(Timestamp, TaskKey)>,
    /// It drops each task that comes, with these words; `None`: it starts them.
    pub drops: Option<Arc<str>>,
}

/// A task on an agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentTask {
    pub name: Arc<str>,
    pub role: Arc<str>,
    pub resources: Bundle,
    pub container: Container,
    /// The process that runs it; 0 while there is none.
    pub pid: u32,
    pub phase: Phase,
    pub state: TaskState,
    /// Updates in order; only the first is out (rule R94).
    pub updates: VecDeque<Update>,
    /// When the first is sent again, and the gap that led there.
    pub retry: Option<(Timestamp, Span)>,
    /// From SIGTERM to SIGKILL.
    pub grace: Span,
    /// When it got its SIGTERM.
    pub term_at: Option<Timestamp>,
    /// What its executor watches beside its process.
    pub watch: Option<Box<Watch>>,
    /// How it lives, where tasks are virtual.
    pub life: Life,
    /// Where it belongs; `None` has an executor of its own.
    pub place: Option<Arc<Place>>,
}

/// How far an executor has come with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// On its way to the executor.
    Launching,
    /// Running.
    Running,
    /// Told to end.
    Killing,
    /// Its executor died while the agent was away; the agent finds out when it comes back.
    Lost,
    /// Over.
    Ended,
}

/// How a virtual task lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Life {
    /// How long it runs; `None` is for ever.
    pub runtime: Option<Span>,
    /// The moment of its end, before any run time.
    pub ends_at: Option<Timestamp>,
    /// What it exits with.
    pub exit_code: i32,
    /// It ends by SIGKILL only.
    pub ignores_term: bool,
    /// Its executor says TASK_RUNNING first, as custom ones may.
    pub skips_starting: bool,
}

/// A status update of an agent or executor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    pub uuid: [u8; 16],
    pub state: TaskState,
    pub source: Source,
    pub reason: Option<Reason>,
    pub message: Option<String>,
    pub at: Timestamp,
    /// What few updates carry.
    pub extra: Option<Box<Extra>>,
}

/// Parts of an update that are mostly absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Extra {
    /// What the health check says.
    pub healthy: Option<bool>,
    /// What the check says.
    pub check_status: Option<CheckStatusInfo>,
    /// What a custom executor adds.
    pub data: Option<Vec<u8>>,
    pub labels: Option<Labels>,
}

/// What the master holds about an agent.
#[derive(Debug)]
pub(crate) struct Member {
    pub contact: Contact,
    /// Neither offered nor used.
    pub free: Bundle,
    pub tasks: BTreeSet<TaskKey>,
    /// Executors whose resources are taken beside those of their tasks.
    pub executors: BTreeMap<ExecutorKey, SharedExecutor>,
    pub offers: BTreeSet<u64>,
    /// KILLs to deliver when it is back (rule R87).
    pub kills: BTreeSet<TaskKey>,
    /// Its inverse offers that are open.
    pub inverse_offers: BTreeSet<u64>,
    /// What frameworks answered to inverse offers.
    pub answers: BTreeMap<FrameworkId, InverseAnswer>,
    /// An operator wants it empty.
    pub drain: Option<Drain>,
    /// An operator wants nothing of it offered.
    pub deactivated: bool,
}

/// The master's contact with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Known from the registry, not back since the election.
    Recovered,
    /// Registered and connected.
    Connected,
    /// Registered, connection broken, not yet unreachable.
    Disconnected,
    /// Given up at this moment; it may come back.
    Unreachable(Timestamp),
    /// Marked gone; it may not come back.
    Gone,
}

impl Contact {
    /// Registered, whether or not its connection is broken just now.
    pub(crate) const fn is_registered(self) -> bool {
        matches!(self, Self::Connected | Self::Disconnected)
    }
}

impl Member {
    pub(crate) fn new(total: &Bundle) -> Self {
        Self {
            contact: Contact::Connected,
            free: total.clone(),
            tasks: BTreeSet::new(),
            executors: BTreeMap::new(),
            offers: BTreeSet::new(),
            kills: BTreeSet::new(),
            inverse_offers: BTreeSet::new(),
            answers: BTreeMap::new(),
            drain: None,
            deactivated: false,
        }
    }

    /// Whether its resources may be offered.
    pub(crate) const fn is_offerable(&self) -> bool {
        matches!(self.contact, Contact::Connected) && self.drain.is_none() && !self.deactivated
    }

    pub(crate) fn recovered() -> Self {
        Self {
            contact: Contact::Recovered,
            ..Self::new(&Bundle::default())
        }
    }
}

impl Agent {
    pub(crate) fn new(id: AgentId, spec: AgentSpec) -> Self {
        Self {
            id,
            spec,
            up: true,
            stopped_at: None,
            linked: true,
            tasks: BTreeMap::new(),
            executors: BTreeMap::new(),
            frameworks: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            closing: VecDeque::new(),
            drops: None,
        }
    }

    pub(crate) const fn is_reachable(&self) -> bool {
        self.up && self.linked
    }
}
