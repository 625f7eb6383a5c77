//! What we ask of a cluster: the calls of the Mesos v1 scheduler API in our words.

use crate::event::{OfferId, Reserved};
use crate::reserved::ReservedRoom;
use echelon_core_model::pod::{self, Sidecar};
use echelon_core_model::runtime::{Port, Runtime};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Resources, TaskId, VolumeId};
use std::collections::BTreeMap;

/// A run to launch: one task, or a pod of several that share the host (R83).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its id, which is that of its main task; never used again (R74).
    pub task: TaskId,
    /// Shown by Mesos.
    pub name: String,
    /// The name under which service discovery finds its ports.
    pub discovery: String,
    /// What it is made of; the environment is whole.
    pub runtime: Runtime,
    /// Its ports on the host, one for each that its runtime names.
    pub ports: Vec<Port>,
    /// Room that the task takes, without its volume.
    pub resources: Resources,
    /// The part of that room that its host only lends: no kind is taken from both sides (R91).
    pub revocable: Resources,
    /// The part of the rest, and of its ports, that is reserved for our role; filled in by `Hosts::accept`.
    pub reserved: Vec<ReservedRoom>,
    /// Its volume.
    pub volume: Option<TaskVolume>,
    /// From SIGTERM to SIGKILL; goes into the task itself (R85).
    pub grace: Span,
    /// Longest run (R89).
    pub max_run: Option<Span>,
    /// Labels, shown by Mesos.
    pub labels: BTreeMap<String, String>,
    /// What runs beside it; with any, it is a pod. Their environment is whole, too.
    pub sidecars: Vec<Sidecar>,
}

impl Launch {
    /// Room that all of it takes, with its volume.
    #[must_use]
    pub fn room(&self) -> Resources {
        let disk = self.volume.as_ref().map_or(0, TaskVolume::disk);
        self.room_of_tasks().plus(Resources {
            disk,
            ..Resources::ZERO
        })
    }

    /// Room that its tasks take.
    #[must_use]
    pub fn room_of_tasks(&self) -> Resources {
        pod::room(self.resources, self.sidecars.iter().map(|s| s.resources))
    }
}

/// The persistent volume of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskVolume {
    /// Which.
    pub id: VolumeId,
    /// Where the task sees it, when it is made now.
    pub path: String,
    /// In MiB, when it is made now.
    pub size: u64,
    /// Something may have been written to it: it is never made anew.
    pub used: bool,
    /// What the host offers of it, filled in by `Hosts::accept`: nothing, disk reserved for it, or the volume itself. What is
    /// missing is reserved and made with the launch (R123).
    pub offered: Option<Reserved>,
}

impl TaskVolume {
    /// The disk that it takes in MiB.
    #[must_use]
    pub fn disk(&self) -> u64 {
        self.offered.as_ref().map_or(self.size, |r| r.disk)
    }
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
        /// The runs, with different ids, and within a pod sidecars with different names (hazard H1).
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
    /// Destroy volumes of a host, and give back disk that is reserved for one, using all its open offers. In this order: a volume,
    /// then its reservation (R122).
    Discard {
        /// Offers, all of `host`.
        offers: Vec<OfferId>,
        /// The host.
        host: HostId,
        /// What to discard, as it is offered.
        reserved: Vec<Reserved>,
        /// Makes the operations' ids differ from those of earlier tries (R125).
        attempt: u64,
        /// How long what is left is not to be offered again.
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
    /// Remove our framework for good, with all of its tasks: its cluster is removed, and nothing of ours runs there (R37, R40).
    TearDown,
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
    /// The status of an operation has been taken in.
    AcknowledgeOperation {
        /// The operation's id.
        id: String,
        /// The agent that the status named: with another one the master dies (hazard H2).
        host: HostId,
        /// The status.
        uuid: [u8; 16],
    },
    /// Have the master drain an agent on which nothing of ours is left, so that other frameworks leave it, too (R131). A call of the
    /// operator API: it needs no subscription, and it may need a permission.
    DrainAgent {
        /// The agent.
        host: HostId,
    },
    /// Have the master offer a drained agent again.
    ReactivateAgent {
        /// The agent.
        host: HostId,
    },
    /// Have the master list all its agents: how large they are, and what is taken of them. A call of the operator API.
    ListAgents,
    /// Ask an agent for its flags. A call of the operator API of that agent.
    ReadFlags {
        /// The agent that was replaced: what the answer is for.
        host: HostId,
        /// Where the agent listens that is there now.
        address: String,
    },
    /// Ask for the state of these tasks; of all that the master tracks when empty.
    Reconcile {
        /// Tasks with their agents.
        tasks: Vec<(String, Option<HostId>)>,
    },
}

impl Call {
    /// Whether it is a call of the operator API. That one was taken in is told; of all others only what came of them shows.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        matches!(
            self,
            Self::DrainAgent { .. }
                | Self::ReactivateAgent { .. }
                | Self::ListAgents
                | Self::ReadFlags { .. }
        )
    }
}
