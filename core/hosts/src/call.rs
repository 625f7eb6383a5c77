//! What we ask of a cluster: the calls of the Mesos v1 scheduler API in our words.

use crate::event::OfferId;
use echelon_core_model::runtime::{Port, Runtime};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Resources, TaskId};
use std::collections::BTreeMap;

/// A task to launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its id; never used again (R74).
    pub task: TaskId,
    /// Shown by Mesos.
    pub name: String,
    /// The name under which service discovery finds its ports.
    pub discovery: String,
    /// What it is made of; the environment is whole.
    pub runtime: Runtime,
    /// Its ports on the host, one for each that its runtime names.
    pub ports: Vec<Port>,
    /// Room that it takes.
    pub resources: Resources,
    /// The part of that room that its host only lends: no kind is taken from both sides (R91).
    pub revocable: Resources,
    /// From SIGTERM to SIGKILL; goes into the task itself (R85).
    pub grace: Span,
    /// Longest run (R89).
    pub max_run: Option<Span>,
    /// Labels, shown by Mesos.
    pub labels: BTreeMap<String, String>,
}

/// What we ask of a cluster. A call is never done when it is taken in (R12): the answer is an event, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Open the one event stream; with the framework id once there is one (R22, R23).
    Subscribe {
        /// The stored framework id.
        framework: Option<String>,
    },
    /// Take over what is configured of our framework, in place of what was first said of it (R55).
    UpdateFramework,
    /// Use offers of one host for tasks; what is left is refused for `refuse`.
    Accept {
        /// Offers, all of `host`.
        offers: Vec<OfferId>,
        /// The host.
        host: HostId,
        /// The tasks, with different ids (hazard H1).
        launches: Vec<Launch>,
        /// How long what is left is not to be offered again.
        refuse: Span,
    },
    /// Give offers back.
    Decline {
        /// The offers.
        offers: Vec<OfferId>,
        /// How long the same room is not to be offered again.
        refuse: Span,
    },
    /// Say about planned maintenance of a host whether it may begin: it is information for the operator only (R129).
    AnswerInverse {
        /// The inverse offers, all of `host`.
        offers: Vec<OfferId>,
        /// The host.
        host: HostId,
        /// Nothing of ours is there any more.
        accept: bool,
        /// How long we are not to be asked again.
        refuse: Span,
    },
    /// Offer again whatever there is.
    Revive,
    /// Offer nothing until revived.
    Suppress,
    /// End a task. Not reliable in any state: repeated until a terminal update (R88).
    Kill {
        /// The task id as text: it may be of an older naming.
        task: String,
        /// Its agent; without it the answers prove less (R104).
        host: Option<HostId>,
        /// From SIGTERM to SIGKILL.
        grace: Span,
    },
    /// The update's effect is durable.
    Acknowledge {
        /// The task.
        task: String,
        /// The agent of the update (R96).
        host: HostId,
        /// The update.
        uuid: [u8; 16],
    },
    /// Ask for the state of these tasks; of all that the master tracks when empty.
    Reconcile {
        /// Tasks with their agents.
        tasks: Vec<(String, Option<HostId>)>,
    },
}
