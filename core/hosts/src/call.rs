//! What we ask of a cluster: the calls of the Mesos v1 scheduler API in our words.

use crate::event::{OfferId, Reserved};
use echelon_core_model::runtime::{Port, Runtime};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, Resources, TaskId, VolumeId};
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
    /// Room that it takes, without its volume.
    pub resources: Resources,
    /// The part of that room that its host only lends: no kind is taken from both sides (R91).
    pub revocable: Resources,
    /// Its volume.
    pub volume: Option<TaskVolume>,
    /// From SIGTERM to SIGKILL; goes into the task itself (R85).
    pub grace: Span,
    /// Longest run (R89).
    pub max_run: Option<Span>,
    /// Labels, shown by Mesos.
    pub labels: BTreeMap<String, String>,
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

impl Launch {
    /// All room that it takes, with its volume.
    #[must_use]
    pub fn room(&self) -> Resources {
        let disk = self.volume.as_ref().map_or(0, TaskVolume::disk);
        self.resources.plus(Resources {
            disk,
            ..Resources::ZERO
        })
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
    /// Ask for the state of these tasks; of all that the master tracks when empty.
    Reconcile {
        /// Tasks with their agents.
        tasks: Vec<(String, Option<HostId>)>,
    },
}
