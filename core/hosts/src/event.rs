//! What a cluster tells: the events of the Mesos v1 scheduler API in our words.

use crate::reserved::{Reservations, ReservedRoom, all_ports};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::health::MasterId;
use echelon_core_model::platform::EndSource;
use echelon_core_model::{HostId, PortSet, Resources, Timestamp, VolumeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Id of an offer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub Arc<str>);

/// Room that a host offers us until we accept, decline or lose it. Several offers of one host may be open; their sum is
/// what can be used (Mesos rule R61).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its id.
    pub id: OfferId,
    /// The host's agent.
    pub host: HostId,
    /// The host's name.
    pub hostname: Arc<str>,
    /// Where its agent listens, `host:port`; empty when not told.
    pub address: String,
    /// Room that every role may use, and that is not revocable.
    pub resources: Resources,
    /// Room that the host only lends: revocable, for revocable work.
    pub revocable: Resources,
    /// Ports that every role may use.
    pub ports: PortSet,
    /// Beside these: what is reserved for our role, but for disk with a volume or for one.
    pub reserved_room: Vec<ReservedRoom>,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// When the host is planned to be away.
    pub maintenance: Option<Maintenance>,
    /// Volumes of our role, and disk that is reserved for one.
    pub reserved: Vec<Reserved>,
}

impl Offer {
    /// The ports that our role may use.
    #[must_use]
    pub fn all_ports(&self) -> PortSet {
        all_ports(&self.ports, &self.reserved_room)
    }
}

/// Disk of an offer that is reserved for our role, with a volume on it, or for one by a shard. It is used
/// only as it is offered, whole (R122, R123).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// In MiB.
    pub disk: u64,
    /// How.
    pub by: Reservations,
    /// The volume on it.
    pub volume: Option<OfferedVolume>,
}

/// A persistent volume of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedVolume {
    /// Which.
    pub id: VolumeId,
    /// Who made it, where principals are known.
    pub principal: Option<String>,
    /// Where runs see it.
    pub path: String,
}

/// The label of a reservation that names the volume for which it was made.
pub const VOLUME_LABEL: &str = "echelon_volume";

impl Reserved {
    /// The volume on it, or the one for which it was made.
    #[must_use]
    pub fn volume_id(&self) -> Option<VolumeId> {
        match &self.volume {
            Some(volume) => Some(volume.id.clone()),
            None => self.by.volume().map(VolumeId::new),
        }
    }
}

/// What became of an operation on resources, to whom it is told (R124).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStatus {
    /// The id that we gave it; empty when it is not told.
    pub id: String,
    /// It was done.
    pub done: bool,
    /// It certainly was not, and will not be.
    pub refused: bool,
    /// The agent, where it has one.
    pub host: Option<HostId>,
    /// Set when the status is kept by the agent until it is acknowledged: 16 bytes.
    pub uuid: Option<[u8; 16]>,
    /// A sentence from Mesos; empty when not told. Not trusted.
    pub message: String,
}

/// The wish that a host is empty when its maintenance begins (R129).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InverseOffer {
    /// Its id.
    pub id: OfferId,
    /// The host's agent.
    pub host: HostId,
    /// When it is planned to be away.
    pub maintenance: Maintenance,
}

/// State of a task as the cluster tells it (Mesos rule R92).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskState {
    /// Tracked, not yet at its executor.
    Staging,
    /// Being prepared.
    Starting,
    /// Runs.
    Running,
    /// Told to end.
    Killing,
    /// Ended with status 0.
    Finished,
    /// Ended otherwise.
    Failed,
    /// Ended because it was told to.
    Killed,
    /// Refused as invalid; never ran.
    Error,
    /// Probably dead, not proven.
    Lost,
    /// Never reached its executor; never ran.
    Dropped,
    /// Known not to be there any more.
    Gone,
    /// Its agent is silent; it may live.
    Unreachable,
    /// An operator said that its agent is gone for good.
    GoneByOperator,
    /// The master does not know; proves nothing without the right agent (R104, R109).
    Unknown,
}

/// A status update or the answer to a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// The task id as text: it may not be ours.
    pub task: String,
    /// Its state.
    pub state: TaskState,
    /// The agent, when told.
    pub host: Option<HostId>,
    /// Set when the update is kept by the agent until it is acknowledged (R93): 16 bytes.
    pub uuid: Option<[u8; 16]>,
    /// Which part of Mesos reports it, when told.
    pub source: Option<EndSource>,
    /// Whether it answers a reconciliation.
    pub reconciliation: bool,
    /// Mesos' reason, as its enum's name without the prefix; empty when not told.
    pub reason: String,
    /// A sentence from Mesos or its executor; empty when not told. Not trusted.
    pub message: String,
    /// The sender's clock, when told.
    pub at: Option<Timestamp>,
    /// What a health check says, when told.
    pub healthy: Option<bool>,
    /// What a readiness probe says, when told.
    pub ready: Option<bool>,
}

/// Why a subscription was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// A newer subscription of the same framework took over: do not come back by yourself (R29).
    Superseded,
    /// The framework is gone for good, and its tasks with it: the id is burnt (R37).
    Removed,
    /// Something in it, or in the cluster's settings, is wrong: the same words get the same answer until people change it.
    Wrong,
}

/// What a cluster tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The subscription stands. All offers of earlier ones are void (R28).
    Subscribed {
        /// Our framework id, now ours for good.
        framework: String,
        /// Heartbeats come this often.
        heartbeat: echelon_core_model::time::Span,
        /// Which master leads, if it says so.
        master: Option<MasterId>,
    },
    /// New offers.
    Offers(Vec<Offer>),
    /// An offer is taken back; it may cross our use of it (R63).
    Rescind(OfferId),
    /// Hosts are to be left.
    InverseOffers(Vec<InverseOffer>),
    /// A host is not to be left any more, or at another time, which is told again.
    RescindInverse(OfferId),
    /// A task's state.
    Update(TaskStatus),
    /// What became of an operation on resources.
    Operation(OperationStatus),
    /// An agent is gone (no executor named), or one of its executors ended (R119). Informative only.
    Failure {
        /// The agent.
        host: Option<HostId>,
        /// The executor that ended.
        executor: Option<String>,
    },
    /// The cluster lives.
    Heartbeat,
    /// The stream ended or fell silent; calls under way have unknown outcomes, all offers are void.
    Disconnected {
        /// Why, for people.
        why: String,
    },
    /// The subscription was refused or taken over for good (R25, R29, R37, R38).
    Refused {
        /// What the cluster said.
        message: String,
        /// What that means.
        cause: Refusal,
    },
    /// A call of the operator API was carried out, or there was nothing to do.
    Operated(super::Call),
    /// All agents, as the master lists them to operators.
    Agents {
        /// Those that are registered.
        agents: Vec<super::Agent>,
        /// Those that the master knows and that are not back since it was elected (R117).
        awaited: Vec<HostId>,
        /// What it told of other frameworks.
        sharing: super::ListedSharing,
        /// When agents are planned to be away. `None`: it did not tell.
        planned: Option<BTreeMap<HostId, Maintenance>>,
    },
    /// The master does not list its agents to us: that needs a permission that we have not, or it cannot.
    Unlisted {
        /// What it said.
        why: String,
    },
    /// What the flags say at the address of an agent that was replaced.
    Flags {
        /// The agent that was replaced.
        host: HostId,
        /// How soon its executors end.
        times: AgentTimes,
    },
    /// A call was refused or its outcome is unknown.
    CallFailed {
        /// The call.
        call: super::Call,
        /// Why, for people.
        why: String,
        /// Whether the cluster certainly did not take it in.
        refused: bool,
    },
}

impl TaskState {
    /// Whether the task is certainly dead (R102 excludes `Lost`, `Unreachable`, `Unknown` and `GoneByOperator`, which are
    /// not proof of death).
    #[must_use]
    pub const fn is_proof_of_death(self) -> bool {
        matches!(
            self,
            Self::Finished | Self::Failed | Self::Killed | Self::Error | Self::Dropped | Self::Gone
        )
    }
}

impl fmt::Display for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
